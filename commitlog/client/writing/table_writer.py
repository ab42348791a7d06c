"""Rows of a table written as its files: one partition each, and none much larger than asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import pyarrow as pa

from commitlog.client.files.lake import new_name
from commitlog.client.files.removing import remove_files
from commitlog.client.writing.by_partition import by_partition
from commitlog.client.writing.fitting import Fit
from commitlog.client.writing.parquet_file import GROUP_ROWS, ParquetFile
from commitlog.domain.model import DataFile, Scalar
from commitlog.domain.model.definitions import TableDefinition

FILE_BYTES = 256 * 2**20
"""A file that is this large is ended."""
GROUP_BYTES = 128 * 2**20
"""Rows that are this large in memory are written, however few they are."""
WAITING_BYTES = 512 * 2**20
"""What all partitions together may keep in memory."""
OPEN_FILES = 200
SMALL_BYTES = 64 * 1024
"""Rows up to this size in memory make a small file, if no others come."""
Check: TypeAlias = Callable[[TableDefinition, pa.Table], None]


def write_rows(
    pieces: Iterable[pa.Table], fitting: Fit, table_path: str, check: Check | None = None
) -> tuple[DataFile, ...]:
    """Write rows as files below a table's folder. What a failed write left is removed.

    Args:
        pieces: the rows.
        fitting: how they become those of the table.
        table_path: where the table's files are.
        check: sees each piece as it is written, and raises what stands against it.

    Raises:
        DataFileError: a value does not fit its column.
    """
    writer = _TableWriter(fitting, table_path.rstrip("/"), check)
    try:
        for piece in pieces:
            for group in _groups(piece):
                writer.write(group)
        return writer.close()
    except BaseException:
        writer.discard()
        raise


class _Part:
    """One partition's rows that are not written yet, and the file that they will go to."""

    def __init__(self, directory: str, values: tuple[Scalar, ...] | None) -> None:
        self.directory = directory
        self.values = values
        self.file: ParquetFile | None = None
        self.waiting: list[pa.Table] = []
        self.row_count = 0
        self.size_bytes = 0

    def add(self, rows: pa.Table, size_bytes: int) -> None:
        self.waiting.append(rows)
        self.row_count += rows.num_rows
        self.size_bytes += size_bytes

    def take(self) -> Sequence[pa.Table]:
        """What is waiting, as row groups that are as full as may be; nothing waits afterwards."""
        rows = self.waiting[0] if len(self.waiting) == 1 else pa.concat_tables(self.waiting)
        self.waiting, self.row_count, self.size_bytes = [], 0, 0
        return _groups(rows)


def _groups(rows: pa.Table) -> Sequence[pa.Table]:
    """Rows in pieces of a row group each."""
    if 0 < rows.num_rows <= GROUP_ROWS:
        return (rows,)
    return [rows.slice(start, GROUP_ROWS) for start in range(0, rows.num_rows, GROUP_ROWS)]


def _size_bytes(rows: pa.Table) -> int:
    """How large they are; the buffers that they are a part of, where these are small: that is told at once."""
    size: int = rows.get_total_buffer_size()
    return size if size < GROUP_BYTES else rows.nbytes


class _TableWriter:
    """Writes rows piece by piece."""

    def __init__(self, fitting: Fit, folder: str, check: Check | None) -> None:
        self._fit = fitting
        self._check = check
        self._folder = folder
        # A folder that is of this write alone, as those of Spark's are.
        self._below = f"{new_name()}/" if fitting.table.partition_by else ""
        self._parts: dict[str, _Part] = {}
        self._open: dict[str, _Part] = {}
        self._names: list[str] = []
        self._files: list[DataFile] = []

    def write(self, rows: pa.Table) -> None:
        """Add rows; they are written when enough of them are there."""
        fitted = self._fit.apply(rows)
        if self._check is not None:
            self._check(self._fit.table, fitted)
        size_bytes = _size_bytes(fitted)
        for partition in by_partition(fitted, self._fit.table):
            part = self._parts.get(partition.directory)
            if part is None:
                part = self._parts[partition.directory] = _Part(partition.directory, partition.values)
            # They are all parts of the same buffers.
            part.add(partition.rows, size_bytes * partition.rows.num_rows // max(fitted.num_rows, 1))
            if part.row_count >= GROUP_ROWS or part.size_bytes >= GROUP_BYTES:
                self._flush(part)
        if len(self._parts) > 1 and sum(part.size_bytes for part in self._parts.values()) > WAITING_BYTES:
            for part in self._parts.values():
                self._flush(part)

    def close(self) -> tuple[DataFile, ...]:
        """Write what is still waiting, and end all files."""
        for part in self._parts.values():
            self._flush(part, is_small=part.size_bytes <= SMALL_BYTES)
            self._end(part)
        return tuple(self._files)

    def discard(self) -> None:
        """Remove all that was written."""
        for part in self._parts.values():
            if part.file is not None:
                with suppress(OSError, pa.ArrowException):
                    part.file.discard()
        remove_files([f"{self._folder}/{name}" for name in self._names])

    def _flush(self, part: _Part, *, is_small: bool = False) -> None:
        if not part.waiting:
            return
        for group in part.take():
            file = part.file or self._begin(part, is_small)
            file.write(group)
            if file.size_bytes >= FILE_BYTES:
                self._end(part)

    def _begin(self, part: _Part, is_small: bool) -> ParquetFile:
        if len(self._open) >= OPEN_FILES:
            self._end(next(iter(self._open.values())))
        name = f"{self._below}{part.directory}{new_name()}.parquet"
        self._names.append(name)
        part.file = ParquetFile(self._folder, name, self._fit, is_small=is_small)
        self._open[part.directory] = part
        return part.file

    def _end(self, part: _Part) -> None:
        if part.file is not None:
            self._files.append(part.file.close(part.values))
            part.file = None
            del self._open[part.directory]
