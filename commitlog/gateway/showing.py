"""Waiting until readers see a snapshot: however many clients wait, one thread asks.

It goes on listening for a while when nobody waits: where clients commit one after another, to begin and to end listening for
each commit would cost the gateway and PostgreSQL more than the news itself.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import AbstractEventLoop
from concurrent.futures import Executor

from commitlog.catalog.queries import Shown
from commitlog.catalog.watching import CatalogWatch
from commitlog.errors import CommitLogError

_LINGER_S = 1.0
_LISTEN_S = 30.0
_PAUSE_S = 0.5
_NOTHING = -1


class Showing:
    """What the clients of a gateway wait for. Of one event loop.

    Args:
        watch: of the catalog; nobody else uses it.
        threads: in which the catalog is asked.
        timeout_s: how long a client waits.
    """

    def __init__(self, watch: CatalogWatch, threads: Executor, timeout_s: float) -> None:
        self._watch = watch
        self._threads = threads
        self._timeout_s = timeout_s
        self._seen = _NOTHING
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._listening: asyncio.Future[None] | None = None
        self._until_s = 0.0
        self._is_closed = False

    async def wait(self, snapshot_id: int) -> bool:
        """Wait until readers see it; False when they do not in time."""
        if snapshot_id <= self._seen:
            return True
        shown = asyncio.get_running_loop().create_future()
        self._waiting[shown] = snapshot_id
        self._listen()
        try:
            await asyncio.wait_for(shown, self._timeout_s)
        except TimeoutError:
            return False
        finally:
            self._until_s = time.monotonic() + _LINGER_S
            del self._waiting[shown]
        return True

    async def close(self) -> None:
        """Stop listening."""
        self._is_closed = True
        if self._listening is not None:
            await self._listening

    def _listen(self, _: object = None) -> None:
        """Begin to listen, where somebody waits and nobody listens."""
        if not self._waiting or (self._listening is not None and not self._listening.done()):
            return
        # What was seen long ago may be gone: PostgreSQL may have been killed.
        self._seen = _NOTHING
        loop = asyncio.get_running_loop()
        self._listening = loop.run_in_executor(self._threads, self._tell, loop)
        self._listening.add_done_callback(self._listen)

    def _see(self, snapshot_id: int) -> None:
        self._seen = snapshot_id
        for shown, awaited in self._waiting.items():
            if awaited <= snapshot_id and not shown.done():
                shown.set_result(None)

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _tell(self, loop: AbstractEventLoop) -> None:
        """Tell of each new snapshot, until nobody has waited for a while."""
        told = _NOTHING

        def is_enough(shown: Shown) -> bool:
            nonlocal told
            if shown.snapshot_id != told:
                told = shown.snapshot_id
                loop.call_soon_threadsafe(self._see, told)
            return self._is_enough

        while not self._is_enough:
            try:
                self._watch.wait_until(is_enough, _LISTEN_S)
            except CommitLogError:
                loop.call_soon_threadsafe(self._see, _NOTHING)
                time.sleep(_PAUSE_S)

    @property
    def _is_enough(self) -> bool:
        return self._is_closed or (not self._waiting and time.monotonic() > self._until_s)
