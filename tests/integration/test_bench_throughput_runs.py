"""The bench of backlogs, with small ones: what it prints here says nothing of speed."""

from __future__ import annotations

import pytest

from commitlog.config import Settings
from commitlog.ops.bench.backlog import COLUMNS
from commitlog.ops.bench.throughput import run_bench


@pytest.mark.nightly
def test_bench_when_run_then_every_figure_is_there(settings: Settings) -> None:
    result = run_bench(settings, proposals=2_000, warm_up_s=1)
    assert [rates.columns for rates in result.rates] == [0, COLUMNS]
    for rates in result.rates:
        assert min(getattr(rates, name) for name in type(rates).__slots__ if name != "columns") > 0
        assert rates.decided_of_copy == pytest.approx(rates.decided_alone / rates.copied)
    assert [latency.per_second for latency in result.latencies] == [0, 1_000]
    assert all(0 < each.receipt_p50_ms <= each.visible_p50_ms for each in result.latencies)
    assert min(result.published_many.per_second, result.published_many.client_cpu_us) > 0
    assert result.rebuilt > 0
    assert result.rebuilt_outcomes > 4 * result.proposals
