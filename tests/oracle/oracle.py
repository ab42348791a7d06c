"""The slow, obvious way to a verdict: look at every snapshot after the base, one after another (rules.md 4).

Written apart from the core's index: it keeps a copy of the world for every snapshot and compares change by change. It
judges the verdict, the reason and the set of conflicts; the ids of what committed it takes from the core's outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from commitlog.domain import model as m
from commitlog.errors import InvalidChangeError

from .judging import Judge
from .reading import read_conflicts
from .sight import CannotBeError
from .world import Event, Table, World, apply

Found = tuple[str, int | None, int | None, int | str | None, int | None, str | None]
Settled = tuple[int, str, str, str, int]


@dataclass
class Expected:
    """What the answer must be: the reason (or COMMITTED), every conflict with its latest snapshot, every race settled as

    (change, kind, action, row key, snapshot), and by table the images of the rows after the changes, by key.
    """

    answer: str
    conflicts: set[tuple[Found, int]] = field(default_factory=set)
    settled: set[Settled] = field(default_factory=set)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)


class Oracle:
    """Answers proposals of one log; ``settings`` as the log has them at the moment, ``handlers`` those for rows by name."""

    def __init__(self, settings: m.LogSettings, handlers: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.handlers = handlers or {}
        self.worlds: list[World] = [World()]
        self.events: list[list[Event]] = [[]]
        self.settings = settings
        self.floor = 0
        self.next_file_id = 0

    @property
    def head(self) -> int:
        return len(self.worlds) - 1

    def answer(self, proposal: m.Proposal, now_ms: int) -> Expected:
        """COMMITTED, INVALID, BASE_UNKNOWN, BASE_EXPIRED or CONFLICT, and all that belongs to it."""
        if proposal.base_snapshot_id > self.head:
            return Expected("BASE_UNKNOWN")
        if proposal.base_snapshot_id < self.floor:
            return Expected("BASE_EXPIRED")
        latest: dict[Found, int] = {}

        def found(
            kind: str, snapshot_id: int, *, change: int | None = None, read: int | None = None, **where: Any
        ) -> None:
            key = (kind, change, read, where.get("id"), where.get("file_id"), where.get("key"))
            latest[key] = max(latest.get(key, -1), snapshot_id)

        judge = Judge(self, proposal, now_ms, found)
        try:
            judge.run()
            if proposal.isolation is m.Isolation.SERIALIZABLE:
                for index, read in enumerate(proposal.reads):
                    read_conflicts(self, read, index, proposal.base_snapshot_id, found)
        except (CannotBeError, InvalidChangeError):
            return Expected("INVALID")
        if latest:
            return Expected("CONFLICT", set(latest.items()))
        rows = {i: {key: row.image for key, row in now.items()} for i, now in judge.rows.now.items() if i >= 0}
        return Expected("COMMITTED", settled=judge.rows.settled, rows=rows)

    def commit(self, outcome: m.Outcome) -> None:
        """Take over what the core committed."""
        world, events = apply(self.worlds[-1], outcome)
        self.worlds.append(world)
        self.events.append(events)
        self.next_file_id = outcome.next_file_id
        assert outcome.proposal is not None
        for change in outcome.proposal.changes:
            if isinstance(change, m.ExpireSnapshots):
                self.floor = max(self.floor, min(change.older_than_snapshot_id, self.head))

    def since(self, base: int) -> list[tuple[int, Event]]:
        """What happened after a base, oldest first."""
        return [(s, event) for s in range(base + 1, self.head + 1) for event in self.events[s]]

    def last(self, table: Table) -> Table:
        """A table as it is, or was when it was dropped."""
        return next((w.entries[table.id] for w in reversed(self.worlds) if table.id in w.entries), table)

    def beyond_window(self, base: int) -> bool:
        """Whether the index does not reach back to a base."""
        return base < self.head - self.settings.window_snapshots
