"""Times without a zone where a column holds moments: what they mean would depend on who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from commitlog.client.tables.values import is_missing
from commitlog.domain.model.types import ColumnType


def naive_times(values: Mapping[str, Any]) -> list[str]:
    """The columns of a row whose values hold a time without a zone."""
    return [name for name, value in values.items() if _holds_naive(value)]


def _holds_naive(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_naive(inner) for each in value.items() for inner in each)
    if isinstance(value, list | tuple):
        return any(_holds_naive(item) for item in value)
    return is_naive(value)


def is_naive(value: Any) -> bool:
    """Whether a value is a time without a zone; NumPy's times have none."""
    if isinstance(value, datetime):
        return not is_missing(value) and value.tzinfo is None
    return type(value).__name__ == "datetime64"


def takes_zoned(data_type: ColumnType, value: Any) -> bool:
    """Whether a time without a zone in the value stands where the type wants one with a zone."""
    if is_naive(value):
        return data_type.name == "timestamptz"
    inner = [inner for _, inner in data_type.fields]
    if isinstance(value, Mapping) and data_type.name == "struct":
        by_name = dict(data_type.fields)
        return any(takes_zoned(by_name[name], each) for name, each in value.items() if name in by_name)
    if isinstance(value, Mapping) and len(inner) == 2:
        return any(takes_zoned(each, part) for pair in value.items() for each, part in zip(inner, pair, strict=True))
    if isinstance(value, list | tuple) and len(inner) == 1:
        return any(takes_zoned(inner[0], item) for item in value)
    return False
