"""One writer of `commitlog bench loop`, in a process of its own: what it is told on stdin, and what it answers on stdout.

It goes step by step with the others, so that all connect, and all write, at the same moment:
a job in JSON -> `imported`; `connect` -> its first commit, `{"failed": ...}`; `go` -> loops until the time is over, `Loops`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import CommitLogError

if TYPE_CHECKING:
    import duckdb

ROWS = 100
COLUMNS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Job:
    """What one writer does.

    Attributes:
        kind: "append" or "transaction" (the settings come by the environment), or "stock" (DuckLake's own client).
        table: where it appends.
        seconds: how long.
        lake: of the stock client: its catalog as ATTACH takes it.
        data_path: of the stock client.
    """

    kind: str
    table: str
    seconds: float
    lake: str = ""
    data_path: str = ""


@dataclass(slots=True)
class Loops:
    """What a writer did: ms of each loop that committed, ms of its commit alone, errors, seconds, seconds of CPU."""

    loop_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0
    cpu_s: float = 0.0


class _Took(NamedTuple):
    loop_s: float
    commit_s: float


class _Loop(Protocol):
    failures: type[Exception]

    def once(self) -> _Took: ...


class _CommitLogLoop:
    failures: type[Exception] = CommitLogError

    def __init__(self, table: str) -> None:
        self._table = table
        self._rows = pa.table({name: pa.array(range(ROWS), pa.int64()) for name in COLUMNS})
        self._log = CommitLog.connect(settings=Settings.load())


class AppendLoop(_CommitLogLoop):
    """A file, and one call that appends it; that call counts as the commit."""

    def once(self) -> _Took:
        began = time.perf_counter()
        path = self._log.new_file(self._table)
        pq.write_table(self._rows, path)
        written = time.perf_counter()
        self._log.append(self._table, files=[path])
        ended = time.perf_counter()
        return _Took(ended - began, ended - written)


class TransactionLoop(_CommitLogLoop):
    """A transaction, which begins at the newest snapshot; a file that it appends, its answer."""

    def once(self) -> _Took:
        began = time.perf_counter()
        transaction = self._log.transaction()
        path = transaction.new_file(self._table)
        pq.write_table(self._rows, path)
        transaction.append(self._table, files=[path])
        published = time.perf_counter()
        transaction.commit()
        ended = time.perf_counter()
        return _Took(ended - began, ended - published)


class StockLoop:
    """An INSERT of the same rows by DuckLake's own client, into a file too."""

    def __init__(self, job: Job) -> None:
        import duckdb

        self.failures: type[Exception] = duckdb.Error
        self._connection = attach_stock(job.lake, job.data_path)
        columns = ", ".join(f"i AS {name}" for name in COLUMNS)
        self._insert = f"INSERT INTO {job.table} SELECT {columns} FROM range({ROWS}) r(i)"

    def once(self) -> _Took:
        began = time.perf_counter()
        self._connection.execute(self._insert)
        took_s = time.perf_counter() - began
        return _Took(took_s, took_s)


def attach_stock(lake: str, data_path: str) -> duckdb.DuckDBPyConnection:
    """DuckLake's own client as it comes, but that it writes each insert into a file."""
    import duckdb

    from commitlog.ops.duckdb_client import extension_file, quoted

    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    for extension in ("postgres_scanner", "ducklake"):
        connection.execute(f"LOAD '{quoted(str(extension_file(extension)))}'")
    options = f"DATA_PATH '{quoted(data_path)}', DATA_INLINING_ROW_LIMIT 0"
    connection.execute(f"ATTACH 'ducklake:postgres:{quoted(lake)}' AS lake ({options})")
    connection.execute("USE lake")
    return connection


def main() -> None:
    """Do as told."""
    job = Job(**json.loads(sys.stdin.readline()))
    _answer("imported")
    sys.stdin.readline()
    try:
        loop = connected(job)
        loop.once()
    except Exception as error:
        _answer(json.dumps({"failed": _line(error)}))
        return
    _answer(json.dumps({"failed": None}))
    sys.stdin.readline()
    _answer(json.dumps(dataclasses.asdict(measured(loop, job.seconds))))


def connected(job: Job) -> _Loop:
    """A loop that is ready to run."""
    if job.kind == "stock":
        return StockLoop(job)
    return AppendLoop(job.table) if job.kind == "append" else TransactionLoop(job.table)


def measured(loop: _Loop, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Loops:
    """Loop for so many seconds, each turn waiting for its answer."""
    done = Loops()
    cpu_before, began = time.process_time(), clock()
    while clock() - began < seconds:
        try:
            took = loop.once()
        except loop.failures as error:
            done.failures.append(_line(error))
            continue
        done.loop_ms.append(took.loop_s * 1000)
        done.commit_ms.append(took.commit_s * 1000)
    done.elapsed_s, done.cpu_s = clock() - began, time.process_time() - cpu_before
    return done


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _answer(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
