"""Waiting until readers see a snapshot: however many clients wait, one thread asks."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from concurrent.futures import Executor

from commitlog.client import CommitLog
from commitlog.errors import CatalogUnavailableError, SnapshotNotFoundError

_LOOK_S = 1.0


class Showing:
    """What the clients of a gateway wait for. Of one event loop.

    Args:
        log: whose catalog it is.
        threads: in which the catalog is asked.
        timeout_s: how long a client waits.
    """

    def __init__(self, log: CommitLog, threads: Executor, timeout_s: float) -> None:
        self._log = log
        self._threads = threads
        self._timeout_s = timeout_s
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._asking: asyncio.Task[None] | None = None

    async def wait(self, snapshot_id: int) -> bool:
        """Wait until readers see it; False when they do not in time."""
        shown = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (snapshot_id, next(self._order), shown))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            await asyncio.wait_for(shown, self._timeout_s)
        except TimeoutError:
            return False
        return True

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            snapshot_id, _, shown = self._waiting[0]
            if not shown.done() and not await loop.run_in_executor(self._threads, self._is_shown, snapshot_id):
                continue
            # Others may have come before it meanwhile, which are seen as well.
            while self._waiting and self._waiting[0][0] <= snapshot_id:
                _, _, seen = heapq.heappop(self._waiting)
                if not seen.done():
                    seen.set_result(None)

    def _is_shown(self, snapshot_id: int) -> bool:
        try:
            self._log.wait_for_snapshot(snapshot_id, timeout=_LOOK_S)
        except SnapshotNotFoundError:
            return False
        except CatalogUnavailableError:
            time.sleep(_LOOK_S)
            return False
        return True
