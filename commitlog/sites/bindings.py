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
from commitlog.sites.joining import JOIN, named_by
from commitlog.sites.kept import outcome_if_kept

_Meant = tuple[str, tuple[int, int]]
"""A column's name, or none for the table's own, and which table and column that is."""


class _Now(NamedTuple):
    """What a table's name and its columns' mean at the target's head, which columns are known by which nodes to mean this,
    whether links leave that table where it is, and which of a node's columns are gone."""

    head: int
    meant: dict[str, tuple[int, int]]
    known_by: set[tuple[str, tuple[str, ...]]]
    is_left: bool
    gone: dict[tuple[str, tuple[str, ...]], frozenset[str]]


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
        return [(fold(of), fold(table)) for of, table, _ in self._tables() if fold(of) == schema]

    def is_dropped(self, name: tuple[str, str], replicated: m.Replicated) -> bool:
        """Whether the target has dropped a table since the last of its own snapshots that the maker of ``replicated`` knew, and
        no other one has its name."""
        seen = self._seen(name)
        if seen.meant:
            return False
        known = self._meant(name, self._known_upto(replicated, seen.head))
        return bool(known) and known[""][0] not in {table_id for _, _, table_id in self._tables()}

    def _tables(self) -> list[tuple[str, str, int]]:
        return self._target.contents().tables(self._target.wait_for_snapshot())

    def _known_upto(self, replicated: m.Replicated, head: int) -> int:
        """The last of the target's own snapshots that the maker knew; -1 for none."""
        return min(_ticks(replicated).get(self._target_node, 0) - 1, head)

    def unknown(self, name: tuple[str, str], columns: tuple[str, ...], replicated: m.Replicated) -> int | None:
        """The snapshot that gave a table's name, or that of one of its columns, to what the maker of ``replicated`` did not
        know by it; None when there is none."""
        upto, now, known_by = self._seen(name)[:3]
        if (replicated.node, columns) in known_by:
            return None
        known = self._known[replicated.node, name]
        asked = {(each, now[each]) for each in ("", *map(fold, columns)) if each in now} - known
        ticks = _ticks(replicated)
        left = asked and asked - self._meant(name, self._known_upto(replicated, upto)).items()
        while left:
            since = bisect_left(range(upto), True, key=lambda at: left <= self._meant(name, at).items())
            if not self._is_contained(since, ticks):
                return since
            left, upto = left & self._meant(name, since - 1).items(), since - 1
        known |= asked
        known_by.add((replicated.node, columns))
        return None

    def gone(self, name: tuple[str, str], columns: tuple[str, ...], replicated: m.Replicated) -> frozenset[str]:
        """Which of some columns the target has dropped since the last of its own snapshots that the maker of ``replicated``
        knew; none where one of them may be there by another name."""
        head, now, _, _, known_gone = self._seen(name)
        found = known_gone.get((replicated.node, columns))
        if found is None:
            given = {fold(each): each for each in columns}
            ticks, upto = _ticks(replicated), self._known_upto(replicated, head)
            meant, live = self._meant(name, upto), set(now.values())
            missing = {each for each in given if each not in now and each in meant and meant[each] not in live}
            new = live - {now[each] for each in given if each in now} - set(meant.values()) if missing else ()
            if any(self._is_contained(self._made_at(name, each, upto, head), ticks) for each in new):
                missing.clear()
            found = known_gone[replicated.node, columns] = frozenset(given[each] for each in missing)
        return found

    def _made_at(self, name: tuple[str, str], column: tuple[int, int], after: int, upto: int) -> int:
        """Which snapshot made a column, or the table itself, that was not there after one and is after another."""
        is_there = bisect_left(range(after + 1, upto), True, key=lambda at: column in self._meant(name, at).values())
        return after + 1 + is_there

    def _seen(self, name: tuple[str, str]) -> _Now:
        found = self._now.get(name)
        if found is None:
            head = self._target.head_snapshot_id()
            table = self._table(name, head)
            is_left = table is not None and table.properties.get(REPLICATED) == "false"
            found = self._now[name] = _Now(head, _names(table), set(), is_left, {})
        return found

    def _meant(self, name: tuple[str, str], snapshot_id: int) -> dict[str, tuple[int, int]]:
        return _names(self._table(name, snapshot_id))

    def _table(self, name: tuple[str, str], snapshot_id: int) -> TableDefinition | None:
        there = self._target.access.table_at(*name, snapshot_id)
        return None if there is None else there.definition

    def _is_contained(self, snapshot_id: int, ticks: Mapping[str, int]) -> bool:
        """Whether a snapshot of the target was known to who had taken over nodes before these ticks; one that is no longer
        kept is from long ago. Of what was told when a site joined, that counts which gave a table its name."""
        outcomes = [outcome_if_kept(self._target, each.seq) for each in self._target.history(1, snapshot=snapshot_id)]
        proposals = [each.proposal for each in outcomes if each is not None and each.proposal is not None]
        return all(
            _is_named_by_known(each, ticks)
            if each.writer_id == JOIN
            else (
                snapshot_id < ticks.get(self._target_node, 0)
                if each.replicated is None
                else each.replicated.tick < ticks.get(each.replicated.node, 0)
            )
            for each in proposals
        )


def _is_named_by_known(told: m.Proposal, ticks: Mapping[str, int]) -> bool:
    maker = named_by(told)
    return maker is None or maker[1] < ticks.get(maker[0], 0)


def _ticks(replicated: m.Replicated) -> dict[str, int]:
    """Of each node the tick before which who made this knew its snapshots."""
    return {**{each.node: each.tick for each in replicated.digest}, replicated.node: replicated.tick}


def _names(table: TableDefinition | None) -> dict[str, tuple[int, int]]:
    if table is None:
        return {}
    return {"": (table.table_id, 0)} | {fold(each.name): (table.table_id, each.column_id) for each in table.columns}
