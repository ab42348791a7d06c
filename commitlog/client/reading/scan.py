"""A read of a table at one snapshot: nothing is read before it is asked for rows, and then as often as it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.arguments import checked_items
from commitlog.client.reading.file_rows import BATCH_ROWS, FileReader
from commitlog.client.reading.frames import Frames
from commitlog.client.reading.matching import Condition, all_of
from commitlog.client.reading.rows_of_file import RowsOfFile, rows_left
from commitlog.client.tables.arrow_schemas import arrow_schema, exact
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.filters import Excluded, Where, conditions
from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import TableName
from commitlog.client.tables.others_names import OF_SCANS, told_instead
from commitlog.client.tables.stored_rows import stored_rows
from commitlog.domain.model import Predicate
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogFile, CatalogTable
    from commitlog.client.access.contents import Contents


@dataclass(frozen=True, slots=True)
class _Found:
    """What the catalog says of a scan's files."""

    table: CatalogTable
    files: Sequence[CatalogFile]
    table_file_count: int


class Scan(Frames):
    """The rows of a table at a snapshot that match a filter. Made by ``Table.scan``.

    Args:
        contents: who says which files and rows there are.
        name: of the table.
        snapshot_id: as of which snapshot.
        where: see ``Table.scan``.
        columns: their names, in the order in which they are wanted; None is all.
        stored_max: how many of the rows that are in no file; None is all.
        files_max: how many of the files, the newest; None is all.
    """

    def __init__(
        self,
        contents: Contents,
        name: TableName,
        snapshot_id: int,
        *,
        where: Where = None,
        columns: Iterable[str] | None = None,
        stored_max: int | None = None,
        files_max: int | None = None,
    ) -> None:
        self.snapshot_id = snapshot_id
        self._stored_max = stored_max
        self._files_max = files_max
        self._contents = contents
        self._name = name
        asked = conditions(where)
        self._where = tuple(each.known if isinstance(each, Excluded) else each for each in asked)
        self._names = None if columns is None else _checked_names(columns)
        self._definition = self._table().definition
        self._columns = _chosen(self._definition, self._names)
        self._conditions = [Condition(each, self._definition.column(each.column)) for each in asked]

    def __repr__(self) -> str:
        return f"Scan({str(self._name)!r}, snapshot={self.snapshot_id}, files={len(self.files())} of {self.table_file_count})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return told_instead(self, name, OF_SCANS)

    # --- what it reads ------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them: the types that DuckDB gives."""
        return arrow_schema(self._columns)

    @property
    def definition(self) -> TableDefinition:
        """The table as it is at the snapshot."""
        return self._definition

    @property
    def where(self) -> tuple[Predicate, ...]:
        """The filter, as ``tx.read`` takes it: of != and NOT IN that the column is not NULL, which is more than was asked."""
        return self._where

    def files(self) -> list[CatalogFile]:
        """The data files that are read: those that statistics and partition values do not rule out."""
        return list(self._found.files)

    @property
    def table_file_count(self) -> int:
        """How many data files the table has in all."""
        return self._found.table_file_count

    # --- rows ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, in no order that means anything.

        Raises:
            DataFileError: a file is gone, or holds what the table's columns cannot.
        """
        stored = self._stored
        tables = [*self._reader.tables(self._file_rows()), stored]
        return pa.concat_tables([each for each in tables if each.num_rows] or tables[-1:])

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as Arrow batches, of which only a few are in memory at a time."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def images(self) -> Iterator[dict[str, Any]]:
        """The rows as Python's values, to be written again or named by their keys. Of rows that are in no file, what Arrow does
        not hold as it is comes as text (see `exact`); files do not hold it as it is either."""
        stored = self._stored_as([exact(each) for each in self._columns])
        in_parts = stored.to_batches(max_chunksize=BATCH_ROWS)
        for batch in chain(self._reader.batches(self._file_rows()), in_parts):
            yield from to_rows(batch, maps_as_pydicts="strict")

    def count(self) -> int:
        """How many rows there are: without a filter what the catalog says, and no file is opened."""
        if not self._conditions:
            return self._live_count
        stored_count = self.stored_count()
        return stored_count + self._reader.count(self._file_rows())

    def stored_count(self) -> int:
        """How many of the rows are in no file."""
        return int(self._stored.num_rows)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _table(self) -> CatalogTable:
        return found_table(self._name, self.snapshot_id, self._contents)

    @cached_property
    def _found(self) -> _Found:
        contents = self._contents
        with contents.at_once():
            contents.check_snapshot(self.snapshot_id)
            table = self._table()
            files = contents.files_at(table, self.snapshot_id, where=self._where, newest=self._files_max)
            table_id, is_part = table.definition.table_id, bool(self._where) or self._files_max is not None
            count = contents.file_count_at(table_id, self.snapshot_id) if is_part else len(files)
            return _Found(table, files, count)

    @cached_property
    def _reader(self) -> FileReader:
        return FileReader(self._columns, self._conditions)

    def _file_rows(self) -> Iterator[RowsOfFile]:
        return map(rows_left, self._found.files)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        stored = self._stored
        yield from self._reader.batches(self._file_rows())
        yield from stored.to_batches()

    @cached_property
    def _live_count(self) -> int:
        """How many rows the table has, by the catalog alone."""
        contents = self._contents
        with contents.at_once():
            contents.check_snapshot(self.snapshot_id)
            stored = contents.row_count_at(self._found.table.definition.table_id, self.snapshot_id)
        return stored + sum(each.live_count for each in self._found.files)

    @cached_property
    def _stored(self) -> pa.Table:
        """The rows that are in no file; they are asked for before files are read, while the snapshot is there."""
        return self._stored_as(self._columns)

    def _stored_as(self, columns: Sequence[Column]) -> pa.Table:
        contents = self._contents
        among = {each.column.column_id: values for each in self._conditions if (values := each.stored())}
        with contents.at_once():
            contents.check_snapshot(self.snapshot_id)
            table_id = self._found.table.definition.table_id
            parts = contents.rows_in_parts(table_id, self.snapshot_id, among=among, limit=self._stored_max)
            tables = [rows_as(columns, self._conditions, part) for part in parts]
        # One without rows would be a batch of its own.
        found = [each for each in tables if each.num_rows]
        return pa.concat_tables(found) if found else rows_as(columns, self._conditions, ())


def rows_as(columns: Sequence[Column], conditions: Sequence[Condition], rows: Sequence[Any]) -> pa.Table:
    """Rows that are in no file, as columns, without those that do not match."""
    hidden = {each.column.column_id: each.column for each in conditions if each.column not in columns}
    found = stored_rows([*columns, *hidden.values()], rows)
    names = [str(at) for at in range(found.num_columns)]
    numbered = found.rename_columns(names)
    at = {column.column_id: name for column, name in zip([*columns, *hidden.values()], names, strict=True)}
    kept = all_of([each.on(pc.field(at[each.column.column_id])) for each in conditions])
    if kept is not None and numbered.num_rows:
        numbered = numbered.filter(kept)
    return pa.Table.from_arrays(numbered.columns[: len(columns)], schema=arrow_schema(columns))


def _checked_names(columns: Iterable[str]) -> tuple[str, ...]:
    names = checked_items("columns", columns, str, "names of columns, such as ['id', 'day']")
    if not names:
        raise InvalidRequestError("columns must name at least one column; without it all of them are read")
    return names


def _chosen(definition: TableDefinition, names: Sequence[str] | None) -> tuple[Column, ...]:
    if names is None:
        return definition.columns
    columns = tuple(definition.column(name) for name in names)
    if len({column.column_id for column in columns}) < len(columns):
        raise InvalidRequestError(f"columns names one twice: {', '.join(names)}")
    return columns
