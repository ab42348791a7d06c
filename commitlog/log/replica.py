"""Sequencer state that follows the results topic: what a sequencer loads, a standby keeps and a checkpointer saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from commitlog.config import Settings
from commitlog.domain.model import Genesis
from commitlog.domain.sequencing import new_state, replay
from commitlog.domain.state import SequencerState
from commitlog.errors import ConfigurationError, LogIntegrityError, LogUnavailableError
from commitlog.log.results import (
    END_TIMEOUT_S,
    POLL_TIMEOUT_S,
    READ_RECORDS_MAX,
    LogPosition,
    ResultRecord,
    ResultsReader,
)


class SavedState(NamedTuple):
    """A state that was saved at a position; it is only read when the position fits the log."""

    position: LogPosition
    load: Callable[[], SequencerState]


class Replica:
    """A state, and the reader that brings it up to date.

    Args:
        settings: which log, and where.
        checkpoints: saved states, newest first; those that do not fit the log are skipped.
        on_skipped: is told why one was skipped.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        checkpoints: Iterable[SavedState] = (),
        on_skipped: Callable[[LogIntegrityError], None] = lambda error: None,
    ) -> None:
        self._settings = settings
        self._state: SequencerState | None = None
        self._reader = self._open(checkpoints, on_skipped)
        self.start_seq = 0 if self._reader.position is None else self._reader.position.seq

    @property
    def has_genesis(self) -> bool:
        """Whether anything has been replayed yet."""
        return self._state is not None

    @property
    def state(self) -> SequencerState:
        """The state at `position`; ConfigurationError when the log was never created."""
        if self._state is None:
            raise ConfigurationError(f"the log {self._settings.log!r} has no genesis yet: `commitlog init`")
        return self._state

    @property
    def position(self) -> LogPosition:
        """The last record replayed; ConfigurationError when the log was never created."""
        position = self._reader.position
        if position is None:
            raise ConfigurationError(f"the log {self._settings.log!r} has no genesis yet: `commitlog init`")
        return position

    @property
    def zombies(self) -> int:
        """How many records of a lower epoch were skipped."""
        return self._reader.zombies

    def follow(self, *, timeout_s: float = POLL_TIMEOUT_S) -> int:
        """Replays what has come; how many records that was."""
        return self._replay(self._reader.read(timeout_s=timeout_s))

    def follow_to_end(self) -> Iterator[int]:
        """Replays all that the log holds now; how many records at a time, 0 while it waits."""
        for records in self._reader.read_to_end():
            yield self._replay(records)

    def follow_through(self, seq: int) -> None:
        """Replays up to and with one outcome (0: the genesis), which the log is known to hold, and no further.

        Raises:
            LogUnavailableError: it did not come.
        """
        deadline = time.monotonic() + END_TIMEOUT_S
        while (left := seq - self._replayed_seq) > 0:
            if self._replay(self._reader.read(records_max=min(left, READ_RECORDS_MAX))):
                deadline = time.monotonic() + END_TIMEOUT_S
            elif time.monotonic() > deadline:
                detail = f"outcome {seq} of {self._settings.log} was not reached"
                servers = self._settings.bootstrap_servers
                raise LogUnavailableError(servers, waited_ms=int(END_TIMEOUT_S * 1000), detail=detail)

    @property
    def _replayed_seq(self) -> int:
        return -1 if self._reader.position is None else self._reader.position.seq

    def close(self) -> None:
        """Ends following; the state stays."""
        self._reader.close()

    def _open(
        self, checkpoints: Iterable[SavedState], on_skipped: Callable[[LogIntegrityError], None]
    ) -> ResultsReader:
        for saved in checkpoints:
            try:
                reader = ResultsReader(self._settings, after=saved.position)
            except LogIntegrityError as error:
                on_skipped(error)
                continue
            self._state = saved.load()
            return reader
        return ResultsReader(self._settings)

    def _replay(self, records: Sequence[ResultRecord]) -> int:
        for record in records:
            if isinstance(record.value, Genesis):
                self._state = new_state(record.value)
            else:
                replay(self.state, record.value)
        return len(records)
