"""A file copied from one store to another so that it is there whole, however often the copy was begun before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID

from commitlog.client.files.lake import new_name
from commitlog.client.files.places import filesystem_of
from commitlog.errors import DataFileError

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

_CHUNK_BYTES = 4 << 20
_BEHIND_BYTES = 64 << 20
"""So much of a file a store may not have taken yet."""

Told = Callable[[], None]


def lasting_name(*identity: object) -> str:
    """What a copy is called below a table's folder, by what it is a copy of: one that is begun again finds the first one's
    file. Cleaning knows it as a name that our writers give."""
    digest = sha256("\0".join(map(str, identity)).encode()).digest()
    return f"commitlog-{UUID(bytes=digest[:16], version=4)}.parquet"


def copy_whole(place: str, path: str, size_bytes: int, *, told: Told = lambda: None) -> None:
    """Copy a file, unless the same is there already; what was written is read again and compared by its hash.

    Args:
        place: where it is, a local path or an object store's URL.
        path: where the copy is to be.
        size_bytes: how large it must be.
        told: is called again and again while that goes on.

    Raises:
        DataFileError: it is not there, is another one than it was, or another file has the copy's name; or, with that as its
            cause, an OSError: it cannot be read or written now.
    """
    try:
        _copy(place, path, size_bytes, told)
    except FileNotFoundError:
        raise DataFileError(f"{place} does not exist any more, or cannot be seen from here") from None
    except OSError as error:
        raise DataFileError(f"{place} cannot be copied to {path}: {error}") from error


def _copy(place: str, path: str, size_bytes: int, told: Told) -> None:
    from pyarrow import fs

    (source, inner), (target, there) = filesystem_of(place), filesystem_of(path)
    found = target.get_file_info(there)
    if found.type is not fs.FileType.NotFound:
        if found.size == size_bytes and _hash_of(target, there, told) == _hash_of(source, inner, told):
            return
        raise DataFileError(
            f"{path} is there, and is no copy of {place}: remove it if no snapshot of the table names it; it is not overwritten"
        )
    # It has its name when it is whole: several links may bring the same one, and what one has begun and does not end, which a
    # store takes for all of it, is to be in the place of no other's.
    folder = os.path.dirname(there)
    if isinstance(target, fs.LocalFileSystem):
        os.makedirs(folder, exist_ok=True)
    aside = f"{folder}/{new_name()}.parquet"
    try:
        _write(source, inner, target, aside, place, size_bytes, told)
        target.move(aside, there)
    except BaseException:
        # What stays, cleaning knows.
        with suppress(OSError):
            target.delete_file(aside)
        raise


def _write(
    source: fs.FileSystem, inner: str, target: fs.FileSystem, there: str, place: str, size_bytes: int, told: Told
) -> None:
    read, size = sha256(), 0
    with source.open_input_stream(inner) as taken, target.open_output_stream(there) as given:
        for chunk in _chunks(taken, told):
            read.update(chunk)
            size += len(chunk)
            given.write(chunk)
            if size % _BEHIND_BYTES < len(chunk):
                given.flush()  # A store takes it behind our back, and all of it is in memory till then.
    if size != size_bytes:
        raise DataFileError(
            f"{place} has {size} bytes, and had {size_bytes} when it was committed: it is another file now"
        )
    if _hash_of(target, there, told) != read.digest():
        raise DataFileError(f"the copy of {place} is not what was read: its hash differs")


def _hash_of(filesystem: fs.FileSystem, path: str, told: Told) -> bytes:
    digest = sha256()
    with filesystem.open_input_stream(path) as file:
        for chunk in _chunks(file, told):
            digest.update(chunk)
    return digest.digest()


def _chunks(file: NativeFile, told: Told) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        told()
        yield chunk
