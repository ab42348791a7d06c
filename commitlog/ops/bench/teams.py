"""Writers that loop beside each other, in processes of their own, and what they reached together."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.ops.bench.cpu import CpuTime
from commitlog.ops.bench.loop_writer import Connected, Done, Job
from commitlog.ops.bench.metering import Meter, Spent

WRITER_MODULE = "commitlog.ops.bench.loop_writer"
CLIENT = "client"
BROKER = "broker"

WARM_UP_S = 30.0
"""So long a young JVM takes as much time to compile as to answer; writers loop, and nothing counts."""


@dataclass(frozen=True, slots=True)
class Team:
    """Writers that run beside each other.

    Attributes:
        kind: how they commit, as `open_writers` takes it.
        tables: "own", a table each, or "one".
        writers: how many.
        processes: that they are threads of.
    """

    kind: str
    tables: str
    writers: int
    processes: int

    def jobs(self, seconds: float, place: Mapping[str, str]) -> list[Job]:
        """A job for each process."""
        names = [table_name(self.tables, number) for number in range(self.writers)]
        return [Job(self.kind, names[first :: self.processes], seconds, place) for first in range(self.processes)]

    def __str__(self) -> str:
        threads = f" in {self.processes} processes" if self.processes < self.writers else ""
        return f"{self.kind}, {self.tables} table{'s' if self.tables == 'own' else ''}, {self.writers}{threads}"


def table_name(tables: str, number: int) -> str:
    """Where a writer appends: all to one table, or each to its own."""
    return "shared" if tables == "one" else f"t{number}"


def table_names(writers: int) -> list[str]:
    """All tables of so many writers."""
    return [table_name("one", 0), *(table_name("own", number) for number in range(writers))]


@dataclass(frozen=True, slots=True)
class LoopRates:
    """What a team reached; of several repetitions the medians, and all of their failures.

    Attributes:
        team: who.
        connect_failures: how many could not connect and commit once, by the error's first line.
        commits_per_second: of all of them.
        failures: commits that ended with an error, likewise.
        turn_p50_ms, turn_p99_ms: write a file, commit it.
        commit_p50_ms, commit_p99_ms: of a transaction `commit()` alone, from publishing to the receipt; of an append the call,
            which reads the file's footer; of others' clients what writes and commits in one.
        cpu_ms: CPU time of a commit by part of the system.
        thread_cpu_ms: likewise, by part and group of threads.
        broker_us: the broker's CPU time of a record of any of the log's topics; 0 of others' clients.
    """

    team: Team
    connect_failures: Mapping[str, int]
    commits_per_second: float
    failures: Mapping[str, int]
    turn_p50_ms: float
    turn_p99_ms: float
    commit_p50_ms: float
    commit_p99_ms: float
    cpu_ms: Mapping[str, float]
    thread_cpu_ms: Mapping[str, Mapping[str, float]]
    broker_us: float

    @property
    def failed(self) -> int:
        """Commits and connections that ended with an error."""
        return sum(self.failures.values()) + sum(self.connect_failures.values())

    @property
    def cpu_sum_ms(self) -> float:
        """CPU time of a commit in all parts together."""
        return round(sum(self.cpu_ms.values()), 3)

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "failed": self.failed, "cpu_sum_ms": self.cpu_sum_ms}


def run_team(
    settings: Settings, team: Team, seconds: float, meter: Meter, place: Mapping[str, str] | None = None
) -> LoopRates:
    """Have writers loop beside each other; their start, and the first commit of each, is not measured.

    Args:
        settings: of their log, and of the home that they write their errors to.
        team: who they are.
        seconds: how long.
        meter: of the servers.
        place: of other clients: where their lake is.
    """
    with _processes(settings, team.jobs(seconds, place or {})) as processes:
        for process in processes:
            process.heard()
        told = [Connected(**json.loads(answer)) for answer in _all_told(processes, "connect")]
        before = meter.read()
        done = [Done.from_line(answer) for answer in _all_told(processes, "go")]
        spent = meter.read().since(before)
    return summed(team, told, done, spent)


def summed(team: Team, connected: Sequence[Connected], done: Sequence[Done], spent: Spent) -> LoopRates:
    """What all writers did together; ``spent`` is what the servers took meanwhile."""
    loops = [loop for each in done for loop in each.loops]
    turn_ms = [each for one in loops for each in one.turn_ms]
    commit_ms = [each for one in loops for each in one.commit_ms]
    cpu = {CLIENT: _added([each.cpu for each in done]), **spent.cpu}
    broker_s = cpu[BROKER].total_s if BROKER in cpu else 0.0
    return LoopRates(
        team,
        _counted(failure for each in connected for failure in each.failed if failure is not None),
        commits_per_second=round(sum(len(one.turn_ms) / one.elapsed_s for one in loops), 1),
        failures=_counted(failure for one in loops for failure in one.failures),
        turn_p50_ms=percentile(turn_ms, 50),
        turn_p99_ms=percentile(turn_ms, 99),
        commit_p50_ms=percentile(commit_ms, 50),
        commit_p99_ms=percentile(commit_ms, 99),
        cpu_ms={name: _ms_each(each.total_s, turn_ms) for name, each in cpu.items()},
        thread_cpu_ms={
            name: {thread: _ms_each(seconds, turn_ms) for thread, seconds in each.threads_s.items()}
            for name, each in cpu.items()
        },
        broker_us=round(broker_s / max(spent.records, 1) * 1e6, 1),
    )


def _counted(lines: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(lines).items()))


def _added(times: Sequence[CpuTime]) -> CpuTime:
    threads_s: Counter[str] = Counter()
    for each in times:
        threads_s.update(each.threads_s)
    return CpuTime(sum(each.total_s for each in times), dict(threads_s))


def _ms_each(seconds: float, commits: Sequence[float]) -> float:
    return round(seconds / max(len(commits), 1) * 1000, 3)


def percentile(times: Sequence[float], percent: int) -> float:
    """Of any number of times; 0 of none."""
    if len(times) < 2:
        return round(max(times, default=0.0), 2)
    return round(statistics.quantiles(times, n=100, method="inclusive")[percent - 1], 2)


# --- repetitions ------------------------------------------------------------------------------------------------------


def median_rates(rounds: Sequence[LoopRates]) -> LoopRates:
    """Of one team in several repetitions."""
    first = rounds[0]
    return LoopRates(
        first.team,
        _all_failures([each.connect_failures for each in rounds]),
        _median(each.commits_per_second for each in rounds),
        _all_failures([each.failures for each in rounds]),
        turn_p50_ms=_median(each.turn_p50_ms for each in rounds),
        turn_p99_ms=_median(each.turn_p99_ms for each in rounds),
        commit_p50_ms=_median(each.commit_p50_ms for each in rounds),
        commit_p99_ms=_median(each.commit_p99_ms for each in rounds),
        cpu_ms=_medians([each.cpu_ms for each in rounds]),
        thread_cpu_ms={part: _medians([each.thread_cpu_ms[part] for each in rounds]) for part in first.thread_cpu_ms},
        broker_us=_median(each.broker_us for each in rounds),
    )


def _all_failures(rounds: Sequence[Mapping[str, int]]) -> dict[str, int]:
    added: Counter[str] = Counter()
    for failures in rounds:
        added.update(failures)
    return dict(added)


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in rounds for name in each)
    return {name: _median(each.get(name, 0.0) for each in rounds) for name in names}


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 3)


# --- processes --------------------------------------------------------------------------------------------------------


class _Process:
    """One that was forked: what it is told, and what it answers."""

    def __init__(self, to_it: int, from_it: int) -> None:
        self._to_it, self._from_it = os.fdopen(to_it, "w"), os.fdopen(from_it)

    def tell(self, line: str) -> None:
        self._to_it.write(line + "\n")
        self._to_it.flush()

    def heard(self) -> str:
        line = self._from_it.readline()
        if not line:
            raise LogUnavailableError("the bench's own servers", detail="a writer of the bench ended before its time")
        return line

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._to_it.close()
        self._from_it.close()


def _all_told(processes: Sequence[_Process], line: str) -> list[str]:
    for process in processes:
        process.tell(line)
    return [process.heard() for process in processes]


@contextmanager
def _processes(settings: Settings, jobs: Sequence[Job]) -> Iterator[list[_Process]]:
    """A process for each job, which knows it; all of them are forked from one."""
    to_them, from_them = [os.pipe() for _ in jobs], [os.pipe() for _ in jobs]
    theirs = [(to_one[0], from_one[1]) for to_one, from_one in zip(to_them, from_them, strict=True)]
    with (settings.home / "writers.log").open("a") as errors:
        forked_from = subprocess.Popen(
            [
                sys.executable,
                "-m",
                WRITER_MODULE,
                jobs[0].kind,
                *(f"{reading},{writing}" for reading, writing in theirs),
            ],
            env=settings.environment(),
            stderr=errors,
            pass_fds=[each for pair in theirs for each in pair],
            # With a group of their own they can be ended together.
            start_new_session=True,
        )
    for reading, writing in theirs:
        os.close(reading)
        os.close(writing)
    processes = [_Process(to_one[1], from_one[0]) for to_one, from_one in zip(to_them, from_them, strict=True)]
    try:
        for process, job in zip(processes, jobs, strict=True):
            process.tell(json.dumps(dataclasses.asdict(job)))
        yield processes
    finally:
        with suppress(ProcessLookupError):
            # One that waits for its next step is told nothing more.
            os.killpg(forked_from.pid, signal.SIGKILL)
        forked_from.wait()
        for process in processes:
            process.close()
