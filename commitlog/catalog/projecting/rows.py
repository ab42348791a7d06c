"""Keyed rows in the catalog: inlined data tables, and row positions in files once rows were flushed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from commitlog.catalog.projecting.files import FileProjection, widen_by_row
from commitlog.catalog.projecting.given_ids import FileIds
from commitlog.catalog.projecting.row_values import to_rows_table
from commitlog.catalog.projecting.tracking import KnownTable, Tracker
from commitlog.catalog.writing import CopyBuffer
from commitlog.domain import model as m
from commitlog.domain.model.defining import inlining_problem
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.row_images import complete_row, default_in_row

_END_EARLIER = sql.SQL("""
    UPDATE {} AS r SET end_snapshot = e.snapshot_id
    FROM unnest(%s::bigint[], %s::bigint[]) AS e(row_id, snapshot_id)
    WHERE r.row_id = e.row_id AND r.end_snapshot IS NULL AND r.begin_snapshot < e.snapshot_id RETURNING r.row_id""")
_END_FLUSHED = sql.SQL("UPDATE {} SET end_snapshot = %s WHERE row_id = ANY(%s) AND end_snapshot IS NULL")
_TAKE_FLUSHED = sql.SQL("""
    DELETE FROM {own}.flushed_rows WHERE table_id = %s AND row_id = ANY(%s) RETURNING row_id, data_file_id, position""")


class RowProjection:
    """Projects changes of single rows."""

    def __init__(self, buffer: CopyBuffer, tracker: Tracker, files: FileProjection) -> None:
        self.buffer = buffer
        self.tracker = tracker
        self.files = files
        self._waiting: dict[tuple[int, int], list[Any]] = {}
        self._ended: dict[int, dict[int, int]] = {}

    def change(
        self, table_id: int, effect: m.Effect, image: m.Row | None, snapshot_id: int, *, made_before: bool
    ) -> None:
        """End the row that the effect names, start the one it names with ``image``, which may lack columns that were
        added since it was made (``made_before``)."""
        known = self.tracker.table(table_id)
        if effect.ended_row_id is not None:
            self._end_row(known, effect.ended_row_id, snapshot_id)
        if effect.row_id is not None:
            assert image is not None
            full = complete_row(known.definition, image, made_before=made_before)
            self.start(table_id, effect.row_id, full, snapshot_id)

    def start(self, table_id: int, row_id: int, full: m.Row, snapshot_id: int) -> None:
        """Start a row whose image has every column."""
        known = self.tracker.table(table_id)
        definition = known.definition
        problem = inlining_problem(definition)
        assert problem is None, f"table {definition.table_id} takes no rows outside of files: {problem}"
        values = [to_rows_table(column.type, full[column.name]) for column in definition.columns]
        row = [row_id, snapshot_id, None, *values]
        self._await_copy()
        self._waiting[definition.table_id, row_id] = row
        self.buffer.add_text(known.rows_tables[-1], row)
        statistics = known.statistics
        for column in definition.columns:
            if column.children:
                for child in column.walk():
                    if not child.children:
                        statistics.forget_bounds(child)
            else:
                widen_by_row(statistics.bounds(column), column, full[column.name])
        # Each image counts: clients take the bounds for exact where the total is the number of rows that live.
        statistics.record_count += 1
        statistics.next_row_id = max(statistics.next_row_id, row_id + 1)
        known.dirty = True

    def _end_row(self, known: KnownTable, row_id: int, snapshot_id: int) -> None:
        """End a row: where it waits to be sent, or with all others that the catalog holds already."""
        table_id = known.definition.table_id
        waiting = self._waiting.pop((table_id, row_id), None)
        if waiting is not None:
            waiting[2] = snapshot_id
            return
        self._await_copy()
        self._ended.setdefault(table_id, {})[row_id] = snapshot_id

    def _await_copy(self) -> None:
        if not self._waiting and not self._ended:
            self.buffer.after_copy(self._after_copy)

    def _after_copy(self) -> None:
        ended, self._ended = self._ended, {}
        self._waiting.clear()
        for table_id, snapshots in ended.items():
            self._end_stored_rows(table_id, snapshots)

    def _end_stored_rows(self, table_id: int, snapshots: dict[int, int]) -> None:
        left = dict(snapshots)
        for name in self.tracker.rows_tables_of(table_id):
            found = self.buffer.execute(_END_EARLIER.format(sql.Identifier(name)), (list(left), list(left.values())))
            for (row_id,) in found.fetchall():
                del left[row_id]
            if not left:
                return
        self._end_rows_in_files(table_id, left)

    def _end_rows_in_files(self, table_id: int, snapshots: dict[int, int]) -> None:
        statement = _TAKE_FLUSHED.format(own=self.buffer.own)
        places = self.buffer.execute(statement, (table_id, list(snapshots))).fetchall()
        missing = snapshots.keys() - {row_id for row_id, _, _ in places}
        assert not missing, f"rows {sorted(missing)} of table {table_id} are not in the catalog"
        name = self.tracker.ensure_deletes_table(table_id)
        for row_id, data_file_id, position in places:
            self.buffer.add_text(name, (data_file_id, position, snapshots[row_id]))

    def flush_rows(self, table_id: int, change: m.Flush, files: Sequence[FileIds], snapshot_id: int) -> None:
        """Move inlined rows into files: older snapshots go on reading them inlined, later ones from the file."""
        known = self.tracker.table(table_id)
        for file, ids in zip(change.files, files, strict=True):
            row_ids = list(file.row_ids or ())
            for name in known.rows_tables:
                self.buffer.execute(_END_FLUSHED.format(sql.Identifier(name)), (snapshot_id, row_ids))
            self.files.add(table_id, ids, file, snapshot_id)
            for position, row_id in enumerate(row_ids):
                self.buffer.add("flushed_rows", (table_id, row_id, ids.data_file_id, position))


def row_since_altered(then: TableDefinition, now: TableDefinition, full: m.Row) -> m.Row:
    """A full image, once its table was altered further. Nobody judges it by what came after it: it may have NULL where none may
    be any longer, as older rows do."""
    values = {column.column_id: full[column.name] for column in then.columns}
    row: dict[str, m.RowValue] = {}
    for column in now.columns:
        added = None if column.initial_default is None else default_in_row(column.type, column.initial_default)
        row[column.name] = values.get(column.column_id, added)
    return row
