"""Answers that come to a future, whether anybody waits for it or not."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

from commitlog.client.access.log_access import LogAccess, PendingAnswer
from commitlog.client.access.unanswered import UnansweredProposals
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.domain.model import Proposal, Receipt

Answered = Callable[[Proposal, Receipt], SubmittedOutcome]


def submitted_future(
    access: LogAccess,
    unanswered: UnansweredProposals,
    answered: Answered,
    proposal: Proposal,
    encoded: bytes,
    timeout_s: float,
) -> Future[SubmittedOutcome]:
    """Send a proposal once it is its writer's turn, and give what becomes of it; see ``CommitLog.submit_async``.

    Args:
        access: where it is sent.
        unanswered: whose turn it is.
        answered: what a receipt tells the writer.
        proposal: what is sent.
        encoded: the same as bytes.
        timeout_s: for its turn, for room and for the answer together.
    """
    future: Future[SubmittedOutcome] = Future()
    # What was sent cannot be taken back.
    future.set_running_or_notify_cancel()
    deadline = time.monotonic() + timeout_s
    with ExitStack() as sending:
        sending.enter_context(unanswered.turn(proposal, timeout_s=timeout_s))
        pending = access.send(proposal, encoded, timeout_s=max(0.0, deadline - time.monotonic()))
        turn = sending.pop_all()

    def end(_: PendingAnswer) -> None:
        try:
            with turn:
                receipt = pending.wait(0)
            outcome = answered(proposal, receipt)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(outcome)

    pending.on_answer(end, max(0.0, deadline - time.monotonic()))
    return future
