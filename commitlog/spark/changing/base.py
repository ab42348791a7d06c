"""A table at a transaction's base, which a change of its rows is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import SparkSession

from commitlog.client import CommitLog, Transaction
from commitlog.client.tables.missing import rows_without_file
from commitlog.client.tables.names import parse_table_name
from commitlog.client.writing.certain_files import uncertain_files
from commitlog.domain.model import Predicate
from commitlog.domain.model.definitions import TableDefinition
from commitlog.spark.columns import check_told_apart
from commitlog.spark.connection import catalog_of
from commitlog.spark.filters import Where, conjunction
from commitlog.spark.reading.dataframes import Scan
from commitlog.spark.reading.derived_filters import NOTHING_SAID, Derived, derived
from commitlog.spark.reading.scan import scan_at
from commitlog.spark.reading.scan_files import ScanFile
from commitlog.spark.writing.target import target_of

Asked: TypeAlias = "Where | Callable[[TableDefinition], Where]"
"""Which rows a change is about, or what tells it once the table is known."""


@dataclass(frozen=True, slots=True)
class Base:
    """A table at a transaction's base, and where its new files go.

    Attributes:
        scan: of the files that may hold rows which the change is about.
        predicates: what every such row meets.
        proofs: what of that the catalog can prove of whole files.
    """

    spark: SparkSession
    log: CommitLog
    table: str
    definition: TableDefinition
    path: str
    scan: Scan
    predicates: tuple[Predicate, ...] = ()
    proofs: Derived = NOTHING_SAID


def base_of(spark: SparkSession, table: str, log: CommitLog, transaction: Transaction, where: Asked = None) -> Base:
    """A table at the transaction's base, for a change of the rows that match ``where``; None says nothing of them."""
    to = target_of(transaction, table)
    check_told_apart(spark, to.definition.columns, table)
    asked = where(to.definition) if callable(where) else where
    # What was computed are conditions of values, in which there is nothing for Spark to analyse.
    proofs = Derived(conjunction(asked), False) if callable(where) else derived(spark, asked, to.definition.columns)
    scan = scan_at(catalog_of(log), table, to.snapshot_id, where=proofs.predicates)
    return Base(
        spark,
        log,
        table,
        to.definition,
        to.path,
        scan,
        conjunction(asked) or proofs.predicates,
        proofs,
    )


def certain_files(base: Base) -> frozenset[int]:
    """The data files of which all rows match what the base was made for, by their statistics or partition values."""
    if not base.proofs.is_all or not base.scan.files:
        return frozenset()
    name, at, catalog = parse_table_name(base.table), base.scan.snapshot_id, catalog_of(base.log)
    with catalog.at_once():
        table = catalog.table_at(name.schema, name.name, at)
        assert table is not None, "it was there a moment ago"
        uncertain = uncertain_files(catalog, table, at, base.proofs.predicates)
    return frozenset(each.data_file_id for each in base.scan.files) - uncertain


def names_of(base: Base) -> list[str]:
    """The names of the table's columns."""
    return [column.name for column in base.definition.columns]


def only(base: Base, data_file_ids: Iterable[int]) -> Base:
    """The base with some of its files, and without the rows that are in no file."""
    chosen = frozenset(data_file_ids)
    return with_files(base, [each for each in base.scan.files if each.data_file_id in chosen])


def with_files(base: Base, files: Iterable[ScanFile]) -> Base:
    """The base with these of its files alone, and without the rows that are in no file."""
    return replace(base, scan=replace(base.scan, files=tuple(files), inlined=base.scan.inlined.slice(0, 0)))


def refuse_inlined(base: Base) -> None:
    """Raise DataFileError when the table has rows that are in no file."""
    if base.scan.inlined.num_rows:
        raise rows_without_file(base.table, base.definition)
