"""The files that a change names, as data files of its table: paths are read, DataFiles are taken as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from commitlog.client.arguments import checked_items, is_frame, shown
from commitlog.client.files.new_files import NewFiles
from commitlog.client.tables.table_at import TableAt
from commitlog.domain.model import DataFile
from commitlog.errors import InvalidRequestError

Files: TypeAlias = "Iterable[str | Path | DataFile]"
FOOTER_READERS_MAX = 8


class DescribedFiles(NamedTuple):
    """All files in their order, and those of them that were read and that the table may have already."""

    files: tuple[DataFile, ...]
    unsure: tuple[DataFile, ...]


def checked_files(files: Any) -> tuple[str | Path | DataFile, ...]:
    """Paths or DataFiles.

    Raises:
        InvalidRequestError: they are something else, such as one path alone or rows.
    """
    if isinstance(files, str | Path):
        raise InvalidRequestError(f"files is a list of paths, not one path: write files=[{str(files)!r}]")
    if is_frame(files):
        raise InvalidRequestError(
            f"files is a list of paths of Parquet files, not {shown(files)}: write its rows to a file first"
        )
    return checked_items("files", files, (str, Path, DataFile), "paths or DataFiles")


def described_files(
    given: Sequence[str | Path | DataFile], table: Callable[[], TableAt], new_files: NewFiles, carry_row_ids: bool
) -> DescribedFiles:
    """Describe what is given by its path.

    Args:
        given: paths or DataFiles.
        table: looks up the table; not called where there is nothing to read.
        new_files: the names that were given out here, of which these are taken.
        carry_row_ids: whether files may have DuckLake's own column of row ids.

    Raises:
        DataFileError: a file is missing, is not Parquet, or does not fit the table.
    """
    described = tuple(file for file in given if isinstance(file, DataFile))
    if len(described) == len(given):
        return DescribedFiles(described, ())
    from commitlog.client.files.data_files import read_data_file

    at = table()

    def describe(file: str | Path | DataFile) -> DataFile:
        if isinstance(file, DataFile):
            return file
        return read_data_file(file, at.definition, table_path=at.path, carries_row_ids=carry_row_ids)

    if len(given) == 1:
        described = (describe(given[0]),)
    else:
        with ThreadPoolExecutor(min(len(given), FOOTER_READERS_MAX)) as pool:
            described = tuple(pool.map(describe, given))
    new = new_files.take(place for place in given if isinstance(place, str | Path))
    return DescribedFiles(described, tuple(f for place, f in zip(given, described, strict=True) if place not in new))
