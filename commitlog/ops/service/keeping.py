"""What keeps a service going: it tries again while a server is away, is started again when it has ended, and leaves word of
its last error where `status` looks for it.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

from commitlog.config import Settings
from commitlog.errors import CatalogUnavailableError, LogUnavailableError

T = TypeVar("T")
EXIT_CANNOT_PROJECT = 70
PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 5.0
SAID_EVERY_S = 60.0
NOTE_MS_MAX = 300_000
STEADY_AFTER_S = 30.0
RESTART_DELAY_S_MIN = 0.2
RESTART_DELAY_S_MAX = 10.0
RESTART_DELAY_S_HOPELESS = 60.0

_logger = logging.getLogger("commitlog.keeping")


class Notes:
    """Word that the services of one machine leave in its home, a small file each.

    Args:
        settings: the home, and which log.
    """

    def __init__(self, settings: Settings) -> None:
        self._directory = settings.home / "services" / settings.log

    def leave(self, service: str, error: object) -> None:
        """Note what went wrong; it stands until the service is well."""
        note = Note(service, str(error), int(time.time() * 1000), os.getpid())
        path = self._directory / f"{service}.json"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps(asdict(note)), encoding="utf-8")
            unfinished.replace(path)
        except OSError as failure:
            _logger.warning("no word could be left in %s: %s", path, failure)

    def clear(self, service: str) -> None:
        """Note that the service is well."""
        (self._directory / f"{service}.json").unlink(missing_ok=True)

    def read(self) -> Iterator[Note]:
        """What the services of this machine say is wrong."""
        for path in sorted(self._directory.glob("*.json")):
            try:
                note = Note(**json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError):
                continue
            # Whoever still fails says so again and again; a service that has moved to another machine does not.
            if time.time() * 1000 - note.at_ms < NOTE_MS_MAX:
                yield note


@dataclass(frozen=True, slots=True)
class Note:
    """What a service says is wrong, and since when (milliseconds since 1970)."""

    service: str
    error: str
    at_ms: int
    pid: int


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
        except (LogUnavailableError, CatalogUnavailableError) as error:
            now = time.monotonic()
            if now - said_at >= SAID_EVERY_S:
                said_at = now
                say(f"{what} waits and tries again: {error}")
            if notes is not None:
                notes.leave(what, error)
        pause_s = PAUSE_S_MIN if now - began_at > STEADY_AFTER_S else min(pause_s * 2, PAUSE_S_MAX)
        stop.wait(pause_s)
    return None


class Restarts:
    """When a process that has ended is started again: later each time, until it has run steadily."""

    def __init__(self) -> None:
        self._delay_s = RESTART_DELAY_S_MIN

    def delay_s(self, exit_code: int, ran_s: float) -> float:
        """How long to wait now."""
        if exit_code == EXIT_CANNOT_PROJECT:
            return RESTART_DELAY_S_HOPELESS
        if ran_s > STEADY_AFTER_S:
            self._delay_s = RESTART_DELAY_S_MIN
        delay_s, self._delay_s = self._delay_s, min(self._delay_s * 2, RESTART_DELAY_S_MAX)
        return delay_s


def because(service: str, exit_code: int) -> str:
    """What an exit code says, for the line that tells of a service's end."""
    if exit_code == EXIT_CANNOT_PROJECT:
        return f"{service} cannot go on: an outcome cannot be written into the catalog, its log says which"
    return f"{service} ended with exit code {exit_code}"
