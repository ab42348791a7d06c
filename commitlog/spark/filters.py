"""Filters in the forms that meet here: SQL or tuples from a user, Spark's own pushed ones, and the log's predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from commitlog.client.values import predicates
from commitlog.domain.model import FilterOp, Predicate, Scalar

Where: TypeAlias = "str | Sequence[tuple[Any, ...]] | None"
"""SQL, or a conjunction of ``(column, op, value)``. Only the second tells the log which rows were read, and the catalog
which files to leave out: with SQL every row of the table counts as read."""

_OPERATORS: Mapping[str, Callable[[Expression, Any], Expression]] = {
    "=": lambda column, value: column == value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column.isin(list(value)),
    "between": lambda column, value: column.between(value[0], value[1]),
    "is_null": lambda column, _: column.isNull(),
    "is_not_null": lambda column, _: column.isNotNull(),
}
_PUSHED: Mapping[type[Filter], FilterOp] = {
    EqualTo: FilterOp.EQ,
    LessThan: FilterOp.LT,
    LessThanOrEqual: FilterOp.LE,
    GreaterThan: FilterOp.GT,
    GreaterThanOrEqual: FilterOp.GE,
    In: FilterOp.IN,
    IsNull: FilterOp.IS_NULL,
    IsNotNull: FilterOp.IS_NOT_NULL,
}


def condition(where: Where) -> Expression:
    """The filter as Spark's expression."""
    if isinstance(where, str):
        return sf.expr(where)
    terms = [_OPERATORS[op](sf.col(f"`{column}`"), value[0] if value else None) for column, op, *value in where or ()]
    return reduce(Expression.__and__, terms, sf.lit(True))


def conjunction(where: Where) -> tuple[Predicate, ...]:
    """The filter as the log's predicates; of SQL, which the log does not read, none.

    Raises:
        ValueError: an unknown operator, or a wrong number of parts.
    """
    return () if isinstance(where, str) or where is None else predicates(where)


def pushed(filters: Iterable[Filter]) -> tuple[Predicate, ...]:
    """Those of the filters that Spark offers a source which statistics can judge."""
    found = []
    for each in filters:
        op = _PUSHED.get(type(each))
        column: tuple[str, ...] = getattr(each, "attribute", ())
        if op is None or len(column) != 1:
            continue
        value = getattr(each, "value", None)
        if op is FilterOp.IN:
            found.append(Predicate(column[0], op, tuple(_scalar(item) for item in value or ())))
        else:
            found.append(Predicate(column[0], op, _scalar(value)))
    return tuple(found)


def _scalar(value: object) -> Scalar:
    """A literal as the log writes it; None, which proves nothing, for other types."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value) if isinstance(value, date | Decimal) else None
