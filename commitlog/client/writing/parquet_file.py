"""One Parquet file in the making, and what the log is told of it: known from writing it, so that nobody reads its footer."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from commitlog.client.files.column_statistics import column_statistics, kept
from commitlog.client.files.places import filesystem_of, naming, normal_path, relative_to
from commitlog.client.writing.file_schema import bounded_columns
from commitlog.client.writing.fitting import Fit
from commitlog.domain.model import ColumnStatistics, DataFile, Scalar
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import FLOATS

GROUP_ROWS = 1_048_576
"""Rows of a row group."""

BUFFER_BYTES = 64 * 1024
"""What is written at once: a small file holds a dozen pieces."""

FEW_VALUES = 100
"""So few are looked through faster by Python than Arrow is called."""

_ENDS_BYTES = 12
"""What a file of a footer alone has beside it: the magic at both ends, and the footer's size."""


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
        path: where; its folder is made if it is a local one.
        fit: how its rows were made.
    """

    def __init__(self, path: str, fit: Fit) -> None:
        self._place = normal_path(path)
        self._flat = fit.flat
        self._table = fit.table
        self._record_count = 0
        self._floats = {each.column.name: _FloatColumn() for each in fit.flat if each.column.type.name in FLOATS}
        filesystem, inner = filesystem_of(self._place)
        folder = inner.rpartition("/")[0]
        if not isinstance(filesystem, fs.LocalFileSystem) or not os.path.isdir(folder):
            filesystem.create_dir(folder, recursive=True)
        with naming(self._place):
            self._sink = filesystem.open_output_stream(inner, buffer_size=BUFFER_BYTES)
        statistics = bounded_columns(fit.table.columns)
        self._writer = pq.ParquetWriter(self._sink, fit.schema, compression="snappy", write_statistics=statistics)

    @property
    def size_bytes(self) -> int:
        """What has been written so far."""
        size: int = self._sink.tell()
        return size

    def write(self, rows: pa.Table) -> None:
        """Add rows, as row groups of their own."""
        for name, column in self._floats.items():
            column.add(rows.column(name))
        with naming(self._place):
            self._writer.write_table(rows, row_group_size=GROUP_ROWS)
        self._record_count += rows.num_rows

    def close(self, table_path: str, partition_values: Sequence[Scalar] | None) -> DataFile:
        """End the file, and describe it."""
        with naming(self._place):
            self._writer.close()
            metadata, size = self._writer.writer.metadata, self.size_bytes
            self._sink.close()
        shown, is_relative = relative_to(self._place, table_path)
        return DataFile(
            path=shown,
            path_is_relative=is_relative,
            record_count=self._record_count,
            file_size_bytes=size,
            footer_size=_footer_size(metadata),
            statistics=kept(self._statistics(metadata), self._table),
            partition_values=None if partition_values is None else tuple(partition_values),
        )

    def discard(self) -> None:
        """End the file without a word on it; it is still there."""
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


def _footer_size(metadata: Any) -> int:
    alone = pa.BufferOutputStream()
    metadata.write_metadata_file(alone)
    size: int = alone.tell()
    return size - _ENDS_BYTES
