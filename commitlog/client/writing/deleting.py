"""DELETE: rows that match a filter go. What statistics prove of a whole file need not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import FrozenBitMap64

from commitlog.client.access.contents import Contents
from commitlog.client.reading.file_rows import FileReader
from commitlog.client.reading.matching import Condition, all_of
from commitlog.client.reading.rows_of_file import RowsOfFile, bitmap, in_delete_file
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.filters import Where, predicates
from commitlog.client.tables.names import TableName
from commitlog.client.writing.certain_files import uncertain_files
from commitlog.client.writing.delete_files import split_deletes, write_delete_file
from commitlog.client.writing.keyed_rows import check_row_count, own_references, put_by_key
from commitlog.client.writing.proposal_room import beyond_room
from commitlog.client.writing.setting_apart import ScatteredRowsError
from commitlog.client.writing.targets import RowTransaction, table_in_files
from commitlog.domain.model import LogSettings
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogFile, CatalogTable


class Deletion:
    """The rows of a table that match a filter, looked for at the base of one transaction after another.

    Args:
        name: of the table.
        where: which rows; True is all of them.
        contents: says which files and rows there are.
        settings: the limits of the log.

    Raises:
        InvalidRequestError: the filter cannot be read, or says not which rows.
    """

    def __init__(self, name: TableName, where: Where | bool, contents: Contents, settings: LogSettings) -> None:
        asked = () if isinstance(where, bool) else predicates(where)
        if where is not True and not asked:
            raise InvalidRequestError("say which rows go: where=\"day < '2026-01-01'\"; where=True are all of them")
        self._name = name
        self._where = asked
        self._contents = contents
        self._settings = settings

    def put(self, transaction: RowTransaction) -> None:
        """Delete the rows as the transaction sees them; there is nothing to change when none matches.

        Raises:
            TableNotFoundError: there is no such table.
            DataFileError: rows that match are in no file, and the table has no key by which they could go.
            ScatteredRowsError: a proposal does not hold the places of so many rows.
        """
        at = transaction.base_snapshot_id
        scan = Scan(self._contents, self._name, at, where=self._where)
        if scan.definition.keyed:
            self._delete_by_key(transaction, scan.definition)
            return
        with self._contents.at_once():
            table = table_in_files(self._contents, self._name, at, self._where)
            files = {each.data_file_id: each for each in self._contents.files_at(table, at, where=self._where)}
            certain = files.keys() - uncertain_files(self._contents, table, at, self._where)
        conditions = [Condition(each, table.definition.column(each.column)) for each in self._where]
        found = {each: matching for each in files.keys() - certain if (matching := _matching(files[each], conditions))}
        transaction.read(str(self._name), filter=self._where, files=sorted(found))
        if found or certain:
            self._put(transaction, table, files, found, sorted(certain))

    def _delete_by_key(self, transaction: RowTransaction, definition: TableDefinition) -> None:
        own = [ids for each in own_references(definition) for ids in (each.column_ids, each.ref_column_ids)]
        names = definition.names_of(dict.fromkeys(chain(definition.primary_key, *own)))
        keys = Scan(self._contents, self._name, transaction.base_snapshot_id, where=self._where, columns=names)
        transaction.read(str(self._name), filter=self._where)
        most = self._settings.changes_max
        found = list(islice(keys.images(), most + 1))
        check_row_count(len(found) if len(found) <= most else keys.count(), most)
        put_by_key(transaction, self._name, definition, found, (), most)

    def _put(
        self,
        transaction: RowTransaction,
        table: CatalogTable,
        files: Mapping[int, CatalogFile],
        found: Mapping[int, FrozenBitMap64],
        whole_files: Sequence[int],
    ) -> None:
        live = {each: files[each].live_count for each in found}
        limits = self._settings
        split = split_deletes(found, live, limits.inlined_positions_max, limits.changeset_positions_max)
        gone = {each: found[each] | in_delete_file(files[each].delete_file_path) for each in split.in_files}
        if scattered := beyond_room(gone, limits):
            at = transaction.base_snapshot_id
            raise ScatteredRowsError(self._name, table, at, [files[each] for each in scattered], found, limits)
        folder = table.path.rstrip("/")
        delete_files = []
        for each, positions in gone.items():
            delete_files.append(write_delete_file(each, files[each].path, positions, folder))
            transaction.remove_unless_committed(str(self._name), folder, [f"{folder}/{delete_files[-1].path}"])
        transaction.delete(
            str(self._name),
            {each: found[each] for each in split.inlined},
            delete_files=delete_files,
            whole_files=[*whole_files, *split.whole],
        )


def _matching(file: CatalogFile, conditions: Sequence[Condition]) -> FrozenBitMap64:
    """The positions of a file's live rows that match."""
    columns = list({each.column.column_id: each.column for each in conditions}.values())
    kept = all_of([each.on(pc.field(str(each.column.column_id))) for each in conditions])
    names = [*(str(column.column_id) for column in columns), "pos"]
    found, start = [], 0
    for batch in FileReader(columns, ()).batches([RowsOfFile(file.path, file.name_mapping)]):
        positions = pa.array(np.arange(start, start + batch.num_rows))
        start += batch.num_rows
        matching = pa.Table.from_arrays([*batch.columns, positions], names=names).filter(kept)
        found.append(matching.column("pos").to_numpy())
    if not found:
        return FrozenBitMap64()
    return bitmap(np.concatenate(found)) - file.deleted - in_delete_file(file.delete_file_path)
