"""The bench of the peers, for a second each: every client commits through its own way; its rates here say nothing."""

from __future__ import annotations

import pytest

from commitlog.config import Settings
from commitlog.ops.bench.loop import TABLES
from commitlog.ops.bench.peers import NAMES, run_peers_bench


@pytest.mark.nightly
def test_bench_peers_when_run_then_each_client_commits_and_has_a_curve(settings: Settings) -> None:
    result = run_peers_bench(settings, writers=(1, 2), seconds=1, warm_up_s=1)
    assert [(curve.client, curve.tables) for curve in result.curves()] == [
        (name, tables) for name in NAMES.values() for tables in TABLES
    ]
    assert all([point.writers for point in curve.points] == [1, 2] for curve in result.curves())
    assert not any(each.failed for each in result.rates if each.team.writers == 1)
