"""One Parquet file in the making, and what the log is told of it: known from writing it, so that nobody reads its footer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from commitlog.client.files.column_statistics import column_statistics, kept
from commitlog.client.files.places import Naming, filesystem_of, normal_path
from commitlog.client.writing.fitting import Fit
from commitlog.domain.model import ColumnStatistics, DataFile, Scalar
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import FLOATS

GROUP_ROWS = 1_048_576
"""Rows of a row group."""

BUFFER_BYTES = 64 * 1024
"""What is written at once of a file in the making."""

FEW_VALUES = 100
"""So few are looked through faster by Python than Arrow is called."""

_TAIL_BYTES = 8
"""What a file has behind its footer: the footer's size, and the magic."""


@dataclass(slots=True)
class _FloatColumn:
    """What a column of floats holds, of which a footer tells nothing."""

    low: float = math.inf
    high: float = -math.inf
    nulls: int = 0
    has_nan: bool = False
    is_bounded: bool = False

    def add(self, values: pa.ChunkedArray) -> None:
        self.nulls += values.null_count
        if len(values) <= FEW_VALUES:
            known = [value for value in values.to_pylist() if value is not None]
            numbers = [value for value in known if not math.isnan(value)]
            if numbers:
                self._widen(min(numbers), max(numbers))
            self.has_nan = self.has_nan or len(numbers) < len(known)
            return
        found = pc.min_max(values)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None and not math.isnan(low):
            self._widen(low, high)
        self.has_nan = self.has_nan or bool(pc.any(pc.is_nan(values)).as_py())

    def _widen(self, low: float, high: float) -> None:
        self.low, self.high, self.is_bounded = min(self.low, low), max(self.high, high), True

    def statistics(self, column: Column, record_count: int, size_bytes: int) -> ColumnStatistics:
        bounded = self.is_bounded and math.isfinite(self.low) and math.isfinite(self.high)
        return ColumnStatistics(
            column.name,
            min=self.low if bounded else None,
            max=self.high if bounded else None,
            null_count=self.nulls,
            value_count=record_count - self.nulls,
            contains_nan=self.has_nan,
            size_bytes=size_bytes,
        )


class ParquetFile:
    """A file that rows are written to. Closed by ``close`` or, when it is not wanted, by ``discard``.

    Args:
        folder: of the table; it is made if it is not there.
        name: of the file below it.
        fit: how its rows were made.
        is_small: whether all its rows are so few that it is made in memory and written at once; without dictionaries, which
            would save nothing.
    """

    def __init__(self, folder: str, name: str, fit: Fit, *, is_small: bool) -> None:
        self._name = name
        self._place = normal_path(f"{folder}/{name}")
        self._is_small = is_small
        self._flat = fit.flat
        self._table = fit.table
        self._record_count = 0
        self._floats = {each.column.name: _FloatColumn() for each in fit.flat if each.column.type.name in FLOATS}
        self._sink = pa.BufferOutputStream() if is_small else _opened(self._place, BUFFER_BYTES)
        self._writer = pq.ParquetWriter(
            self._sink,
            fit.schema,
            compression="snappy",
            write_statistics=fit.bounded,
            use_dictionary=not is_small,
            store_schema=fit.stores_schema,
        )

    @property
    def size_bytes(self) -> int:
        """What has been written so far."""
        size: int = self._sink.tell()
        return size

    def write(self, rows: pa.Table) -> None:
        """Add rows, as row groups of their own."""
        for name, column in self._floats.items():
            column.add(rows.column(name))
        with Naming(self._place):
            self._writer.write_table(rows, row_group_size=GROUP_ROWS)
        self._record_count += rows.num_rows

    def close(self, partition_values: Sequence[Scalar] | None) -> DataFile:
        """End the file, and describe it."""
        before = self.size_bytes
        with Naming(self._place):
            self._writer.close()
            size = self.size_bytes
            if self._is_small:
                with _opened(self._place, None) as file:
                    file.write(self._sink.getvalue())
            else:
                self._sink.close()
        return DataFile(
            path=self._name,
            path_is_relative=True,
            record_count=self._record_count,
            file_size_bytes=size,
            footer_size=size - before - _TAIL_BYTES,
            statistics=kept(self._statistics(self._writer.writer.metadata), self._table),
            partition_values=None if partition_values is None else tuple(partition_values),
        )

    def discard(self) -> None:
        """End the file without a word on it; it may still be there."""
        self._writer.close()
        self._sink.close()

    def _statistics(self, metadata: Any) -> tuple[ColumnStatistics, ...]:
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        found = []
        for leaf, column, bounds in self._flat:
            told = self._floats.get(column.name)
            if told is None:
                found.append(column_statistics(groups, leaf, column, bounds, self._record_count))
            else:
                size = sum([group.column(leaf).total_compressed_size for group in groups])
                found.append(told.statistics(column, self._record_count, size))
        return tuple(found)


def _opened(place: str, buffer_size: int | None) -> pa.NativeFile:
    """A file to write to; its folder is made where there is none."""
    filesystem, inner = filesystem_of(place)
    with Naming(place):
        try:
            return filesystem.open_output_stream(inner, compression=None, buffer_size=buffer_size)
        except FileNotFoundError:
            filesystem.create_dir(inner.rpartition("/")[0], recursive=True)
            return filesystem.open_output_stream(inner, compression=None, buffer_size=buffer_size)
