"""How `commitlog bench` shows what it measured to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from commitlog.ops.cli.options import print_table

if TYPE_CHECKING:
    from commitlog.ops.bench.goals import Goal
    from commitlog.ops.bench.teams import LoopRates

THREAD_MS_MIN = 0.01


def told_of(repetitions: int) -> str:
    """What the figures are of."""
    return "measured once" if repetitions == 1 else f"medians of {repetitions}"


def print_goals(goals: Iterable[Goal]) -> None:
    """Each figure with what it has to be."""
    print_table(["", "measured", "goal", ""], [goal.as_row() for goal in goals])


def print_rates(rates: Sequence[LoopRates], title: str) -> None:
    """What teams of writers reached, what a commit cost in CPU by part and thread, and what failed."""
    print_table(
        ["writers", "commits/s", "failed", "turn p50 / p99 ms", "commit p50 / p99 ms"],
        [
            (
                str(each.team),
                f"{each.commits_per_second:,.0f}",
                each.failed,
                f"{each.turn_p50_ms:.1f} / {each.turn_p99_ms:.1f}",
                f"{each.commit_p50_ms:.1f} / {each.commit_p99_ms:.1f}",
            )
            for each in rates
        ],
        title=title,
    )
    parts = list(dict.fromkeys(part for each in rates for part in each.cpu_ms))
    print_table(
        ["writers", *parts, "in all", "broker us a record"],
        [
            (
                str(each.team),
                *(f"{each.cpu_ms[part]:.2f}" if part in each.cpu_ms else "" for part in parts),
                f"{each.cpu_sum_ms:.2f}",
                f"{each.broker_us:.0f}" if each.broker_us else "",
            )
            for each in rates
        ],
        title="ms of CPU a commit",
    )
    for each in rates:
        for part, threads in each.thread_cpu_ms.items():
            click.echo(f"{each.team}, {part}: {_most(threads)}")
    _print_failures(rates)


def print_peers(rates: Sequence[LoopRates], title: str) -> None:
    """What each client's writers reached, and what failed."""
    print_table(
        ["client, tables, writers", "commits/s", "failed", "p50 ms", "p99 ms"],
        [
            (
                str(each.team),
                f"{each.commits_per_second:,.1f}",
                each.failed,
                f"{each.turn_p50_ms:.1f}",
                f"{each.turn_p99_ms:.1f}",
            )
            for each in rates
        ],
        title=title,
    )
    _print_failures(rates)


def _print_failures(rates: Sequence[LoopRates]) -> None:
    for each in rates:
        for line, count in (*each.connect_failures.items(), *each.failures.items()):
            click.echo(f"{each.team}: {count} x {line}")


def _most(threads: Mapping[str, float]) -> str:
    """The threads that take most."""
    order = sorted(threads.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {cpu_ms:.2f}" for name, cpu_ms in order if cpu_ms >= THREAD_MS_MIN)
