"""Server-sent events: each beat is drawn once and sent to all who look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from commitlog.ui.overview import new_rows, overview_part
from commitlog.ui.pulse import Beat
from commitlog.ui.site import Site

QUIET_S = 15.0
QUEUED_MAX = 4
LISTENERS_MAX = 200

_Listener = tuple[asyncio.AbstractEventLoop, "asyncio.Queue[str]"]


class Live:
    """Who looks, and what they are sent. `tell` is called by the pulse's thread, the rest by the server's loop."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners: set[_Listener] = set()

    def tell(self, beat: Beat) -> None:
        """Draw a beat for all who look."""
        listeners = tuple(self._listeners)
        if not listeners:
            return
        text = event("overview", overview_part(self._site))
        if beat.rows:
            text += event("outcome", new_rows(self._site, beat))
        for loop, queue in listeners:
            loop.call_soon_threadsafe(_offer, queue, text)

    @property
    def is_full(self) -> bool:
        """Whether so many look that no more are taken."""
        return len(self._listeners) >= LISTENERS_MAX

    async def events(self, *, quiet_s: float = QUIET_S) -> AsyncIterator[str]:
        """What one who looks is sent, for ever: events, and a comment now and then that keeps the connection."""
        with self._listening() as queue:
            yield "retry: 2000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), quiet_s)
                except TimeoutError:
                    yield ": nothing new\n\n"

    @contextmanager
    def _listening(self) -> Iterator[asyncio.Queue[str]]:
        listener = (asyncio.get_running_loop(), asyncio.Queue[str](QUEUED_MAX))
        self._listeners.add(listener)
        try:
            yield listener[1]
        finally:
            self._listeners.discard(listener)


def event(name: str, data: str) -> str:
    """An event of several lines as it is sent."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"event: {name}\n{lines}\n"


def _offer(queue: asyncio.Queue[str], text: str) -> None:
    # Who does not keep up misses beats, and sees the newest again when there is room.
    if not queue.full():
        queue.put_nowait(text)
