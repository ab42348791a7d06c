"""Whether what a source calls by a name is what its target calls so: links bring changes by names (rules.md 6).

A name that the target gave to another table or column is the source's only where the source had taken over the snapshot that
did so. Else the two are different things, and what one of them gets would lie in the other. A name that the target has for
nothing any more may be that of something which it calls otherwise since, and of which the source knows only the old name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.domain.model.definitions import EndedColumn, TableDefinition
from commitlog.domain.model.types import fold
from commitlog.sites.kept import maker_of

_Meant = tuple[str, tuple[int, int]]
"""A column's name, or none for the table's own, and which table and column that is."""


class _Now(NamedTuple):
    """What a table's name and its columns' mean at the target's head, where that table is, and whether links leave it there.

    upto: the snapshot up to which it had the name. known_by: which columns are known by which nodes to mean this. missing:
    which of some columns it has not.
    """

    head: int
    upto: int
    place: tuple[str, str]
    meant: dict[str, tuple[int, int]]
    known_by: set[tuple[str, tuple[str, ...]]]
    is_left: bool
    missing: dict[tuple[str, ...], list[str]]


class Bindings:
    """What names mean at a target; what is known to a node stays known to it while it means the same by names, and is looked up
    once."""

    def __init__(self, target: CommitLog, target_node: str) -> None:
        self._target, self._target_node = target, target_node
        self._known: dict[tuple[str, tuple[str, str]], set[_Meant]] = defaultdict(set)
        self._names: object = None
        self._now: dict[tuple[str, str], _Now] = {}
        self._moved: dict[tuple[tuple[str, str], tuple[bool, ...]], _Now] = {}
        self._changes: dict[tuple[str, str], list[int]] = {}
        self._makers: dict[int, tuple[str, int] | None] = {}
        self._ends: dict[tuple[int, str], list[EndedColumn]] = {}

    def look_anew(self) -> None:
        """Ask the target again, for it may have changed what names mean."""
        self._now.clear()
        self._moved.clear()
        self._changes.clear()
        self._ends.clear()

    def ask_anew(self, names: object) -> None:
        """Forget what is known where the source may mean something else by a name than before: ``names`` is another one."""
        if names is not self._names:
            self._names = names
            self._known.clear()
            for seen in (*self._now.values(), *self._moved.values()):
                seen.known_by.clear()

    def is_left(self, name: tuple[str, str], replicated: m.Replicated) -> bool:
        """Whether the target leaves a table where it is, by its property ``replicated`` there."""
        return self._seen(name, replicated).is_left

    def place(self, name: tuple[str, str], replicated: m.Replicated) -> tuple[str, str]:
        """What the target calls by now what the maker of ``replicated`` calls by a name."""
        return self._seen(name, replicated).place

    def tables_in(self, schema: str) -> list[tuple[str, str]]:
        """The tables of a schema at the target's head."""
        return [(fold(of), fold(table)) for of, table, _ in self._tables() if fold(of) == schema]

    def has_views(self, schema: str) -> bool:
        """Whether a schema has views at the target's head."""
        head = self._target.wait_for_snapshot()
        return schema in map(fold, self._target.contents().schemas_with_views(head))

    def is_dropped(self, name: tuple[str, str], replicated: m.Replicated) -> bool:
        """Whether the target has dropped the table that the maker of ``replicated`` knew by a name which none has now."""
        lost = None if self._at_head(name).meant else self._lost(name, replicated)
        return lost is not None and all(table_id != lost[0] for _, _, table_id in self._tables())

    def _lost(self, name: tuple[str, str], replicated: m.Replicated) -> tuple[int, int] | None:
        """The table that the maker of ``replicated`` knew by a name, and the snapshot that took the name from it without the
        maker's knowledge; None when there is none."""
        for ended_at in self._namings(name):
            before, now = self._meant(name, ended_at - 1), self._meant(name, ended_at)
            has_ended = before and before[""] != now.get("")
            if has_ended and self._since(name, {("", before[""])}, ended_at - 1, replicated) is None:
                return before[""][0], ended_at
        return None

    def _tables(self) -> list[tuple[str, str, int]]:
        return self._target.contents().tables(self._target.wait_for_snapshot())

    def unknown(self, name: tuple[str, str], columns: tuple[str, ...], replicated: m.Replicated) -> int | None:
        """The snapshot since which a table's name, or a column's, means what the maker of ``replicated`` did not know by it;
        None when it knew all."""
        seen = self._seen(name, replicated)
        if (replicated.node, columns) in seen.known_by:
            return None
        known = self._known[replicated.node, name]
        asked = {(each, seen.meant[each]) for each in ("", *map(fold, columns)) if each in seen.meant} - known
        late = asked - self._meant(name, seen.upto).items() if seen.upto < seen.head else set()
        since = self._since(name, asked - late, seen.upto, replicated)
        if since is None:
            since = self._since(seen.place, late, seen.head, replicated)
        if since is None:
            known |= asked
            seen.known_by.add((replicated.node, columns))
        return since

    def _since(self, name: tuple[str, str], asked: set[_Meant], upto: int, replicated: m.Replicated) -> int | None:
        """The last snapshot unknown to the maker that gave a name what it means at ``upto``; None when all is known."""
        ticks = _ticks(replicated)
        # The maker knew all that the target had then, and by what it took over since its names may mean something else.
        last_known = min(ticks.get(self._target_node, 0) - 1, upto)
        left, given_at = set(asked), dict[_Meant, int]()
        for at in self._namings(name) if left else ():
            if at <= last_known or not left:
                break
            if at > upto:
                continue
            now, before = self._meant(name, at), self._meant(name, at - 1)
            changed = {each for each in left if now.get(each[0]) != before.get(each[0])}
            given_at |= {each: given_at.get(each, at) for each in changed}
            if changed and self._is_contained(at, ticks):
                if changed - now.items():
                    return max(given_at[each] for each in changed - now.items())
                left -= changed
        left = left and left - self._meant(name, last_known).items()
        return max((given_at.get(each, upto) for each in left), default=None)

    def other_names(
        self, name: tuple[str, str], columns: tuple[str, ...], replicated: m.Replicated
    ) -> Mapping[str, str | None]:
        """What some columns are called at the target that lost their name there, None where they were dropped: those that the
        maker of ``replicated`` knew, without knowing of that."""
        seen = self._seen(name, replicated)
        missing = seen.missing.get(columns)
        if missing is None:
            missing = seen.missing[columns] = [each for each in columns if fold(each) not in seen.meant]
        if not missing:
            return {}
        # The same name may have meant another column before the maker knew of the target's last snapshots.
        ends = {each: self._known_end(fold(each), seen, replicated) for each in missing}
        now = {column_id: column for column, (_, column_id) in seen.meant.items() if column}
        return {each: now.get(end.column_id) for each, end in ends.items() if end is not None}

    def _known_end(self, column: str, seen: _Now, replicated: m.Replicated) -> EndedColumn | None:
        """The end of a column's name that the maker of ``replicated`` knew nothing of, while it knew what had that name."""
        if not seen.meant:
            return None
        key = seen.meant[""][0], column
        if key not in self._ends:
            self._ends[key] = self._target.contents().columns_ended(*key)
        ticks = _ticks(replicated)
        for end in self._ends[key]:
            if self._is_contained(end.ended_at, ticks):
                return None
            if end.began_at < ticks.get(self._target_node, 0) or self._is_contained(end.began_at, ticks):
                return end
        return None

    def _namings(self, name: tuple[str, str]) -> list[int]:
        """The target's snapshots that may have changed what a name means, the newest first."""
        if name not in self._changes:
            self._changes[name] = self._target.contents().namings(*name)
        return self._changes[name]

    def _seen(self, name: tuple[str, str], replicated: m.Replicated) -> _Now:
        """What the maker of ``replicated`` means by a name: what has it now, else what had it when the maker last knew."""
        found = self._at_head(name)
        if found.meant:
            return found
        ticks = _ticks(replicated)
        key = name, tuple(self._is_contained(at, ticks) for at in self._namings(name))
        if key not in self._moved:
            self._moved[key] = self._moved_from(name, replicated) or found
        return self._moved[key]

    def _at_head(self, name: tuple[str, str]) -> _Now:
        found = self._now.get(name)
        if found is None:
            head = self._target.head_snapshot_id()
            found = self._now[name] = _now(head, head, name, self._table(name, head))
        return found

    def _moved_from(self, name: tuple[str, str], replicated: m.Replicated) -> _Now | None:
        """What is called otherwise by now; None when that is no table any more, or was none."""
        lost = self._lost(name, replicated)
        if lost is None or self._is_contained(lost[1], _ticks(replicated)):
            return None
        head = self._target.wait_for_snapshot()
        for schema, table, table_id in self._target.contents().tables(head):
            if table_id == lost[0]:
                place = schema, table
                return _now(head, lost[1] - 1, place, self._table(place, head))
        return None

    def _meant(self, name: tuple[str, str], snapshot_id: int) -> dict[str, tuple[int, int]]:
        return _names(self._table(name, snapshot_id))

    def _table(self, name: tuple[str, str], snapshot_id: int) -> TableDefinition | None:
        there = self._target.access.table_at(*name, snapshot_id)
        return None if there is None else there.definition

    def _is_contained(self, snapshot_id: int, ticks: Mapping[str, int]) -> bool:
        """Whether a node that had taken over others up to these ticks knew a snapshot of the target; one whose maker is
        not known any more is from long ago."""
        if snapshot_id not in self._makers:
            self._makers[snapshot_id] = maker_of(self._target, self._target_node, snapshot_id)
        maker = self._makers[snapshot_id]
        return maker is None or maker[1] < ticks.get(maker[0], 0)


def _ticks(replicated: m.Replicated) -> dict[str, int]:
    """Of each node the tick before which who made this knew its snapshots."""
    return {**{each.node: each.tick for each in replicated.digest}, replicated.node: replicated.tick}


def _now(head: int, upto: int, place: tuple[str, str], table: TableDefinition | None) -> _Now:
    return _Now(head, upto, place, _names(table), set(), table is not None and not table.is_replicated, {})


def _names(table: TableDefinition | None) -> dict[str, tuple[int, int]]:
    if table is None:
        return {}
    return {"": (table.table_id, 0)} | {fold(each.name): (table.table_id, each.column_id) for each in table.columns}
