"""Second links to the files of a commit, until its client is known to be well.

A client that loses its connection before it has heard that its COMMIT succeeded removes the files that it wrote, which the log
has by then. What it says next shows that it has heard; where its connection ends without a word, the links tell for a while
whether its files are still there, and bring them back. Links that a killed gateway has left are looked at by the next one.
Files in an object store, or on another file system than the links, are not kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psutil

WATCHED_S = 60.0
_LOOK_S = 1.0

_logger = logging.getLogger("commitlog.gateway")


class Keeping:
    """Keeps files of commits that are on this machine.

    Args:
        folder: where the links of all gateways of this machine are; made when it is needed.
        watched_s: for how long a client that was lost may still remove its files.
    """

    def __init__(self, folder: Path, watched_s: float = WATCHED_S) -> None:
        self._folder = folder
        self._watched_s = watched_s

    def keep(self, files: Sequence[str]) -> Path | None:
        """Link to files; the list of them, beside which the links are, None where there can be none."""
        if not files or any("://" in file for file in files):
            return None
        kept = self._folder / str(os.getpid()) / uuid4().hex
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(files), encoding="utf-8")
            for link, file in _links(kept, files):
                os.link(file, link)
        except OSError:
            let_go(kept)
            return None
        return kept

    def watch(self, kept: Path) -> asyncio.Task[None]:
        """See for a while that the files are there, or until the task is cancelled; then let the links go."""
        return asyncio.create_task(self._watched(kept))

    async def _watched(self, kept: Path) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._watched_s
        try:
            while loop.time() < until:
                await asyncio.sleep(_LOOK_S)
                bring_back(kept)
        finally:
            # The client's next statement is not to wait for it.
            loop.run_in_executor(None, let_go, kept)

    def bring_back_all(self) -> None:
        """Look at what gateways that were killed have left."""
        for of_one in list(self._folder.glob("[0-9]*")):
            if not psutil.pid_exists(int(of_one.name)):
                for kept in of_one.iterdir():
                    if not kept.suffix:
                        bring_back(kept)
                shutil.rmtree(of_one, ignore_errors=True)


def bring_back(kept: Path) -> None:
    """Put files that are gone back where they were."""
    gone = [(link, place) for link, place in _links(kept, _places(kept)) if not os.path.exists(place)]
    for link, place in gone:
        # Of what is not linked to yet the commit was not answered.
        with suppress(FileExistsError, FileNotFoundError):
            os.link(link, place)
            _logger.warning("%s was removed by a client that has not heard of its commit: it is back", place)


def let_go(kept: Path) -> None:
    """Nobody needs the links any more."""
    for path in (*(link for link, _ in _links(kept, _places(kept))), kept):
        with suppress(OSError):
            path.unlink()


def _links(kept: Path, files: Sequence[str]) -> list[tuple[Path, str]]:
    """The second link to each file."""
    return [(kept.with_suffix(f".{number}"), file) for number, file in enumerate(files)]


def _places(kept: Path) -> Sequence[str]:
    """Where the files are; none where a gateway was killed before it had linked to anything."""
    try:
        places: list[str] = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    return places
