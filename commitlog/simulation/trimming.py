"""Who archives a simulated log and trims what nobody needs, as `commitlog archive --trim` does; the archive is in memory, and
outlives everybody.

Whoever has lost all checkpoints is helped as `commitlog checkpointer --from-archive` helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.state.index import SequencerState, new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.checkpoint import checkpoint_dir_of, newest_seq, write_checkpoint
from commitlog.log.codec import Trim
from commitlog.log.results import ResultRecord, ResultsReader
from commitlog.log.trims import delete_before, last_trim, position_of, trim_at, write_trim
from commitlog.simulation.choices import Choices

EVERY_S = (0.5, 2.0, 5.0)


class Trimmer:
    """Archives all that there is and trims, again and again.

    Args:
        choices: say how long it rests, and how far it goes.
        needs: by everybody but checkpoints the outcome after which he reads on.
    """

    def __init__(self, choices: Choices, needs: Callable[[], Iterable[int]]) -> None:
        self._choices = choices
        self._needs = needs
        self._archive: list[ResultRecord] = []

    def run(self, settings: Settings) -> None:
        """For ever."""
        while True:
            settings.machine.sleep(self._choices.pick(EVERY_S))
            self._archive_on(settings)
            noted = last_trim(settings)
            if noted is not None:
                delete_before(settings, noted)
                self._help(settings, noted)
            self._trim(settings, 0 if noted is None else noted.seq)

    def _archive_on(self, settings: Settings) -> None:
        log_id = self._log_id() if self._archive else b""
        with ResultsReader(settings, after=self._archive[-1].position_in(log_id) if self._archive else None) as reader:
            for records in reader.read_to_end():
                self._archive += records

    def _trim(self, settings: Settings, begins: int) -> None:
        # The genesis is the first record of the archive, so that outcomes are at their seq in it.
        seq = min(newest_seq(settings), len(self._archive) - 1, *self._needs()) - self._choices.below(3)
        if seq > begins:
            kept = self._archive[seq]
            position = kept.position_in(self._log_id())
            # It refuses a position where the topic does not hold what the archive does.
            ResultsReader(settings, after=position).close()
            write_trim(settings, self._noted(kept, settings))

    def _noted(self, kept: ResultRecord, settings: Settings) -> Trim:
        position = kept.position_in(self._log_id())
        head, now_ms = kept.outcome.head_snapshot_id, settings.machine.now_ms()
        return trim_at(
            position, genesis=self._archive[0].raw, head_snapshot_id=head, archive="simulated", trimmed_at_ms=now_ms
        )

    def _help(self, settings: Settings, noted: Trim) -> None:
        if newest_seq(settings) < noted.seq:
            state = _replayed(self._archive[: noted.seq + 1])
            # On a full disk whoever does this by hand does it once more.
            with suppress(OSError):
                write_checkpoint(checkpoint_dir_of(settings), state, position_of(noted), settings.machine)

    def _log_id(self) -> bytes:
        genesis = self._archive[0].value
        assert isinstance(genesis, m.Genesis)
        return genesis.log_id


def _replayed(records: Sequence[ResultRecord]) -> SequencerState:
    genesis = records[0].value
    assert isinstance(genesis, m.Genesis)
    state = new_state(genesis)
    for record in records[1:]:
        replay(state, record.outcome)
    return state
