"""What a Parquet footer knows of each flat column, in the value domain, as the catalog keeps it.

A bound that is missing is safe, one that is too narrow loses rows: whatever is not certainly exact is left out. A
footer does not tell whether there are NaNs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa

from commitlog.domain.model import BIGINT_MAX, ColumnStatistics, Scalar
from commitlog.domain.model.definitions import STATISTICS_COLUMNS, STATISTICS_COLUMNS_DEFAULT, Column, TableDefinition
from commitlog.domain.model.typed_values import SECOND_DIGITS, value_text
from commitlog.domain.model.types import TIMESTAMPS, ColumnType

TEXT_BYTES_MAX = 256
"""Longer text is no bound: cut, it would not be exact, and whole, it would fill the proposal."""

Bound: TypeAlias = "bool | int | float | Decimal | str | date"
BoundsReader: TypeAlias = Callable[[Any], tuple[Any, Any]]
"""Takes pyarrow's statistics of a chunk, and gives its least and its greatest value, each None where it is not certain."""

_PLAIN = (bool, float, str)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000
_EPOCH = date(1970, 1, 1)


def column_statistics(
    groups: Sequence[Any], leaf: int, column: Column, bounds: BoundsReader | None, record_count: int
) -> ColumnStatistics:
    """The statistics of one flat column of a file.

    Args:
        groups: pyarrow's metadata of the file's row groups.
        leaf: which of the file's Parquet columns.
        column: the table's column.
        bounds: see `bounds_reader`.
        record_count: the file's rows.
    """
    chunks = [group.column(leaf) for group in groups]
    known = [chunk.statistics for chunk in chunks]
    null_count = _sum([each.null_count if each is not None and each.has_null_count else None for each in known])
    low, high = (None, None) if bounds is None else _bounds(column.type, bounds, groups, known)
    return ColumnStatistics(
        column.name,
        min=low,
        max=high,
        null_count=null_count,
        value_count=None if null_count is None else record_count - null_count,
        size_bytes=sum([chunk.total_compressed_size for chunk in chunks]),
    )


def kept(found: Sequence[ColumnStatistics], table: TableDefinition) -> tuple[ColumnStatistics, ...]:
    """Of all statistics of a file those that go into the proposal: of the table's first columns, as many as its property
    ``statistics_columns`` says (32), and of those that it is partitioned by."""
    count = int(table.properties.get(STATISTICS_COLUMNS, STATISTICS_COLUMNS_DEFAULT))
    if len(found) <= count:
        return tuple(found)
    flat = [column.name for column in table.columns if not column.children]
    chosen = {*flat[:count], *(table.column_by_id(key.column_id).name for key in table.partition_by)}
    return tuple(each for each in found if each.column in chosen)


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(counts)  # type: ignore[arg-type]


def _bounds(
    data_type: ColumnType, read: BoundsReader, groups: Sequence[Any], known: Sequence[Any]
) -> tuple[Scalar, Scalar]:
    lows: list[Any] = []
    highs: list[Any] = []
    for group, statistics in zip(groups, known, strict=True):
        if statistics is None:
            return None, None
        if not statistics.has_min_max:
            if statistics.has_null_count and statistics.null_count == group.num_rows:
                continue
            return None, None
        low, high = read(statistics)
        lows.append(low)
        highs.append(high)
    return _end(data_type, lows, min), _end(data_type, highs, max)


def _end(data_type: ColumnType, values: list[Bound | None], choose: Callable[[list[Any]], Bound]) -> Scalar:
    if not values or None in values:
        return None
    return _scalar(data_type, choose(values))


def _scalar(data_type: ColumnType, value: Bound) -> Scalar:
    if isinstance(value, _PLAIN):
        return value
    if data_type.name == "time" and isinstance(value, int) and not 0 <= value < _DAY_NS:
        # DuckDB's 24:00:00, for which others have no text.
        return None
    if data_type.name in TIMESTAMPS or data_type.name == "time":
        try:
            return value_text(data_type, value)
        except OverflowError:
            return None
    if isinstance(value, int):
        return value if abs(value) <= BIGINT_MAX else str(value)
    return value_text(data_type, value)


def _both(convert: Callable[[Any], Bound | None]) -> BoundsReader:
    return lambda statistics: (convert(statistics.min), convert(statistics.max))


def _raw(convert: Callable[[int], Bound | None]) -> BoundsReader:
    return lambda statistics: (convert(statistics.min_raw), convert(statistics.max_raw))


def _times(factor: int, unit: int) -> BoundsReader:
    """Bounds in units of ``factor`` nanoseconds, widened to whole ones of ``unit``, the column's: readers cut or round."""

    def read(statistics: Any) -> tuple[int | None, int | None]:
        low, high = statistics.min_raw, statistics.max_raw
        return (
            low * factor // unit * unit if isinstance(low, int) else None,
            -(-high * factor // unit) * unit if isinstance(high, int) else None,
        )

    return read


def bounds_reader(data_type: ColumnType, found: pa.DataType) -> BoundsReader | None:
    """How bounds of the Arrow type in a file become values of the table's type; None where they prove nothing."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if data_type.name == "uuid" and isinstance(found, pa.BaseExtensionType):
        return _both(lambda value: str(UUID(bytes=value)))
    if pa.types.is_boolean(found):
        return _both(bool)
    if pa.types.is_integer(found):
        return _both(int)
    if pa.types.is_float32(found) or pa.types.is_float64(found):
        return _both(lambda value: float(value) if math.isfinite(value) else None)
    if pa.types.is_decimal(found) and data_type.name == "decimal":
        return _both(lambda value: value if isinstance(value, Decimal) else None)
    if data_type.name == "varchar" and (pa.types.is_string(found) or pa.types.is_large_string(found)):
        return _both(_text)
    if pa.types.is_date32(found):
        return _raw(_date)
    if pa.types.is_timestamp(found) or (pa.types.is_time(found) and data_type.name == "time"):
        return _times(_NANOSECONDS[found.unit], 10 ** (9 - SECOND_DIGITS.get(data_type.name, 9)))
    return None


def _text(value: object) -> str | None:
    if not isinstance(value, str) or _UNPRINTABLE.search(value) or len(value.encode()) > TEXT_BYTES_MAX:
        return None
    return value


def _date(days: int) -> date | None:
    try:
        return _EPOCH + timedelta(days=days)
    except OverflowError:
        return None
