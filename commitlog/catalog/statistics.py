"""Column statistics of files and tables as DuckLake keeps them: texts that cover the data, compared as values.

A bound that is too narrow makes readers lose rows; an unknown one (NULL) only costs pruning. So a table's bounds become
unknown, for good, as soon as one of its files does not tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from commitlog.domain.definitions import Column, TableDefinition
from commitlog.domain.model import ColumnStatistics, RowValue, Scalar, Statistics
from commitlog.domain.types import FLOATS, NESTED, ColumnType, canonical_value, fold, value_text

StatisticsDecoder: TypeAlias = Callable[[bytes], tuple[ColumnStatistics, ...]]

_BOUNDLESS = NESTED | {"interval", "json", "variant", "geometry", "blob", "timetz"}


def leaves(column: Column) -> Iterator[Column]:
    """The columns below ``column`` that hold values themselves."""
    if column.children:
        for child in column.children:
            yield from leaves(child)
    else:
        yield column


def named_leaves(table: TableDefinition) -> dict[str, Column]:
    """Every leaf by its folded path: ``a``, or ``s.x`` for a field of a struct, ``l.element``, ``m.key``, ``m.value``."""

    def walk(column: Column, prefix: str) -> Iterator[tuple[str, Column]]:
        path = prefix + fold(column.name)
        if column.children:
            for child in column.children:
                yield from walk(child, path + ".")
        else:
            yield path, column

    return {path: leaf for column in table.columns for path, leaf in walk(column, "")}


def bound(kind: ColumnType, value: Scalar | RowValue) -> Any | None:
    """A minimum or maximum as a comparable value; None when it is missing, of another type or not to be compared."""
    if value is None or kind.name in _BOUNDLESS or (isinstance(value, str) and "\0" in value):
        return None
    try:
        canonical = canonical_value(kind, value)
    except ValueError:
        return None
    return None if isinstance(canonical, float) and canonical != canonical else canonical


def bound_text(kind: ColumnType, value: Any | None) -> str | None:
    """The catalog's text of a comparable value."""
    return None if value is None else value_text(kind, value)


@dataclass(slots=True)
class ColumnBounds:
    """What is known of one column over all files of a table."""

    kind: ColumnType
    seen: bool = False
    contains_null: bool | None = False
    contains_nan: bool | None = None
    low: Any | None = None
    high: Any | None = None
    unknown: bool = False

    def widen(self, *, low: Any | None, high: Any | None, empty: bool, null: bool | None, nan: bool | None) -> None:
        """Cover one more file or row; ``empty``: it holds no values of this column, so no bounds are missing."""
        self.seen = True
        if null is None or self.contains_null is None:
            self.contains_null = True if self.contains_null or null else None
        else:
            self.contains_null = self.contains_null or null
        if self.kind.name in FLOATS:
            self._widen_nan(nan, empty)
        if empty or self.unknown:
            return
        if low is None or high is None:
            self.unknown = True
            self.low = self.high = None
        else:
            self.low = low if self.low is None or low < self.low else self.low
            self.high = high if self.high is None or high > self.high else self.high

    def _widen_nan(self, nan: bool | None, empty: bool) -> None:
        if empty:
            return
        first = self.low is None and not self.unknown and self.contains_nan is None
        if nan or self.contains_nan:
            self.contains_nan = True
        elif nan is None or (self.contains_nan is None and not first):
            self.contains_nan = None
            self.unknown = True
            self.low = self.high = None
        else:
            self.contains_nan = False

    def texts(self) -> tuple[str | None, str | None]:
        """Minimum and maximum as the catalog has them."""
        return bound_text(self.kind, self.low), bound_text(self.kind, self.high)


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
        """The bounds of a leaf, about to be widened."""
        self.dirty_columns.add(column.column_id)
        known = self.columns.get(column.column_id)
        if known is None:
            known = self.columns[column.column_id] = ColumnBounds(column.type)
        return known

    def forget_bounds(self, leaf: Column) -> None:
        """A file does not tell anything of a column: its bounds are unknown from now on."""
        known = self.columns.get(leaf.column_id)
        if known is not None and known.unknown and known.contains_null is None:
            return
        self.bounds(leaf).widen(low=None, high=None, empty=False, null=None, nan=None)


def expand(statistics: Statistics, decode: StatisticsDecoder | None) -> tuple[ColumnStatistics, ...]:
    """A file's statistics, decoded; what does not decode is unknown."""
    if isinstance(statistics, tuple):
        return statistics
    return decode(statistics) if decode is not None and statistics else ()
