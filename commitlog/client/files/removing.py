"""Files that no snapshot will ever name, known and removed.

They go only when that is sure: their proposal was refused, or it repeats one that was committed with other files. After
an unknown outcome they stay, for the proposal may yet be accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from commitlog.client.files.places import filesystem_of, normal_path
from commitlog.client.tables.names import TableName, folded, parse_table_name
from commitlog.domain.model import Append, Change, Compact, DataFile, Delete, DeleteFile, Flush, Proposal

_logger = logging.getLogger("commitlog.lake")


def remove_files(paths: Iterable[str]) -> None:
    """Remove files that no snapshot names, as far as they are there.

    One that cannot be removed is logged: its writer is to hear what became of the commit, or what kept it from one.
    """
    for each in paths:
        try:
            filesystem, path = filesystem_of(normal_path(each))
            filesystem.delete_file(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _logger.warning("%s is needed by nobody any more, and cannot be removed: %s", each, error)


def unlisted(table_paths: Mapping[str, str], paths: Iterable[str], first: Proposal | None) -> list[str]:
    """Those of ``paths`` that the proposal which was decided under the same key does not name; none if that is not known.

    ``table_paths`` says where the files of each table are that was written to.
    """
    if first is None:
        return []
    roots = {folded(parse_table_name(name)): path for name, path in table_paths.items()}
    named = {path for change in first.changes for path in _places(change, roots)}
    return [path for path in paths if normal_path(path) not in named]


def _places(change: Change, roots: Mapping[TableName, str]) -> list[str]:
    if not isinstance(change, Append | Compact | Flush | Delete):
        return []
    files: Sequence[DataFile | DeleteFile] = change.delete_files if isinstance(change, Delete) else change.files
    root = normal_path(roots.get(folded((change.schema, change.table)), "")).rstrip("/")
    return [f"{root}/{file.path}" if file.path_is_relative else normal_path(file.path) for file in files]
