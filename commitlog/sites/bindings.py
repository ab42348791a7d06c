"""Whether what a source calls by a name is what its target calls so: links bring changes by names (rules.md 6).

A name that the target gave to another table or column is the source's only where the source had taken over the snapshot that
did so. Else the two are different things, and what one of them gets would lie in the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.domain.model.definitions import REPLICATED, TableDefinition
from commitlog.domain.model.types import fold
from commitlog.sites.joining import JOIN
from commitlog.sites.kept import outcome_if_kept

_Meant = tuple[str, tuple[int, int]]
"""A column's name, or none for the table's own, and which table and column that is."""


class _Now(NamedTuple):
    """What a table's name and its columns' mean at the target's head, whether links leave that table where it is, and which
    columns are known by which nodes to mean this."""

    head: int
    meant: dict[str, tuple[int, int]]
    is_left: bool
    known_by: set[tuple[str, tuple[str, ...]]]


class Bindings:
    """What names mean at a target; what is known to a node stays known to it, and is looked up once."""

    def __init__(self, target: CommitLog, target_node: str) -> None:
        self._target, self._target_node = target, target_node
        self._known: dict[tuple[str, tuple[str, str]], set[_Meant]] = defaultdict(set)
        self._now: dict[tuple[str, str], _Now] = {}

    def look_anew(self) -> None:
        """Ask the target again, for it may have changed what names mean."""
        self._now.clear()

    def is_left(self, name: tuple[str, str]) -> bool:
        """Whether the target leaves a table where it is, by its property ``replicated`` there."""
        return self._seen(name).is_left

    def tables_in(self, schema: str) -> list[tuple[str, str]]:
        """The tables of a schema at the target's head."""
        tables = self._target.contents().tables(self._target.wait_for_snapshot())
        return [(fold(of), fold(table)) for of, table, _ in tables if fold(of) == schema]

    def unknown(self, name: tuple[str, str], columns: tuple[str, ...], replicated: m.Replicated) -> int | None:
        """The snapshot that gave a table's name, or that of one of its columns, to what the maker of ``replicated`` did not
        know by it; None when there is none."""
        upto, now, _, known_by = self._seen(name)
        if (replicated.node, columns) in known_by:
            return None
        known = self._known[replicated.node, name]
        asked = {(each, now[each]) for each in ("", *map(fold, columns)) if each in now} - known
        ticks = {**{each.node: each.tick for each in replicated.digest}, replicated.node: replicated.tick}
        left = asked and asked - self._meant(name, min(ticks.get(self._target_node, 0) - 1, upto)).items()
        while left:
            since = bisect_left(range(upto), True, key=lambda at: left <= self._meant(name, at).items())
            if not self._is_contained(since, ticks):
                return since
            left, upto = left & self._meant(name, since - 1).items(), since - 1
        known |= asked
        known_by.add((replicated.node, columns))
        return None

    def _seen(self, name: tuple[str, str]) -> _Now:
        found = self._now.get(name)
        if found is None:
            head = self._target.head_snapshot_id()
            table = self._table(name, head)
            is_left = table is not None and table.properties.get(REPLICATED) == "false"
            found = self._now[name] = _Now(head, _names(table), is_left, set())
        return found

    def _meant(self, name: tuple[str, str], snapshot_id: int) -> dict[str, tuple[int, int]]:
        return _names(self._table(name, snapshot_id))

    def _table(self, name: tuple[str, str], snapshot_id: int) -> TableDefinition | None:
        there = self._target.access.table_at(*name, snapshot_id)
        return None if there is None else there.definition

    def _is_contained(self, snapshot_id: int, ticks: Mapping[str, int]) -> bool:
        """Whether a snapshot of the target was known to who had taken over nodes before these ticks; one that is no longer
        kept is from long ago, and who made a site's tables when it joined does not matter."""
        outcomes = [outcome_if_kept(self._target, each.seq) for each in self._target.history(1, snapshot=snapshot_id)]
        proposals = [each.proposal for each in outcomes if each is not None and each.proposal is not None]
        return all(
            each.writer_id == JOIN
            or (
                snapshot_id < ticks.get(self._target_node, 0)
                if each.replicated is None
                else each.replicated.tick < ticks.get(each.replicated.node, 0)
            )
            for each in proposals
        )


def _names(table: TableDefinition | None) -> dict[str, tuple[int, int]]:
    if table is None:
        return {}
    return {"": (table.table_id, 0)} | {fold(each.name): (table.table_id, each.column_id) for each in table.columns}
