"""The writers' processes of `commitlog bench loop` and `peers`: what they are told by one pipe, what they answer by another.

They are forked from one that has imported what all of them need, and go step by step, so that all connect, and all write, at
the same moment: a job in JSON -> `ready`; `connect` -> the first commit of each writer, `Connected`; `go` -> turns until the
time is over, `Done`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

import psutil

from commitlog.ops.bench.cpu import CpuTime, cpu_time
from commitlog.ops.bench.turns import DELTA, GATEWAY, ICEBERG, STOCK, StockLake, StockWriter, Writer, open_log_writers

WRITER_THREAD = "writer"


@dataclass(frozen=True, slots=True)
class Job:
    """What the writers of one process do.

    Attributes:
        kind: as `open_writers` takes it.
        tables: where they append, a writer each; each has a thread of its own.
        seconds: how long.
        place: of other clients: where their lake is.
    """

    kind: str
    tables: Sequence[str]
    seconds: float
    place: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connected:
    """By writer the error that kept it from its first commit, or None."""

    failed: Sequence[str | None]


@dataclass(slots=True)
class Loop:
    """What a writer did: ms of each turn that committed, ms of its commit alone, errors, seconds."""

    turn_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """What the writers of one process did, and the CPU that all of it took."""

    loops: Sequence[Loop]
    cpu: CpuTime

    @classmethod
    def from_line(cls, line: str) -> Done:
        """As a process tells it."""
        told = json.loads(line)
        return cls([Loop(**each) for each in told["loops"]], CpuTime(**told["cpu"]))


def main() -> None:
    """Fork a process for each pair of pipes: a kind of writers, and by process the descriptors to read and to write."""
    kind, *pairs = sys.argv[1:]
    if kind in (STOCK, GATEWAY):
        import duckdb  # noqa: F401
    elif kind in (DELTA, ICEBERG):
        import commitlog.ops.bench.peer_turns  # noqa: F401
    pipes = [tuple(map(int, pair.split(","))) for pair in pairs]
    for reading, writing in pipes:
        if os.fork() == 0:
            # An end that another process holds open too would never be seen to close.
            for other in {each for pair in pipes for each in pair} - {reading, writing}:
                with suppress(OSError):
                    os.close(other)
            with os.fdopen(reading) as told, os.fdopen(writing, "w") as answers:
                serve(told, answers)
            return
        os.close(reading)
        os.close(writing)
    for _ in pipes:
        os.wait()


def serve(told: TextIO, answers: TextIO) -> None:
    """Do as told."""

    def answer(text: str) -> None:
        print(text, file=answers, flush=True)

    job = Job(**json.loads(told.readline()))
    answer("ready")
    told.readline()
    writers: Sequence[Writer] = ()
    with ThreadPoolExecutor(len(job.tables), WRITER_THREAD) as pool:
        try:
            writers = open_writers(job.kind, job.tables, job.place)
            failed = list(pool.map(_first_failure, writers))
        except Exception as error:
            failed = [_line(error)] * len(job.tables)
        answer(json.dumps(dataclasses.asdict(Connected(failed))))
        ready = [writer for writer, failure in zip(writers, failed, strict=False) if failure is None]
        told.readline()
        before = _own_cpu()
        loops = list(pool.map(lambda writer: looped(writer, job.seconds), ready))
        answer(json.dumps(dataclasses.asdict(Done(loops, _own_cpu().since(before)))))
        # Until the servers' CPU was read, who serves this process lives on.
        told.readline()


def open_writers(kind: str, tables: Sequence[str], place: Mapping[str, str]) -> Sequence[Writer]:
    """A writer for each table, ready to begin.

    Args:
        kind: "append" or "transaction", or another client's name.
        tables: where each appends.
        place: of another client: where its lake is.
    """
    if kind in (STOCK, GATEWAY):
        return [StockWriter(StockLake(**place), table) for table in tables]
    if kind in (DELTA, ICEBERG):
        from commitlog.ops.bench.peer_turns import open_peers

        return open_peers(kind, tables, place)
    return open_log_writers(kind, tables)


def _first_failure(writer: Writer) -> str | None:
    try:
        writer.turn()
    except Exception as error:
        return _line(error)
    return None


def looped(writer: Writer, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Loop:
    """Turns for so many seconds, each waiting for its answer."""
    done = Loop()
    began = clock()
    while clock() - began < seconds:
        try:
            took = writer.turn()
        except writer.failures as error:
            done.failures.append(_line(error))
            continue
        done.turn_ms.append(took.turn_s * 1000)
        done.commit_ms.append(took.commit_s * 1000)
    done.elapsed_s = clock() - began
    return done


def _own_cpu() -> CpuTime:
    names = {each.native_id: each.name for each in threading.enumerate() if each.native_id is not None}
    return cpu_time(psutil.Process(), names)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


if __name__ == "__main__":
    main()
