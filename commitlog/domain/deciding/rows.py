"""The rows of keyed tables as one proposal sees them: the head, overlaid by its own earlier changes; and FLUSH.

How a row change meets what was committed since the base is in ``row_conflicts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import ROW_CHANGES, Hit, object_of
from commitlog.domain.deciding.files import check_data_file, give_file_id
from commitlog.domain.deciding.row_conflicts import OWN, RowChange, RowCheck, RowHandler
from commitlog.domain.model import ConflictKind, Effect
from commitlog.domain.model.definitions import (
    InvalidChangeError,
    TableDefinition,
    complete_row,
    inlining_problem,
    quoted,
)
from commitlog.domain.model.row_width import check_row_width
from commitlog.domain.model.texts import check_row_text, check_text, check_time_ms
from commitlog.domain.state.index import LOCAL, KeyedRows, RowVersion, TableState
from commitlog.domain.state.row_keys import given_key, key_of, make_version, shown_key

if TYPE_CHECKING:
    from commitlog.domain.deciding.planning import Plan


def new_keyed_rows(definition: TableDefinition) -> KeyedRows | None:
    """The empty rows of a new table; None when it has no primary key."""
    if not definition.keyed:
        return None
    return KeyedRows(unique=[{} for _ in definition.unique], referring=[{} for _ in definition.foreign_keys])


class RowPlanner:
    """The row changes of one proposal, seen against the head overlaid by the earlier ones of the changeset."""

    def __init__(self, plan: Plan, *, decided_at_ms: int, handlers: Mapping[str, RowHandler]) -> None:
        self.plan = plan
        self.state = plan.state
        self.base = plan.base
        self.now_us = decided_at_ms * 1000
        self.handlers = handlers
        self.hits: list[tuple[int, Hit]] = []
        self.resolutions: list[m.Resolution] = []
        self._versions: dict[tuple[int, str], RowVersion | None] = {}
        self._holders: dict[tuple[int, int, str], str | None] = {}
        self._children: dict[tuple[int, int, str], set[str]] = {}
        self._named: set[tuple[int, str]] = set()
        self._file_ids_given: set[int] = set()
        self._flushed: set[tuple[int, int]] = set()
        self._rows_added = 0

    def plan_change(self, table: TableState, change: RowChange, index: int) -> Effect:
        """Judge one row change; races go to ``hits`` or ``resolutions``."""
        if not table.definition.keyed and not isinstance(change, m.InsertRow):
            raise InvalidChangeError(
                m.InvalidCode.PRIMARY_KEY_MISSING,
                f"cannot run UPDATE or DELETE on table {quoted(table.name)} because it does not have a primary key",
            )
        self._check_form(change)
        known = self.plan.definition(table)
        if known is None:
            with suppress(InvalidChangeError):
                self._assume_refused(table, change)
            return Effect(table.table_id)
        if (problem := inlining_problem(known)) is not None:
            raise InvalidChangeError(
                m.InvalidCode.ROWS_NOT_INLINABLE,
                f"table {quoted(table.name)} takes no rows outside of files: {problem}",
            )
        if table.rows is None:
            assert isinstance(change, m.InsertRow)
            self.full_row(known, change.row)
            self.give_file_id(table)
            row_id = self.plan.take_row_ids(table, 1)
            self.plan.ids.row_id_starts.append(row_id)
            return Effect(table.table_id, row_id=row_id)
        if self._base_too_old(table, index):
            self._assume_refused(table, change)
            return Effect(table.table_id)
        return RowCheck(self, table, known, change, index).run()

    def full_row(self, definition: TableDefinition, row: m.Row) -> m.Row:
        """The full image of a row, which the catalog can hold; raises InvalidChangeError."""
        full = complete_row(definition, row)
        check_row_width(definition, full, self.state.settings.inlined_row_bytes_max)
        return full

    def _check_form(self, change: RowChange) -> None:
        where = f"a row of table {quoted(change.table)}"
        if not isinstance(change, m.DeleteRow):
            check_row_text(change.row, where)
        if not isinstance(change, m.InsertRow):
            check_row_text(change.key, where)
        check_row_time(change)

    def _assume_refused(self, table: TableState, change: RowChange) -> None:
        """Overlay a change that is refused already, as it was meant, so that later ones are not blamed for its absence."""
        if table.rows is None or table.dropped_at is not None:
            return
        definition = table.definition
        old_key = None if isinstance(change, m.InsertRow) else given_key(definition, change.key)
        image = None if isinstance(change, m.DeleteRow) else complete_row(definition, change.row)
        new_key = None if image is None else key_of(definition, image)
        for key in dict.fromkeys((old_key, new_key)):
            if key is not None:
                self.name_key(table, key)
        if old_key is not None:
            self.put(table, old_key, None)
        if image is not None and new_key is not None:
            self.put(
                table, new_key, make_version(definition, image, row_id=OWN, snapshot_id=OWN, time_us=0, origin=LOCAL)
            )

    def _base_too_old(self, table: TableState, index: int) -> bool:
        """Beyond the window no policy applies: a conflict if the table's rows changed since the base."""
        if self.base >= self.state.index_floor:
            return False
        last = max(table.last.get(kind, -1) for kind in ROW_CHANGES)
        if last <= self.base:
            return False
        self.hits.append((index, Hit(ConflictKind.TABLE_ROWS_CHANGED, last, object_of(table))))
        return True

    def give_file_id(self, table: TableState) -> None:
        """One file id for a table whose rows the changeset inserts or updates (rules.md 12.10)."""
        if table.table_id not in self._file_ids_given:
            self._file_ids_given.add(table.table_id)
            self.plan.ids.next_file_id += 1

    # --- the head, overlaid -------------------------------------------------------------------------------------------

    def live(self, table: TableState, key: str) -> RowVersion | None:
        """The row with this key, after the earlier changes of the changeset."""
        at = table.table_id, key
        if at in self._versions:
            return self._versions[at]
        assert table.rows is not None
        return table.rows.live.get(key)

    def holder(self, table: TableState, constraint: int, value: str) -> str | None:
        """The key of the row that holds a UNIQUE value."""
        at = table.table_id, constraint, value
        if at in self._holders:
            return self._holders[at]
        assert table.rows is not None
        return table.rows.unique[constraint].get(value)

    def referring(self, child: TableState, number: int, value: str) -> set[str]:
        """Keys of the rows of ``child`` whose foreign key ``number`` has this value."""
        at = child.table_id, number, value
        if at in self._children:
            return self._children[at]
        assert child.rows is not None
        return child.rows.referring[number].get(value, set())

    def provider(self, parent: TableState, ref_column_ids: tuple[int, ...], value: str) -> str | None:
        """The key of the row of ``parent`` that a reference with this value points to."""
        definition = parent.definition
        if ref_column_ids == definition.primary_key:
            return value if self.live(parent, value) is not None else None
        return self.holder(parent, definition.unique.index(ref_column_ids), value)

    def put(self, table: TableState, key: str, version: RowVersion | None) -> None:
        """Overlay a row: its new version, or None when it is gone."""
        old = self.live(table, key)
        if old is not None:
            for number, value in enumerate(old.unique):
                if value is not None and self.holder(table, number, value) == key:
                    self._holders[table.table_id, number, value] = None
            for number, value in enumerate(old.references):
                if value is not None:
                    self._children[table.table_id, number, value] = self.referring(table, number, value) - {key}
        self._versions[table.table_id, key] = version
        if version is not None:
            for number, value in enumerate(version.unique):
                if value is not None:
                    self._holders[table.table_id, number, value] = key
            for number, value in enumerate(version.references):
                if value is not None:
                    self._children[table.table_id, number, value] = self.referring(table, number, value) | {key}
        self._rows_added += (version is not None) - (old is not None)
        if self.state.keyed_rows + self._rows_added > self.state.settings.keyed_rows_max:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_KEYED_ROWS,
                f"the log would hold more than {self.state.settings.keyed_rows_max} keyed rows",
            )

    def is_overlaid(self, table: TableState, key: str) -> bool:
        """Whether the changeset itself made or ended the row with this key; a skipped change does neither."""
        return (table.table_id, key) in self._versions

    def name_key(self, table: TableState, key: str) -> None:
        """Refuse a second change of one key in a changeset."""
        if (table.table_id, key) in self._named:
            raise InvalidChangeError(
                m.InvalidCode.ROW_CHANGED_TWICE,
                f"row {quoted(shown_key(key))} of table {quoted(table.name)} is changed twice",
            )
        self._named.add((table.table_id, key))

    def referrers(self, table: TableState) -> Iterator[tuple[TableState, int]]:
        """Every (table, number of its foreign key) that refers to ``table`` and is not dropped by the changeset."""
        seen = list(self.state.referrers.get(table.table_id, ()))
        for child, ref_table_id in self.plan.new_referrers:
            if ref_table_id == table.table_id:
                keys = child.definition.foreign_keys
                seen += [(child, n) for n, key in enumerate(keys) if key.ref_table_id == ref_table_id]
        for child, number in dict.fromkeys(seen):
            if id(child) not in self.plan.dropped and child.dropped_at is None:
                yield child, number

    # --- flush --------------------------------------------------------------------------------------------------------

    def plan_flush(self, table: TableState, change: m.Flush) -> list[int]:
        """Judge a FLUSH; return the row ids that it moves into files."""
        if table.rows is None:
            raise InvalidChangeError(
                m.InvalidCode.PRIMARY_KEY_MISSING, f"table {quoted(table.name)} has no primary key: it takes no FLUSH"
            )
        if not change.files:
            raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "FLUSH without files: nothing to commit")
        self.plan.count_files(len(change.files))
        row_ids: list[int] = []
        for file in change.files:
            check_data_file(self.plan, table, file)
            if file.row_ids is None or len(file.row_ids) != file.record_count:
                raise InvalidChangeError(
                    m.InvalidCode.ROW_COUNT_DIFFERS,
                    f"file {quoted(file.path)} gives another number of row ids than it has rows",
                )
            if not file.row_ids:
                raise InvalidChangeError(
                    m.InvalidCode.NOTHING_TO_COMMIT, f"file {quoted(file.path)} holds no rows: nothing to flush"
                )
            row_ids += file.row_ids
            give_file_id(self.plan, file, None)
        for row_id in row_ids:
            if row_id < 0:
                raise InvalidChangeError(m.InvalidCode.NUMBER_NEGATIVE, f"row id {row_id} is negative")
            if (table.table_id, row_id) in self._flushed:
                raise InvalidChangeError(
                    m.InvalidCode.ROW_FLUSHED_TWICE, f"row id {row_id} of table {quoted(table.name)} is flushed twice"
                )
            self._flushed.add((table.table_id, row_id))
        if table.dropped_at is None:
            self._check_flushed(table, table.rows, row_ids)
        return row_ids

    def _check_flushed(self, table: TableState, rows: KeyedRows, row_ids: list[int]) -> None:
        """Every row must be outside of files, unless it changed since the base: that is for the conflict rules."""
        if self.base < self.state.index_floor:
            changed = max(table.last.get(kind, -1) for kind in (*ROW_CHANGES, m.ChangeKind.FLUSH))
            if changed > self.base:
                return
        for row_id in row_ids:
            if row_id not in rows.inlined and rows.row_touches.get(row_id, (OWN, None))[0] <= self.base:
                raise InvalidChangeError(
                    m.InvalidCode.ROW_NOT_INLINED,
                    f"row id {row_id} of table {quoted(table.name)} is no row outside of files",
                )


def check_row_time(change: RowChange) -> None:
    """Check what a row change says of its time and origin."""
    if change.row_time_us is not None and not m.TIME_US_MIN <= change.row_time_us <= m.TIME_US_MAX:
        raise InvalidChangeError(
            m.InvalidCode.TIME_OUT_OF_RANGE, f"row_time_us {change.row_time_us} is beyond PostgreSQL's times"
        )
    if change.origin is not None:
        if not change.origin.node:
            raise InvalidChangeError(m.InvalidCode.ORIGIN_INVALID, "the origin's node name is empty")
        if change.origin.tick < 0 or change.origin.priority < 0:
            raise InvalidChangeError(m.InvalidCode.ORIGIN_INVALID, "the origin's tick or priority is negative")
        check_time_ms("the origin's stamp_ms", change.origin.stamp_ms)
        check_text(change.origin.node, "the origin's node")
