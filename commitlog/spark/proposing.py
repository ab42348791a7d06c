"""What changes of rows that are there already have in common: a base, what was found there, and a proposal.

Every proposal here is SERIALIZABLE and declares what it read, so it is refused when rows that it should have seen came
in between; then it is computed again on the new head, as often as the caller allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.domain.model import Isolation, Reason
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import InvalidRequestError, ProposalRejectedError
from commitlog.spark.files import remove_files, write_delete_file
from commitlog.spark.filters import Where, condition
from commitlog.spark.fitting import fit
from commitlog.spark.jobs import shown_as
from commitlog.spark.partitioning import described, write_rows
from commitlog.spark.publishing import catalog_of, commit, connect, rows_without_file, target_of
from commitlog.spark.queries import read_at
from commitlog.spark.reading import Scan, dataframe, positions, with_positions
from commitlog.spark.scanning import scan_at

_logger = logging.getLogger("commitlog.spark")


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


Propose: TypeAlias = "Callable[[Transaction, Base], Sequence[str]]"
"""Puts changes and reads into the transaction; returns the files that it has written."""


def committed(
    spark: SparkSession,
    table: str,
    log: CommitLog | None,
    propose: Propose,
    *,
    operation: str,
    message: str | None,
    attempts: int,
    source: DataFrame | None = None,
) -> SubmittedOutcome | None:
    """Commit what ``propose`` puts into a SERIALIZABLE transaction; after a conflict call it again on the new head.

    Where ``source`` was made of the table's own rows, the base is the snapshot at which they were read.

    Returns:
        The answer; None when there was nothing to change.

    Raises:
        ProposalRejectedError: the last attempt was refused too; the files of every attempt are gone.
    """
    to_log = connect() if log is None else log
    for remaining in range(attempts - 1, -1, -1):
        transaction = to_log.transaction(isolation=Isolation.SERIALIZABLE, message=message)
        seen = None if source is None else read_at(source, to_log, target_of(transaction, table).definition.table_id)
        if seen is not None and seen < transaction.base_snapshot_id:
            transaction = to_log.transaction(isolation=Isolation.SERIALIZABLE, message=message, base_snapshot_id=seen)
        base = base_of(spark, table, to_log, transaction)
        with shown_as(spark, operation, table, base.scan.snapshot_id):
            paths = propose(transaction, base)
        if not transaction.changes:
            return None
        try:
            return commit(transaction, paths, {table: base.path})
        except ProposalRejectedError as error:
            if error.outcome.reason is not Reason.CONFLICT:
                raise
            if seen is not None:
                error.add_note(
                    f"Its rows were made of the table's own at snapshot {seen}: read them again, and try again."
                )
                raise
            if remaining == 0:
                error.add_note(f"Attempts made: {attempts}, each from the newest snapshot on.")
                raise
            head = cast("SubmittedOutcome", error.outcome).head_snapshot_id
            _logger.warning(
                "%s %s is computed again from snapshot %d on, attempt %d of %d, since it was refused: %s",
                operation, table, head, attempts - remaining + 1, attempts, error,
            )  # fmt: skip
            to_log.wait_for_snapshot(head)
    raise InvalidRequestError(f"attempts must be at least 1, not {attempts}")


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


def matching(base: Base, where: Where) -> DataFrame:
    """The rows in files that match, with their places; DataFileError when one that matches is in no file."""
    if where is not None and base.scan.inlined.num_rows:
        inlined = dataframe(base.spark, replace(base.scan, files=()))
        if inlined.where(condition(where)).limit(1).count():
            refuse_inlined(base)
    rows = with_positions(base.spark, base.scan)
    return rows if where is None else rows.where(condition(where))


class Matches:
    """Where the rows that match a filter stand, for one attempt after another.

    A file that has the same deleted rows as at the attempt before is not read again.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self._definition: TableDefinition | None = None
        self._known: dict[int, tuple[FrozenBitMap64, tuple[int, ...]]] = {}

    def at(self, base: Base) -> dict[int, tuple[int, ...]]:
        """Positions by data file id, of files with rows that match."""
        if self._definition != base.definition:
            self._known.clear()
        self._definition = base.definition
        unread = [each for each in base.scan.files if self._known.get(each.data_file_id, (None,))[0] != each.deleted]
        if unread or base.scan.inlined.num_rows:
            part = replace(base.scan, files=tuple(unread))
            found = positions(matching(replace(base, scan=part), self._where), part)
            self._known.update({each.data_file_id: (each.deleted, found.get(each.data_file_id, ())) for each in unread})
        live = [each.data_file_id for each in base.scan.files]
        return {file: self._known[file][1] for file in live if self._known[file][1]}


def only(base: Base, data_file_ids: Container[int]) -> Base:
    """The base with some of its files, and without the rows that are in no file."""
    files = tuple(each for each in base.scan.files if each.data_file_id in data_file_ids)
    return replace(base, scan=replace(base.scan, files=files, inlined=base.scan.inlined.slice(0, 0)))


def all_files(transaction: Transaction, base: Base) -> list[int]:
    """Declare all of the table read; returns its files. DataFileError when it has rows that are in no file."""
    refuse_inlined(base)
    transaction.read(base.table)
    return [each.data_file_id for each in base.scan.files]


def found_rows(base: Base, found: Mapping[int, Sequence[int]], where: Where) -> DataFrame:
    """The rows at the places where those that match ``where`` were found.

    They are those that match, which Spark finds faster, unless the filter could choose others the second time.
    """
    part = only(base, found)
    rows = matching(part, where)
    if not isinstance(where, str) or (hasattr(rows, "_jdf") and rows._jdf.queryExecution().analyzed().deterministic()):
        return rows
    others = {
        each.data_file_id: FrozenBitMap64(range(each.record_count)) - FrozenBitMap64(found[each.data_file_id])
        for each in part.scan.files
    }
    files = tuple(replace(each, deleted=others[each.data_file_id]) for each in part.scan.files)
    return with_positions(base.spark, replace(part.scan, files=files))


def refuse_inlined(base: Base) -> None:
    """Raise DataFileError when the table has rows that are in no file."""
    if base.scan.inlined.num_rows:
        raise rows_without_file(base.table)


def put_delete(
    transaction: Transaction, base: Base, found: Mapping[int, Sequence[int]], whole_files: Sequence[int] = ()
) -> list[str]:
    """Each file's rows in the form that suits their number: all of them, a delete file, or positions in the catalog.

    All rows of ``whole_files`` go. Returns the paths of the delete files.
    """
    if not found and not whole_files:
        return []
    files = {each.data_file_id: each for each in base.scan.files}
    whole = [each for each, rows in found.items() if len(rows) + len(files[each].deleted) == files[each].record_count]
    parts = {each: rows for each, rows in found.items() if each not in whole}
    many, positions = [], 0
    for each in sorted(parts, key=lambda each: len(parts[each])):
        positions += len(parts[each])
        if len(parts[each]) > base.positions_max or positions > base.all_positions_max:
            many.append(each)
    # A file has one delete file: a new one holds the rows of the one before.
    delete_files = [
        write_delete_file(each, files[each].path, sorted({*parts.pop(each), *files[each].in_delete_file}), base.path)
        for each in many
    ]
    transaction.delete(base.table, parts, delete_files=delete_files, whole_files=[*whole_files, *whole])
    folder = base.path.rstrip("/")
    return [f"{folder}/{each.path}" if each.path_is_relative else each.path for each in delete_files]


def put_replacement(
    transaction: Transaction, base: Base, found: Mapping[int, Sequence[int]], df: DataFrame | None
) -> Sequence[str]:
    """Delete the rows that were found and append those of ``df``; returns the files that it has written."""
    delete_files = put_delete(transaction, base, found)
    return delete_files if df is None else [*delete_files, *put_append(transaction, base, df)]


def put_append(transaction: Transaction, base: Base, df: DataFrame) -> Sequence[str]:
    """Write the rows of ``df`` and append their files; returns these."""
    paths = write_rows(fit(df, base.definition), base.definition, base.path)
    try:
        if paths:
            transaction.append(base.table, described(paths, base.definition, base.path))
    except BaseException:
        remove_files(paths)
        raise
    return paths
