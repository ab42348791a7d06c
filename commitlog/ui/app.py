"""The page as an ASGI application: which address leads where, and what is said when something is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from commitlog.client import CommitLog
from commitlog.errors import (
    CommitLogError,
    InvalidRequestError,
    OutcomeNotFoundError,
    ResultsTrimmedError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from commitlog.ui.guarding import HEADERS, KnownHosts, StrictHeaders, Token
from commitlog.ui.live import Live
from commitlog.ui.log_pages import log_page, outcome_page, proposal_page, snapshot_page
from commitlog.ui.overview import overview_page
from commitlog.ui.pulse import Pulse
from commitlog.ui.site import Health, Site
from commitlog.ui.site_pages import sites_page
from commitlog.ui.table_pages import table_page, tables_page
from commitlog.ui.words import make_environment
from commitlog.ui.writer_pages import health_page, writers_page

PAGES = (
    ("/", "Overview"),
    ("/log", "Log"),
    ("/tables", "Tables"),
    ("/writers", "Writers"),
    ("/sites", "Sites"),
    ("/health", "Health"),
)
_NOT_THERE = (
    InvalidRequestError,
    SnapshotNotFoundError,
    TableNotFoundError,
    OutcomeNotFoundError,
    ResultsTrimmedError,
)
_TITLES = {404: "Not here", 405: "This page only reads", 400: "Not understood"}


def create_app(
    log: CommitLog,
    *,
    name: str,
    health: Callable[[], Health] | None = None,
    token: str | None = None,
    hosts: Collection[str] = (),
    pulse: Pulse | None = None,
) -> Starlette:
    """The pages of a log.

    Args:
        log: is only read.
        name: of the log.
        health: looks at the services; None where there are none.
        token: whoever looks must have it; None is anybody.
        hosts: the host names under which it is served; none is any.
        pulse: counts what happens; None makes one, which runs as long as the application does.
    """
    templates = make_environment(log_name=name, pages=PAGES)
    running = pulse or Pulse(log)
    site = Site(log, templates, running, health)
    live = Live(site)
    running.on_beat = live.tell

    @asynccontextmanager
    async def beating(app: Starlette) -> AsyncIterator[None]:
        if pulse is None:
            running.start()
        yield
        running.stop()

    async def events(request: Request) -> Response:
        if live.is_full:
            return PlainTextResponse("too many viewers are connected already", status_code=503)
        return StreamingResponse(live.events(), media_type="text/event-stream")

    pages = {
        "/": overview_page,
        "/log": log_page,
        "/outcome/{seq}": outcome_page,
        "/proposal/{proposal_id}": proposal_page,
        "/snapshot/{snapshot_id}": snapshot_page,
        "/tables": tables_page,
        "/table": table_page,
        "/writers": writers_page,
        "/sites": sites_page,
        "/health": health_page,
    }
    guards = [Middleware(StrictHeaders), Middleware(KnownHosts, hosts=hosts)]
    if token is not None:
        guards.append(Middleware(Token, token=token))
    return Starlette(
        routes=[
            *(Route(path, partial(page, site), methods=["GET"]) for path, page in pages.items()),
            Route("/live", events, methods=["GET"]),
            Mount("/static", StaticFiles(directory=str(files("commitlog.ui") / "static"))),
        ],
        middleware=guards,
        exception_handlers={
            HTTPException: partial(_refused, site),
            CommitLogError: partial(_failed, site),
            Exception: partial(_broken, site),
        },
        lifespan=beating,
    )


def _refused(site: Site, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = _TITLES.get(error.status_code, error.detail)
    detail = (
        error.detail if error.status_code == 404 and error.detail != "Not Found" else f"{request.url.path}: {title}"
    )
    answer = site.page("error.html", status=error.status_code, title=title, detail=detail)
    answer.headers.update(error.headers or {})
    return answer


def _broken(site: Site, request: Request, error: Exception) -> Response:
    """What nobody has thought of; it is answered outside of all guards, and then logged with its traceback."""
    detail = (
        "either the catalog was changed by hand, which `commitlog doctor` shows, or this is a defect of commitlog: "
        f"report the traceback in the page's log ({type(error).__name__})"
    )
    answer = site.page("error.html", status=500, title="This page has failed", detail=detail)
    answer.headers.update(HEADERS)
    return answer


def _failed(site: Site, request: Request, error: Exception) -> Response:
    """Something that is not there, or a server that does not answer: the page says so and stays."""
    if isinstance(error, _NOT_THERE):
        return site.page("error.html", status=404, title=_TITLES[404], detail=str(error))
    return site.page("error.html", status=503, title="The log does not answer", detail=str(error))
