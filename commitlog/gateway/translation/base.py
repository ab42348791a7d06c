"""What a translation asks of the catalog, as the client saw it when it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from pyroaring import AbstractBitMap64

from commitlog.domain.model.definitions import TableDefinition
from commitlog.gateway.batch import Row


class Base(Protocol):
    """The catalog at a commit's base."""

    @property
    def snapshot_id(self) -> int:
        """Which snapshot."""

    @property
    def data_path(self) -> str:
        """Where the lake's files are, with a slash at the end."""

    def rows(self, table: str, **keys: Collection[int]) -> Sequence[Row]:
        """Rows of a table of DuckLake's that are alive at the base, without ``ducklake_`` in its name; uuids are text.

        keys: by column, which values it may have.
        """

    def is_keyed(self, table_id: int) -> bool:
        """Whether a table has a primary key."""

    def definition(self, table_id: int) -> TableDefinition | None:
        """What the log says of a table, as it is now; None when it does not know it."""

    def inlined_deletes(self, table_id: int, data_file_ids: Collection[int]) -> Mapping[int, AbstractBitMap64]:
        """By data file, the positions that were deleted at the base without a delete file."""

    def rows_in_no_file(
        self, table_id: int, row_ids: Collection[int], column_ids: Collection[int]
    ) -> Mapping[int, Mapping[int, Any]]:
        """By row id, values of rows of a table that the catalog itself holds, by the ids of their columns, as stored."""

    def named(self, folders: Collection[str], files: Collection[str]) -> Collection[str]:
        """Which of these files, below these folders of tables, any snapshot names, of now too; by their whole paths."""

    def open(self, path: str) -> Any:
        """A file of the lake, by its whole path or URL, as Arrow reads it."""
