"""Rows put into one transaction after another until one is committed; they are written once, for a stream ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from commitlog.client.files.data_files import read_data_file
from commitlog.client.tables.missing import rows_by_key
from commitlog.client.tables.names import TableName
from commitlog.client.tables.schemas import Columns
from commitlog.client.tables.table_at import TableAt
from commitlog.client.writing.fitting import fit
from commitlog.client.writing.rows import PlainRows, Rows
from commitlog.client.writing.table_writer import Check, write_rows
from commitlog.client.writing.written import WrittenFiles
from commitlog.domain.model import DataFile, PartitionSpec
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError, TableNotFoundError


class AppendTransaction(Protocol):
    """What it asks of a transaction."""

    def shape_of(self, name: TableName) -> TableAt: ...

    def check_schema(self, table: str) -> None: ...

    def create_table(
        self, table: str, schema: Columns, *, partition_by: Iterable[str | PartitionSpec] = ()
    ) -> None: ...

    def add_written(self, table: TableName, files: tuple[DataFile, ...]) -> None: ...


class RowAppend:
    """The rows of one append.

    Args:
        name: of the table.
        rows: what is appended.
        written: takes charge of the files.
        create: whether a table that is not there is created for them.
        partition_by: what a created table is partitioned by.
        check: sees the rows as they are written.
    """

    def __init__(
        self,
        name: TableName,
        rows: Rows | PlainRows,
        written: WrittenFiles,
        *,
        create: bool = False,
        partition_by: Iterable[str | PartitionSpec] = (),
        check: Check | None = None,
    ) -> None:
        self._check = check
        self._written = written
        self.is_written = self._is_stream = False
        self._name = name
        self._rows = rows
        self._create = create
        self._partition_by = partition_by
        self._files: tuple[DataFile, ...] = ()
        self._table: TableDefinition | None = None

    def put(self, transaction: AppendTransaction) -> None:
        """Append to the table as the transaction sees it. There is nothing to append when there are no rows.

        Raises:
            DataFileError: the rows do not fit the table.
            TableNotFoundError: there is none, and it is not to be created.
        """
        at = self._target(transaction)
        if self.is_written:
            self._fit_again(at)
        else:
            self._write(at)
        if self._files:
            transaction.add_written(self._name, self._files)

    def _target(self, transaction: AppendTransaction) -> TableAt:
        try:
            return transaction.shape_of(self._name)
        except TableNotFoundError as error:
            if not self._create:
                remedy = (
                    "append(..., create=True) creates the table for the rows, tx.create_table(...) with other "
                    "columns, and tx.create_schema(...) a schema"
                )
                raise TableNotFoundError(
                    error.table, snapshot_id=error.snapshot_id, remedy=remedy, meant=error.meant
                ) from None
        table = str(self._name)
        transaction.check_schema(table)
        if isinstance(self._rows, PlainRows):
            self._rows = self._rows.arrow(None)
        transaction.create_table(table, self._rows.schema, partition_by=self._partition_by)
        return transaction.shape_of(self._name)

    def _write(self, at: TableAt) -> None:
        folder = self._folder(at)
        rows = self._rows.arrow(at.definition) if isinstance(self._rows, PlainRows) else self._rows
        fitting = fit(rows.schema, at.definition)
        # A stream that has begun cannot be read again; other rows whose values do not fit the table may fit it later.
        self._is_stream = isinstance(rows.pieces, Iterator)
        self._table, self.is_written = at.definition, self._is_stream
        self._files = write_rows(rows.pieces, fitting, folder, self._check)
        self.is_written = True
        self._written.add(self._name, folder, [f"{folder}/{file.path}" for file in self._files])

    def _fit_again(self, at: TableAt) -> None:
        """The files, or others in their place: they have all columns that the table had, and the rows may be without those
        that it has no longer."""
        try:
            self._describe_again(at)
        except DataFileError:
            if self._is_stream:
                raise
            self._written.remove()
            self._write(at)

    def _describe_again(self, at: TableAt) -> None:
        """The files for a table that has changed since they were written, or was created by somebody else meanwhile."""
        assert self._table is not None
        if at.definition == self._table:
            return
        if self._table.table_id != at.definition.table_id and _ids(at.definition) != _ids(self._table):
            raise DataFileError(
                f"table {self._name} was created meanwhile, with other columns than those of the rows: append them again"
            )
        folder = self._folder(at)
        keeps_partitions = at.definition.partition_by == self._table.partition_by
        self._files = tuple(
            read_data_file(
                f"{folder}/{file.path}",
                at.definition,
                table_path=folder,
                partition_values=file.partition_values if keeps_partitions else None,
            )
            for file in self._files
        )
        self._table = at.definition

    def _folder(self, at: TableAt) -> str:
        if at.definition.keyed:
            raise rows_by_key(self._name)
        if at.path is None:
            raise DataFileError(
                f"where the files of table {self._name} will be is not known yet: create it, and its schema, by a commit of "
                "their own (tx.create_table, or in a shell `commitlog submit` with what `commitlog submit --example "
                "CREATE_TABLE` prints), then append"
            )
        return at.path.rstrip("/")


def _ids(table: TableDefinition) -> list[tuple[int, str, str]]:
    return [(column.column_id, column.name, str(column.type)) for column in table.all_columns()]
