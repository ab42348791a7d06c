"""Which paths a changeset may name: those below the table's own folder, each once, and none that the table has already.

The log refuses most of this too; here it is said before anything is sent, and with the way out. What the log cannot see is
that a file is in the table already: it knows files by their ids alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from commitlog.client.files.outside import stays_outside
from commitlog.client.files.places import normal_path
from commitlog.client.tables.names import TableName, folded
from commitlog.client.tables.table_at import LiveFile, TableAt
from commitlog.domain import model as m
from commitlog.domain.model.definitions import FOREIGN_PATHS
from commitlog.errors import DataFileError

PathKey: TypeAlias = tuple[str, ...]


def check_paths(
    name: TableName,
    files: Iterable[m.DataFile | m.DeleteFile],
    seen: set[PathKey],
    table: Callable[[], TableAt],
) -> None:
    """See that files lie below their table's folder and that each is named once.

    Args:
        name: of the table.
        files: as their records will name them.
        seen: what the changeset names already; what is found is added.
        table: looks up the table, where that is needed.

    Raises:
        DataFileError: which file, why, and what to do.
    """
    keys: list[PathKey] = []
    for file in files:
        if not file.path_is_relative:
            _check_foreign(name, file.path, table)
        elif any(part in ("", ".", "..") for part in file.path.split("/")):
            raise DataFileError(
                f"the path {file.path!r} is not in its plain form: write it relative to the folder of table {name}, without "
                "empty parts, . and .."
            )
        keys.append((*folded(name), file.path) if file.path_is_relative else (normal_path(file.path),))
    check_named_once(keys, seen)
    seen.update(keys)


def check_named_once(keys: Sequence[PathKey], seen: Collection[PathKey]) -> None:
    """See that no file is named twice.

    Args:
        keys: of files, each with its path at the end.
        seen: what the changeset names already.

    Raises:
        DataFileError: which is.
    """
    met: set[PathKey] = set()
    for key in keys:
        if key in met or key in seen:
            raise DataFileError(f"{key[-1]} is named twice in this transaction: its rows would be there twice")
        met.add(key)


def _check_foreign(name: TableName, path: str, table: Callable[[], TableAt]) -> None:
    at = table()
    if stays_outside(at):
        return
    folder = "its own folder" if at.path is None else at.path
    raise DataFileError(
        f"{path} is not below the folder of table {name}, {folder}: write the file where tx.new_file({str(name)!r}) says, or "
        f"let the table take files from elsewhere, which nobody cleans up: tx.alter({str(name)!r})"
        f".set_property({FOREIGN_PATHS!r}, 'true')"
    )


def check_not_live(
    name: TableName,
    at: TableAt,
    files: Sequence[m.DataFile],
    ending: Collection[int],
    proposal: tuple[bytes, str, int | None],
    live_files: Callable[[int, Sequence[str]], Sequence[LiveFile]],
) -> None:
    """See that the table does not have the files already.

    Args:
        name: of the table.
        at: the table.
        files: as their records will name them.
        ending: the data files that the same changeset deletes.
        proposal: id, writer and writer_seq, by which a commit is known that is only sent again.
        live_files: finds files of a table by their paths.

    Raises:
        DataFileError: it has one; its rows would be there twice.
    """
    if at.definition.table_id < 0 or not files:
        return
    folder = "" if at.path is None else normal_path(at.path).rstrip("/") + "/"
    paths = [
        way for file in files for way in ({file.path, folder + file.path} if file.path_is_relative else {file.path})
    ]
    for live in live_files(at.definition.table_id, paths):
        is_own = live.proposal_id == proposal[0] or (
            live.writer_seq is not None and (live.writer_id, live.writer_seq) == proposal[1:]
        )
        if live.data_file_id not in ending and not is_own:
            raise DataFileError(
                f"{live.path} is in table {name} already, as data file {live.data_file_id}: its rows would be there twice"
            )
