"""Filters as Arrow's expressions, which compare as DuckDB does: NaN is the greatest number and equal to itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.tables.arrow_schemas import WHOLE_NUMBERS, arrow_type
from commitlog.client.tables.filters import NULL_CHECKS, Excluded
from commitlog.client.tables.stored_rows import bytes_of, scalar_of
from commitlog.domain.model import BIGINT_MAX, BIGINT_MIN, FilterOp, Predicate, Scalar
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.typed_values import canonical_value, check_float_digits
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, TIMESTAMPS
from commitlog.errors import InvalidRequestError

Expression: TypeAlias = pc.Expression
_COMPARABLE = frozenset(
    {*INTEGER_BITS, *FLOATS, *TIMESTAMPS, "decimal", "boolean", "varchar", "json", "uuid", "blob", "date", "time"}
)
_APART_MAX = 16
"""So many values are compared one by one, which the statistics of files serve; of more, an expression would be nested too deep
for Arrow, which ends the process."""
_BIGINTS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class _Finer(NamedTuple):
    """A time that its column has no value for, and the greatest value that is less."""

    floor: pa.Scalar


class Condition:
    """A condition on a column, its values ready to be compared.

    Args:
        asked: what must hold.
        column: its column.

    Raises:
        InvalidRequestError: the column's type is not compared, or a value is none of the type.
    """

    def __init__(self, asked: Predicate | Excluded, column: Column) -> None:
        self.column = column
        self._op = None if isinstance(asked, Excluded) else asked.op
        self._values: list[Any] = []
        if self._op in NULL_CHECKS:
            return
        if column.type.name not in _COMPARABLE:
            raise InvalidRequestError(
                f"column {column.name} is a {column.type}, which a filter cannot compare: only is_null and is_not_null are "
                "asked of it; filter what was read, or ask log.duckdb()"
            )
        value = asked.values if isinstance(asked, Excluded) else asked.value
        given = value if isinstance(value, tuple) else (value,)
        self._values = [_compared(column, value) for value in given]

    def stored(self) -> list[int] | list[bytes] | list[UUID]:
        """The values of which a row in no file must have one, as the catalog has them; empty where that is not known."""
        if self._op not in (FilterOp.EQ, FilterOp.IN):
            return []
        values = [each for each in self._values if each is not None]
        match self.column.type.name:
            case "varchar":
                return [str(each).encode() for each in values]
            case "uuid":
                return [UUID(each) for each in values]
            case name if name in _BIGINTS:
                return [each for each in values if BIGINT_MIN <= each <= BIGINT_MAX]
        return []

    def may_take_nan(self) -> bool:
        """Whether a NaN may match: the bounds of a row group leave it out."""
        if self.column.type.name not in FLOATS or self._op is FilterOp.IS_NULL:
            return False
        if self._op not in (FilterOp.EQ, FilterOp.IN, FilterOp.LT, FilterOp.LE, FilterOp.BETWEEN):
            return True
        return any(isinstance(each, float) and math.isnan(each) for each in self._values)

    def on(self, field: Expression) -> Expression:
        """The condition on what ``field`` has for the column; where that is NULL it is not true."""
        values = self._values
        match self._op:
            case FilterOp.IS_NULL:
                return field.is_null()
            case FilterOp.IS_NOT_NULL:
                return field.is_valid()
            case None:
                # Nothing is known not to be NULL.
                return pc.scalar(False) if None in values else field.is_valid() & ~self._one_of(field)
            case FilterOp.IN:
                return self._one_of(field)
            case FilterOp.BETWEEN:
                return self._at_least(field, values[0]) & self._at_most(field, values[1])
            case FilterOp.EQ:
                return self._equal(field, values[0])
            case FilterOp.GE:
                return self._at_least(field, values[0])
            case FilterOp.LE:
                return self._at_most(field, values[0])
            case FilterOp.GT:
                return self._above(field, values[0])
        return self._below(field, values[0])

    def _one_of(self, field: Expression) -> Expression:
        if len(self._values) <= _APART_MAX:
            return reduce(or_, (self._equal(field, each) for each in self._values), pc.scalar(False))
        found = field.isin(self._looked_up)
        is_nan_one = any(isinstance(each, float) and math.isnan(each) for each in self._values)
        return found | pc.is_nan(field) if is_nan_one else found

    @cached_property
    def _looked_up(self) -> pa.Array:
        """The values as they are looked up, made once for all files and batches."""
        data_type = arrow_type(self.column)
        # Zeros are equal, and NaNs, but not by their bits, by which values are looked up.
        zeros = [-each for each in self._values if isinstance(each, float) and each == 0]
        values = [each for each in (*self._values, *zeros) if each is not None and each == each]
        return pa.array([self._scalar(each) for each in values if not isinstance(each, _Finer)], data_type)

    def _equal(self, field: Expression, value: Any) -> Expression:
        if isinstance(value, _Finer):
            return pc.scalar(False)
        return self._unless_nan(value, lambda: field == self._scalar(value), pc.is_nan(field))

    def _at_least(self, field: Expression, value: Any) -> Expression:
        if isinstance(value, _Finer):
            return self._above(field, value)
        return self._unless_nan(value, lambda: self._or_nan(field >= self._scalar(value), field), pc.is_nan(field))

    def _above(self, field: Expression, value: Any) -> Expression:
        return self._unless_nan(value, lambda: self._or_nan(field > self._scalar(value), field), pc.scalar(False))

    def _at_most(self, field: Expression, value: Any) -> Expression:
        return self._unless_nan(value, lambda: field <= self._scalar(value), field.is_valid())

    def _below(self, field: Expression, value: Any) -> Expression:
        if isinstance(value, _Finer):
            return self._at_most(field, value)
        return self._unless_nan(value, lambda: field < self._scalar(value), ~pc.is_nan(field))

    def _unless_nan(self, value: Any, compared: Callable[[], Expression], of_nan: Expression) -> Expression:
        if value is None:
            return pc.scalar(False)
        return of_nan if isinstance(value, float) and math.isnan(value) else compared()

    def _or_nan(self, compared: Expression, field: Expression) -> Expression:
        return compared | pc.is_nan(field) if self.column.type.name in FLOATS else compared

    def _scalar(self, value: Any) -> pa.Scalar:
        if isinstance(value, _Finer):
            return value.floor
        return pa.scalar(value, arrow_type(self.column)) if not isinstance(value, pa.Scalar) else value


def all_of(conditions: Sequence[Expression]) -> Expression | None:
    """What holds where all hold; None for no condition."""
    return reduce(and_, conditions) if conditions else None


def _compared(column: Column, value: Scalar) -> Any:
    """A value as Arrow takes it for the column's type; None compares with nothing."""
    if value is None:
        return None
    try:
        canonical = canonical_value(column.type, value)
        check_float_digits(column.type, value)
        if isinstance(canonical, str):
            # Nobody could be asked for half of a character.
            canonical.encode()
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(
            f"the filter on column {column.name} ({column.type}): the value {value!r} {error}"
        ) from None
    if column.type.name == "blob":
        return bytes_of(str(value))
    if column.type.name in TIMESTAMPS or column.type.name == "time":
        return _moment(column, canonical)
    if arrow_type(column) == WHOLE_NUMBERS:
        return scalar_of(column, canonical, WHOLE_NUMBERS)
    return canonical


def _moment(column: Column, nanoseconds: Any) -> pa.Scalar | _Finer:
    """A time in the column's own unit: in a finer one Arrow has no room for all of the column's values."""
    data_type = arrow_type(column)
    whole, rest = divmod(nanoseconds, _UNITS[data_type.unit])
    found = pa.scalar(whole, pa.int64()).cast(data_type)
    return _Finer(found) if rest else found
