"""The files below a lake's data path: listed once, compared by place, measured, removed.

A *place* is where a file is, written in one way only: an absolute local path without symbolic links, or an object store's
URL. Paths in the catalog and in proposals are what writers sent; all the places that one could mean count as its places.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from pyarrow import ArrowInvalid, fs

from commitlog.client.files.places import filesystem_of

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfss": "abfs"}
_WORKERS = 8
FOOTER_TAIL_BYTES = 8


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the storage has it. modified_ms: since 1970, None where the storage does not tell."""

    size_bytes: int
    modified_ms: int | None

    @classmethod
    def of(cls, info: fs.FileInfo) -> StoredFile:
        """The file, as Arrow tells of it."""
        return cls(info.size, None if info.mtime_ns is None else info.mtime_ns // 1_000_000)

    def is_as(self, other: StoredFile) -> bool:
        """Whether it is the same file, as far as can be told: asked for one alone, stores tell no parts of a second."""
        return self.size_bytes == other.size_bytes and self._second == other._second

    @property
    def _second(self) -> int | None:
        return None if self.modified_ms is None else self.modified_ms // 1000


def is_local(path: str) -> bool:
    """Whether a path is one of this machine's."""
    return "://" not in path or path.startswith("file:")


def places_of(path: str) -> set[str]:
    """Every place that a path may mean."""
    if not is_local(path):
        parts = urlsplit(path, allow_fragments=False)
        scheme = _SAME_STORE.get(parts.scheme, parts.scheme)
        inner = path.partition("://")[2].partition("/")[2]
        return {f"{scheme}://{parts.netloc}{normpath('/' + text)}" for text in (inner, unquote(inner))}
    texts = {path}
    if path.startswith("file:"):
        rest = path.removeprefix("file:")
        rest = "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
        texts = {rest, unquote(rest)}
    return {_local_place(text) for text in texts}


def _local_place(path: str) -> str:
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(_real_folder(folder), name)
    return os.path.realpath(place) if os.path.islink(place) else place


@lru_cache(maxsize=65_536)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def root_of(data_path: str) -> str:
    """The place of the data path, with a slash at its end."""
    if is_local(data_path):
        path = unquote(urlsplit(data_path).path) if data_path.startswith("file:") else data_path
        return os.path.realpath(path).rstrip("/") + "/"
    return min(places_of(data_path)).rstrip("/") + "/"


def list_files(data_path: str) -> dict[str, StoredFile]:
    """Every file below the data path, by place. Symbolic links are neither followed nor listed. Nor are keys of a store that
    are no paths, with empty parts or dots for parts: Arrow cannot ask for them, and no file of a lake is called so.

    Raises:
        OSError: a folder cannot be read.
    """
    root = root_of(data_path)
    if is_local(data_path):
        return dict(_walk(root)) if os.path.isdir(root) else {}
    filesystem, inner = filesystem_of(data_path.rstrip("/"))
    selector = fs.FileSelector(inner, recursive=True, allow_not_found=True)
    start = inner.rstrip("/") + "/"
    return {
        root + each.path.removeprefix(start): StoredFile.of(each)
        for each in filesystem.get_file_info(selector)
        if each.type is fs.FileType.File and normpath(each.path) == each.path
    }


def _walk(folder: str) -> Iterator[tuple[str, StoredFile]]:
    """What is gone by the time that it is looked at is left out: writers remove folders in which they have worked."""
    waiting = [folder]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        yield entry.path, StoredFile(found.st_size, found.st_mtime_ns // 1_000_000)


def checksum_of(place: str) -> str:
    """Where Hadoop's local file system keeps the checksum of a file that it wrote."""
    folder, name = os.path.split(place)
    return f"{folder}/.{name}.crc"


def checksummed(place: str) -> str | None:
    """The file that a checksum file is of; None for any other file."""
    folder, name = os.path.split(place)
    return f"{folder}/{name[1:-4]}" if name.startswith(".") and name.endswith(".crc") else None


def stored_file(path: str) -> StoredFile | None:
    """A file as the storage has it now; None when it is not there, or there is no store of its scheme.

    Raises:
        OSError: the store cannot be reached.
    """
    try:
        filesystem, inner = _opened(path)
    except OSError as error:
        # What is compiled names no cause.
        if not isinstance(error.__context__, ArrowInvalid):
            raise
        return None
    found = filesystem.get_file_info(inner)
    return StoredFile.of(found) if found.type is fs.FileType.File else None


def footer_sizes(paths: Iterable[str]) -> dict[str, int | None]:
    """The length of each Parquet file's footer, as its last eight bytes tell; None for what is no Parquet file, or gone.

    Raises:
        OSError: one cannot be read.
    """
    listed = list(paths)
    with ThreadPoolExecutor(_WORKERS) as workers:
        return dict(zip(listed, workers.map(_footer_size, listed), strict=True))


def _footer_size(path: str) -> int | None:
    filesystem, inner = _opened(path)
    try:
        with filesystem.open_input_file(inner) as file:
            if file.size() < FOOTER_TAIL_BYTES:
                return None
            tail = file.read_at(FOOTER_TAIL_BYTES, file.size() - FOOTER_TAIL_BYTES)
    except FileNotFoundError:
        return None
    return int.from_bytes(tail[:4], "little") if tail[4:] == b"PAR1" else None


def remove_file(place: str) -> None:
    """Remove a file; nothing when it is gone already."""
    filesystem, inner = _opened(place)
    try:
        filesystem.delete_file(inner)
    except FileNotFoundError:
        return


def remove_empty_folders(place: str, root: str) -> None:
    """Remove the folders that a removed file left empty, up to the data path itself; object stores have none."""
    if not is_local(place):
        return
    folder = os.path.dirname(place)
    while folder.startswith(root) and folder != root.rstrip("/"):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _opened(path: str) -> tuple[fs.FileSystem, str]:
    if is_local(path):
        # Of the places that a URL with %20 and the like may mean, the one where a file is.
        return fs.LocalFileSystem(), min(places_of(path), key=lambda place: (not os.path.exists(place), place))
    return filesystem_of(path)
