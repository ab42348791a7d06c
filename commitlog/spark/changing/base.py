"""A table at a transaction's base, which a change of its rows is computed from."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from commitlog.client import CommitLog, Transaction
from commitlog.domain.model.definitions import TableDefinition
from commitlog.spark.connection import catalog_of
from commitlog.spark.reading.dataframes import Scan
from commitlog.spark.reading.scan import scan_at
from commitlog.spark.writing.target import rows_without_file, target_of


@dataclass(frozen=True, slots=True)
class Base:
    """A table at a transaction's base, and where its new files go."""

    spark: SparkSession
    table: str
    definition: TableDefinition
    path: str
    scan: Scan
    positions_max: int
    all_positions_max: int


def base_of(spark: SparkSession, table: str, log: CommitLog, transaction: Transaction) -> Base:
    """A table at the transaction's base."""
    to = target_of(transaction, table)
    scan = scan_at(catalog_of(log), table, to.snapshot_id)
    limits = log.settings
    return Base(
        spark, table, to.definition, to.path, scan, limits.inlined_positions_max, limits.changeset_positions_max
    )


def names_of(base: Base) -> list[str]:
    """The names of the table's columns."""
    return [column.name for column in base.definition.columns]


def only(base: Base, data_file_ids: Container[int]) -> Base:
    """The base with some of its files, and without the rows that are in no file."""
    files = tuple(each for each in base.scan.files if each.data_file_id in data_file_ids)
    return replace(base, scan=replace(base.scan, files=files, inlined=base.scan.inlined.slice(0, 0)))


def refuse_inlined(base: Base) -> None:
    """Raise DataFileError when the table has rows that are in no file."""
    if base.scan.inlined.num_rows:
        raise rows_without_file(base.table)
