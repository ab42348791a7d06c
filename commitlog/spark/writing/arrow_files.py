"""Arrow batches of a task, written by that task as one Parquet file of a table, or one for each partition.

For the paths where Spark hands rows to Python (`format("commitlog")`). Bulk writes go through Spark's own writer
(`files`), which is twice as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from commitlog.client.files.lake import new_name
from commitlog.client.tables.arrow_columns import by_name, conformed, missing
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import FLOATS, ColumnType
from commitlog.errors import DataFileError
from commitlog.spark.writing.arrow_partitions import by_partition

_FIELD_ID = "PARQUET:field_id"
_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("us"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "varchar": pa.string(),
    "json": pa.string(),
    "blob": pa.binary(),
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The schema of a table's files, with field ids down to the nested fields."""
    return pa.schema([_field(column, column.name) for column in columns])


def _field(column: Column, name: str) -> pa.Field:
    return pa.field(name, _type(column), column.nullable, metadata={_FIELD_ID: str(column.column_id)})


def _type(column: Column) -> pa.DataType:
    children = column.children
    match column.type.name:
        case "decimal":
            return pa.decimal128(column.type.precision, column.type.scale)
        case "struct":
            return pa.struct([_field(child, child.name) for child in children])
        case "list":
            return pa.list_(_field(children[0], "element"))
        case "map":
            key = pa.field("key", _type(children[0]), False, metadata={_FIELD_ID: str(children[0].column_id)})
            return pa.map_(key, _field(children[1], "value"))
    return _plain(column.type)


def _plain(data_type: ColumnType) -> pa.DataType:
    if data_type.name not in _PLAIN:
        raise DataFileError(f"Spark has no type for {data_type}: write the table with another client")
    return _PLAIN[data_type.name]


def write_batches(batches: Iterator[pa.RecordBatch], table: TableDefinition, table_path: str) -> tuple[str, ...]:
    """Write a file for each partition below ``table_path``, in a directory that no other task takes; returns them.

    Raises:
        DataFileError: a value does not fit its column.
    """
    columns = table.columns
    schema = arrow_schema(columns)
    writers: dict[str, pq.ParquetWriter] = {}
    directory, name = f"{table_path.rstrip('/')}/{new_name()}", f"{new_name()}.parquet"
    if not table.partition_by:
        directory = table_path.rstrip("/")
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            fitted = pa.RecordBatch.from_arrays([_array(batch, column, schema) for column in columns], schema=schema)
            for partition, rows in by_partition(fitted, table):
                path = f"{directory}/{partition}{name}"
                if path not in writers:
                    writers[path] = _writer(path, schema, columns)
                writers[path].write_batch(rows)
    finally:
        for writer in writers.values():
            writer.close()
    return tuple(writers)


def _writer(path: str, schema: pa.Schema, columns: Sequence[Column]) -> pq.ParquetWriter:
    filesystem, inner = fs.FileSystem.from_uri(path)
    filesystem.create_dir(inner.rpartition("/")[0], recursive=True)
    # Arrow's bounds leave NaN out, so a reader that trusts them would miss rows; floats go without.
    bounded = [column.name for column in columns if column.type.name not in FLOATS and not column.children]
    return pq.ParquetWriter(inner, schema, filesystem=filesystem, compression="snappy", write_statistics=bounded)


def _array(batch: pa.RecordBatch, column: Column, schema: pa.Schema) -> pa.Array:
    data_type = schema.field(column.name).type
    position = by_name(column, list(batch.schema))
    if position is None:
        array = missing(column, batch.num_rows, data_type, is_read=False)
    else:
        try:
            array = conformed(batch.column(position), column, data_type, by_name, is_read=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataFileError(f"column {column.name} ({column.type}): {error}") from error
    if array.null_count and not column.nullable:
        raise DataFileError(f"column {column.name} may not be NULL")
    return array
