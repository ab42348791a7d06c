"""`commitlog bench loop`: what a writer feels that waits for each answer before it goes on.

Writers are processes of their own, and loop: write one small Parquet file, append it, by `log.append` or by a transaction that
begins at the newest snapshot. Beside them, in the same run and on the same PostgreSQL, DuckLake's own client inserts the same
rows. CPU time is given by part, since on one machine it is what the rates share.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from urllib.parse import urlsplit

import psutil
import psycopg
from psycopg import sql

from commitlog import compiled
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.local.processes import find_processes
from commitlog.ops.bench.loop_writer import COLUMNS, Job, Loops, attach_stock
from commitlog.ops.bench.throughput import Say, own_servers, service_process
from commitlog.ops.duckdb_client import connection_text

WARM_UP_S = 30.0
IDLE_S = 10.0
SETTLE_S = 2.0
STOCK_DATABASE = "stock"
WRITER_MODULE = "commitlog.ops.bench.loop_writer"


@dataclass(frozen=True, slots=True)
class LoopRates:
    """What so many writers reached together.

    Attributes:
        kind: "append", "transaction", or "stock", DuckLake's own client.
        writers: processes, which connected at the same moment.
        connect_failures: how many of them could not connect and commit once.
        commits_per_second: of all of them.
        failures: commits that ended with an error, by its first line.
        loop_p50_ms, loop_p99_ms: the whole loop.
        commit_p50_ms, commit_p99_ms: of a transaction `commit()` alone, from publishing to the receipt; of an append the call,
            which reads the file's footer; of the stock client the whole INSERT.
        cpu_ms: CPU time of a commit by part of the system.
    """

    kind: str
    writers: int
    connect_failures: int
    commits_per_second: float
    failures: Mapping[str, int]
    loop_p50_ms: float
    loop_p99_ms: float
    commit_p50_ms: float
    commit_p99_ms: float
    cpu_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LoopBench:
    """What was measured. idle_percent: of one core, by part, while nobody writes; load_before: of the minute
    before; core: its form.
    """

    rates: tuple[LoopRates, ...]
    idle_percent: Mapping[str, float]
    seconds: float
    one_table: bool
    cpus: int
    load_before: float
    core: str = compiled.form

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return dataclasses.asdict(self)


def run_loop_bench(
    settings: Settings,
    *,
    writers: Sequence[int],
    seconds: float,
    one_table: bool = False,
    stock: bool = True,
    warm_up_s: float = WARM_UP_S,
    say: Say = lambda line: None,
) -> LoopBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        writers: how many writer processes, one measurement each.
        seconds: how long each measurement takes.
        one_table: all writers append to one table, else each to its own.
        stock: measure DuckLake's own client too.
        warm_up_s: how long the writers run before anything is measured: a young JVM compiles.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    rates: list[LoopRates] = []
    with ExitStack() as stack:
        own = stack.enter_context(own_servers(settings, say))
        parts = {"broker": _server(own, "java"), "PostgreSQL": _server(own, "postgres")}
        tables = ["t0"] if one_table else [f"t{number}" for number in range(max(writers))]
        with ExitStack() as services:
            for name in ("sequencer", "projector"):
                parts[name] = services.enter_context(service_process(own, name))
            _create_tables(own, tables)
            say(f"{len(tables)} writer(s) warm the broker up, {warm_up_s:.0f} s")
            _measure(own, [Job("transaction", table, warm_up_s) for table in tables], parts)
            say(f"nobody writes, {IDLE_S:.0f} s")
            idle_percent = _idle_percent(parts)
            for kind, count in product(("append", "transaction"), writers):
                say(f"{count} writer(s) by {kind}, {seconds:.0f} s")
                jobs = [Job(kind, tables[number % len(tables)], seconds) for number in range(count)]
                rates.append(_measure(own, jobs, parts))
        if stock:
            servers = {"PostgreSQL": parts["PostgreSQL"]}
            lake, data_path = _stock_lake(own, tables)
            for count in writers:
                say(f"{count} writer(s) with DuckLake's own client, {seconds:.0f} s")
                jobs = [Job("stock", tables[n % len(tables)], seconds, lake, data_path) for n in range(count)]
                rates.append(_measure(own, jobs, servers))
    return LoopBench(tuple(rates), idle_percent, seconds, one_table, os.cpu_count() or 1, load_before)


def _create_tables(settings: Settings, tables: Sequence[str]) -> None:
    with CommitLog.connect(settings=settings) as log:
        with log.transaction() as tx:
            for table in tables:
                tx.create_table(table, dict.fromkeys(COLUMNS, "int64"))
        assert tx.outcome.snapshot_id is not None
        log.wait_for_snapshot(tx.outcome.snapshot_id)


def _stock_lake(settings: Settings, tables: Sequence[str]) -> tuple[str, str]:
    """An empty lake of the stock client's own, on the same PostgreSQL: how to attach it, and where its files are."""
    with psycopg.connect(settings.database_url, autocommit=True) as catalog:
        catalog.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(STOCK_DATABASE)))
    lake = connection_text(urlsplit(settings.database_url)._replace(path=f"/{STOCK_DATABASE}").geturl())
    data_path = str(settings.home / "stock")
    connection = attach_stock(lake, data_path)
    for table in tables:
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} BIGINT' for name in COLUMNS)})")
    connection.close()
    return lake, data_path


# --- CPU --------------------------------------------------------------------------------------------------------------


def _server(settings: Settings, program: str) -> psutil.Process:
    """One of the servers of the bench's own home."""
    home = str(settings.home)
    found = find_processes(lambda process: program in process.name() and home in " ".join(process.cmdline()))
    return min(found, key=lambda process: float(process.create_time()))


def _cpu_s(process: psutil.Process) -> float:
    """Of the process and its children, ended ones too."""
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _all_cpu_s(parts: Mapping[str, psutil.Process]) -> dict[str, float]:
    return {name: _cpu_s(process) for name, process in parts.items()}


def _idle_percent(parts: Mapping[str, psutil.Process]) -> dict[str, float]:
    time.sleep(SETTLE_S)
    before = _all_cpu_s(parts)
    time.sleep(IDLE_S)
    return {name: round((now - before[name]) / IDLE_S * 100, 2) for name, now in _all_cpu_s(parts).items()}


# --- writers ----------------------------------------------------------------------------------------------------------


def _measure(settings: Settings, jobs: Sequence[Job], parts: Mapping[str, psutil.Process]) -> LoopRates:
    with _writers(settings, jobs) as writers:
        for writer in writers:
            writer.heard()
        told = [json.loads(answer) for answer in _all_told(writers, "connect")]
        ready = [writer for writer, each in zip(writers, told, strict=True) if each["failed"] is None]
        before = _all_cpu_s(parts)
        loops = [Loops(**json.loads(answer)) for answer in _all_told(ready, "go")]
        cpu_s = {name: now - before[name] for name, now in _all_cpu_s(parts).items()}
    return summed(jobs[0].kind, len(jobs), len(jobs) - len(ready), loops, cpu_s)


def summed(
    kind: str, writers: int, connect_failures: int, loops: Sequence[Loops], cpu_s: Mapping[str, float]
) -> LoopRates:
    """What all writers did together; ``cpu_s`` is what the servers took meanwhile."""
    loop_ms = [each for one in loops for each in one.loop_ms]
    commit_ms = [each for one in loops for each in one.commit_ms]
    failures = [each for one in loops for each in one.failures]
    spent = {"client": sum(one.cpu_s for one in loops), **cpu_s}
    return LoopRates(
        kind,
        writers,
        connect_failures,
        commits_per_second=round(sum(len(one.loop_ms) / one.elapsed_s for one in loops), 1),
        failures={line: failures.count(line) for line in sorted(set(failures))},
        loop_p50_ms=_percentile(loop_ms, 50),
        loop_p99_ms=_percentile(loop_ms, 99),
        commit_p50_ms=_percentile(commit_ms, 50),
        commit_p99_ms=_percentile(commit_ms, 99),
        cpu_ms={name: round(each / max(len(loop_ms), 1) * 1000, 2) for name, each in spent.items()},
    )


def _percentile(times: Sequence[float], percent: int) -> float:
    if len(times) < 2:
        return round(max(times, default=0.0), 2)
    return round(statistics.quantiles(times, n=100, method="inclusive")[percent - 1], 2)


class _Writer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def heard(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LogUnavailableError("the bench's own servers", detail="a writer of the bench ended before its time")
        return line

    def end(self) -> None:
        # One that waits for its next step is told nothing more.
        self._process.kill()
        self._process.communicate()


def _all_told(writers: Sequence[_Writer], line: str) -> list[str]:
    for writer in writers:
        writer.tell(line)
    return [writer.heard() for writer in writers]


@contextmanager
def _writers(settings: Settings, jobs: Sequence[Job]) -> Iterator[list[_Writer]]:
    started: list[_Writer] = []
    with (settings.home / "writers.log").open("a") as errors:
        try:
            for job in jobs:
                process = subprocess.Popen(
                    [sys.executable, "-m", WRITER_MODULE],
                    env=settings.environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
                started.append(_Writer(process))
                started[-1].tell(json.dumps(dataclasses.asdict(job)))
            yield started
        finally:
            for writer in started:
                writer.end()
