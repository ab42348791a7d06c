"""The way of a link's proposals to a log in memory: decided late, in another order, or never."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from commitlog.client.access.log_access import PendingAnswer
from commitlog.domain import model as m
from commitlog.errors import OutcomeUnknownError
from commitlog.testing import InMemoryCommitLog


class OnItsWay:
    """A proposal that is sent, and not decided yet."""

    def __init__(self, wire: Wire, proposal: m.Proposal, encoded: bytes) -> None:
        self._wire = wire
        self.proposal = proposal
        self.encoded = encoded
        self.answer: PendingAnswer | None = None
        self.is_lost = False

    def wait(self, timeout_s: float | None = None) -> m.Receipt:
        while self.answer is None and not self.is_lost:
            self._wire.arrive()
        if self.answer is None:
            raise OutcomeUnknownError(UUID(bytes=self.proposal.proposal_id))
        return self.answer.wait(timeout_s)

    def on_answer(self, tell: Callable[[Any], None], timeout_s: float | None = None) -> None:
        raise AssertionError("links wait for their answers")

    def forget(self) -> None:
        pass


class Wire:
    """Between links and a log; others send to it directly.

    Args:
        log: whose proposals go this way from now on.
        chance: says what becomes of them.
    """

    def __init__(self, log: InMemoryCommitLog, chance: random.Random) -> None:
        self._chance = chance
        self._send = log._memory.send
        self._on_their_way: list[OnItsWay] = []
        self.swapped = self.lost = self.late = self.together_max = 0
        self.is_calm = False
        log._memory.send = self.send  # type: ignore[assignment,method-assign]

    def send(self, proposal: m.Proposal, encoded: bytes, **more: Any) -> PendingAnswer:
        if proposal.replicated is None:
            return self._send(proposal, encoded)
        sent = OnItsWay(self, proposal, encoded)
        self._on_their_way.append(sent)
        self.together_max = max(self.together_max, len(self._on_their_way))
        return sent

    def arrive(self) -> None:
        """The next proposal comes to the log, or one that overtook it; or it never comes."""
        waiting = self._on_their_way
        overtakes = len(waiting) > 1 and not self.is_calm and self._chance.random() < 0.3
        came = waiting.pop(1 if overtakes else 0)
        self.swapped += overtakes
        if not self.is_calm and self._chance.random() < 0.15:
            self.lost += 1
            came.is_lost = True
        else:
            came.answer = self._send(came.proposal, came.encoded)

    def arrive_late(self) -> None:
        """Some of what a link that is no more had sent comes to the log."""
        for _ in range(self._chance.randrange(len(self._on_their_way) + 1)):
            self.late += 1
            self.arrive()
