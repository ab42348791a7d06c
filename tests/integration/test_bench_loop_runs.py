"""The bench of the closed loop, for a second: what it prints here says nothing of speed."""

from __future__ import annotations

import pytest

from commitlog.config import Settings
from commitlog.ops.bench.loop import run_loop_bench


@pytest.mark.nightly
def test_bench_loop_when_run_then_all_writers_commit_and_every_part_is_told(settings: Settings) -> None:
    result = run_loop_bench(settings, writers=(1, 2), seconds=1, warm_up_s=1, repetitions=2)
    teams = [
        (kind, tables, writers)
        for kind in ("append", "transaction", "stock")
        for tables in ("own", "one")
        for writers in (1, 2)
    ]
    assert [(each.team.kind, each.team.tables, each.team.writers) for each in result.rates] == teams
    assert all(each.commits_per_second > 0 for each in result.rates)
    assert not any(each.connect_failures for each in result.rates)
    ours = [each for each in result.rates if each.team.kind != "stock"]
    assert not any(each.failures for each in ours)
    assert all(result.times_stock(each.team) for each in ours)
    parts = {"broker", "PostgreSQL", "sequencer", "projector"}
    assert set(result.idle_percent) == parts
    assert all(set(each.cpu_ms) == {"client", *parts} and each.broker_us > 0 for each in ours)
    assert "request-handler" in ours[-1].thread_cpu_ms["broker"]
    assert "writer" in ours[-1].thread_cpu_ms["client"]
