"""Proposals sent, one or many, waited for or not, and what their answers mean to whoever sent them.

What a program gives is anything until it has been looked at: compiled code would refuse another type in words of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any, TypeAlias
from uuid import UUID

from commitlog.client.access.log_access import LogAccess, OutcomeState, PendingAnswer
from commitlog.client.access.unanswered import UnansweredProposals, waits_its_turn
from commitlog.client.arguments import checked_count, shown
from commitlog.client.limits import check_limits
from commitlog.client.outcomes.repeats import check_repeat
from commitlog.client.outcomes.submitted import SubmittedOutcome, answered, answered_before
from commitlog.client.transaction import Transaction
from commitlog.domain import model as m
from commitlog.errors import (
    CommitLogError,
    InvalidRequestError,
    KeyReusedError,
    OutcomeUnknownError,
    ResultsTrimmedError,
)
from commitlog.log.codec import encode_proposal
from commitlog.observing.tracing import spans

IN_FLIGHT_MAX = 10_000
Proposed: TypeAlias = Transaction | m.Proposal
Answer: TypeAlias = SubmittedOutcome | OutcomeUnknownError | KeyReusedError


class Submissions:
    """What a connection sends. Thread-safe; ``CommitLog``, whose methods these are, says what each is for.

    Args:
        access: where it is sent.
        see: is told the snapshot that an answer names.
    """

    def __init__(self, access: LogAccess, see: Callable[[int | None], None]) -> None:
        self._access = access
        self._see = see
        self._unanswered = UnansweredProposals(self._is_settled)

    def submit(self, proposal: Any, timeout_s: float) -> SubmittedOutcome:
        """See ``CommitLog.submit``."""
        encoded = self._encoded(proposal)
        deadline = time.monotonic() + timeout_s
        with self._unanswered.turn(proposal, timeout_s=_left_s(deadline)):
            pending = self._sent(proposal, encoded, _left_s(deadline), is_awaited=True)
            try:
                receipt = pending.wait(_left_s(deadline))
            finally:
                pending.forget()
        return self._answered(proposal, receipt)

    def submit_async(self, proposed: Any, timeout_s: float) -> Future[SubmittedOutcome]:
        """See ``CommitLog.submit_async``."""
        future: Future[SubmittedOutcome] = Future()
        # What was sent cannot be taken back.
        future.set_running_or_notify_cancel()
        if _is_repeat(proposed):
            future.set_result(proposed.commit())
            return future
        proposal = _handed_over(proposed)
        deadline = time.monotonic() + timeout_s
        try:
            encoded = self._encoded(proposal)
            with ExitStack() as sending:
                sending.enter_context(self._unanswered.turn(proposal, timeout_s=timeout_s))
                pending = self._sent(proposal, encoded, _left_s(deadline))
                turn = sending.pop_all()
        except CommitLogError as error:
            _give_back(proposed, error)
            raise

        def end(_: PendingAnswer) -> None:
            try:
                with turn:
                    receipt = pending.wait(0)
                outcome = self._answered(proposal, receipt)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(outcome)

        pending.on_answer(end, _left_s(deadline))
        return future

    def publish_many(self, proposed: Any, in_flight_max: Any, timeout_s: float) -> Iterator[Answer]:
        """See ``CommitLog.publish_many``."""
        if not isinstance(proposed, Iterable):
            raise InvalidRequestError(f"proposals must be a list of Proposals or Transactions, not {shown(proposed)}")
        checked_count("in_flight_max", in_flight_max)
        waiting: deque[tuple[m.Proposal, PendingAnswer] | SubmittedOutcome] = deque()
        numbered: set[str] = set()

        def first_answer() -> Answer:
            first = waiting.popleft()
            if isinstance(first, SubmittedOutcome):
                return first
            proposal, pending = first
            if waits_its_turn(proposal):
                numbered.discard(proposal.writer_id)
            return self._awaited(proposal, pending, timeout_s)

        failure: Exception | None = None
        try:
            for each in proposed:
                while waiting and len(waiting) >= in_flight_max:
                    yield first_answer()
                if _is_repeat(each):
                    waiting.append(each.commit())
                    continue
                proposal = _handed_over(each)
                try:
                    encoded = self._encoded(proposal)
                    while waiting and _follows(proposal, numbered):
                        yield first_answer()
                    waiting.append((proposal, self._sent(proposal, encoded, timeout_s, is_bulk=True)))
                except CommitLogError as error:
                    _give_back(each, error)
                    raise
                if waits_its_turn(proposal):
                    numbered.add(proposal.writer_id)
        except Exception as error:
            failure = error
        while waiting:
            yield first_answer()
        if failure is not None:
            raise failure

    def _sent(
        self,
        proposal: m.Proposal,
        encoded: bytes,
        timeout_s: float,
        *,
        is_awaited: bool = False,
        is_bulk: bool = False,
    ) -> PendingAnswer:
        """A proposal on its way, in a span where this process traces."""
        made = spans()
        if made is None:
            return self._access.send(proposal, encoded, timeout_s=timeout_s, is_awaited=is_awaited, is_bulk=is_bulk)
        from commitlog.client.access.traced_answer import TracedAnswer

        span = made.submitting(proposal_id=proposal.proposal_id, writer_id=proposal.writer_id)
        try:
            traceparent = made.traceparent_of(span)
            pending = self._access.send(
                proposal,
                encoded,
                timeout_s=timeout_s,
                traceparent=traceparent,
                is_awaited=is_awaited,
                is_bulk=is_bulk,
            )
        except BaseException as error:
            made.failed(span, str(error))
            span.end()
            raise
        return TracedAnswer(pending, made, span)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _encoded(self, proposal: Any) -> bytes:
        """A proposal as it is sent, once it is within the log's limits."""
        check_kind(proposal)
        encoded = encode_proposal(proposal)
        try:
            check_limits(proposal, self._access.settings, len(encoded))
        except CommitLogError as error:
            # A limit may have been raised since it was looked at.
            self._check_newest_limits(proposal, len(encoded), error)
        return encoded

    def _check_newest_limits(self, proposal: m.Proposal, size_bytes: int, error: CommitLogError) -> None:
        try:
            newest = self._access.newest_settings()
        except CommitLogError:
            raise error from None
        check_limits(proposal, newest, size_bytes)

    def _awaited(self, proposal: m.Proposal, pending: PendingAnswer, timeout_s: float) -> Answer:
        try:
            return self._answered(proposal, pending.wait(timeout_s))
        except (OutcomeUnknownError, KeyReusedError) as error:
            return error
        finally:
            pending.forget()

    def _answered(self, proposal: m.Proposal, receipt: m.Receipt) -> SubmittedOutcome:
        self._access.hear(receipt)
        if receipt.verdict is m.Verdict.DUPLICATE:
            outcome = self._repeated(proposal, receipt)
        elif receipt.reason is m.Reason.PROPOSAL_EXPIRED:
            outcome = self._forgotten(proposal, receipt)
        else:
            # A receipt does not list what the proposal met.
            conflicts = receipt.reason is m.Reason.CONFLICT
            outcome = answered(proposal, receipt, self._met(receipt) if conflicts else None)
        self._see(outcome.snapshot_id)
        return outcome

    def _repeated(self, proposal: m.Proposal, receipt: m.Receipt) -> SubmittedOutcome:
        try:
            first = self._first(proposal, receipt)
        except CommitLogError as error:
            if receipt.same_content is not True:
                # It was sent, and may have been committed: no other error says that.
                raise OutcomeUnknownError(UUID(bytes=proposal.proposal_id)) from error
            first = None
        if first is not None and first.proposal is not None:
            check_repeat(first.proposal, proposal, snapshot_id=first.snapshot_id)
        return answered_before(proposal, receipt, first)

    def _forgotten(self, proposal: m.Proposal, receipt: m.Receipt) -> SubmittedOutcome:
        """The log cannot tell it from a repeat any more; the catalog can."""
        try:
            first = self._access.find(proposal.proposal_id).outcome
        except CommitLogError as error:
            raise OutcomeUnknownError(UUID(bytes=proposal.proposal_id)) from error
        if first is None or first.reason is m.Reason.PROPOSAL_EXPIRED:
            return answered(proposal, receipt)
        if first.proposal is not None:
            check_repeat(first.proposal, proposal, snapshot_id=first.snapshot_id)
        return answered_before(proposal, receipt, first)

    def _met(self, receipt: m.Receipt) -> m.Outcome | None:
        try:
            return self._access.outcome_at(receipt.seq)
        except CommitLogError:
            # The verdict is known, whatever the look-up runs into; what it met can be asked for later.
            return None

    def _first(self, proposal: m.Proposal, receipt: m.Receipt) -> m.Outcome | None:
        """What was decided under the key of a repeat."""
        if receipt.original_seq is not None:
            try:
                return self._access.outcome_at(receipt.original_seq)
            except ResultsTrimmedError:
                pass
        # The log has forgotten all but that it was, or its results were trimmed; the catalog has not.
        if proposal.writer_seq is not None:
            committed = self._access.committed_as(proposal.writer_id, proposal.writer_seq)
            if committed is not None:
                return committed
        return self._access.find(proposal.proposal_id).outcome

    def _is_settled(self, proposal_id: m.ProposalId) -> bool:
        """Whether nothing more comes of it: what never came to the log, and is not being sent any more, holds up nobody."""
        return self._access.find(proposal_id).state is not OutcomeState.UNDECIDED


def check_kind(proposal: Any) -> None:
    """See that it is a proposal.

    Raises:
        InvalidRequestError: it is something else.
    """
    if not isinstance(proposal, m.Proposal):
        raise InvalidRequestError(f"a proposal must be a Proposal, such as tx.proposal(), not {shown(proposal)}")


def _is_repeat(proposed: Any) -> bool:
    """Whether it is a transaction whose answer is known, for its key was committed before: nothing of it is sent."""
    return isinstance(proposed, Transaction) and proposed.is_repeat


def _handed_over(proposed: Any) -> m.Proposal:
    if isinstance(proposed, Transaction):
        return proposed.hand_over()
    check_kind(proposed)
    proposal: m.Proposal = proposed
    return proposal


def _give_back(proposed: Any, error: CommitLogError) -> None:
    """A transaction that could not be sent may be sent yet; its files are its own again."""
    if isinstance(proposed, Transaction) and not isinstance(error, OutcomeUnknownError):
        proposed.take_back()


def _follows(proposal: m.Proposal, numbered: Collection[str]) -> bool:
    """Whether it waits for its turn, and its writer has an unanswered proposal that did."""
    return waits_its_turn(proposal) and proposal.writer_id in numbered


def _left_s(deadline: float) -> float:
    return max(0, deadline - time.monotonic())
