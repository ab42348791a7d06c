"""What the tables of a lake hold outside of their files, in counts: rows that are in no file, and deletes by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.together import looked_at

_ROWS_TABLES: LiteralString = "SELECT table_id, table_name FROM ducklake_inlined_data_tables"
_DELETES_TABLES: LiteralString = """
    SELECT substring(relname FROM '[0-9]+$')::bigint, relname FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^ducklake_inlined_delete_[0-9]+$'
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'ducklake_data_file'::regclass)"""
_COUNT_ROWS = sql.SQL("""
    SELECT {table_id}, count(*) FROM {name}
    WHERE begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})""")
_COUNT_DELETES = sql.SQL("""
    SELECT {table_id}, count(*) FROM {name} d JOIN ducklake_data_file f ON f.data_file_id = d.file_id
    WHERE d.begin_snapshot <= {at} AND f.begin_snapshot <= {at} AND (f.end_snapshot IS NULL OR f.end_snapshot > {at})""")


def rows_outside_files(conn: Connection, at: int) -> dict[int, int]:
    """By id of a table, how many of its rows are in no file at a snapshot; in the caller's SQL transaction."""
    return _counts(conn, _COUNT_ROWS, conn.execute(_ROWS_TABLES).fetchall(), at)


def deletes_by_position(conn: Connection, at: int) -> dict[int, int]:
    """By id of a table, how many rows of its files are deleted without a delete file at a snapshot; likewise."""
    return _counts(conn, _COUNT_DELETES, conn.execute(_DELETES_TABLES).fetchall(), at)


def _counts(conn: Connection, count: sql.SQL, tables: Sequence[tuple[int, str]], at: int) -> dict[int, int]:
    found: dict[int, int] = {}
    counts = (count.format(table_id=table_id, name=sql.Identifier(name), at=at) for table_id, name in tables)
    for table_id, number in looked_at(conn, counts):
        found[table_id] = found.get(table_id, 0) + int(number)
    return found
