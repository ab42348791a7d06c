"""Row changes of keyed tables: how they meet what was committed since the base, by BDR's names (rules.md 5, 12.15-18, 12.23).

Detection is apart from policy: ``_insert``, ``_update`` and ``_delete`` find out which of the types a change is;
``_settle`` asks the table's ``on_conflict``. A race that nothing settles becomes a hit; one that was settled a
Resolution. Source of the types: BDR 2.0, "Types of conflict".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, assert_never

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import ROW_CHANGES, Hit, object_of
from commitlog.domain.model import ConflictKind, Effect, ResolutionAction, Row
from commitlog.domain.model.definitions import (
    HANDLER_PREFIX,
    InvalidChangeError,
    TableDefinition,
    quoted,
)
from commitlog.domain.state.index import LOCAL, KeyedRows, Origin, RowVersion, TableState
from commitlog.domain.state.row_keys import given_key, key_of, make_version, provided_value, shown_key

if TYPE_CHECKING:
    from commitlog.domain.deciding.rows import RowPlanner

RowChange: TypeAlias = m.InsertRow | m.UpdateRow | m.DeleteRow
RowHandler: TypeAlias = Callable[[str, "Row | None", "Row | None"], "Row | None"]
"""``handler(conflict kind, committed image, proposed image) -> the image that shall stand`` (None: no row); pure."""

OWN = -1
"""Snapshot of a row version that the proposal itself makes: older than every base, so never a race."""


class Meeting(NamedTuple):
    """A race on one row: its type, and the committed row (by key) that the proposed change met."""

    kind: ConflictKind
    key: str
    snapshot_id: int
    version: RowVersion | None


class RowCheck:
    """One row change of a keyed table, whose definition is as the writer knew it."""

    def __init__(
        self, rows: RowPlanner, table: TableState, known: TableDefinition, change: RowChange, index: int
    ) -> None:
        self.rows = rows
        self.table = table
        self.known = known
        self.change = change
        self.index = index
        self.effect = Effect(table.table_id)
        self.policy = rows.state.policy_of(table)
        origin = change.origin
        self.origin = LOCAL if origin is None else Origin(origin.priority, origin.node)
        self.time_us = rows.now_us if change.row_time_us is None else change.row_time_us

    def run(self) -> Effect:
        """Find out what the change meets, settle it, and return what it does."""
        match self.change:
            case m.InsertRow(row=row):
                self._insert(self.rows.full_row(self.known, row))
            case m.UpdateRow(key=key, row=row):
                self._update(given_key(self.known, key), self.rows.full_row(self.known, row))
            case m.DeleteRow(key=key):
                self._delete(given_key(self.known, key))
            case _:
                assert_never(self.change)
        return self.effect

    def _changed(self, version: RowVersion) -> bool:
        return version.snapshot_id > self.rows.base

    def _at_base(self, key: str) -> RowVersion | None:
        assert self.table.rows is not None
        return self.table.rows.at(key, self.rows.base)

    def _last_change(self, key: str) -> int:
        assert self.table.rows is not None
        return self.table.rows.last_change(key)

    # --- the three kinds ----------------------------------------------------------------------------------------------

    def _insert(self, image: Row) -> None:
        key = key_of(self.known, image)
        self.rows.name_key(self.table, key)
        met = self._rows_met(key, image)
        if not met:
            self._apply(image, key, None, None)
            return
        for met_key, version in met.items():
            if not self._changed(version):
                raise InvalidChangeError(m.InvalidCode.ROW_EXISTS, self._taken(key, met_key))
        if len(met) > 1:
            self._check_references(image)
            for met_key, version in met.items():
                self._refuse(Meeting(ConflictKind.MULTIPLE_UNIQUE, met_key, version.snapshot_id, version))
            self._assume(image, None, None)
            return
        met_key, version = next(iter(met.items()))
        self._settle(Meeting(ConflictKind.INSERT_INSERT, met_key, version.snapshot_id, version), image)

    def _update(self, key: str, image: Row) -> None:
        new_key = key_of(self.known, image)
        self.rows.name_key(self.table, key)
        if new_key != key:
            self.rows.name_key(self.table, new_key)
            self._update_key(key, new_key, image)
            return
        version = self.rows.live(self.table, key)
        if version is not None and not self._changed(version):
            self._update_unraced(key, version, image)
        elif version is not None:
            self._settle(Meeting(ConflictKind.UPDATE_UPDATE, key, version.snapshot_id, version), image)
        elif self._at_base(key) is not None:
            self._settle(Meeting(ConflictKind.UPDATE_DELETE, key, self._last_change(key), None), image)
        elif self.change.origin is not None:
            self._settle(self._not_there_yet(key), image)
        else:
            raise InvalidChangeError(m.InvalidCode.ROW_MISSING, self._missing(key))

    def _not_there_yet(self, key: str) -> Meeting:
        """A replicated update that came before its insert."""
        return Meeting(ConflictKind.INSERT_UPDATE, key, max(self._last_change(key), self.rows.base), None)

    def _update_unraced(self, key: str, version: RowVersion, image: Row) -> None:
        """Apply, unless a raced holder of a UNIQUE value is in the way and a handler is there to decide."""
        raced = [
            Meeting(ConflictKind.UNIQUE, met, v.snapshot_id, v)
            for met, v in self._rows_met(key, image).items()
            if met != key and self._changed(v)
        ]
        if raced and self.policy.startswith(HANDLER_PREFIX):
            self._ask_handler(raced, image)
        else:
            self._apply(image, key, key, version)

    def _update_key(self, key: str, new_key: str, image: Row) -> None:
        raced = [
            Meeting(ConflictKind.UPDATE_KEY, k, self._last_change(k), self.rows.live(self.table, k))
            for k in (key, new_key)
            if self._differs_from_base(k)
        ]
        old, taken = self.rows.live(self.table, key), self.rows.live(self.table, new_key)
        if taken is not None and not self._changed(taken):
            raise InvalidChangeError(m.InvalidCode.ROW_EXISTS, self._taken(new_key, new_key))
        if old is None and self._at_base(key) is None:
            if self.change.origin is None:
                raise InvalidChangeError(m.InvalidCode.ROW_MISSING, self._missing(key))
            self._settle(self._not_there_yet(key), image)
        elif not raced:
            self._apply(image, new_key, key, old)
        elif self.policy.startswith(HANDLER_PREFIX):
            self._ask_handler(raced, image)
        else:
            self._abort(raced, image)

    def _differs_from_base(self, key: str) -> bool:
        version = self.rows.live(self.table, key)
        return self._at_base(key) is not None if version is None else self._changed(version)

    def _delete(self, key: str) -> None:
        self.rows.name_key(self.table, key)
        version = self.rows.live(self.table, key)
        if version is not None and not self._changed(version):
            self._remove(key, version)
        elif version is not None:
            self._settle(Meeting(ConflictKind.UPDATE_DELETE, key, version.snapshot_id, version), None)
        elif self._at_base(key) is not None:
            meeting = Meeting(ConflictKind.DELETE_DELETE, key, self._last_change(key), None)
            self._resolve(meeting, ResolutionAction.SKIPPED, None, None)
        else:
            raise InvalidChangeError(m.InvalidCode.ROW_MISSING, self._missing(key))

    # --- settling -----------------------------------------------------------------------------------------------------

    def _settle(self, meeting: Meeting, proposed: Row | None) -> None:
        if self.policy == "ABORT":
            self._abort([meeting], proposed)
        elif self.policy.startswith(HANDLER_PREFIX):
            self._ask_handler([meeting], proposed)
        elif self._proposed_wins(meeting, proposed):
            self._resolve(meeting, ResolutionAction.APPLIED, proposed, None)
            self._stand(meeting, proposed)
        else:
            self._resolve(meeting, ResolutionAction.SKIPPED, proposed, None)

    def _abort(self, meetings: list[Meeting], proposed: Row | None, detail: str = "") -> None:
        """Refuse what one change met, unless it could never be; later changes see it as it was meant."""
        own_key = None if isinstance(self.change, m.InsertRow) else given_key(self.known, self.change.key)
        gone = None if own_key is None else self.rows.live(self.table, own_key)
        if proposed is not None:
            self._check_references(proposed)
        if proposed is not None and own_key is not None:
            self._check_unique_unraced(proposed, key_of(self.known, proposed), own_key)
        for meeting in meetings:
            self._refuse(meeting, detail)
        if proposed is not None and own_key is not None:
            self._refuse_holders(proposed, key_of(self.known, proposed), own_key)
        self._assume(proposed, own_key, gone)

    def _assume(self, image: Row | None, old_key: str | None, old: RowVersion | None) -> None:
        """Overlay a refused change as it was meant, so that later ones are not blamed for its absence; what refers to the
        row that it was to end (``old``) is among what it meets."""
        if old_key is not None:
            self.rows.put(self.table, old_key, None)
        if image is not None:
            version = make_version(self.known, image, row_id=OWN, snapshot_id=OWN, time_us=0, origin=LOCAL)
            self.rows.put(self.table, key_of(self.known, image), version)
        if old_key is not None and old is not None:
            self._check_children(old_key, old)

    def _proposed_wins(self, meeting: Meeting, proposed: Row | None) -> bool:
        """LAST_UPDATE_WINS against the row as it is at the head (rules.md 12.18); KEEP_EXISTING never."""
        if self.policy != "LAST_UPDATE_WINS" or meeting.version is None:
            return False
        if proposed is None:
            return True
        committed = meeting.version
        if self.time_us != committed.time_us:
            return self.time_us > committed.time_us
        return self.origin <= committed.origin

    def _ask_handler(self, meetings: list[Meeting], proposed: Row | None) -> None:
        """Let the handler settle the first of what one change met; without its answer all of it is refused."""
        meeting = meetings[0]
        name = self.policy.removeprefix(HANDLER_PREFIX)
        handler = self.rows.handlers.get(name)
        committed = None if meeting.version is None else meeting.version.image
        if handler is None:
            raise InvalidChangeError(
                m.InvalidCode.HANDLER_MISSING,
                f"the row handler {quoted(name)} is not installed where the log is decided",
            )
        try:
            answer = handler(str(meeting.kind), committed, proposed)
            image = None if answer is None else self.rows.full_row(self.known, answer)
        except Exception as error:
            self._abort(meetings, proposed, f"the handler {name} failed: {error}")
            return
        if image is not None and key_of(self.known, image) not in self._keys_allowed(meeting, proposed):
            self._abort(meetings, proposed, f"the handler {name} answered with another key")
            return
        self._resolve(meeting, ResolutionAction.HANDLED, proposed, image)
        self._stand(meeting, image)

    def _keys_allowed(self, meeting: Meeting, proposed: Row | None) -> set[str]:
        allowed = set() if meeting.kind is ConflictKind.UNIQUE else {meeting.key}
        if proposed is not None:
            allowed.add(key_of(self.known, proposed))
        if isinstance(self.change, m.UpdateRow):
            allowed.add(given_key(self.known, self.change.key))
        return allowed

    def _stand(self, meeting: Meeting, image: Row | None) -> None:
        """Make ``image`` (None: nothing) the row that the two sides met on."""
        old_key = meeting.key
        if meeting.kind in (ConflictKind.UPDATE_KEY, ConflictKind.UNIQUE) and isinstance(self.change, m.UpdateRow):
            old_key = given_key(self.known, self.change.key)
        version = self.rows.live(self.table, old_key)
        if image is not None:
            self._apply(image, key_of(self.known, image), old_key if version is not None else None, version)
        elif version is not None:
            self._remove(old_key, version)

    def _refuse(self, meeting: Meeting, detail: str = "") -> None:
        where = object_of(self.table, row_key=shown_key(meeting.key))
        self.rows.hits.append((self.index, Hit(meeting.kind, meeting.snapshot_id, where, detail)))

    def _resolve(self, meeting: Meeting, action: ResolutionAction, proposed: Row | None, image: Row | None) -> None:
        commit = self.rows.state.commits.get(meeting.snapshot_id)
        self.rows.resolutions.append(
            m.Resolution(
                change=self.index,
                kind=meeting.kind,
                action=action,
                policy=self.policy,
                object=object_of(self.table, row_key=shown_key(meeting.key)),
                committed_snapshot_id=meeting.snapshot_id,
                committed_proposal_id=None if commit is None else commit.proposal_id,
                committed_writer_id=None if commit is None else commit.writer_id,
                committed_row=None if meeting.version is None else meeting.version.image,
                proposed_row=proposed,
                row=image,
            )
        )
        if action is ResolutionAction.SKIPPED:
            self.effect = replace(self.effect, skipped=True)

    # --- doing --------------------------------------------------------------------------------------------------------

    def _apply(self, image: Row, key: str, old_key: str | None, old: RowVersion | None) -> None:
        """Let ``image`` stand under ``key`` in the place of ``old`` (None: as a new row)."""
        self._check_references(image)
        self._check_unique_unraced(image, key, old_key)
        if self._refuse_holders(image, key, old_key):
            self._assume(image, old_key, old)
            return
        replaced = self.rows.live(self.table, key) if key != old_key else None
        if replaced is not None:
            ends = "two rows" if old is not None else "a row that it was not shown"
            meeting = Meeting(ConflictKind.UPDATE_KEY, key, replaced.snapshot_id, replaced)
            self._refuse(meeting, f"the handler's answer would end {ends}")
            return
        if old is not None and (key == old_key or self.change.kind is m.ChangeKind.INSERT_ROW):
            row_id = old.row_id
        else:
            row_id = self.rows.plan.take_row_ids(self.table, 1)
            self.rows.plan.ids.row_id_starts.append(row_id)
        version = make_version(
            self.known, image, row_id=row_id, snapshot_id=OWN, time_us=self.time_us, origin=self.origin
        )
        if old_key is not None and old_key != key:
            self.rows.put(self.table, old_key, None)
        self.rows.put(self.table, key, version)
        if old is not None and old_key is not None:
            self._check_children(old_key, old)
        self.rows.give_file_id(self.table)
        self.effect = replace(self.effect, ended_row_id=None if old is None else old.row_id, row_id=row_id)

    def _remove(self, key: str, version: RowVersion) -> None:
        self.rows.put(self.table, key, None)
        self._check_children(key, version)
        self.effect = replace(self.effect, ended_row_id=version.row_id)

    def _rows_met(self, key: str, image: Row) -> dict[str, RowVersion]:
        """The live rows that an image hits through its key and UNIQUE values, by key."""
        keys = [key]
        probe = make_version(self.known, image, row_id=OWN, snapshot_id=OWN, time_us=0, origin=LOCAL)
        for number, value in enumerate(probe.unique):
            if value is not None and (holder := self.rows.holder(self.table, number, value)) is not None:
                keys.append(holder)
        versions = {met: self.rows.live(self.table, met) for met in dict.fromkeys(keys)}
        return {met: version for met, version in versions.items() if version is not None}

    def _refuse_holders(self, image: Row, key: str, old_key: str | None) -> bool:
        """Make a hit of every other row that holds one of the image's UNIQUE values; whether there was one."""
        others = {met: v for met, v in self._rows_met(key, image).items() if met not in (key, old_key)}
        for met, version in others.items():
            self._refuse(Meeting(ConflictKind.UNIQUE, met, version.snapshot_id, version))
        return bool(others)

    def _check_unique_unraced(self, image: Row, key: str, old_key: str | None) -> None:
        """No row that is as it was at the base may hold one of the image's UNIQUE values."""
        for met, version in self._rows_met(key, image).items():
            if met not in (key, old_key) and not self._changed(version):
                raise InvalidChangeError(m.InvalidCode.ROW_EXISTS, self._taken(key, met))

    # --- references ---------------------------------------------------------------------------------------------------

    def _check_references(self, image: Row) -> None:
        """Every parent of an image must be there; one that was deleted since the base is a conflict."""
        probe = make_version(self.known, image, row_id=OWN, snapshot_id=OWN, time_us=0, origin=LOCAL)
        own_key = key_of(self.known, image)
        for key, value in zip(self.known.foreign_keys, probe.references, strict=True):
            if value is None:
                continue
            parent = self._parent(key.ref_table_id)
            if parent is self.table and provided_value(self.known, key.ref_column_ids, own_key, probe) == value:
                continue
            if self.rows.provider(parent, key.ref_column_ids, value) is None:
                self._parent_missing(parent, key.ref_column_ids, value)

    def _parent(self, table_id: int) -> TableState:
        parent = self.rows.state.tables.get(table_id)
        if parent is None:
            parent = next(
                t for t in self.rows.plan.names.values() if isinstance(t, TableState) and t.table_id == table_id
            )
        return parent

    def _parent_missing(self, parent: TableState, ref_column_ids: tuple[int, ...], value: str) -> None:
        broken = f"no row {quoted(shown_key(value))} in table {quoted(parent.name)}, which a foreign key refers to"
        assert parent.rows is not None
        if self.rows.base < self.rows.state.index_floor:
            last = max(parent.last.get(kind, -1) for kind in ROW_CHANGES)
            if last <= self.rows.base:
                raise InvalidChangeError(m.InvalidCode.PARENT_MISSING, broken)
            self.rows.hits.append((self.index, Hit(ConflictKind.TABLE_ROWS_CHANGED, last, object_of(parent))))
            return
        for key in self._base_providers(parent, parent.rows, ref_column_ids, value):
            if not self.rows.is_overlaid(parent, key):
                where = object_of(parent, row_key=shown_key(key))
                self.rows.hits.append((self.index, Hit(ConflictKind.FOREIGN_KEY, parent.rows.last_change(key), where)))
                return
        raise InvalidChangeError(m.InvalidCode.PARENT_MISSING, broken)

    def _base_providers(
        self, parent: TableState, rows: KeyedRows, ref_column_ids: tuple[int, ...], value: str
    ) -> Iterator[str]:
        """Keys of rows that offered this value at the base and were changed since."""
        candidates = [value] if ref_column_ids == parent.definition.primary_key else list(rows.history)
        for key in candidates:
            version = rows.at(key, self.rows.base)
            if version is not None and provided_value(parent.definition, ref_column_ids, key, version) == value:
                yield key

    def _check_children(self, key: str, gone: RowVersion) -> None:
        """Nobody may refer to what ``gone`` offered: INVALID, or a conflict with what came to refer to it since the base."""
        for child, number in self.rows.referrers(self.table):
            ref_column_ids = child.definition.foreign_keys[number].ref_column_ids
            value = provided_value(self.known, ref_column_ids, key, gone)
            if value is None or self.rows.provider(self.table, ref_column_ids, value) is not None:
                continue
            for child_key in sorted(self.rows.referring(child, number, value)):
                self._check_child(child, number, child_key, value)

    def _check_child(self, child: TableState, number: int, child_key: str, value: str) -> None:
        assert child.rows is not None
        still = (
            f"row {quoted(shown_key(child_key))} of table {quoted(child.name)} still refers to row "
            f"{quoted(shown_key(value))} of table {quoted(self.table.name)}"
        )
        version = self.rows.live(child, child_key)
        if version is None or version.snapshot_id == OWN:
            raise InvalidChangeError(m.InvalidCode.ROW_REFERENCED, still)
        if self.rows.base < self.rows.state.index_floor:
            raced = version.snapshot_id > self.rows.base
        else:
            at_base = child.rows.at(child_key, self.rows.base)
            raced = at_base is None or at_base.references[number] != value
        if not raced:
            raise InvalidChangeError(m.InvalidCode.ROW_REFERENCED, still)
        where = object_of(child, row_key=shown_key(child_key))
        self.rows.hits.append((self.index, Hit(ConflictKind.FOREIGN_KEY, version.snapshot_id, where)))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _missing(self, key: str) -> str:
        return f"table {quoted(self.table.name)} has no row {quoted(shown_key(key))}"

    def _taken(self, key: str, met: str) -> str:
        if key == met:
            return f"table {quoted(self.table.name)} already has a row {quoted(shown_key(key))}"
        return f"row {quoted(shown_key(met))} of table {quoted(self.table.name)} already holds one of the UNIQUE values"
