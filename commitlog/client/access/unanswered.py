"""One unanswered proposal with a ``writer_seq`` per writer at a time (rules.md 8): the client sees to it.

Two of them in flight could be decided in another order than they were made, and the seq of a refused one could be taken
by the next. The same seq again is no other one: it commits once at most. What one client object can see is enough: two
processes of one writer fence each other by epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import UUID
from weakref import WeakValueDictionary

from commitlog.domain.model import Proposal, ProposalId
from commitlog.errors import CommitLogError, OutcomeUnknownError, WriterBusyError

_AT_ONCE = nullcontext()


def waits_its_turn(proposal: Proposal) -> bool:
    """Whether its writer's proposal before must be answered first.

    What a link brings need not wait: its digest names the one before it, without which it is refused.
    """
    return proposal.writer_seq is not None and proposal.replicated is None


class UnansweredProposals:
    """Which writer has a proposal out whose answer did not come.

    Args:
        is_settled: asks the log whether an id has been decided, or is not on its way any more.
    """

    def __init__(self, is_settled: Callable[[ProposalId], bool]) -> None:
        self._is_settled = is_settled
        self._guard = threading.Lock()
        # Who waits or has its turn holds it: each key of a commit is a writer, and there is no end of them.
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._unanswered: dict[str, Proposal] = {}

    def turn(self, proposal: Proposal, *, timeout_s: float) -> AbstractContextManager[None]:
        """Wait for the writer's turn, which may end in another thread; those that wait for nobody have none.

        Raises:
            OutcomeUnknownError: this one is on its way already, and still unanswered.
            WriterBusyError: the writer's proposal before is still unanswered, and this is another one; nothing was sent.
        """
        return self._waited(proposal, timeout_s) if waits_its_turn(proposal) else _AT_ONCE

    @contextmanager
    def _waited(self, proposal: Proposal, timeout_s: float) -> Iterator[None]:
        with self._guard:
            turn = self._turns.setdefault(proposal.writer_id, threading.Lock())
        if not turn.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX)):
            before = self._unanswered.get(proposal.writer_id, proposal)
            if before.proposal_id == proposal.proposal_id:
                raise OutcomeUnknownError(UUID(bytes=before.proposal_id), waited_ms=int(timeout_s * 1000))
            raise _busy(before)
        try:
            self._check(proposal)
            self._unanswered[proposal.writer_id] = proposal
            try:
                yield
            except OutcomeUnknownError:
                raise
            except CommitLogError:
                # All others say that nothing was sent; who is interrupted knows nothing.
                del self._unanswered[proposal.writer_id]
                raise
            del self._unanswered[proposal.writer_id]
        finally:
            turn.release()

    def _check(self, proposal: Proposal) -> None:
        before = self._unanswered.get(proposal.writer_id)
        if before is None or before.proposal_id == proposal.proposal_id or before.writer_seq == proposal.writer_seq:
            return
        if not self._is_settled(before.proposal_id):
            raise _busy(before)


def _busy(before: Proposal) -> WriterBusyError:
    return WriterBusyError(before.writer_id, UUID(bytes=before.proposal_id))
