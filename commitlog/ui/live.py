"""Server-sent events: each beat is drawn once and sent to all who look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from commitlog.errors import CommitLogError
from commitlog.ui.overview import newest_rows, overview_part
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
        self._listeners: dict[_Listener, int] = {}
        """Each with the newest outcome that it was sent."""

    def tell(self, beat: Beat) -> None:
        """Draw a beat for all who look."""
        listeners = tuple(self._listeners)
        if not listeners:
            return
        overview = event("overview", overview_part(self._site))
        # What readers see by now, not what was decided in this second: they may be behind, or away, as the overview tells.
        try:
            seq, rows = newest_rows(self._site)
        except CommitLogError:
            seq, rows = 0, ""
        outcomes = event("outcome", rows)
        for listener in listeners:
            listener[0].call_soon_threadsafe(self._offer, listener, overview, seq, outcomes)

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
        self._listeners[listener] = 0
        try:
            yield listener[1]
        finally:
            del self._listeners[listener]

    def _offer(self, listener: _Listener, overview: str, seq: int, rows: str) -> None:
        told = self._listeners.get(listener)
        # Who does not keep up misses beats, and sees the newest again when there is room.
        if told is None or listener[1].full():
            return
        listener[1].put_nowait(overview + (rows if seq > told else ""))
        self._listeners[listener] = seq


def event(name: str, data: str) -> str:
    """An event of several lines as it is sent."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"event: {name}\n{lines}\n"
