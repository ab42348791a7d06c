"""A file's statistics, which travel inside its record as opaque bytes until somebody looks."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.records.file_statistics import ColumnStatistics
from commitlog.domain.model.statistics import Statistics
from commitlog.errors import MalformedRecordError
from commitlog.log.codec.avro import Cursor, blob
from commitlog.log.codec.framing import begun, opened
from commitlog.log.codec.records.file_statistics import read_file_statistics, write_file_statistics


def encode_statistics(statistics: tuple[ColumnStatistics, ...]) -> bytes:
    """The bytes that a data file's record carries; no columns are no bytes."""
    if not statistics:
        return b""
    out = begun("FileStatistics")
    write_file_statistics(out, statistics)
    return out.getvalue()


def decode_statistics(data: bytes) -> tuple[ColumnStatistics, ...]:
    """Statistics by column. They are hints: what does not decode proves nothing and is (), never an error."""
    if not data:
        return ()
    try:
        return opened(data, "FileStatistics", read_file_statistics)
    except MalformedRecordError:
        return ()


def write_statistics(out: BytesWriter, statistics: Statistics) -> None:
    """Statistics inside a file's record."""
    blob(out, statistics if isinstance(statistics, bytes) else encode_statistics(statistics))


def read_statistics(cursor: Cursor) -> Statistics:
    """Statistics inside a file's record, left opaque unless the cursor expands."""
    data = cursor.blob()
    return decode_statistics(data) if cursor.expands else data or ()
