"""Rows to delete that stand in more places than a proposal can name are first brought into files of their own, which go whole.

That is a compaction: the table has the same rows before and after, each with its id, and who reads it sees no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
from pyroaring import FrozenBitMap64

from commitlog.client.files.file_columns import ROW_ID
from commitlog.client.reading.file_rows import ROW_ID_COLUMN, FileReader, row_ids_of
from commitlog.client.reading.rows_of_file import RowsOfFile, rows_left
from commitlog.client.tables.names import TableName
from commitlog.client.writing.fitting import fit
from commitlog.client.writing.proposal_room import rewritten_at_once
from commitlog.client.writing.table_writer import write_rows
from commitlog.domain.model import DataFile, LogSettings, Reason, Statistics
from commitlog.errors import InvalidRequestError, ProposalRejectedError

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogFile, CatalogTable

T = TypeVar("T")
_REWRITES_MAX = 3
"""How often files are rewritten for one change: more than once only where others get in between."""


class Rewriting(Protocol):
    """What is asked of a transaction."""

    def compact(self, table: str, replaced: Iterable[int], files: Iterable[DataFile]) -> None: ...

    def remove_unless_committed(self, table: str, folder: str, paths: Iterable[str]) -> None: ...

    def commit(self) -> object: ...

    def discard(self) -> None: ...


class RewrittenLog(Protocol):
    """What is asked of a ``CommitLog``."""

    @property
    def transaction(self) -> Callable[..., Rewriting]: ...

    @property
    def settings(self) -> LogSettings: ...


class ScatteredRowsError(InvalidRequestError):
    """Rows stand in more places than a proposal can name, of which those in ``files`` would have to go.

    Args:
        name: of the table.
        table: as it is at the snapshot.
        snapshot_id: at which the rows were found.
        files: those whose positions take the most room.
        found: the positions by data file id.
        settings: the limits of the log.
    """

    def __init__(
        self,
        name: TableName,
        table: CatalogTable,
        snapshot_id: int,
        files: Sequence[CatalogFile],
        found: Mapping[int, FrozenBitMap64],
        settings: LogSettings,
    ) -> None:
        self.name, self.table, self.snapshot_id = name, table, snapshot_id
        self.files, self.found = files, found
        count = sum(len(found[each.data_file_id]) for each in files)
        super().__init__(
            f"{count:,} rows of table {name} to delete stand in {len(files):,} files, in more places than a proposal of "
            f"{settings.proposal_bytes_max:,} bytes (proposal_bytes_max) and {settings.files_max:,} files (files_max) can "
            "name: these files are rewritten first, at the newest snapshot (leave out base_snapshot_id) while nobody else "
            "changes them; or narrow where="
        )


def with_rows_apart(log: RewrittenLog, change: Callable[[], T], *, base_is_given: bool) -> T:
    """What a change gives, once the rows that it deletes stand in so few places that a proposal can name them.

    Raises:
        ScatteredRowsError: they do not, and the base of the change is given, or others get in between again and again.
    """
    for _ in range(0 if base_is_given else _REWRITES_MAX):
        try:
            return change()
        except ScatteredRowsError as scattered:
            _set_apart(log, scattered)
    return change()


def _set_apart(log: RewrittenLog, scattered: ScatteredRowsError) -> None:
    """Rewrite the files as such of which all rows are to go, and such of which none is: a commit for some at a time.

    Files that somebody else has changed meanwhile stay as they are: the rows have to be looked for again.
    """
    for files in rewritten_at_once(scattered.files, scattered.table.definition, log.settings):
        transaction = log.transaction(
            base_snapshot_id=scattered.snapshot_id, message=f"rows to delete of {scattered.name} are brought together"
        )
        try:
            _rewrite(transaction, scattered, files)
            transaction.commit()
        except ProposalRejectedError as error:
            if error.outcome.reason is not Reason.CONFLICT:
                raise
        except BaseException:
            transaction.discard()
            raise


def _rewrite(transaction: Rewriting, scattered: ScatteredRowsError, files: Sequence[CatalogFile]) -> None:
    name, folder, found = str(scattered.name), scattered.table.path.rstrip("/"), scattered.found
    staying = [replace(rows_left(each), without=each.deleted | found[each.data_file_id]) for each in files]
    going = [RowsOfFile(each.path, each.name_mapping, positions=found[each.data_file_id]) for each in files]
    new: list[DataFile] = []
    for rows in (staying, going):
        written = _written(scattered.table, zip(files, rows, strict=True))
        transaction.remove_unless_committed(name, folder, [f"{folder}/{each.path}" for each in written])
        new += written
    transaction.compact(name, [each.data_file_id for each in files], new)


def _written(table: CatalogTable, files: Iterable[tuple[CatalogFile, RowsOfFile]]) -> list[DataFile]:
    """Rows of files as new files, which carry the rows' ids."""
    columns = (*table.definition.columns, ROW_ID_COLUMN)
    reader = FileReader(columns, ())
    fitting = fit(reader.schema, table.definition.replace(columns=columns), is_read=True)
    written = write_rows(_pieces(reader, files), fitting, table.path.rstrip("/"))
    return [each.replace(statistics=_of_columns(each.statistics)) for each in written]


def _of_columns(statistics: Statistics) -> Statistics:
    """Statistics without those of the row ids, which are no column of the table."""
    assert not isinstance(statistics, bytes), "they were made here"
    return tuple(each for each in statistics if each.column != ROW_ID)


def _pieces(reader: FileReader, files: Iterable[tuple[CatalogFile, RowsOfFile]]) -> Iterator[pa.Table]:
    for file, rows in files:
        for batch, positions in reader.placed(rows):
            row_ids = row_ids_of(batch.columns[-1], positions, file.row_id_start)
            yield pa.Table.from_arrays([*batch.columns[:-1], row_ids], schema=reader.schema)
