"""Deciding as if other rules had been set: the same state, seen through a view in which some settings are others.

Nothing is copied and nothing changes: the view shares everything with the state that it is made of, so it is good for
decisions until that state replays its next outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from commitlog.domain.model import Granularity, Isolation, Proposal
from commitlog.domain.state.index import SequencerState, TableState


@dataclass(frozen=True, slots=True)
class OtherRules:
    """What is to be taken instead of what the proposal, the tables and the log say; None leaves it as it is.

    tables: the ids of the tables whose granularity and policy are others; None means every table.
    """

    isolation: Isolation | None = None
    granularity: Granularity | None = None
    on_conflict: str | None = None
    tables: frozenset[int] | None = None

    def __bool__(self) -> bool:
        return any(rule is not None for rule in (self.isolation, self.granularity, self.on_conflict))

    def seen(self, state: SequencerState) -> SequencerState:
        """The state under these rules: to decide on, not to replay into."""
        return _SeenState(state, self) if self.granularity is not None or self.on_conflict is not None else state

    def apply(self, proposal: Proposal) -> Proposal:
        """The proposal under these rules."""
        return proposal if self.isolation is None else replace(proposal, isolation=self.isolation)

    def concern(self, table: TableState) -> bool:
        """Whether a table is among those with other rules."""
        return self.tables is None or table.table_id in self.tables


class _SeenState(SequencerState):
    def __init__(self, state: SequencerState, rules: OtherRules) -> None:
        vars(self).update(vars(state))
        self._seen = state
        self._rules = rules

    def granularity_of(self, table: TableState) -> Granularity:
        if self._rules.granularity is not None and self._rules.concern(table):
            return self._rules.granularity
        return self._seen.granularity_of(table)

    def policy_of(self, table: TableState) -> str:
        if self._rules.on_conflict is not None and self._rules.concern(table):
            return self._rules.on_conflict
        return self._seen.policy_of(table)
