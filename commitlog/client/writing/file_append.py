"""Files put into one transaction after another until one is committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from commitlog.client.tables.names import TableName
from commitlog.client.tables.schemas import Columns
from commitlog.domain.model import DataFile, PartitionSpec
from commitlog.errors import InvalidRequestError, TableNotFoundError


class FileTransaction(Protocol):
    """What it asks of a transaction."""

    def check_schema(self, table: str) -> None: ...

    def create_table(
        self, table: str, schema: Columns, *, partition_by: Iterable[str | PartitionSpec] = ()
    ) -> None: ...

    def append(self, table: str, *, files: Iterable[str | Path | DataFile], outside: str | None) -> None: ...


@dataclass(frozen=True, slots=True)
class FileAppend:
    """The files of one append; they can be checked against a table as often as it is altered.

    name: of the table.
    outside: what becomes of files that are not below its folder.
    create: whether a table that is not there is created, for the columns of the first file.
    partition_by: what a created table is partitioned by.
    """

    name: TableName
    files: tuple[str | Path | DataFile, ...]
    outside: str | None
    create: bool = False
    partition_by: tuple[PartitionSpec, ...] = ()

    @property
    def is_written(self) -> bool:
        """Whether what is appended was made for the table as it was."""
        return False

    def put(self, transaction: FileTransaction) -> None:
        """Append to the table as the transaction sees it."""
        table = str(self.name)
        try:
            transaction.append(table, files=self.files, outside=self.outside)
        except TableNotFoundError:
            if not self.create:
                raise
            transaction.check_schema(table)
            transaction.create_table(table, self._columns(), partition_by=self.partition_by)
            transaction.append(table, files=self.files, outside=self.outside)

    def _columns(self) -> Columns:
        from commitlog.client.files.footers import read_footer
        from commitlog.client.files.places import normal_path

        path = next((file for file in self.files if not isinstance(file, DataFile)), None)
        if path is None:
            raise InvalidRequestError("create=True needs a file's path to know the columns by, not DataFiles alone")
        return read_footer(normal_path(path)).metadata.schema.to_arrow_schema()
