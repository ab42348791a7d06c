"""A changeset on its way: when it is sent, what it is answered, and what becomes of the files that were written for it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from uuid import UUID

from commitlog.client.changeset import Changeset
from commitlog.client.changeset_tables import TransactionLog, TransactionOptions
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.names import parse_table_name
from commitlog.domain import model as m
from commitlog.errors import (
    InvalidRequestError,
    KeyReusedError,
    ProposalRejectedError,
    ProposalTooLargeError,
)
from commitlog.observing.tracing import entered


class Transaction(Changeset):
    """A changeset in the making. Made by ``CommitLog.transaction``; committed when its ``with`` block ends well."""

    def __init__(
        self, log: TransactionLog, options: TransactionOptions, *, first: SubmittedOutcome | None = None
    ) -> None:
        super().__init__(log, options)
        self._first = self._outcome = first
        self._span: AbstractContextManager[object] | None = None

    def __enter__(self) -> Transaction:
        self._span = entered("transaction", writer_id=self._options.writer_id)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error_type is None and not self._is_answered:
                self.commit()
            else:
                self.discard()
        except BaseException as failure:
            self._leave_span(failure)
            raise
        self._leave_span(error)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def proposal_id(self) -> UUID:
        """The id that the proposal is, or was, sent with."""
        return UUID(bytes=self._options.proposal_id)

    @property
    def changes(self) -> tuple[m.Change, ...]:
        """The changes so far."""
        return tuple(self._changes)

    @property
    def reads(self) -> tuple[m.Read, ...]:
        """The reads declared so far."""
        return tuple(self._reads)

    @property
    def is_repeat(self) -> bool:
        """Whether this was known, when it began, to have been committed under its key: there is nothing left to do."""
        return self._first is not None

    @property
    def outcome(self) -> SubmittedOutcome:
        """The answer.

        Raises:
            InvalidRequestError: the transaction is not committed (yet).
        """
        if self._outcome is None:
            raise InvalidRequestError("the transaction has no outcome yet: it is committed when its `with` block ends")
        return self._outcome

    def proposal(self) -> m.Proposal:
        """The proposal as it would be sent now."""
        options = self._options
        return m.Proposal(
            proposal_id=options.proposal_id,
            writer_id=options.writer_id,
            base_snapshot_id=options.base_snapshot_id,
            changes=self.changes,
            writer_epoch=options.writer_epoch,
            writer_seq=options.writer_seq,
            decide_before_ms=options.decide_before_ms,
            isolation=options.isolation,
            reads=self.reads,
            author=options.author,
            message=options.message,
            extra=options.extra,
            created_at_ms=time.time_ns() // 1_000_000,
        )

    def commit(self) -> SubmittedOutcome:
        """Send the proposal and wait for its answer, once; after an unknown outcome, again.

        Raises:
            ProposalRejectedError: it was refused; ``conflicts`` say what it met.
            OutcomeUnknownError: no answer in time.
            KeyReusedError: its id, or its ``writer_seq``, was answered before, for another write.
            ProposalTooLargeError: it is over the log's limit; nothing was sent.
            InvalidRequestError: there is nothing to commit, it is over another limit, or the transaction has been
                committed or refused; nothing was sent.
        """
        if self._is_answered:
            raise InvalidRequestError(
                "the transaction has been committed or refused: its answer is final; begin another one"
            )
        if self._first is not None:
            self._written.remove()
            self._is_answered = True
            return self._first
        proposal = self.proposal() if self._sent is None else self._sent
        try:
            with self._written:
                outcome = self._log.commit(proposal, timeout_ms=self._options.timeout_ms)
            self._outcome = self._written.answered(outcome)
        except (InvalidRequestError, ProposalTooLargeError):
            raise
        except (ProposalRejectedError, KeyReusedError):
            self._is_answered = True
            raise
        except BaseException:
            # It may have been sent: under its id there is to be no other.
            self._sent = proposal
            raise
        self._is_answered = True
        return self._outcome

    def hand_over(self) -> m.Proposal:
        """The proposal, for somebody else to send; the transaction takes no change and no commit any more.

        Raises:
            InvalidRequestError: it has been sent, or handed over.
        """
        if self._is_answered or self._sent is not None:
            raise InvalidRequestError("the transaction has been sent already; begin another one")
        self._is_answered = True
        return self.proposal()

    def _leave_span(self, error: BaseException | None) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)

    def discard(self) -> None:
        """Give it up: files that it has written are removed, unless it has been sent."""
        if not self._is_answered and self._sent is None:
            self._written.remove()

    def remove_unless_committed(self, table: str, folder: str, paths: Iterable[str]) -> None:
        """Take charge of files that were written below a table's folder for this transaction alone."""
        self._written.add(parse_table_name(table), folder.rstrip("/"), paths)
