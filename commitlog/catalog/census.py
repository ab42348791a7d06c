"""What the catalog holds at a snapshot, counted: for those who compare it with the log."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from commitlog.catalog.outside_files import deletes_by_position, rows_outside_files
from commitlog.catalog.queries import Catalog

_COUNT_OUTCOMES = sql.SQL("SELECT verdict, count(*) FROM commitlog.outcomes WHERE seq BETWEEN 1 AND %s GROUP BY 1")


@dataclass(frozen=True, slots=True)
class TableCensus:
    """A live table: its files, the sum of their ids, their rows that are not deleted, and its rows in no file."""

    table_id: int
    files: int
    file_ids: int
    rows_in_files: int
    rows_elsewhere: int


def census(catalog: Catalog, snapshot_id: int) -> dict[int, TableCensus]:
    """Every table that is live at a snapshot, counted, by id."""
    with catalog.at_once() as conn:
        tables = [row[0] for row in conn.execute(_TABLES, [snapshot_id] * 2)]
        files = {row[0]: row[1:] for row in conn.execute(_FILES, [snapshot_id] * 4)}
        elsewhere, inlined = rows_outside_files(conn, snapshot_id), deletes_by_position(conn, snapshot_id)
        found = {}
        for table_id in tables:
            count, ids, rows, filed = files.get(table_id, (0, 0, 0, 0))
            in_files = int(rows - filed) - inlined.get(table_id, 0)
            found[table_id] = TableCensus(table_id, int(count), int(ids), in_files, elsewhere.get(table_id, 0))
    return found


def count_outcomes(catalog: Catalog, seq: int) -> dict[str, int]:
    """How many outcomes up to one the catalog has, by verdict."""
    with catalog.connected() as conn:
        return dict(conn.execute(_COUNT_OUTCOMES, (seq,)).fetchall())


_TABLES = """SELECT table_id FROM ducklake_table
             WHERE begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s)"""
_FILES = """SELECT f.table_id, count(*), sum(f.data_file_id), sum(f.record_count), sum(coalesce(d.delete_count, 0))
            FROM ducklake_data_file f
            LEFT JOIN ducklake_delete_file d ON d.data_file_id = f.data_file_id AND d.begin_snapshot <= %s
                 AND (d.end_snapshot IS NULL OR d.end_snapshot > %s)
            WHERE f.begin_snapshot <= %s AND (f.end_snapshot IS NULL OR f.end_snapshot > %s) GROUP BY 1"""
