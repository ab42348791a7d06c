"""The Arrow schema of the files that are written for a table, with field ids down to the nested fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from commitlog.client.tables.arrow_schemas import READ_TYPES
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import FLOATS
from commitlog.errors import DataFileError

_FIELD_ID = "PARQUET:field_id"
_NOT_WRITTEN = ("int128", "uint128", "timetz", "interval")
_WRITTEN_TYPES: Mapping[str, pa.DataType] = {
    **{name: data_type for name, data_type in READ_TYPES.items() if name not in _NOT_WRITTEN},
    "timestamp_s": pa.timestamp("us"),
    "uuid": pa.uuid(),
}
"""The types in which columns are read, but for those that Parquet has otherwise, or Arrow does not write."""


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
    if column.type.name not in _WRITTEN_TYPES:
        raise DataFileError(
            f"column {column.name} is {column.type}, which neither Arrow nor Spark writes: write the file with another client, "
            "such as DuckDB, and append it with files=[...]"
        )
    return _WRITTEN_TYPES[column.type.name]
