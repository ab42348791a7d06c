"""Rows of a table's files as Arrow batches, for the paths where Spark takes rows from Python.

Columns are found by field id, or by the names that a file without ids came with; what a file lacks has its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from commitlog.client.files.file_sources import finder
from commitlog.client.files.places import filesystem_of
from commitlog.client.reading.rows_of_file import RowsOfFile, there, wanted
from commitlog.client.tables.arrow_columns import Find, conformed, missing
from commitlog.client.tables.stored_rows import as_text, bytes_of, stored_rows
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import NESTED
from commitlog.errors import DataFileError

BATCH_ROWS = 65_536


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's columns as those of Arrow's batches; moments are in UTC, as which Spark 4.0, that cannot be told so, has them."""
    told: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **told)


def read_rows(rows: RowsOfFile, columns: Sequence[Column], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows as ``columns``, cast to ``schema``, whose fields stand in the same order.

    Raises:
        DataFileError: the file is gone; or a column's values in it are not of the column's type.
    """
    filesystem, inner = filesystem_of(rows.path)
    with there(rows.path), pq.ParquetFile(inner, filesystem=filesystem) as file:
        find = finder(columns, rows.name_mapping)
        fields = list(file.schema_arrow)
        place = find(fields)
        sources = [None if (at := place(column)) is None else fields[at].name for column in columns]
        flags = None if rows.is_whole else wanted(rows, file.metadata.num_rows)
        start = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=sorted({name for name in sources if name is not None})):
            kept = batch if flags is None else batch.filter(pa.array(flags[start : start + batch.num_rows]))
            start += batch.num_rows
            if kept.num_rows:
                arrays = [
                    _array(kept, column, None if name is None else kept.schema.get_field_index(name), field.type, find)
                    for column, name, field in zip(columns, sources, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(batch: pa.RecordBatch, column: Column, at: int | None, data_type: pa.DataType, find: Find) -> pa.Array:
    if at is None:
        return missing(column, batch.num_rows, data_type, is_read=True)
    try:
        return conformed(batch.column(at), column, data_type, find, is_read=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataFileError(f"column {column.name} ({column.type}) of a file: {error}") from error


def stored_array(column: Column, values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values of a column as the catalog keeps those that are in no file, as an array of ``data_type``."""
    if column.type.name in NESTED:
        rows = [{column.column_id: value} for value in values]
        return stored_rows([column], rows).column(0).combine_chunks().cast(data_type)
    if column.type.name == "blob":
        return pa.array([None if each is None else bytes_of(each) for each in values], pa.binary()).cast(data_type)
    return pa.array([as_text(column.type, each) for each in values], pa.string()).cast(data_type)
