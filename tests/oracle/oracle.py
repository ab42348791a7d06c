"""The slow, obvious way to a verdict: look at every snapshot after the base, one after another (DESIGN 4, last line).

Written apart from the core's index: it keeps a copy of the world for every snapshot and compares change by change. It
judges the verdict, the reason and the set of conflicts; the ids of what committed it takes from the core's outcomes.
"""

from __future__ import annotations

from typing import Any

from commitlog.domain import model as m
from commitlog.domain.definitions import InvalidChangeError

from .judging import Judge
from .reading import read_conflicts
from .world import Event, World, apply

Found = tuple[str, int | None, int | None, int | str | None, int | None, str | None]


class Oracle:
    """Answers proposals of one log; ``settings`` as the log has them at the moment."""

    def __init__(self, settings: m.LogSettings) -> None:
        self.worlds: list[World] = [World()]
        self.events: list[list[Event]] = [[]]
        self.settings = settings
        self.floor = 0
        self.next_file_id = 0

    @property
    def head(self) -> int:
        return len(self.worlds) - 1

    def answer(self, proposal: m.Proposal, now_ms: int) -> tuple[str, set[tuple[Found, int]]]:
        """COMMITTED, INVALID, BASE_UNKNOWN, BASE_EXPIRED or CONFLICT, and every conflict with its latest snapshot."""
        if proposal.base_snapshot_id > self.head:
            return "BASE_UNKNOWN", set()
        if proposal.base_snapshot_id < self.floor:
            return "BASE_EXPIRED", set()
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
        except InvalidChangeError:
            return "INVALID", set()
        return ("CONFLICT" if latest else "COMMITTED"), set(latest.items())

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

    def beyond_window(self, base: int) -> bool:
        """Whether the index does not reach back to a base."""
        return base < self.head - self.settings.window_snapshots
