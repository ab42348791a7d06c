"""The bench of the catalog lists what is live, in both kinds of history."""

from __future__ import annotations

from commitlog.ops.bench.catalog import LIVE, run_catalog_bench


def test_bench_catalog_then_every_list_holds_the_live_files() -> None:
    costs = run_catalog_bench(files=10 * LIVE)
    assert [(each.history, each.live) for each in costs] == [
        ("many tables", LIVE),
        ("many tables", LIVE // 2),
        ("one table, compacted", LIVE),
        ("one table, compacted", LIVE),
    ]
    assert all(each.list_ms > 0 for each in costs)
