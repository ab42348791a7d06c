"""Python values as row images and filters have them: dates, times, uuids and decimals as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from commitlog.client.arguments import checked_items, checked_mapping, checked_text
from commitlog.domain.model import BIGINT_MAX, BIGINT_MIN, FilterOp, Predicate, RowValue, Scalar
from commitlog.errors import InvalidRequestError


def row_of(values: Mapping[str, Any]) -> dict[str, RowValue]:
    """A row image, or a key, from Python values by column name."""
    row = checked_mapping("a row", values, "the names of columns to values")
    return {checked_text("the name of a column", name): row_value(value) for name, value in row.items()}


def row_value(value: Any) -> RowValue:
    """One value of a row.

    Raises:
        InvalidRequestError: a value of a type that no column holds.
    """
    if isinstance(value, Mapping):
        return {str(key): row_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [row_value(item) for item in value]
    return scalar(value)


def scalar(value: Any) -> Scalar:
    """One flat value.

    Raises:
        InvalidRequestError: a value of a type that no column holds.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if BIGINT_MIN <= value <= BIGINT_MAX else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02X}" for byte in value)
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds + value.microseconds / 1e6} seconds"
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return scalar(value.item())
    raise InvalidRequestError(
        f"a row holds no {type(value).__name__}: give plain Python values, such as str, int, date, Decimal"
    )


def predicates(conjunction: Iterable[Predicate | tuple[Any, ...]]) -> tuple[Predicate, ...]:
    """A read's filter from ``(column, op, value)`` tuples, or Predicates; all of them must hold.

    Raises:
        InvalidRequestError: an unknown operator or a wrong number of parts.
    """
    given: tuple[Any, ...] = checked_items("filter", conjunction, (Predicate, tuple, list), "(column, op, value)")
    return tuple(each if isinstance(each, Predicate) else _predicate(tuple(each)) for each in given)


def _predicate(parts: tuple[Any, ...]) -> Predicate:
    known = ", ".join(FilterOp)
    if not 2 <= len(parts) <= 3 or parts[1] not in tuple(FilterOp):
        raise InvalidRequestError(f"{parts!r} is no filter: write (column, op, value) with an op of {known}")
    column, op = checked_text("the column of a filter", parts[0]), FilterOp(parts[1])
    value = parts[2] if len(parts) == 3 else None
    if op in (FilterOp.IN, FilterOp.BETWEEN):
        if not isinstance(value, list | tuple | set | frozenset | range):
            raise InvalidRequestError(f"{op} takes a list of values, not {value!r}")
        values = tuple(scalar(item) for item in value)
        if op is FilterOp.BETWEEN and len(values) != 2:
            raise InvalidRequestError(f"between takes [low, high], not {value!r}")
        return Predicate(column, op, values)
    if op in (FilterOp.IS_NULL, FilterOp.IS_NOT_NULL):
        if value is not None:
            raise InvalidRequestError(f"{op} takes no value")
        return Predicate(column, op)
    return Predicate(column, op, scalar(value))
