"""Column statistics of files and tables as DuckLake keeps them: texts that cover the data, compared as values.

A bound that is too narrow makes readers lose rows; an unknown one (NULL) only costs pruning. So a table's bounds become
unknown, for good, as soon as one of its files does not tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from commitlog.domain.model import ColumnStatistics, RowValue, Scalar, Statistics
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.typed_values import canonical_value, is_one_value, nearest_float, value_text
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, NESTED, TIMESTAMPS, ColumnType

StatisticsDecoder: TypeAlias = Callable[[bytes], tuple[ColumnStatistics, ...]]

_EXPONENT_BELOW, _EXPONENT_FROM = 1e-4, 1e16
_BOUNDLESS = NESTED | {"interval", "json", "variant", "geometry", "blob", "timetz"}


def leaves(column: Column) -> Iterator[Column]:
    """The columns below ``column`` that hold values themselves."""
    if column.children:
        for child in column.children:
            yield from leaves(child)
    else:
        yield column


def bound(data_type: ColumnType, value: Scalar | RowValue) -> Any | None:
    """A minimum or maximum as a comparable value; None when it is missing, of another type or not to be compared."""
    if data_type.name == "int64" and isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else None
    if value is None or data_type.name in _BOUNDLESS or (isinstance(value, str) and "\0" in value):
        return None
    if data_type.name == "varchar" and isinstance(value, str):
        return value
    try:
        canonical = canonical_value(data_type, value)
        if data_type.name in TIMESTAMPS:
            value_text(data_type, canonical)
    except (ValueError, ArithmeticError):
        return None
    if not isinstance(canonical, float):
        return canonical
    # A writer may have told 0.1 of a float32; as a float64, which the column can become, the value itself is greater.
    return None if canonical != canonical else nearest_float(data_type, canonical)


def told_bound(data_type: ColumnType, value: Scalar) -> Any | None:
    """A bound that a file's writer told; None, too, for a number that stands for several decimals of the column."""
    return bound(data_type, value) if is_one_value(data_type, value) else None


def bound_text(data_type: ColumnType, value: Any | None) -> str | None:
    """The catalog's text of a comparable value."""
    if value is None or data_type.name == "varchar":
        return value
    if data_type.name in INTEGER_BITS:
        return str(value)
    return value_text(data_type, value)


def file_bound_text(data_type: ColumnType, value: Any | None) -> str | None:
    """The catalog's text of a bound of a file.

    The stock client writes very small and very large numbers with an exponent, and compares float32 with them as doubles. The
    value nearest to such a number may lie on the wrong side of it: files that begin or end there are not told where.
    """
    if data_type.name == "float32" and value and not _EXPONENT_BELOW <= abs(value) < _EXPONENT_FROM:
        return None
    return bound_text(data_type, value)


@dataclass(slots=True)
class ColumnBounds:
    """What is known of one column over all rows of a table, also those of files that were written before it was added.

    unknown: some rows are not covered by the bounds, which are gone for good. Without that and without bounds no value was
    seen yet: nothing is stored, and the row's absence means the same when it is read again.
    """

    data_type: ColumnType
    contains_null: bool | None = False
    contains_nan: bool | None = False
    low: Any | None = None
    high: Any | None = None
    unknown: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether there is something to tell readers."""
        return self.unknown or self.low is not None

    @property
    def covers_all(self) -> bool:
        """Whether nothing that comes could widen them."""
        if not self.unknown or self.contains_null is False:
            return False
        return self.contains_nan is not False or self.data_type.name not in FLOATS

    def widen(self, *, low: Any | None, high: Any | None, empty: bool, null: bool | None, nan: bool | None) -> None:
        """Cover one more file or row; ``empty``: it holds no values of this column, so no bounds are missing."""
        if null is None or self.contains_null is None:
            self.contains_null = True if self.contains_null or null else None
        else:
            self.contains_null = self.contains_null or null
        if self.data_type.name in FLOATS and not (empty and nan is None):
            self._widen_nan(nan)
        if empty or self.unknown:
            return
        if low is None or high is None:
            self.forget()
        else:
            self.low = low if self.low is None or low < self.low else self.low
            self.high = high if self.high is None or high > self.high else self.high

    def forget(self) -> None:
        """There are rows that the bounds do not cover."""
        self.unknown = True
        self.low = self.high = None

    def _widen_nan(self, nan: bool | None) -> None:
        # NaN sorts above all numbers, so where there may be one the bounds cover nothing.
        if nan is not False:
            self.contains_nan = True if nan or self.contains_nan else None
            self.forget()

    def texts(self) -> tuple[str | None, str | None]:
        """Minimum and maximum as the catalog has them."""
        return bound_text(self.data_type, self.low), bound_text(self.data_type, self.high)


@dataclass(slots=True)
class TableStatistics:
    """The row of ``ducklake_table_stats`` and those of ``ducklake_table_column_stats``, in memory while a batch runs."""

    record_count: int = 0
    next_row_id: int = 0
    file_size_bytes: int = 0
    stored: bool = False
    columns: dict[int, ColumnBounds] = field(default_factory=dict)
    stored_columns: set[int] = field(default_factory=set)
    dirty_columns: set[int] = field(default_factory=set)

    def bounds(self, column: Column) -> ColumnBounds:
        """The bounds of a leaf, about to be widened, before the table's rows are counted."""
        self.dirty_columns.add(column.column_id)
        known = self.columns.get(column.column_id)
        if known is None:
            known = self.columns[column.column_id] = self._first_bounds(column)
        return known

    def _first_bounds(self, column: Column) -> ColumnBounds:
        """Rows from before the column was added read as its initial default."""
        first = ColumnBounds(column.type, contains_null=self.record_count > 0)
        if column.initial_default is not None:
            first.low = first.high = bound(column.type, column.initial_default)
            first.unknown = first.low is None
        return first

    def forget_bounds(self, leaf: Column) -> None:
        """A file does not tell anything of a column: its bounds are unknown from now on."""
        known = self.columns.get(leaf.column_id)
        if known is not None and known.covers_all:
            return
        self.bounds(leaf).widen(low=None, high=None, empty=False, null=None, nan=None)


def expand(statistics: Statistics, decode: StatisticsDecoder | None) -> tuple[ColumnStatistics, ...]:
    """A file's statistics, decoded; what does not decode is unknown."""
    if isinstance(statistics, tuple):
        return statistics
    return decode(statistics) if decode is not None and statistics else ()
