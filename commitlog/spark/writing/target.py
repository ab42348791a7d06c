"""The table that is written to, as it was when the write began, or as the write creates it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from commitlog.client import CommitLog, Transaction
from commitlog.client.tables.names import parse_table_name
from commitlog.domain.model import ColumnSpec
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError, TableNotFoundError
from commitlog.spark.columns import column_specs

_REMEDY = (
    "append(..., create=True) or .option('createTable', 'true') creates it from the DataFrame's columns, "
    "tx.create_table(...) with others"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A table as it was when a write began; the write is refused if it is altered before its end.

    ``created`` are the columns of a table that is not there yet: the write creates it.
    """

    name: str
    snapshot_id: int
    definition: TableDefinition
    path: str
    created: tuple[ColumnSpec, ...] = ()


def target(log: CommitLog, table: str, create: StructType | None = None) -> Target:
    """The table that is to be written to, as of the newest snapshot.

    Args:
        log: the log.
        table: its name.
        create: what rows a table takes that the write is to create if there is none.

    Raises:
        TableNotFoundError: there is none of that name.
        DataFileError: none can be created for such rows.
    """
    transaction = log.transaction()
    try:
        return target_of(transaction, table)
    except TableNotFoundError:
        if create is None:
            raise
    return created_target(transaction, table, create)


def created_target(transaction: Transaction, table: str, schema: StructType) -> Target:
    """The table that the transaction is now to create for rows of ``schema``."""
    specs = column_specs(schema)
    transaction.create_table(table, specs)
    return replace(target_of(transaction, table), created=specs)


def create_if_missing(log: CommitLog, table: str, schema: StructType) -> None:
    """Create a table for rows of ``schema`` by a commit of its own, if there is none.

    A streaming write needs the table's id in its keys, which it has only once it is there.

    Raises:
        ProposalRejectedError: it cannot be created.
        DataFileError: a column is of a type that no table can have.
    """
    transaction = log.transaction(message="created for a stream")
    try:
        transaction.table(table)
    except TableNotFoundError:
        transaction.create_table(table, column_specs(schema), if_not_exists=True)
        transaction.commit()


def target_of(transaction: Transaction, table: str) -> Target:
    """The table that is to be written to, as of the transaction's base.

    Raises:
        TableNotFoundError: there is none of that name.
    """
    try:
        at = transaction.table(table)
    except TableNotFoundError as error:
        raise TableNotFoundError(error.table, snapshot_id=error.snapshot_id, remedy=_REMEDY) from None
    if at.path is None:
        raise DataFileError(
            f"where the files of table {table} will be is not known yet: see that its schema exists, create the table by a "
            "commit of its own (tx.create_table), then write"
        )
    return Target(str(parse_table_name(table)), transaction.base_snapshot_id, at.definition, at.path)


def rows_without_file(table: str) -> DataFileError:
    """What is said when the rows of a table that are in no file are in the way."""
    return DataFileError(f"table {table} has rows that are in no file: change them one by one, by their key")
