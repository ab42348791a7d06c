"""What a file tells of a column, and what that proves of a filter (rules.md 12.14, 12.24).

A filter excludes a file when one of its conjuncts alone proves, from partition values or column statistics, that no row of
the file can match. Whatever is missing, of another type or possibly cut short proves nothing.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, NamedTuple, TypeAlias

from commitlog.domain.deciding.rules import StatisticsDecoder
from commitlog.domain.model import ColumnStatistics, DataFile, FilterOp, Predicate, Scalar
from commitlog.domain.model.definitions import Column, TableDefinition, named_leaves
from commitlog.domain.model.typed_values import (
    EXACT,
    SECOND_DIGITS,
    WIDE_INTEGERS,
    canonical_value,
    is_one_value,
    is_told_exactly,
    nearest_float,
)
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, TIMESTAMPS, ColumnType, fold

_COMPARED_AS_TEXT = frozenset({"varchar", "uuid"})
_COMPARED_AS_TIME = frozenset({"date", "time", *TIMESTAMPS})
_ZONED = re.compile(r":\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)$")
CUT_LENGTH_MIN = 8
"""No known writer cuts text bounds shorter than this many bytes; a longer maximum may be a prefix of the real one."""


def excludes(
    table: TableDefinition,
    file: DataFile,
    conjunction: tuple[Predicate, ...],
    decode: StatisticsDecoder | None,
    listed: Sequence[Listed | None] | None = None,
) -> bool:
    """Whether it is proved that no row of the file matches the conjunction; ``listed``: what `lists_of` gives for
    it, where many files are looked at."""
    if file.record_count == 0:
        return True
    if listed is None:
        listed = lists_of(table, conjunction)
    statistics = statistics_of(file, decode)
    for predicate, values in zip(conjunction, listed, strict=True):
        column = table.column(predicate.column)
        if is_vacuous(column.type, predicate):
            return True
        for held in (held_by_partition(table, file, column), held_by_statistics(table, file, statistics, column)):
            if held is not None and _excludes(held, column.type, predicate, values):
                return True
    return False


# --- what a file tells ------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """A smallest or greatest value; ``order`` as values of the column are compared, ``given`` as the file's writer told it.

    Of a float column, ``order`` is the value of the column that is nearest to what was told.

    exact: whether it is a value of the column for sure, not the beginning of one.
    """

    order: Comparable
    given: Scalar
    exact: bool


class Held(NamedTuple):
    """What a file holds of a column, as far as it tells; a bound is None when it is not known."""

    low: Bound | None = None
    high: Bound | None = None
    may_be_null: bool = True
    may_be_value: bool = True


_ONLY_NULL = Held(may_be_value=False)


def statistics_of(file: DataFile, decode: StatisticsDecoder | None) -> Mapping[str, ColumnStatistics]:
    """A file's statistics by folded name of the column; none when they are opaque and nobody can read them."""
    statistics = file.statistics
    if isinstance(statistics, bytes):
        statistics = () if decode is None else decode(statistics)
    return {fold(column.column): column for column in statistics}


def held_by_partition(table: TableDefinition, file: DataFile, column: Column) -> Held | None:
    """What a file's partition tells of a column; None when the table is not partitioned by its values as they are."""
    for key, value in zip(table.partition_by, file.partition_values or (), strict=False):
        if key.column_id == column.column_id and key.transform == "identity":
            if value is None:
                return _ONLY_NULL
            point = _point(column.type, value)
            return Held(point, point, may_be_null=False)
    return None


def held_by_statistics(
    table: TableDefinition, file: DataFile, statistics: Mapping[str, ColumnStatistics], column: Column
) -> Held | None:
    """What a file's statistics tell of a column; None when they do not name it, or may name a field of a struct."""
    name = fold(column.name)
    told = statistics.get(name)
    if told is None or ("." in name and name not in named_leaves(table)):
        return None
    high = _bound(column.type, told.max)
    if column.type.name in FLOATS and told.contains_nan is not False:
        high = None
    return Held(
        _bound(column.type, told.min),
        high,
        may_be_null=told.null_count != 0,
        may_be_value=told.value_count != 0 and told.null_count != file.record_count,
    )


def _point(data_type: ColumnType, given: Scalar) -> Bound | None:
    """A partition's value in the column's value domain; DuckLake stores it as text, which serves as well."""
    value: object = given
    if isinstance(given, str) and data_type.name not in _COMPARED_AS_TIME:
        try:
            value = canonical_value(data_type, given)
        except ValueError:
            return None
    order = _held(data_type, value) if isinstance(value, bool | int | float | str | Decimal) else None
    if order is None:
        return None
    return Bound(order, value if isinstance(value, bool | int | float | str) else given, exact=True)


def _bound(data_type: ColumnType, given: Scalar) -> Bound | None:
    order = _held(data_type, given)
    return None if order is None else Bound(order, given, exact=False)


def _held(data_type: ColumnType, told: Scalar | Decimal) -> Comparable | None:
    """A value that a column can hold; None for a float that stands for more than one of a decimal column."""
    if not is_one_value(data_type, told):
        return None
    value = comparable(data_type, told)
    return nearest_float(data_type, value) if data_type.name in FLOATS and isinstance(value, int | float) else value


# --- what that proves -------------------------------------------------------------------------------------------------


def is_vacuous(data_type: ColumnType, predicate: Predicate) -> bool:
    """A predicate that no value satisfies: in [], or between with low above high."""
    if predicate.op is FilterOp.IN:
        return predicate.value == ()
    if predicate.op is FilterOp.BETWEEN:
        assert isinstance(predicate.value, tuple)
        low, high = readings_together(data_type, predicate.value)
        return low is not None and high is not None and high.greatest < low.least  # type: ignore[operator]
    return False


def _excludes(held: Held, data_type: ColumnType, predicate: Predicate, listed: Listed | None) -> bool:
    """Whether nothing that a file holds of a column satisfies the predicate."""
    if predicate.op is FilterOp.IS_NULL:
        return not held.may_be_null
    if not held.may_be_value:
        return True
    if predicate.op is FilterOp.IS_NOT_NULL:
        return False
    low = None if held.low is None else held.low.order
    high = None if held.high is None else held.high.order
    exact = held.high is not None and held.high.exact
    if listed is not None:
        if not listed.is_known:
            return False
        first = listed.first_from(low)
        # What begins with a maximum that is cut short comes right behind it: where the first does not, none does.
        return first is None or _above(first, high, exact)
    return _range_excludes(data_type, low, high, exact, predicate)


def _range_excludes(
    data_type: ColumnType, low: Comparable | None, high: Comparable | None, exact: bool, predicate: Predicate
) -> bool:
    """Whether no value from ``low`` to ``high`` (None: unbounded) satisfies the predicate."""
    op, value = predicate.op, predicate.value
    if op is FilterOp.BETWEEN:
        assert isinstance(value, tuple)
        first, last = readings_together(data_type, value)
        return _below(last, low) or _above(first, high, exact)
    assert not isinstance(value, tuple)
    literal = readings(data_type, value)
    match op:
        case FilterOp.EQ:
            return _below(literal, low) or _above(literal, high, exact)
        case FilterOp.LT:
            return _below(literal, low) or (literal is not None and literal.greatest == low)
        case FilterOp.LE:
            return _below(literal, low)
        case FilterOp.GT:
            return _above(literal, high, exact) or (
                literal is not None and literal.least == high and (exact or not may_be_cut(high))
            )
        case _:
            assert op is FilterOp.GE, "what asks for NULL is no range"
            return _above(literal, high, exact)


def _below(literal: Readings | None, low: Comparable | None) -> bool:
    return literal is not None and low is not None and literal.greatest < low  # type: ignore[operator]


def _above(literal: Readings | None, high: Comparable | None, exact: bool) -> bool:
    if literal is None or high is None or not literal.least > high:  # type: ignore[operator]
        return False
    return exact or not (may_be_cut(high) and isinstance(literal.least, str) and literal.least.startswith(str(high)))


def may_be_cut(high: Comparable | None) -> bool:
    """Whether a maximum may be the beginning of a longer one."""
    return isinstance(high, str) and len(high.encode("utf-8", "replace")) >= CUT_LENGTH_MIN


# --- values -----------------------------------------------------------------------------------------------------------

Comparable: TypeAlias = "bool | int | float | Decimal | str | date"


def comparable(data_type: ColumnType, value: Scalar | Decimal) -> Comparable | None:
    """A bound or literal in the column's value domain; None when it is missing or of another type: it proves nothing."""
    name = data_type.name
    if value is None:
        return None
    if name == "boolean":
        return value if isinstance(value, bool) else None
    if name in WIDE_INTEGERS and isinstance(value, str):
        return _canonical(data_type, value)
    if name in INTEGER_BITS or name in FLOATS:
        return value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else None
    if name == "decimal":
        if isinstance(value, bool) or value != value or (isinstance(value, str) and not _is_decimal(value)):
            return None
        return Decimal(str(value))
    if not isinstance(value, Decimal) and (name in _COMPARED_AS_TEXT or name in _COMPARED_AS_TIME):
        return _canonical(data_type, value)
    return None


def _canonical(data_type: ColumnType, value: Scalar) -> Comparable | None:
    try:
        return canonical_value(data_type, value)  # type: ignore[return-value]
    except ValueError:
        return None


class Readings(NamedTuple):
    """A literal as readers compare it: some round it to the column's type first, or the column's values to a float."""

    least: Comparable
    greatest: Comparable


def readings(data_type: ColumnType, literal: Scalar) -> Readings | None:
    """A filter's literal; None when it proves nothing, as a time without a zone, which is another one to each reader."""
    as_given = comparable(data_type, literal)
    if as_given is None or (data_type.name == "timestamptz" and not has_zone(literal)):
        return None
    if data_type.name in FLOATS and isinstance(as_given, int | float):
        rounded = nearest_float(data_type, as_given)
        return Readings(min(as_given, rounded), max(as_given, rounded))
    if isinstance(literal, float):
        return _beside_float(data_type, as_given, literal)
    if data_type.name == "decimal":
        return _rounded_decimal(data_type, as_given)
    if data_type.name in SECOND_DIGITS:
        return _rounded_time(data_type, as_given)
    return Readings(as_given, as_given)


def readings_together(data_type: ColumnType, literals: Sequence[Scalar]) -> list[Readings | None]:
    """The literals of one IN or BETWEEN: where one of them is a float, some readers compare all as floats."""
    found = [readings(data_type, each) for each in literals]
    is_exact = data_type.name in INTEGER_BITS or data_type.name == "decimal"
    if not is_exact or not any(isinstance(each, float) for each in literals):
        return found
    return [None if each is None else _widened(data_type, each) for each in found]


def _widened(data_type: ColumnType, found: Readings) -> Readings:
    assert isinstance(found.least, int | float | Decimal)
    as_float = _beside_float(data_type, found.least, float(found.least))
    return Readings(min(found.least, as_float.least), max(found.greatest, as_float.greatest))


def _beside_float(data_type: ColumnType, as_given: Comparable, literal: float) -> Readings:
    """Of numbers that lie closer together than floats do, several are the literal to whoever compares them as floats."""
    if not math.isfinite(literal) or is_told_exactly(data_type, literal):
        return Readings(as_given, as_given)
    # DuckDB rounds a decimal that it makes a float of twice, which may be the float beside the nearest.
    number, step = Decimal(literal), Decimal(2 * math.ulp(literal))
    # Not by the context of whoever asks, which may keep fewer digits.
    return Readings(EXACT.subtract(number, step), EXACT.add(number, step))


def _rounded_decimal(data_type: ColumnType, as_given: Comparable) -> Readings | None:
    """A decimal that may have more digits than the column holds; None when it has more than a number can be told from."""
    assert isinstance(as_given, Decimal)
    last_digit = Decimal(1).scaleb(-data_type.scale)
    try:
        least, greatest = (as_given.quantize(last_digit, way, EXACT) for way in (ROUND_FLOOR, ROUND_CEILING))
    except InvalidOperation:
        return None
    return Readings(least, greatest)


def _rounded_time(data_type: ColumnType, as_given: Comparable) -> Readings:
    """A time, in nanoseconds, that may have more digits of a second than the column holds."""
    assert isinstance(as_given, int)
    unit = 10 ** (9 - SECOND_DIGITS[data_type.name])
    return Readings(as_given // unit * unit, -(-as_given // unit) * unit)


class Listed:
    """The values of an IN, in their order: a read may list hundreds of thousands, and be asked of as many files.

    is_known: whether each of them can prove something.
    """

    __slots__ = ("greatest", "is_known", "least")

    def __init__(self, data_type: ColumnType, values: Sequence[Scalar]) -> None:
        found = readings_together(data_type, values)
        known = [each for each in found if each is not None]
        self.is_known = len(known) == len(found)
        # Each in its own order: what lies below a bound as a whole comes first in both.
        self.least: list[Any] = sorted([each.least for each in known]) if self.is_known else []
        self.greatest: list[Any] = sorted([each.greatest for each in known]) if self.is_known else []

    def first_from(self, low: Comparable | None) -> Readings | None:
        """The first value that is not below a bound; None when all are."""
        at = 0 if low is None else bisect_left(self.greatest, low)
        return None if at == len(self.least) else Readings(self.least[at], self.greatest[at])


def lists_of(table: TableDefinition, conjunction: Sequence[Predicate]) -> list[Listed | None]:
    """The values of each IN; None for any other predicate."""
    return [
        Listed(table.column(each.column).type, each.value)
        if each.op is FilterOp.IN and isinstance(each.value, tuple)
        else None
        for each in conjunction
    ]


def has_zone(value: Scalar) -> bool:
    """Whether a time names its zone."""
    return isinstance(value, str) and _ZONED.search(value) is not None


def _is_decimal(text: str) -> bool:
    body = text.removeprefix("-")
    whole, _, fraction = body.partition(".")
    return whole.isascii() and whole.isdigit() and (not fraction or (fraction.isascii() and fraction.isdigit()))
