"""The place of a row on a Z-order curve over several columns.

Each column's values are first made ranks among quantiles of a sample, so that a column's skew and type do not matter; the
bits of the ranks, taken in turns, are the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import FLOATS, NESTED, TIMESTAMPS
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.columns import quoted

COLUMNS_MAX = 8
RANK_BITS = 7
SAMPLE_ROWS = 20_000
_SEED = 20130101


def check_columns(table: TableDefinition, names: Sequence[str], *, curve: bool) -> None:
    """Check that rows can be ordered by the columns.

    Raises:
        DataFileError: the table has not one of them, or its values have no order.
        InvalidRequestError: a curve goes through too many of them.
    """
    known = ", ".join(column.name for column in table.columns[:20])
    for name in names:
        column = next((each for each in table.columns if each.name.lower() == name.lower()), None)
        if column is None:
            raise DataFileError(f"table {table.name} has no column {name} to order its rows by (it has {known})")
        if column.type.name in NESTED or (curve and column.type.name == "blob"):
            raise DataFileError(
                f"rows cannot be ordered by column {column.name}: values of {column.type} have no order here"
            )
    if curve and not 2 <= len(set(names)) <= COLUMNS_MAX:
        raise InvalidRequestError(
            f"a Z-order goes through 2 to {COLUMNS_MAX} columns, not {len(set(names))}; use sort_by for one"
        )


def morton(rows: DataFrame, table: TableDefinition, names: Sequence[str], *, row_count: int) -> Expression:
    """The place of each of ``rows`` on the curve through the columns; ``row_count`` is how many there are."""
    columns = [table.column(name) for name in names]
    fraction = min(1.0, SAMPLE_ROWS / max(row_count, 1))
    keys = [_comparable(column).alias(f"k{index}") for index, column in enumerate(columns)]
    sample = rows.select(*keys) if fraction == 1.0 else rows.select(*keys).sample(fraction, _SEED)
    sampled = sample.collect()
    ranks = [
        _rank(_comparable(column), quantiles([row[index] for row in sampled if row[index] is not None]))
        for index, column in enumerate(columns)
    ]
    bits = [
        sf.shiftleft(sf.shiftright(rank, bit).bitwiseAND(sf.lit(1)).cast("bigint"), bit * len(ranks) + index)
        for bit in range(RANK_BITS)
        for index, rank in enumerate(ranks)
    ]
    return reduce(Expression.bitwiseOR, bits)


def quantiles(values: Sequence[Any]) -> list[Any]:
    """Values that cut others into parts of about the same size, at most 2 ** RANK_BITS - 2, each once."""
    ordered = sorted(values)
    parts = 2**RANK_BITS - 1
    return sorted({ordered[len(ordered) * part // parts] for part in range(1, parts)}) if ordered else []


def _rank(value: Expression, bounds: Sequence[Any]) -> Expression:
    """How many bounds are not above the value, found by halving, stretched to RANK_BITS; 0 for NULL.

    Stretched, because a column of few values would else only have a say in the lowest bits, which come last.
    """

    def halved(low: int, high: int) -> Expression:
        if low == high:
            return sf.lit(low * 2**RANK_BITS // (len(bounds) + 1))
        middle = (low + high) // 2
        return sf.when(value < sf.lit(bounds[middle]), halved(low, middle)).otherwise(halved(middle + 1, high))

    return sf.when(value.isNull(), sf.lit(0)).otherwise(halved(0, len(bounds)))


def _comparable(column: Column) -> Expression:
    """A column's values as ones that Python orders as Spark does."""
    value = sf.col(quoted(column.name))
    data_type = column.type.name
    if data_type in TIMESTAMPS:
        return sf.unix_micros(value.cast(st.TimestampType()))
    if data_type == "date":
        return sf.unix_date(value)
    if data_type in FLOATS:
        return sf.when(sf.isnan(value), sf.lit(float("inf"))).otherwise(value)
    return value.cast("int") if data_type == "boolean" else value
