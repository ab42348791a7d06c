"""What the snapshots after one and up to another changed in a table: for streams that follow it.

Maintenance changes no rows, so the files of a COMPACT and of a FLUSH are not listed. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.history import HistoryReader
from commitlog.catalog.queries import Catalog, CatalogFile, CatalogTable
from commitlog.catalog.query_statements import column
from commitlog.catalog.snapshot_diff import ObjectDifference, differences
from commitlog.catalog.taken_over import SitesReader

_INSERTS, _DELETES = "inserted_into_table|inlined_insert", "deleted_from_table|inlined_delete"
_MAINTENANCE = "(^|,)(merge_adjacent|rewrite_delete|compacted_table|inline_flush|flushed_inlined):"

_ROWS_CHANGED = sql.SQL("SELECT {c}, row_id, {columns} FROM {table} WHERE {c} > %s AND {c} <= %s")
_MAINTAINED_AT = sql.SQL("""
    SELECT snapshot_id FROM ducklake_snapshot_changes
    WHERE snapshot_id > %s AND snapshot_id <= %s AND changes_made ~ %s""")
_CHANGED_AT = sql.SQL("""
    SELECT snapshot_id FROM ducklake_snapshot_changes
    WHERE snapshot_id > %s AND snapshot_id <= %s AND changes_made ~ %s ORDER BY snapshot_id LIMIT %s""")
_FILES_ADDED = sql.SQL("""
    SELECT data_file_id, begin_snapshot FROM ducklake_data_file
    WHERE table_id = %s AND begin_snapshot > %s AND begin_snapshot <= %s""")
_POSITIONS_DELETED = sql.SQL("""
    SELECT begin_snapshot, file_id, array_agg(row_id ORDER BY row_id) FROM {}
    WHERE begin_snapshot > %s AND begin_snapshot <= %s GROUP BY 1, 2""")
_DELETE_FILES_ADDED = sql.SQL("""
    SELECT d.begin_snapshot, d.data_file_id, d.path, d.path_is_relative, e.path, e.path_is_relative
    FROM ducklake_delete_file d LEFT JOIN ducklake_delete_file e
         ON e.data_file_id = d.data_file_id AND e.end_snapshot = d.begin_snapshot
    WHERE d.table_id = %s AND d.begin_snapshot > %s AND d.begin_snapshot <= %s""")
_FILES_ENDED = sql.SQL("""
    SELECT f.end_snapshot, f.data_file_id, d.path, d.path_is_relative
    FROM ducklake_data_file f LEFT JOIN ducklake_delete_file d
         ON d.data_file_id = f.data_file_id AND d.begin_snapshot < f.end_snapshot
         AND (d.end_snapshot IS NULL OR d.end_snapshot >= f.end_snapshot)
    WHERE f.table_id = %s AND f.end_snapshot > %s AND f.end_snapshot <= %s""")
_DELETED_BEFORE = sql.SQL("""
    SELECT d.file_id, array_agg(d.row_id ORDER BY d.row_id) FROM {} d
    JOIN unnest(%s::bigint[], %s::bigint[]) AS e(file_id, snapshot_id)
         ON e.file_id = d.file_id AND d.begin_snapshot < e.snapshot_id GROUP BY 1""")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """Rows of one data file that one snapshot inserted or deleted.

    Attributes:
        positions: which rows, sorted; None for all of the file, less ``without``.
        delete_file_path, earlier_delete_file_path: the positions also come from the first file, less those of the second;
            for a file that ended (``positions`` None) the second one's are those that were gone before.
    """

    snapshot_id: int
    is_delete: bool
    file: CatalogFile
    positions: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()
    delete_file_path: str | None = None
    earlier_delete_file_path: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that is in no file, its values by the ids of its columns, that one snapshot inserted or deleted."""

    snapshot_id: int
    is_delete: bool
    row_id: int
    values: Mapping[int, Any]


class TableChanges:
    """The changes of one table between two snapshots.

    Args:
        catalog: of the log.
        table: as of ``upto``.
        after, upto: the snapshots, the first one exclusive.
    """

    def __init__(self, catalog: Catalog, table: CatalogTable, after: int, upto: int) -> None:
        self._catalog = catalog
        self._table = table
        self._table_id = table.definition.table_id
        self._range = (after, upto)

    def snapshots(self, *, deletes: bool, limit: int | None = None) -> list[int]:
        """The first ``limit`` snapshots in which rows came, or, with ``deletes``, came or went; None is all of them."""
        kinds = f"{_INSERTS}|{_DELETES}" if deletes else _INSERTS
        entry = f"(^|,)({kinds}):{self._table_id}(,|$)"
        with self._catalog.at_once() as conn:
            return [row[0] for row in conn.execute(_CHANGED_AT, (*self._range, entry, limit))]

    def files(self, *, deletes: bool) -> list[ChangedFile]:
        """Rows of files, in the order of the snapshots; with ``deletes`` also those that went."""
        with self._catalog.at_once() as conn:
            changed = list(self._inserted(conn))
            if deletes:
                changed += [*self._by_position(conn), *self._by_delete_file(conn), *self._ended(conn)]
        return sorted(changed, key=lambda each: (each.snapshot_id, each.file.data_file_id))

    def rows(self, *, deletes: bool) -> list[ChangedRow]:
        """Rows that are in no file, in the order of the snapshots; of one snapshot the deleted ones first."""
        with self._catalog.at_once():
            changed = [row for part in self.rows_in_parts(deletes=deletes) for row in part]
        return sorted(changed, key=lambda each: (each.snapshot_id, not each.is_delete, each.row_id))

    def rows_in_parts(self, *, deletes: bool) -> Iterator[list[ChangedRow]]:
        """The same in any order, some at a time, within `at_once`: as Python's values they take ten times their bytes."""
        with self._catalog.at_once() as conn:
            skipped = self._maintenance(conn)
            for name, columns in self._catalog.rows_columns(self._table_id).items():
                for moment, is_delete in (("end_snapshot", True), ("begin_snapshot", False)):
                    if is_delete and not deletes:
                        continue
                    for part in self._changed_rows(name, columns, moment):
                        yield [
                            ChangedRow(snapshot_id, is_delete, row_id, dict(zip(columns.values(), values, strict=True)))
                            for snapshot_id, row_id, *values in part
                            if snapshot_id not in skipped
                        ]

    def _changed_rows(self, name: str, columns: Iterable[str], moment: str) -> Iterator[list[tuple[Any, ...]]]:
        query = _ROWS_CHANGED.format(
            table=sql.Identifier(name),
            columns=sql.SQL(", ").join(map(column, columns)),
            c=sql.Identifier(moment),
        )
        return self._catalog.stored_values(query, self._range)

    def _maintenance(self, conn: Connection) -> frozenset[int]:
        return frozenset(row[0] for row in conn.execute(_MAINTAINED_AT, (*self._range, _MAINTENANCE)))

    def _inserted(self, conn: Connection) -> Iterator[ChangedFile]:
        skipped = self._maintenance(conn)
        found = [row for row in conn.execute(_FILES_ADDED, (self._table_id, *self._range)) if row[1] not in skipped]
        files = self._files([row[0] for row in found])
        for data_file_id, snapshot_id in found:
            yield ChangedFile(snapshot_id, False, files[data_file_id])

    def _by_position(self, conn: Connection) -> Iterator[ChangedFile]:
        name = self._catalog.deletes_table(self._table_id)
        if name is None:
            return
        query = _POSITIONS_DELETED.format(sql.Identifier(name))
        found = conn.execute(query, self._range).fetchall()
        files = self._files([row[1] for row in found])
        for snapshot_id, data_file_id, rows in found:
            yield ChangedFile(snapshot_id, True, files[data_file_id], tuple(rows))

    def _by_delete_file(self, conn: Connection) -> Iterator[ChangedFile]:
        found = conn.execute(_DELETE_FILES_ADDED, (self._table_id, *self._range)).fetchall()
        files = self._files([row[1] for row in found])
        for snapshot_id, data_file_id, path, relative, earlier, earlier_relative in found:
            yield ChangedFile(
                snapshot_id,
                True,
                files[data_file_id],
                (),
                delete_file_path=self._table.place(path, relative),
                earlier_delete_file_path=None if earlier is None else self._table.place(earlier, earlier_relative),
            )

    def _ended(self, conn: Connection) -> Iterator[ChangedFile]:
        skipped = self._maintenance(conn)
        found = [row for row in conn.execute(_FILES_ENDED, (self._table_id, *self._range)) if row[0] not in skipped]
        files = self._files([row[1] for row in found])
        gone = self._deleted_before(conn, {data_file_id: snapshot_id for snapshot_id, data_file_id, *_ in found})
        for snapshot_id, data_file_id, path, relative in found:
            yield ChangedFile(
                snapshot_id,
                True,
                files[data_file_id],
                without=gone.get(data_file_id, ()),
                earlier_delete_file_path=None if path is None else self._table.place(path, relative),
            )

    def _deleted_before(self, conn: Connection, ended: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
        name = self._catalog.deletes_table(self._table_id)
        if name is None or not ended:
            return {}
        query = _DELETED_BEFORE.format(sql.Identifier(name))
        found = conn.execute(query, (list(ended), list(ended.values())))
        return {data_file_id: tuple(rows) for data_file_id, rows in found}

    def _files(self, data_file_ids: list[int]) -> dict[int, CatalogFile]:
        return {each.data_file_id: each for each in self._catalog.files_of(self._table, data_file_ids)}


class ReadersCatalog(Catalog, HistoryReader, SitesReader):
    """The catalog of one log, for readers who also ask what changed, and what was decided."""

    def changes(self, table: CatalogTable, after: int, upto: int) -> TableChanges:
        """What the snapshots after one and up to another changed in a table, which is as of the last of them."""
        return TableChanges(self, table, after, upto)

    def differences(self, first: int, last: int) -> list[ObjectDifference]:
        """What has become of each object that is not the same at two snapshots: see ``snapshot_diff``."""
        return differences(self, first, last)
