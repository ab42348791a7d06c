"""What one writer has begun and was told, in a file that outlives its process: one JSON object a line."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

SUFFIX = ".ledger"
END_FILE = "end"
"""Beside the ledgers; once it is there, nobody begins another write."""
STACKS_SIGNAL = signal.SIGUSR1
"""Has a process of writers write where each of its threads is."""


class Answer(NamedTuple):
    """What a writer was told of a proposal: of which outcome, what, and the snapshot that it made."""

    seq: int
    verdict: str
    snapshot_id: int | None


@dataclass(slots=True)
class Written:
    """A write as its writer knows it.

    Attributes:
        kind, writer: what it does, and who.
        number: counts the writer's writes from 1.
        begun: what must be known to ask for the very same again.
        answers: of all its proposals; empty as long as it is not answered.
        waited_s: from its beginning to its answer.
        failures: what no writer should have to see.
    """

    kind: str
    writer: str
    number: int
    begun: Mapping[str, object]
    answers: Sequence[Answer] = ()
    waited_s: float = 0.0
    failures: list[str] = field(default_factory=list)


class Ledger:
    """One writer's, kept as long as it lives and read again by who takes its place.

    Args:
        folder: of all ledgers.
        kind, writer: whose it is.
    """

    def __init__(self, folder: Path, kind: str, writer: str) -> None:
        path = folder / f"{kind}.{writer}{SUFFIX}"
        _cut_unfinished(path)
        self._last = last_of(path)
        self._file = path.open("a", encoding="utf-8")
        self.number = 0 if self._last is None else self._last.number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def unanswered(self) -> Mapping[str, object] | None:
        """What the last write began with, if it has no answer yet."""
        return None if self._last is None or self._last.answers else self._last.begun

    def begin(self, begun: Mapping[str, object]) -> None:
        """Note the next write."""
        self.number += 1
        self._note({"begun": begun, "number": self.number, "at_s": time.time()})

    def answer(self, answers: Sequence[Answer]) -> None:
        """Note what it was told."""
        self._note({"answers": answers, "at_s": time.time()})

    def fail(self, error: BaseException) -> None:
        """Note what should not have been raised."""
        self._note({"failure": f"{datetime.now(UTC):%H:%M:%S} {type(error).__name__}: {error}"})

    def _note(self, entry: Mapping[str, object]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        # What the system has taken outlives the process.
        self._file.flush()


def stacks_file(folder: Path, pid: int) -> Path:
    """Where a process of writers says where each of its threads is, when it is asked."""
    return folder / f"stacks.{pid}"


@contextmanager
def stacks_told(folder: Path) -> Iterator[None]:
    """This process says so, as long as the block runs."""
    told = stacks_file(folder, os.getpid())
    unready = told.with_suffix(".unready")
    with unready.open("w") as stacks:
        faulthandler.register(STACKS_SIGNAL, file=stacks)
        # Whoever sees the file sends the signal, which ends a process that does not know it yet.
        unready.rename(told)
        yield


def _cut_unfinished(path: Path) -> None:
    """A last line without an end was being written when its process was killed."""
    if path.exists():
        whole = path.read_bytes()
        os.truncate(path, whole.rfind(b"\n") + 1)


def last_of(path: Path) -> Written | None:
    """The last write in a ledger."""
    last = None
    for last in written_in(path) if path.exists() else ():  # noqa: B007
        pass
    return last


def all_written(folder: Path) -> Iterator[Written]:
    """The writes of all writers."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        yield from written_in(path)


def written_in(path: Path) -> Iterator[Written]:
    """The writes of one ledger."""
    kind, writer = path.name.removesuffix(SUFFIX).split(".", 1)
    write, begun_s = None, 0.0
    for line in path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines():
        entry = json.loads(line)
        if "begun" in entry:
            if write is not None:
                yield write
            write, begun_s = Written(kind, writer, entry["number"], entry["begun"]), entry["at_s"]
        elif write is not None and "failure" in entry:
            write.failures.append(entry["failure"])
        elif write is not None:
            write.answers, write.waited_s = [Answer(*each) for each in entry["answers"]], entry["at_s"] - begun_s
    if write is not None:
        yield write
