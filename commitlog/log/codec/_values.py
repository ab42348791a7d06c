"""Scalars, row images and row positions between the model and Avro.

Values in unions are written with the name of their branch, so that the encoder need not try one after another. Lists
and structs inside a row travel as JSON text: with a recursive schema a few hostile bytes could nest without bounds and
take the process's stack.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pyroaring import FrozenBitMap64

from commitlog.domain import model as m
from commitlog.domain.model.json_form import NESTING_MAX, is_nested_deeper, row_positions
from commitlog.errors import MalformedRecordError

_NESTED = "commitlog.Nested"
_BRANCHES: dict[type, str] = {bool: "boolean", int: "long", float: "double", str: "string"}


# --- to Avro ----------------------------------------------------------------------------------------------------------


def optional(branch: str, value: Any) -> Any:
    """A value, or None, for the union of null and ``branch``."""
    return None if value is None else (branch, value)


def scalar_to_avro(value: m.Scalar) -> Any:
    """For the union of all scalars."""
    return None if value is None else (_BRANCHES.get(type(value)) or _branch_of(value), value)


def _branch_of(value: object) -> str:
    """For subclasses, such as an enum's texts."""
    for kind, branch in _BRANCHES.items():
        if isinstance(value, kind):
            return branch
    raise MalformedRecordError(f"{value!r} is neither null, true, false, a number nor text")


def scalars_to_avro(values: Iterable[m.Scalar]) -> list[Any]:
    """For an array of the union of all scalars."""
    return [scalar_to_avro(value) for value in values]


def row_to_avro(row: m.Row) -> dict[str, Any]:
    """For a map of column to value."""
    return {name: _row_value_to_avro(value) for name, value in row.items()}


def _row_value_to_avro(value: m.RowValue) -> Any:
    if value is None:
        return None
    branch = _BRANCHES.get(type(value))
    if branch is not None:
        return branch, value
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _NESTED, {"json": text}


def positions_to_avro(rows: m.RowPositions) -> Any:
    """For the union of a roaring bitmap's bytes and an array of numbers."""
    if isinstance(rows, tuple):
        return "array", list(rows)
    return "bytes", bytes(rows.serialize())


# --- from Avro --------------------------------------------------------------------------------------------------------


def scalar_from_avro(value: Any) -> m.Scalar:
    """A scalar as JSON could hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedRecordError(f"the number {value} is none that JSON can hold")
    return value  # type: ignore[no-any-return]


def scalars_from_avro(values: list[Any]) -> tuple[m.Scalar, ...]:
    """Scalars as JSON could hold them."""
    return tuple([scalar_from_avro(value) for value in values])


def row_from_avro(row: Mapping[str, Any]) -> dict[str, m.RowValue]:
    """A row image."""
    return {name: _row_value_from_avro(value) for name, value in row.items()}


def _row_value_from_avro(value: Any) -> m.RowValue:
    if isinstance(value, tuple):
        return _nested_from_json(value[1]["json"])
    if isinstance(value, dict):
        return _nested_from_json(value["json"])
    return scalar_from_avro(value)


def _nested_from_json(text: str) -> m.RowValue:
    try:
        value = json.loads(text, parse_int=_bounded_int, parse_float=_finite_float, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedRecordError(f"a nested value is not JSON: {error}"[:200]) from None
    if not isinstance(value, list | dict):
        raise MalformedRecordError("a nested value is neither a list nor a struct")
    if is_nested_deeper(value, NESTING_MAX):
        raise MalformedRecordError(f"a value of a row is nested deeper than {NESTING_MAX} levels")
    return value


def _bounded_int(digits: str) -> int:
    if len(digits) > 20 or not m.BIGINT_MIN <= int(digits) <= m.BIGINT_MAX:
        raise MalformedRecordError(f"the number {digits[:24]} is beyond a 64-bit integer")
    return int(digits)


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise MalformedRecordError(f"the number {digits[:24]} is beyond a 64-bit float")
    return value


def _no_constant(name: str) -> float:
    raise MalformedRecordError(f"{name} is no JSON number")


def positions_from_avro(rows: Any) -> m.RowPositions:
    """Row positions; the bitmap library checks what it is given."""
    if isinstance(rows, list):
        return row_positions(rows)
    try:
        positions = FrozenBitMap64.deserialize(rows)
    except Exception as error:  # the library raises ValueError and IndexError, and promises neither
        raise MalformedRecordError(f"row positions are no roaring bitmap: {error}") from None
    if len(positions) and positions.max() > m.BIGINT_MAX:
        raise MalformedRecordError(f"the row position {positions.max()} is beyond a 64-bit integer")
    return positions
