"""Filters in the forms that meet here: SQL or tuples from a user, Spark's expressions, and the log's predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, TypeAlias

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from commitlog.client.tables.filters import is_one, predicates
from commitlog.domain.model import Predicate
from commitlog.errors import InvalidRequestError

Where: TypeAlias = "str | tuple[Any, ...] | Sequence[tuple[Any, ...]] | None"
"""SQL, or a conjunction of ``(column, op, value)``, of which one may stand alone. Only tuples tell the log which rows were
read, and the catalog which files to leave out: with SQL every row of the table counts as read. None is no filter."""
Rows: TypeAlias = "str | tuple[Any, ...] | Sequence[tuple[Any, ...]] | Literal[True]"
"""Which rows are changed: a filter, or True (or "all") for all of them."""

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


def filter_of(rows: Rows) -> Where:
    """The filter that says which rows are changed; None for all of them.

    Raises:
        InvalidRequestError: it says nothing, like a variable that was never set: that is no word for all rows.
    """
    if rows is True or (isinstance(rows, str) and rows.strip().lower() == "all"):
        return None
    if rows is None or isinstance(rows, bool) or not rows or (isinstance(rows, str) and not rows.strip()):
        raise InvalidRequestError(
            f"where={rows!r} says not which rows: give SQL, such as 'id = 5', tuples, such as [('id', '=', 5)], or "
            "where=True for all rows of the table"
        )
    return rows


def condition(where: Where) -> Expression:
    """The filter as Spark's expression."""
    if isinstance(where, str):
        return sf.expr(where)
    given: Sequence[Any] = [where] if is_one(where) else [*(where or ())]
    terms = [_OPERATORS[op](sf.col(f"`{column}`"), value[0] if value else None) for column, op, *value in given]
    return reduce(Expression.__and__, terms, sf.lit(True))


def conjunction(where: Where) -> tuple[Predicate, ...]:
    """The filter as the log's predicates; of SQL, which the log does not read, none.

    Raises:
        InvalidRequestError: an unknown operator, or a wrong number of parts.
    """
    return () if isinstance(where, str) or where is None else predicates(where)
