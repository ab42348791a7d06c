"""How long deciding and replaying one proposal takes, without Kafka, after histories of several lengths.

The check costs what the proposal is, not what the history is: the times must not grow with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count

from commitlog.domain import model as m
from commitlog.domain.sequencing import decide, new_state, replay
from commitlog.domain.state import SequencerState

MEASURED = 2_000
_APPENDS_BEFORE = 10


@dataclass(frozen=True, slots=True)
class DecideTime:
    """Microseconds for one proposal after a history of ``history`` commits, on the average."""

    kind: str
    history: int
    decide_us: float
    replay_us: float

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return asdict(self)


class _Log:
    """A log in memory that is fed proposals."""

    def __init__(self) -> None:
        self.state: SequencerState = new_state(m.Genesis(bytes(16)))
        self.decide_s = self.replay_s = 0.0
        self._numbers = count(1)

    def put(self, change: m.Change, *, base: int | None = None) -> m.Outcome:
        """Decide a proposal of one change and replay it."""
        number = next(self._numbers)
        proposal = m.Proposal(
            proposal_id=_id(number),
            writer_id=f"w{number % 16}",
            base_snapshot_id=self.state.head_snapshot_id if base is None else base,
            changes=(change,),
        )
        started = time.perf_counter()
        outcome = decide(self.state, proposal, now_ms=number, source=m.Position(0, number))
        decided = time.perf_counter()
        self.state = replay(self.state, outcome)
        self.replay_s += time.perf_counter() - decided
        self.decide_s += decided - started
        assert outcome.verdict is m.Verdict.COMMITTED, outcome.detail
        return outcome


def measure_decide(lengths: Sequence[int]) -> list[DecideTime]:
    """Times by kind of proposal and length of the history before."""
    return [
        _measured(kind, make, length) for length in lengths for kind, make in (("append", _append), ("delete", _delete))
    ]


def _measured(kind: str, make: Callable[[int], m.Change], length: int) -> DecideTime:
    log = _Log()
    log.put(m.CreateTable("main", "t", (m.ColumnSpec("id", "int64"),)))
    for number in range(max(length, MEASURED)):
        log.put(_append(number))
    base = log.state.head_snapshot_id - _APPENDS_BEFORE
    log.decide_s = log.replay_s = 0.0
    for number in range(MEASURED):
        log.put(make(number), base=base)
    return DecideTime(kind, length, round(log.decide_s / MEASURED * 1e6, 2), round(log.replay_s / MEASURED * 1e6, 2))


def _append(number: int) -> m.Change:
    return m.Append("main", "t", (m.DataFile(f"{number}.parquet", record_count=1000, file_size_bytes=65_536),))


def _delete(number: int) -> m.Change:
    return m.Delete("main", "t", whole_files=(number,))


def _id(number: int) -> bytes:
    return number.to_bytes(6, "big") + b"\x70" + bytes(9)
