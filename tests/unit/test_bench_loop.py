"""The bench of the closed loop: what a writer counts, how writers are summed up, which goals are reached, but no rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commitlog.errors import CommitLogError
from commitlog.ops.bench.cpu import CpuTime
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.loop import LoopBench
from commitlog.ops.bench.loop_writer import Connected, Done, Loop, looped
from commitlog.ops.bench.metering import Spent
from commitlog.ops.bench.teams import LoopRates, Team, median_rates, summed
from commitlog.ops.bench.turns import STOCK, Took
from commitlog.ops.cli.bench_tables import told_of

EIGHT = Team("append", "own", 8, 8)


class _Scripted:
    """Takes a second of its own clock each turn; each third turn fails."""

    failures: type[Exception] = CommitLogError

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0

    def turn(self) -> Took:
        self.now += 1.0
        self.turns += 1
        if self.turns % 3 == 0:
            raise CommitLogError("refused\nwith more lines")
        return Took(1.0, 0.25)


def test_looped_when_some_turns_fail_then_their_time_counts_and_their_first_line_is_kept() -> None:
    scripted = _Scripted()
    done = looped(scripted, 6.0, clock=lambda: scripted.now)
    assert (done.turn_ms, done.commit_ms) == ([1000.0] * 4, [250.0] * 4)
    assert done.failures == ["CommitLogError: refused"] * 2
    assert done.elapsed_s == 6.0


def test_jobs_when_writers_are_threads_of_few_processes_then_each_has_its_share_and_every_table_a_writer() -> None:
    jobs = Team("append", "own", 6, 4).jobs(1.0, {})
    assert [len(job.tables) for job in jobs] == [2, 2, 1, 1]
    assert sorted(table for job in jobs for table in job.tables) == [f"t{number}" for number in range(6)]
    shared = Team("append", "one", 6, 4).jobs(1.0, {})
    assert {table for job in shared for table in job.tables} == {"shared"}


def test_summed_when_writers_ran_beside_each_other_then_rates_add_up_and_cpu_is_shared_by_all_commits() -> None:
    connected = [Connected([None]), Connected([None]), Connected(["Z"])]
    done = [
        Done([Loop([10.0] * 30, [4.0] * 30, ["X: no"], 2.0)], CpuTime(0.1, {"writer": 0.075})),
        Done([Loop([20.0] * 20, [8.0] * 20, ["X: no", "Y"], 2.0)], CpuTime(0.1, {"writer": 0.05, "rdk:main": 0.05})),
    ]
    rates = summed(Team("append", "own", 3, 3), connected, done, Spent({"broker": CpuTime(0.05)}, records=100))
    assert rates.connect_failures == {"Z": 1}
    assert rates.commits_per_second == 25.0
    assert rates.failures == {"X: no": 2, "Y": 1}
    assert rates.failed == 4
    assert (rates.turn_p50_ms, rates.turn_p99_ms) == (10.0, 20.0)
    assert (rates.commit_p50_ms, rates.commit_p99_ms) == (4.0, 8.0)
    assert (rates.cpu_ms, rates.cpu_sum_ms) == ({"client": 4.0, "broker": 1.0}, 5.0)
    assert rates.thread_cpu_ms == {"client": {"writer": 2.5, "rdk:main": 1.0}, "broker": {}}
    assert rates.broker_us == 500.0


def test_summed_when_nobody_committed_then_zero_and_no_error() -> None:
    rates = summed(Team(STOCK, "one", 1, 1), [Connected(["X"])], [], Spent({"PostgreSQL": CpuTime(0.2)}))
    assert (rates.commits_per_second, rates.turn_p99_ms, rates.failures, rates.broker_us) == (0.0, 0.0, {}, 0.0)


def rates_of(team: Team, per_second: float, *, p50_ms: float = 1.0, cpu_ms: float = 1.0, failed: int = 0) -> LoopRates:
    failures = {"X": failed} if failed else {}
    return LoopRates(team, {}, per_second, failures, p50_ms, 9.0, p50_ms, 9.0, {"client": cpu_ms}, {"client": {}}, 0.0)


def test_median_rates_then_medians_of_figures_and_all_failures() -> None:
    rounds = [rates_of(EIGHT, rate, cpu_ms=rate / 100, failed=1) for rate in (300.0, 100.0, 200.0)]
    assert median_rates(rounds) == replace(rates_of(EIGHT, 200.0, cpu_ms=2.0), failures={"X": 3})


def bench(*rounds: tuple[LoopRates, ...]) -> LoopBench:
    return LoopBench(rounds, {}, seconds=1.0, cpus=2, load_before=0.0)


def goals_by_end(result: LoopBench) -> dict[str, Goal]:
    return {goal.what.rsplit(": ", 1)[-1]: goal for goal in result.goals()}


def test_goals_when_measured_beside_stock_then_ratios_are_of_the_same_round_and_its_better_case() -> None:
    own, one = Team(STOCK, "own", 8, 8), Team(STOCK, "one", 8, 8)
    goals = goals_by_end(
        bench(
            (rates_of(EIGHT, 1000.0, p50_ms=7.0, cpu_ms=1.7), rates_of(own, 50.0), rates_of(one, 100.0)),
            (rates_of(EIGHT, 900.0, p50_ms=7.0, cpu_ms=1.7), rates_of(own, 50.0), rates_of(one, 40.0)),
            (rates_of(EIGHT, 99.0, p50_ms=7.0, cpu_ms=1.7), rates_of(own, 99.0), rates_of(one, 98.0)),
        )
    )
    ratio = goals["x stock's better case"]
    assert (ratio.measured, ratio.bound, ratio.is_reached) == (10.0, 10, True)
    assert goals["p50 ms"].is_reached
    assert not goals["CPU ms a commit"].is_reached
    assert goals["failed commits"].is_reached


def test_goals_when_a_commit_of_ours_fails_then_missed_and_stock_failures_do_not_count() -> None:
    stock = rates_of(Team(STOCK, "own", 8, 8), 100.0, failed=5)
    assert goals_by_end(bench((rates_of(EIGHT, 1.0), stock)))["failed commits"].is_reached
    assert not goals_by_end(bench((rates_of(EIGHT, 1.0, failed=1), stock)))["failed commits"].is_reached


def test_goals_when_stock_was_not_measured_then_no_ratio() -> None:
    assert set(goals_by_end(bench((rates_of(EIGHT, 1.0),)))) == {"p50 ms", "CPU ms a commit", "failed commits"}


@pytest.mark.parametrize(("at_256", "is_reached"), [(3_000.0, True), (2_900.0, False)])
def test_goals_when_writers_are_threads_then_a_rate_and_no_less_with_more(at_256: float, is_reached: bool) -> None:
    goals = goals_by_end(
        bench(
            (
                rates_of(Team("append", "own", 64, 4), 3_000.0),
                rates_of(Team("append", "own", 256, 4), at_256),
                rates_of(Team("append", "own", 32, 32), 10.0),
            )
        )
    )
    assert (goals["commits/s"].measured, goals["commits/s"].bound) == (3_000.0, 2_500)
    assert goals["x that of 64"].is_reached == is_reached


def test_goal_when_shown_then_figure_bound_and_verdict() -> None:
    assert Goal.at_least("x", 12_345.6, 10_000).as_row() == ("x", "12,346", ">= 10,000", "reached")
    assert Goal.at_most("y ms", 1.618, 1.6).as_row() == ("y ms", "1.62", "<= 1.6", "missed")
    assert Goal.at_most("y", 1, 2).as_dict() == {"what": "y", "measured": 1, "at most": 2, "reached": True}


def test_told_of_when_measured_once_then_speaks_of_no_medians() -> None:
    assert [told_of(repetitions) for repetitions in (1, 2)] == ["measured once", "medians of 2"]
