"""Rows on their way into the catalog: collected per table, sent by COPY, there before anything has to find them.

COPY is the fastest way for many rows and the slowest for a few: it takes two round trips a table, and cannot go together
with other statements. So many rows are sent while more are collected, and what is small is sent at once: one statement that is
a SQL transaction by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, LiteralString, NamedTuple, TypeAlias

import psycopg
from mypy_extensions import mypyc_attr
from psycopg import pq, sql
from psycopg.adapt import Dumper

from commitlog.catalog.connecting import Connection
from commitlog.catalog.copying import CopyQueue
from commitlog.catalog.packing import array_bytes, copy_bytes

Rows: TypeAlias = dict[str, list[Sequence[Any]]]

_COPY_BINARY = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)")
_COPY_TEXT = sql.SQL("COPY {} FROM STDIN")
_INSERT = sql.SQL("INSERT INTO {place} SELECT v.* FROM {after}{rows} AS v")
_REPLACE: dict[str, sql.SQL] = {
    "ducklake_table_stats": sql.SQL("""
        UPDATE {place} AS t
        SET record_count = v.record_count, next_row_id = v.next_row_id, file_size_bytes = v.file_size_bytes
        FROM {after}{rows} AS v WHERE t.table_id = v.table_id"""),
    "ducklake_table_column_stats": sql.SQL("""
        UPDATE {place} AS t
        SET contains_null = v.contains_null, contains_nan = v.contains_nan, min_value = v.min_value, max_value = v.max_value
        FROM {after}{rows} AS v WHERE t.table_id = v.table_id AND t.column_id = v.column_id"""),
}
"""How a row takes the place of the one with its key."""

_ROWS = sql.SQL("unnest({mark}::{place}[])")
_ROW_TYPES = sql.SQL("SELECT {}")
_ROW_TYPE = sql.SQL("{}::regtype::oid")
_MARK = sql.Placeholder()
_AT_ANY_TIME = sql.SQL("")
_AFTER_FIRST = sql.SQL("first, ")

ROWS_WAITING_MAX = 20_000
"""So many rows are sent, whatever else is on its way: a changeset can have more than memory holds."""
ROWS_SENT_MIN = 4_000
"""So many are sent as soon as PostgreSQL has nothing else to do: fewer make more commands, which cost it more."""
SENDING_BYTES_MAX = 8 * 1024 * 1024
LOOK_ROWS = 128
"""After so many rows more it is looked how those fare that are being sent."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_US_MAX = 253_402_214_400_000_000


def shown_time_us(time_us: int) -> int:
    """A time in microseconds since 1970; what Python and stock readers cannot hold is cut to the year 9999."""
    return min(max(time_us, 0), _TIME_US_MAX)


def to_time(time_us: int) -> datetime:
    """A time in microseconds since 1970, cut likewise."""
    return _EPOCH + timedelta(microseconds=shown_time_us(time_us))


class _Packed(NamedTuple):
    """Rows as one parameter."""

    data: bytes


@mypyc_attr(native_class=False)
class _PackedDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: _Packed) -> bytes:
        return obj.data


class CopyBuffer:
    """Rows per table, in the order of arrival. ``execute`` sends what waits before it runs, so it sees every row.

    own: the schema of our own tables; DuckLake's are where the connection's search path says.
    meanwhile: as `CopyQueue` has it.
    """

    def __init__(self, conn: Connection, *, own: str, meanwhile: Callable[[], bool]) -> None:
        self.conn = conn
        self.conn.adapters.register_dumper(_Packed, _PackedDumper)
        self.own = sql.Identifier(own)
        self._own = own
        self._rows: Rows = {}
        self._replacing: Rows = {}
        self._texts: Rows = {}
        self._after: list[Callable[[], None]] = []
        self._waiting = 0
        self._is_held = False
        self._row_types: dict[str, int] = {}
        self._sending = CopyQueue(conn, meanwhile)
        self._unlooked = 0

    # --- collecting ---------------------------------------------------------------------------------------------------

    def after_copy(self, run: Callable[[], None]) -> None:
        """Have ``run`` called, once, when what waits is on its way; it may execute and add more."""
        self._after.append(run)

    def add(self, table: str, row: Sequence[Any]) -> None:
        """Add a row of a table of DuckLake or of our own, as `packing.TYPES` has it."""
        rows = self._rows.get(table)
        if rows is None:
            rows = self._rows[table] = []
        rows.append(row)
        self._count()

    def add_all(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Add several rows of such a table."""
        self._rows.setdefault(table, []).extend(rows)
        self._count(len(rows))

    def waiting(self, table: str) -> Sequence[Sequence[Any]]:
        """The rows of such a table that wait, in the order of arrival."""
        return self._rows.get(table, ())

    def add_text(self, table: str, row: Sequence[Any]) -> None:
        """Add a row of a table made at run time (inlined rows and deletes)."""
        self._texts.setdefault(table, []).append(row)
        self._count()

    def replace(self, table: str, row: Sequence[Any]) -> None:
        """Have a row take the place of the one with its key, which was sent before."""
        self._replacing.setdefault(table, []).append(row)

    def _count(self, more: int = 1) -> None:
        self._waiting += more
        if self._is_held:
            return
        if self._waiting >= ROWS_WAITING_MAX:
            self._send()
            if self._sending.size_bytes > SENDING_BYTES_MAX:
                self.settle()
            return
        self._unlooked += more
        if self._unlooked >= LOOK_ROWS:
            self._unlooked = 0
            self._sending.go_on()
            if self._sending.is_done and self._waiting >= ROWS_SENT_MIN:
                self._send()

    def _taken(self) -> tuple[Rows, Rows]:
        taken = self._rows, self._texts
        self._rows, self._texts, self._waiting = {}, {}, 0
        return taken

    def _run_after(self) -> None:
        after, self._after = self._after, []
        for run in after:
            run()

    # --- many rows, in the caller's SQL transaction -------------------------------------------------------------------

    def flush(self) -> None:
        """Send everything that waits; all of it is there when this returns."""
        while self._rows or self._texts or self._after:
            self._send()
        self.settle()
        replacing, self._replacing = self._replacing, {}
        if replacing:
            self._know_row_types(replacing)
        for table, rows in replacing.items():
            self.conn.execute(_replacement(self._own, table), [self._parameter(table, rows)])

    def settle(self) -> None:
        """Wait until nothing is on its way any more."""
        self._sending.finish()

    def _send(self) -> None:
        """Have everything that waits on its way."""
        rows_of, texts_of = self._taken()
        for table, rows in rows_of.items():
            self._sending.put(_copy_binary(self._own, table), copy_bytes(table, rows))
        if texts_of:
            self.settle()
            self._copy_texts(texts_of)
        self._sending.go_on()
        self._run_after()

    def _copy_texts(self, texts_of: Rows) -> None:
        with self.conn.cursor() as cursor:
            for table, rows in texts_of.items():
                with cursor.copy(_COPY_TEXT.format(sql.Identifier(table))) as copy:
                    for row in rows:
                        copy.write_row(row)

    def execute(
        self, statement: LiteralString | sql.SQL | sql.Composed, parameters: Sequence[Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement that must see the rows added so far."""
        assert not self._is_held, "what is sent at once cannot do more than add and replace rows"
        self.flush()
        return self._run(statement, parameters)

    def read(
        self, statement: LiteralString | sql.SQL | sql.Composed, parameters: Sequence[Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Read what no row that waits is about."""
        self.settle()
        return self._run(statement, parameters)

    def _run(
        self, statement: LiteralString | sql.SQL | sql.Composed, parameters: Sequence[Any]
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        # With parameters a % in a name, as of a column "discount %", is taken for a placeholder; no parameters is None.
        return self.conn.execute(statement, parameters or None)

    # --- a few rows, in one statement ---------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is added in the block waits, however much it is."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def write_at_once(self, first: LiteralString, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        """Send everything that waits in one statement, which is a SQL transaction of its own if the caller has none.

        first: a statement that returns a row if the rest may be written; ``{own}`` stands for the schema of our own tables.

        Returns:
            What the first statement returned; None: nothing was written.
        """
        rows_of, texts_of = self._taken()
        assert not texts_of
        replacing, self._replacing = self._replacing, {}
        self._run_after()
        self._know_row_types({**rows_of, **replacing})
        statement = _at_once(first, self._own, tuple(rows_of), tuple(replacing))
        packed = [self._parameter(table, rows) for each in (rows_of, replacing) for table, rows in each.items()]
        return self.conn.execute(statement, [*parameters, *packed], prepare=True).fetchone()

    def _parameter(self, table: str, rows: Sequence[Sequence[Any]]) -> _Packed:
        return _Packed(array_bytes(table, self._row_types[table], rows))

    def _know_row_types(self, tables: Mapping[str, object]) -> None:
        """Ask by which numbers this database knows the row types of some tables."""
        unknown = [table for table in tables if table not in self._row_types]
        if unknown:
            wanted = [_ROW_TYPE.format(sql.Literal(_place(self._own, table).as_string())) for table in unknown]
            row = self._run(_ROW_TYPES.format(sql.SQL(", ").join(wanted)), ()).fetchone()
            assert row is not None
            self._row_types.update(zip(unknown, row, strict=True))


def _place(own: str, table: str) -> sql.Identifier:
    return sql.Identifier(table) if table.startswith("ducklake_") else sql.Identifier(own, table)


@lru_cache(maxsize=64)
def _copy_binary(own: str, table: str) -> bytes:
    return _COPY_BINARY.format(_place(own, table)).as_bytes(None)


def _replacement(own: str, table: str, *, after: sql.SQL = _AT_ANY_TIME) -> sql.Composed:
    return _with_rows(_REPLACE[table], _place(own, table), after)


def _with_rows(statement: sql.SQL, place: sql.Identifier, after: sql.SQL) -> sql.Composed:
    return statement.format(place=place, after=after, rows=_ROWS.format(mark=_MARK, place=place))


@lru_cache(maxsize=64)
def _at_once(first: LiteralString, own: str, added: tuple[str, ...], replaced: tuple[str, ...]) -> bytes:
    """``first``, and if it returns a row the rows of some tables, each table's as one parameter."""
    writes = [_with_rows(_INSERT, _place(own, table), _AFTER_FIRST) for table in added]
    writes += [_replacement(own, table, after=_AFTER_FIRST) for table in replaced]
    named = [sql.SQL("{} AS ({})").format(sql.Identifier(f"write_{at}"), each) for at, each in enumerate(writes)]
    parts = [sql.SQL("first AS ({})").format(sql.SQL(first).format(own=sql.Identifier(own))), *named]
    return sql.SQL("WITH {} SELECT * FROM first").format(sql.SQL(", ").join(parts)).as_bytes(None)
