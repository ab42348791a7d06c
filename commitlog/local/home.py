"""A home: one directory with a broker, a PostgreSQL and this machine's state, that one process at a time runs.

`run.json` in it tells every other program where the two servers are. It may be stale after a crash; whether a home is
running is told by its lock alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from commitlog.config import RUN_FILE, Settings
from commitlog.local.broker import EmbeddedBroker, stop_orphaned_broker
from commitlog.local.jars import Progress
from commitlog.local.postgres import EmbeddedPostgres, stop_orphaned_postgres
from commitlog.local.processes import DirectoryLock, find_processes, stop_processes

DATABASE = "commitlog"
SERVICE_MARKER = "COMMITLOG_SERVICE_OF"
SERVICE_STOP_TIMEOUT_S = 20.0


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
        self.broker = EmbeddedBroker(
            settings.home / "kafka", port=settings.kafka_port, settings=settings, progress=progress
        )
        self.postgres = EmbeddedPostgres(settings.home / "postgres", port=settings.postgres_port, progress=progress)

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
            database_url = self.postgres.create_database(DATABASE)
        except BaseException:
            self.stop()
            raise
        if "://" not in self._wanted.data_path:
            Path(self._wanted.data_path).mkdir(parents=True, exist_ok=True)
        return dataclasses.replace(
            self._wanted,
            bootstrap_servers=self.broker.bootstrap_servers,
            database_url=database_url,
        )

    def revive(self) -> list[str]:
        """Starts again, on the same port, each server that has ended; gives their names."""
        revived = []
        for name, server in (("kafka", self.broker), ("postgres", self.postgres)):
            if server.pid is None:
                server.stop()
                server.start()
                revived.append(name)
        return revived

    def stop(self) -> None:
        """Stops both servers and gives the home up; not running is fine."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            for stopped in [pool.submit(self.broker.stop), pool.submit(self.postgres.stop)]:
                stopped.result()
        (self._wanted.home / RUN_FILE).unlink(missing_ok=True)
        self._lock.release()


def write_run_file(settings: Settings, facts: Mapping[str, object]) -> None:
    """Tells other programs where the servers are; `facts` are added for people. Only this user may read it."""
    told = {
        "log": settings.log,
        "bootstrap_servers": settings.bootstrap_servers,
        "database_url": settings.database_url,
        "data_path": settings.data_path,
        **facts,
    }
    path = settings.home / RUN_FILE
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def read_run_file(home: Path) -> dict[str, object]:
    """What `write_run_file` told last; empty when there is nothing."""
    try:
        told = json.loads((home / RUN_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def runner_pid(home: Path) -> int | None:
    """The process that runs the home, or None."""
    return DirectoryLock(home).holder_pid()


def stop_orphans(home: Path) -> bool:
    """Stops all that a killed run left in a home that nobody runs; True when there was something."""
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
    stop_processes(orphans, signal.SIGTERM, timeout_s=SERVICE_STOP_TIMEOUT_S)
    return bool(orphans)


def _is_service_of(process: psutil.Process, home: Path) -> bool:
    return bool(process.environ().get(SERVICE_MARKER) == str(home))
