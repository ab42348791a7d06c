"""What both embedded servers need of the operating system: a directory's lock, a free port, a process that ends.

A server whose parent was killed lives on. The lock is the kernel's, so that it is free exactly when its holder is dead;
whoever then holds it may stop what still runs in the directory.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

HOST = "127.0.0.1"
_PORTS = range(20_000, 32_768)
"""None that systems give to outgoing connections: one of those would have the port before its server has started."""


class DirectoryLock:
    """An exclusive lock on a directory, held until `release` or the end of this process."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ".lock"
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """True when the lock is ours now; False when another process, or another object in this one, holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        try:
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        except OSError as error:
            with suppress(OSError):
                file.close()
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._file = file
        return True

    @property
    def is_kept(self) -> bool:
        """Whether the lock is ours and still the directory's, which somebody may have removed or moved since."""
        if self._file is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False
        except OSError:
            return True  # as far as can be seen now

    @contextmanager
    def borrowed(self) -> Iterator[bool]:
        """Nobody else acquires the lock within, without a word on whose it is; False when somebody has it."""
        with ExitStack() as opened:
            try:
                # What a holder that was killed has written is not to be taken for who has it now.
                file = opened.enter_context(self._path.open("r+"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.truncate(0)
            except BlockingIOError:
                yield False
                return
            except OSError:
                # There is no such file, or none that could be acquired.
                pass
            yield True

    def release(self) -> None:
        """Frees the lock; doing it twice is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def holder_pid(self) -> int | None:
        """The process that holds the lock, or None when it is free."""
        if self._file is not None:
            return os.getpid()
        if not self._path.exists():
            return None
        with self._path.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else None
        return None


def free_port(*preferred: int) -> int:
    """The first of the preferred TCP ports that nobody listens on, or else any free one. 0 is no preference."""
    for port in preferred:
        if port and _can_listen(port):
            return port
    chance = random.SystemRandom()
    while not _can_listen(port := chance.choice(_PORTS)):
        pass
    return port


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def has_lost_port(pid: int | None, *ports: int) -> bool:
    """Whether a server has ended since somebody else began to listen at one of its ports after that was looked at."""
    return pid is None and not all(map(_can_listen, ports))


def is_listening(port: int, host: str = HOST) -> bool:
    """Whether a server accepts connections on the port of an address of this machine."""
    try:
        with socket.create_connection((host, port), timeout=0.5):
            return True
    except OSError:
        return False


def find_processes(matches: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """The running processes that match; those that end or hide meanwhile do not."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE and matches(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal (SIGSTOP, Ctrl-Z): it lives, and does nothing until one lets it go on."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def stop_processes(processes: Iterable[psutil.Process], signal_number: int, *, timeout_s: float) -> None:
    """Signals the processes and waits for their end; those still there after the timeout are killed."""
    waited = []
    for process in processes:
        try:
            process.send_signal(signal_number)
            waited.append(process)
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(waited, timeout=timeout_s)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=10)
