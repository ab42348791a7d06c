"""The thread by which those are called back who do not wait for their answers (`answers`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from commitlog.machine import Machine, Thread

IDLE_S = 0.2
"""So often it looks all the same: for those whose time is over while somebody else reads, and for what comes for nobody."""

_logger = logging.getLogger("commitlog.publisher")


class CallingBack:
    """A thread that sleeps until somebody is to be called back.

    Args:
        machine: whose thread it is.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        # Let go when somebody is to be called back. An event has moments in which a signal leaves it taken for ever.
        self._uncalled = machine.lock()
        self._uncalled.acquire()
        self._is_ending = False
        self._thread: Thread | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a thread."""
        return self._thread is not None

    def begin(self, call_back: Callable[[], None], name: str) -> None:
        """Begin the thread, which calls this each time that it wakes, and once more as it ends."""

        def run() -> None:
            is_last = False
            while not is_last:
                self._uncalled.acquire(timeout=IDLE_S)
                is_last = self._is_ending
                try:
                    call_back()
                except Exception:
                    _logger.exception("whoever is to be called back may be later than they would be")

        self._thread = self._machine.thread(run, name)

    def wake(self) -> None:
        """Somebody is to be called back."""
        with suppress(RuntimeError):
            # Unless it was let go already.
            self._uncalled.release()

    def end(self) -> None:
        """Return once whoever is to be called back was, and the thread has ended."""
        self._is_ending = True
        self.wake()
        if self._thread is not None:
            self._thread.join()
