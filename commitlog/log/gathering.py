"""How many proposals a batch waits for before it is appended.

Writers that wait for their answers propose together again once they were answered together, and an append, a fetch of
receipts and a statement of the projector then carry the commits of them all. So a batch waits a moment, until each writer
heard lately has proposed. Where few proposals come in that time nobody waits, nor does a lone writer, of whom nothing
comes before the answer.

A wait is in vain where writers do not wait for their answers, such as one process that writes under many names, or many who
come at a rate of their own: after a few of them there are short ones only for a while, and for longer each time.
"""

from __future__ import annotations

from collections.abc import Iterable

from commitlog.log.batches import Incoming

LATELY_S = 0.1
WORTH_WAITING = 1
"""So many must come in the time that a batch may wait."""
IN_VAIN_MAX = 2
"""So many waits in turn for which less than half has come are no chance any more."""
SHORT_S = 0.001
SHORT_WORTH_WAITING = 0.8
"""Likewise, of the wait that there is then: it costs little, and appends less often what comes at a rate of its own."""
SHORT_FOR_S_MAX = 1.6
"""The longest for which it is so: writers who begin to wait for their answers meanwhile are found after it."""


class Gathering:
    """Counts what comes, in spans of a tenth of a second; the last whole one tells what to expect.

    Args:
        wait_s: the longest that a batch waits.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._busy = 1
        self._per_s = 0.0
        self._in_vain = 0
        self._short_until_s = float("-inf")
        self._begin(float("-inf"))

    def came(self, messages: Iterable[Incoming], now_s: float) -> None:
        """Notes what has come."""
        self._move_on(now_s)
        for message in messages:
            self._writers.add(message.key)
            self._proposals += 1

    def expected(self, now_s: float) -> int:
        """How many proposals are worth waiting for, the first one among them."""
        self._move_on(now_s)
        worth = SHORT_WORTH_WAITING if now_s < self._short_until_s else WORTH_WAITING
        return self._busy if self._per_s * self.patience_s(now_s) >= worth else 1

    def patience_s(self, now_s: float) -> float:
        """How long they are worth it."""
        return min(SHORT_S, self._wait_s) if now_s < self._short_until_s else self._wait_s

    def waited(self, missing: int, came: int, now_s: float) -> None:
        """Notes how many of the proposals that were waited for, from that moment on, have come."""
        if now_s < self._short_until_s:
            return
        if 2 * came >= missing:
            self._in_vain = 0
            return
        self._in_vain += 1
        if self._in_vain >= IN_VAIN_MAX:
            short_for_s = LATELY_S * 2 ** (self._in_vain - IN_VAIN_MAX)
            self._short_until_s = now_s + min(short_for_s, SHORT_FOR_S_MAX)

    def _move_on(self, now_s: float) -> None:
        past_s = now_s - self._began_s
        if past_s >= LATELY_S:
            self._busy = max(len(self._writers), 1)
            self._per_s = self._proposals / past_s
            self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        self._began_s = now_s
        self._proposals = 0
        self._writers: set[bytes | None] = set()
