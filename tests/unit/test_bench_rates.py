"""The bench of the closed loop: what a writer counts, and how writers are summed up. Rates of real ones are no test."""

from __future__ import annotations

from typing import Any

from commitlog.errors import CommitLogError
from commitlog.ops.bench.loop import summed
from commitlog.ops.bench.loop_writer import Loops, _Took, measured


class _Scripted:
    """Takes a second of its own clock each turn; each third turn fails."""

    failures: type[Exception] = CommitLogError

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0

    def once(self) -> _Took:
        self.now += 1.0
        self.turns += 1
        if self.turns % 3 == 0:
            raise CommitLogError("refused\nwith more lines")
        return _Took(1.0, 0.25)


def test_measured_when_some_turns_fail_then_their_time_counts_and_their_first_line_is_kept() -> None:
    scripted = _Scripted()
    done = measured(scripted, 6.0, clock=lambda: scripted.now)
    assert (done.loop_ms, done.commit_ms) == ([1000.0] * 4, [250.0] * 4)
    assert done.failures == ["CommitLogError: refused"] * 2
    assert done.elapsed_s == 6.0


def test_summed_when_writers_ran_beside_each_other_then_rates_add_up_and_cpu_is_shared_by_all_commits() -> None:
    one: dict[str, Any] = {"elapsed_s": 2.0, "cpu_s": 0.1}
    loops = [Loops([10.0] * 30, [4.0] * 30, ["X: no"], **one), Loops([20.0] * 20, [8.0] * 20, ["X: no", "Y"], **one)]
    rates = summed("append", 3, 1, loops, {"broker": 0.05})
    assert (rates.writers, rates.connect_failures) == (3, 1)
    assert rates.commits_per_second == 25.0
    assert rates.failures == {"X: no": 2, "Y": 1}
    assert (rates.loop_p50_ms, rates.loop_p99_ms) == (10.0, 20.0)
    assert (rates.commit_p50_ms, rates.commit_p99_ms) == (4.0, 8.0)
    assert rates.cpu_ms == {"client": 4.0, "broker": 1.0}


def test_summed_when_nobody_committed_then_zero_and_no_error() -> None:
    rates = summed("stock", 1, 1, [], {"PostgreSQL": 0.2})
    assert (rates.commits_per_second, rates.loop_p99_ms, rates.failures) == (0.0, 0.0, {})
