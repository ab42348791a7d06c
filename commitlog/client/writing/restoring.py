"""A table's rows as they were at an earlier snapshot, as an overwrite of what has changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from commitlog.client.access.contents import Contents
from commitlog.client.reading.changes import AFTER, BEFORE, CHANGE, DELETE, INSERT, ROW_ID, RowChanges
from commitlog.client.reading.file_rows import FileReader
from commitlog.client.reading.row_diff import net_rows
from commitlog.client.reading.rows_of_file import rows_left
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.names import TableName
from commitlog.client.writing.fitting import fit
from commitlog.client.writing.keyed_rows import put_by_key
from commitlog.client.writing.table_writer import write_rows
from commitlog.client.writing.targets import RowTransaction, table_in_files, table_there
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogFile


class Restoration:
    """The rows of a table at a snapshot, put back at the base of one transaction after another.

    Of a table with a primary key, rows are inserted, updated and deleted by it. Of another one, files that have the same rows
    now as then stay. The rows of others are written again, since a file that has left its table cannot come back without losing
    what was deleted of it; they have new row ids.

    Args:
        name: of the table.
        snapshot_id: when its rows were those that are wanted.
        contents: says which files and rows there are and were.
        changes_max: how many rows a commit changes at most, where the table has a key.
    """

    def __init__(self, name: TableName, snapshot_id: int, contents: Contents, changes_max: int) -> None:
        self._name = name
        self._snapshot_id = snapshot_id
        self._contents = contents
        self._changes_max = changes_max

    def put(self, transaction: RowTransaction) -> None:
        """Put the rows back; there is nothing to change when they are the same.

        Raises:
            TableNotFoundError: the table is not there now, or was not then.
            DataFileError: the table has been created anew, or a file of then is gone.
            InvalidRequestError: more rows of a table with a key have changed than a commit takes.
        """
        at, contents = transaction.base_snapshot_id, self._contents
        with contents.at_once():
            now, then = (table_there(contents, self._name, each) for each in (at, self._snapshot_id))
        if now.definition.table_id != then.definition.table_id:
            raise DataFileError(f"table {self._name} has been created anew since snapshot {self._snapshot_id}")
        if now.definition.keyed:
            self._put_rows(transaction, now.definition)
        else:
            self._put_files(transaction)

    def _put_rows(self, transaction: RowTransaction, definition: TableDefinition) -> None:
        base = transaction.base_snapshot_id
        since = net_rows(RowChanges(self._contents, self._name, self._snapshot_id, base, is_exact=True).to_arrow())
        if not since.num_rows:
            return
        kinds = since[CHANGE].to_pylist()
        rows = to_rows(since.drop_columns([ROW_ID, CHANGE]), maps_as_pydicts="strict")
        there = [row for row, kind in zip(rows, kinds, strict=True) if kind in (INSERT, AFTER)]
        wanted = [row for row, kind in zip(rows, kinds, strict=True) if kind in (DELETE, BEFORE)]
        transaction.read(str(self._name))
        put_by_key(transaction, self._name, definition, there, wanted, self._changes_max)

    def _put_files(self, transaction: RowTransaction) -> None:
        at, contents = transaction.base_snapshot_id, self._contents
        with contents.at_once():
            now, _ = (table_in_files(contents, self._name, each) for each in (at, self._snapshot_id))
            # By the columns of now, as the files that stay are read.
            files_now, files_then = (contents.files_at(now, each) for each in (at, self._snapshot_id))
        kept = {_held(each) for each in files_now} & {_held(each) for each in files_then}
        gone = [each.data_file_id for each in files_now if _held(each) not in kept]
        back = [each for each in files_then if _held(each) not in kept]
        if not gone and not back:
            return
        reader = FileReader(now.definition.columns, ())
        fitting, folder = fit(reader.schema, now.definition, is_read=True), now.path.rstrip("/")
        rows = (pa.Table.from_batches([each]) for each in reader.batches(map(rows_left, back)))
        files = write_rows(rows, fitting, folder)
        transaction.remove_unless_committed(str(self._name), folder, [f"{folder}/{file.path}" for file in files])
        transaction.read(str(self._name))
        if gone:
            transaction.delete(str(self._name), whole_files=gone)
        if files:
            transaction.append(str(self._name), files=files)


def _held(file: CatalogFile) -> tuple[object, ...]:
    """What tells whether a file has the same rows at two snapshots."""
    return file.data_file_id, file.deleted, file.delete_file_path
