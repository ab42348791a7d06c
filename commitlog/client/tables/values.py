"""Python values as row images and filters have them: dates, times, uuids and decimals as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from commitlog.client.arguments import checked_mapping, checked_text
from commitlog.domain.model import BIGINT_MAX, BIGINT_MIN, RowValue, Scalar
from commitlog.domain.model.types import ColumnType, fold
from commitlog.errors import InvalidRequestError

_MISSING = frozenset({"NaTType", "NAType"})
_DIGITS_MAX = 4_000
"""Of a number that is written as a text; a float64 has some thousand, and Python writes no integer of more than 4,300."""


def is_missing(value: Any) -> bool:
    """Whether a value is what pandas has for NULL; its NaT calls itself a datetime."""
    return type(value).__name__ in _MISSING


def plain_time(value: Any) -> Any:
    """A value without what Arrow does not take among others: what is missing to pandas, NumPy's times as Python's."""
    if is_missing(value):
        return None
    if type(value).__name__ != "datetime64":
        return value
    plain = value.item()
    # Those of nanoseconds are mere numbers to Python, and no strangers to Arrow.
    return value if isinstance(plain, int) else plain


def row_of(values: Mapping[str, Any]) -> dict[str, RowValue]:
    """A row image, or a key, from Python values by column name."""
    row = checked_mapping("a row", values, "the names of columns to values")
    return {checked_text("the name of a column", name): row_value(value) for name, value in row.items()}


def row_value(value: Any) -> RowValue:
    """One value of a row.

    Raises:
        InvalidRequestError: a value of a type that no column holds.
    """
    if isinstance(value, tuple) and hasattr(value, "nanoseconds"):
        # Arrow's interval.
        return _interval_text(*value)
    if isinstance(value, Mapping):
        return {_key_text(key): row_value(inner) for key, inner in value.items()}
    if is_list(value):
        return [row_value(item) for item in value]
    return scalar(value)


_MIDNIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00(:00(\.0+)?)?")


def in_form(data_type: ColumnType, value: RowValue) -> RowValue:
    """A row's value as its column has it: midnights as dates, and maps as dicts, which may be given as lists of pairs, as
    Arrow gives them."""
    if data_type.name == "date" and isinstance(value, str) and (midnight := _MIDNIGHT.fullmatch(value)):
        return midnight[1]
    inner = {fold(name): kind for name, kind in data_type.fields}
    if data_type.name == "map":
        if isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value):
            pairs: list[Any] = value
            given = {_key_text(key): item for key, item in pairs}
            value = given if len(given) == len(pairs) else value
        if isinstance(value, dict):
            return {key: in_form(inner["value"], item) for key, item in value.items()}
    elif data_type.name == "struct" and isinstance(value, dict):
        return {
            name: in_form(kind, item) if (kind := inner.get(fold(name))) is not None else item
            for name, item in value.items()
        }
    elif data_type.name == "list" and isinstance(value, list):
        return [in_form(inner["element"], item) for item in value]
    return value


def _key_text(key: Any) -> str:
    """What a field is called, or the key of a map as text: JSON has no other."""
    value = scalar(key)
    if value is None:
        raise InvalidRequestError("a row holds a map with a key that is missing, which no map has: leave it out")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_list(value: Any) -> bool:
    """Whether a row has a value as a list: one of Python's, or an array of NumPy's."""
    return isinstance(value, list | tuple | set) or (hasattr(value, "dtype") and getattr(value, "ndim", 1) != 0)


def scalar(value: Any) -> Scalar:
    """One flat value.

    Raises:
        InvalidRequestError: a value of a type that no column holds.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | Decimal) and _is_too_long(value):
        raise InvalidRequestError(f"a number has more than {_DIGITS_MAX} digits, and no column has one such")
    if isinstance(value, int):
        return int(value) if BIGINT_MIN <= value <= BIGINT_MAX else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if is_missing(value):
        return None
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "".join(f"\\x{byte:02X}" for byte in bytes(value))
    if isinstance(value, timedelta):
        return _interval_text(0, value.days, (value.seconds * 10**6 + value.microseconds) * 1000)
    if hasattr(value, "item") and hasattr(value, "dtype") and not is_list(value):
        # NumPy's times of nanoseconds are mere numbers to Python.
        plain = str(value) if getattr(value.dtype, "kind", None) == "M" else value.item()
        return None if plain == "NaT" else scalar(plain)
    raise InvalidRequestError(
        f"a row holds no {type(value).__name__}: give plain Python values, such as str, int, date, Decimal"
    )


def _is_too_long(number: int | Decimal) -> bool:
    if isinstance(number, int):
        return number.bit_length() > 3 * _DIGITS_MAX
    _, digits, exponent = number.as_tuple()
    return isinstance(exponent, int) and len(digits) + abs(exponent) > _DIGITS_MAX


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    seconds, microseconds = divmod(abs(nanoseconds) // 1000, 10**6)
    sign = "-" if nanoseconds < 0 else ""
    clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{microseconds:06}"
    return f"{months} months {days} days {sign}{clock}"
