"""Waiting for the catalog: however many threads wait, one of them asks.

The projector notifies whoever listens of what it has written. Whoever finds the catalog behind what it needs listens for all
who wait in this process; what it sees is seen by all. Nobody listens longer than somebody waits: PostgreSQL keeps what a
listener does not take, and when it can keep no more, the projector could not go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import LiteralString

from commitlog.catalog.connecting import is_pooled, is_replica
from commitlog.catalog.queries import Catalog, Shown
from commitlog.errors import CatalogUnavailableError

_LISTEN_S = 0.5
"""A notification may get lost with its connection."""
_UNTOLD_S = 0.05
"""So long a reader waits between two looks where it cannot listen."""

# The lock is what the projector sees of those who wait: no more than whether there are any.
_BEGIN_LISTENING: LiteralString = (
    "LISTEN commitlog_applied; SELECT pg_advisory_lock_shared(hashtextextended('commitlog.awaited', 0))"
)
_STOP_LISTENING: LiteralString = (
    "UNLISTEN commitlog_applied; SELECT pg_advisory_unlock_shared(hashtextextended('commitlog.awaited', 0))"
)


class CatalogWatch:
    """What one process knows of how far the catalog is. Thread-safe.

    Args:
        catalog: with a connection that nobody else uses: listening holds it.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # A Condition has moments in which a signal leaves it taken for ever.
        self._guard = threading.Lock()
        self._gates: list[threading.Lock] = []
        # What an interrupted thread has left of itself here goes when it waits again.
        self._waiting: set[int] = set()
        self._leader: int | None = None
        self._has_looked = False
        self._listening: object = None
        self.shown: Shown | None = None
        """What was seen last; the catalog is there, or further, unless its PostgreSQL was killed: see `look_anew`."""
        self._furthest: Shown | None = None

    def wait_until(self, reached: Callable[[Shown], bool], timeout_s: float) -> Shown | None:
        """Wait until what readers see is far enough; None when it was not in time.

        Raises:
            CatalogUnavailableError: PostgreSQL does not answer.
        """
        deadline = time.monotonic() + timeout_s
        is_last_look = False
        try:
            with self._guard:
                self._waiting.add(threading.get_ident())
            while True:
                with self._guard:
                    if self.shown is not None and reached(self.shown):
                        return self.shown
                    if is_last_look:
                        return None
                    left_s = deadline - time.monotonic()
                    gate = None if self._leads() else self._new_gate()
                is_last_look = left_s <= 0
                if gate is None:
                    self._lead(lambda: self._look(left_s))  # noqa: B023
                else:
                    gate.acquire(timeout=min(max(left_s, 0), threading.TIMEOUT_MAX))
        finally:
            try:
                self._let_go()
                self._leave()
            finally:
                # A signal may have ended that.
                self._let_go()

    def look_anew(self) -> Shown | None:
        """Believe nothing that was seen before; the furthest of it, to which the catalog will come again."""
        # It was lost, too.
        self._catalog.close()
        with self._guard:
            self.shown = None
            return self._furthest

    def forget(self) -> None:
        """Believe nothing that was seen before: the catalog may have been made anew, of a log that ends earlier."""
        with self._guard:
            self.shown = self._furthest = None

    def close(self) -> None:
        """Let go of the connection."""
        self._catalog.close()

    def _lead(self, act: Callable[[], None]) -> None:
        try:
            act()
        finally:
            self._let_go()

    def _leads(self) -> bool:
        """Whether nobody else does, and so this thread; under the guard."""
        if self._leader is None:
            self._leader = threading.get_ident()
        return self._leader == threading.get_ident()

    def _let_go(self) -> None:
        """Let another one lead, where this thread does."""
        with self._guard:
            if self._leader == threading.get_ident():
                self._open_gates()
                self._leader = None

    def _new_gate(self) -> threading.Lock:
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        return gate

    def _open_gates(self) -> None:
        for gate in self._gates:
            # Unless one whom a signal has ended here has opened it.
            if gate.locked():
                gate.release()
        self._gates.clear()

    def _look(self, left_s: float) -> None:
        """See how far the catalog is; at first at once, then when there is something new to see."""
        if self._has_looked and left_s > 0:
            self._listen(left_s)
        shown = self._catalog.shown()
        self._has_looked = True
        if shown is not None:
            self.shown = shown
            self._furthest = max(shown, self._furthest or shown)

    def _listen(self, left_s: float) -> None:
        with self._catalog.connected() as conn:
            if is_pooled(conn) or is_replica(conn):
                # What is told to a session that was lent is told to nobody, and a replica lets nobody listen.
                time.sleep(min(left_s, _UNTOLD_S))
            elif self._listening is not conn:
                # What was written before listening began is seen by the look that follows.
                conn.execute(_BEGIN_LISTENING)
                self._listening = conn
            else:
                list(conn.notifies(timeout=min(left_s, _LISTEN_S), stop_after=1))

    def _leave(self) -> None:
        with self._guard:
            self._waiting.discard(threading.get_ident())
            if self._waiting or not self._leads():
                return
            self._has_looked = False
        if self._listening is None:
            self._let_go()
            return
        self._lead(self._stop_listening)

    def _stop_listening(self) -> None:
        self._listening = None
        # Where nobody answers, nobody listens.
        with suppress(CatalogUnavailableError), self._catalog.connected() as conn:
            conn.execute(_STOP_LISTENING)
