"""The Arrow types in which a table's columns are read: those that DuckDB gives for the same columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import ColumnType, parse_type
from commitlog.errors import DataFileError

WHOLE_NUMBERS = pa.decimal128(38, 0)
"""Of 128 bits, of which the largest have a digit more than this type says. DuckDB gives and takes them so; decimal256 neither
it nor Polars takes at all."""
READ_TYPES = {
    "boolean": pa.bool_(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "int128": WHOLE_NUMBERS,
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "uint128": WHOLE_NUMBERS,
    "float32": pa.float32(), "float64": pa.float64(),
    "varchar": pa.string(), "json": pa.string(), "uuid": pa.string(), "blob": pa.binary(),
    "date": pa.date32(), "time": pa.time64("us"), "timetz": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamp_s": pa.timestamp("s"), "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"), "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(),
}  # fmt: skip
"""Of columns whose type has no parameters and nothing inside, as Arrow has them when they are read."""


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as Arrow has them; every one may hold NULL, as in what DuckDB gives.

    Raises:
        DataFileError: a column is of a type that only DuckDB reads; the message names it.
    """
    return pa.schema([(column.name, arrow_type(column)) for column in columns])


def exact(column: Column) -> Column:
    """The column as its values are read to be written again: what Arrow does not hold as it is comes as text, also inside of
    others. These are times of day with a zone, and whole numbers of 128 bits without a sign."""
    return column.replace(type=_exact_type(column.type), children=tuple(map(exact, column.children)))


def _exact_type(data_type: ColumnType) -> ColumnType:
    if data_type.name in ("timetz", "uint128"):
        return parse_type("varchar")
    return replace(data_type, fields=tuple((name, _exact_type(inner)) for name, inner in data_type.fields))


def arrow_type(column: Column) -> pa.DataType:
    """The type of a column or nested field.

    Raises:
        DataFileError: it, or a field inside, is of a type that only DuckDB reads.
    """
    inner = [arrow_type(child) for child in column.children]
    match column.type.name:
        case "struct":
            return pa.struct([(child.name, kind) for child, kind in zip(column.children, inner, strict=True)])
        case "list":
            return pa.list_(pa.field("element", inner[0]))
        case "map":
            return pa.map_(inner[0], inner[1])
        case "decimal":
            return pa.decimal128(column.type.precision, column.type.scale)
    found = READ_TYPES.get(column.type.name)
    if found is None:
        raise DataFileError(
            f"column {column.name} is a {column.type}, which Arrow has no type for: leave it out (columns=[...]), or read "
            "it with log.duckdb()"
        )
    return found
