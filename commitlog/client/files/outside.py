"""Files from outside a table's folder: copied into it, moved there, or named where they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from commitlog.client.arguments import shown
from commitlog.client.files.lake import is_named_by_us
from commitlog.client.files.new_files import NewFiles
from commitlog.client.files.places import filesystem_of, normal_path, relative_to
from commitlog.client.files.removing import remove_files
from commitlog.client.tables.table_at import TableAt
from commitlog.domain.model import DataFile
from commitlog.domain.model.definitions import FOREIGN_PATHS
from commitlog.errors import DataFileError, InvalidRequestError

COPY, MOVE, REFERENCE = "copy", "move", "reference"


def checked_outside(outside: Any, *, of_rows: bool) -> str | None:
    """What is to become of files from outside; None is for the table to say.

    Raises:
        InvalidRequestError: it is none of the three, or said ``of_rows``.
    """
    if outside is not None and not (isinstance(outside, str) and outside in (COPY, MOVE, REFERENCE)):
        raise InvalidRequestError(f"outside is 'copy', 'move' or 'reference', not {shown(outside)}")
    if of_rows and outside is not None:
        raise InvalidRequestError(f"outside={outside!r} is for files=[...]: rows are written into the table's folder")
    return outside


def outside_files(files: Iterable[str | Path | DataFile], table_path: str | None) -> Iterator[tuple[int, str]]:
    """Which of the files lie outside a table's folder, by their index, and where; DataFiles are taken as they are."""
    for index, file in enumerate(files):
        if not isinstance(file, DataFile) and not relative_to(normal_path(file), table_path)[1]:
            yield index, normal_path(file)


def stays_outside(at: TableAt) -> bool:
    """Whether a table takes files where they are, unless it is said otherwise."""
    return at.definition.properties.get(FOREIGN_PATHS) == "true"


def check_may_go(place: str) -> None:
    """See that a file may be moved: that it does not look as if a table had it.

    Raises:
        DataFileError: it does.
    """
    if is_named_by_us(place.rpartition("/")[2]):
        raise DataFileError(
            f"{place} is named as a lake's own files are, and may be in use by a table: copy it (outside='copy')"
        )


def bring(place: str, table: str, table_path: str | None, new_files: NewFiles, *, is_final: bool = False) -> str:
    """Put a file into the table's folder, under a name of its own there; returns its path. The source stays for now.

    Args:
        place: the source.
        table: the table's name.
        table_path: its folder.
        new_files: give it its name.
        is_final: nobody will write over the source, so that it may just be given a second name. Whoever may write the next
            export over one whose commit is not known to have been made would else change what the table holds.

    Raises:
        DataFileError: it is not there, or cannot be copied.
    """
    path = new_files.below(table, table_path)
    try:
        if "://" in place or "://" in path:
            _copy_between(place, path)
        elif not (is_final and _linked(place, path)):
            shutil.copyfile(place, path)
    except BaseException as error:
        # A store may have taken what came for all of it.
        remove_files([path])
        if isinstance(error, FileNotFoundError):
            raise DataFileError(f"{place} does not exist; write the file before it is committed") from None
        if isinstance(error, OSError):
            raise DataFileError(f"{place} cannot be copied to {path}: {error}") from None
        raise
    return path


def _linked(place: str, path: str) -> bool:
    """Whether the file has a second name now, as it can where both are of one file system."""
    with suppress(OSError):
        os.link(place, path)
        return True
    return False


def _copy_between(place: str, path: str) -> None:
    from pyarrow import fs

    (source, inner), (target, path_there) = filesystem_of(place), filesystem_of(path)
    fs.copy_files(inner, path_there, source_filesystem=source, destination_filesystem=target)
