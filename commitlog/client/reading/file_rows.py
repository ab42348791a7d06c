"""Rows of data files as Arrow: Arrow's own scan does the work, over exactly the files of a snapshot.

Files whose fields are the same columns are one data set, read by all threads, with the filter in it. A file with deleted
rows is read by itself, its rows told by where they stand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from commitlog.client.files.file_columns import ROW_ID, ROW_ID_FIELD
from commitlog.client.files.file_sources import finder
from commitlog.client.files.places import filesystem_of
from commitlog.client.reading.matching import Condition, Expression, all_of
from commitlog.client.reading.rows_of_file import RowsOfFile, there, wanted
from commitlog.client.tables.arrow_columns import conformed
from commitlog.client.tables.arrow_schemas import arrow_schema
from commitlog.client.tables.stored_rows import scalar_of
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import FLOATS, parse_type
from commitlog.errors import DataFileError

BATCH_ROWS = 131_072
ROW_ID_COLUMN = Column(ROW_ID_FIELD, ROW_ID, parse_type("int64"))
"""To be read after the others: the row ids that a file carries."""
_FORMAT = ds.ParquetFileFormat()
_KEPT = "kept"
_UNITS = ("s", "ms", "us", "ns")
_FOOTERS_AT_ONCE = 16
_FOOTERS_MAX = 1_024
"""So many footers are in memory at a time, where rows are read batch after batch."""


class FileReader:
    """Reads files as some columns of their table.

    Args:
        columns: which, in which order.
        conditions: what must hold of a row; their columns need not be among ``columns``.
    """

    def __init__(self, columns: Sequence[Column], conditions: Sequence[Condition]) -> None:
        self.schema = arrow_schema(columns)
        self._columns = columns
        self._conditions = conditions
        chosen = {column.column_id for column in columns}
        self._hidden = [each.column for each in conditions if each.column.column_id not in chosen]

    def tables(self, files: Iterable[RowsOfFile]) -> Iterator[pa.Table]:
        """The rows of files, a table for all that are alike, or for one with deleted rows."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            yield from pool.map(lambda group: group.table(), self._groups(files))

    def batches(self, files: Iterable[RowsOfFile]) -> Iterator[pa.RecordBatch]:
        """The rows of files, batch after batch, with no more in memory than is being read."""
        for some in _a_few_first(files):
            for group in self._groups(some):
                yield from group.batches()

    def count(self, files: Iterable[RowsOfFile]) -> int:
        """How many rows there are, of which no column but those of conditions is read."""
        told = FileReader(
            list({each.column.column_id: each.column for each in self._conditions}.values()), self._conditions
        )
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return sum(pool.map(lambda group: group.count(), told._groups(files)))

    def placed(self, rows: RowsOfFile) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """The rows of one file, without a filter, and where they stand in it."""
        for file in _opened([rows]):
            yield from _Masked(file, self._sources(file)).placed()

    def _groups(self, files: Iterable[RowsOfFile]) -> Iterator[_Alike | _Masked]:
        opened = _opened(list(files))
        for is_whole, several in groupby(opened, key=lambda each: each.rows.is_whole):
            if not is_whole:
                yield from (_Masked(each, self._sources(each)) for each in several)
                continue
            alike: dict[object, list[_Opened]] = {}
            for each in several:
                alike.setdefault((each.rows.name_mapping, each.shape), []).append(each)
            yield from (_Alike(each, self._sources(each[0])) for each in alike.values())

    def _sources(self, file: _Opened) -> _Sources:
        return _Sources(file, self.schema, self._columns, self._hidden, self._conditions)


def row_ids_of(carried: pa.Array, positions: npt.NDArray[np.int64], row_id_start: int | None) -> pa.Array:
    """The ids of a file's rows: those that it carries, else counted from the first one by where they stand."""
    return carried if row_id_start is None else pc.coalesce(carried, pa.array(positions + row_id_start))


class _Opened:
    """A file with its footer read."""

    def __init__(self, rows: RowsOfFile, filesystem: object, path: str) -> None:
        self.rows = rows
        self.filesystem = filesystem
        self.fragment = _FORMAT.make_fragment(path, filesystem)
        with there(rows.path):
            self.schema = self.fragment.physical_schema.remove_metadata()
        self.shape = self.schema.serialize().to_pybytes()


def _a_few_first(files: Iterable[RowsOfFile]) -> Iterator[list[RowsOfFile]]:
    """Files in parts, each twice as large as the one before up to a limit: who wants a few rows does not wait for all
    footers."""
    left, size = iter(files), _FOOTERS_AT_ONCE
    while some := list(islice(left, size)):
        yield some
        size = min(2 * size, _FOOTERS_MAX)


def _opened(files: Sequence[RowsOfFile]) -> Iterator[_Opened]:
    filesystems: dict[str, object] = {}

    def opened(rows: RowsOfFile) -> _Opened:
        scheme, separator, rest = rows.path.partition("://")
        place = f"{scheme}{separator}{rest.partition('/')[0]}" if separator else ""
        if place not in filesystems:
            filesystems[place] = filesystem_of(rows.path)[0]
        path = filesystem_of(rows.path)[1] if separator else rows.path
        return _Opened(rows, filesystems[place], path)

    if len(files) < 2:
        yield from map(opened, files)
        return
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        yield from pool.map(opened, files)


class _Sources:
    """How the columns of a table come from the fields of a file."""

    def __init__(
        self,
        file: _Opened,
        schema: pa.Schema,
        columns: Sequence[Column],
        hidden: Sequence[Column],
        conditions: Sequence[Condition],
    ) -> None:
        every = [*columns, *hidden]
        self.schema = schema
        self.columns = columns
        self._find = finder(every, file.rows.name_mapping)
        self._types = {c.column_id: f.type for c, f in zip(every, arrow_schema(every), strict=True)}
        fields = list(file.schema)
        place = self._find(fields)
        self._fields: Mapping[int, pa.Field | None] = {
            c.column_id: None if (at := place(c)) is None else fields[at] for c in every
        }
        self._rest = [each for each in conditions if not self._is_filtered(each.column)]
        # Floats are filtered again: until then row groups are left out, and NaN may still be there.
        told = [each for each in conditions if self._is_ready(each.column) and not each.may_take_nan()]
        self.filter = all_of([each.on(self._value(each.column)) for each in told])
        late = {each.column.column_id for each in self._rest} - {column.column_id for column in columns}
        self._read = [*columns, *(column for column in hidden if column.column_id in late)]
        self.projection = {str(at): self._value(column) for at, column in enumerate(self._read)}
        self.is_plain = not self._rest and all(map(self._is_ready, self._read))

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the projection as the columns that were asked for, without rows that the filter could not tell."""
        arrays = [self._array(batch.column(at), column) for at, column in enumerate(self._read)]
        if self._rest:
            named = {str(column.column_id): array for column, array in zip(self._read, arrays, strict=True)}
            kept = all_of([each.on(pc.field(str(each.column.column_id))) for each in self._rest])
            shown = pa.RecordBatch.from_pydict(named).filter(kept)
            arrays = [shown.column(str(column.column_id)) for column in self._read]
        return pa.RecordBatch.from_arrays(arrays[: len(self.columns)], schema=self.schema)

    def _is_filtered(self, column: Column) -> bool:
        """Whether Arrow's scan alone filters the column's values. Not floats: the bounds of a row group leave NaN out, and
        where they are one value Arrow takes all of the group for that."""
        return column.type.name not in FLOATS and self._is_ready(column)

    def _is_ready(self, column: Column) -> bool:
        """Whether Arrow's scan itself makes the column's values."""
        field = self._fields[column.column_id]
        return not column.children and (field is None or _casts(field.type, self._types[column.column_id]))

    def _value(self, column: Column) -> Expression:
        field, data_type = self._fields[column.column_id], self._types[column.column_id]
        if field is None:
            return pc.scalar(scalar_of(column, column.initial_default, data_type))
        value = pc.field(field.name)
        if field.type == data_type or not self._is_ready(column):
            return value
        # A time in a finer unit is cut, as DuckDB cuts it.
        return value.cast(data_type, safe=not _is_finer(field.type, data_type))

    def _array(self, array: pa.Array, column: Column) -> pa.Array:
        data_type = self._types[column.column_id]
        if array.type == data_type and not column.children:
            return array
        if self._fields[column.column_id] is None:
            return array
        try:
            return conformed(array, column, data_type, self._find, is_read=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataFileError(f"column {column.name} ({column.type}) of a file: {error}") from error


def _casts(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow casts the values itself, each to one that means the same."""
    if given == wanted:
        return True
    if isinstance(given, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(given):
        return False
    return not pa.types.is_nested(given)


def _is_finer(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether times are given in a finer unit than is wanted; those in a coarser one may be beyond its years."""
    are_times = pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted)
    return are_times and _UNITS.index(given.unit) > _UNITS.index(wanted.unit)


class _Alike:
    """Whole files with the same fields: one data set."""

    def __init__(self, files: Sequence[_Opened], sources: _Sources) -> None:
        self._sources = sources
        first = files[0]
        self._set = ds.FileSystemDataset(
            [each.fragment for each in files], first.schema, _FORMAT, filesystem=first.filesystem
        )

    def table(self) -> pa.Table:
        sources = self._sources
        if not sources.is_plain:
            return pa.Table.from_batches(self.batches(), schema=sources.schema)
        with there():
            found = self._set.to_table(columns=sources.projection, filter=sources.filter)
        return pa.Table.from_arrays(found.columns, schema=sources.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        sources = self._sources
        with there():
            for batch in self._set.to_batches(columns=sources.projection, filter=sources.filter, batch_size=BATCH_ROWS):
                if batch.num_rows:
                    yield sources.shaped(batch)

    def count(self) -> int:
        if self._sources.is_plain:
            with there():
                return int(self._set.count_rows(filter=self._sources.filter))
        return sum(batch.num_rows for batch in self.batches())


class _Masked:
    """One file of which not all rows are wanted."""

    def __init__(self, file: _Opened, sources: _Sources) -> None:
        self._file = file
        self._sources = sources

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), schema=self._sources.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return (batch for batch, _ in self.placed())

    def placed(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """The rows, and where they stand in the file."""
        with there(self._file.rows.path):
            yield from self._placed()

    def _placed(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        sources, fragment = self._sources, self._file.fragment
        flags = wanted(self._file.rows, fragment.metadata.num_rows)
        groups = fragment if sources.filter is None else fragment.subset(sources.filter, schema=self._file.schema)
        starts = np.cumsum([0] + [fragment.metadata.row_group(at).num_rows for at in range(fragment.num_row_groups)])
        marked = {**sources.projection, **({_KEPT: sources.filter} if sources.filter is not None else {})}
        for group in groups.row_groups:
            start = int(starts[group.id])
            part = fragment.subset(row_group_ids=[group.id])
            for batch in part.to_batches(schema=self._file.schema, columns=marked, batch_size=BATCH_ROWS):
                kept = flags[start : start + batch.num_rows]
                if sources.filter is not None:
                    kept = kept & pc.fill_null(batch.column(_KEPT), False).to_numpy(zero_copy_only=False)
                chosen = batch.filter(pa.array(kept))
                if chosen.num_rows:
                    yield sources.shaped(chosen), np.flatnonzero(kept) + start
                start += batch.num_rows

    def count(self) -> int:
        return sum(batch.num_rows for batch in self.batches())
