"""A data file of a scan, and the columns that tell of a row which file it is in, and where."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import FrozenBitMap64

from commitlog.domain.model import MappedColumn

NO_POSITIONS = FrozenBitMap64()
FILE, POSITION, ROW_ID_START = "_commitlog_file", "_commitlog_position", "_commitlog_row_id_start"
"""The id of a row's data file, where the row stands in it, and the id of the file's first row, unless rows carry theirs."""


@dataclass(frozen=True, slots=True)
class ScanFile:
    """One data file of a snapshot and the positions of its deleted rows.

    ``in_delete_file`` are those of ``deleted`` that its delete file holds; the catalog itself holds the others. Without
    ``row_id_start`` the file carries the ids of its rows.
    """

    data_file_id: int
    path: str
    record_count: int
    file_size_bytes: int
    deleted: FrozenBitMap64 = NO_POSITIONS
    in_delete_file: FrozenBitMap64 = NO_POSITIONS
    name_mapping: tuple[MappedColumn, ...] | None = None
    partition_values: tuple[str | None, ...] | None = None
    row_id_start: int | None = None
