"""Where files are: paths of this machine and URLs of object stores, each in one form.

Arrow takes longer to load than all else that a client needs: here as in its neighbours it is loaded by whoever reads a file.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyarrow import fs


def normal_path(path: str | Path) -> str:
    """A local path made absolute, or an object store's URL as it is."""
    text = os.fspath(path)
    if ":" not in text:
        return text if _is_normal(text) else os.path.abspath(text)
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = unquote(parts.path)
    elif "://" in text:
        return text
    return os.path.abspath(text)


def _is_normal(path: str) -> bool:
    """Whether a path is absolute, and has neither ``.`` nor ``..`` nor empty parts, as far as can be told at a glance."""
    return path.startswith("/") and not path.endswith("/") and "//" not in path and "/." not in path


def filesystem_of(place: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URL, and the path in it, where every letter stands for itself: ``%`` and ``[`` too.

    Raises:
        OSError: there is none of the URL's scheme, or it cannot be reached.
    """
    scheme, separator, rest = place.partition("://")
    if not separator:
        return _local_files(), place
    from pyarrow import ArrowInvalid, fs

    host, _, path = rest.partition("/")
    try:
        filesystem, root = fs.FileSystem.from_uri(f"{scheme}://{host}/")
    except ArrowInvalid as error:
        hint = "the URL of an object store begins with s3://, gs:// or abfss:// here"
        raise OSError(f"{place} cannot be reached ({error}): {hint}") from error
    return filesystem, f"{root.rstrip('/')}/{path}"


@lru_cache(maxsize=1)
def _local_files() -> fs.FileSystem:
    from pyarrow import fs

    return fs.LocalFileSystem()


class Naming:
    """Has an error of this machine's files, a full disk's too, name the file: Arrow's own do not."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        """The files are written within."""

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), self._place) from error


def relative_to(place: str, table_path: str | None) -> tuple[str, bool]:
    """The path as a data file's record has it: below the table's own directory, or absolute."""
    if table_path is not None:
        directory = normal_path(table_path).rstrip("/") + "/"
        if place.startswith(directory):
            return place.removeprefix(directory), True
    return place, False
