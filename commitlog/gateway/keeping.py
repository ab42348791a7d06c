"""Second links to the files of a commit, until its client is known to be well.

A client that loses its connection before it has heard that its COMMIT succeeded removes the files that it wrote, which the log
has by then. What it says next shows that it has heard; where its connection ends without a word, the links tell for a while
whether its files are still there, and bring them back. Links that a killed gateway has left are watched by the next one: who
lives holds a lock on the folder of its links. Files in an object store, or on another file system than the links, are not kept.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

WATCHED_S = 60.0
_LOOK_S = 1.0
_LOCK = "owner.lock"

_logger = logging.getLogger("commitlog.gateway")


class Keeping:
    """Keeps files of commits that are on this machine, until it is closed.

    Args:
        folder: where the links of all gateways of this machine are, each's in a folder of its own.
        watched_s: for how long a client that was lost may still remove its files.
    """

    def __init__(self, folder: Path, watched_s: float = WATCHED_S) -> None:
        self._folder = folder
        self._watched_s = watched_s
        self._unneeded: list[Path] = []
        self._own = folder / uuid4().hex
        self._own.mkdir(parents=True)
        self._locks = {self._own: _locked(self._own)}

    def keep(self, files: Sequence[str]) -> Path | None:
        """Link to files; the list of them, beside which the links are, None where there can be none."""
        if not files or any("://" in file for file in files):
            return None
        kept = self._own / uuid4().hex
        try:
            kept.write_text(json.dumps(files), encoding="utf-8")
            for link, file in _links(kept, files):
                os.link(file, link)
        except OSError:
            remove_links([kept])
            return None
        return kept

    def watch(self, kept: Path) -> Watch:
        """Begin to see that the files are there, until it is cancelled or the time is over; then the links are let go."""
        return Watch(kept, self._watched_s, self.let_go)

    def let_go(self, kept: Path) -> None:
        """Nobody needs the links any more. Of an event loop: they go a little later, together, and nobody waits for it."""
        self._unneeded.append(kept)
        if len(self._unneeded) == 1:
            asyncio.get_running_loop().call_later(_LOOK_S, self._remove_soon)

    def _remove_soon(self) -> None:
        unneeded, self._unneeded = self._unneeded, []
        asyncio.get_running_loop().run_in_executor(None, remove_links, unneeded)

    def watch_left(self) -> None:
        """Bring back what clients of gateways that were killed have removed, and watch it as they would. Of an event loop."""
        for other in self._folder.iterdir():
            if other in self._locks or (lock := _locked(other)) is None:
                continue
            self._locks[other] = lock
            for kept in _lists(other):
                bring_back(kept)
                self.watch(kept)

    def close(self) -> None:
        """Remove the links that were let go; what is watched still is for the next gateway."""
        remove_links(self._unneeded)
        self._unneeded = []
        for folder, lock in self._locks.items():
            if not _lists(folder):
                shutil.rmtree(folder, ignore_errors=True)
            if lock is not None:
                lock.close()


def _locked(folder: Path) -> IO[bytes] | None:
    """A file that is this process's alone as long as it is open; None where another has it, or has just removed it."""
    with ExitStack() as opened, suppress(OSError):
        lock = opened.enter_context((folder / _LOCK).open("wb"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened.pop_all()
        return lock
    return None


def _lists(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.suffix]


class Watch:
    """Sees for a while that files which are linked to are there, and brings them back. Of one event loop.

    Args:
        kept: the list of them.
        watched_s: how long.
        let_go: is told when it is over.
    """

    def __init__(self, kept: Path, watched_s: float, let_go: Callable[[Path], None]) -> None:
        self._kept = kept
        self._let_go = let_go
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + watched_s
        self._timer = self._loop.call_later(_LOOK_S, self._look)

    def cancel(self) -> None:
        """The client is well."""
        self._timer.cancel()
        self._let_go(self._kept)

    def _look(self) -> None:
        bring_back(self._kept)
        if self._loop.time() < self._until:
            self._timer = self._loop.call_later(_LOOK_S, self._look)
        else:
            self._let_go(self._kept)


def bring_back(kept: Path) -> None:
    """Put files that are gone back where they were."""
    gone = [(link, place) for link, place in _links(kept, _places(kept)) if not os.path.exists(place)]
    for link, place in gone:
        # Of what is not linked to yet the commit was not answered.
        with suppress(FileExistsError, FileNotFoundError):
            os.link(link, place)
            _logger.warning("%s was removed by a client that has not heard of its commit: it is back", place)


def remove_links(unneeded: Iterable[Path]) -> None:
    """Remove the links of these lists, and the lists."""
    for kept in unneeded:
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
