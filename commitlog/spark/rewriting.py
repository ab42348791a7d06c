"""Changes of rows that are there already: read at the base, say which rows go and which come, propose both at once.

Every proposal here is SERIALIZABLE and declares what it read, so it is refused when rows that it should have seen came
in between; then it is computed again on the new head, as often as the caller allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias, cast

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.domain.definitions import TableDefinition
from commitlog.domain.model import Isolation, Reason
from commitlog.domain.types import fold
from commitlog.errors import DataFileError, ProposalRejectedError
from commitlog.spark.files import new_directory, remove_files, write_delete_file, write_parquet
from commitlog.spark.filters import Where, condition, conjunction
from commitlog.spark.fitting import fit
from commitlog.spark.packing import bins
from commitlog.spark.publishing import catalog_of, connect, target_of
from commitlog.spark.reading import Scan, dataframe, positions, with_positions
from commitlog.spark.scanning import scan_at


@dataclass(frozen=True, slots=True)
class _Base:
    """A table at a transaction's base, and where its new files go."""

    spark: SparkSession
    table: str
    definition: TableDefinition
    path: str
    scan: Scan
    positions_max: int


Propose: TypeAlias = "Callable[[Transaction, _Base], Sequence[str]]"
"""Puts changes and reads into the transaction; returns the files that it has written."""


def delete(
    spark: SparkSession,
    table: str,
    where: Where,
    *,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Delete the rows that match ``where``; None when there are none.

    Raises:
        ProposalRejectedError: the last attempt was refused too.
    """

    def propose(transaction: Transaction, base: _Base) -> Sequence[str]:
        found = positions(_matching(base, where), base.scan)
        transaction.read(table, filter=conjunction(where), files=found)
        return _delete(transaction, base, found)

    return _committed(spark, table, log, propose, message=message, attempts=attempts)


def update(
    spark: SparkSession,
    table: str,
    values: Mapping[str, Expression | Any],
    where: Where,
    *,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Give columns of the rows that match ``where`` other values (literals, or expressions over the row).

    Raises:
        ProposalRejectedError: the last attempt was refused too.
    """

    def propose(transaction: Transaction, base: _Base) -> Sequence[str]:
        rows = _matching(base, where)
        found = positions(rows, base.scan)
        given = {base.definition.column(name).name: value for name, value in values.items()}
        changed = [_value(given[name]).alias(name) if name in given else sf.col(f"`{name}`") for name in _names(base)]
        transaction.read(table, filter=conjunction(where), files=found)
        return _replace(transaction, base, found, rows.select(*changed)) if found else ()

    return _committed(spark, table, log, propose, message=message, attempts=attempts)


def overwrite(
    df: DataFrame,
    table: str,
    where: Where = None,
    *,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 1,
) -> SubmittedOutcome | None:
    """Replace the rows that match ``where``, or all, by the rows of ``df``.

    Raises:
        ProposalRejectedError: it was refused, for example because rows came in since the base.
    """

    def propose(transaction: Transaction, base: _Base) -> Sequence[str]:
        if where is None:
            _refuse_inlined(base)
            transaction.read(table)
            whole = [each.data_file_id for each in base.scan.files]
            if whole:
                transaction.delete(table, whole_files=whole)
            return _append(transaction, base, df)
        found = positions(_matching(base, where), base.scan)
        transaction.read(table, filter=conjunction(where), files=found)
        return _replace(transaction, base, found, df)

    return _committed(df.sparkSession, table, log, propose, message=message, attempts=attempts)


def merge(
    source: DataFrame,
    table: str,
    on: Sequence[str],
    *,
    matched: str = "update",
    not_matched: str = "insert",
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Bring a table's rows in line with ``source`` by the columns ``on``, which must tell its rows apart.

    Args:
        source: its columns are the table's, or some of them; an update leaves the others as they are.
        table: its name.
        on: columns that are equal in rows that match; NULL matches nothing.
        matched: what becomes of rows that match: "update", "delete" or "keep".
        not_matched: what becomes of source rows without a match: "insert" or "ignore".
        log: the log; None connects by the settings found.
        message: for the history.
        attempts: how often it is computed at most.

    Raises:
        DataFileError: two source rows have the same ``on``.
        ProposalRejectedError: the last attempt was refused too.
    """
    if matched not in ("update", "delete", "keep") or not_matched not in ("insert", "ignore"):
        raise ValueError("matched is 'update', 'delete' or 'keep', not_matched is 'insert' or 'ignore'")
    if source.groupBy(*on).count().where("count > 1").limit(1).count():
        raise DataFileError(f"two rows of the source have the same {', '.join(on)}: which one counts is not defined")

    def propose(transaction: Transaction, base: _Base) -> Sequence[str]:
        _refuse_inlined(base)
        rows = _matching(base, None)
        pairs = rows.join(source.select(*on), list(on), "left_semi")
        found = {} if matched == "keep" else positions(pairs, base.scan)
        transaction.read(table)
        fresh = []
        if matched == "update" and found:
            fresh.append(_updated(rows, source, on, _names(base)))
        if not_matched == "insert":
            inserted = source.join(rows.select(*on), list(on), "left_anti")
            fresh.append(fit(inserted, base.definition).select(*[f"`{name}`" for name in _names(base)]))
        return _replace(transaction, base, found, reduce(DataFrame.union, fresh) if fresh else None)

    return _committed(source.sparkSession, table, log, propose, message=message, attempts=attempts)


def compact(
    spark: SparkSession,
    table: str,
    *,
    target_bytes: int = 128 * 1024 * 1024,
    log: CommitLog | None = None,
) -> list[SubmittedOutcome]:
    """Rewrite small files, and files with deleted rows, as fewer; one commit for each group of files.

    Raises:
        ProposalRejectedError: rows of a group were deleted meanwhile; the groups before it are compacted.
    """
    to_log = connect() if log is None else log
    transaction = to_log.transaction(message="compaction")
    base = _base(spark, table, to_log, transaction)
    groups = [[each.data_file_id for each in group] for group in bins(base.scan.files, target_bytes=target_bytes)]
    return [_compact(to_log, base, group) for group in groups]


def _compact(log: CommitLog, base: _Base, replaced: list[int]) -> SubmittedOutcome:
    part = replace(
        base.scan,
        files=tuple(each for each in base.scan.files if each.data_file_id in replaced),
        inlined=base.scan.inlined.slice(0, 0),
    )
    rows = fit(dataframe(base.spark, part).coalesce(1), base.definition)
    paths = write_parquet(rows, new_directory(base.path))
    transaction = log.transaction(base_snapshot_id=base.scan.snapshot_id, message="compaction")
    transaction.compact(base.table, replaced, paths)
    try:
        return transaction.commit()
    except ProposalRejectedError:
        remove_files(paths)
        raise


def _committed(
    spark: SparkSession, table: str, log: CommitLog | None, propose: Propose, *, message: str | None, attempts: int
) -> SubmittedOutcome | None:
    to_log = connect() if log is None else log
    for remaining in range(attempts - 1, -1, -1):
        transaction = to_log.transaction(isolation=Isolation.SERIALIZABLE, message=message)
        paths = propose(transaction, _base(spark, table, to_log, transaction))
        if not transaction.changes:
            return None
        try:
            return transaction.commit()
        except ProposalRejectedError as error:
            remove_files(paths)
            if remaining == 0 or error.outcome.reason is not Reason.CONFLICT:
                raise
            outcome = cast("SubmittedOutcome", error.outcome)
            to_log.wait_for_snapshot(outcome.head_snapshot_id)
    raise ValueError(f"attempts must be at least 1, not {attempts}")


def _base(spark: SparkSession, table: str, log: CommitLog, transaction: Transaction) -> _Base:
    to = target_of(transaction, table)
    scan = scan_at(catalog_of(log), table, to.snapshot_id)
    return _Base(spark, table, to.definition, to.path, scan, log.settings.inlined_positions_max)


def _names(base: _Base) -> list[str]:
    return [column.name for column in base.definition.columns]


def _matching(base: _Base, where: Where) -> DataFrame:
    if where is not None and base.scan.inlined.num_rows:
        inlined = dataframe(base.spark, replace(base.scan, files=()))
        if inlined.where(condition(where)).limit(1).count():
            _refuse_inlined(base)
    rows = with_positions(base.spark, base.scan)
    return rows if where is None else rows.where(condition(where))


def _refuse_inlined(base: _Base) -> None:
    if base.scan.inlined.num_rows:
        raise DataFileError(f"table {base.table} has rows that are in no file: change them one by one, by their key")


def _value(given: Expression | Any) -> Expression:
    return given if isinstance(given, Expression) else sf.lit(given)


def _updated(rows: DataFrame, source: DataFrame, on: Sequence[str], names: Sequence[str]) -> DataFrame:
    given = {fold(name) for name in source.columns}
    old, new = rows.alias("old"), source.alias("new")
    same = reduce(Expression.__and__, [sf.col(f"old.`{name}`") == sf.col(f"new.`{name}`") for name in on])
    chosen = [sf.col(f"{'new' if fold(name) in given else 'old'}.`{name}`").alias(name) for name in names]
    return old.join(new, same).select(*chosen)


def _delete(transaction: Transaction, base: _Base, found: Mapping[int, Sequence[int]]) -> list[str]:
    """Each file's rows in the form that suits their number: all of them, a delete file, or positions in the catalog.

    Returns the paths of the delete files.
    """
    if not found:
        return []
    files = {each.data_file_id: each for each in base.scan.files}
    whole = [each for each, rows in found.items() if len(rows) + len(files[each].deleted) == files[each].record_count]
    parts = {each: rows for each, rows in found.items() if each not in whole}
    many = [each for each, rows in parts.items() if len(rows) > base.positions_max]
    # A file has one delete file: a new one holds the rows of the one before.
    delete_files = [
        write_delete_file(each, files[each].path, sorted({*parts.pop(each), *files[each].in_delete_file}), base.path)
        for each in many
    ]
    transaction.delete(base.table, parts, delete_files=delete_files, whole_files=whole)
    return [each.path for each in delete_files]


def _replace(
    transaction: Transaction, base: _Base, found: Mapping[int, Sequence[int]], df: DataFrame | None
) -> Sequence[str]:
    delete_files = _delete(transaction, base, found)
    return delete_files if df is None else [*delete_files, *_append(transaction, base, df)]


def _append(transaction: Transaction, base: _Base, df: DataFrame) -> Sequence[str]:
    paths = write_parquet(fit(df, base.definition), new_directory(base.path))
    if paths:
        transaction.append(base.table, paths)
    return paths
