"""By what a proposal is judged beside the log's state: row handlers, a reader of statistics, and rules that are taken as if.

A sequencer's rules are what the log and its tables say. Who asks "what if" decides on the same state by other ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from commitlog.domain.model import ColumnStatistics, Granularity, Isolation, Proposal, Row
from commitlog.domain.state.index import SequencerState, TableState

RowHandler: TypeAlias = Callable[[str, "Row | None", "Row | None"], "Row | None"]
"""``handler(conflict kind, committed image, proposed image) -> the image that shall stand`` (None: no row); pure."""
StatisticsDecoder: TypeAlias = Callable[[bytes], tuple[ColumnStatistics, ...]]
"""Expands column statistics that a writer made opaque."""


class RowHandlers(Protocol):
    """What settles races on rows of tables with ``on_conflict`` handler:NAME."""

    def may_be_named(self, name: str) -> bool:
        """Whether a table may ask for this handler."""

    def handler(self, name: str, change: int) -> RowHandler | None:
        """What settles the race that a change (by index) of the proposal met; None when there is none of that name."""


class HandlersByName:
    """The row handlers that are installed where the log is decided."""

    def __init__(self, installed: Mapping[str, RowHandler]) -> None:
        self._installed = installed

    def may_be_named(self, name: str) -> bool:
        """Whether it is installed."""
        return name in self._installed

    def handler(self, name: str, change: int) -> RowHandler | None:
        """The one of that name, whatever the change."""
        return self._installed.get(name)


_NO_HANDLERS = HandlersByName({})


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

    def concern(self, table: TableState) -> bool:
        """Whether a table is among those with other rules."""
        return self.tables is None or table.table_id in self.tables


@dataclass(frozen=True, slots=True)
class Rules:
    """What can change a verdict, but the state and the proposal.

    handlers: what settles races on rows where a table asks for it. decode_statistics: for filters of reads; without it
    opaque statistics prove nothing. others: rules that are taken as if they were set, the last one first.
    """

    handlers: RowHandlers = _NO_HANDLERS
    decode_statistics: StatisticsDecoder | None = None
    others: tuple[OtherRules, ...] = ()

    def isolation_of(self, proposal: Proposal) -> Isolation:
        """Whether what a proposal has read is looked at."""
        for other in reversed(self.others):
            if other.isolation is not None:
                return other.isolation
        return proposal.isolation

    def granularity_since(self, state: SequencerState, table: TableState, base_snapshot_id: int) -> Granularity:
        """How finely deletes and compactions of a table are told apart since a base: beyond the window not at all."""
        if base_snapshot_id < state.index_floor:
            return Granularity.TABLE
        for other in reversed(self.others):
            if other.granularity is not None and other.concern(table):
                return other.granularity
        return state.granularity_of(table)

    def policy_of(self, state: SequencerState, table: TableState) -> str:
        """What settles races on rows of a table."""
        for other in reversed(self.others):
            if other.on_conflict is not None and other.concern(table):
                return other.on_conflict
        return state.policy_of(table)


AS_SET = Rules()
"""As the log and its tables say, with no handlers and no statistics."""
