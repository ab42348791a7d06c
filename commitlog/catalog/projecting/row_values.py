"""Row images in inlined data tables: the column types and texts that the stock client uses on PostgreSQL (measured)."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any

from commitlog.domain.model import RowValue
from commitlog.domain.model.nested_text import json_list_text, json_text
from commitlog.domain.model.typed_values import blob_bytes, canonical_value, timetz_text, value_text
from commitlog.domain.model.types import INTEGER_BITS, TIMESTAMPS, ColumnType, fold, is_json_list

_COLUMNS = {
    "boolean": "boolean", "int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint",
    "uint8": "integer", "uint16": "integer", "uint32": "bigint", "float32": "real", "float64": "double precision",
    "time": "time without time zone", "timetz": "time with time zone", "interval": "interval",
    "varchar": "bytea", "blob": "bytea", "json": "bytea", "uuid": "uuid",
}  # fmt: skip


_PART = r"[+-]?\d{1,9} ?(years?|mons?|months?|weeks?|days?|hours?|minutes?|mins?|seconds?|secs?|milliseconds?|microseconds?)"
_INTERVAL = re.compile(rf"({_PART}( |$))*([+-]?\d{{1,8}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?)?", re.IGNORECASE)


def rows_table_column(data_type: ColumnType) -> str:
    """The PostgreSQL type of a column of an inlined data table."""
    if data_type.name == "decimal":
        # The stock client leaves the digits out, and a reader in another session then takes the values as doubles.
        return f"numeric({data_type.precision},{data_type.scale})"
    return _COLUMNS.get(data_type.name, "character varying")


def to_rows_table(data_type: ColumnType, value: RowValue) -> Any:
    """A value as COPY takes it for that column."""
    if value is None:
        return None
    match data_type.name:
        case "varchar":
            return str(value).encode()
        case "json":
            return json_text(value).encode()
        case "blob":
            return blob_bytes(str(value))
        case "struct" | "list" | "map":
            return _nested(data_type, value)
        case "boolean" | "float64":
            return canonical_value(data_type, value)
        case "float32":
            return _float32(canonical_value(data_type, value))
        case "interval":
            return value if _INTERVAL.fullmatch(str(value).strip()) else None
    return _text(data_type, value)


def _text(data_type: ColumnType, value: RowValue) -> str:
    if data_type.name == "decimal":
        # As it was given: a canonical decimal is rounded to the digits of Python's context.
        return format(Decimal(str(value)), "f")
    if data_type.name == "timetz":
        return timetz_text(str(value))
    if (
        data_type.name in INTEGER_BITS
        or data_type.name in TIMESTAMPS
        or data_type.name in ("date", "uuid", "time", "boolean", "interval")
    ):
        try:
            return value_text(data_type, canonical_value(data_type, value))
        except OverflowError:
            return str(value)
    return str(value)


def _float32(value: Any) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _nested(data_type: ColumnType, value: RowValue) -> str:
    """A nested value, as DuckDB's text form of structs, lists and maps has it."""
    if isinstance(value, list) and is_json_list(data_type):
        return json_list_text(value)
    return literal(data_type, value)


def literal(data_type: ColumnType, value: RowValue) -> str:
    """A value inside a nested one."""
    if value is None:
        return "NULL"
    if data_type.name == "list" and isinstance(value, list):
        if is_json_list(data_type):
            return _quoted(json_list_text(value))
        return "[" + ", ".join(literal(data_type.fields[0][1], item) for item in value) + "]"
    if data_type.name == "struct" and isinstance(value, dict):
        by_name = {fold(name): item for name, item in value.items()}
        fields = (f"{_quoted(name)}: {literal(inner, by_name.get(fold(name)))}" for name, inner in data_type.fields)
        return "{" + ", ".join(fields) + "}"
    if data_type.name == "map" and isinstance(value, dict):
        key, inner = data_type.fields[0][1], data_type.fields[1][1]
        return "{" + ", ".join(f"{literal(key, k)}={literal(inner, v)}" for k, v in value.items()) + "}"
    if data_type.name == "json":
        return _quoted(json_text(value))
    if data_type.name == "blob":
        return _quoted(str(canonical_value(data_type, value)))
    if isinstance(value, str) and data_type.name in ("varchar", "geometry", "variant"):
        return _quoted(value)
    return _text(data_type, value)


def _quoted(text: str) -> str:
    """Quoted as DuckDB's cast from text reads it back (doubled quotes, which it writes itself, it loses)."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
