"""What a process of ours asks of the machine that it runs on: the time, waiting, threads, Kafka's clients, the disk.

Everything that waits or tells the time asks here, so that a simulated machine (`commitlog.simulation`) can run the same
code with a clock, a Kafka and a disk of its own. Ask `Settings.machine`, never `time` and never Kafka's library.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol


class Lock(Protocol):
    """As `threading.Lock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...


class Thread(Protocol):
    """As a `threading.Thread` that has begun."""

    def join(self) -> None: ...


class Machine:
    """The one that this process runs on."""

    @property
    def kafka(self) -> Any:
        """What Kafka's clients are made of; None is its library."""
        return None

    now_s: Callable[[], float] = staticmethod(time.monotonic)
    """Seconds by a clock that never goes back."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, by a clock that may be set."""
        return time.time_ns() // 1_000_000

    def unique(self) -> bytes:
        """16 bytes that nobody else has."""
        return uuid.uuid4().bytes

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def sync(self, descriptor: int) -> None:
        """Has the disk hold what was written to a file; OSError when it cannot."""
        os.fsync(descriptor)

    def lock(self) -> Lock:
        """A lock that may be waited for."""
        return threading.Lock()

    def event(self) -> threading.Event:
        """An event that may be waited for."""
        return threading.Event()

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        """Begins a thread that does not keep the process alive."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread


THIS_MACHINE = Machine()
