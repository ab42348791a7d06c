"""Packed rows are, byte for byte, what psycopg would send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import adapters
from psycopg._copy_base import BinaryFormatter
from psycopg.adapt import Transformer
from psycopg.pq import Format
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.json import Jsonb

from commitlog.catalog.packing import TYPES, array_bytes, copy_bytes
from commitlog.catalog.tables import OWN, TABLES

ROW_TYPE = 70_000
UUID_BYTES = bytes(range(16))
VALUES: dict[str, tuple[Any, ...]] = {
    "int8": (0, 1, -1, 2**63 - 1, -(2**63)),
    "int4": (0, 7, 2**31 - 1),
    "text": ("", "a", "grün \U0001f600"),
    "varchar": ("parquet", "x" * 300),
    "bool": (True, False),
    "bytea": (b"", bytes(32)),
    "uuid": (UUID_BYTES,),
    "timestamptz": (0, 1_700_000_000_123_456, 253_402_214_400_000_000),
    "jsonb": ('{"a":[1,"ü"]}', "[]"),
}
NAMES = {info.oid: info.name for info in adapters.types}


def as_psycopg(name: str, value: Any) -> Any:
    if value is None:
        return None
    match name:
        case "uuid":
            return UUID(bytes=value)
        case "timestamptz":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        case "jsonb":
            return Jsonb(None, dumps=lambda _: value)
    return value


def rows_of(table: str) -> list[tuple[Any, ...]]:
    """Rows in which every value of every type stands once, and one of NULLs."""
    names = [NAMES[each] for each in TYPES[table]]
    longest = max(len(VALUES[name]) for name in names)
    rows = [tuple(VALUES[name][at % len(VALUES[name])] for name in names) for at in range(longest)]
    return [*rows, (None,) * len(names)]


@pytest.mark.parametrize("table", TYPES)
def test_copy_bytes_then_they_are_those_of_psycopg(table: str) -> None:
    names = [NAMES[each] for each in TYPES[table]]
    formatter = BinaryFormatter(Transformer())
    formatter.transformer.set_dumper_types(TYPES[table], Format.BINARY)
    rows = rows_of(table)
    theirs = [formatter.write_row([as_psycopg(*each) for each in zip(names, row, strict=True)]) for row in rows]
    whole = b"".join([*map(bytes, theirs), bytes(formatter.end())])
    assert copy_bytes(table, rows) == whole


@pytest.mark.parametrize("table", TYPES)
def test_types_when_a_table_has_them_then_they_are_those_of_its_columns(table: str) -> None:
    made = (
        TABLES[table.removeprefix("ducklake_")] if table.startswith("ducklake_") else OWN.tables[f"commitlog.{table}"]
    )
    ours = {"int8": "BIGINT", "int4": "INTEGER", "text": "TEXT", "varchar": "VARCHAR", "bool": "BOOLEAN", "uuid": "CHAR(32)",
            "bytea": "BLOB", "timestamptz": "DATETIME", "jsonb": "JSONB"}  # fmt: skip
    assert [ours[NAMES[each]] for each in TYPES[table]] == [str(column.type) for column in made.columns]


def test_array_bytes_then_they_are_those_of_psycopg() -> None:
    """psycopg writes composites as text alone, but reads them: what was packed comes back."""
    info = CompositeInfo("row", ROW_TYPE, 70_001, field_names=["a", "b", "c", "d"], field_types=[20, 20, 20, 20])
    register_composite(info, None, factory=lambda *values: values)
    rows = [(1, 2, None, 2**40), (-1, None, None, 0)]
    packed = array_bytes("flushed_rows", ROW_TYPE, rows)
    loader = Transformer().get_loader(info.array_oid, Format.BINARY)
    assert loader.load(packed) == rows
