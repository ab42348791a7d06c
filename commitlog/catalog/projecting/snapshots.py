"""project: outcomes into the rows of a DuckLake 1.0 catalog (rules.md 7).

One call runs in the caller's SQL transaction, which also writes the applied position. What is written is the net effect of
each changeset: no row begins and ends in one snapshot. Names are not resolved again: an outcome's effects carry the ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.copying import nothing
from commitlog.catalog.projecting.expiry import ExpiryBySettings, expire
from commitlog.catalog.projecting.files import FileProjection
from commitlog.catalog.projecting.given_ids import NONE_GIVEN, AssignedIds, dropped_objects
from commitlog.catalog.projecting.objects import ObjectProjection, quoted_in_changes
from commitlog.catalog.projecting.rows import RowProjection, row_since_altered
from commitlog.catalog.projecting.statistics import StatisticsDecoder
from commitlog.catalog.projecting.tracking import Tracker
from commitlog.catalog.tables import OWN_SCHEMA
from commitlog.catalog.writing import CopyBuffer, shown_time_us, to_time
from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.json_values import to_json
from commitlog.domain.model.named import named_by
from commitlog.domain.model.nodes import NODE_NAME, NODE_PRIORITY
from commitlog.domain.model.records.outcome_json import conflict_to_json
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.settings import NAME_LENGTH_LIMIT
from commitlog.domain.state.sites import moves

_NAME_NODE = sql.SQL("INSERT INTO {own}.own_node VALUES (1, %s, %s) ON CONFLICT DO NOTHING")

_json = json.JSONEncoder(separators=(",", ":")).encode


class Projection:
    """Projects batch after batch of outcomes that follow what the catalog holds; the caller owns the SQL transactions.

    It keeps in memory what it knows of the tables: throw it away when a batch fails.
    """

    def __init__(
        self,
        conn: Connection,
        *,
        log_id: bytes,
        decode_statistics: StatisticsDecoder | None = None,
        own: str = OWN_SCHEMA,
        meanwhile: Callable[[], bool] = nothing,
    ) -> None:
        self.buffer = CopyBuffer(conn, own=own, meanwhile=meanwhile)
        self.tracker = Tracker(self.buffer, log_id)
        self.objects = ObjectProjection(self.buffer, self.tracker)
        self.files = FileProjection(self.buffer, self.tracker, decode_statistics)
        self.rows = RowProjection(self.buffer, self.tracker, self.files)
        self.expiry = ExpiryBySettings(self.buffer)

    def project(self, outcomes: Sequence[m.Outcome]) -> None:
        """Project a batch, up to the last row: nothing waits in memory when it returns."""
        try:
            self.collect(outcomes)
            self.buffer.flush()
        finally:
            self.buffer.settle()

    def collect(self, outcomes: Sequence[m.Outcome]) -> None:
        """Collect the rows of a batch; its last ones wait in the buffer when it returns."""
        for outcome in outcomes:
            self.buffer.add("outcomes", outcome_row(outcome))
            if outcome.verdict is m.Verdict.REJECTED and outcome.proposal is not None and not outcome.conflicts:
                self.buffer.add_all("refused_tables", refused_tables(outcome.seq, outcome.proposal.changes))
            if outcome.verdict is m.Verdict.COMMITTED:
                _ChangesetProjection(self, outcome).run()
                if outcome.proposal is not None and outcome.proposal.replicated is not None:
                    self.buffer.add("taken_over", taken_over_row(outcome.seq, outcome.proposal.replicated))
                assert outcome.snapshot_id is not None
                assert outcome.snapshot_time_us is not None
                self.expiry.after(outcome.snapshot_id, outcome.snapshot_time_us)
        self.tracker.store()


def outcome_row(outcome: m.Outcome) -> tuple[Any, ...]:
    """The row of ``commitlog.outcomes``."""
    proposal = outcome.proposal
    return (
        outcome.seq,
        outcome.proposal_id,
        _storable(outcome.writer_id),
        None if proposal is None else proposal.writer_epoch,
        None if proposal is None else proposal.writer_seq,
        None if proposal is None else proposal.base_snapshot_id,
        None if proposal is None else proposal.isolation,
        None if proposal is None else _kinds(proposal.changes),
        outcome.verdict,
        outcome.snapshot_id,
        outcome.head_snapshot_id,
        outcome.reason,
        _storable(outcome.detail),
        outcome.conflict_count,
        _json([conflict_to_json(each) for each in outcome.conflicts]) if outcome.conflicts else None,
        _json(to_json(outcome.resolutions)) if outcome.resolutions else None,
        outcome.original_seq,
        shown_time_us(outcome.decided_at_ms * 1000),
        outcome.epoch,
        outcome.source.partition,
        outcome.source.offset,
    )


def taken_over_row(seq: int, came: m.Replicated) -> tuple[Any, ...]:
    """The row of ``commitlog.taken_over`` of one outcome."""
    [priority] = [known.priority for known in came.digest if known.node == came.node]
    return (seq, came.node, came.tick, priority)


def refused_tables(seq: int, changes: Sequence[m.Change]) -> list[tuple[int, str, str]]:
    """The rows of ``commitlog.refused_tables`` of one outcome."""
    named = dict.fromkeys(
        [(_indexable(schema), _indexable(table)) for change in changes for schema, table in named_by(change)]
    )
    return [(seq, schema, table) for schema, table in named]


def _kinds(changes: Sequence[m.Change]) -> str:
    return changes[0].kind if len(changes) == 1 else ",".join(dict.fromkeys([change.kind for change in changes]))


def _storable(text: str | None) -> str | None:
    """Text of a refused proposal may hold what PostgreSQL cannot; it is shown escaped."""
    return None if text is None else _escaped(text)


def _escaped(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _indexable(name: str) -> str:
    """A name of a refused proposal, of which nobody says how long it is, so that two fit into an entry of an index."""
    return _escaped(name)[:NAME_LENGTH_LIMIT]


class _ChangesetProjection:
    """One committed changeset."""

    def __init__(self, projection: Projection, outcome: m.Outcome) -> None:
        assert outcome.proposal is not None
        assert outcome.snapshot_id is not None
        assert outcome.snapshot_time_us is not None
        self.buffer = projection.buffer
        self.tracker = projection.tracker
        self.objects = projection.objects
        self.files = projection.files
        self.rows = projection.rows
        self.expiry = projection.expiry
        self.outcome = outcome
        self.proposal = outcome.proposal
        self.snapshot_id = outcome.snapshot_id
        self.changes_made: dict[str, None] = {}
        self.assigned = AssignedIds(outcome.assigned)
        self.given = NONE_GIVEN
        self.handled: dict[int, m.Row | None] | None = None
        self.late: list[tuple[int, int, TableDefinition, m.Row]] = []

    def run(self) -> None:
        outcome, proposal = self.outcome, self.proposal
        assert outcome.snapshot_time_us is not None
        self.objects.start(self.snapshot_id, outcome.assigned.schema_version)
        doomed = self._doomed()
        assert len(proposal.changes) == len(outcome.effects)
        for index, change in enumerate(proposal.changes):
            effect = outcome.effects[index]
            if effect.skipped:
                continue
            self.given = self.assigned.of(change, effect)
            if effect.object_id not in doomed or change.kind in _DROPS:
                _PROJECT[change.kind](self, change, effect, index)
        if outcome.resolutions:
            for effect, image in moves(outcome):
                if effect.object_id not in doomed:
                    self.change_row(effect, image, made_before=True)
        for entry in self.objects.finish():
            self.note(entry)
        for table_id, row_id, then, full in self.late:
            now = self.tracker.table(table_id).definition
            self.rows.start(table_id, row_id, row_since_altered(then, now, full), self.snapshot_id)
        self.buffer.add(
            "ducklake_snapshot",
            (
                self.snapshot_id,
                shown_time_us(outcome.snapshot_time_us),
                outcome.assigned.schema_version,
                outcome.next_catalog_id,
                outcome.next_file_id,
            ),
        )
        changes = ",".join(self.changes_made) or None
        self.buffer.add(
            "ducklake_snapshot_changes", (self.snapshot_id, changes, proposal.author, proposal.message, proposal.extra)
        )

    def _doomed(self) -> AbstractSet[int]:
        """The tables and views that this changeset drops: its other changes of them leave no trace."""
        if len(self.proposal.changes) == 1:
            return _NOTHING
        entries, schemas = dropped_objects(self.outcome)
        for schema_id in schemas:
            tables, views = self.objects.entries_of(schema_id)
            entries.update(tables, views)
        return entries

    def note(self, entry: str) -> None:
        """Announce a change in ``changes_made``."""
        self.changes_made[entry] = None

    def create_schema(self, change: m.CreateSchema, effect: m.Effect, _: int) -> None:
        self.objects.create_schema(_object_of(effect), change.schema)
        self.note(f"created_schema:{quoted_in_changes(change.schema)}")

    def drop_schema(self, _: m.DropSchema, effect: m.Effect, __: int) -> None:
        schema_id = _object_of(effect)
        self.note(f"dropped_schema:{schema_id}")
        tables, views = self.objects.drop_schema(schema_id)
        for table_id in tables:
            self.note(f"dropped_table:{table_id}")
        for view_id in views:
            self.note(f"dropped_view:{view_id}")

    def create_table(self, change: m.CreateTable, effect: m.Effect, _: int) -> None:
        self.objects.create_table(_object_of(effect), change, next(iter(self.given.partitions), None))
        self.note(f"created_table:{quoted_in_changes(change.schema, change.table)}")

    def drop_table(self, _: m.DropTable, effect: m.Effect, __: int) -> None:
        table_id = _object_of(effect)
        self.objects.drop_table(table_id)
        self.note(f"dropped_table:{table_id}")

    def rename_table(self, change: m.RenameTable, effect: m.Effect, _: int) -> None:
        self.objects.rename_table(_object_of(effect), change.new_table)

    def alter_table(self, change: m.AlterTable, effect: m.Effect, _: int) -> None:
        self.objects.alter_table(_object_of(effect), change, self.given.partitions)

    def create_view(self, change: m.CreateView, effect: m.Effect, _: int) -> None:
        self.objects.create_view(_object_of(effect), change.schema, change.view, change.sql, change.dialect)
        self.note(f"created_view:{quoted_in_changes(change.schema, change.view)}")

    def replace_view(self, change: m.ReplaceView, effect: m.Effect, _: int) -> None:
        view_id = _object_of(effect)
        self.objects.replace_view(view_id, change.sql, change.dialect)
        self.note(f"dropped_view:{view_id}")
        self.note(f"created_view:{quoted_in_changes(change.schema, change.view)}")

    def drop_view(self, _: m.DropView, effect: m.Effect, __: int) -> None:
        view_id = _object_of(effect)
        self.objects.drop_view(view_id)
        self.note(f"dropped_view:{view_id}")

    def append(self, change: m.Append, effect: m.Effect, _: int) -> None:
        table_id = _object_of(effect)
        for index, file in enumerate(change.files):
            self.files.add(table_id, self.given.files[index], file, self.snapshot_id)
        self.note(f"inserted_into_table:{table_id}")

    def delete(self, change: m.Delete, effect: m.Effect, _: int) -> None:
        table_id = _object_of(effect)
        if change.positions:
            self.files.delete_positions(table_id, change.positions, self.snapshot_id)
            self.note(f"inlined_delete:{table_id}")
        for delete_file, delete_file_id in zip(change.delete_files, self.given.delete_files, strict=True):
            self.files.add_delete_file(table_id, delete_file_id, delete_file, self.snapshot_id)
        if change.whole_files:
            self.files.end(change.whole_files, self.snapshot_id)
        if change.delete_files or change.whole_files:
            self.note(f"deleted_from_table:{table_id}")

    def compact(self, change: m.Compact, effect: m.Effect, _: int) -> None:
        table_id = _object_of(effect)
        base = self.proposal.base_snapshot_id
        self.files.replace(table_id, change, self.given.files, self.snapshot_id, base)
        self.note(f"rewrite_delete:{table_id}")

    def row(self, change: m.InsertRow | m.UpdateRow | m.DeleteRow, effect: m.Effect, index: int) -> None:
        if self.handled is None:
            resolutions = self.outcome.resolutions
            self.handled = {r.change: r.row for r in resolutions if r.action is m.ResolutionAction.HANDLED}
        image = self.handled.get(index, None if isinstance(change, m.DeleteRow) else change.row)
        self.change_row(effect, image, made_before=self.proposal.replicated is not None)

    def change_row(self, effect: m.Effect, image: m.Row | None, *, made_before: bool) -> None:
        """End the row that the effect names, start the one it names with ``image``, which may lack columns that were added
        since it was made (``made_before``)."""
        table_id = _object_of(effect)
        if image is not None and effect.row_id is not None and self.objects.is_altered(table_id):
            # Where rows of the altered table go is made once all its alterations are known.
            definition = self.tracker.table(table_id).definition
            full = complete_row(definition, image, made_before=made_before)
            self.late.append((table_id, effect.row_id, definition, full))
            self.rows.change(table_id, effect.replace(row_id=None), None, self.snapshot_id, made_before=made_before)
        else:
            self.rows.change(table_id, effect, image, self.snapshot_id, made_before=made_before)
        if effect.row_id is not None:
            self.note(f"inlined_insert:{table_id}")
        if effect.ended_row_id is not None:
            self.note(f"inlined_delete:{table_id}")

    def flush(self, change: m.Flush, effect: m.Effect, _: int) -> None:
        table_id = _object_of(effect)
        self.rows.flush_rows(table_id, change, self.given.files, self.snapshot_id)
        self.note(f"inline_flush:{table_id}")

    def expire(self, change: m.ExpireSnapshots, _: m.Effect, __: int) -> None:
        assert self.outcome.snapshot_time_us is not None
        expire(self.buffer, change.older_than_snapshot_id, to_time(self.outcome.snapshot_time_us))
        self.expiry.expired()

    def configure(self, change: m.Configure, _: m.Effect, __: int) -> None:
        self.expiry.configure(change.settings)
        if NODE_NAME in change.settings:
            row = (change.settings[NODE_NAME], change.settings.get(NODE_PRIORITY, 0))
            self.buffer.execute(_NAME_NODE.format(own=self.buffer.own), row)


def _object_of(effect: m.Effect) -> int:
    """What a change is about that was not skipped."""
    assert effect.object_id is not None
    return effect.object_id


_NOTHING: frozenset[int] = frozenset()
_DROPS = frozenset({m.ChangeKind.DROP_TABLE, m.ChangeKind.DROP_VIEW})
_PROJECT: dict[m.ChangeKind, Callable[[_ChangesetProjection, Any, m.Effect, int], None]] = {
    m.ChangeKind.CREATE_SCHEMA: _ChangesetProjection.create_schema,
    m.ChangeKind.DROP_SCHEMA: _ChangesetProjection.drop_schema,
    m.ChangeKind.CREATE_TABLE: _ChangesetProjection.create_table,
    m.ChangeKind.DROP_TABLE: _ChangesetProjection.drop_table,
    m.ChangeKind.RENAME_TABLE: _ChangesetProjection.rename_table,
    m.ChangeKind.ALTER_TABLE: _ChangesetProjection.alter_table,
    m.ChangeKind.CREATE_VIEW: _ChangesetProjection.create_view,
    m.ChangeKind.REPLACE_VIEW: _ChangesetProjection.replace_view,
    m.ChangeKind.DROP_VIEW: _ChangesetProjection.drop_view,
    m.ChangeKind.APPEND: _ChangesetProjection.append,
    m.ChangeKind.DELETE: _ChangesetProjection.delete,
    m.ChangeKind.COMPACT: _ChangesetProjection.compact,
    m.ChangeKind.INSERT_ROW: _ChangesetProjection.row,
    m.ChangeKind.UPDATE_ROW: _ChangesetProjection.row,
    m.ChangeKind.DELETE_ROW: _ChangesetProjection.row,
    m.ChangeKind.FLUSH: _ChangesetProjection.flush,
    m.ChangeKind.EXPIRE_SNAPSHOTS: _ChangesetProjection.expire,
    m.ChangeKind.CONFIGURE: _ChangesetProjection.configure,
}
