"""What a service tells those who look after it, by HTTP: measures for Prometheus, that it lives, and whether it is ready."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from commitlog.config import Settings
from commitlog.observing.lag import Lag
from commitlog.ops.service.listening import listening, measures_note, noted
from commitlog.ops.service.measures import Measures
from commitlog.ops.service.supervisor import LINK

PORTS = ("sequencer", "projector", "checkpointer", "page", "serve", "gateway", "relay", "carrier")
"""Each service has the port after the one before it, the first `metrics_port`; links come after them, in their order."""

SILENCE_S = 10
"""A connection on which nothing moves for so long is closed: each has a thread of the service."""

_logger = logging.getLogger("commitlog.metrics")


class Watched(Protocol):
    """A service that is looked at."""

    @property
    def service(self) -> str: ...

    @property
    def lags(self) -> Sequence[Lag]:
        """What it is behind, for each that it reads."""
        ...

    def measures(self, measures: Measures) -> Iterator[Metric]:
        """What it tells."""
        ...

    def problem(self) -> str | None:
        """Why it is not ready; None when it is."""
        ...


@contextmanager
def endpoint(settings: Settings, watched: Watched) -> Iterator[str]:
    """Tell about a service as long as the block runs; gives the address.

    Raises:
        ConfigurationError: `metrics_host` is no address of this machine.
    """
    port = _port(settings, watched.service)
    stop = threading.Event()
    # A port that is taken must not keep a service from its work.
    with (
        listening(settings.metrics_host, port, is_chosen=False) as taken,
        _served(_Told(settings.log, watched), taken),
        noted(settings, measures_note(watched.service), settings.metrics_host, taken) as address,
    ):
        _logger.info("metrics are at %smetrics", address)
        for lag in watched.lags:
            threading.Thread(target=lag.watch, args=(stop,), name="lag", daemon=True).start()
        try:
            yield address
        finally:
            stop.set()


def _port(settings: Settings, service: str) -> int:
    """Where a service tells unless that is taken; 0 is any free port."""
    names = (*PORTS, *(LINK + name for name in settings.link_sources()))
    port = settings.metrics_port + names.index(service) if service in names else 0
    return port if settings.metrics_port and port < 2**16 else 0


class _Told(Collector):
    """The answers by path."""

    def __init__(self, log: str, watched: Watched) -> None:
        self._measures = Measures(log)
        self._watched = watched
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        is_ready = self._watched.problem() is None
        yield from self._measures.of_service(self._watched.service, is_ready=is_ready)
        yield from self._watched.measures(self._measures)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and text."""
        if path == "/metrics":
            return 200, generate_latest(self._registry)
        if path == "/livez":
            return 200, b"ok\n"
        if path == "/readyz":
            problem = self._watched.problem()
            return (200, b"ok\n") if problem is None else (503, f"{problem}\n".encode())
        return 404, b"here are /metrics, /livez and /readyz\n"


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Who asks may go away before the answer; all else is a defect, for the log."""
        if not isinstance(sys.exception(), ConnectionError):
            _logger.exception("a request could not be answered")


@contextmanager
def _served(told: _Told, taken: socket.socket) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE_S

        def do_HEAD(self) -> None:
            self._begin()

        def do_GET(self) -> None:
            self.wfile.write(self._begin())

        def _begin(self) -> bytes:
            status, text = told.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            return text

        def log_message(self, *_: Any) -> None:
            pass

    server = _Server(taken.getsockname()[:2], Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = taken
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
