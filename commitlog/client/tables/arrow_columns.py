"""Arrow arrays in the form of a table's columns: nested fields are found by what they are called, never by where they stand.

The rule is the one of whole columns, at every depth: names go without regard to case, what is missing has its default or
is NULL, what the table does not have is refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.arguments import shown
from commitlog.client.tables.stored_rows import scalar_of
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import fold

Value = TypeVar("Value", bound=Hashable)

Find: TypeAlias = "Callable[[Sequence[pa.Field]], Callable[[Column], int | None]]"
"""Looks at fields once; what it gives tells which of them is a column's, or None when it is missing."""

_OTHER_LISTS = (pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
_UUID_BYTES, _INTERVAL_BYTES = 16, 12
_INTEGER_DIGITS_MAX = 20
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)


def by_name(fields: Sequence[pa.Field]) -> Callable[[Column], int | None]:
    """Finds the field that has the column's name, but for its case."""
    places = first_places(fold(each.name) for each in fields)
    return lambda column: places.get(fold(column.name))


def first_places(values: Iterable[Value]) -> dict[Value, int]:
    """Where each value stands first."""
    places: dict[Value, int] = {}
    for at, value in enumerate(values):
        places.setdefault(value, at)
    return places


def conformed(array: pa.Array, column: Column, data_type: pa.DataType, find: Find, *, is_read: bool) -> pa.Array:
    """The values of a column as ``data_type``.

    Args:
        array: the values.
        column: which.
        data_type: the column's type, nested fields in the column's order.
        find: tells nested fields.
        is_read: a file is read, not written: what is missing was added to the column later.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: a value does not fit.
    """

    def inner(values: pa.Array, child: Column, child_kind: pa.DataType) -> pa.Array:
        return conformed(values, child, child_kind, find, is_read=is_read)

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_struct(data_type) and pa.types.is_struct(array.type):
        place = find(list(array.type))
        parts = []
        for child, field in zip(column.children, data_type, strict=True):
            at = place(child)
            parts.append(
                missing(child, len(array), field.type, is_read=is_read)
                if at is None
                else inner(array.field(at), child, field.type)
            )
        return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=array.is_null())
    if pa.types.is_map(data_type) and pa.types.is_map(array.type):
        keys = inner(array.keys, column.children[0], data_type.key_type)
        items = inner(array.items, column.children[1], data_type.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=data_type, mask=array.is_null())
    if any(is_kind(array.type) for is_kind in _OTHER_LISTS):
        array = _lists(array)
    if pa.types.is_list(data_type) and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        values = inner(array.values, column.children[0], data_type.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=data_type, mask=array.is_null())
    found = _cast(array, data_type)
    if not is_read:
        _check_readable(found, column)
    return found


def is_checked(column: Column) -> bool:
    """Whether a column may have values of its files' type that are none of its own."""
    return any(each.type.name in ("json", "time", "timestamp_s") for each in column.walk())


def _check_readable(array: pa.Array, column: Column) -> None:
    """See that all readers take the values for the same.

    Raises:
        pa.ArrowInvalid: a text is no UTF-8, as Spark's may be, or no JSON, for which DuckDB reads no row of the table; a time
            has parts of a second, which one reader cuts and another one rounds, or is 24:00:00, 00:00:00 to some.
    """
    if column.type.name in ("varchar", "json", "time"):
        array.validate(full=True)
    if column.type.name == "timestamp_s" and pa.types.is_timestamp(array.type):
        array.cast(pa.timestamp("s"))
    elif column.type.name == "json":
        for text in array.unique().to_pylist():
            try:
                canonical_value(column.type, text)
            except ValueError as error:
                raise pa.ArrowInvalid(f"the value {shown(text)} {error}") from None


def _cast(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if (
        pa.types.is_string(data_type)
        and pa.types.is_fixed_size_binary(array.type)
        and array.type.byte_width == _UUID_BYTES
    ):
        return _uuid_texts(array)
    if pa.types.is_interval(data_type) and pa.types.is_fixed_size_binary(array.type):
        return _intervals(array, data_type)
    if pa.types.is_date(data_type) and pa.types.is_timestamp(array.type):
        return _days(array, data_type)
    if pa.types.is_decimal(data_type) and pa.types.is_integer(array.type):
        # Arrow asks for room for every number of the type, not only for those that are there.
        array = array.cast(pa.decimal128(_INTEGER_DIGITS_MAX, 0))
    elif pa.types.is_dictionary(array.type) and pa.types.is_string_view(array.type.value_type):
        # Polars' categories, whose views Arrow takes out of no dictionary.
        array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.string()))
    return array.cast(data_type)


def _days(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The days of times that are all midnights: Arrow would cut others."""
    days = array.cast(data_type)
    if not days.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a time within a day is no date: cast it first")
    return days


def _intervals(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Parquet's intervals: three little-endian numbers, of months, days and milliseconds."""
    given = array.fill_null(bytes(_INTERVAL_BYTES))
    raw = given.buffers()[1][given.offset * _INTERVAL_BYTES :][: len(given) * _INTERVAL_BYTES]
    months, days, milliseconds = np.frombuffer(raw, "<i4").reshape(-1, 3).T
    parts = zip(
        months.tolist(), days.tolist(), milliseconds.view("<u4").tolist(), array.is_valid().to_pylist(), strict=True
    )
    values = [pa.MonthDayNano([m, d, ms * 10**6]) if valid else None for m, d, ms, valid in parts]
    return pa.array(values, data_type)


def _uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs of 16 bytes as the text that everybody writes for them."""
    given = array.fill_null(bytes(_UUID_BYTES))
    raw = np.frombuffer(given.buffers()[1], np.uint8)[given.offset * _UUID_BYTES :][: len(given) * _UUID_BYTES]
    digits = _HEX[raw].reshape(len(given), 2 * _UUID_BYTES)
    dashed = np.insert(digits, (8, 12, 16, 20), ord("-"), axis=1)
    texts = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), len(given), [None, pa.py_buffer(dashed.tobytes())])
    return pc.if_else(array.is_valid(), texts.cast(pa.binary()).cast(pa.string()), None)


def missing(column: Column, count: int, data_type: pa.DataType, *, is_read: bool) -> pa.Array:
    """The values of a column that is not there: its default."""
    text = column.initial_default if is_read else column.default
    return pa.nulls(count, data_type) if text is None else pa.repeat(scalar_of(column, text, data_type), count)


def _lists(array: pa.Array) -> pa.Array:
    """Views of lists, and lists of one size, as lists; of either Arrow's own cast may make arrays that are not valid."""
    ends = np.cumsum(pc.list_value_length(array).fill_null(0).to_numpy(), dtype=np.int64)
    return pa.ListArray.from_arrays(pa.array(np.insert(ends, 0, 0), pa.int32()), array.flatten(), mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    # A copy: Arrow takes no mask beside a slice of offsets.
    return pa.array(array.offsets.to_numpy(), pa.int32())
