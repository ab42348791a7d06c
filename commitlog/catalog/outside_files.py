"""What the tables of a lake hold outside of their files: which SQL tables have rows that are in no file, and how many rows and
deletes by position there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from typing import LiteralString, NamedTuple

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.query_statements import ROWS_COLUMNS, ROWS_TABLES
from commitlog.catalog.together import looked_at

_ROWS_TABLES: LiteralString = "SELECT table_id, table_name FROM ducklake_inlined_data_tables"
DELETES_TABLES: LiteralString = """
    SELECT substring(relname FROM '[0-9]+$')::bigint, relname FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^ducklake_inlined_delete_[0-9]+$'
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'ducklake_data_file'::regclass)"""
_HOLDS = sql.SQL("SELECT {} WHERE EXISTS (SELECT 1 FROM {})")
_COUNT_ROWS = sql.SQL("""
    SELECT {table_id}, count(*), max(begin_snapshot) FROM {name}
    WHERE begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})""")
_COUNT_DELETES = sql.SQL("""
    SELECT {table_id}, count(*), max(d.begin_snapshot) FROM {name} d JOIN ducklake_data_file f ON f.data_file_id = d.file_id
    WHERE d.begin_snapshot <= {at} AND f.begin_snapshot <= {at} AND (f.end_snapshot IS NULL OR f.end_snapshot > {at})""")


def tables_with_rows(conn: Connection, table_id: int) -> list[str]:
    """The SQL tables with rows of a table that are in no file, oldest first; in the caller's SQL transaction.

    Each alteration of its columns has made one, and of many most hold nothing; one alone is not looked at.
    """
    names = [name for (name,) in conn.execute(ROWS_TABLES, (table_id,))]
    if len(names) < 2:
        return names
    holding = {name for (name,) in looked_at(conn, (_HOLDS.format(each, sql.Identifier(each)) for each in names))}
    return [name for name in names if name in holding]


def columns_with_rows(conn: Connection, table_id: int) -> dict[str, dict[str, int]]:
    """The same, each with its columns' names and ids."""
    tables: defaultdict[str, dict[str, int]] = defaultdict(dict)
    names = tables_with_rows(conn, table_id)
    for table, column, column_id in conn.execute(ROWS_COLUMNS, (table_id, names)) if names else ():
        tables[table][column] = column_id
    return tables


class Outside(NamedTuple):
    """How many there are, and the snapshot that made the newest of them."""

    rows: int
    newest: int


def rows_outside_files(conn: Connection, at: int) -> dict[int, int]:
    """By id of a table, how many of its rows are in no file at a snapshot; in the caller's SQL transaction."""
    return {table_id: found.rows for table_id, found in newest_outside_files(conn, at).items()}


def newest_outside_files(conn: Connection, at: int, among: Set[int] | None = None) -> dict[int, Outside]:
    """The same of the tables that have such rows, with the newest of them.

    among: of which tables; None is all.
    """
    return _looked_at(conn, _COUNT_ROWS, conn.execute(_ROWS_TABLES).fetchall(), at, among)


def deletes_by_position(conn: Connection, at: int, among: Set[int] | None = None) -> dict[int, int]:
    """By id of a table, how many rows of its files are deleted without a delete file at a snapshot; likewise."""
    found = _looked_at(conn, _COUNT_DELETES, conn.execute(DELETES_TABLES).fetchall(), at, among)
    return {table_id: each.rows for table_id, each in found.items()}


def _looked_at(
    conn: Connection, look: sql.SQL, tables: Sequence[tuple[int, str]], at: int, among: Set[int] | None
) -> dict[int, Outside]:
    found: dict[int, Outside] = {}
    looks = (
        look.format(table_id=table_id, name=sql.Identifier(name), at=at)
        for table_id, name in tables
        if among is None or table_id in among
    )
    for table_id, count, newest in looked_at(conn, looks):
        if count:
            before = found.get(table_id, Outside(0, newest))
            found[table_id] = Outside(before.rows + count, max(before.newest, newest))
    return found
