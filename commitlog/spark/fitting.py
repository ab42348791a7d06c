"""Whether a DataFrame's columns fit a table, and the DataFrame as it is written when they do.

All that does not fit is said at once, before a task runs: which column, what the table expects and what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.domain.definitions import Column, TableDefinition
from commitlog.domain.types import fold
from commitlog.errors import DataFileError
from commitlog.spark.columns import FIELD_ID, default_expression, identified_type, quoted, spark_type

_INTEGERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)


def fit(df: DataFrame, table: TableDefinition, *more: Expression, ignored: Collection[str] = ()) -> DataFrame:
    """``df`` with the table's columns in the table's order, each with its field id; behind them ``more``.

    Columns of ``df`` that are ``ignored`` are none of the table's.

    Raises:
        DataFileError: see `check_fit`.
    """
    schema = st.StructType([each for each in df.schema.fields if each.name not in ignored])
    check_fit(schema, table)
    return df.select(*_expressions(type(df).__module__, schema, table.columns), *more)


@lru_cache(maxsize=64)
def _expressions(interface: str, schema: st.StructType, columns: tuple[Column, ...]) -> tuple[Expression, ...]:
    """The table's columns from one with ``schema``, made once for all batches of a stream: each costs Spark some calls.

    The ``interface`` is Spark Connect's or the other, whose expressions do not mix.
    """
    given = {fold(each.name): each for each in schema.fields}
    return tuple(_expression(column, given.get(fold(column.name))) for column in columns)


def check_fit(schema: st.StructType, table: TableDefinition) -> None:
    """Compare the columns of a DataFrame with a table's, by name and without regard to case.

    A missing one will be written as its default, or NULL. Integers and floats are widened to the table's type; nothing
    is narrowed.

    Raises:
        DataFileError: the columns do not fit; the message lists every one that does not.
    """
    given = {fold(each.name): each for each in schema.fields}
    known = {fold(column.name) for column in table.columns}
    problems = [_twice(schema)] + [_problem(column, given.get(fold(column.name))) for column in table.columns]
    problems += [_unknown(each, table) for name, each in given.items() if name not in known]
    found = [problem for problem in problems if problem]
    if found:
        raise DataFileError(f"the rows do not fit table {table.name}: " + "; ".join(found))


def _twice(schema: st.StructType) -> str | None:
    names = [fold(each.name) for each in schema.fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"column {', '.join(twice)} is there twice" if twice else None


def _unknown(given: st.StructField, table: TableDefinition) -> str:
    return f"column {given.name} is not in the table (it has {', '.join(c.name for c in table.columns[:20])})"


def _problem(column: Column, given: st.StructField | None) -> str | None:
    expected = spark_type(column.type)
    if given is None:
        if column.nullable or column.default is not None:
            return None
        return f"column {column.name} is missing, expected {expected.simpleString()} ({column.type}, never NULL)"
    if column.type.name.startswith("uint"):
        return f"column {column.name} is {column.type}, which Spark's writer has no type for: use format('commitlog')"
    if not _widens(given.dataType, expected):
        shown = f"expected {expected.simpleString()} ({column.type}), found {given.dataType.simpleString()}"
        return f"column {column.name}: {shown}"
    return None


def _widens(given: st.DataType, expected: st.DataType) -> bool:
    if isinstance(given, st.NullType):
        return True
    if isinstance(given, st.StringType) and isinstance(expected, st.StringType):
        return True
    if isinstance(given, _INTEGERS) and isinstance(expected, _INTEGERS):
        ladder = [type(kind()) for kind in _INTEGERS]
        return ladder.index(type(given)) <= ladder.index(type(expected))
    if isinstance(given, st.FloatType) and isinstance(expected, st.DoubleType):
        return True
    if isinstance(given, st.DecimalType) and isinstance(expected, st.DecimalType):
        whole = expected.precision - expected.scale >= given.precision - given.scale
        return whole and expected.scale >= given.scale
    if isinstance(given, st.ArrayType) and isinstance(expected, st.ArrayType):
        return _widens(given.elementType, expected.elementType)
    if isinstance(given, st.MapType) and isinstance(expected, st.MapType):
        return _widens(given.keyType, expected.keyType) and _widens(given.valueType, expected.valueType)
    if isinstance(given, st.StructType) and isinstance(expected, st.StructType):
        return _same_fields(given, expected)
    return type(given) is type(expected)


def _same_fields(given: st.StructType, expected: st.StructType) -> bool:
    theirs = {fold(each.name): each for each in given.fields}
    if len(theirs) != len(given.fields) or theirs.keys() != {fold(each.name) for each in expected.fields}:
        return False
    return all(_widens(theirs[fold(each.name)].dataType, each.dataType) for each in expected.fields)


def _expression(column: Column, given: st.StructField | None) -> Expression:
    expected = identified_type(column)
    if given is None:
        value = sf.lit(None) if column.default is None else sf.expr(default_expression(expected, column.default))
        value = value.cast(expected)
    else:
        value = sf.col(quoted(given.name))
        if given.dataType != expected:
            value = _conformed(value, given.dataType, expected)
    if not column.nullable and (given is None or given.nullable):
        value = sf.coalesce(value, sf.raise_error(sf.lit(f"column {column.name} may not be NULL")))
    return value.alias(column.name, metadata={FIELD_ID: column.column_id})


def _conformed(value: Expression, given: st.DataType, expected: st.DataType) -> Expression:
    """``value`` as the table's type: struct fields by name (a cast goes by position), the rest by a cast."""
    if isinstance(given, st.StructType) and isinstance(expected, st.StructType):
        theirs: Mapping[str, st.StructField] = {fold(each.name): each for each in given.fields}
        parts = [
            _conformed(value.getField(theirs[fold(each.name)].name), theirs[fold(each.name)].dataType, each.dataType)
            .alias(each.name, metadata=each.metadata)
            for each in expected.fields
        ]  # fmt: skip
        return sf.when(value.isNotNull(), sf.struct(*parts)).cast(expected)
    if isinstance(given, st.ArrayType) and isinstance(expected, st.ArrayType):
        return sf.transform(value, lambda item: _conformed(item, given.elementType, expected.elementType)).cast(
            expected
        )
    return value.cast(expected)
