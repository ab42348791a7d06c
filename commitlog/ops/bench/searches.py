"""What a SERIALIZABLE decision costs whose read had a filter, after many appends to the table that was read.

Each file tells of its ids a range of its own, in no order, with gaps between them. One filter asks for an id in a gap, which
no file can hold; another one for an id of the first file since the base, which a search finds last. Before each decision a
file is appended, as in a log that lives. The first of all decisions, which finds out what the later ones know, is told apart.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass

from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import Rules
from commitlog.domain.state.index import SequencerState, new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.codec import decode_statistics, encode_statistics

ROUNDS = 301
START_MS = 1_732_201_315_328
_STRIDE = 7_919
_ROWS = 5


@dataclass(frozen=True, slots=True)
class SearchCost:
    """Milliseconds of a decision this many appends after its base; medians, but for the first one.

    Attributes:
        none_ms: no file since the base matches.
        oldest_ms: only the first file since the base matches.
        first_ms: of the first decision.
    """

    appends: int
    none_ms: float
    oldest_ms: float
    first_ms: float


def time_searches(appends: int) -> SearchCost:
    """Take the time of decisions by filter."""
    table = _Table(appends)
    for _ in range(appends):
        table.append()
    gc.collect()
    first_ms = table.time_decision(matches=False)
    none = [table.time_decision(matches=False) for _ in range(ROUNDS)]
    oldest = [table.time_decision(matches=True) for _ in range(ROUNDS)]
    return SearchCost(appends, statistics.median(none), statistics.median(oldest), first_ms)


class _Table:
    """A table that is read and appended to, and one to write to."""

    def __init__(self, appends: int) -> None:
        self.state: SequencerState = new_state(m.Genesis(bytes(16)))
        self._appends = appends
        self._spread = appends + 2 * ROUNDS + 3
        self._number = self._files = 0
        self._rules = Rules(decode_statistics=decode_statistics)
        columns = (m.ColumnSpec("id", "int64"), m.ColumnSpec("v", "varchar"))
        for name in ("read", "written"):
            self._commit(m.CreateTable("main", name, columns))

    def _ids(self, number: int) -> int:
        """The first of a file's ids."""
        return number * _STRIDE % self._spread * 2 * _ROWS

    def append(self) -> None:
        """Append the next file to the table that is read."""
        self._files += 1
        first = self._ids(self._files)
        told = encode_statistics(
            (m.ColumnStatistics("id", first, first + _ROWS - 1, 0, _ROWS), m.ColumnStatistics("v", "a", "z", 0, _ROWS))
        )
        self._commit(m.Append("main", "read", (m.DataFile(f"part-{first}.parquet", _ROWS, 1_000, statistics=told),)))

    def time_decision(self, *, matches: bool) -> float:
        """Append once more, and return the milliseconds of a decision whose filter matches the first file since, or none."""
        self.append()
        oldest = self._ids(self._files - self._appends + 1)
        wanted = m.Predicate("id", m.FilterOp.EQ, oldest if matches else oldest + _ROWS)
        change = m.Append("main", "written", (m.DataFile("part.parquet", 1, 1_000),))
        proposal = self._proposal(
            self.state.head_snapshot_id - self._appends,
            change,
            reads=(m.TableRead("main", "read", (wanted,)),),
            isolation=m.Isolation.SERIALIZABLE,
        )
        started = time.perf_counter()
        outcome = decide(self.state, proposal, now_ms=START_MS + self._number, rules=self._rules)
        took_ms = (time.perf_counter() - started) * 1e3
        assert outcome.verdict is (m.Verdict.REJECTED if matches else m.Verdict.COMMITTED), outcome.detail
        return took_ms

    def _proposal(self, base: int, change: m.Change, **more: object) -> m.Proposal:
        self._number += 1
        proposal_id = (
            (START_MS + self._number).to_bytes(6, "big") + b"\x70\x00" + (2**63 + self._number).to_bytes(8, "big")
        )
        return m.Proposal(proposal_id, "writer", base, (change,), **more)  # type: ignore[arg-type]

    def _commit(self, change: m.Change) -> None:
        proposal = self._proposal(self.state.head_snapshot_id, change)
        outcome = decide(self.state, proposal, now_ms=START_MS + self._number)
        assert outcome.verdict is m.Verdict.COMMITTED, outcome.detail
        replay(self.state, outcome)
