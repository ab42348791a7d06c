"""Rows that a transaction inserted and then changed itself.

The client leaves its first files as they are: with a delete file beside them, or with new files whose rows carry numbers in
place of row ids. A proposal cannot name what it makes itself, so such files are written anew, without the rows that are gone
and without those numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from commitlog.adoption.definitions import SourceTable
from commitlog.adoption.files import ROW_ID, FileWriter, Written
from commitlog.client.files.lake import new_name
from commitlog.client.reading.duckdb_client import open_duckdb
from commitlog.domain import model as m
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.translation.base import Base
from commitlog.gateway.translation.reading import row_ids_in

OWN_ROW_ID = 10**18
"""From here on the client numbers rows that its transaction inserted itself."""


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file that the client wrote: as the log would take it, its full path, and the positions that it deleted in it."""

    file: m.DataFile
    path: str
    deleted: frozenset[int]


def carries_own_rows(metadata: Any) -> bool:
    """Whether a file's footer tells of rows that its own transaction inserted."""
    for group in range(metadata.num_row_groups):
        described = metadata.row_group(group)
        for at in range(described.num_columns - 1, -1, -1):
            column = described.column(at)
            if column.path_in_schema == ROW_ID and (column.statistics is None or column.statistics.max >= OWN_ROW_ID):
                return True
    return False


def check_row_count(given: GivenFile, metadata: Any) -> None:
    """See that a file whose rows are read has as many as the commit says, by which it is known how much that may be."""
    if metadata.num_rows != given.file.record_count:
        raise NotUnderstoodError(
            f"file {given.path} with {given.file.record_count} rows, of which it has {metadata.num_rows}"
        )


def written_anew(
    base: Base,
    table: SourceTable,
    target: str,
    given: GivenFile,
    metadata: Any,
    on_file: Callable[[str], None],
) -> Iterator[m.DataFile]:
    """The files in whose place a client's own file does not have to be; none when no row of it is left.

    Args:
        base: opens it.
        table: whose it is.
        target: where the table's files are to be.
        given: the file.
        metadata: its footer.
        on_file: is told the full path of each.

    Raises:
        OSError: one cannot be written.
    """
    if "://" in given.path:
        raise NotUnderstoodError(
            f"rows of table {table.schema}.{table.name} that the same transaction inserted were changed or deleted in it: "
            "split it, so that they are inserted in one transaction and changed in the next"
        )
    check_row_count(given, metadata)
    carried = row_ids_in(base, given.path)
    kept = [position for position in range(given.file.record_count) if position not in given.deleted]
    new = [position for position in kept if carried is None or carried[position] >= OWN_ROW_ID]
    old = [] if carried is None else [position for position in kept if carried[position] < OWN_ROW_ID]
    with open_duckdb() as connection:
        from duckdb import IOException

        writer = FileWriter(connection)
        for positions in (new, old):
            if positions:
                # At the top, as our writers' other files, by which `commitlog clean` knows them.
                name = f"{new_name()}.parquet"
                row_ids = [carried[position] for position in positions] if carried and positions is old else None
                on_file(target + name)
                mapping = given.file.name_mapping
                try:
                    written = writer.rewrite(given.path, target + name, table, positions, row_ids, mapping)
                except IOException as error:
                    raise OSError(str(error)) from None
                yield _file(given.file, name, written)


def _file(like: m.DataFile, path: str, written: Written) -> m.DataFile:
    return like.replace(
        path=path,
        path_is_relative=True,
        record_count=written.record_count,
        file_size_bytes=written.file_size_bytes,
        footer_size=written.footer_size,
        statistics=written.statistics,
        name_mapping=None,
    )
