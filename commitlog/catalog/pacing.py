"""How soon the projector writes again.

A statement costs about as much for one commit as for a few. So while many come, what comes within some milliseconds is written
together: whoever commits does not wait for it, and whoever reads waits a little.

Who waits until each commit is seen before the next gains nothing by that: where pauses have brought no second outcome, there are
none for a while.
"""

from __future__ import annotations

TOGETHER_S = 0.012
BUSY_PER_S = 300
"""So many outcomes a second are many."""
LATELY_S = 0.1
IN_VAIN_MAX = 2
REST_S = 1.0


class Pace:
    """Looks at what is taken to be written, in spans of a tenth of a second; the last whole one tells whether many come."""

    def __init__(self) -> None:
        self._took_s = self._began_s = self._rests_until_s = float("-inf")
        self._outcomes = 0
        self._in_vain = 0
        self._is_busy = False
        self._has_paused = False

    def pause_s(self, now_s: float) -> float:
        """How long to wait before what has come is taken; 0: it is taken as soon as something is there."""
        pause_s = 0.0
        if self._is_busy and now_s >= self._rests_until_s:
            pause_s = max(self._took_s + TOGETHER_S - now_s, 0.0)
        self._has_paused = pause_s > 0
        return pause_s

    def took(self, outcomes: int, now_s: float) -> None:
        """Notes how many outcomes are written now."""
        if self._has_paused and outcomes == 1:
            self._in_vain += 1
            if self._in_vain >= IN_VAIN_MAX:
                self._in_vain, self._rests_until_s = 0, now_s + REST_S
        elif outcomes > 1:
            self._in_vain = 0
        self._took_s = now_s
        self._outcomes += outcomes
        past_s = now_s - self._began_s
        if past_s >= LATELY_S:
            self._is_busy = self._outcomes >= BUSY_PER_S * past_s
            self._outcomes, self._began_s = 0, now_s
