"""Keyed rows in the catalog: inlined data tables, and row positions in files once rows were flushed."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from commitlog.catalog.changesets import FileIds
from commitlog.catalog.project_files import FileProjection, widen_by_row
from commitlog.catalog.row_values import rows_table_problem, to_rows_table
from commitlog.catalog.tracking import KnownTable, Tracker
from commitlog.catalog.writing import CopyBuffer
from commitlog.domain import model as m
from commitlog.domain.definitions import complete_row


class RowProjection:
    """Projects changes of single rows."""

    def __init__(self, buffer: CopyBuffer, tracker: Tracker, files: FileProjection) -> None:
        self.buffer = buffer
        self.tracker = tracker
        self.files = files

    def change(self, table_id: int, effect: m.Effect, image: m.Row | None, snapshot_id: int) -> None:
        """End the row that the effect names, start the one it names with ``image``."""
        known = self.tracker.table(table_id)
        if effect.ended_row_id is not None:
            self._end_row(known, effect.ended_row_id, snapshot_id)
        if effect.row_id is not None:
            assert image is not None
            self._start_row(known, effect.row_id, image, is_new=effect.ended_row_id is None, snapshot_id=snapshot_id)

    def _start_row(self, known: KnownTable, row_id: int, image: m.Row, *, is_new: bool, snapshot_id: int) -> None:
        definition = known.definition
        problem = rows_table_problem(definition)
        assert problem is None, f"table {definition.table_id} takes no rows outside of files: {problem}"
        full = complete_row(definition, image)
        values = [to_rows_table(column.type, full[column.name]) for column in definition.columns]
        self.buffer.add_text(known.rows_tables[-1], (row_id, snapshot_id, None, *values))
        statistics = known.statistics
        for column in definition.columns:
            if column.children:
                for child in column.walk():
                    if not child.children:
                        statistics.forget_bounds(child)
            else:
                widen_by_row(statistics.bounds(column), column, full[column.name])
        statistics.record_count += is_new
        statistics.next_row_id = max(statistics.next_row_id, row_id + 1)
        known.dirty = True

    def _end_row(self, known: KnownTable, row_id: int, snapshot_id: int) -> None:
        for name in reversed(known.rows_tables):
            ended = self.buffer.execute(
                sql.SQL("UPDATE {} SET end_snapshot = %s WHERE row_id = %s AND end_snapshot IS NULL").format(
                    sql.Identifier(name)
                ),
                (snapshot_id, row_id),
            )
            if ended.rowcount:
                return
        table_id = known.definition.table_id
        row = self.buffer.execute(
            "DELETE FROM commitlog.flushed_rows WHERE table_id = %s AND row_id = %s RETURNING data_file_id, position",
            (table_id, row_id),
        ).fetchone()
        assert row is not None, f"row {row_id} of table {table_id} is not in the catalog"
        self.buffer.add_text(self.tracker.ensure_deletes_table(table_id), (row[0], row[1], snapshot_id))

    def flush_rows(self, table_id: int, change: m.Flush, files: Sequence[FileIds], snapshot_id: int) -> None:
        """Move inlined rows into files: older snapshots go on reading them inlined, later ones from the file."""
        known = self.tracker.table(table_id)
        for file, ids in zip(change.files, files, strict=True):
            row_ids = list(file.row_ids or ())
            for name in known.rows_tables:
                self.buffer.execute(
                    sql.SQL("UPDATE {} SET end_snapshot = %s WHERE row_id = ANY(%s) AND end_snapshot IS NULL").format(
                        sql.Identifier(name)
                    ),
                    (snapshot_id, row_ids),
                )
            self.files.add(table_id, ids, file, snapshot_id)
            for position, row_id in enumerate(row_ids):
                self.buffer.add("commitlog.flushed_rows", (table_id, row_id, ids.data_file_id, position))
