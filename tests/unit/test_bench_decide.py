"""What `commitlog bench decide` tells of one proposal."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from commitlog import compiled
from commitlog.ops.cli import cli

pytestmark = pytest.mark.no_cover


def test_bench_decide_when_in_json_then_each_step_of_a_proposal_and_the_form_that_ran() -> None:
    done = CliRunner().invoke(
        cli, ["bench", "decide", "--history", "2100", "--age", "10", "--appends", "100", "--json"]
    )
    assert done.exception is None, done.output
    told = json.loads(done.stdout)
    steps = told["proposal"]
    assert told["core"] == compiled.form
    assert min(steps.values()) > 0
    assert steps["total_us"] == sum(steps[f"{step}_us"] for step in ("decode", "decide", "encode", "replay"))
    assert told["costs"][0]["history"] == 2100
    assert told["search"]["none_ms"] > 0


def test_bench_decide_when_no_history_has_an_age_then_says_so_before_it_measures() -> None:
    done = CliRunner().invoke(cli, ["bench", "decide", "--history", "2000", "--age", "1000"])
    assert done.exit_code == 2
    assert "no --history is longer than an --age by more than 1,000 snapshots" in done.output


def test_bench_decide_when_a_history_is_too_short_for_each_table_to_have_a_file_then_says_so() -> None:
    done = CliRunner().invoke(cli, ["bench", "decide", "--history", "1200", "--age", "10"])
    assert done.exit_code == 2
    assert "1200 is not in the range x>=2000" in done.output
