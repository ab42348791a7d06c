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

from commitlog.catalog.queries import Catalog, Shown
from commitlog.errors import CatalogUnavailableError

_LISTEN_S = 0.5
"""A notification may get lost with its connection."""

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
        self._changed = threading.Condition()
        # What an interrupted thread has left of itself here goes when it waits again.
        self._waiting: set[int] = set()
        self._leader = threading.RLock()
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
            with self._changed:
                self._waiting.add(threading.get_ident())
            while True:
                with self._changed:
                    if self.shown is not None and reached(self.shown):
                        return self.shown
                    if is_last_look:
                        return None
                    left_s = deadline - time.monotonic()
                    if not self._leader.acquire(blocking=False):
                        self._changed.wait(max(left_s, 0))
                        is_last_look = left_s <= 0
                        continue
                is_last_look = left_s <= 0
                self._lead(lambda: self._look(left_s))  # noqa: B023
        finally:
            self._let_go()
            self._leave()

    def look_anew(self) -> Shown | None:
        """Believe nothing that was seen before; the furthest of it, to which the catalog will come again."""
        # It was lost, too.
        self._catalog.close()
        with self._changed:
            self.shown = None
            return self._furthest

    def forget(self) -> None:
        """Believe nothing that was seen before: the catalog may have been made anew, of a log that ends earlier."""
        with self._changed:
            self.shown = self._furthest = None

    def close(self) -> None:
        """Let go of the connection."""
        self._catalog.close()

    def _lead(self, act: Callable[[], None]) -> None:
        try:
            act()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Let another one lead. Only the lock knows whether this thread does, and how often, where it was interrupted."""
        with self._changed:
            if not self._leader.acquire(blocking=False):
                return
            self._changed.notify_all()
            with suppress(RuntimeError):
                while True:
                    self._leader.release()

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
            if self._listening is not conn:
                # What was written before listening began is seen by the look that follows.
                conn.execute(_BEGIN_LISTENING)
                self._listening = conn
            else:
                list(conn.notifies(timeout=min(left_s, _LISTEN_S), stop_after=1))

    def _leave(self) -> None:
        with self._changed:
            self._waiting.discard(threading.get_ident())
            if self._waiting or not self._leader.acquire(blocking=False):
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
