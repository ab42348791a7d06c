"""Files rewritten as fewer and larger ones with the same rows, in an order that lets readers leave files out.

The rows keep their ids, which the new files carry: a reader that knows a row by its id finds it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.arguments import checked_items
from commitlog.client.files.removing import remove_files
from commitlog.client.tables.names import parse_table_name
from commitlog.client.writing.proposal_room import files_by_partition
from commitlog.domain.model import FilterOp
from commitlog.domain.model.types import fold
from commitlog.errors import InvalidRequestError
from commitlog.spark.changing.base import Base, base_of, only, with_files
from commitlog.spark.columns import quoted
from commitlog.spark.connection import catalog_of, connect
from commitlog.spark.filters import Where, conjunction, is_spark_only
from commitlog.spark.jobs import shown_as
from commitlog.spark.maintaining.compact_bins import bins, finished, live_bytes, worth_rewriting
from commitlog.spark.maintaining.z_order import check_columns, morton
from commitlog.spark.reading.dataframes import with_row_ids
from commitlog.spark.reading.derived_filters import derived
from commitlog.spark.reading.scan_files import ScanFile
from commitlog.spark.writing.column_fit import fit_with_ids
from commitlog.spark.writing.parquet_files import write_new
from commitlog.spark.writing.partitions import described, write_rows
from commitlog.spark.writing.publish import commit

TARGET_BYTES = 128 * 1024 * 1024
_MORTON = "_commitlog_morton"


@dataclass(frozen=True, slots=True)
class _Order:
    """How large new files are, and in which order their rows."""

    target_bytes: int
    sort_by: Sequence[str]
    z_order_by: Sequence[str]

    def groups(self, partition: Sequence[ScanFile], *, rewrite_all: bool) -> Iterator[Sequence[ScanFile]]:
        """Which files of a partition are rewritten together: all of them where their rows are sorted, else some."""
        if not self.sort_by and not self.z_order_by:
            yield from bins(partition, target_bytes=self.target_bytes, rewrite_all=rewrite_all)
            return
        group = [each for each in partition if rewrite_all or worth_rewriting(each, self.target_bytes)]
        yield from finished(group, rewrite_all)


def compact(
    spark: SparkSession,
    table: str,
    *,
    where: Where = None,
    rewrite_all: bool = False,
    parallelism: int = 4,
    target_bytes: int = TARGET_BYTES,
    sort_by: Sequence[str] = (),
    z_order_by: Sequence[str] = (),
    log: CommitLog | None = None,
) -> list[SubmittedOutcome]:
    """Rewrite small files, and files with deleted rows, as fewer; one commit for each group of files.

    Args:
        spark: the session.
        table: its name, ``schema.table`` or ``table``.
        where: only files that may have rows that match, as statistics and partition values tell of what it says of single
            columns. They are rewritten whole.
        rewrite_all: also the files that are large and have lost no rows, such as to sort what has not been sorted.
        parallelism: how many groups are rewritten at once.
        target_bytes: how large a new file is about; files of at least three quarters of it that have lost no rows stay.
        sort_by: columns by which the rows are sorted over all new files of a partition, so that a filter on the first
            of them leaves files out.
        z_order_by: instead, columns along whose Z-order curve they are sorted, for filters on any of them.
        log: the log; None connects by the settings found.

    Returns:
        The answers; empty when there is nothing to rewrite.

    Raises:
        DataFileError: a column to order by is not in the table, or has no order.
        InvalidRequestError: both orders are given, or too many columns; or ``where`` says nothing of whole files.
        ProposalRejectedError: rows of a group were deleted meanwhile; all other groups are compacted.
    """
    if sort_by and z_order_by:
        raise InvalidRequestError("order the rows by sort_by=[...] or by z_order_by=[...], not both")
    if not isinstance(parallelism, int) or parallelism < 1:
        raise InvalidRequestError(
            f"parallelism is how many groups are rewritten at once, from 1 on, not {parallelism!r}"
        )
    if not isinstance(target_bytes, int) or target_bytes < 1:
        raise InvalidRequestError(
            f"target_bytes is how many bytes a file has about, such as 2**27, not {target_bytes!r}"
        )
    sort_by = checked_items("sort_by", sort_by, str, "names of columns, such as ['day', 'id']")
    z_order_by = checked_items("z_order_by", z_order_by, str, "names of columns, such as ['day', 'id']")
    to_log = connect() if log is None else log
    base = base_of(spark, table, to_log, to_log.transaction())
    check_columns(base.definition, [*sort_by, *z_order_by], curve=bool(z_order_by))
    order = _Order(target_bytes, sort_by, z_order_by)
    chosen = base if where is None else only(base, _files_that_may_match(base, where))
    # Files of different partitions are not mixed; those whose partition is not known are split by it when written.
    groups = [
        with_files(base, group)
        for partition in files_by_partition(chosen.scan.files)
        for group in order.groups(partition, rewrite_all=rewrite_all)
    ]
    return _compact_all(to_log, groups, order, parallelism) if groups else []


def _files_that_may_match(base: Base, where: Where) -> set[int]:
    predicates = conjunction(where)
    if is_spark_only(where):
        predicates, is_all = derived(base.spark, where, base.definition.columns)
        # That a column is not NULL is all that Spark concludes of expressions that the catalog cannot compute.
        if not is_all and all(each.op is FilterOp.IS_NOT_NULL for each in predicates):
            raise InvalidRequestError(
                "files are chosen by what the catalog knows of them, and where says nothing that it could compare: give "
                "conditions of single columns, such as where=\"day >= '2026-01-01'\" or where=('day', '>=', '2026-01-01')"
            )
    catalog, name = catalog_of(base.log), parse_table_name(base.table)
    at = catalog.table_at(name.schema, name.name, base.scan.snapshot_id)
    assert at is not None, "its files have been read"
    return {each.data_file_id for each in catalog.files_at(at, base.scan.snapshot_id, where=predicates)}


def _compact_all(log: CommitLog, groups: Sequence[Base], order: _Order, parallelism: int) -> list[SubmittedOutcome]:
    """Rewrite groups side by side; one that is refused ends no other."""

    def rewrite(part: Base) -> SubmittedOutcome:
        with shown_as(part.spark, "compact", part.table, part.scan.snapshot_id):
            return _compact(log, part, order)

    with ThreadPoolExecutor(min(parallelism, len(groups)), "compact") as pool:
        running = [pool.submit(rewrite, each) for each in groups]
    refused = [error for each in running if (error := each.exception()) is not None]
    if refused:
        refused[0].add_note(
            f"{len(groups) - len(refused)} of {len(groups)} groups of files are compacted: compact again for the rest."
        )
        raise refused[0]
    return [each.result() for each in running]


def _compact(log: CommitLog, part: Base, by: _Order) -> SubmittedOutcome:
    files, table = part.scan.files, part.definition
    rows = with_row_ids(part.spark, part.scan)
    order = list(by.sort_by)
    more = []
    place = _MORTON
    while fold(place) in table.by_name:
        place += "_"
    if by.z_order_by:
        row_count = sum(each.live_count for each in files)
        rows = rows.withColumn(place, morton(rows, table, by.z_order_by, row_count=row_count))
        order = [place]
        more.append(sf.col(place))
    fitted = fit_with_ids(rows, table, *more, ignored=(place,))
    if table.partition_by and files[0].partition_values is None:
        paths = write_rows(fitted, table, part.path, order, dropped=[place])
    else:
        count = max(1, round(sum(live_bytes(each) for each in files) / by.target_bytes))
        paths = write_new(_ranged(fitted, count, order).drop(place), part.path)
    transaction = log.transaction(base_snapshot_id=part.scan.snapshot_id, message="compaction")
    try:
        new = described(paths, table, part.path, carry_row_ids=True, partition_values=files[0].partition_values)
        transaction.compact(part.table, [each.data_file_id for each in files], new)
    except BaseException:
        remove_files(paths)
        raise
    return commit(transaction, paths, {part.table: part.path})


def _ranged(rows: DataFrame, count: int, order: Sequence[str]) -> DataFrame:
    if not order:
        return rows.coalesce(count)
    columns = [sf.col(quoted(name)) for name in order]
    together = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, *columns)
    return together.sortWithinPartitions(*columns)
