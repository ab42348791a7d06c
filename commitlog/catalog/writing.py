"""Rows on their way into the catalog: collected per table, sent by COPY, flushed before anything has to find them.

COPY is the fastest way for many rows and the slowest for a few: it takes two round trips a table, and cannot go together
with other statements. What is small is therefore sent `together`, as INSERTs, with all else that its transaction does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.types.numeric import Int8Dumper

from commitlog.catalog.tables import DUCKLAKE_COLUMNS, OWN_SCHEMA

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_COPY_TYPES = {"i": "int8", "s": "varchar", "b": "bool", "t": "timestamptz", "u": "uuid"}
_OUTCOME_TYPES = (
    "int8", "uuid", "text", "int8", "int8", "int8", "text", "text", "text", "int8", "int8", "text", "text", "int4", "jsonb",
    "jsonb", "int8", "timestamptz", "int8", "int4", "int8",
)  # fmt: skip
COPY_TYPES: dict[str, tuple[str, ...]] = {
    **{
        f"ducklake_{name}": tuple(_COPY_TYPES[item.split(":")[1][0]] for item in text.split())
        for name, text in DUCKLAKE_COLUMNS.items()
    },
    "outcomes": _OUTCOME_TYPES,
    "flushed_rows": ("int8", "int8", "int8", "int8"),
}
_COPY_BINARY = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)")
_COPY_TEXT = sql.SQL("COPY {} FROM STDIN")
_INSERT = sql.SQL("INSERT INTO {} VALUES {}")
_MARK = sql.Placeholder()

ROWS_WAITING_MAX = 20_000
VALUES_MAX = 32_000
"""PostgreSQL counts the values of a statement in 16 bits."""

_TIME_MAX = datetime(9999, 12, 31, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_US_MAX = 253_402_214_400_000_000


def to_time(time_us: int) -> datetime:
    """A time in microseconds since 1970; what Python and stock readers cannot hold is cut to the year 9999."""
    if 0 <= time_us < _TIME_US_MAX:
        seconds, micros = divmod(time_us, 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
    return _TIME_MAX if time_us > 0 else _EPOCH


class CopyBuffer:
    """Rows per table, in the order of arrival. ``execute`` sends what waits before it runs, so it sees every row; so many
    rows as ``ROWS_WAITING_MAX`` are sent too, since one changeset can make more than fit into memory.

    own: the schema of our own tables; DuckLake's are where the connection's search path says.
    """

    def __init__(self, conn: Connection, *, own: str = OWN_SCHEMA) -> None:
        self.conn = conn
        self.own = sql.Identifier(own)
        self._own = own
        self._rows: dict[str, list[Sequence[Any]]] = {}
        self._texts: dict[str, list[Sequence[Any]]] = {}
        self._after: list[Callable[[], None]] = []
        self._waiting = 0
        self._inserting: psycopg.Cursor[tuple[Any, ...]] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """One SQL transaction whose statements are collected and sent together, for a few rows of tables whose types are
        known here; the connection has to be in autocommit. What a statement fails of is raised by a later one, at the
        latest when the block ends."""
        try:
            # The connection's own transactions wait for the answers to BEGIN and COMMIT.
            with self.conn.pipeline(), self.conn.cursor() as cursor:
                # One prepared statement for numbers of every size.
                cursor.adapters.register_dumper(int, Int8Dumper)
                cursor.execute("BEGIN")
                self._inserting = cursor
                yield
                cursor.execute("COMMIT")
        except BaseException:
            if not self.conn.closed:
                self.conn.rollback()
            raise
        finally:
            self._inserting = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._rows or self._texts or self._after)

    def after_copy(self, run: Callable[[], None]) -> None:
        """Have ``run`` called, once, when what waits has been sent; it may execute and add more."""
        self._after.append(run)

    def add(self, table: str, row: Sequence[Any]) -> None:
        """Add a row of a table of DuckLake or of our own whose types are known here."""
        rows = self._rows.get(table)
        if rows is None:
            rows = self._rows[table] = []
        rows.append(row)
        self._count()

    def add_text(self, table: str, row: Sequence[Any]) -> None:
        """Add a row of a table made at run time (inlined rows and deletes)."""
        self._texts.setdefault(table, []).append(row)
        self._count()

    def _count(self) -> None:
        self._waiting += 1
        if self._waiting >= ROWS_WAITING_MAX:
            self.flush()

    def flush(self) -> None:
        """Send everything that waits."""
        while not self.is_empty:
            self._send()
            after, self._after = self._after, []
            for run in after:
                run()

    def _send(self) -> None:
        rows_of, texts_of = self._rows, self._texts
        self._rows, self._texts, self._waiting = {}, {}, 0
        if self._inserting is None:
            self._copy(rows_of, texts_of)
            return
        assert not texts_of
        for some in _parted(rows_of):
            self._insert(self._inserting, some)

    def _insert(self, cursor: psycopg.Cursor[tuple[Any, ...]], rows_of: dict[str, list[Sequence[Any]]]) -> None:
        """All in one statement: each costs its sender and PostgreSQL more than a row does."""
        shapes = tuple((_place(self._own, table), len(rows), len(rows[0])) for table, rows in rows_of.items())
        cursor.execute(_insertion(shapes), [value for rows in rows_of.values() for row in rows for value in row])

    def _copy(self, rows_of: dict[str, list[Sequence[Any]]], texts_of: dict[str, list[Sequence[Any]]]) -> None:
        with self.conn.cursor() as cursor:
            for table, rows in rows_of.items():
                with cursor.copy(_COPY_BINARY.format(sql.Identifier(*_place(self._own, table)))) as copy:
                    copy.set_types(COPY_TYPES[table])
                    for row in rows:
                        copy.write_row(row)
            for table, rows in texts_of.items():
                with cursor.copy(_COPY_TEXT.format(sql.Identifier(table))) as copy:
                    for row in rows:
                        copy.write_row(row)

    def execute(
        self, statement: LiteralString | sql.SQL | sql.Composed, parameters: Sequence[Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement that must see the rows added so far."""
        self.flush()
        # With parameters a % in a name, as of a column "discount %", is taken for a placeholder; no parameters is None.
        return self.conn.execute(statement, parameters or None)


def _place(own: str, table: str) -> tuple[str, ...]:
    return (table,) if table.startswith("ducklake_") else (own, table)


@lru_cache(maxsize=64)
def _insertion(shapes: tuple[tuple[tuple[str, ...], int, int], ...]) -> bytes:
    """One statement that inserts so many rows of so many values into each of some tables."""
    *before, last = [
        _INSERT.format(sql.Identifier(*place), _listed([sql.SQL("({})").format(_listed([_MARK] * width))] * count))
        for place, count, width in shapes
    ]
    if not before:
        return last.as_bytes(None)
    named = _listed(
        [sql.SQL("{} AS ({})").format(sql.Identifier(f"insert_{at}"), each) for at, each in enumerate(before)]
    )
    return sql.SQL("WITH {} {}").format(named, last).as_bytes(None)


def _listed(parts: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)


def _parted(rows_of: dict[str, list[Sequence[Any]]]) -> Iterator[dict[str, list[Sequence[Any]]]]:
    """Rows by table, no more at a time than one statement can have values."""
    part: dict[str, list[Sequence[Any]]] = {}
    values = 0
    for table, rows in rows_of.items():
        for row in rows:
            if values + len(row) > VALUES_MAX:
                yield part
                part, values = {}, 0
            part.setdefault(table, []).append(row)
            values += len(row)
    if part:
        yield part
