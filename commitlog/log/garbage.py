"""When the garbage of a sequencer's process is collected.

The state is large, long-lived and hardly changes: to walk it again and again costs a third of the speed. In a process of
its own a sequencer says when; in somebody else's process the collector is theirs.
"""

from __future__ import annotations

import gc
import time

COLLECT_INTERVAL_S = 0.3


class Garbage:
    """In a process that others use too: left to its collector."""

    def begin(self) -> None:
        """The sequencer begins."""

    def has_loaded(self) -> None:
        """A state was loaded, and is about to serve."""

    def has_thrown_away(self) -> None:
        """The state that served was thrown away, and another one will be loaded."""

    def is_due(self) -> None:
        """A moment in which a short collection is welcome, if the last one was a while ago."""


class OwnGarbage(Garbage):
    """In a process in which nothing but one sequencer runs."""

    def __init__(self) -> None:
        self._collected_s = 0.0

    def begin(self) -> None:
        """From now on nothing is collected but by this one."""
        gc.disable()

    def has_loaded(self) -> None:
        """Keeps the first collection from walking all that was loaded, while writers wait."""
        gc.freeze()

    def has_thrown_away(self) -> None:
        """Frees it: it is full of cycles, and was frozen."""
        gc.unfreeze()
        gc.collect()

    def is_due(self) -> None:
        """Collects what is young, `COLLECT_INTERVAL_S` after the last time."""
        now_s = time.monotonic()
        if now_s - self._collected_s > COLLECT_INTERVAL_S:
            self._collected_s = now_s
            gc.collect(1)
