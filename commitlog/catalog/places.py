"""Where the catalog says that files are: every path it refers to, and which files are to be removed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.query_statements import DATA_PATH
from commitlog.domain.model.types import fold
from commitlog.errors import CatalogMismatchError

_SCHEDULED = sql.SQL("""
    SELECT f.ctid::text, f.data_file_id, CASE WHEN f.path_is_relative THEN d.value || f.path ELSE f.path END,
           f.schedule_start
    FROM ducklake_files_scheduled_for_deletion f
    JOIN ducklake_metadata d ON d.key = 'data_path' AND d.scope IS NULL ORDER BY 2""")
_FORGET_SCHEDULED = sql.SQL("""
    DELETE FROM ducklake_files_scheduled_for_deletion
    WHERE ctid = %s::tid AND data_file_id = %s AND schedule_start = %s""")


class LiveFile(NamedTuple):
    """A data file or delete file of the head."""

    file_id: int
    path: str
    file_size_bytes: int | None
    footer_size: int | None
    is_delete_file: bool


@dataclass(frozen=True, slots=True)
class ScheduledFile:
    """A file that an expiry of snapshots left to be removed. row: how its row is found again."""

    row: str
    file_id: int
    path: str
    scheduled_at: datetime


class TableFolder(NamedTuple):
    """Where relative paths of a table begin, under one of the names it ever had."""

    table_id: int
    name: tuple[str, str]
    path: str


# Tables and schemas of an adopted lake may have paths of their own. Without its table's row a place is not known: NULL.
_TABLES = sql.SQL("""
    SELECT DISTINCT t.table_id, s.schema_name, t.table_name,
           CASE WHEN NOT t.path_is_relative THEN '' WHEN NOT s.path_is_relative THEN s.path
                ELSE d.value || coalesce(s.path, '') END || coalesce(t.path, '') AS folder
    FROM ducklake_table t JOIN ducklake_schema s USING (schema_id)
    JOIN ducklake_metadata d ON d.key = 'data_path' AND d.scope IS NULL""")
_FILES = sql.SQL("""
    SELECT f.{key}, CASE WHEN f.path_is_relative THEN t.folder || f.path ELSE f.path END, f.file_size_bytes, f.footer_size
    FROM {table} f
    LEFT JOIN (SELECT DISTINCT table_id, folder FROM ({tables}) all_names) t ON t.table_id = f.table_id""")
_LIVE = sql.SQL(" WHERE f.end_snapshot IS NULL")
# By the tables in whose folders they lie: nobody has an index of all files by their paths.
_NAMED = sql.SQL("""
    SELECT f.place FROM (SELECT DISTINCT table_id, folder FROM ({tables}) all_names) t,
    LATERAL (SELECT CASE WHEN path_is_relative THEN t.folder || path ELSE path END AS place
             FROM {table} WHERE table_id = t.table_id) f
    WHERE EXISTS (SELECT FROM unnest(%(folders)s::text[]) asked
                  WHERE starts_with(t.folder, asked) OR starts_with(asked, t.folder))
        AND f.place = ANY(%(files)s)""")


def _files(table: str, key: str) -> sql.Composed:
    return _FILES.format(table=sql.Identifier(f"ducklake_{table}"), key=sql.Identifier(key), tables=_TABLES)


def data_path(conn: Connection) -> str:
    """Where the lake's files are; ends with a slash.

    Raises:
        CatalogMismatchError: the catalog does not say.
    """
    row = conn.execute(DATA_PATH).fetchone()
    if row is None:
        raise CatalogMismatchError(
            "ducklake_metadata has no data_path any more: `commitlog catalog rebuild` rebuilds the catalog from the log"
        )
    return str(row[0])


def live_files(conn: Connection) -> Iterator[LiveFile]:
    """The data files and delete files of the head, of the tables that are there."""
    for table, key in (("data_file", "data_file_id"), ("delete_file", "delete_file_id")):
        for file_id, path, size, footer_size in conn.execute(_files(table, key) + _LIVE):
            if path is not None:
                yield LiveFile(file_id, path, size, footer_size, table == "delete_file")


def referenced_paths(conn: Connection) -> Iterator[str]:
    """Every path of a data file or delete file of any snapshot that is kept.

    Raises:
        CatalogMismatchError: where some file is cannot be told.
    """
    for table, key in (("data_file", "data_file_id"), ("delete_file", "delete_file_id")):
        for file_id, path, _, _ in conn.execute(_files(table, key)):
            if path is None:
                raise CatalogMismatchError(
                    f"the catalog names {key} {file_id} of a table that it does not know; see `commitlog doctor`"
                )
            yield path


def named_among(conn: Connection, folders: Collection[str], files: Collection[str]) -> set[str]:
    """Which of these files, below these folders of tables, any snapshot names; all by their whole paths."""
    asked = {"folders": list(folders), "files": list(files)}
    named: set[str] = set()
    for table in ("ducklake_data_file", "ducklake_delete_file"):
        found = conn.execute(_NAMED.format(tables=_TABLES, table=sql.Identifier(table)), asked)
        named.update(place for (place,) in found)
    return named


def scheduled_files(conn: Connection) -> list[ScheduledFile]:
    """The files that were scheduled for deletion; the times are UTC's, whatever zone the session has.

    Raises:
        CatalogMismatchError: there is a row that does not say which file, or since when.
    """
    rows = conn.execute(_SCHEDULED).fetchall()
    if any(None in row for row in rows):
        raise CatalogMismatchError(
            "ducklake_files_scheduled_for_deletion has a row without an id, a path or a time, which commitlog never writes: "
            "remove it"
        )
    return [ScheduledFile(row, file_id, path, at.astimezone(UTC)) for row, file_id, path, at in rows]


def forget_scheduled(conn: Connection, file: ScheduledFile) -> None:
    """Remove the row of a file that is gone; in the caller's SQL transaction, on a session that may write."""
    conn.execute(_FORGET_SCHEDULED, (file.row, file.file_id, file.scheduled_at))


def table_folders(conn: Connection) -> list[TableFolder]:
    """The folder of every table that some kept snapshot knows, under each of its names, case folded."""
    rows = conn.execute(_TABLES).fetchall()
    return [TableFolder(table_id, (fold(schema), fold(table)), path) for table_id, schema, table, path in rows]
