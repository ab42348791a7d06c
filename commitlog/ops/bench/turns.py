"""One turn of a writer that waits for each answer: write a small file, commit it; ours, and by DuckLake's own client.

That client writes to a lake of its own, or through the gateway to ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import connection_text, open_duckdb, quoted
from commitlog.config import Settings
from commitlog.errors import CommitLogError

if TYPE_CHECKING:
    import duckdb

ROWS = 100
COLUMNS = ("a", "b", "c")
STOCK = "stock"
GATEWAY = "gateway"
DELTA = "delta"
ICEBERG = "iceberg"


class Took(NamedTuple):
    """Seconds of a whole turn, and of its commit alone."""

    turn_s: float
    commit_s: float


class Writer(Protocol):
    """Commits again and again; `turn` raises one of `failures` when it could not."""

    failures: type[Exception]

    def turn(self) -> Took:
        """Write a file, commit it."""


def open_log_writers(kind: str, tables: Sequence[str]) -> list[Writer]:
    """Of our kinds; the settings come by the environment, and the writers of one process share its log."""
    log = CommitLog.connect(settings=Settings.load())
    ours: Mapping[str, Callable[[CommitLog, str], Writer]] = {"append": AppendWriter, "transaction": TransactionWriter}
    return [ours[kind](log, table) for table in tables]


def sample_rows() -> pa.Table:
    """What each turn writes."""
    return pa.table({name: pa.array(range(ROWS), pa.int64()) for name in COLUMNS})


def in_one_call(write: Callable[[], object]) -> Took:
    """A turn whose call writes the file and commits it."""
    began = time.perf_counter()
    write()
    took_s = time.perf_counter() - began
    return Took(took_s, took_s)


def create_database(settings: Settings, name: str) -> SplitResult:
    """A new database of the PostgreSQL that the settings name, by its URL."""
    with psycopg.connect(settings.database_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlsplit(settings.database_url)._replace(path=f"/{name}")


class _LogWriter:
    failures: type[Exception] = CommitLogError

    def __init__(self, log: CommitLog, table: str) -> None:
        self._log, self._table, self._rows = log, table, sample_rows()


class AppendWriter(_LogWriter):
    """One call that takes the rows, writes them into a file and commits it, as the other clients' do."""

    def turn(self) -> Took:
        """Write a file, commit it."""
        return in_one_call(lambda: self._log.table(self._table).append(self._rows))


class TransactionWriter(_LogWriter):
    """A transaction, which begins at the newest snapshot; a file that it appends, its answer."""

    def turn(self) -> Took:
        """Write a file, commit it."""
        began = time.perf_counter()
        transaction = self._log.transaction()
        path = transaction.new_file(self._table)
        pq.write_table(self._rows, path)
        transaction.append(self._table, files=[path])
        published = time.perf_counter()
        transaction.commit()
        ended = time.perf_counter()
        return Took(ended - began, ended - published)


@dataclass(frozen=True, slots=True)
class StockLake:
    """A lake as DuckLake's own client knows it: its catalog as ATTACH takes it, and where its files are."""

    catalog: str
    data_path: str

    @classmethod
    def create(cls, settings: Settings, tables: Iterable[str]) -> StockLake:
        """Make one, with tables, in a new database of the PostgreSQL that the settings name."""
        lake = cls(connection_text(create_database(settings, STOCK).geturl()), str(settings.home / STOCK))
        with lake.connect() as connection:
            for table in tables:
                connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} BIGINT' for name in COLUMNS)})")
        return lake

    def connect(self) -> duckdb.DuckDBPyConnection:
        """The client as it comes, but that it writes each insert into a file."""
        connection = open_duckdb("postgres_scanner", "ducklake")
        options = f"DATA_PATH '{quoted(self.data_path)}', DATA_INLINING_ROW_LIMIT 0"
        connection.execute(f"ATTACH 'ducklake:postgres:{quoted(self.catalog)}' AS lake ({options})")
        connection.execute("USE lake")
        return connection

    def place(self) -> dict[str, str]:
        """For `open_writers`."""
        return asdict(self)


class StockWriter:
    """An INSERT of the same rows by DuckLake's own client, into a file too."""

    def __init__(self, lake: StockLake, table: str) -> None:
        import duckdb

        self.failures: type[Exception] = duckdb.Error
        self._connection = lake.connect()
        columns = ", ".join(f"i AS {name}" for name in COLUMNS)
        self._insert = f"INSERT INTO {table} SELECT {columns} FROM range({ROWS}) r(i)"

    def turn(self) -> Took:
        """Write a file, commit it."""
        return in_one_call(lambda: self._connection.execute(self._insert))
