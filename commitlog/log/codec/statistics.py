"""A file's statistics, which travel inside its record as opaque bytes until somebody looks."""

from __future__ import annotations

from commitlog.domain.model.records.file_statistics import ColumnStatistics
from commitlog.domain.model.statistics import Statistics
from commitlog.errors import MalformedRecordError
from commitlog.log.codec.avro import Cursor, blob
from commitlog.log.codec.framing import framed, opened
from commitlog.log.codec.records.file_statistics import file_statistics_bytes, read_file_statistics


def encode_statistics(statistics: tuple[ColumnStatistics, ...]) -> bytes:
    """The bytes that a data file's record carries; no columns are no bytes."""
    return framed("FileStatistics", file_statistics_bytes(statistics)) if statistics else b""


def decode_statistics(data: bytes) -> tuple[ColumnStatistics, ...]:
    """Statistics by column. They are hints: what does not decode proves nothing and is (), never an error."""
    if not data:
        return ()
    try:
        return opened(data, "FileStatistics", read_file_statistics)
    except MalformedRecordError:
        return ()


def statistics_bytes(statistics: Statistics) -> bytes:
    """Statistics inside a file's record."""
    return blob(statistics if isinstance(statistics, bytes) else encode_statistics(statistics))


def read_statistics(cursor: Cursor) -> Statistics:
    """Statistics inside a file's record, left opaque."""
    return cursor.blob() or ()
