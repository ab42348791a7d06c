"""A changeset on its way: when it is sent, what it is answered, and what becomes of the files that were written for it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import cast
from uuid import UUID

from commitlog.client.changeset import Changeset
from commitlog.client.changeset_tables import TransactionLog, TransactionOptions
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.names import parse_table_name
from commitlog.domain import model as m
from commitlog.errors import (
    CommitLogError,
    InvalidRequestError,
    KeyReusedError,
    OutcomeUnknownError,
    ProposalRejectedError,
)
from commitlog.observing.tracing import entered


class Transaction(Changeset):
    """A changeset in the making. Made by ``CommitLog.transaction``; committed when its ``with`` block ends well."""

    def __init__(self, log: TransactionLog, options: TransactionOptions, *, first: SubmittedOutcome | None) -> None:
        super().__init__(log, options)
        self._first = self._outcome = first
        self._span: AbstractContextManager[object] | None = None

    def __enter__(self) -> Transaction:
        self._check_kept()
        self._span = entered("transaction", writer_id=self._options.writer_id)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            try:
                if error_type is None and not (self._is_answered or self._is_given_up):
                    self.commit()
            finally:
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
        """Send the proposal and wait for its answer, once; after an unknown outcome, or when nothing was sent, again.

        What was written for it is removed when it is refused; when nothing was sent it stays until `discard`, which the end
        of a ``with`` block is, too.

        Raises:
            ProposalRejectedError: it was refused; ``conflicts`` say what it met.
            OutcomeUnknownError: no answer in time.
            WriterBusyError: the writer's proposal before is still unanswered; nothing was sent.
            KeyReusedError: its id, or its ``writer_seq``, was answered before, for another write.
            ProposalTooLargeError: it is over the log's limit; nothing was sent.
            InvalidRequestError: there is nothing to commit, it is over another limit, or the transaction has been
                committed, refused or given up; nothing was sent.
        """
        self._check_kept()
        if self._is_answered:
            raise InvalidRequestError(
                "the transaction has been committed or refused: its answer is final; begin another one"
            )
        if self._first is not None:
            self._written.remove()
            self._is_answered = True
            return self._first
        before = self._sent
        # Whatever interrupts it, it may have been sent: under its id there is to be no other.
        self._sent = self.proposal() if before is None else before
        try:
            self._outcome = self._log.commit(self._sent, timeout_ms=self._options.timeout_ms)
        except KeyReusedError as error:
            self._is_answered = True
            self._written.keep_listed(error.first)
            raise
        except ProposalRejectedError as error:
            self._is_answered = True
            # The log forgets what it has answered: another answer than the first says nothing of an earlier sending.
            if before is None or cast("SubmittedOutcome", error.outcome).is_repeat:
                self._written.remove()
            raise
        except OutcomeUnknownError:
            raise
        except CommitLogError:
            # All others say that nothing was sent.
            self._sent = before
            raise
        self._is_answered = True
        return self._written.answered(self._outcome)

    def hand_over(self) -> m.Proposal:
        """The proposal, for somebody else to send; the transaction takes no change and no commit any more.

        Raises:
            InvalidRequestError: it has been sent, handed over or given up.
        """
        self._check_kept()
        if self._is_answered or self._sent is not None:
            raise InvalidRequestError("the transaction has been sent already; begin another one")
        self._is_answered = True
        return self.proposal()

    def take_back(self) -> None:
        """Nothing of what was handed over was sent: it may be handed over again, committed, or given up."""
        self._is_answered = False

    def _leave_span(self, error: BaseException | None) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)

    def discard(self) -> None:
        """Give it up for good: files that it has written are removed. One that may have been sent stays as it is."""
        if not self._is_answered and self._sent is None:
            self._is_given_up = True
            self._written.remove()

    def remove_unless_committed(self, table: str, folder: str, paths: Iterable[str]) -> None:
        """Take charge of files that were written below a table's folder for this transaction alone."""
        self._written.add(parse_table_name(table), folder.rstrip("/"), paths)
