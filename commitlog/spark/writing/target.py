"""The table that is written to, as it was when the write began, or as the write creates it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from commitlog.client import CommitLog, Transaction
from commitlog.client.tables.missing import rows_by_key
from commitlog.client.tables.names import parse_table_name
from commitlog.client.tables.partitions import partition_specs
from commitlog.domain.model import ColumnSpec, PartitionSpec
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError, TableNotFoundError
from commitlog.spark.columns import column_specs

_REMEDY = (
    "append(..., create=True) or .option('createTable', 'true') creates it from the DataFrame's columns, "
    "tx.create_table(...) with others"
)


@dataclass(frozen=True, slots=True)
class Making:
    """What a write may make for its rows: a table where there is none, or further columns.

    Raises:
        InvalidRequestError: partitions are given for a table that is not to be created, or is there with others.
    """

    schema: StructType
    create: bool = False
    partition_by: str | Sequence[str | PartitionSpec] = ()
    merge_schema: bool = False

    def __post_init__(self) -> None:
        if partition_specs(self.partition_by) and not self.create:
            raise InvalidRequestError(
                "partition_by is for a table that is created: add create=True, or the option createTable"
            )

    def preparation(self, table: TableDefinition | None) -> Preparation:
        """What is to be done to the table, None if there is none, before the rows come.

        Raises:
            DataFileError: it is to be created for rows without columns.
        """
        if table is None:
            if not self.schema.fields:
                raise DataFileError("rows without columns make no table: give them columns first")
            return Preparation(column_specs(self.schema), partition_specs(self.partition_by))
        self._check_partitions(table)
        if not self.merge_schema:
            return NOTHING
        new = [each for each in self.schema.fields if fold(each.name) not in table.by_name]
        return Preparation(added=column_specs(StructType(new)))

    def _check_partitions(self, table: TableDefinition) -> None:
        """See that a table that is there has the partitions that it would be created with, where these are said."""
        asked = [(fold(each.column), each.transform) for each in partition_specs(self.partition_by)]
        found = [(table.column_by_id(each.column_id).name, each.transform) for each in table.partition_by]
        if asked and asked != [(fold(name), transform) for name, transform in found]:
            there = ", ".join(
                name if transform == "identity" else f"{transform} of {name}" for name, transform in found
            )
            raise InvalidRequestError(
                f"table {table.name} is there already, partitioned by {there or 'nothing'}: leave out partition_by, or change "
                "its partitions first by tx.alter(...).set_partition_by(...)"
            )


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a write does to a table before its rows come: it creates it with columns, or adds some, which may be NULL."""

    created: tuple[ColumnSpec, ...] = ()
    partition_by: tuple[PartitionSpec, ...] = ()
    added: tuple[ColumnSpec, ...] = ()

    def put(self, transaction: Transaction, table: str) -> None:
        """Put it into a transaction."""
        if self.created:
            transaction.create_table(table, self.created, partition_by=self.partition_by)
        if self.added:
            steps = transaction.alter(table)
            for each in self.added:
                steps.add_column(each.name, each.type)


NOTHING = Preparation()


@dataclass(frozen=True, slots=True)
class Target:
    """A table as it was when a write began, or as the write itself prepares it; the write is refused if it is altered by
    others before its end."""

    name: str
    snapshot_id: int
    definition: TableDefinition
    path: str
    preparation: Preparation = NOTHING


def target(log: CommitLog, table: str, making: Making | None = None) -> Target:
    """The table that is to be written to, as of the newest snapshot.

    Args:
        log: the log.
        table: its name.
        making: what the write may create or add.

    Raises:
        TableNotFoundError: there is none of that name.
        DataFileError: none can be created for such rows, or it has a primary key.
    """
    return prepared_target(log.transaction(), table, making)


def prepared_target(transaction: Transaction, table: str, making: Making | None) -> Target:
    """The table that is to be written to, which the transaction is now to prepare for it."""
    to = None
    try:
        to = target_of(transaction, table)
    except TableNotFoundError:
        if making is None or not making.create:
            raise
    if to is not None and to.definition.keyed:
        raise rows_by_key(to.name)
    preparation = NOTHING if making is None else making.preparation(None if to is None else to.definition)
    if to is not None and preparation == NOTHING:
        return to
    if to is None:
        transaction.check_schema(table)
    preparation.put(transaction, table)
    return replace(target_of(transaction, table), preparation=preparation)


def create_if_missing(log: CommitLog, table: str, making: Making) -> None:
    """Create a table by a commit of its own, if there is none.

    A streaming write needs the table's id in its keys, which it has only once it is there.

    Raises:
        ProposalRejectedError: it cannot be created.
        DataFileError: a column is of a type that no table can have.
    """
    transaction = log.transaction(message="created for a stream")
    try:
        transaction.table(table)
    except TableNotFoundError:
        transaction.check_schema(table)
        created = making.preparation(None)
        transaction.create_table(table, created.created, partition_by=created.partition_by, if_not_exists=True)
        transaction.commit()


def target_of(transaction: Transaction, table: str) -> Target:
    """The table that is to be written to, as of the transaction's base.

    Raises:
        TableNotFoundError: there is none of that name.
    """
    try:
        at = transaction.table(table)
    except TableNotFoundError as error:
        raise TableNotFoundError(
            error.table, snapshot_id=error.snapshot_id, remedy=_REMEDY, meant=error.meant
        ) from None
    if at.path is None:
        raise DataFileError(
            f"where the files of table {table} will be is not known yet: see that its schema exists, create the table by a "
            "commit of its own (tx.create_table), then write"
        )
    return Target(str(parse_table_name(table)), transaction.base_snapshot_id, at.definition, at.path)
