"""The Arrow schema of the files that are written for a table, with field ids down to the nested fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import FLOATS
from commitlog.errors import DataFileError

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
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("us"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "varchar": pa.string(),
    "json": pa.string(),
    "blob": pa.binary(),
    "uuid": pa.uuid(),
}


def file_schema(columns: Sequence[Column]) -> pa.Schema:
    """The schema of a table's files.

    Raises:
        DataFileError: a column is of a type that is not written here.
    """
    return pa.schema([_field(column, column.name) for column in columns])


def bounded_columns(columns: Sequence[Column]) -> list[str]:
    """The columns whose bounds a footer may claim.

    Arrow's bounds leave NaN out, so a reader that trusts them would miss rows: floats go without.
    """
    return [column.name for column in columns if column.type.name not in FLOATS and not column.children]


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
    if column.type.name not in _PLAIN:
        raise DataFileError(
            f"column {column.name} is {column.type}, which neither Arrow nor Spark writes: write the file with another client, "
            "such as DuckDB, and append it with files=[...]"
        )
    return _PLAIN[column.type.name]
