"""The web page as a service: what it is made of, and who may look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.ops.service.health import log_health
from commitlog.ops.service.listening import is_local, last_port, listening, noted, running_at
from commitlog.ops.service.supervisor import PAGE
from commitlog.ui.app import create_app
from commitlog.ui.serving import LOCAL_HOSTS, served

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
            hosts=(*LOCAL_HOSTS, settings.ui_host) if is_local(settings.ui_host) else (),
        )
        is_chosen = not settings.is_default("ui_port")
        last = last_port(settings, PAGE.name)
        with (
            listening(settings.ui_host, settings.ui_port, is_chosen=is_chosen, last=last) as taken,
            served(app, taken),
            noted(settings, PAGE.name, settings.ui_host, taken) as address,
        ):
            on_address(_opened_by(settings, address))
            stop.wait()


def running_page(settings: Settings) -> str | None:
    """The address of the page that runs on this machine, with its token; None when none does."""
    address = running_at(settings, PAGE.name)
    return None if address is None else _opened_by(settings, address)


def check_reach(host: str, token: str | None) -> None:
    """See that nobody looks from elsewhere without a token.

    Raises:
        ConfigurationError: others could.
    """
    if token is not None and len(token) < 16:
        raise ConfigurationError("the page's token must have at least 16 characters")
    if token is None and not is_local(host):
        raise ConfigurationError(
            f"the page would be open to everybody who can reach {host}: set a token (--token, or "
            "COMMITLOG_UI_TOKEN), or listen at 127.0.0.1"
        )


def _opened_by(settings: Settings, address: str) -> str:
    return address + ("?" + urlencode({"token": settings.ui_token}) if settings.ui_token else "")
