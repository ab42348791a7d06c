"""What a filter says of single columns, in Spark's own meaning: which files it can leave out, and which it takes whole.

Spark analyses the filter, SQL or not, over the table's columns: with its casts, its names, its constants. What it would push
down to Parquet are then conditions of one column and plain values, as the catalog proves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from commitlog.client.tables.filters import NULL_CHECKS
from commitlog.client.tables.values import scalar
from commitlog.domain.model import FilterOp, Predicate, Scalar
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import INTEGER_BITS, fold
from commitlog.spark.columns import is_held, scan_schema, unheld
from commitlog.spark.filters import Where, condition, conjunction
from commitlog.spark.reading.exact_files import file_rows

_OPERATORS: Mapping[str, FilterOp] = {
    "EqualTo": FilterOp.EQ,
    "LessThan": FilterOp.LT,
    "LessThanOrEqual": FilterOp.LE,
    "GreaterThan": FilterOp.GT,
    "GreaterThanOrEqual": FilterOp.GE,
    "In": FilterOp.IN,
    "IsNull": FilterOp.IS_NULL,
    "IsNotNull": FilterOp.IS_NOT_NULL,
}
_SINCE = {"date": "1583", "timestamptz": "1900-01-02"}
"""Days before have two names. In moments before, Java's Timestamp has another offset of the zone than Spark."""
_VALUES: Mapping[str, Callable[[Any], Scalar]] = {
    **dict.fromkeys(INTEGER_BITS, lambda value: scalar(int(value)) if value == int(value) else None),
    "boolean": bool,
    "varchar": str,
    "date": str,
    "timestamptz": str,
    "decimal": scalar,
}
"""Of these types Spark and the catalog have the same values in the same order."""


class Derived(NamedTuple):
    """Conditions that every row of a filter meets; ``is_all`` when only they do."""

    predicates: tuple[Predicate, ...]
    is_all: bool


NOTHING_SAID = Derived((), False)


def derived(spark: SparkSession, where: Where, columns: Sequence[Column]) -> Derived:
    """What a filter over a table's columns says of single ones; of Spark Connect's nothing is known but what is given so."""
    if where is None:
        return NOTHING_SAID
    if not hasattr(spark, "_jsparkSession"):
        return Derived(conjunction(where), False)
    held = [each for each in columns if is_held(each.type)]
    try:
        unfiltered = file_rows(spark, (), scan_schema(held), placed=False)
        rows = unfiltered.where(condition(where, unfiltered))
    except AnalysisException as error:
        if others := unheld(columns):
            error.add_note(
                f"Spark has no type for {others}: log.table(...), without Spark, finds rows by such columns."
            )
        raise
    terms, is_all = _terms(rows._jdf.queryExecution().optimizedPlan())
    known = {fold(column.name): column for column in columns}
    strategies = spark._jvm.org.apache.spark.sql.execution.datasources  # type: ignore[union-attr]
    strategy = getattr(getattr(strategies, "DataSourceStrategy$"), "MODULE$")
    found = [_predicate(strategy.translateFilter(each, False), known) for each in terms]
    return Derived(tuple(each for each in found if each is not None), is_all and None not in found)


def _terms(plan: Any) -> tuple[list[Any], bool]:
    """The conditions of a plan's filters, and whether they are all that keeps rows out: a subquery is a join by then."""
    terms: list[Any] = []
    while (kind := plan.getClass().getSimpleName()) in ("Project", "Filter"):
        if kind == "Filter":
            terms += _conjuncts(plan.condition())
        plan = plan.child()
    return terms, bool(terms) and kind == "LogicalRelation"


def _conjuncts(expression: Any) -> Iterator[Any]:
    if expression.getClass().getSimpleName() == "And":
        yield from _conjuncts(expression.left())
        yield from _conjuncts(expression.right())
    else:
        yield expression


def _predicate(translated: Any, columns: Mapping[str, Column]) -> Predicate | None:
    if translated.isEmpty():
        return None
    given = translated.get()
    op = _OPERATORS.get(given.getClass().getSimpleName())
    column = None if op is None else columns.get(fold(given.attribute()))
    if op is None or column is None:
        return None
    if op in NULL_CHECKS:
        return Predicate(column.name, op)
    values = [_value(each, column) for each in (given.values() if op is FilterOp.IN else [given.value()])]
    if None in values:
        return None
    return Predicate(column.name, op, tuple(values) if op is FilterOp.IN else values[0])


def _value(given: Any, column: Column) -> Scalar:
    """A value as the catalog compares it; None where it might compare another way than Spark."""
    of_type = _VALUES.get(column.type.name)
    if of_type is None or given is None:
        return None
    is_time = column.type.name in ("date", "timestamptz")
    value = of_type(_time_text(given) if is_time else given)
    if is_time and not _SINCE[column.type.name] <= str(value) <= "9999":
        return None
    try:
        canonical_value(column.type, value)
    except (ValueError, OverflowError):
        return None
    return value


def _time_text(given: Any) -> str:
    """A day, or a moment of UTC; Spark gives it in one of two classes, as its setting datetime.java8API.enabled says."""
    moment = given.toInstant() if given.getClass().getSimpleName() == "Timestamp" else given
    return str(moment.toString())
