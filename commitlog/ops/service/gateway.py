"""The gateway as a service: by which settings it listens, what it is made of, and when it ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from commitlog.catalog.connecting import catalog_url
from commitlog.catalog.queries import Catalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, LocalRuntimeError
from commitlog.gateway.base import Bases
from commitlog.gateway.committing import Commits
from commitlog.gateway.keeping import Keeping
from commitlog.gateway.server import THREADS, Gateway, Upstream
from commitlog.gateway.showing import Showing
from commitlog.ops.service.counted import CountedCommits, GatewayProgress
from commitlog.ops.service.listening import last_port, listening, noted, running_place
from commitlog.ops.service.notes import folder_of
from commitlog.ops.service.supervisor import GATEWAY, POLL_S

START_TIMEOUT_S = 60.0
_OF_POSTGRES = ("channel_binding=", "host=", "hostaddr=", "port=", "sslnegotiation=")

_logger = logging.getLogger("commitlog.gateway")


def run_gateway(
    settings: Settings,
    *,
    stop: threading.Event,
    on_address: Callable[[str], None],
    progress: GatewayProgress | None = None,
) -> None:
    """Take DuckDB's clients until it is told to stop.

    Args:
        settings: which log, where, and where it listens.
        stop: tells it.
        on_address: is told where, as host:port, once it listens.
        progress: is added to.

    Raises:
        ConfigurationError: it cannot listen there, or its certificate cannot be read.
        LogUnavailableError: the broker does not answer.
        CatalogUnavailableError: there is no catalog yet.
    """
    progress = GatewayProgress() if progress is None else progress
    url = catalog_url(settings)
    certificate = settings.gateway_tls_cert
    tls = None if certificate is None else _Certificate(certificate, settings.gateway_tls_key).shown
    is_chosen = not settings.is_default("gateway_port")
    last = last_port(settings, GATEWAY.name)
    keeping = Keeping(folder_of(settings) / f"kept-by-{GATEWAY.name}")
    # Whoever asks for the catalog waits, which must not keep others from committing.
    with (
        closing(keeping),
        CommitLog.connect(settings=settings) as log,
        closing(Bases(url)) as bases,
        closing(CatalogWatch(Catalog(url))) as watch,
        ThreadPoolExecutor(THREADS, "gateway") as threads,
        ThreadPoolExecutor(1, "showing") as asking,
        listening(settings.gateway_host, settings.gateway_port, is_chosen=is_chosen, last=last) as taken,
        noted(settings, GATEWAY.name, settings.gateway_host, taken) as address,
    ):
        log.wait_for_snapshot()  # a client would take a database without a catalog for a lake to be made
        showing = Showing(watch, asking, settings.catalog_timeout_ms / 1000)
        commits = CountedCommits(Commits(log, bases, threads, showing, keeping), progress)
        gateway = Gateway(Upstream.of(url), commits, tls)
        progress.sessions = lambda: gateway.sessions
        on_address(urlsplit(address).netloc)

        async def serve() -> None:
            keeping.watch_left()
            try:
                await gateway.serve(taken, stop)
            finally:
                await showing.close()

        asyncio.run(serve())


def through_gateway(settings: Settings, address: str) -> str:
    """The URL by which clients of DuckDB reach the catalog through a gateway, for the login that writers have.

    What the login's URL says of a place and of TLS is about PostgreSQL, so a gateway that speaks in the clear is not asked for
    it.

    address: the gateway's, host:port.
    """
    parts = urlsplit(settings.writer_url or settings.reader_url or catalog_url(settings))
    account, has_account, _ = parts.netloc.rpartition("@")
    options = [option for option in parts.query.split("&") if not option.startswith(_OF_POSTGRES)]
    if settings.gateway_tls_cert is None:
        options = [option for option in options if not option.startswith("ssl")]
    else:
        options.append("channel_binding=disable")
    query = "&".join(filter(None, options))
    return parts._replace(netloc=f"{account}{has_account}{address}", query=query).geturl()


def running_gateway(settings: Settings) -> str | None:
    """The address of the gateway that runs on this machine, as host:port; None when none does."""
    return running_place(settings, GATEWAY.name)


def awaited_gateway(settings: Settings, log_file: Path) -> str:
    """The same of one that has just been started, as soon as it listens; LocalRuntimeError with the end of its log if it does
    not."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (address := running_gateway(settings)) is None:
        if time.monotonic() > deadline:
            raise LocalRuntimeError("the gateway does not listen:", log_file=log_file)
        time.sleep(POLL_S)
    return address


class _Certificate:
    """The certificate that clients are shown: a renewed one is read where the old one was.

    Raises:
        ConfigurationError: at first, that it cannot be read; later the one that was read stays.
    """

    def __init__(self, certificate: Path, key: Path | None) -> None:
        self._certificate, self._key = certificate, key
        self._seen = self._look()
        self._shown = self._read()

    def shown(self) -> ssl.SSLContext:
        """What clients are shown now."""
        if (seen := self._look()) != self._seen:
            self._seen = seen
            try:
                self._shown = self._read()
            except ConfigurationError as error:
                _logger.warning("%s; the previous certificate stays in use", error)
            else:
                _logger.info("the certificate was renewed")
        return self._shown

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(file) for file in (self._certificate, self._key) if file is not None]

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"the gateway's certificate {self._certificate} cannot be used: {error}"
            ) from error
        return context


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """What is another one once a file was written, replaced, or may be read by others; None where it cannot be looked at."""
    try:
        told = file.stat()
    except OSError:
        return None
    return told.st_ctime_ns, told.st_size, told.st_ino
