"""A Parquet file's footer, read with one look at the file's end."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from commitlog.client.files.places import filesystem_of
from commitlog.errors import DataFileError

TAIL_BYTES = 64 * 1024
"""What is read at first: few footers are larger, and a store takes as long for less."""

_MAGIC_BYTES = 4
_END_BYTES = 8
"""The footer's size and the magic: a file's last bytes."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file's footer says, as pyarrow reads it, and how large footer and file are."""

    metadata: Any
    footer_size: int
    file_size_bytes: int


def read_footer(place: str) -> Footer:
    """The footer of a file.

    Args:
        place: a normal path, or an object store's URL.

    Raises:
        DataFileError: there is no such file, it cannot be read, or it is not Parquet.
    """
    try:
        filesystem, inner = filesystem_of(place)
        try:
            with filesystem.open_input_file(inner) as file:
                return footer_at_end(place, file)
        except OSError:
            _check_is_file(place, filesystem.get_file_info(inner))
            raise
    except pa.ArrowInvalid as error:
        raise _unreadable(place, error) from None
    except OSError as error:
        raise DataFileError(f"{place} cannot be read: {_first_line(error)}") from None


def _check_is_file(place: str, info: fs.FileInfo) -> None:
    if info.type is fs.FileType.NotFound:
        raise DataFileError(f"{place} does not exist; write the file before it is committed") from None
    if info.type is fs.FileType.Directory:
        raise DataFileError(f"{place} is a directory; name the Parquet files in it") from None


def footer_at_end(place: str, file: Any) -> Footer:
    """The footer of a file that Arrow has opened.

    Raises:
        DataFileError: it is not Parquet, or cannot be read as such.
    """
    size: int = file.size()
    if size < _MAGIC_BYTES + _END_BYTES:
        raise DataFileError(f"{place} is not a Parquet file: it has only {size} bytes")
    tail = _tail(file, size, TAIL_BYTES)
    if tail[-_MAGIC_BYTES:] == b"PARE":
        raise DataFileError(f"{place} has an encrypted footer, which no reader of the lake could open")
    if tail[-_MAGIC_BYTES:] != b"PAR1":
        raise DataFileError(f"{place} is not a Parquet file: it does not end with PAR1")
    footer_size: int = struct.unpack("<I", tail[-_END_BYTES:-_MAGIC_BYTES])[0]
    if len(tail) < footer_size + _END_BYTES:
        tail = _tail(file, size, footer_size + _END_BYTES)
    try:
        metadata = pq.ParquetFile(pa.BufferReader(tail)).metadata
    except OSError as error:
        raise _unreadable(place, error) from None
    return Footer(metadata, footer_size, size)


def _tail(file: Any, size: int, wanted: int) -> bytes:
    length = min(size, wanted)
    tail: bytes = file.read_at(length, size - length)
    return tail


def _unreadable(place: str, error: Exception) -> DataFileError:
    return DataFileError(f"{place} is not a readable Parquet file: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
