"""Writes that are done again: after a conflict, on the newest head; and not at all once their key has been committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from commitlog.client.arguments import checked_count
from commitlog.client.outcomes.repeats import check_repeat
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.table_at import KnownTable
from commitlog.client.tables.write_keys import parse_key, table_key
from commitlog.client.transaction import Transaction
from commitlog.domain.model import Reason
from commitlog.errors import (
    CommitLogError,
    DataFileError,
    InvalidRequestError,
    ProposalRejectedError,
    TableNotFoundError,
)

T = TypeVar("T")

_RETRIED = (Reason.CONFLICT, Reason.BASE_EXPIRED)


class AttemptedLog(Protocol):
    """What is asked of a ``CommitLog``."""

    @property
    def transaction(self) -> Callable[..., Transaction]: ...

    def see(self, snapshot_id: int | None) -> None: ...

    def head_snapshot_id(self) -> int: ...


class Appended(Protocol):
    """Rows or files that can be put into one transaction after another."""

    @property
    def is_written(self) -> bool: ...

    def put(self, transaction: Transaction) -> None: ...


def commit_after_conflicts(
    log: AttemptedLog,
    fn: Callable[[Transaction], object],
    commit: Callable[[Transaction], T],
    attempts: int,
    options: Mapping[str, Any],
) -> T:
    """What the first attempt gives that is not refused for a conflict; see ``CommitLog.run``."""
    if any(options.get(name) is not None for name in ("proposal_id", "base_snapshot_id")):
        # Under one id there is one verdict, and what a base conflicts with stays after it.
        attempts = 1
    for remaining in range(attempts - 1, -1, -1):
        transaction = log.transaction(**options)
        try:
            fn(transaction)
            try:
                return commit(transaction)
            except ProposalRejectedError as error:
                if remaining == 0 or error.outcome.reason not in _RETRIED:
                    raise
                log.see(error.outcome.head_snapshot_id)
        except BaseException:
            transaction.discard()
            raise
    raise AssertionError("the last attempt returns or raises")


def append_at_known(
    log: AttemptedLog, known: KnownTable | None, appended: Appended, attempts: int, options: Mapping[str, Any]
) -> SubmittedOutcome | None:
    """Append to a table as it is known to have been, and only where that does not do to what it is by now."""
    if known is not None and options.get("proposal_id") is None:
        transaction = log.transaction(base_snapshot_id=known.snapshot_id, **options)
        try:
            appended.put(transaction)
            return commit_if_any(transaction)
        except DataFileError:
            # It may fit the table as it is now.
            transaction.discard()
            if appended.is_written:
                # A stream that has begun is not read again; the next one is for the table as it is now.
                with suppress(CommitLogError):
                    log.head_snapshot_id()
                raise
        except ProposalRejectedError as error:
            if attempts == 1 or error.outcome.reason not in _RETRIED:
                raise
            attempts -= 1
        except BaseException:
            transaction.discard()
            raise
    return commit_after_conflicts(log, appended.put, commit_if_any, attempts, options)


def answered_again(
    log: AttemptedLog, first: SubmittedOutcome, appended: Appended, options: Mapping[str, Any]
) -> SubmittedOutcome:
    """The answer to an append that was committed before, once what is appended is seen to be the same.

    Raises:
        KeyReusedError: it is something else.
        DataFileError: it does not even fit the table as it was.
    """
    if first.first is None:
        return first
    # For the table as the first has left it, whatever has become of it since.
    transaction = log.transaction(base_snapshot_id=first.snapshot_id, **options)
    try:
        appended.put(transaction)
    except TableNotFoundError:
        # The catalog has forgotten the table as it was.
        return first
    check_repeat(first.first, transaction.proposal(), snapshot_id=first.snapshot_id)
    return first


def commit_if_any(transaction: Transaction) -> SubmittedOutcome | None:
    """The answer; None when there is nothing to commit."""
    return transaction.commit() if transaction.changes else None


def check_attempts(attempts: int) -> None:
    """See that something is tried at least once.

    Raises:
        InvalidRequestError: it is not.
    """
    if checked_count("attempts", attempts) < 1:
        raise InvalidRequestError(f"attempts must be at least 1, not {attempts}")


def key_options(key: str, options: Mapping[str, Any], *, table: str | None = None) -> dict[str, Any]:
    """The writer and its number that a key of a commit, or of a write to one table, stands for, as options of its transaction.

    Raises:
        InvalidRequestError: the options name them too, or the key is none.
    """
    for name in ("writer_id", "writer_seq", "writer_epoch", "proposal_id"):
        if options.get(name) is not None:
            raise InvalidRequestError(
                f"key={key!r} says by which writer and number the write is known: leave out {name}"
            )
    return (parse_key(key) if table is None else table_key(key, table))._asdict()
