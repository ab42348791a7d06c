"""One unanswered proposal with a ``writer_seq`` per writer at a time (rules.md 8): the client sees to it.

Two of them in flight could be decided in another order than they were made, and the seq of a refused one could be taken
by the next. The same seq again is no other one: it commits once at most. What one client object can see is enough: two
processes of one writer fence each other by epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import UUID
from weakref import WeakValueDictionary

from mypy_extensions import mypyc_attr

from commitlog.domain.model import Proposal, ProposalId
from commitlog.errors import CommitLogError, OutcomeUnknownError, WriterBusyError

_AT_ONCE = nullcontext()
_LOOK_S = 0.2


def waits_its_turn(proposal: Proposal) -> bool:
    """Whether its writer's proposal before must be answered first.

    What a link brings need not wait: its digest names the one before it, without which it is refused.
    """
    return proposal.writer_seq is not None and proposal.replicated is None


# Native classes take no weak references.
@mypyc_attr(native_class=False)
class _Turn:
    """A writer's turn: ``has_ended`` says so, ``end`` wakes who waits for that. A waiter may take ``end`` and be interrupted,
    so that the others look again after a while."""

    def __init__(self) -> None:
        self.has_ended = False
        self.end = threading.Lock()
        self.end.acquire()

    def wait(self, timeout_s: float) -> None:
        """Wait until it may have ended."""
        if self.end.acquire(timeout=min(timeout_s, _LOOK_S)):
            self.end.release()


class UnansweredProposals:
    """Which writer has a proposal out whose answer did not come.

    Args:
        is_settled: asks the log whether an id has been decided, or is not on its way any more.
    """

    def __init__(self, is_settled: Callable[[ProposalId], bool]) -> None:
        self._is_settled = is_settled
        self._guard = threading.Lock()
        # Who waits or has its turn holds it: each key of a commit is a writer, and there is no end of them.
        self._turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
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
        deadline, turn = time.monotonic() + timeout_s, _Turn()
        # Who is interrupted cannot know whether a lock is taken: what ends a turn is there before it has begun.
        try:
            while (ahead := self._take(proposal.writer_id, turn)) is not None:
                if (left_s := deadline - time.monotonic()) <= 0:
                    raise self._late(proposal, timeout_s)
                ahead.wait(left_s)
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
            turn.has_ended = True
            turn.end.release()

    def _take(self, writer_id: str, turn: _Turn) -> _Turn | None:
        """Let it be the writer's turn; or which one must end before."""
        with self._guard:
            ahead = self._turns.get(writer_id)
            if ahead is not None and not ahead.has_ended:
                return ahead
            self._turns[writer_id] = turn
            return None

    def _late(self, proposal: Proposal, timeout_s: float) -> CommitLogError:
        before = self._unanswered.get(proposal.writer_id, proposal)
        if before.proposal_id == proposal.proposal_id:
            return OutcomeUnknownError(UUID(bytes=before.proposal_id), waited_ms=int(timeout_s * 1000))
        return _busy(before)

    def _check(self, proposal: Proposal) -> None:
        before = self._unanswered.get(proposal.writer_id)
        if before is None or before.proposal_id == proposal.proposal_id or before.writer_seq == proposal.writer_seq:
            return
        if not self._is_settled(before.proposal_id):
            raise _busy(before)


def _busy(before: Proposal) -> WriterBusyError:
    return WriterBusyError(before.writer_id, UUID(bytes=before.proposal_id))
