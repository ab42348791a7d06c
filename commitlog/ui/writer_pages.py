"""Who writes, and how the log is with what to do about it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from commitlog.errors import CommitLogError
from commitlog.ui.site import Site

WRITERS_SHOWN = 200


def writers_page(site: Site, request: Request) -> Response:
    """Every writer whose proposals were decided lately."""
    return site.page("writers.html", writers=site.contents().writers(WRITERS_SHOWN), shown_max=WRITERS_SHOWN)


def health_page(site: Site, request: Request) -> Response:
    """How the log is: as `commitlog status` sees it, and what to do."""
    health, problem = None, None
    try:
        health = None if site.health is None else site.health()
    except CommitLogError as error:
        problem = str(error)
    beats = site.pulse.beats()
    return site.page("health.html", health=health, problem=problem, beat=beats[-1] if beats else None)
