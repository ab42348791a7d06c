"""A change of rows that are there already, computed and proposed, and after a conflict computed again.

Every such proposal declares what it read, so it is refused when rows that it should have seen came in between, as far as its
isolation minds them; then it is computed again on the new head, as often as the caller allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.arguments import checked_choice
from commitlog.client.attempts import check_attempts
from commitlog.domain.model import Reason
from commitlog.errors import ProposalRejectedError
from commitlog.spark.changing.base import Asked, Base, base_of
from commitlog.spark.changing.isolation import Level
from commitlog.spark.changing.setting_apart import ScatteredRowsError, set_apart
from commitlog.spark.connection import committed_as, connect
from commitlog.spark.jobs import shown_as
from commitlog.spark.reading.snapshots import read_at
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.publish import commit
from commitlog.spark.writing.stream_runs import fenced
from commitlog.spark.writing.target import target_of

_logger = logging.getLogger("commitlog.spark")
_REWRITES_MAX = 3
"""How often files are rewritten for one change: more than once only where others get in between."""

Propose: TypeAlias = "Callable[[Transaction, Base], Sequence[str]]"
"""Puts changes and reads into the transaction; returns the files that it has written."""


def committed(
    spark: SparkSession,
    table: str,
    log: CommitLog | None,
    propose: Propose,
    *,
    operation: str,
    key: Key | str | None,
    message: str | None,
    attempts: int,
    isolation: str = Level.SERIALIZABLE,
    source: DataFrame | None = None,
    where: Asked = None,
) -> SubmittedOutcome | None:
    """Commit what ``propose`` puts into a transaction; after a conflict call it again on the new head.

    Where ``source`` was made of the table's own rows, the base is the snapshot at which they were read. The base has only
    files that may hold rows that match ``where``. A ``key`` that has been committed for the table is answered with its first
    commit, and ``propose`` is not called.

    Returns:
        The answer; None when there was nothing to change.

    Raises:
        ProposalRejectedError: the last attempt was refused too; the files of every attempt are gone.
        InvalidRequestError: there is no such isolation, or nothing is to be tried.
    """
    check_attempts(attempts)
    level = checked_choice("isolation", isolation, Level)
    to_log = connect() if log is None else log
    given = Key.given(key)
    named = None if given is None else given.of_table(table)
    if named is not None and (first := committed_as(to_log, named.writer_id, named.writer_seq)) is not None:
        return first
    options: dict[str, Any] = {"isolation": level.of_transaction, "message": message}
    if named is not None:
        options |= fenced(to_log, named).options
    remaining, rewrites = attempts, _REWRITES_MAX
    while remaining > 0:
        remaining -= 1
        transaction, seen = _begun(to_log, options, table, source)
        base = base_of(spark, table, to_log, transaction, where)
        try:
            with shown_as(spark, operation, table, base.scan.snapshot_id):
                paths = propose(transaction, base)
            if not transaction.changes:
                # There may be nothing left to do because another run has just done it.
                return None if named is None else committed_as(to_log, named.writer_id, named.writer_seq)
            committing = level.committing(to_log, transaction, [base.definition.table_id])
            return commit(committing, paths, {table: base.path})
        except ScatteredRowsError as scattered:
            if seen is not None or rewrites == 0:
                raise
            remaining, rewrites = remaining + 1, rewrites - 1
            with shown_as(spark, "bring together rows of", table, base.scan.snapshot_id):
                set_apart(scattered)
        except ProposalRejectedError as error:
            if seen is not None or remaining == 0 or error.outcome.reason is not Reason.CONFLICT:
                _note_why_not_again(error, seen, attempts)
                raise
            head = error.outcome.head_snapshot_id
            _logger.warning(
                "%s %s is computed again from snapshot %d on, attempt %d of %d, since it was refused: %s",
                operation, table, head, attempts - remaining + 1, attempts, error,
            )  # fmt: skip
            to_log.wait_for_snapshot(head)
    raise AssertionError("the last attempt returns or raises")


def _begun(
    log: CommitLog, options: Mapping[str, Any], table: str, source: DataFrame | None
) -> tuple[Transaction, int | None]:
    """A transaction, and the snapshot at which its source was read of the table, if it was, which is then its base."""
    transaction = log.transaction(**options)
    seen = None if source is None else read_at(source, log, target_of(transaction, table).definition.table_id)
    if seen is not None and seen < transaction.base_snapshot_id:
        transaction = log.transaction(**options, base_snapshot_id=seen)
    return transaction, seen


def _note_why_not_again(error: ProposalRejectedError, seen: int | None, attempts: int) -> None:
    """Say of a conflict why it ends here."""
    if error.outcome.reason is not Reason.CONFLICT:
        return
    if seen is not None:
        error.add_note(f"Its rows were made of the table's own at snapshot {seen}: read them again, and try again.")
    else:
        error.add_note(f"Attempts made: {attempts}, each from the newest snapshot on.")
