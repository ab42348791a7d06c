"""What a projector tells of itself: for health, metrics and tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from commitlog.domain.model import ConflictKind, Outcome, ResolutionAction
from commitlog.observing.durations import Durations

_MOVED = (ResolutionAction.HELD, ResolutionAction.RELEASED)
_BETWEEN_SITES = (
    ConflictKind.INSERT_INSERT,
    ConflictKind.UPDATE_UPDATE,
    ConflictKind.UPDATE_DELETE,
    ConflictKind.UPDATE_KEY,
    ConflictKind.DELETE_DELETE,
    ConflictKind.UNIQUE,
    ConflictKind.MULTIPLE_UNIQUE,
    ConflictKind.FOREIGN_KEY,
)


@dataclass(slots=True)
class ProjectorStatus:
    """What a projector has done, for those who watch it.

    Attributes:
        applied_seq: the last outcome in the catalog; -1 before anything is known of it.
        next_offset: the first record of the results that it has not heeded; 0 before it is known.
        head_snapshot_id: the head that readers see.
        batches: SQL transactions.
        visible: by the clocks, from the decision of each batch's first outcome until it was visible.
        restarts: how often it began again.
        is_standby: whether it waits for its turn.
        site_conflicts: rows that several sites had written, and one stands, by kind.
        rows_moved: those that were held back, and those that stood after all or were given up.

    Kinds and actions are counted from 0 on: of a counter that first is there with its first count, nobody sees that one rise.
    """

    applied_seq: int = -1
    next_offset: int = 0
    head_snapshot_id: int = 0
    batches: int = 0
    visible: Durations = field(default_factory=Durations)
    restarts: int = 0
    is_standby: bool = False
    site_conflicts: Counter[ConflictKind] = field(default_factory=lambda: Counter(dict.fromkeys(_BETWEEN_SITES, 0)))
    rows_moved: Counter[ResolutionAction] = field(default_factory=lambda: Counter(dict.fromkeys(_MOVED, 0)))

    def forget_position(self) -> None:
        """What the catalog holds is not known any more, as another projector writes it."""
        self.applied_seq, self.next_offset, self.head_snapshot_id = -1, 0, 0

    def note_sites(self, outcomes: Iterable[Outcome]) -> None:
        """Count what became of rows that several sites had written."""
        for outcome in outcomes:
            is_brought = outcome.proposal is not None and outcome.proposal.replicated is not None
            for told in outcome.resolutions:
                if told.action in _MOVED:
                    self.rows_moved[told.action] += 1
                if is_brought and told.action is not ResolutionAction.RELEASED:
                    self.site_conflicts[told.kind] += 1
