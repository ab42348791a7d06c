"""Whether a DataFrame's columns fit a table, and the DataFrame as it is written when they do.

All that does not fit is said at once, before a task runs: which column, what the table expects and what there is. The
fields of structs, also of those in lists and maps, are matched as the columns are; `arrow_columns` does the same to Arrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.client.files.file_columns import ROW_ID, ROW_ID_FIELD
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import ColumnType, fold
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.columns import (
    FIELD_ID,
    check_told_apart,
    default_expression,
    field_metadata,
    identified_type,
    is_held,
    quoted,
    spark_type,
)

_INTEGERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_DIGITS = {st.ByteType: 3, st.ShortType: 5, st.IntegerType: 10, st.LongType: 19}
_DOUBLE_DIGITS = 15
_TEXTS = (st.StringType, st.CharType, st.VarcharType)
_NESTED = (st.StructType, st.ArrayType, st.MapType)


def check_frame(df: DataFrame) -> None:
    """See that rows are Spark's, and not those of pandas or another library, nor a stream of them.

    Raises:
        InvalidRequestError: they are not.
    """
    if not isinstance(df, DataFrame):
        raise InvalidRequestError(
            f"rows are a DataFrame of Spark, not {type(df).__module__.split('.')[0]}'s {type(df).__name__}: give "
            "spark.createDataFrame(rows)"
        )
    if df.isStreaming:
        raise InvalidRequestError(
            "rows of a stream come in batches: write it by df.writeStream.foreachBatch(commitlog.spark.stream_into(table))"
        )


def fit(
    df: DataFrame,
    table: TableDefinition,
    *more: Expression,
    ignored: Collection[str] = (),
    kept: Collection[str] = (),
) -> DataFrame:
    """``df`` with the table's columns in the table's order, each with its field id; behind them ``more``.

    Columns of ``df`` that are ``ignored`` are none of the table's. Those ``kept`` have values that the table has already, which
    nobody judges.

    Raises:
        DataFileError: see `check_fit`.
    """
    check_told_apart(df.sparkSession, table.columns, table.name)
    schema = st.StructType([each for each in df.schema.fields if each.name not in ignored])
    check_fit(schema, table)
    return df.select(*_expressions(type(df).__module__, schema, table.columns, frozenset(map(fold, kept))), *more)


def fit_with_ids(
    df: DataFrame,
    table: TableDefinition,
    *more: Expression,
    ignored: Collection[str] = (),
    new: Collection[str] = (),
) -> DataFrame:
    """`fit` for rows that have a ``ROW_ID``, which their file carries, and in some columns ``new`` values."""
    others = {fold(column.name) for column in table.columns} - {*map(fold, new)}
    return fit(df, table, _row_id(type(df).__module__), *more, ignored=(ROW_ID, *ignored), kept=others)


@lru_cache(maxsize=2)
def _row_id(interface: str) -> Expression:
    return sf.col(ROW_ID).alias(ROW_ID, metadata={FIELD_ID: ROW_ID_FIELD})


@lru_cache(maxsize=64)
def _expressions(
    interface: str, schema: st.StructType, columns: tuple[Column, ...], kept: frozenset[str]
) -> tuple[Expression, ...]:
    """The table's columns from one with ``schema``, made once for all batches of a stream: each costs Spark some calls.

    The ``interface`` is Spark Connect's or the other, whose expressions do not mix.
    """
    given = {fold(each.name): each for each in schema.fields}
    return tuple(
        _expression(column, given.get(fold(column.name)), is_new=fold(column.name) not in kept)
        for column in columns
        if fold(column.name) in given or _is_writable(column.type)
    )


def completed(df: DataFrame, table: TableDefinition) -> DataFrame:
    """``df`` and, behind its own columns, those of the table that it lacks, with what they will have.

    Raises:
        DataFileError: see `check_fit`.
    """
    check_fit(df.schema, table)
    given = {fold(name) for name in df.columns}
    lacking = [each for each in table.columns if fold(each.name) not in given and _is_writable(each.type)]
    return df.select("*", *[_missing(each).alias(each.name) for each in lacking]) if lacking else df


def conform(df: DataFrame, table: TableDefinition, *, ignored: Collection[str]) -> DataFrame:
    """``df`` with those of the table's columns that it has, as their types; behind them those ``ignored``, as they are.

    Raises:
        DataFileError: one is none of the table's, or does not fit.
    """
    check_conforming(df.schema, table, ignored=ignored)
    given = {fold(each.name): each for each in df.schema.fields if each.name not in ignored}
    found = [(column, given[fold(column.name)]) for column in table.columns if fold(column.name) in given]
    return df.select(
        *[_conformed(sf.col(quoted(each.name)), each.dataType, column).alias(each.name) for column, each in found],
        *map(quoted, ignored),
    )


def check_conforming(schema: st.StructType, table: TableDefinition, *, ignored: Collection[str] = ()) -> None:
    """See that columns, but for those ``ignored``, are some of the table's.

    Raises:
        DataFileError: one is none of them, or does not fit.
    """
    fields = [each for each in schema.fields if each.name not in ignored]
    _refuse(_misfits(st.StructType(fields), table, by_arrow=False), table)


def check_fit(schema: st.StructType, table: TableDefinition, *, by_arrow: bool = False) -> None:
    """Compare the columns of a DataFrame with a table's, by name and without regard to case, and so their fields.

    A missing one will be written as its default, or NULL. Numbers are widened to the table's type, where it has room for
    each of the given one; nothing is narrowed.

    Args:
        schema: the DataFrame's.
        table: the table.
        by_arrow: the rows are written by Arrow, which has unsigned integers.

    Raises:
        DataFileError: the columns do not fit; the message lists every one that does not.
    """
    given = {fold(each.name) for each in schema.fields}
    missing = [
        problem
        for column in table.columns
        if fold(column.name) not in given
        and (problem := _missing_problem(column, column.name, by_arrow=by_arrow)) is not None
    ]
    _refuse([*_misfits(schema, table, by_arrow=by_arrow), *missing], table)


def _refuse(problems: Sequence[str], table: TableDefinition) -> None:
    if problems:
        raise DataFileError(f"the rows do not fit table {table.name}: " + "; ".join(problems))


def _misfits(schema: st.StructType, table: TableDefinition, *, by_arrow: bool) -> list[str]:
    given = {fold(each.name): each for each in schema.fields}
    known = {fold(column.name) for column in table.columns}
    problems = [*([] if schema.fields else ["they have no columns"]), *_twice(schema)]
    for column in table.columns:
        if fold(column.name) in given:
            problems += _problems(column, given[fold(column.name)].dataType, column.name, by_arrow=by_arrow)
    return problems + [_unknown(each, table) for name, each in given.items() if name not in known]


def _twice(schema: st.StructType) -> Iterator[str]:
    counts = Counter([fold(each.name) for each in schema.fields])
    if twice := sorted(name for name, count in counts.items() if count > 1):
        yield f"column {', '.join(twice)} is there twice"


def _unknown(given: st.StructField, table: TableDefinition) -> str:
    return f"column {given.name} is not in the table (it has {', '.join(c.name for c in table.columns[:20])})"


def _missing_problem(column: Column, where: str, *, by_arrow: bool) -> str | None:
    may_lack = column.nullable or column.default is not None
    if _is_writable(column.type) or (by_arrow and is_held(column.type)):
        expected = f"{spark_type(column.type).simpleString()} ({column.type}, never NULL)"
        return None if may_lack else f"column {where} is missing, expected {expected}"
    # Spark's files are without it, and are read as if each row had what the column was added with.
    is_told = by_arrow or column.default == column.initial_default
    return None if may_lack and is_told else f"column {where} is missing, and {_unheld(column)}"


def _is_writable(data_type: ColumnType) -> bool:
    """Whether Spark's writer has a type for it: it has none for unsigned numbers, which Spark holds as wider ones."""
    return is_held(data_type) and not _is_unsigned(data_type)


def _is_unsigned(data_type: ColumnType) -> bool:
    return data_type.name.startswith("uint") or any(_is_unsigned(inner) for _, inner in data_type.fields)


def _unheld(column: Column) -> str:
    if is_held(column.type):
        return (
            f"Spark's writer has no type for its {column.type}: rows of such a table are appended by format('commitlog'), and "
            "not updated, merged, overwritten, compacted or flushed by Spark"
        )
    return f"Spark has no type for its {column.type}: append such rows with log.table(...).append"


def _problems(column: Column, given: st.DataType, where: str, *, by_arrow: bool) -> Iterator[str]:
    """What does not fit of a column or nested field that is there."""
    if isinstance(given, st.NullType) and is_held(column.type):
        return
    if not is_held(column.type):
        yield f"column {where} is there, and {_unheld(column)}"
        return
    expected = spark_type(column.type)
    if isinstance(expected, st.StructType) and isinstance(given, st.StructType):
        yield from _field_problems(column, given, where, by_arrow=by_arrow)
    elif isinstance(expected, st.ArrayType) and isinstance(given, st.ArrayType):
        yield from _problems(column.children[0], given.elementType, f"{where}.element", by_arrow=by_arrow)
    elif isinstance(expected, st.MapType) and isinstance(given, st.MapType):
        yield from _problems(column.children[0], given.keyType, f"{where}.key", by_arrow=by_arrow)
        yield from _problems(column.children[1], given.valueType, f"{where}.value", by_arrow=by_arrow)
    elif column.type.name.startswith("uint") and not by_arrow:
        yield f"column {where} is there, and {_unheld(column)}"
    elif not _widens(given, expected):
        shown = f"expected {expected.simpleString()} ({column.type}), found {given.simpleString()}"
        is_plain = not isinstance(expected, _NESTED) and not isinstance(given, _NESTED)
        yield f"column {where}: {shown}{'; cast it first' if is_plain else ''}"


def _field_problems(column: Column, given: st.StructType, where: str, *, by_arrow: bool) -> Iterator[str]:
    theirs = {fold(each.name): each for each in given.fields}
    known = {fold(child.name) for child in column.children}
    if len(theirs) != len(given.fields):
        yield f"column {where} has a field twice: {', '.join(each.name for each in given.fields)}"
        return
    for child in column.children:
        name = f"{where}.{child.name}"
        if fold(child.name) in theirs:
            yield from _problems(child, theirs[fold(child.name)].dataType, name, by_arrow=by_arrow)
        elif _is_unsigned(child.type) and not by_arrow:
            yield f"column {name} is missing, and {_unheld(child)}"
        elif problem := _missing_problem(child, name, by_arrow=by_arrow):
            yield problem
    for folded, each in theirs.items():
        if folded not in known:
            yield f"column {where}: field {each.name} is not in {column.type}"


def _widens(given: st.DataType, expected: st.DataType) -> bool:
    if isinstance(given, _TEXTS) and isinstance(expected, st.StringType):
        return True
    if isinstance(given, _INTEGERS) and isinstance(expected, _INTEGERS):
        ladder = [type(kind()) for kind in _INTEGERS]
        return ladder.index(type(given)) <= ladder.index(type(expected))
    if isinstance(given, _INTEGERS) and isinstance(expected, st.DoubleType):
        return _DIGITS[type(given)] <= _DOUBLE_DIGITS
    if isinstance(given, _INTEGERS) and isinstance(expected, st.DecimalType):
        return _DIGITS[type(given)] <= expected.precision - expected.scale
    if isinstance(given, st.FloatType) and isinstance(expected, st.DoubleType):
        return True
    if isinstance(given, st.DecimalType) and isinstance(expected, st.DecimalType):
        whole = expected.precision - expected.scale >= given.precision - given.scale
        return whole and expected.scale >= given.scale
    return type(given) is type(expected)


def _expression(column: Column, given: st.StructField | None, *, is_new: bool) -> Expression:
    value = _missing(column) if given is None else _conformed(sf.col(quoted(given.name)), given.dataType, column)
    if given is not None and is_new and any(each.type.name in ("varchar", *_READABLE) for each in column.walk()):
        value = _readable(value, column)
    if not column.nullable and (given is None or given.nullable):
        value = sf.coalesce(value, sf.raise_error(sf.lit(f"column {column.name} may not be NULL")))
    return value.alias(column.name, metadata=field_metadata(column))


def _readable(value: Expression, column: Column) -> Expression:
    """The value, which all readers take for the same, or the write fails; `arrow_columns` sees to that for Arrow's."""
    children = column.children
    match column.type.name:
        case "struct":
            fields = [_readable(value.getField(each.name), each).alias(each.name) for each in children]
            return sf.when(value.isNotNull(), sf.struct(*fields)).cast(identified_type(column))
        case "list":
            return sf.transform(value, lambda item: _readable(item, children[0])).cast(identified_type(column))
        case "map":
            keys = sf.transform(sf.map_keys(value), lambda key: _readable(key, children[0]))
            items = sf.transform(sf.map_values(value), lambda item: _readable(item, children[1]))
            return sf.map_from_arrays(keys, items).cast(identified_type(column))
        case "varchar":
            # Spark makes a text of any bytes, and DuckDB reads no row of a file that has such.
            return sf.validate_utf8(value)
    if column.type.name not in _READABLE:
        return value
    is_readable, what = _READABLE[column.type.name]
    words = sf.concat(sf.lit(f"column {column.name}: the value "), value.cast("string"), sf.lit(f" {what}"))
    return sf.when(value.isNull() | is_readable(value), value).otherwise(sf.raise_error(words))


def _is_json(text: Expression) -> Expression:
    """Whether a text is one value of JSON. Spark does not mind what follows it, so it has to be one within others, too."""
    within = [sf.concat(sf.lit(before), text, sf.lit(after)) for before, after in (("[", "]"), ('{"a":', "}"))]
    return sf.try_parse_json(within[0]).isNotNull() & sf.try_parse_json(within[1]).isNotNull()


def _is_whole(moment: Expression, second_parts: int) -> Expression:
    return sf.extract(sf.lit("SECOND"), moment) * second_parts % 1 == 0


_READABLE: Mapping[str, tuple[Callable[[Expression], Expression], str]] = {
    "json": (_is_json, "is no JSON text, or one with a key that is there twice"),
    "timestamp_s": (lambda moment: _is_whole(moment, 1), "has parts of a second"),
    "timestamp_ms": (lambda moment: _is_whole(moment, 1000), "has parts of a millisecond"),
}
"""What readers agree on: for text that is no JSON DuckDB reads no row of the table, and finer times one cuts, and another one
rounds."""


def _missing(column: Column) -> Expression:
    expected = identified_type(column)
    value = sf.lit(None) if column.default is None else sf.expr(default_expression(expected, column.default))
    return value.cast(expected)


def _conformed(value: Expression, given: st.DataType, column: Column) -> Expression:
    """``value`` as the column's type: struct fields by name (a cast goes by position), the rest by a cast."""
    expected, children = identified_type(column), column.children
    if given == expected:
        return value
    if given.simpleString() == expected.simpleString():
        return value.cast(expected)
    if isinstance(given, st.StructType):
        theirs: Mapping[str, st.StructField] = {fold(each.name): each for each in given.fields}
        parts = []
        for child in children:
            own = theirs.get(fold(child.name))
            part = _missing(child) if own is None else _conformed(value.getField(own.name), own.dataType, child)
            parts.append(part.alias(child.name, metadata={FIELD_ID: child.column_id}))
        value = sf.when(value.isNotNull(), sf.struct(*parts))
    elif isinstance(given, st.ArrayType):
        value = sf.transform(value, lambda item: _conformed(item, given.elementType, children[0]))
    elif isinstance(given, st.MapType):
        keys = sf.transform(sf.map_keys(value), lambda key: _conformed(key, given.keyType, children[0]))
        items = sf.transform(sf.map_values(value), lambda item: _conformed(item, given.valueType, children[1]))
        value = sf.map_from_arrays(keys, items)
    return value.cast(expected)
