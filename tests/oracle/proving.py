"""Can a row of this file match? The oracle tries every value that could be in it (rules.md 12.14, 12.24).

Of all values only those matter that the bounds and literals name, one below them all and one above them all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold

BELOW, ABOVE = (-1,), (1,)
Point = tuple[Any, ...]
CUT_FROM = 8
"""Writers may cut text of this many bytes short: such a maximum is the beginning of the real one."""


def no_row_matches(table: TableDefinition, file: m.DataFile, conjunction: tuple[m.Predicate, ...]) -> bool:
    """Whether one conjunct alone proves that no row of the file matches."""
    return file.record_count == 0 or any(_proves(table, file, predicate) for predicate in conjunction)


def point(kind: str, value: Any) -> Point | None:
    """A value on the line of its type; None when it is missing or of another type."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        if kind == "boolean" and isinstance(value, bool):
            return (0, value)
        if kind.startswith(("int", "float")) and number and value == value:
            return (0, value)
        if kind == "decimal" and (number or isinstance(value, str)):
            return (0, Decimal(str(value)))
        if kind == "varchar" and isinstance(value, str):
            return (0, value)
        if kind == "date" and isinstance(value, str):
            return (0, date.fromisoformat(value))
        if kind == "timestamp" and isinstance(value, str):
            return (0, datetime.fromisoformat(value))
    except (ValueError, InvalidOperation):
        return None
    return None


def held(kind: str, found: Point | None) -> Point | None:
    """What a column holds that a point stands for: the nearest float."""
    if found is None or len(found) != 2 or not kind.startswith("float"):
        return found
    return (0, float(np.float32(found[1]) if kind == "float32" else found[1]))


def stored_point(kind: str, value: Any) -> Point | None:
    """A partition value on the line, which may be written as the text that the catalog stores; None for what is none.

    NaN is a float's value, though not on the line: it gives (nan,).
    """
    if isinstance(value, str):
        if kind == "boolean":
            return {"true": (0, True), "false": (0, False)}.get(value)
        if kind.startswith("int"):
            return (0, int(value)) if value.lstrip("-").isdigit() else None
        if kind.startswith("float"):
            try:
                return (0, float(value)) if value != "nan" else (float("nan"),)
            except ValueError:
                return None
    if kind.startswith("int") and isinstance(value, float):
        return None
    return point(kind, value)


def _proves(table: TableDefinition, file: m.DataFile, predicate: m.Predicate) -> bool:
    column = table.column(predicate.column)
    kind, op = column.type.name, predicate.op
    literals = list(predicate.value) if isinstance(predicate.value, tuple) else [predicate.value]
    points = [point(kind, literal) for literal in literals]
    # Some readers round a literal to the column's type before they compare.
    readings = [points, [None if each is None else held(kind, each) for each in points]]
    if op is m.FilterOp.IN and not literals:
        return True
    if op is m.FilterOp.BETWEEN and None not in points and all(low > high for low, high in readings):  # type: ignore[operator]
        return True
    for key, value in zip(table.partition_by, file.partition_values or (), strict=False):
        if key.column_id != column.column_id or key.transform != "identity":
            continue
        found = None if value is None else stored_point(kind, value)
        if value is None:
            proved = op is not m.FilterOp.IS_NULL
        elif op in (m.FilterOp.IS_NULL, m.FilterOp.IS_NOT_NULL):
            proved = op is m.FilterOp.IS_NULL
        else:
            known = found is not None and found == found and len(found) == 2
            proved = known and not any(_MATCHES[op](held(kind, found), each) for each in readings)  # type: ignore[arg-type]
        if proved:
            return True
    for known in file.statistics if isinstance(file.statistics, tuple) else ():
        if fold(known.column) == fold(column.name) and _statistics_prove(kind, file, known, op, readings):
            return True
    return False


def _statistics_prove(
    kind: str, file: m.DataFile, known: m.ColumnStatistics, op: m.FilterOp, readings: list[list[Point | None]]
) -> bool:
    may_be_null = known.null_count != 0
    may_be_value = known.value_count != 0 and known.null_count != file.record_count
    if op is m.FilterOp.IS_NULL:
        return not may_be_null
    if not may_be_value:
        return True
    if op is m.FilterOp.IS_NOT_NULL:
        return False
    low, high = (held(kind, found) for found in (point(kind, known.min), point(kind, known.max)))
    if kind.startswith("float") and known.contains_nan is not False:
        high = None
    points = [held(kind, each) for each in readings[0]]
    line: list[Point] = [BELOW, *(p for p in (low, high, *points) if p is not None), ABOVE]
    could_be = [p for p in line if (low is None or p >= low) and (high is None or p <= high or _longer(kind, p, high))]
    if kind == "varchar" and high is not None and len(high[1].encode()) >= CUT_FROM:
        could_be.append((0, high[1] + "\U0010ffff"))
    return not any(_MATCHES[op](p, each) for p in could_be for each in readings)


def _longer(kind: str, found: Point, high: Point) -> bool:
    """Whether a text may be what was cut short to ``high``."""
    return kind == "varchar" and len(found) == 2 and len(high[1].encode()) >= CUT_FROM and found[1].startswith(high[1])


def _if_known(test: Callable[[Point, Point], bool]) -> Callable[[Point, list[Point | None]], bool]:
    """A literal of another type is no proof: whatever the value, it counts as matching."""
    return lambda value, points: points[0] is None or test(value, points[0])


_MATCHES: dict[m.FilterOp, Callable[[Point, list[Point | None]], bool]] = {
    m.FilterOp.EQ: _if_known(lambda value, literal: value == literal),
    m.FilterOp.LT: _if_known(lambda value, literal: value < literal),
    m.FilterOp.LE: _if_known(lambda value, literal: value <= literal),
    m.FilterOp.GT: _if_known(lambda value, literal: value > literal),
    m.FilterOp.GE: _if_known(lambda value, literal: value >= literal),
    m.FilterOp.IN: lambda value, points: None in points or value in points,
    m.FilterOp.BETWEEN: lambda value, points: (
        (points[0] is None or value >= points[0]) and (points[1] is None or value <= points[1])
    ),
}
