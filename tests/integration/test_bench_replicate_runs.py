"""The bench of a link, with few rows: what it prints here says nothing of speed."""

from __future__ import annotations

import pytest

from commitlog.config import Settings
from commitlog.ops.bench.replicate import run_replicate_bench


@pytest.mark.nightly
def test_bench_replicate_when_run_then_all_is_brought_once_and_every_figure_is_there(settings: Settings) -> None:
    result = run_replicate_bench(settings, row_changes=1_000, rows=10, seconds=1, kills=1)
    assert (result.twice, result.brought) == (0, (1_000 + 2 * 1_000) // 10 + 1)
    assert 0 < result.visible_per_second <= result.per_second
    assert 0 <= result.lag_p50_ms <= result.lag_p99_ms
    assert len(result.resume_s) == 1
    assert {"link", "paris: broker", "tokyo: sequencer"} <= result.cpu_us.keys()
