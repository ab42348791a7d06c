"""Which rows of a table came and went between two snapshots, in the columns of DuckLake's ``table_changes``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.reading.file_rows import ROW_ID_COLUMN, FileReader, row_ids_of
from commitlog.client.reading.frames import Frames
from commitlog.client.reading.rows_of_file import rows_of_change
from commitlog.client.tables.arrow_schemas import arrow_schema, exact
from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import TableName
from commitlog.client.tables.stored_rows import stored_rows
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold
from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    from commitlog.catalog.table_changes import ChangedFile, ChangedRow
    from commitlog.client.access.contents import Contents

SNAPSHOT, ROW_ID, CHANGE = "snapshot_id", "rowid", "change_type"
_HEAD = [(SNAPSHOT, pa.int64()), (ROW_ID, pa.int64()), (CHANGE, pa.string())]
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"


class RowChanges(Frames):
    """The rows of a table that came and went between two snapshots. Made by ``Table.changes``.

    Args:
        contents: who says what changed.
        name: of the table, at ``upto``.
        after: the snapshot whose state is known.
        upto: the last one whose changes are read.
        is_exact: values that Arrow's types would not hold as they are come as text (see `exact`).
    """

    def __init__(self, contents: Contents, name: TableName, after: int, upto: int, *, is_exact: bool = False) -> None:
        with contents.at_once():
            contents.check_snapshot(after)
            contents.check_snapshot(upto)
            table = found_table(name, upto, contents)
            found = contents.changes(table, after, upto)
            _check_told(table.definition.columns, str(name))
            columns = table.definition.columns
            self.columns = tuple(map(exact, columns)) if is_exact else columns
            self._files: Sequence[ChangedFile] = found.files(deletes=True)
            self._stored = pa.concat_tables(
                [self.schema.empty_table(), *map(self._of_rows, found.rows_in_parts(deletes=True))]
            )
        self._shown = f"RowChanges({str(name)!r}, after={after}, upto={upto})"

    def __repr__(self) -> str:
        return self._shown

    @property
    def schema(self) -> pa.Schema:
        """``snapshot_id``, ``rowid`` and ``change_type``, then the table's columns as they are at the last snapshot."""
        return pa.schema([*(pa.field(*each) for each in _HEAD), *arrow_schema(self.columns)])

    def to_arrow(self) -> pa.Table:
        """The rows in the order of the snapshots, a row that was replaced before the one in its place."""
        return _in_order(pa.concat_tables([*self._of_files(), self._stored]))

    def apart(self) -> Iterator[RowChanges]:
        """The same in parts, which can be read by others: of each snapshot one for each file, unless its rows may be updates.

        Rows are updated where a snapshot deletes and inserts one with the same id.
        """
        deleting = {each.snapshot_id for each in self._files if each.is_delete}
        inserting = {each.snapshot_id for each in self._files if not each.is_delete}
        stored = self._stored.sort_by(SNAPSHOT)
        snapshots = stored[SNAPSHOT].to_numpy()
        together = (deleting & inserting) | set(np.unique(snapshots).tolist())
        files: defaultdict[int, list[ChangedFile]] = defaultdict(list)
        for file in self._files:
            files[file.snapshot_id].append(file)
        for snapshot_id in sorted(together):
            first, end = np.searchsorted(snapshots, [snapshot_id, snapshot_id + 1])
            # A slice would take all of them along to where it is read.
            yield self._part(files[snapshot_id], stored.take(np.arange(first, end)))
        for each in self._files:
            if each.snapshot_id not in together:
                yield self._part([each], self.schema.empty_table())

    def _part(self, files: Sequence[ChangedFile], stored: pa.Table) -> RowChanges:
        part = copy(self)
        part._files, part._stored = files, stored
        return part

    def _of_files(self) -> Iterator[pa.Table]:
        reader = FileReader([*self.columns, ROW_ID_COLUMN], ())
        for each in self._files:
            for batch, positions in reader.placed(rows_of_change(each)):
                row_ids = row_ids_of(batch.columns[-1], positions, each.file.row_id_start)
                snapshots = pa.repeat(pa.scalar(each.snapshot_id, pa.int64()), len(row_ids))
                kinds = pa.repeat(DELETE if each.is_delete else INSERT, len(row_ids))
                head = [snapshots, row_ids.cast(pa.int64()), kinds]
                yield pa.Table.from_arrays([*head, *batch.columns[:-1]], schema=self.schema)

    def _of_rows(self, rows: Sequence[ChangedRow]) -> pa.Table:
        found = stored_rows(self.columns, [each.values for each in rows])
        head = [
            pa.array([each.snapshot_id for each in rows], pa.int64()),
            pa.array([each.row_id for each in rows], pa.int64()),
            pa.array([DELETE if each.is_delete else INSERT for each in rows], pa.string()),
        ]
        return pa.Table.from_arrays([*head, *found.columns], schema=self.schema)


def _check_told(columns: Sequence[Column], table: str) -> None:
    """Raise InvalidRequestError where a column has a name by which changes are told."""
    told = {name for name, _ in _HEAD}
    if own := [each.name for each in columns if fold(each.name) in told]:
        raise InvalidRequestError(
            f"table {table} has a column {own[0]} of its own, and changes are told by columns {', '.join(sorted(told))}: "
            "rename it by tx.alter(...).rename_column(...), or compare what scan(...) gives of two snapshots"
        )


def _in_order(found: pa.Table) -> pa.Table:
    """The rows as they came and went, and what became of each: a snapshot that deletes and inserts a row updates it."""
    is_delete = pc.equal(found[CHANGE], DELETE).to_numpy()
    snapshots, row_ids = found[SNAPSHOT].to_numpy(), found[ROW_ID].to_numpy()
    order = np.lexsort((~is_delete, row_ids, snapshots))
    is_delete, snapshots, row_ids = is_delete[order], snapshots[order], row_ids[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (snapshots[1:] != snapshots[:-1]) | (row_ids[1:] != row_ids[:-1])
    starts = np.flatnonzero(begins)
    is_update = np.logical_or.reduceat(is_delete, starts) & np.logical_or.reduceat(~is_delete, starts)
    kinds = pa.array([INSERT, DELETE, AFTER, BEFORE]).take(pa.array(is_delete + 2 * is_update[np.cumsum(begins) - 1]))
    return found.take(order).set_column(2, CHANGE, kinds)
