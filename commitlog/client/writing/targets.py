"""What a change of rows asks of its transaction, and of the table as that sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from commitlog.client.access.contents import Contents
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.missing import found_table, rows_without_file
from commitlog.client.tables.names import TableName
from commitlog.domain.model import DataFile, DeleteFile, Predicate

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogTable


class RowTransaction(Protocol):
    """A transaction, as changes of rows see it."""

    @property
    def base_snapshot_id(self) -> int: ...

    def read(
        self, table: str, *, filter: Iterable[Predicate | tuple[Any, ...]] = (), files: Iterable[int] | None = None
    ) -> None: ...

    def append(self, table: str, *, files: Iterable[DataFile]) -> None: ...

    def delete(
        self,
        table: str,
        positions: Mapping[int, Iterable[int]] | None = None,
        *,
        delete_files: Iterable[DeleteFile] = (),
        whole_files: Iterable[int] = (),
    ) -> None: ...

    def insert_row(self, table: str, row: Mapping[str, Any]) -> None: ...

    def update_row(self, table: str, key: Mapping[str, Any], row: Mapping[str, Any]) -> None: ...

    def delete_row(self, table: str, key: Mapping[str, Any]) -> None: ...

    def remove_unless_committed(self, table: str, folder: str, paths: Iterable[str]) -> None: ...


def table_there(contents: Contents, name: TableName, at: int) -> CatalogTable:
    """A table at a snapshot.

    Raises:
        TableNotFoundError: there is none of that name.
        SnapshotNotFoundError: there is no such snapshot, or not any more.
    """
    contents.check_snapshot(at)
    return found_table(name, at, contents)


def table_in_files(contents: Contents, name: TableName, at: int, where: Sequence[Predicate] = ()) -> CatalogTable:
    """A table at a snapshot, all of whose rows that match are in files.

    Raises:
        TableNotFoundError: there is none of that name.
        DataFileError: some are in the catalog itself.
    """
    table = table_there(contents, name, at)
    if contents.row_count_at(table.definition.table_id, at) and Scan(contents, name, at, where=where).stored_count():
        raise rows_without_file(name, table.definition)
    return table
