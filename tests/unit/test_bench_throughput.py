"""The bench of backlogs: which goals its figures reach, and when what was seen. Real rates are no test."""

from __future__ import annotations

from dataclasses import replace

from commitlog.ops.bench.backlog import COLUMNS
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.latency import Latency, first_seen
from commitlog.ops.bench.throughput import BenchResult, PublishedMany, Rates, median_of

PLAIN = Rates(
    0,
    100,
    decided_alone=40_000,
    copied=60_000,
    visible_alone=60_000,
    visible=20_000,
    inserted=133,
    sequencer_cpu_us=22,
    copy_cpu_us=5,
    projector_cpu_us=20,
    decided_of_copy=0.6,
    visible_times_stock=150,
)
WITH_COLUMNS = replace(PLAIN, columns=COLUMNS, visible_alone=30_000, visible=12_000)
ONE = Latency(0, 500, 2, 8, 99, 999)
STEADY = Latency(1_000, 10_000, 4, 20, 15, 50)
MANY = PublishedMany(20_000, 40)


def goals_of(
    rates: tuple[Rates, ...], latencies: tuple[Latency, ...] = (), many: PublishedMany = MANY, rebuilt: float = 35_000
) -> list[Goal]:
    return BenchResult(rates, latencies, many, rebuilt, 7, 8, 1, cpus=2, load_before=0.0).goals()


def test_goals_when_every_figure_is_at_its_bound_then_all_reached() -> None:
    goals = goals_of((PLAIN, WITH_COLUMNS), (ONE, STEADY))
    assert len(goals) == 2 * 6 + 2 + 4 + 1 + 1
    assert [goal.what for goal in goals if not goal.is_reached] == []


def test_goals_when_every_figure_is_a_little_worse_then_none_reached() -> None:
    more = {"sequencer_cpu_us", "columns"}
    worse = [
        replace(
            rates,
            **{
                name: getattr(rates, name) * (1.01 if name == "sequencer_cpu_us" else 0.99)
                for name in Rates.__slots__
                if name not in more - {"sequencer_cpu_us"}
            },
        )
        for rates in (PLAIN, WITH_COLUMNS)
    ]
    late = [replace(ONE, receipt_p50_ms=2.1, receipt_p99_ms=8.1), Latency(1_000, 10, 4.1, 20.1, 15.1, 50.1)]
    goals = goals_of((worse[0], worse[1]), (late[0], late[1]), PublishedMany(19_999, 40), rebuilt=34_999)
    assert [goal.what for goal in goals if goal.is_reached] == []


def test_median_of_repetitions_then_of_each_figure_by_itself() -> None:
    rounds = [Latency(0, 500, *figures) for figures in ((1, 9, 5, 5), (3, 7, 5, 5), (2, 8, 5, 9))]
    assert median_of(rounds) == Latency(0, 500, 2, 8, 5, 5)


def test_first_seen_when_several_became_visible_at_once_then_they_have_its_moment() -> None:
    seen = [(3, 1.0), (4, 2.0), (9, 3.0)]
    assert first_seen([2, 3, 4, 7, 9], seen) == [1.0, 1.0, 2.0, 3.0, 3.0]
