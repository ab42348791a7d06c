"""A gateway's sessions and commits, counted and timed as clients are answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from commitlog.observing.durations import Durations

if TYPE_CHECKING:
    from commitlog.gateway.committing import Answer
    from commitlog.gateway.session import Committing


class Answered(StrEnum):
    """What a client was told of its commit."""

    COMMITTED = "COMMITTED"
    REFUSED = "REFUSED"
    """By the log, or because it is not understood: nothing was committed."""
    UNKNOWN = "UNKNOWN"
    """Nobody has heard in time what became of it, or the client has left before."""


@dataclass(slots=True)
class GatewayProgress:
    """What a gateway has done since its process began.

    Attributes:
        answers: commits by what their clients were told.
        durations: from a client's commit to its answer.
        sessions: how many there are now.
    """

    answers: dict[Answered, int] = field(default_factory=lambda: dict.fromkeys(Answered, 0))
    durations: Durations = field(default_factory=Durations)
    sessions: Callable[[], int] = lambda: 0


class CountedCommits:
    """Takes commits as another one does, and counts them.

    Args:
        commits: the other one.
        progress: is added to.
    """

    def __init__(self, commits: Committing, progress: GatewayProgress) -> None:
        self._commits = commits
        self._progress = progress

    async def commit(self, text: str, user: str) -> Answer:
        """See `Commits.commit`."""
        began_s, answered = time.monotonic(), Answered.UNKNOWN
        try:
            answer = await self._commits.commit(text, user)
            answered = Answered.COMMITTED if answer.refusal is None else Answered.REFUSED
            return answer
        finally:
            self._progress.answers[answered] += 1
            self._progress.durations.add(time.monotonic() - began_s)
