"""Second links to the files of a commit, or second copies, until its client is known to be well.

A client that loses its connection before it has heard that its COMMIT succeeded removes the files that it wrote, which the log
has by then. What it says next shows that it has heard. Until then, and for a while after its connection has ended without a
word, it is looked whether its files are still there, and what is gone is brought back. What a killed gateway has kept is
watched by the next one: who lives holds a lock on the folder of its lists.

A file of this machine has a second link, if it is on the same file system. One of an object store has a second copy, which the
store makes, beside it: under a name of our writers', so that `commitlog clean` removes it if nobody else does.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Protocol
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from commitlog.client.files.lake import new_name
from commitlog.client.files.places import filesystem_of

WATCHED_S = 60.0
_LOOK_S = 1.0
_LOCK = "owner.lock"
_NEW = ".new"
_COMMITS_AT_ONCE = 32
_FILES_AT_ONCE = 16
"""Of one commit in a store, which takes long to answer and answers many at once."""
_FAILURES = (OSError, pa.ArrowException)

_logger = logging.getLogger("commitlog.gateway")


class _Files(Protocol):
    """Where files are, by their whole paths or URLs; raises OSError where it cannot do what it is asked for."""

    def double(self, file: str, second: str) -> None:
        """Have a second one, which stays when the first one goes."""

    def has(self, file: str) -> bool: ...

    def remove(self, file: str) -> None: ...


class _Machine:
    """Files of this machine, whose second ones are links."""

    def double(self, file: str, second: str) -> None:
        os.link(file, second)

    def has(self, file: str) -> bool:
        return os.path.exists(file)

    def remove(self, file: str) -> None:
        os.unlink(file)


class _Store:
    """Files of an object store, whose second ones are copies that it makes itself.

    Args:
        root: its URL, with the bucket and a slash.
    """

    def __init__(self, root: str) -> None:
        self._filesystem, self._bucket = filesystem_of(root)
        self._root = root

    def double(self, file: str, second: str) -> None:
        self._filesystem.copy_file(self._inside(file), self._inside(second))

    def has(self, file: str) -> bool:
        return bool(self._filesystem.get_file_info(self._inside(file)).type != fs.FileType.NotFound)

    def remove(self, file: str) -> None:
        self._filesystem.delete_file(self._inside(file))

    def _inside(self, file: str) -> str:
        return self._bucket + file.removeprefix(self._root)


class Keeping:
    """Keeps files of commits, until it is closed. Of one event loop.

    Args:
        folder: where the lists of all that gateways of this machine keep are, and the links; each gateway's in its own folder.
        watched_s: for how long a client that was lost may still remove its files.
    """

    def __init__(self, folder: Path, watched_s: float = WATCHED_S) -> None:
        self._folder = folder
        self._watched_s = watched_s
        self._unneeded: list[Path] = []
        self._machine = _Machine()
        self._stores: dict[str, _Store] = {}
        self._threads = ThreadPoolExecutor(_COMMITS_AT_ONCE, "keeping")
        self._has_failed = False
        self._own, lock = _new_folder(folder)
        self._locks = {self._own: lock}

    async def keep(self, files: Sequence[str]) -> Path | None:
        """Have second files of these; the list of them, None where there are none."""
        if not files:
            return None
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._doubled, files)

    def watch(self, kept: Path) -> Watch:
        """Begin to see that the files of a client that is lost are there, until the time is over; then they are let go."""
        return Watch(kept, self._watched_s, self._brought_back, self.let_go)

    def let_go(self, kept: Path) -> None:
        """Nobody needs the second files any more: they go a little later, those of several commits together."""
        self._unneeded.append(kept)
        if len(self._unneeded) == 1:
            asyncio.get_running_loop().call_later(_LOOK_S, self._remove_soon)

    def _remove_soon(self) -> None:
        unneeded, self._unneeded = self._unneeded, []
        asyncio.get_running_loop().run_in_executor(self._threads, self._remove, unneeded)

    def watch_left(self) -> None:
        """Bring back what clients of gateways that were killed have removed, and watch it as they would."""
        for other in self._folder.iterdir():
            if other in self._locks or other.suffix == _NEW or (lock := _locked(other)) is None:
                continue
            self._locks[other] = lock
            for kept in _lists(other):
                self.watch(kept).look()

    def close(self) -> None:
        """Remove what was let go; what is watched still is for the next gateway."""
        self._threads.shutdown()
        self._remove(self._unneeded)
        self._unneeded = []
        for folder, lock in self._locks.items():
            if not _lists(folder):
                shutil.rmtree(folder, ignore_errors=True)
            if lock is not None:
                lock.close()

    # --- in threads ---------------------------------------------------------------------------------------------------

    def _doubled(self, files: Sequence[str]) -> Path | None:
        kept = self._own / uuid4().hex
        try:
            seconds = {file: _second(kept, number, file) for number, file in enumerate(files)}
            kept.write_text(json.dumps(seconds), encoding="utf-8")
            self._each(seconds, lambda file: self._of(file).double(file, seconds[file]))
        except _FAILURES as error:
            if not self._has_failed:
                self._has_failed = True
                _logger.warning("files of commits, such as %s, cannot be kept a second time: %s", files[0], error)
            self._remove([kept])
            return None
        return kept

    def _brought_back(self, kept: Path) -> bool:
        """Put files that are gone back where they were; False where that could not be seen to."""
        seconds, unseen = _seconds(kept), list[str]()

        def bring_back(file: str) -> None:
            try:
                files = self._of(file)
                if files.has(file):
                    return
                if not files.has(seconds[file]):
                    raise FileNotFoundError(f"{seconds[file]}, its second one, is gone, too")
                files.double(seconds[file], file)
            except _FAILURES as error:
                # Of what is nowhere any more nothing is waited for.
                if not isinstance(error, FileNotFoundError):
                    unseen.append(file)
                _logger.warning(
                    "%s of a client that has not heard of its commit cannot be looked after: %s", file, error
                )
            else:
                _logger.warning("%s was removed by a client that has not heard of its commit: it is back", file)

        self._each(seconds, bring_back)
        return not unseen

    def _remove(self, unneeded: Iterable[Path]) -> None:
        """Remove the second files of these lists, and the lists."""

        def remove(second: str) -> None:
            with suppress(*_FAILURES):
                self._of(second).remove(second)

        for kept in unneeded:
            self._each(_seconds(kept).values(), remove)
            kept.unlink(missing_ok=True)

    def _of(self, file: str) -> _Files:
        scheme, is_url, rest = file.partition("://")
        if not is_url:
            return self._machine
        root = f"{scheme}://{rest.partition('/')[0]}/"
        if root not in self._stores:
            self._stores[root] = _Store(root)
        return self._stores[root]

    def _each(self, files: Iterable[str], act: Callable[[str], None]) -> None:
        """Do it to each, to many at once where it takes long."""
        files = list(files)
        if len(files) > 1 and "://" in files[0]:
            with ThreadPoolExecutor(min(_FILES_AT_ONCE, len(files))) as several:
                list(several.map(act, files))
        else:
            for file in files:
                act(file)


def _new_folder(folder: Path) -> tuple[Path, IO[bytes] | None]:
    """One of this gateway's own, and its lock: unlocked under its name, another would take it for a killed one's."""
    own = folder / uuid4().hex
    new = own.with_suffix(_NEW)
    new.mkdir(parents=True)
    lock = _locked(new)
    return new.rename(own), lock


def _locked(folder: Path) -> IO[bytes] | None:
    """A file that is this process's alone as long as it is open; None where another has it, or has just removed it."""
    with ExitStack() as opened, suppress(OSError):
        lock = opened.enter_context((folder / _LOCK).open("wb"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock.fileno()).st_nlink:
            opened.pop_all()
            return lock
    return None


def _lists(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.suffix]


def _second(kept: Path, number: int, file: str) -> str:
    """Where the second one of a file is, of a list of them: beside the list, or beside the file."""
    if "://" not in file:
        return str(kept.with_suffix(f".{number}"))
    return f"{file.rpartition('/')[0]}/{new_name()}.parquet"


def _seconds(kept: Path) -> Mapping[str, str]:
    """The second ones of files; none where a gateway was killed before it had written of any."""
    try:
        seconds: dict[str, str] = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return seconds


class Watch:
    """Sees for a while that files which are kept are there, and brings them back. Of one event loop.

    Args:
        kept: the list of them.
        watched_s: how long, once the client is lost.
        bring_back: puts them back, in a thread; False where it could not, and as long as that is so they are not let go.
        let_go: is told when it is over.
    """

    def __init__(
        self, kept: Path, watched_s: float, bring_back: Callable[[Path], bool], let_go: Callable[[Path], None]
    ) -> None:
        self._kept = kept
        self._bring_back = bring_back
        self._let_go = let_go
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._watched_s = watched_s
        self.end_later()
        self._timer = self._loop.call_later(_LOOK_S, self.look)

    def cancel(self) -> None:
        """The client is well."""
        self._timer.cancel()
        self._is_over = True
        self._let_go(self._kept)

    def go_on(self) -> None:
        """The client is connected: where the network is gone, it may take both sides many minutes to find out."""
        self._until = math.inf

    def end_later(self) -> None:
        """The client is lost."""
        self._until = self._loop.time() + self._watched_s

    def look(self) -> None:
        """Look now, not later."""
        self._timer.cancel()
        self._loop.run_in_executor(None, self._bring_back, self._kept).add_done_callback(self._looked)

    def _looked(self, seen: asyncio.Future[bool]) -> None:
        if self._is_over:
            return
        if self._loop.time() < self._until or not seen.result():
            self._timer = self._loop.call_later(_LOOK_S, self.look)
        else:
            self._let_go(self._kept)
