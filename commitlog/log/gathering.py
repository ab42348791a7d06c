"""How many proposals a batch waits for before it is appended.

Writers that wait for their answers propose together again once they were answered together, and an append, a fetch of
receipts and a statement of the projector then carry the commits of them all. So a batch waits a moment, until each writer
heard lately has proposed. Where few proposals come in that time nobody waits, nor does a lone writer, of whom nothing
comes before the answer. What a carrier brings has gathered there, and is neither waited for nor counted.

A wait is in vain where nobody else writes meanwhile, such as beside one process that writes under many names, each after the
answer to the one before: after two of them nobody waits for a while, and for longer each time.
"""

from __future__ import annotations

from collections.abc import Iterable

from commitlog.log.batches import Incoming

LATELY_S = 0.1
WORTH_WAITING = 1
"""So many must come in the time that a batch may wait."""
IN_VAIN_MAX = 2
"""So many waits in turn for which nothing has come are no chance any more."""
REST_S_MAX = 1.6
"""The longest for which nobody waits then: writers who begin to wait for their answers meanwhile are found after it."""


def by_no_carrier(messages: Iterable[Incoming]) -> list[Incoming]:
    """Those that have not waited for others already, where a carrier was."""
    return [message for message in messages if message.reply_to is None]


class Gathering:
    """Counts what comes by no carrier, in spans of a tenth of a second; the last whole one tells what to expect.

    Args:
        wait_s: the longest that a batch waits.
    """

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._expected = 1
        self._in_vain = 0
        self._rest_s = LATELY_S
        self._rests_until_s = float("-inf")
        self._begin(float("-inf"))

    def came(self, messages: Iterable[Incoming], now_s: float) -> None:
        """Notes what has come."""
        self._move_on(now_s)
        for message in by_no_carrier(messages):
            self._writers.add(message.key)
            self._proposals += 1

    def expected(self, now_s: float) -> int:
        """How many proposals are worth waiting for, the first one among them."""
        self._move_on(now_s)
        return 1 if now_s < self._rests_until_s else self._expected

    def waited(self, came: int, now_s: float) -> None:
        """Notes how many proposals a wait has brought, by no carrier, that began at that moment."""
        if came:
            self._in_vain, self._rest_s = 0, LATELY_S
            return
        self._in_vain += 1
        if self._in_vain >= IN_VAIN_MAX:
            self._rests_until_s = now_s + self._rest_s
            self._rest_s = min(2 * self._rest_s, REST_S_MAX)

    def _move_on(self, now_s: float) -> None:
        past_s = now_s - self._began_s
        if past_s >= LATELY_S:
            in_time = self._proposals / past_s * self.wait_s
            self._expected = len(self._writers) if in_time >= WORTH_WAITING else 1
            self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        self._began_s = now_s
        self._proposals = 0
        self._writers: set[bytes | None] = set()
