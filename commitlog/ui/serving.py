"""The page as a server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

STOP_TIMEOUT_S = 2
"""After which connections that stay open are cut."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@contextmanager
def served(app: ASGIApp, taken: socket.socket) -> Iterator[None]:
    """An application served by a thread, at a socket that listens, as long as the block runs."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http="h11",
            loop="asyncio",
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
    )
    thread = Thread(target=server.run, kwargs={"sockets": [taken]}, name="page")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
