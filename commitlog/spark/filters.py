"""Filters in the forms that meet here: SQL, tuples or expressions from a user, and the log's predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from typing import Any, Literal, TypeAlias

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.client.tables.filters import is_one, predicates
from commitlog.domain.model import Predicate
from commitlog.domain.model.types import fold
from commitlog.errors import InvalidRequestError
from commitlog.spark.columns import quoted

Where: TypeAlias = "str | Expression | tuple[Any, ...] | Sequence[tuple[Any, ...]] | None"
"""SQL, an expression of Spark's, or a conjunction of ``(column, op, value)``, of which one may stand alone; None is no filter.

Where it is conditions of one column and plain values, all of which must hold, it tells the log which rows were read, and the
catalog which files to leave out. With anything else every row of the table counts as read."""
Rows: TypeAlias = "str | Expression | tuple[Any, ...] | Sequence[tuple[Any, ...]] | Literal[True]"
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
    if isinstance(rows, Expression):
        return rows
    if rows is True or (isinstance(rows, str) and rows.strip().lower() == "all"):
        return None
    if rows is None or isinstance(rows, bool) or not rows or (isinstance(rows, str) and not rows.strip()):
        raise InvalidRequestError(
            f"where={rows!r} says not which rows: give SQL, such as 'id = 5', tuples, such as [('id', '=', 5)], a column's "
            "expression, such as sf.col('id') == 5, or where=True for all rows of the table"
        )
    return rows


def is_spark_only(where: Where) -> bool:
    """Whether only Spark can read the filter, and so neither the log nor the catalog knows what it chooses."""
    return isinstance(where, str | Expression)


def condition(where: Where, rows: DataFrame) -> Expression:
    """The filter as Spark's expression over ``rows``.

    Raises:
        InvalidRequestError: an unknown operator, or a wrong number of parts.
    """
    if isinstance(where, Expression):
        return where
    if isinstance(where, str):
        return sf.expr(where)
    asked = conjunction(where)
    given: Sequence[Any] = [where] if is_one(where) else [*(where or ())]
    terms = [
        _OPERATORS[each.op](sf.col(quoted(column)), _beside(column, value[0], rows) if value else None)
        for (column, _, *value), each in zip(given, asked, strict=True)
    ]
    return reduce(Expression.__and__, terms, sf.lit(True))


def _beside(column: str, value: Any, rows: DataFrame) -> Any:
    """A value, or several, as they are meant beside a column: a datetime without a zone is a moment if the column has moments.

    PySpark takes it for one everywhere, of this process's zone.
    """
    if isinstance(value, list | tuple | set | frozenset):
        return [_beside(column, each, rows) for each in value]
    if isinstance(value, date) and not isinstance(value, datetime):
        # PySpark has no literal of a day before the year 1000.
        return sf.lit(value.isoformat()).cast("date")
    if not isinstance(value, datetime) or value.tzinfo is not None:
        return value
    types = {fold(each.name): each.dataType for each in rows.schema.fields}
    if isinstance(types.get(fold(column)), st.TimestampType):
        return value
    return sf.lit(value.isoformat(" ")).cast(st.TimestampNTZType())


def conjunction(where: Where) -> tuple[Predicate, ...]:
    """The filter as the log's predicates; of what only Spark can read, none.

    Raises:
        InvalidRequestError: an unknown operator, or a wrong number of parts; or an iterator, which is empty the second time.
    """
    if where is None or isinstance(where, str | Expression):
        return ()
    if isinstance(where, Iterator):
        raise InvalidRequestError(
            f"a filter is read more than once, and {type(where).__name__} gives what it has only once: give a list, such as "
            "[('id', '=', 5)]"
        )
    return predicates(where)
