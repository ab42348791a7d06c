"""Row images in inlined data tables: the column types and texts that the stock client uses on PostgreSQL (measured)."""

from __future__ import annotations

import json
import re
from typing import Any

from commitlog.domain.model import RowValue
from commitlog.domain.types import INTEGER_BITS, TIMESTAMPS, ColumnType, canonical_value, value_text

_COLUMNS = {
    "boolean": "boolean", "int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint",
    "uint8": "integer", "uint16": "integer", "uint32": "bigint", "float32": "real", "float64": "double precision",
    "decimal": "numeric", "time": "time without time zone", "timetz": "time with time zone", "interval": "interval",
    "varchar": "bytea", "blob": "bytea", "json": "bytea", "uuid": "uuid",
}  # fmt: skip


def rows_table_column(kind: ColumnType) -> str:
    """The PostgreSQL type of a column of an inlined data table."""
    return _COLUMNS.get(kind.name, "character varying")


def to_rows_table(kind: ColumnType, value: RowValue) -> Any:
    """A value as COPY takes it for that column."""
    if value is None:
        return None
    match kind.name:
        case "varchar":
            return str(value).encode()
        case "json":
            return (value if isinstance(value, str) else json.dumps(value)).encode()
        case "blob":
            return blob_bytes(str(value))
        case "struct" | "list" | "map":
            return literal(kind, value)
        case "boolean" | "float32" | "float64":
            return canonical_value(kind, value)
        case name if name in INTEGER_BITS or name in TIMESTAMPS or name in ("decimal", "date", "uuid", "time"):
            return value_text(kind, canonical_value(kind, value))
    return str(value)


def blob_bytes(text: str) -> bytes:
    """The bytes of a blob in DuckDB's text form: ``\\xAA`` for what is not printable."""
    parts = re.split(r"\\x([0-9A-Fa-f]{2})", text)
    return b"".join(bytes.fromhex(part) if index % 2 else part.encode() for index, part in enumerate(parts))


def literal(kind: ColumnType, value: RowValue) -> str:
    """A value inside a nested one, as DuckDB's text form of structs, lists and maps has it."""
    if value is None:
        return "NULL"
    if kind.name == "list" and isinstance(value, list):
        return "[" + ", ".join(literal(kind.fields[0][1], item) for item in value) + "]"
    if kind.name == "struct" and isinstance(value, dict):
        by_name = {name.lower(): item for name, item in value.items()}
        fields = (f"{_quoted(name)}: {literal(inner, by_name.get(name.lower()))}" for name, inner in kind.fields)
        return "{" + ", ".join(fields) + "}"
    if kind.name == "map" and isinstance(value, dict):
        key, inner = kind.fields[0][1], kind.fields[1][1]
        return "{" + ", ".join(f"{literal(key, k)}={literal(inner, v)}" for k, v in value.items()) + "}"
    if isinstance(value, str) and kind.name in ("varchar", "json", "blob"):
        return _quoted(value)
    return value_text(kind, canonical_value(kind, value))


def _quoted(text: str) -> str:
    """Quoted as DuckDB's cast from text reads it back (doubled quotes, which it writes itself, it loses)."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
