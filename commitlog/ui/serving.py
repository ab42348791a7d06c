"""The page as a server: where it listens, and who may look."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from commitlog.errors import ConfigurationError

STOP_TIMEOUT_S = 2
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def check_reach(host: str, token: str | None) -> None:
    """See that nobody looks from elsewhere without a token.

    Raises:
        ConfigurationError: others could.
    """
    if token is not None and len(token) < 16:
        raise ConfigurationError("the page's token must have at least 16 characters")
    if token is None and not is_local(host):
        raise ConfigurationError(
            f"the page would be open to everybody who reaches {host}: give a token (--token, or COMMITLOG_UI_TOKEN), or "
            "listen at 127.0.0.1"
        )


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def address_of(host: str, port: int, token: str | None = None) -> str:
    """The address to open."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigurationError: the address is taken, or is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise ConfigurationError(f"the page cannot listen at {host}, port {port}: {error.strerror}") from error


class PageServer(uvicorn.Server):
    """Serves an application until it is told to stop."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
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

    def stop(self) -> None:
        """Answer no more requests; connections that stay open are cut after a moment."""
        self.should_exit = True


@contextmanager
def served(app: ASGIApp, taken: socket.socket) -> Iterator[None]:
    """An application served by a thread, at a socket that listens, as long as the block runs."""
    server = PageServer(app)
    thread = Thread(target=server.run, kwargs={"sockets": [taken]}, name="page")
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join()
