"""Rows that are in no file, as Arrow: a catalog has their values as PostgreSQL's, or text; a testing log as the projector's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import time
from decimal import Decimal
from itertools import accumulate
from typing import Any
from uuid import UUID

import pyarrow as pa

from commitlog.client.tables.arrow_schemas import WHOLE_NUMBERS, arrow_schema
from commitlog.client.tables.nested_literals import parse_nested
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.nested_text import json_text
from commitlog.domain.model.typed_values import blob_bytes
from commitlog.domain.model.types import ColumnType, fold
from commitlog.errors import DataFileError

_ZONE = re.compile(r"[+-]\d{2}(:?\d{2})?(:?\d{2})?$")
_PART = re.compile(r"([+-]?\d+) ?([a-zA-Z]+)")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d{2})(?::(\d{2})(?:\.(\d+))?)?$")
_UNITS = {
    "year": (0, 12), "mon": (0, 1), "week": (1, 7), "day": (1, 1), "hour": (2, 3600 * 10**9), "microsec": (2, 10**3),
    "millisec": (2, 10**6), "min": (2, 60 * 10**9), "sec": (2, 10**9),
}  # fmt: skip
"""Which part of Arrow's interval (months, days, nanoseconds) a unit adds to, and how much."""


def stored_rows(columns: Sequence[Column], rows: Sequence[Mapping[int, Any]]) -> pa.Table:
    """Rows by column id as a table of these columns; a column that a row lacks was added later and has its first default."""
    schema = arrow_schema(columns)
    arrays = [
        _array([_value(column.type, row.get(column.column_id, column.initial_default)) for row in rows], field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def scalar_of(column: Column, text: Any, data_type: pa.DataType) -> pa.Scalar:
    """One value of a column, such as its default."""
    return _array([_value(column.type, text)], data_type)[0]


def _array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values as `_value` gives them; the flat ones that Arrow has no form of are text."""
    if pa.types.is_struct(data_type):
        given = [{} if each is None else each for each in values]
        parts = [_array([each.get(field.name) for each in given], field.type) for field in data_type]
        return pa.StructArray.from_arrays(
            parts, fields=list(data_type), mask=pa.array([each is None for each in values], pa.bool_())
        )
    if pa.types.is_list(data_type):
        inner = _array([item for each in values for item in each or ()], data_type.value_type)
        return pa.ListArray.from_arrays(_offsets(values), inner, type=data_type)
    if pa.types.is_map(data_type):
        keys = _array([key for each in values for key, _ in each or ()], data_type.key_type)
        items = _array([item for each in values for _, item in each or ()], data_type.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=data_type)
    if pa.types.is_binary(data_type) or pa.types.is_interval(data_type) or pa.types.is_time(data_type):
        return pa.array(values, data_type)
    if data_type == pa.uuid():
        return pa.array([None if each is None else UUID(each).bytes for each in values], data_type)
    if data_type == WHOLE_NUMBERS:
        return _whole_numbers(values)
    texts = pa.array(values, pa.string())
    if pa.types.is_timestamp(data_type) and data_type.unit != "ns":
        # Of a text with more digits of a second than the type has Arrow makes none, whatever they are.
        texts = texts.cast(pa.timestamp("us", data_type.tz))
    return texts.cast(data_type)


def _whole_numbers(values: Sequence[str | None]) -> pa.Array:
    """By their bits, for Arrow takes no more digits from a text than the type says."""
    try:
        bits = b"".join(int(Decimal(each or 0)).to_bytes(16, sys.byteorder, signed=True) for each in values)
    except OverflowError:
        raise DataFileError(
            f"whole numbers beyond {2**127 - 1} are none that Arrow has a type for here: leave their column out "
            "(columns=[...]), or ask log.duckdb()"
        ) from None
    validity = pa.array([None if each is None else True for each in values], pa.bool_()).buffers()[0]
    return pa.Array.from_buffers(WHOLE_NUMBERS, len(values), [validity, pa.py_buffer(bits)])


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where the items of each value begin; NULL for a value that is NULL."""
    ends = list(accumulate(len(each or ()) for each in values))
    starts = [None if each is None else start for each, start in zip(values, [0, *ends], strict=False)]
    return pa.array([*starts, ends[-1] if ends else 0], pa.int32())


def _value(data_type: ColumnType, value: Any) -> Any:
    """A value in the form that `_array` takes."""
    if value is None:
        return None
    inner = [kind for _, kind in data_type.fields]
    match data_type.name:
        case "struct" | "list" | "map" if isinstance(value, str):
            return _value(data_type, parse_nested(data_type, value))
        case "struct":
            given = {fold(str(name)): item for name, item in value.items()}
            return {name: _value(kind, given.get(fold(name))) for name, kind in data_type.fields}
        case "list":
            return [_value(inner[0], item) for item in value]
        case "map":
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(_value(inner[0], key), _value(inner[1], item)) for key, item in pairs]
        case "blob":
            return bytes_of(value)
        case "interval":
            return _interval(value)
        case "timetz" | "time":
            return time.fromisoformat(_ZONE.sub("", str(value)))
    return as_text(data_type, value)


def as_text(data_type: ColumnType, value: Any) -> str | None:
    """A flat value as text that Arrow and Spark cast to its type."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict) and data_type.name == "json":
        return json_text(value)
    return bytes(value).decode() if isinstance(value, bytes | memoryview) else str(value)


def bytes_of(value: Any) -> bytes:
    """The bytes of a blob, which may be in DuckDB's text form."""
    return blob_bytes(value) if isinstance(value, str) else bytes(value)


def _interval(text: str) -> pa.MonthDayNano:
    """An interval in PostgreSQL's words, such as ``1 year 2 mons -3 days 04:05:06.7``."""
    totals = [0, 0, 0]
    for amount, unit in _PART.findall(text):
        at, size = next(found for name, found in _UNITS.items() if unit.lower().startswith(name))
        totals[at] += int(amount) * size
    if clock := _CLOCK.search(text):
        seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4] or 0)
        nanoseconds = seconds * 10**9 + int((clock[5] or "").ljust(9, "0"))
        totals[2] += -nanoseconds if clock[1] == "-" else nanoseconds
    return pa.MonthDayNano(totals)
