"""Arrow batches of a task, written by that task as one Parquet file of a table, or one for each partition.

For the paths where Spark hands rows to Python (`format("commitlog")`). Bulk writes go through Spark's own writer
(`parquet_files`), which is twice as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from commitlog.client.files.lake import new_name
from commitlog.client.files.places import Naming, filesystem_of
from commitlog.client.files.removing import remove_files
from commitlog.client.tables.arrow_columns import by_name, conformed, missing
from commitlog.client.writing.by_partition import by_partition
from commitlog.client.writing.file_schema import bounded_columns, file_schema
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.errors import DataFileError


def write_batches(batches: Iterator[pa.RecordBatch], table: TableDefinition, table_path: str) -> tuple[str, ...]:
    """Write a file for each partition below ``table_path``, in a directory that no other task takes; returns them.

    What a failed write left is removed.

    Raises:
        DataFileError: a value does not fit its column.
    """
    writers: dict[str, pq.ParquetWriter] = {}
    try:
        _write(batches, table, table_path, writers)
    except BaseException:
        remove_files(writers)
        raise
    return tuple(writers)


def _write(
    batches: Iterator[pa.RecordBatch], table: TableDefinition, table_path: str, writers: dict[str, pq.ParquetWriter]
) -> None:
    """Write rows by writers of theirs, by path, which are added and closed."""
    columns = table.columns
    schema = file_schema(columns)
    directory, name = f"{table_path.rstrip('/')}/{new_name()}", f"{new_name()}.parquet"
    if not table.partition_by:
        directory = table_path.rstrip("/")
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            place = by_name(list(batch.schema))
            fitted = pa.Table.from_arrays(
                [
                    _array(batch, column, place(column), data_type)
                    for column, data_type in zip(columns, schema.types, strict=True)
                ],
                schema=schema,
            )
            for partition in by_partition(fitted, table):
                path = f"{directory}/{partition.directory}{name}"
                with Naming(path):
                    if path not in writers:
                        writers[path] = _writer(path, schema, columns)
                    writers[path].write_table(partition.rows)
    finally:
        for path, writer in writers.items():
            with Naming(path):
                writer.close()


def _writer(path: str, schema: pa.Schema, columns: Sequence[Column]) -> pq.ParquetWriter:
    filesystem, inner = filesystem_of(path)
    filesystem.create_dir(inner.rpartition("/")[0], recursive=True)
    bounded = bounded_columns(columns)
    return pq.ParquetWriter(inner, schema, filesystem=filesystem, compression="snappy", write_statistics=bounded)


def _array(batch: pa.RecordBatch, column: Column, position: int | None, data_type: pa.DataType) -> pa.Array:
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
