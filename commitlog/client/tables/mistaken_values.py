"""Values in rows that a column's type would take for something else than they are.

A time without a zone is no moment: what it means would depend on who reads it. In a row image bytes, and numbers that are not
finite, are text: as such a text column would keep them, pandas' NaN for what is missing, too, and others would be refused for
a text that nobody has given. Of whole numbers that a float does not hold it would keep others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from commitlog.client.tables.values import is_list, is_missing
from commitlog.domain.model.typed_values import nearest_float
from commitlog.domain.model.types import FLOATS, ColumnType


def doubtful(values: Mapping[str, Any]) -> list[str]:
    """The columns of a row whose values hold something that not every type takes for what it is."""
    return [name for name, value in values.items() if _holds_doubtful(value)]


def _holds_doubtful(value: Any) -> bool:
    # Most values are one of these, and what follows takes several times as long.
    if isinstance(value, str):
        return False
    if isinstance(value, int):
        return _is_large(value)
    if isinstance(value, Mapping):
        return any(_holds_doubtful(inner) for each in value.items() for inner in each)
    if is_list(value):
        # Pairs, or nothing, may be a map.
        is_map = isinstance(value, list) and all(isinstance(item, tuple) for item in value)
        return is_map or any(_holds_doubtful(item) for item in value)
    return is_naive(value) or _is_bytes(value) or _is_not_finite(value) or _is_large(value)


def is_naive(value: Any) -> bool:
    """Whether a value is a time without a zone; NumPy's times have none."""
    if isinstance(value, datetime):
        return not is_missing(value) and value.tzinfo is None
    return type(value).__name__ == "datetime64"


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


def _is_not_finite(value: Any) -> bool:
    is_float = isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", None) == "f"
    return is_float and getattr(value, "ndim", 0) == 0 and not math.isfinite(value)


def _is_large(value: Any) -> bool:
    """Whether a value is a whole number that not every float column holds."""
    is_whole = isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", None) in ("i", "u")
    return is_whole and getattr(value, "ndim", 0) == 0 and abs(int(value)) > _EVERY_FLOAT_MAX


def _is_held(data_type: ColumnType, number: int) -> bool:
    """Whether a column that may be of floats has a whole number as it is."""
    if data_type.name not in FLOATS:
        return True
    return abs(number) <= sys.float_info.max and nearest_float(data_type, number) == number


def mistaken(data_type: ColumnType, value: Any) -> str | None:
    """What is wrong with a value where the type would take it for something else; None where it does not."""
    if is_naive(value):
        return _NAIVE if data_type.name == "timestamptz" else None
    if _is_bytes(value):
        return "has bytes, which are no text: decode them" if data_type.name == "varchar" else None
    if _is_not_finite(value):
        return None if data_type.name in FLOATS else _NOT_FINITE
    if _is_large(value):
        # Not as NumPy's: it would compare both as floats.
        is_held = _is_held(data_type, int(value))
        return None if is_held else f"is no number that a {data_type} holds: {_CHANGED}"
    inner = [inner for _, inner in data_type.fields]
    parts: list[tuple[ColumnType, Any]] = []
    if isinstance(value, Mapping) and data_type.name == "struct":
        by_name = dict(data_type.fields)
        parts = [(by_name[name], each) for name, each in value.items() if name in by_name]
    elif isinstance(value, Mapping) and len(inner) == 2:
        parts = [part for pair in value.items() for part in zip(inner, pair, strict=True)]
    elif is_list(value) and len(inner) == 2:
        parts = [part for pair in value if is_list(pair) for part in zip(inner, pair, strict=False)]
    elif is_list(value) and len(inner) == 1:
        parts = [(inner[0], item) for item in value]
    return next((found for kind, part in parts if (found := mistaken(kind, part)) is not None), None)


_NAIVE = (
    "has a time without a zone, which is another moment from place to place: give it a tzinfo, such as datetime.UTC"
)
_CHANGED = "give it as a float, or change the column's type"
_EVERY_FLOAT_MAX = 2**24
_NOT_FINITE = "has a number that is none: give None for what is missing"
