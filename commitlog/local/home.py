"""A home: one directory with a broker, a PostgreSQL and this machine's state, that one process at a time runs.

`run.json` in it tells every other program where the two servers are. It may be stale after a crash; whether a home is
running is told by its lock alone.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import psutil

from commitlog.config import PORTS_FILE, RUN_FILE, Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local.broker import EmbeddedBroker, is_broker_of, stop_orphaned_broker
from commitlog.local.jars import Progress
from commitlog.local.passwords import write_private
from commitlog.local.postgres import EmbeddedPostgres, is_postgres_of, stop_orphaned_postgres
from commitlog.local.processes import DirectoryLock, find_processes, stop_processes
from commitlog.local.server import EmbeddedServer

DATABASE = "commitlog"
READER, READER_ROLE, READER_FILE = "reader", "commitlog_reader", "reader.pgpass"
"""The login of those who only read, the catalog's role for them, and where in the home the password is."""
WRITER, WRITER_ROLE, WRITER_FILE = "writer", "commitlog_writer", "writer.pgpass"
"""Likewise of those who write through the gateway."""
SERVICE_MARKER = "COMMITLOG_SERVICE_OF"
ORPHAN_STOP_TIMEOUT_S = 5.0
REVIVE_DELAY_S_MIN = 1.0
SETTLE_TIMEOUT_S = 10.0
REVIVE_DELAY_S_MAX = 30.0
SAID_EVERY_S = 60.0
_TOLD = {"log", "bootstrap_servers", "database_url", "data_path"}


class EmbeddedHome:
    """The servers of one home.

    Args:
        settings: where the home is, which ports to prefer, where Java and the jars are.
        progress: is told what is being done, one line at a time.
    """

    def __init__(self, settings: Settings, *, progress: Progress = lambda line: None) -> None:
        self._wanted = settings
        self._progress = progress
        self._lock = DirectoryLock(settings.home)
        ports = _kept_ports(settings)
        self.broker = EmbeddedBroker(
            settings.home / "kafka",
            port=ports.get("kafka", settings.kafka_port),
            settings=settings,
            progress=progress,
        )
        self.postgres = EmbeddedPostgres(
            settings.home / "postgres", port=ports.get("postgres", settings.postgres_port), progress=progress
        )
        self._revivals = [
            _Revival("kafka", self.broker),
            _Revival("postgres", self.postgres, then=self._make_databases),
        ]

    def acquire(self) -> bool:
        """Makes the home this process's; False when another process runs it."""
        return self._lock.acquire()

    def start(self) -> Settings:
        """Starts both servers after stopping what a killed run left; gives the settings with their addresses.

        Raises:
            LocalRuntimeError: one of them did not start; neither runs then.
        """
        home = self._wanted.home
        if stop_orphaned_services(home):
            self._progress("stopped services that a killed run had left")
        try:
            with ThreadPoolExecutor(max_workers=2) as pool:
                for started in [pool.submit(self.broker.start), pool.submit(self.postgres.start)]:
                    started.result()
            database_url, reader_url, writer_url = self._make_databases()
        except BaseException:
            self.stop()
            raise
        self._keep_ports()
        if "://" not in self._wanted.data_path:
            Path(self._wanted.data_path).mkdir(parents=True, exist_ok=True)
        return self._wanted.served_by(
            home,
            bootstrap_servers=self.broker.bootstrap_servers,
            database_url=database_url,
            reader_url=reader_url,
            writer_url=writer_url,
            kafka=self.broker.client_options,
        )

    def revive(self) -> list[str]:
        """Starts again, on the same port, each server that has ended, without waiting for it; gives what is to be said.

        One that cannot be started is tried again, later each time; it never raises.
        """
        lines = [revival.look() for revival in self._revivals]
        return [line for line in lines if line is not None]

    def _make_databases(self) -> tuple[str, str, str]:
        """Makes what is not there, also of a server that has lost its data; gives the URLs of service, readers and writers."""
        home = self._wanted.home
        return (
            self.postgres.create_database(DATABASE),
            self.postgres.create_reader(DATABASE, login=READER, role=READER_ROLE, password_file=home / READER_FILE),
            self.postgres.create_reader(DATABASE, login=WRITER, role=WRITER_ROLE, password_file=home / WRITER_FILE),
        )

    def _keep_ports(self) -> None:
        """The next `up` begins with these ports, so that clients find the servers where they were."""
        ports = {"kafka": self.broker.port, "postgres": self.postgres.port}
        (self._wanted.home / PORTS_FILE).write_text(json.dumps(ports) + "\n", encoding="utf-8")

    def check_kept(self) -> None:
        """See that the home is where it was.

        Raises:
            LocalRuntimeError: it was removed or moved; whatever is started there from now on would begin anew without it.
        """
        if not self._lock.is_kept:
            raise LocalRuntimeError(
                f"{self._wanted.home} was removed or moved while `commitlog up` ran in it, and all that ran was stopped: "
                "`commitlog up` starts it where it is now, or an empty one"
            )

    def leave(self) -> None:
        """Nobody is told of the servers any more: they are going to be stopped."""
        # A disk that takes nothing any more keeps nobody from being stopped.
        with suppress(OSError):
            if self._lock.is_kept:
                (self._wanted.home / RUN_FILE).unlink(missing_ok=True)

    def stop(self) -> None:
        """Stops both servers and gives the home up; not running is fine."""
        is_kept = self._lock.is_kept
        if is_kept:
            # One that was just being started when a signal came is known to nobody.
            stop_orphaned_services(self._wanted.home)
        with ThreadPoolExecutor(max_workers=2) as pool:
            for stopped in [pool.submit(self.broker.stop), pool.submit(self.postgres.stop)]:
                stopped.result()
        for revival in self._revivals:
            revival.settle()
        self.leave()
        self._lock.release()


class _Revival:
    """Starts a server again in a thread, so that whoever watches goes on watching meanwhile."""

    def __init__(self, name: str, server: EmbeddedServer, then: Callable[[], object] = lambda: None) -> None:
        self._name = name
        self._server = server
        self._then = then
        self._starting: Future[None] | None = None
        self._delay_s = REVIVE_DELAY_S_MIN
        self._start_at = 0.0
        self._said_at = -math.inf

    def look(self) -> str | None:
        """Begins a start when the server has ended, or looks what became of it; gives what is to be said."""
        now = time.monotonic()
        if self._starting is None:
            if self._server.pid is None and now >= self._start_at:
                self._starting = Future()
                try:
                    threading.Thread(target=self._start, args=(self._starting,), name=self._name, daemon=True).start()
                except RuntimeError as none_left:
                    # Of the machine's threads.
                    self._starting.set_exception(none_left)
            return None
        if not self._starting.done():
            return None
        error, self._starting = self._starting.exception(), None
        if error is None:
            self._delay_s, self._said_at = REVIVE_DELAY_S_MIN, -math.inf
            return f"{self._name} had ended and was restarted"
        self._start_at, self._delay_s = now + self._delay_s, min(self._delay_s * 2, REVIVE_DELAY_S_MAX)
        if now - self._said_at < SAID_EVERY_S:
            return None
        self._said_at = now
        return f"{self._name} had ended and cannot be started; trying again: {error}"

    def settle(self) -> None:
        """Leaves nothing running that was just being started."""
        if self._starting is not None:
            wait([self._starting], SETTLE_TIMEOUT_S)
            self._server.stop()

    def _start(self, starting: Future[None]) -> None:
        try:
            self._server.stop()
            self._server.start()
            self._then()
        except BaseException as error:
            starting.set_exception(error)
        else:
            starting.set_result(None)


def _kept_ports(settings: Settings) -> dict[str, int]:
    """The ports of the last `up`, but for those that somebody has chosen since."""
    try:
        kept = json.loads((settings.home / PORTS_FILE).read_text(encoding="utf-8"))
        ports = {name: int(kept[name]) for name in ("kafka", "postgres")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {name: port for name, port in ports.items() if settings.is_default(f"{name}_port")}


def write_run_file(settings: Settings, facts: Mapping[str, object]) -> None:
    """Tells other programs where the servers are; `facts` are added for people. Only this user may read it."""
    told = {
        "log": settings.log,
        **({} if settings.log_id is None else {"log_id": settings.log_id}),
        "bootstrap_servers": settings.bootstrap_servers,
        "kafka": dict(settings.kafka),
        "database_url": settings.database_url,
        **({} if settings.reader_url is None else {"reader_url": settings.reader_url}),
        **({} if settings.writer_url is None else {"writer_url": settings.writer_url}),
        "data_path": settings.data_path,
        **facts,
    }
    write_private(settings.home / RUN_FILE, json.dumps(told, indent=2) + "\n")


def read_run_file(home: Path) -> dict[str, object]:
    """What `write_run_file` told last; empty when there is nothing, or only a part of it."""
    try:
        told = json.loads((home / RUN_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) and told.keys() >= _TOLD else {}


def runner_pid(home: Path) -> int | None:
    """The process that runs the home, or None."""
    return DirectoryLock(home).holder_pid()


def has_orphans(home: Path) -> bool:
    """Whether servers of a killed run still run: at their addresses there may be another home's by now."""
    return bool(
        find_processes(
            lambda process: is_broker_of(process, home / "kafka") or is_postgres_of(process, home / "postgres")
        )
    )


def stop_orphans(home: Path) -> bool:
    """Stops all that a killed run left in a home; True when there was something. Nothing of one that somebody runs."""
    with DirectoryLock(home).borrowed() as is_free:
        if not is_free:
            return False
        left = [
            stop_orphaned_services(home),
            stop_orphaned_broker(home / "kafka"),
            stop_orphaned_postgres(home / "postgres"),
        ]
        (home / RUN_FILE).unlink(missing_ok=True)
        return any(left)


def stop_orphaned_services(home: Path) -> bool:
    """Stops the service processes of a home, known by a mark in their environment; True when there were any."""
    orphans = find_processes(lambda process: _is_service_of(process, home))
    stop_processes(orphans, signal.SIGTERM, timeout_s=ORPHAN_STOP_TIMEOUT_S)
    return bool(orphans)


def mark_of(home: Path) -> dict[str, str]:
    """What the environment of a home's service process has, by which it is found."""
    return {SERVICE_MARKER: str(home.resolve())}


def _is_service_of(process: psutil.Process, home: Path) -> bool:
    return bool(mark_of(home).items() <= process.environ().items())
