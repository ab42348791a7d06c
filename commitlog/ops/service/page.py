"""The web page as a service: where it listens, and how others on this machine find it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.local.processes import is_listening
from commitlog.ops.service.health import log_health
from commitlog.ui.app import create_app
from commitlog.ui.serving import LOCAL_HOSTS, address_of, check_reach, is_local, listening, served

CATALOG_TIMEOUT_MS = 3_000
"""How long a page waits for a catalog that is not there: a person is looking."""


def run_page(settings: Settings, *, stop: threading.Event, on_address: Callable[[str], None]) -> None:
    """Serve the page until it is told to stop; `on_address` is told where, once it can be opened.

    Raises:
        ConfigurationError: it would be open to others without a token, or cannot listen there.
        LogUnavailableError: the broker does not answer.
    """
    check_reach(settings.ui_host, settings.ui_token)
    patient = min(settings.catalog_timeout_ms, CATALOG_TIMEOUT_MS)
    with CommitLog.connect(settings=replace(settings, catalog_timeout_ms=patient)) as log:
        app = create_app(
            log,
            name=settings.log,
            health=partial(log_health, settings),
            token=settings.ui_token,
            hosts=LOCAL_HOSTS if is_local(settings.ui_host) else (),
        )
        with _listening(settings) as taken, served(app, taken), _noted(settings, taken):
            on_address(_address(settings, taken.getsockname()[1]))
            stop.wait()


def running_page(settings: Settings) -> str | None:
    """The address of the page that runs on this machine; None when none does."""
    try:
        port = json.loads(_note_of(settings).read_text(encoding="utf-8"))["port"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return _address(settings, port) if isinstance(port, int) and is_listening(port) else None


def _address(settings: Settings, port: int) -> str:
    return address_of(settings.ui_host, port, settings.ui_token)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """Where it is to listen, or at a free port when nobody has chosen one."""
    try:
        taken = listening(settings.ui_host, settings.ui_port)
    except ConfigurationError:
        if not settings.sources["ui_port"].startswith("default"):
            raise
        taken = listening(settings.ui_host, 0)
    with taken:
        yield taken


@contextmanager
def _noted(settings: Settings, taken: socket.socket) -> Iterator[None]:
    """While it runs, its port is told in the home."""
    path = _note_of(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"port": taken.getsockname()[1], "pid": os.getpid()}), encoding="utf-8")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _note_of(settings: Settings) -> Path:
    return settings.home / "services" / settings.log / "page.port"
