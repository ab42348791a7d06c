"""The page as a server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

STOP_TIMEOUT_S = 2
"""After which connections that stay open are cut."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
SILENCE_S = 10.0
"""A connection by which nothing is asked for so long is closed, twice as long at most: whoever opens many has all there are."""

_POLL_S = 0.01


class _Asked(H11Protocol):
    """A connection that is there to ask something."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look after it."""
        super().connection_made(transport)
        self._look_again(None)

    def _look_again(self, last: RequestResponseCycle | None) -> None:
        self.loop.call_later(SILENCE_S, self._look, last)

    def _look(self, last: RequestResponseCycle | None) -> None:
        """Close it unless it is being answered, or has asked something since."""
        if self.transport.is_closing():
            return
        if self.cycle is last and (last is None or last.response_complete):
            self.transport.close()
        else:
            self._look_again(self.cycle)


@contextmanager
def served(app: ASGIApp, taken: socket.socket) -> Iterator[None]:
    """An application served by a thread, at a socket that listens, as long as the block runs.

    Raises:
        RuntimeError: it cannot begin; the log says why.
    """
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=_Asked,
            loop="asyncio",
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
    )

    def run() -> None:
        # It ends the process, as it takes its thread for that, where it cannot begin.
        with suppress(SystemExit):
            server.run(sockets=[taken])

    thread = Thread(target=run, name="page")
    thread.start()
    try:
        while thread.is_alive() and not server.started:
            thread.join(_POLL_S)
        if not server.started:
            raise RuntimeError("the page cannot begin; what was raised is in the log")
        yield
    finally:
        server.should_exit = True
        thread.join()
