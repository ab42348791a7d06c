"""What the active sequencer needs of the world, so that it runs over Kafka and over a log in memory alike.

Nothing here is called from another thread than the one that calls `poll`; reports come while it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from commitlog.log.batches import Incoming
from commitlog.log.reports import Report


class ResultsLog(Protocol):
    """The results topic, for the one who appends."""

    def append(self, values: Sequence[bytes], on_report: Callable[[int, Report], None]) -> None:
        """Appends records in order without waiting; what became of each is reported by its index while `poll` runs.

        Raises:
            DoubtError: it is not known which of them are on their way.
        """

    def poll(self, timeout_s: float) -> None:
        """Lets reports come; returns when all are there, or the time is over. Who can wait sends what still gathers."""

    def read(self, start: int, end: int) -> Iterable[tuple[int, bytes | None]]:
        """What every reader sees at the offsets from ``start`` on, without ``end``."""

    def end_seen(self) -> int | None:
        """The offset after the last record as it was a moment ago; None while it is being asked for."""

    def close(self) -> None:
        """Lets go without waiting for what is on its way."""


class Voice(Protocol):
    """The topics that tell others what was accepted: receipts, dead letters, heartbeats."""

    def reply(self, reply_to: str, value: bytes) -> bool:
        """Sends a message at once to whoever is named so on this machine; False where it did not go."""

    def send(
        self,
        topic: str,
        partition: int,
        value: bytes,
        on_done: Callable[[str | None], None],
        *,
        may_wait: bool = False,
    ) -> None:
        """Sends a message without waiting; while `poll` runs, ``on_done`` is told None, or what went wrong.

        One that may wait goes a moment later, together with others.
        """

    def poll(self, timeout_s: float) -> None:
        """Lets answers come; returns after the first ones, or when the time is over."""

    def close(self) -> None:
        """Lets go without waiting for what is on its way."""


class Proposals(Protocol):
    """The proposals that were not decided yet."""

    def poll(self, records_max: int, timeout_s: float, *, wanted: int = 1) -> list[Incoming]:
        """What is there, as soon as ``wanted`` are, or the time is over.

        Raises:
            DoubtError: an offset is not what was expected.
        """

    def close(self) -> None:
        """Ends reading."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All of them, and the clocks: ``clock_ms`` is what is written down, ``clock_s`` never goes back."""

    results: ResultsLog
    voice: Voice
    proposals: Proposals
    clock_ms: Callable[[], int]
    clock_s: Callable[[], float]
