"""What the embedded servers have in common: a directory that one process at a time uses, a port, how they begin and end."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import psutil

from commitlog.errors import LocalRuntimeError
from commitlog.local.jars import Progress
from commitlog.local.processes import HOST, DirectoryLock, free_port, has_lost_port, stop_processes

START_TIMEOUT_S = 300.0


class EmbeddedServer(ABC):
    """A server whose whole state is one directory.

    Args:
        directory: all that it writes; made when it is not there.
        port: for clients; 0, or a port that is taken, means any free one.
        progress: is told about what is done beside starting it.
    """

    NAME: ClassVar[str]
    WHAT: ClassVar[str]
    """What a process runs that uses the directory."""
    ENDED_BY: ClassVar[int]
    """The signal at which it ends in an orderly way."""
    STOP_TIMEOUT_S: ClassVar[float]

    def __init__(self, directory: Path, *, port: int = 0, progress: Progress = lambda line: None) -> None:
        self._directory = directory.resolve()
        self._port_wanted = port
        self._progress = progress
        self._lock = DirectoryLock(self._directory)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._is_known = False

    @property
    def port(self) -> int:
        """Where clients reach it; 0 before its first start."""
        return self._port

    @property
    def pid(self) -> int | None:
        """The server's process; None when it was not started or has ended."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Starts the server and returns when it answers.

        Raises:
            LocalRuntimeError: what it needs is missing, another process uses the directory, or the port that it had, or it
                did not start.
        """
        if not self._lock.acquire():
            raise LocalRuntimeError(f"another process runs {self.WHAT} in {self._directory}; stop it, or use it")
        try:
            self._stop_orphaned()
            self._launch()
            self._is_known = True
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the server in an orderly way, ending open sessions; not running is fine."""
        if self._process is not None:
            if self._process.poll() is None:
                stop_processes([psutil.Process(self._process.pid)], self.ENDED_BY, timeout_s=self.STOP_TIMEOUT_S)
            self._process.wait()
            self._process = None
        self._lock.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self) -> None:
        self._process = self._begin()
        try:
            self._wait_until_ready(self._process)
        except LocalRuntimeError:
            if not has_lost_port(self.pid, *self._ports()):
                raise
            self._launch()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline, log_file = time.monotonic() + START_TIMEOUT_S, self._failure_log()
        while not self._answers():
            if process.poll() is not None:
                what = f"{self.NAME} ended with exit code {process.returncode} at its start:"
                raise LocalRuntimeError(what, log_file=log_file)
            if time.monotonic() > deadline:
                raise LocalRuntimeError(f"{self.NAME} was not ready after {START_TIMEOUT_S:.0f} s:", log_file=log_file)
            time.sleep(0.02)

    def _take_port(self) -> None:
        port = free_port(self._port, self._port_wanted)
        # Clients of a server that has answered look for it where it was: at another port nobody would find it again.
        if self._is_known and port != self._port:
            raise LocalRuntimeError(
                f"port {self._port} of {HOST}, where clients look for {self.NAME}, is another process's by now: end that one; "
                "`commitlog down`, and `commitlog up` again, takes another port"
            )
        self._port = port

    def _ports(self) -> tuple[int, ...]:
        """Where it has to listen."""
        return (self._port,)

    @abstractmethod
    def _begin(self) -> subprocess.Popen[bytes]:
        """Makes what is not there, takes a port and begins to listen at it."""

    @abstractmethod
    def _stop_orphaned(self) -> object:
        """Stops what a killed run has left."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is ready."""

    @abstractmethod
    def _failure_log(self) -> Path:
        """Where it has written why it did not start."""
