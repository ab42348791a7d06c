"""What `commitlog bench memory` tells of a state."""

from __future__ import annotations

import json

from click.testing import CliRunner

from commitlog import compiled
from commitlog.ops.bench.memory import FILES_WEIGHED, Weight
from commitlog.ops.cli import cli


def test_bench_memory_when_in_json_then_what_a_state_of_so_many_files_weighs() -> None:
    done = CliRunner().invoke(cli, ["bench", "memory", "--files", "10000", "--rate", "1000", "--json"])
    assert done.exception is None, done.output
    (told,) = json.loads(done.stdout)
    assert (told["files"], told["per_second"], told["core"]) == (10_000, 1_000, compiled.form)
    assert told["goals"] == []


def test_a_state_when_heavier_than_it_may_be_then_its_goal_is_missed() -> None:
    (light,), (heavy,) = (Weight(40_000, FILES_WEIGHED, mib).goals() for mib in (699.0, 701.0))
    assert light.is_reached
    assert not heavy.is_reached
