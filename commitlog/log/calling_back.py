"""The thread by which those are called back who do not wait for their answers (`answers`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from commitlog.machine import Machine, Thread


class CallingBack:
    """A thread that sleeps until somebody is to be called back.

    Args:
        machine: whose thread it is.
        idle_s: so often it looks all the same; None is never.
    """

    def __init__(self, machine: Machine, *, idle_s: float | None = None) -> None:
        self._machine = machine
        self._idle_s = -1.0 if idle_s is None else idle_s
        # Let go when somebody is to be called back. An event has moments in which a signal leaves it taken for ever.
        self._uncalled = machine.lock()
        self._uncalled.acquire()
        self._is_ending = False
        self._thread: Thread | None = None

    def begin(self, call_back: Callable[[], None], name: str) -> None:
        """Begin the thread, which calls this each time that it wakes."""

        def run() -> None:
            while not self._is_ending:
                self._uncalled.acquire(timeout=self._idle_s)
                call_back()

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
