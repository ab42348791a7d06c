"""A data file of a scan, and the columns that tell of a row which file it is in, and where."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import FrozenBitMap64

from commitlog.client.reading.rows_of_file import in_delete_file
from commitlog.domain.model import MappedColumn

NO_POSITIONS = FrozenBitMap64()
FILE, POSITION, ROW_ID_START = "_commitlog_file", "_commitlog_position", "_commitlog_row_id_start"
"""The id of a row's data file, where the row stands in it, and the id of the file's first row, unless rows carry theirs."""


@dataclass(frozen=True, slots=True)
class ScanFile:
    """One data file of a snapshot, and which of its rows are deleted: those of its delete file, which who reads the rows opens,
    and those ``deleted`` beside it.

    Without ``row_id_start`` the file carries the ids of its rows. Columns of ``stored_types``, by their ids, have these in the
    file: Spark's reader does not widen them to the table's.
    """

    data_file_id: int
    path: str
    record_count: int
    file_size_bytes: int
    deleted: FrozenBitMap64 = NO_POSITIONS
    delete_file_path: str | None = None
    delete_count: int = 0
    name_mapping: tuple[MappedColumn, ...] | None = None
    partition_values: tuple[str | None, ...] | None = None
    row_id_start: int | None = None
    stored_types: tuple[tuple[int, str], ...] = ()

    @property
    def has_deleted(self) -> bool:
        """Whether rows of it are deleted."""
        return self.delete_file_path is not None or bool(self.deleted)

    @property
    def live_count(self) -> int:
        """How many of its rows are not, by what the catalog says."""
        return self.record_count - self.delete_count - len(self.deleted)

    def in_delete_file(self) -> FrozenBitMap64:
        """The positions that its delete file holds, which is read for that."""
        return in_delete_file(self.delete_file_path)
