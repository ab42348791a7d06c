"""How soon the projector writes again.

A statement costs about as much for one commit as for a few. So while many come, what comes within some milliseconds is written
together: who commits does not wait for it, and who reads what is there does not notice. Where somebody waits until it is
there, everything is written at once.
"""

from __future__ import annotations

TOGETHER_S = 0.015
BUSY_PER_S = 2 / TOGETHER_S
"""So many outcomes a second are many: two of them, at least, are written together."""
LATELY_S = 0.1
AWAITED_S = 1.0
"""For so long after somebody has waited they may do so again."""


class Pace:
    """Looks at what is written, in spans of a tenth of a second; the last whole one tells whether many come."""

    def __init__(self) -> None:
        self._took_s = self._began_s = self._awaited_s = float("-inf")
        self._outcomes = 0
        self._is_busy = False

    def pause_s(self, now_s: float) -> float:
        """How long to wait before what has come is taken; 0: it is taken as soon as something is there."""
        if not self._is_busy or now_s - self._awaited_s < AWAITED_S:
            return 0.0
        return max(self._took_s + TOGETHER_S - now_s, 0.0)

    def wrote(self, outcomes: int, took_s: float, *, is_awaited: bool) -> None:
        """Notes what was written.

        Args:
            outcomes: how many.
            took_s: when they were taken.
            is_awaited: whether somebody waited for them.
        """
        self._took_s = took_s
        if is_awaited:
            self._awaited_s = took_s
        self._outcomes += outcomes
        past_s = took_s - self._began_s
        if past_s >= LATELY_S:
            self._is_busy = self._outcomes >= BUSY_PER_S * past_s
            self._outcomes, self._began_s = 0, took_s
