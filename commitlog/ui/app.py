"""The page as an ASGI application: which address leads where, and what is said when something is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import Executor, ThreadPoolExecutor
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
ANSWER_S_MAX = 30.0
"""For so long a page may take: as long as somebody else may have locked a table that it reads."""
_MADE_AT_ONCE = 32
_LOOKS_AT_ONCE = 8
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

    # How the log is can be seen while all others wait for a server that is frozen.
    makers, looks = (ThreadPoolExecutor(count, "page") for count in (_MADE_AT_ONCE, _LOOKS_AT_ONCE))

    @asynccontextmanager
    async def beating(app: Starlette) -> AsyncIterator[None]:
        if pulse is None:
            running.start()
        yield
        running.stop()
        for each in (makers, looks):
            each.shutdown(wait=False, cancel_futures=True)

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
    }
    guards = [Middleware(StrictHeaders), Middleware(KnownHosts, hosts=hosts)]
    if token is not None:
        guards.append(Middleware(Token, token=token))
    return Starlette(
        routes=[
            *(Route(path, partial(_answered, site, makers, page), methods=["GET"]) for path, page in pages.items()),
            Route("/health", partial(_answered, site, looks, health_page), methods=["GET"]),
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


async def _answered(
    site: Site, makers: Executor, page: Callable[[Site, Request], Response], request: Request
) -> Response:
    """A page, made by a thread. One that takes too long is given up: a server that is frozen says nothing at all."""
    try:
        making = asyncio.get_running_loop().run_in_executor(makers, page, site, request)
        return await asyncio.wait_for(making, ANSWER_S_MAX)
    except TimeoutError:
        detail = (
            f"this page was not there after {ANSWER_S_MAX:.0f} s: PostgreSQL or Kafka is frozen or very busy, which the page "
            "Health tells, or so much is read for it that it is there later"
        )
        return site.page("error.html", status=503, title="The log does not answer", detail=detail)


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
