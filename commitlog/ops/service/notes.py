"""Word that services leave of what is wrong with them, where `status` looks for it."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from commitlog.config import Settings

NOTE_MS_MAX = 300_000

_logger = logging.getLogger("commitlog.notes")


def folder_of(settings: Settings) -> Path:
    """Where the services of this machine leave word of a log."""
    return settings.home / "services" / settings.log


def leave_word(path: Path, told: object) -> bool:
    """Leave word in a file, whole or not at all. Where its disk does not take it, which is logged, that ends no service."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(told), encoding="utf-8")
        unfinished.replace(path)
    except OSError as failure:
        _logger.warning("cannot write the status note %s: %s", path, failure)
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return False
    return True


def take_back(path: Path) -> None:
    """Remove what was left; where that cannot be, it stays, which is logged."""
    try:
        path.unlink(missing_ok=True)
    except OSError as failure:
        _logger.warning("cannot remove the status note %s: %s", path, failure)


class Notes:
    """Word that the services of one machine leave in its home, a small file each.

    Args:
        settings: the home, and which log.
    """

    def __init__(self, settings: Settings) -> None:
        self._directory = folder_of(settings)

    def leave(self, service: str, error: object) -> None:
        """Note what went wrong; it stands until the service is well."""
        note = Note(service, str(error), int(time.time() * 1000), os.getpid())
        leave_word(self._directory / f"{service}.json", asdict(note))

    def clear(self, service: str) -> None:
        """Note that the service is well."""
        take_back(self._directory / f"{service}.json")

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
