"""A service that outlives its servers: while one is away it tries again, and what ends it is said where `status` looks."""

from __future__ import annotations

import _thread
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from commitlog.config import Settings, is_supervised
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    FencedError,
    LogUnavailableError,
    RegistryUnavailableError,
)
from commitlog.ops.service.notes import Notes
from commitlog.ops.service.supervisor import STEADY_AFTER_S, STOP_TIMEOUT_S

T = TypeVar("T")
PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 5.0
SAID_EVERY_S = 60.0
_STDIN = 0

_logger = logging.getLogger("commitlog")


def keep_trying(
    what: str, act: Callable[[], T], *, stop: threading.Event, say: Callable[[str], None], notes: Notes | None = None
) -> T | None:
    """What ``act`` gives; while a server does not answer it is tried again, which is said once a minute.

    None when ``stop`` was set before it could be done.
    """
    pause_s, said_at = PAUSE_S_MIN, time.monotonic() - SAID_EVERY_S
    while not stop.is_set():
        began_at = time.monotonic()
        try:
            return act()
        except (LogUnavailableError, CatalogUnavailableError, RegistryUnavailableError) as error:
            now = time.monotonic()
            if now - said_at >= SAID_EVERY_S:
                said_at = now
                say(f"{what} is waiting and will try again: {error}")
            if notes is not None:
                notes.leave(what, error)
        pause_s = PAUSE_S_MIN if now - began_at > STEADY_AFTER_S else min(pause_s * 2, PAUSE_S_MAX)
        stop.wait(pause_s)
    return None


class Kept:
    """A service's life: servers that are away are waited for; what ends it is logged, where its other messages are, and left
    in its home for `status`.
    """

    def __init__(self, service: str, settings: Settings, stop: threading.Event) -> None:
        self._service = service
        self._stop = stop
        self._notes = Notes(settings)
        self._is_well = False
        self._calm: threading.Timer | None = None

    def run(self, act: Callable[[], T]) -> T | None:
        """Do it, again and again while a server does not answer."""

        def attempt() -> T:
            self._begin_calm()
            try:
                return act()
            finally:
                self._end_calm()

        return keep_trying(self._service, attempt, stop=self._stop, say=_logger.warning, notes=self._notes)

    def waits(self, why: str) -> None:
        """It cannot do what it is for, and goes on by itself."""
        self._notes.leave(self._service, why)
        self._begin_calm()

    def _begin_calm(self) -> None:
        """Unless something happens until then, it is well."""
        self._end_calm()
        self._is_well = False
        self._calm = threading.Timer(STEADY_AFTER_S, self.is_well)
        self._calm.daemon = True
        self._calm.start()

    def _end_calm(self) -> None:
        if self._calm is not None:
            self._calm.cancel()

    def is_well(self) -> None:
        """It has done what it is for, or has run for a while without an error."""
        if not self._is_well:
            self._is_well = True
            self._notes.clear(self._service)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, SystemExit | FencedError):
            self._notes.clear(self._service)
            return
        self._notes.leave(self._service, error)
        if isinstance(error, CommitLogError):
            _logger.error("%s", error)


@contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM, the end of the terminal and that of a supervisor set. In the main thread only."""
    stop = threading.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        numbers.append(signal.SIGHUP)

    def set_apart(*_: object) -> None:
        # The signal may have come as this thread looked at the event, and holds its lock.
        _thread.start_new_thread(stop.set, ())

    before = {number: signal.signal(number, set_apart) for number in numbers}
    if is_supervised():
        threading.Thread(target=_end_with_supervisor, name="supervised", daemon=True).start()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_supervisor() -> None:
    """As a supervisor stops a service, once that is not there any more."""
    while os.read(_STDIN, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_TIMEOUT_S)
    os.kill(os.getpid(), signal.SIGKILL)
