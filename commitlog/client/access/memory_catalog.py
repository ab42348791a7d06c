"""What Spark's driver asks a catalog beside what a table holds, of a log in memory: so its jobs run on a testing log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

from commitlog.catalog.queries import AppliedPosition
from commitlog.client.access.memory_contents import MemoryContents
from commitlog.domain import model as m
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import SequencerState

_APPEND_ALONE = frozenset({m.ChangeKind.APPEND})


class MemoryCatalog(MemoryContents):
    """The catalog of a log in memory, by the names of ``Catalog``'s methods; see there.

    Args:
        state: the log's state by now.
        genesis: what it began with.
        lock: held while the log changes; one thread may take it again.
    """

    def __init__(
        self,
        state: Callable[[], SequencerState],
        genesis: m.Genesis,
        lock: AbstractContextManager[Any],
    ) -> None:
        super().__init__(state, genesis, lock)
        # Of each log its own, for rows of one are not those of another.
        self._log_id = uuid4().bytes
        self._last: m.Outcome | None = None
        self._blind: set[int] = set()
        self._committed: dict[tuple[str, bytes], UUID] = {}

    def take(self, outcome: m.Outcome) -> None:
        super().take(outcome)
        self._last = outcome
        proposal = outcome.proposal
        if outcome.verdict is not m.Verdict.COMMITTED or proposal is None:
            return
        self._committed[proposal.writer_id, proposal.proposal_id[8:]] = UUID(bytes=proposal.proposal_id)
        kinds = {change.kind for change in proposal.changes}
        if outcome.snapshot_id is not None and kinds <= _APPEND_ALONE and proposal.isolation is m.Isolation.SNAPSHOT:
            self._blind.add(outcome.snapshot_id)

    def head_snapshot_id(self) -> int:
        return self._state().head_snapshot_id

    def oldest_snapshot_id(self) -> int:
        return self._state().floor_snapshot_id

    def applied(self) -> AppliedPosition | None:
        last = self._last
        if last is None:
            return None
        return AppliedPosition(self._log_id, last.seq, last.epoch, b"", last.seq, last.seq + 1)

    def column_names_ever(self, table_id: int) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = {}
        with self._lock:
            for _, definition in self._definitions.get(table_id, ()):
                for column in definition.columns:
                    found.setdefault(fold(column.name), set()).add(column.column_id)
        return {name: frozenset(ids) for name, ids in found.items()}

    def column_types_before(self, table_id: int) -> list[tuple[int, str, int]]:
        with self._lock:
            versions = self._definitions.get(table_id, [])
            return [
                (column.column_id, str(column.type), until)
                for (_, before), (until, after) in pairwise(versions)
                for column in before.columns
                if any(each.column_id == column.column_id and each.type != column.type for each in after.columns)
            ]

    def only_blind_appends(self, table_id: int, *, after: int, upto: int) -> bool:
        with self._lock:
            changed = [
                each.snapshot_id
                for each, touched in self._snapshots
                if table_id in touched and after < each.snapshot_id <= upto
            ]
        return self._blind.issuperset(changed)

    def proposal_ending(self, writer_id: str, ending: bytes) -> UUID | None:
        return self._committed.get((writer_id, ending))
