"""The service's processes: what they are, and one that runs them all and starts again what ends.

`serve` is for a machine or container that has nothing but this package: children write their logs where this process
writes its own. (`commitlog up` runs the same processes beside an embedded broker and PostgreSQL, with a log file each.)
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from commitlog.config import Settings
from commitlog.log.sequencer import EXIT_FENCED
from commitlog.ops.service.keeping import Restarts, because, keep_trying

POLL_S = 0.1
STOP_TIMEOUT_S = 5.0
DATABASE_TIMEOUT_S = 60.0

_logger = logging.getLogger("commitlog.serve")


@dataclass(frozen=True, slots=True)
class ServiceCommand:
    """A process of the service.

    Attributes:
        name: its command.
        arguments: of the command.
        arguments_after: by exit code, the arguments that it goes on with.
    """

    name: str
    arguments: tuple[str, ...] = ()
    arguments_after: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def line(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """The command line, for this interpreter."""
        start = "from commitlog.ops.cli import main; main()"
        return (sys.executable, "-c", start, self.name, *arguments)


SERVICES = (
    ServiceCommand("sequencer", arguments_after={EXIT_FENCED: ("--standby",)}),
    ServiceCommand("projector"),
    ServiceCommand("checkpointer"),
)


def prepare(settings: Settings) -> None:
    """Create the log, the marker of its data path and its catalog where they are missing, bring an older catalog up to
    this version.

    Raises:
        ConfigurationError: a topic or a first setting is wrong, or the data path is another log's.
        LogUnavailableError, CatalogUnavailableError: a server does not answer.
        CatalogMismatchError: the database holds another catalog.
    """
    from commitlog.catalog.connecting import connect, told_plainly
    from commitlog.catalog.guard import install_guard
    from commitlog.catalog.migrations import migrate
    from commitlog.catalog.projector import Projector, wait_for_database
    from commitlog.catalog.queries import Catalog
    from commitlog.client.files.lake import check_free, claim
    from commitlog.log.codec import decode_statistics
    from commitlog.log.topics import find_genesis, init_log

    if find_genesis(settings) is None:
        check_free(settings.data_path, settings.log)
    genesis = init_log(settings)
    settings = replace(settings, data_path=genesis.data_path or settings.data_path)
    claim(settings.data_path, genesis.log_id, settings.log)
    wait_for_database(settings, DATABASE_TIMEOUT_S)
    catalog = Catalog(settings.database_url)
    try:
        if not catalog.exists():
            Projector(settings, decode_statistics=decode_statistics).project_to_end()
            with told_plainly(settings.database_url), connect(settings.database_url) as connection:
                install_guard(connection)
        else:
            with told_plainly(settings.database_url), connect(settings.database_url) as connection:
                migrate(connection)
    finally:
        catalog.close()


def serve(settings: Settings, *, services: Sequence[ServiceCommand] = SERVICES) -> int:
    """Run the service until Ctrl-C or SIGTERM; the exit code."""
    with stopped_by_signal() as stop:
        keep_trying("serve", lambda: prepare(settings), stop=stop, say=_logger.warning)
        children = [_Child(service, settings) for service in services]
        try:
            while not stop.is_set():
                for child in children:
                    child.keep_running(time.monotonic())
                stop.wait(POLL_S)
        finally:
            _stop(children)
    return 0


@contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. In the main thread only."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Child:
    """One process that is started again when it ends, later each time until it has run steadily."""

    def __init__(self, service: ServiceCommand, settings: Settings) -> None:
        self._service = service
        self._environment = settings.environment()
        self._arguments = service.arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_at = 0.0
        self._restarts = Restarts()

    def keep_running(self, now: float) -> None:
        """Start it if it does not run and its delay has passed."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            self._ended(code, now)
        if now >= self._start_at:
            self._start(now)

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, timeout_s: float) -> None:
        """Wait for its end; kill it when that does not come."""
        if self._process is None:
            return
        try:
            self._process.wait(max(timeout_s, 0))
        except subprocess.TimeoutExpired:
            _logger.warning("%s does not end and is killed", self._service.name)
            self._process.kill()
            self._process.wait()

    def _start(self, now: float) -> None:
        # Ctrl-C on a terminal is for this process, which stops its children in an orderly way.
        command = self._service.line(self._arguments)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=self._environment, start_new_session=True
        )
        self._started_at = now
        _logger.info("%s started (pid %d)", self._service.name, self._process.pid)

    def _ended(self, code: int, now: float) -> None:
        self._process = None
        if code in self._service.arguments_after:
            self._arguments = self._service.arguments_after[code]
            self._start_at = now
            _logger.warning("%s ended with %d and goes on as %s", self._service.name, code, " ".join(self._arguments))
            return
        delay_s = self._restarts.delay_s(code, now - self._started_at)
        self._start_at = now + delay_s
        _logger.warning("%s; it starts again in %.1f s", because(self._service.name, code), delay_s)


def _stop(children: Sequence[_Child]) -> None:
    for child in children:
        child.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for child in children:
        child.wait(deadline - time.monotonic())
