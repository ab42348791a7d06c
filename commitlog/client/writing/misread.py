"""Times that Arrow takes for others than a program gave, and says nothing of it: it goes by the first of a column's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from typing import Any

import pyarrow as pa

from commitlog.client.tables.arrow_types import fields_of, stored_type
from commitlog.client.tables.mistaken_values import is_naive
from commitlog.client.tables.values import is_missing
from commitlog.errors import DataFileError


def check_times(name: str, values: Iterable[Any], kind: pa.DataType) -> None:
    """See that a column's values mean as ``kind`` what they mean in Python; those of an array of times have one kind.

    Raises:
        DataFileError: a time of day would be cut off, or a zone, or a time without one would be a moment.
    """
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":
        return
    finds = _finder(kind)
    found = None if finds is None else next(filter(None, map(finds, values)), None)
    if found is not None:
        raise DataFileError(f"column {name}: {found}: give the column's values one type")


def _finder(kind: pa.DataType) -> Callable[[Any], str | None] | None:
    """What tells of a value what is wrong with it; None where the type has no times in it."""
    kind = stored_type(kind)
    if pa.types.is_date(kind):
        return _no_date
    if pa.types.is_time(kind):
        return lambda value: _found(value, "has a zone") if isinstance(value, time) and value.tzinfo else None
    if pa.types.is_timestamp(kind):
        return _no_moment if kind.tz else _no_local_time
    inner = {field.name: finds for field in fields_of(kind) if (finds := _finder(field.type)) is not None}
    if not inner:
        return None
    if pa.types.is_struct(kind):
        return lambda value: _first((inner[name], part) for name, part in _pairs(value) if name in inner)
    if pa.types.is_map(kind):
        roles = [inner.get(field.name) for field in fields_of(kind)]
        return lambda value: _first(
            (finds, part)
            for pair in _pairs(value)
            for finds, part in zip(roles, pair, strict=False)
            if finds is not None
        )
    [finds] = inner.values()
    return lambda value: _first((finds, item) for item in _items(value))


def _first(parts: Iterable[tuple[Callable[[Any], str | None], Any]]) -> str | None:
    return next((found for finds, part in parts if (found := finds(part)) is not None), None)


def _pairs(value: Any) -> Iterable[Any]:
    return value.items() if isinstance(value, Mapping) else _items(value)


def _items(value: Any) -> Iterable[Any]:
    """What is in a value; nothing where it is missing, for which pandas has NaN and others that hold nothing."""
    return value if isinstance(value, Iterable) else ()


def _no_date(value: Any) -> str | None:
    if not isinstance(value, datetime) or is_missing(value):
        return None
    is_midnight = value.time() == time() and not getattr(value, "nanosecond", 0)
    return None if is_midnight and value.tzinfo is None else _found(value, "is no date, as others are")


def _no_moment(value: Any) -> str | None:
    return _found(value, "has no zone, as others have") if is_naive(value) else None


def _no_local_time(value: Any) -> str | None:
    is_zoned = isinstance(value, datetime) and not is_missing(value) and value.tzinfo is not None
    return _found(value, "has a zone, and others have none") if is_zoned else None


def _found(value: Any, what: str) -> str:
    return f"{value} {what}"
