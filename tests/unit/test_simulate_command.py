"""`commitlog simulate`: what it prints, and that a broken promise ends it with 1."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from commitlog.log.active import Active
from commitlog.ops.cli import cli
from commitlog.simulation import running


def test_simulate_when_all_is_kept_then_says_so() -> None:
    done = CliRunner().invoke(cli, ["simulate", "--seed", "3", "--seeds", "2", "--steps", "50"])
    assert (done.exit_code, done.output) == (0, "2 seeds from 3 of 50 steps: every promise was kept\n")


def test_simulate_when_asked_for_its_story_then_tells_it_the_same_each_time() -> None:
    arguments = ["--seed", "3", "--steps", "50", "--story", "--json"]
    first, second = (json.loads(CliRunner().invoke(cli, ["simulate", *arguments]).output) for _ in range(2))
    assert first == second
    assert any("writes main.results" in line for line in first["story"])


def test_simulate_when_a_promise_is_broken_then_ends_with_1_and_a_short_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SHRINKS_MAX", 5)
    monkeypatch.setattr(Active, "tell_again", lambda self, untold, read: None)
    done = CliRunner().invoke(cli, ["simulate", "--seeds", "100", "--steps", "400"])
    assert done.exit_code == 1
    assert "breaks; shortened to" in done.output
