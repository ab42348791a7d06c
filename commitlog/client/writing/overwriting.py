"""Overwrite: rows that match a filter go, and others come that match it as well, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.access.contents import Contents
from commitlog.client.reading.matching import Condition, all_of
from commitlog.client.tables.arrow_columns import by_name, conformed
from commitlog.client.tables.arrow_schemas import arrow_type
from commitlog.client.tables.filters import Where, predicates
from commitlog.client.tables.names import TableName
from commitlog.client.writing.appending import AppendTransaction, RowAppend
from commitlog.client.writing.deleting import Deletion
from commitlog.client.writing.rows import PlainRows, Rows
from commitlog.client.writing.targets import RowTransaction
from commitlog.client.writing.written import WrittenFiles
from commitlog.domain.model import LogSettings, Predicate
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.errors import DataFileError


class OverwriteTransaction(RowTransaction, AppendTransaction, Protocol):
    """What it asks of a transaction."""


class Overwrite:
    """The rows of a table that match a filter, and those that come in their place, for one transaction after another.

    Args:
        name: of the table.
        rows: what comes.
        where: which rows go; True is all of them.
        contents: says which files and rows there are.
        settings: the limits of the log.
        written: takes charge of the files.

    Raises:
        InvalidRequestError: the filter cannot be read, or says not which rows.
    """

    def __init__(
        self,
        name: TableName,
        rows: Rows | PlainRows,
        where: Where | bool,
        contents: Contents,
        settings: LogSettings,
        written: WrittenFiles,
    ) -> None:
        kept = () if isinstance(where, bool) else predicates(where)
        self._deletion = Deletion(name, where if isinstance(where, bool) else kept, contents, settings)
        self._append = RowAppend(name, rows, written, check=_checks(kept) if kept else None)

    def put(self, transaction: OverwriteTransaction) -> None:
        """Delete what matches as the transaction sees it, and append the rows, which are written once.

        Raises:
            TableNotFoundError: there is no such table.
            DataFileError: the rows do not fit the table, one does not match the filter, or the table has a key.
        """
        self._deletion.put(transaction)
        self._append.put(transaction)


def _checks(where: Sequence[Predicate]) -> Callable[[TableDefinition, pa.Table], None]:
    def check(table: TableDefinition, rows: pa.Table) -> None:
        """See that all rows match, as they are written.

        Raises:
            DataFileError: one does not.
        """
        columns = {each.column: table.column(each.column) for each in where}
        compared = pa.table({name: _as_read(rows, column) for name, column in columns.items()})
        kept = all_of([Condition(each, columns[each.column]).on(pc.field(each.column)) for each in where])
        wrong = rows.num_rows - compared.filter(kept).num_rows
        if wrong:
            raise DataFileError(
                f"{wrong:,} of the new rows of table {table.name} do not match the filter of those that they replace, so doing "
                "it again would double them: leave them out, or widen where="
            )

    return check


def _as_read(rows: pa.Table, column: Column) -> pa.ChunkedArray:
    values, data_type = rows.column(column.name), arrow_type(column)
    if values.type == data_type:
        return values
    chunks = [conformed(chunk, column, data_type, by_name, is_read=True) for chunk in values.chunks]
    return pa.chunked_array(chunks, data_type)
