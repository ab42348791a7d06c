"""Row changes of keyed tables: how they meet what was committed since the base, by BDR's names (rules.md 5, 12.15-18, 12.23).

Detection is apart from policy: ``_insert``, ``_update`` and ``_delete`` find out which of the types a change is;
``_settle`` asks the table's ``on_conflict``. A race that nothing settles becomes a hit; one that was settled a
Resolution. Source of the types: BDR 2.0, "Types of conflict".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, assert_never

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Hit, gone_deed, object_of
from commitlog.domain.deciding.plan import Plan
from commitlog.domain.deciding.row_overlay import OWN
from commitlog.domain.deciding.row_references import check_children, check_references
from commitlog.domain.model import json_values
from commitlog.domain.model.definitions import HANDLER_PREFIX, TableDefinition, quoted
from commitlog.domain.model.row_images import check_numbers, complete_row
from commitlog.domain.model.row_width import check_row_width
from commitlog.domain.model.texts import check_row_text
from commitlog.domain.state.index import TableState
from commitlog.domain.state.row_keys import (
    RowChange,
    given_key,
    key_of,
    make_version,
    new_identity,
    origin_of,
    shown_key,
    time_us_of,
    unique_values,
)
from commitlog.domain.state.rows import LOCAL, Origin, RowVersion
from commitlog.errors import InvalidChangeError

_REASON_LENGTH_MAX = 300
"""Of what a handler says when it fails."""


class Meeting(NamedTuple):
    """A race on one row: its type, and the committed row (by key) that the proposed change met."""

    kind: m.ConflictKind
    key: str
    snapshot_id: int
    version: RowVersion | None


class RowCheck:
    """One row change of a keyed table, whose definition is as the writer knew it."""

    def __init__(
        self, plan: Plan, table: TableState, definition: TableDefinition, change: RowChange, index: int
    ) -> None:
        self.plan = plan
        self.rows = plan.rows
        self.table = table
        self.definition = definition
        self.change = change
        self.index = index
        self.effect = m.Effect(table.table_id)
        self.policy = plan.rules.policy_of(plan.state, table)
        self.origin = origin_of(change)
        self.time_us = time_us_of(change, plan.decided_at_ms)

    def run(self) -> m.Effect:
        """Find out what the change meets, settle it, and return what it does."""
        match self.change:
            case m.InsertRow(row=row):
                self._insert(full_row(self.plan, self.definition, row))
            case m.UpdateRow(key=key, row=row):
                self._update(named_key(self.definition, key), full_row(self.plan, self.definition, row))
            case m.DeleteRow(key=key):
                self._delete(named_key(self.definition, key))
            case _:
                assert_never(self.change)
        return self.effect

    def _changed(self, version: RowVersion) -> bool:
        return version.snapshot_id > self.plan.base

    def _raced_at(self, key: str, version: RowVersion) -> int | None:
        """The snapshot that made what stands under a key, or that it met if the changeset wanted that row to be another;
        None if the row is as at the base or as the changeset made it."""
        return version.snapshot_id if self._changed(version) else self.rows.settled_by(self.table, key)

    def _at_base(self, key: str) -> RowVersion | None:
        assert self.table.rows is not None
        return self.table.rows.at(key, self.plan.base)

    def _is_held(self, key: str) -> bool:
        """Whether there is a version of another site that cannot stand: a delete gives it up."""
        assert self.table.rows is not None
        return key in self.table.rows.held and not self.rows.is_overlaid(self.table, key)

    def _last_change(self, key: str) -> int:
        assert self.table.rows is not None
        return self.table.rows.last_change(key)

    # --- the three kinds ----------------------------------------------------------------------------------------------

    def _insert(self, image: m.Row) -> None:
        key = key_of(self.definition, image)
        self.plan.bounds.name_key(self.table, key)
        met = self._rows_met(key, image)
        if not met:
            self._apply(image, key, None, None)
            return
        kind = m.ConflictKind.INSERT_INSERT if len(met) == 1 else m.ConflictKind.MULTIPLE_UNIQUE
        meetings: list[Meeting] = []
        for met_key, version in met.items():
            raced_at = self._raced_at(met_key, version)
            if raced_at is None:
                raise InvalidChangeError(m.InvalidCode.ROW_EXISTS, self._taken(image, met_key, version))
            meetings.append(Meeting(kind, met_key, raced_at, version))
        if len(met) > 1:
            self._abort(meetings, image, "one of several rows that it meets")
        elif all(self._changed(version) for version in met.values()):
            self._settle(meetings[0], image)
        else:
            self._abort(meetings, image)

    def _update(self, key: str, image: m.Row) -> None:
        new_key = key_of(self.definition, image)
        self.plan.bounds.name_key(self.table, key)
        if new_key != key:
            self.plan.bounds.name_key(self.table, new_key)
            self._update_key(key, new_key, image)
            return
        version = self.rows.live(self.table, key)
        if version is not None and not self._changed(version):
            self._update_unraced(key, version, image)
        elif version is not None:
            self._settle(Meeting(m.ConflictKind.UPDATE_UPDATE, key, version.snapshot_id, version), image)
        elif self._at_base(key) is not None:
            self._settle(Meeting(m.ConflictKind.UPDATE_DELETE, key, self._last_change(key), None), image)
        elif self.change.origin is not None:
            self._settle(self._not_there_yet(key), image)
        else:
            raise InvalidChangeError(m.InvalidCode.ROW_MISSING, self._missing(key))

    def _not_there_yet(self, key: str) -> Meeting:
        """A replicated update that came before its insert."""
        return Meeting(m.ConflictKind.INSERT_UPDATE, key, max(self._last_change(key), self.plan.base), None)

    def _update_unraced(self, key: str, version: RowVersion, image: m.Row) -> None:
        """Apply, unless a raced holder of a UNIQUE value is in the way and a handler is there to decide."""
        raced = [
            Meeting(m.ConflictKind.UNIQUE, met, v.snapshot_id, v)
            for met, v in self._rows_met(key, image).items()
            if met != key and self._changed(v)
        ]
        if raced and self.policy.startswith(HANDLER_PREFIX):
            self._ask_handler(raced, image)
        else:
            self._apply(image, key, key, version)

    def _update_key(self, key: str, new_key: str, image: m.Row) -> None:
        raced = [
            Meeting(m.ConflictKind.UPDATE_KEY, k, self._last_change(k), self.rows.live(self.table, k))
            for k in (key, new_key)
            if self._differs_from_base(k)
        ]
        old, taken = self.rows.live(self.table, key), self.rows.live(self.table, new_key)
        if taken is not None and not self._changed(taken):
            raise InvalidChangeError(m.InvalidCode.ROW_EXISTS, self._taken(image, new_key, taken))
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
        self.plan.bounds.name_key(self.table, key)
        version = self.rows.live(self.table, key)
        if version is not None and not self._changed(version):
            self._remove(key, version)
        elif version is not None:
            self._settle(Meeting(m.ConflictKind.UPDATE_DELETE, key, version.snapshot_id, version), None)
        elif self._is_held(key):
            self.rows.put(self.table, key, None)
        elif self._at_base(key) is not None:
            meeting = Meeting(m.ConflictKind.DELETE_DELETE, key, self._last_change(key), None)
            self._resolve(meeting, m.ResolutionAction.SKIPPED, None, None)
        else:
            raise InvalidChangeError(m.InvalidCode.ROW_MISSING, self._missing(key))

    # --- settling -----------------------------------------------------------------------------------------------------

    def _settle(self, meeting: Meeting, proposed: m.Row | None) -> None:
        if self.policy == "ABORT":
            self._abort([meeting], proposed)
        elif self.policy.startswith(HANDLER_PREFIX):
            self._ask_handler([meeting], proposed)
        elif self._proposed_wins(meeting, proposed):
            self._resolve(meeting, m.ResolutionAction.APPLIED, proposed, None)
            self._stand_or_refuse([meeting], proposed, proposed)
        else:
            self._resolve(meeting, m.ResolutionAction.SKIPPED, proposed, None)

    def _abort(self, meetings: list[Meeting], proposed: m.Row | None, detail: str = "") -> None:
        """Refuse what one change met, unless it could never be; later changes see it as it was meant."""
        own_key = None if isinstance(self.change, m.InsertRow) else given_key(self.definition, self.change.key)
        gone = None if own_key is None else self.rows.live(self.table, own_key)
        if proposed is not None:
            check_references(self.plan, self.index, self.table, self.definition, proposed)
        if proposed is not None and own_key is not None:
            self._check_unique_unraced(proposed, key_of(self.definition, proposed), own_key)
        for meeting in meetings:
            self._refuse(meeting, proposed, detail)
        if proposed is not None and own_key is not None:
            self._refuse_holders(proposed, key_of(self.definition, proposed), own_key)
        self._assume(proposed, own_key, gone)

    def _assume(self, image: m.Row | None, old_key: str | None, old: RowVersion | None) -> None:
        """Overlay a refused change as it was meant, so that later ones are not blamed for its absence; what refers to the
        row that it was to end (``old``) is among what it meets."""
        self.rows.put_refused(self.table, self.definition, old_key, image)
        if old_key is not None and old is not None:
            check_children(self.plan, self.index, self.table, self.definition, old_key, old)

    def _proposed_wins(self, meeting: Meeting, proposed: m.Row | None) -> bool:
        """LAST_UPDATE_WINS against the row as it is at the head (rules.md 12.18); KEEP_EXISTING never."""
        if self.policy != "LAST_UPDATE_WINS" or meeting.version is None:
            return False
        if proposed is None:
            return True
        committed = meeting.version
        if self.time_us != committed.time_us:
            return self.time_us > committed.time_us
        return self._made_by(self.origin) <= self._made_by(committed.origin)

    def _made_by(self, origin: Origin) -> Origin:
        """Rows that were made here do not name this log, which may have become a node since."""
        node = self.plan.state.node
        return Origin(node.priority, node.name) if node is not None and origin == LOCAL else origin

    def _ask_handler(self, meetings: list[Meeting], proposed: m.Row | None) -> None:
        """Let the handler settle the first of what one change met; without its answer all of it is refused."""
        meeting = meetings[0]
        name = self.policy.removeprefix(HANDLER_PREFIX)
        handler = self.plan.rules.handlers.handler(name, self.index)
        committed = None if meeting.version is None else meeting.version.image
        if handler is None:
            raise InvalidChangeError(
                m.InvalidCode.HANDLER_MISSING,
                f"the row handler {quoted(name)} is not installed where the log is decided",
            )
        try:
            answer = handler(str(meeting.kind), copied_row(committed), copied_row(proposed))
            image = copied_row(answer)
            if image is not None:
                check_row_text(image, "the answer")
                image = full_row(self.plan, self.definition, image)
        except (Exception, SystemExit) as error:
            self._abort(meetings, proposed, f"the handler {name} failed: {quoted(str(error), _REASON_LENGTH_MAX)}")
            return
        if image is not None and key_of(self.definition, image) not in self._keys_allowed(meeting, proposed):
            self._abort(meetings, proposed, f"the handler {name} answered with another key")
            return
        self._resolve(meeting, m.ResolutionAction.HANDLED, proposed, image)
        self._stand_or_refuse(meetings, proposed, image)

    def _keys_allowed(self, meeting: Meeting, proposed: m.Row | None) -> set[str]:
        allowed = set() if meeting.kind is m.ConflictKind.UNIQUE else {meeting.key}
        if proposed is not None:
            allowed.add(key_of(self.definition, proposed))
        if isinstance(self.change, m.UpdateRow):
            allowed.add(given_key(self.definition, self.change.key))
        return allowed

    def _stand_or_refuse(self, meetings: list[Meeting], proposed: m.Row | None, image: m.Row | None) -> None:
        """Let ``image`` stand; what others do not let stand settles nothing, and is refused as where nobody settles: the
        writer has asked for something that could be, but for the race."""
        keys = [meetings[0].key] if image is None else [meetings[0].key, key_of(self.definition, image)]
        if not isinstance(self.change, m.InsertRow):
            keys.append(given_key(self.definition, self.change.key))
        before = {key: self.rows.live(self.table, key) for key in keys}
        hits = len(self.plan.row_hits)
        try:
            self._stand(meetings[0], image)
        except InvalidChangeError as error:
            del self.plan.row_hits[hits:]
            changed = [key for key in before if self.rows.live(self.table, key) is not before[key]]
            for key in changed:
                self.rows.put(self.table, key, None)
            for key in changed:
                if before[key] is not None:
                    self.rows.put(self.table, key, before[key])
            self._abort(meetings, proposed, f"{self.policy} cannot settle it: {error}")

    def _stand(self, meeting: Meeting, image: m.Row | None) -> None:
        """Make ``image`` (None: nothing) the row that the two sides met on."""
        old_key = meeting.key
        if meeting.kind in (m.ConflictKind.UPDATE_KEY, m.ConflictKind.UNIQUE) and isinstance(self.change, m.UpdateRow):
            old_key = given_key(self.definition, self.change.key)
        version = self.rows.live(self.table, old_key)
        if image is not None:
            self._apply(image, key_of(self.definition, image), old_key if version is not None else None, version)
        elif version is not None:
            self._remove(old_key, version)

    def _refuse(self, meeting: Meeting, proposed: m.Row | None, detail: str = "") -> None:
        where = object_of(self.table, row_key=shown_key(meeting.key))
        details = [detail] if detail else []
        # An update that gives a row another key shares values with that row itself.
        is_other = meeting.kind is not m.ConflictKind.UPDATE_KEY
        if (
            is_other
            and proposed is not None
            and meeting.version is not None
            and meeting.key != key_of(self.definition, proposed)
        ):
            details += [f"the same {each}" for each in self._shared(proposed, meeting.version)]
        is_gone = meeting.version is None and meeting.kind is not m.ConflictKind.INSERT_UPDATE
        deed = gone_deed(self.table, meeting.snapshot_id) if is_gone and not self._is_held(meeting.key) else ""
        hit = Hit(meeting.kind, meeting.snapshot_id, where, "; ".join(details), deed)
        self.plan.row_hits.append((self.index, hit))

    def _resolve(
        self, meeting: Meeting, action: m.ResolutionAction, proposed: m.Row | None, image: m.Row | None
    ) -> None:
        commit = self.plan.state.commits.get(meeting.snapshot_id)
        self.plan.resolutions.append(
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
        if action is m.ResolutionAction.SKIPPED:
            self.effect = self.effect.replace(skipped=True)
        if action is m.ResolutionAction.SKIPPED or (action is m.ResolutionAction.HANDLED and image != proposed):
            named = None if isinstance(self.change, m.InsertRow) else given_key(self.definition, self.change.key)
            self.rows.note_settled(self.table, self.definition, named, proposed, meeting.key, meeting.snapshot_id)

    # --- doing --------------------------------------------------------------------------------------------------------

    def _apply(self, image: m.Row, key: str, old_key: str | None, old: RowVersion | None) -> None:
        """Let ``image`` stand under ``key`` in the place of ``old`` (None: as a new row)."""
        check_references(self.plan, self.index, self.table, self.definition, image)
        self._check_unique_unraced(image, key, old_key)
        if self._refuse_holders(image, key, old_key):
            self._assume(image, old_key, old)
            return
        replaced = self.rows.live(self.table, key) if key != old_key else None
        if replaced is not None:
            ends = "two rows" if old is not None else "a row that it was not shown"
            meeting = Meeting(m.ConflictKind.UPDATE_KEY, key, replaced.snapshot_id, replaced)
            self._refuse(meeting, None, f"the handler's answer would end {ends}")
            return
        if old is not None and (key == old_key or self.change.kind is m.ChangeKind.INSERT_ROW):
            row_id = old.row_id
        else:
            row_id = self.plan.ids.row(self.table)
        identity = self._identity(key, old_key, old)
        version = make_version(
            self.definition,
            image,
            row_id=row_id,
            snapshot_id=OWN,
            time_us=self.time_us,
            origin=self.origin,
            identity=identity,
        )
        if old_key is not None and old_key != key:
            self.rows.put(self.table, old_key, None)
        self.rows.put(self.table, key, version)
        if old is not None and old_key is not None:
            check_children(self.plan, self.index, self.table, self.definition, old_key, old)
        self.plan.ids.inlined_rows(self.table)
        if old is not None:
            self._supersede(old)
        ended_row_id = None if old is None else old.row_id
        self.effect = self.effect.replace(ended_row_id=ended_row_id, row_id=row_id, identity=identity)

    def _identity(self, key: str, old_key: str | None, old: RowVersion | None) -> str | None:
        """Which row stands under ``key`` then, for other sites: the one that it is the new version of, whatever key that had,
        or another one than all that the key has had before."""
        node, rows = self.plan.state.node, self.table.rows
        assert rows is not None
        if node is None:
            return None
        if old is not None and old_key is not None and (key == old_key or isinstance(self.change, m.UpdateRow)):
            identity = old_key if old.identity is None else old.identity
            return None if identity == key else identity
        if key in rows.sites or key in rows.live:
            return new_identity(key, node.name, self.plan.state.head_snapshot_id + 1)
        return None

    def _remove(self, key: str, version: RowVersion) -> None:
        self.rows.put(self.table, key, None)
        check_children(self.plan, self.index, self.table, self.definition, key, version)
        self._supersede(version)
        self.effect = self.effect.replace(ended_row_id=version.row_id)

    def _supersede(self, version: RowVersion) -> None:
        """A snapshot changes a row once: what a handler made of it when an earlier change met it is no effect any more."""
        if version.snapshot_id != OWN:
            return
        effects, table_id = self.plan.effects, self.table.table_id
        for index, effect in enumerate(effects):
            if effect.object_id == table_id and effect.row_id == version.row_id:
                effects[index] = m.Effect(table_id)

    def _rows_met(self, key: str, image: m.Row) -> dict[str, RowVersion]:
        """The live rows that an image hits through its key and UNIQUE values, by key."""
        keys = [key]
        for number, value in enumerate(unique_values(self.definition, image)):
            if value is not None and (holder := self.rows.holder(self.table, number, value)) is not None:
                keys.append(holder)
        versions = {met: self.rows.live(self.table, met) for met in dict.fromkeys(keys)}
        return {met: version for met, version in versions.items() if version is not None}

    def _refuse_holders(self, image: m.Row, key: str, old_key: str | None) -> bool:
        """Make a hit of every other row that holds one of the image's UNIQUE values; whether there was one."""
        others = {met: v for met, v in self._rows_met(key, image).items() if met not in (key, old_key)}
        for met, version in others.items():
            raced_at = self._raced_at(met, version)
            assert raced_at is not None, "what did not race has been found INVALID"
            self._refuse(Meeting(m.ConflictKind.UNIQUE, met, raced_at, version), image)
        return bool(others)

    def _check_unique_unraced(self, image: m.Row, key: str, old_key: str | None) -> None:
        """No row that is as it was at the base may hold one of the image's UNIQUE values."""
        for met, version in self._rows_met(key, image).items():
            if met not in (key, old_key) and self._raced_at(met, version) is None:
                raise InvalidChangeError(m.InvalidCode.ROW_EXISTS, self._taken(image, met, version))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _missing(self, key: str) -> str:
        return f"table {quoted(self.table.name)} has no row {quoted(shown_key(key))}"

    def _taken(self, image: m.Row, met: str, version: RowVersion) -> str:
        if key_of(self.definition, image) == met:
            return f"table {quoted(self.table.name)} already has a row {quoted(shown_key(met))}"
        shared = " and ".join(self._shared(image, version))
        return f"row {quoted(shown_key(met))} of table {quoted(self.table.name)} already has the same {shared}"

    def _shared(self, image: m.Row, version: RowVersion) -> list[str]:
        """The UNIQUE constraints of which a row has the same values as an image."""
        values = zip(self.definition.unique, unique_values(self.definition, image), version.unique, strict=True)
        return [
            f"UNIQUE {quoted(', '.join(self.definition.names_of(column_ids)))}"
            for column_ids, own, theirs in values
            if own is not None and own == theirs
        ]


def copied_row(image: m.Row | None) -> m.Row | None:
    """An image that is a handler's own, or was, of values as JSON has them; MalformedRecordError for what is none."""
    if image is None:
        return None
    return json_values.row(dict(image) if isinstance(image, Mapping) else image, "a row")


def full_row(plan: Plan, definition: TableDefinition, row: m.Row) -> m.Row:
    """The full image of a row, which the catalog can hold; raises InvalidChangeError."""
    full = complete_row(definition, row, made_before=plan.arrival is not None)
    if plan.arrival is None:
        check_numbers(definition, full)
    check_row_width(definition, full, plan.state.settings.inlined_row_bytes_max)
    return full


def named_key(definition: TableDefinition, key: m.Row) -> str:
    """The canonical form of a key that a writer names here; raises InvalidChangeError where it may be several."""
    found = given_key(definition, key)
    check_numbers(definition, key)
    return found
