"""The bench of the closed loop, for a second: what it prints here says nothing of speed."""

from __future__ import annotations

import pytest

from commitlog.config import Settings
from commitlog.ops.bench.loop import run_loop_bench


@pytest.mark.nightly
def test_bench_loop_when_run_then_both_kinds_commit_without_failures(settings: Settings) -> None:
    result = run_loop_bench(settings, writers=(1, 2), seconds=1, warm_up_s=1)
    assert [(each.kind, each.writers) for each in result.rates] == [
        (kind, writers) for kind in ("append", "transaction", "stock") for writers in (1, 2)
    ]
    assert all(each.commits_per_second > 0 for each in result.rates)
    assert sum(each.connect_failures for each in result.rates) == 0
    assert not any(each.failures for each in result.rates if each.kind != "stock")
    assert set(result.idle_percent) == {"broker", "PostgreSQL", "sequencer", "projector"}
