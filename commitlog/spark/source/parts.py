"""What one task of `format("commitlog")` reads: rows of files, or rows that are in none, as Arrow batches of Spark's schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from commitlog.client.reading.rows_of_file import RowsOfFile, named
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError
from commitlog.spark.columns import is_held
from commitlog.spark.reading.arrow_rows import arrow_schema, read_rows, stored_array
from commitlog.spark.reading.dataframes import Scan
from commitlog.spark.source.schemas import CHANGE, SNAPSHOT, table_schema
from commitlog.spark.source.workers import plainly

INSERT, DELETE = "insert", "delete"
PARTITION_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one file, or of no file as Arrow IPC bytes; ``change`` and ``snapshot_id`` where changes are asked for."""

    rows: RowsOfFile | bytes
    row_count: int
    change: str | None = None
    snapshot_id: int = -1


class Parts(InputPartition):
    """What one task reads, as which columns."""

    def __init__(self, columns: Sequence[Column], parts: Sequence[Part]) -> None:
        super().__init__(None)
        self.columns = columns
        self.parts = parts

    def read(self, schema: StructType) -> Iterator[pa.RecordBatch]:
        """The rows as ``schema``, which Arrow's batches must have to the letter."""
        whole, own = arrow_schema(schema), arrow_schema(_own(schema, self.columns))
        with plainly():
            for part in self.parts:
                for batch in _batches(part, self.columns, own):
                    marks = {
                        CHANGE: pa.array([part.change] * batch.num_rows, pa.string()),
                        SNAPSHOT: pa.array([part.snapshot_id] * batch.num_rows, pa.int64()),
                    }
                    arrays = [batch.column(each.name) if each.name in own.names else marks[each.name] for each in whole]
                    yield pa.RecordBatch.from_arrays(arrays, schema=whole)


def _batches(part: Part, columns: Sequence[Column], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(part.rows, RowsOfFile):
        yield from read_rows(part.rows, columns, schema)
    else:
        with pa.ipc.open_stream(part.rows) as stream:
            yield from stream


def packed(columns: Sequence[Column], parts: Iterable[Part]) -> list[Parts]:
    """Parts in their order, packed into tasks of about ``PARTITION_ROWS``."""
    packed: list[list[Part]] = []
    room = 0
    for part in parts:
        if room <= 0:
            packed.append([])
            room = PARTITION_ROWS
        packed[-1].append(part)
        room -= max(part.row_count, 1)
    return [Parts(columns, each) for each in packed]


def columns_of(schema: StructType, known: Iterable[Column], table: str) -> tuple[Column, ...]:
    """The columns that a schema names, in its order, without what tells of changes, unless the table has a column of that name.

    Raises:
        DataFileError: the table has not one of them, or not of that type.
    """
    by_name = {fold(column.name): column for column in known}
    held = table_schema(column for column in by_name.values() if is_held(column.type))
    types = {fold(each.name): each.dataType for each in held.fields}
    wanted = [each for each in schema.fields if each.name not in (CHANGE, SNAPSHOT) or each.name in types]
    for each in wanted:
        if types.get(fold(each.name)) != each.dataType:
            raise DataFileError(
                f"table {table} has no column {each.name} of type {each.dataType.simpleString()} (any more): load it, create "
                "the view, or start the stream again, to read the table as it is now"
            )
    return tuple(by_name[fold(each.name)] for each in wanted)


def _own(schema: StructType, columns: Iterable[Column]) -> StructType:
    """What of a schema are these columns of the table."""
    names = {fold(each.name) for each in columns}
    return StructType([each for each in schema.fields if fold(each.name) in names])


def inlined_rows(columns: Sequence[Column], schema: StructType, rows: Sequence[Mapping[int, object]]) -> bytes:
    """Rows that are in no file, given by column id, as an Arrow IPC stream."""
    arrow = arrow_schema(_own(schema, columns))
    arrays = [
        stored_array(column, [row.get(column.column_id, column.initial_default) for row in rows], each.type)
        for column, each in zip(columns, arrow, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=arrow))
    return bytes(sink.getvalue())


def parts_of_scan(scan: Scan, columns: Sequence[Column], schema: StructType) -> Iterator[Part]:
    """All rows of a table at a snapshot; where changes are asked for, as inserted by it."""
    for each in scan.files:
        live = RowsOfFile(each.path, each.name_mapping, without=each.deleted, delete_files=named(each.delete_file_path))
        yield Part(live, each.record_count, INSERT, scan.snapshot_id)
    if count := scan.inlined.num_rows:
        values = {column.column_id: scan.inlined[column.name].to_pylist() for column in scan.columns}
        rows = [{key: given[at] for key, given in values.items()} for at in range(count)]
        yield Part(inlined_rows(columns, schema, rows), count, INSERT, scan.snapshot_id)
