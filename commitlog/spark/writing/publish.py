"""One proposal for what Spark wrote, and what becomes of the files when it is not the one that is committed.

Files go only when it is sure that no snapshot will ever name them: the proposal was refused, or it repeats one that
was committed with other files. After an unknown outcome they stay, for the proposal may yet be accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.files.removing import remove_files, unlisted
from commitlog.client.tables.missing import rows_without_file
from commitlog.client.tables.names import parse_table_name
from commitlog.domain.model import Append, ConflictKind, DataFile, Isolation, Reason
from commitlog.errors import (
    CommitLogError,
    FencedError,
    KeyReusedError,
    OutcomeUnknownError,
    ProposalRejectedError,
    ProposalTooLargeError,
    TableNotFoundError,
)
from commitlog.spark.connection import catalog_of, committed_as
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.partitions import described
from commitlog.spark.writing.target import NOTHING, Target, target


@dataclass(frozen=True, slots=True, repr=False)
class WrittenOutcome(SubmittedOutcome):
    """The answer to an append, with what was written for it: of a repeat, by whoever was first.

    Attributes:
        row_count: how many rows.
        file_count: in how many files.
        file_bytes: how large these are together.
    """

    row_count: int = 0
    file_count: int = 0
    file_bytes: int = 0


def committed_before(log: CommitLog, key: Key | None) -> WrittenOutcome | None:
    """The answer of the commit that a key has named, by whichever process; None where it has named none."""
    first = None if key is None else committed_as(log, key.writer_id, key.writer_seq)
    if first is None:
        return None
    changes = () if first.first is None else first.first.changes
    return _written(first, [file for each in changes if isinstance(each, Append) for file in each.files])


def _written(outcome: SubmittedOutcome, files: Sequence[DataFile]) -> WrittenOutcome:
    answer = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    size = _size(files)
    return WrittenOutcome(**answer, row_count=size["rows"], file_count=size["files"], file_bytes=size["bytes"])


def _size(files: Sequence[DataFile]) -> dict[str, int]:
    return {
        "rows": sum(each.record_count for each in files),
        "files": len(files),
        "bytes": sum(each.file_size_bytes for each in files),
    }


def publish(
    log: CommitLog,
    to: Target,
    paths: Sequence[str],
    *,
    key: Key | None = None,
    message: str | None = None,
    replaces: bool = False,
    follows: bool = False,
) -> WrittenOutcome | None:
    """Propose to append files to a table, and wait for the answer; None when there is nothing to propose.

    Args:
        log: the log.
        to: the table.
        paths: of the files.
        key: names this write.
        message: for the history.
        replaces: all rows that the table had at ``to`` go; it is refused when rows came or went since.
        follows: files that are refused only because the table was altered meanwhile are proposed to it as it is now, if they
            fit it: a column that came since has its default in them, or NULL.

    Raises:
        ProposalRejectedError: it was refused, and the files are removed.
        FencedError: the same, because a later driver of the same streaming query has taken over.
        KeyReusedError: the key names a write of other rows, and the files are removed.
        DataFileError: the files do not fit, and are removed; nothing was proposed.
        TableNotFoundError: the table that they were to follow is there no more, and they are removed.
        OutcomeUnknownError: no answer in time; the files stay.
    """
    try:
        files = described(paths, to.definition, to.path)
        transaction = log.transaction(
            base_snapshot_id=to.snapshot_id,
            isolation=Isolation.SERIALIZABLE if replaces else Isolation.SNAPSHOT,
            message=message,
            extra=json.dumps(_size(files)),
            **({} if key is None else key.options),
        )
        to.preparation.put(transaction, to.name)
        if replaces and not to.preparation.created:
            _delete_all(log, transaction, to)
        if files:
            transaction.append(to.name, files)
    except BaseException:
        remove_files(paths)
        raise
    if not transaction.changes:
        return None
    may_follow = follows and to.preparation == NOTHING
    try:
        outcome = commit(transaction, paths, {to.name: to.path}, stay_when=is_altered if may_follow else None)
    except ProposalRejectedError as error:
        if not may_follow or not is_altered(error):
            raise
        return publish(log, _altered(log, to, paths, error), paths, key=key, message=message, follows=True)
    except KeyReusedError as error:
        if key is not None and key.epoch is not None:
            error.add_note(_other_rows(key.writer_seq))
        raise
    except ProposalTooLargeError as error:
        partitions = len({each.partition_values for each in files})
        error.add_note(
            f"{len(files):,} files of {partitions:,} partitions were written for {to.name}, and are removed: append the rows "
            "of some partitions at a time (df.where(...), each with a key of its own), or partition by less, such as "
            "month(day) or bucket(16, id)"
        )
        raise
    return _written(outcome, files)


def _other_rows(batch_id: int) -> str:
    return (
        f"Batch {batch_id} of the stream is committed, and has other rows now that Spark repeats it. Let a repeated batch have "
        "the same ones: without rand() and uuid(), and with current_timestamp() in the query itself, where Spark keeps it with "
        "the batch, not in the function of foreachBatch. If the rows that are committed are to stand, start the query once "
        f"with a function of foreachBatch that does nothing for batch {batch_id}."
    )


def is_altered(error: ProposalRejectedError) -> bool:
    """Whether a proposal was refused because a table was altered, and for nothing else."""
    return error.outcome.reason is Reason.CONFLICT and all(
        each.kind is ConflictKind.TABLE_ALTERED for each in error.conflicts
    )


def _altered(log: CommitLog, to: Target, paths: Sequence[str], error: ProposalRejectedError) -> Target:
    """The table as it is now, for files whose directories say where in it they belong; without it they are removed."""
    try:
        log.wait_for_snapshot(error.outcome.head_snapshot_id)
        now = target(log, to.name)
        is_same = now.definition.table_id == to.definition.table_id
        if not is_same or now.definition.partition_id != to.definition.partition_id:
            raise error
    except BaseException:
        remove_files(paths)
        raise
    return now


def _delete_all(log: CommitLog, transaction: Transaction, to: Target) -> None:
    catalog, name = catalog_of(log), parse_table_name(to.name)
    at = catalog.table_at(name.schema, name.name, to.snapshot_id)
    if at is None:
        raise TableNotFoundError(to.name, snapshot_id=to.snapshot_id)
    if catalog.row_count_at(at.definition.table_id, to.snapshot_id):
        raise rows_without_file(to.name, at.definition)
    transaction.read(to.name)
    if files := catalog.files_at(at, to.snapshot_id):
        transaction.delete(to.name, whole_files=[each.data_file_id for each in files])


class Committing(Protocol):
    """What commits one transaction."""

    def commit(self) -> SubmittedOutcome: ...


def commit(
    transaction: Committing,
    paths: Sequence[str],
    table_paths: Mapping[str, str],
    *,
    stay_when: Callable[[ProposalRejectedError], bool] | None = None,
) -> SubmittedOutcome:
    """Commit a transaction; when it is sure that it is not committed, its files are removed.

    Args:
        transaction: what to commit.
        paths: of the files.
        table_paths: where the files of each table are that was written to.
        stay_when: after which refusals the files stay, for they are proposed once more.

    Raises:
        ProposalRejectedError: it was refused.
        FencedError: the same, because a later driver of the same streaming query has taken over.
        KeyReusedError: its key names another write, such as one of other rows.
        ProposalTooLargeError: it is over the log's limit, and was not sent.
        WriterBusyError: the writer's proposal before is still unanswered, and this one was not sent.
        OutcomeUnknownError: no answer in time; the files stay.
    """
    try:
        outcome = transaction.commit()
    except OutcomeUnknownError:
        raise
    except KeyReusedError as error:
        remove_files(unlisted(table_paths, paths, error.first))
        raise
    except CommitLogError as error:
        # But for a refusal, all others say that nothing was sent.
        if not isinstance(error, ProposalRejectedError) or stay_when is None or not stay_when(error):
            remove_files(paths)
        if isinstance(error, ProposalRejectedError) and error.outcome.reason is Reason.WRITER_FENCED:
            raise FencedError(
                f"this driver has stopped: a later one runs the same streaming query (its checkpoint) into "
                f"{', '.join(sorted(table_paths))}, and only that one may commit. Give each query a checkpoint of its own, "
                "and run it once."
            ) from error
        raise
    if outcome.is_repeat:
        remove_files(unlisted(table_paths, paths, outcome.first))
    return outcome
