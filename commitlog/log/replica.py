"""Sequencer state that follows the results topic: what a sequencer loads, a standby keeps and a checkpointer saves.

A replica also remembers the answers that were perhaps not told: those to the outcomes after the last one's ``told``. Who
takes over tells them again. A checkpointer's replica keeps those outcomes back instead, so that whoever starts from its
checkpoint reads them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from commitlog.config import Settings
from commitlog.domain.deciding.answers import receipt_for
from commitlog.domain.model import Genesis, Outcome, Receipt
from commitlog.domain.state.index import SequencerState, new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import ConfigurationError, LogIntegrityError, LogLossError, ResultsTrimmedError
from commitlog.log.batches import goes_to_dead_letters
from commitlog.log.chain import ChainState, Skip
from commitlog.log.genesis import read_genesis
from commitlog.log.reading import Patience
from commitlog.log.results import (
    END_TIMEOUT_S,
    POLL_TIMEOUT_S,
    READ_RECORDS_MAX,
    LogPosition,
    ResultRecord,
    ResultsReader,
)

KnownT = TypeVar("KnownT")


class SavedState(NamedTuple):
    """A state that was saved at a position. ``load`` is only called when the position fits the log, and raises
    LogIntegrityError where the state is gone by then."""

    position: LogPosition
    load: Callable[[], SequencerState]


class Untold(NamedTuple):
    """An answer that was perhaps not told; ``refused`` is the outcome where its proposal goes to the dead letters."""

    receipt: Receipt
    refused: Outcome | None


def state_with(state: SequencerState | None, record: ResultRecord) -> SequencerState:
    """The state with a record of the results more, by which it changes; None is before the genesis."""
    if isinstance(record.value, Genesis):
        return new_state(record.value)
    assert state is not None
    return replay(state, record.value)


class Replica:
    """A state, and the reader that brings it up to date.

    Args:
        settings: which log, and where.
        checkpoints: saved states, newest first; those that do not fit the log are skipped.
        on_skipped: is told why one was skipped.
        told_only: replay an outcome only when a later one says that its answer was told.

    Raises:
        LogLossError: the log ends before a checkpoint of it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        checkpoints: Iterable[SavedState] = (),
        on_skipped: Callable[[LogIntegrityError], None] = lambda error: None,
        told_only: bool = False,
    ) -> None:
        self._settings = settings
        self._state: SequencerState | None = None
        self._told_only = told_only
        self._kept_back: deque[ResultRecord] = deque()
        self.untold: deque[Untold] = deque()
        self._reader = self._open(checkpoints, on_skipped)
        self._position = self._reader.position
        self.start_seq = self.told = 0 if self._position is None else self._position.seq

    @property
    def has_genesis(self) -> bool:
        """Whether anything has been replayed yet."""
        return self._state is not None

    @property
    def state(self) -> SequencerState:
        """The state at `position`; ConfigurationError when the log was never created."""
        return self._begun(self._state)

    @property
    def position(self) -> LogPosition:
        """The last record replayed; ConfigurationError when the log was never created."""
        return self._begun(self._position)

    @property
    def chain(self) -> ChainState:
        """What has been accepted, takeovers too; ConfigurationError when the log was never created."""
        return self._begun(self._reader.chain)

    def _begun(self, known: KnownT | None) -> KnownT:
        """What is known once there is a genesis."""
        if known is None:
            raise ConfigurationError(f"the log {self._settings.log!r} has no genesis yet: `commitlog init`")
        return known

    @property
    def next_offset(self) -> int:
        """Everything in the results before this offset was read."""
        return self._reader.next_offset

    @property
    def skipped(self) -> Counter[Skip]:
        """How many records of the results did not count, by reason."""
        return self._reader.skipped

    def follow(self, *, timeout_s: float = POLL_TIMEOUT_S) -> int:
        """Replays what has come; how many records that was."""
        return self._replay(self._reader.read(timeout_s=timeout_s))

    def follow_to_end(self) -> Iterator[int]:
        """Replays all that the log holds now; how many records at a time, 0 while it waits."""
        for records in self._reader.read_to_end():
            yield self._replay(records)

    def follow_to(self, end: int) -> Iterator[int]:
        """Replays all before an offset that the results have, and perhaps more."""
        for records in self._reader.read_to(end):
            yield self._replay(records)

    def follow_through(self, seq: int) -> None:
        """Replays up to and with one outcome (0: the genesis), which the log is known to hold, and no further.

        Raises:
            LogUnavailableError: it did not come.
        """
        patience = Patience(self._settings, END_TIMEOUT_S, f"outcome {seq} of {self._settings.log} was not reached")
        while (left := seq - self._replayed_seq) > 0:
            if self._replay(self._reader.read(records_max=min(left, READ_RECORDS_MAX))):
                patience.renew()
            else:
                patience.check()

    @property
    def _replayed_seq(self) -> int:
        return -1 if self._position is None else self._position.seq

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
                if _is_loss(error) and self._is_of_this_log(saved.position):
                    raise
                on_skipped(error)
                continue
            try:
                self._state = saved.load()
            except LogIntegrityError as error:
                reader.close()
                on_skipped(error)
                continue
            return reader
        return ResultsReader(self._settings)

    def _is_of_this_log(self, position: LogPosition) -> bool:
        genesis = read_genesis(self._settings)
        return genesis is not None and genesis.log_id == position.log_id

    def _replay(self, records: Sequence[ResultRecord]) -> int:
        due = self._told(records) if self._told_only else records
        for record in due:
            if isinstance(record.value, Genesis):
                self._state = new_state(record.value)
            else:
                self._note_untold(record.value, record.told, replay(self.state, record.value))
        if due:
            self._position = due[-1].position_in(self.chain.log_id)
        return len(due)

    def _told(self, records: Sequence[ResultRecord]) -> Sequence[ResultRecord]:
        """Those of all that were kept back so far, and of these, of which a later one says that they were told."""
        kept_back = self._kept_back
        kept_back.extend(records)
        told = kept_back[-1].told if kept_back else 0
        due = []
        while kept_back and kept_back[0].seq <= told:
            due.append(kept_back.popleft())
        return due

    def _note_untold(self, outcome: Outcome, told: int, state: SequencerState) -> None:
        if self._told_only:
            return
        self.told = told
        self.untold.append(Untold(receipt_for(state, outcome), outcome if goes_to_dead_letters(outcome) else None))
        while self.untold[0].receipt.seq <= told:
            self.untold.popleft()


def _is_loss(error: LogIntegrityError) -> bool:
    """Whether it is more than a checkpoint that is older than what was trimmed."""
    return isinstance(error, LogLossError) and not isinstance(error, ResultsTrimmedError)
