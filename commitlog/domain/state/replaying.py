"""replay: the only way in which the state changes, live and at start alike (rules.md 1).

Theory of operation. Every outcome, whatever its verdict, moves the log on (seq, epoch, clock, the offset behind its
proposal), and its answer is remembered (``remembering``). A COMMITTED one is applied first, change after change, onto the
head: each changes what the head is, and notes with its snapshot id what it touched. Only then the head becomes its
snapshot, the window moves along, and what neither window nor floor need any more is forgotten (``forgetting``).

Nothing is decided here. Ids come from the outcome (``assigned``, ``effects``), never from looking names up as ``decide`` does:
nothing conflicted, so at the head the names mean what they meant to the writer. A skipped change does nothing, a row that
a handler settled has the image that the outcome tells. What does not fit fails an assertion: a defect, or a log that is not
the state's; as the state has then taken half an outcome, its owner throws it away and loads it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyroaring import BitMap64

from commitlog.domain import model as m
from commitlog.domain.model.altering import BENIGN_OPS, alter
from commitlog.domain.model.defining import define, reference
from commitlog.domain.model.nodes import changed_node, node_and_rest
from commitlog.domain.model.row_images import complete_row, conformed_row
from commitlog.domain.model.settings import changed_settings
from commitlog.domain.model.types import fold
from commitlog.domain.state.files import AppendedFile, FileDeletes, FileHistory, RowsDeleted
from commitlog.domain.state.forgetting import (
    RetiredEntry,
    RetiredName,
    RetiredSchema,
    RetiredSchemaName,
    advance_window,
    expire_by_settings,
    raise_floor,
)
from commitlog.domain.state.index import (
    Commit,
    Entry,
    NameEvent,
    Referrer,
    SchemaEvent,
    SchemaState,
    SequencerState,
    TableState,
    ViewState,
)
from commitlog.domain.state.remembering import give_epoch, remember_answer
from commitlog.domain.state.row_keys import (
    RowChange,
    given_key,
    identity_in,
    key_of,
    make_version,
    origin_of,
    time_us_of,
    unique_values,
)
from commitlog.domain.state.rows import NO_ROW_BEFORE, KeyedRows, KeyVersion, RowTouch, RowVersion, SiteRow
from commitlog.domain.state.sites import Arrival, is_row_change, kept_row, made_at, origin_at, standing_change

_TIME_GRAIN_US = 1_000_000
_TIME_GRAINS = 1_000
"""A time is noted once a second, and no more often than so many in what has passed since the oldest: a log that expires nothing
notes a few more each day, not each second."""
NO_ROW = -1
"""Row id of a version that is held back."""


def replay(state: SequencerState, outcome: m.Outcome) -> SequencerState:
    """Apply an outcome; return the same state, changed. Asserts that the outcome is the next one, and refuses nothing."""
    assert outcome.seq == state.next_seq, f"outcome {outcome.seq} does not follow {state.next_seq - 1}"
    state.next_seq += 1
    state.epoch = outcome.epoch
    state.decided_at_ms = outcome.decided_at_ms
    partition, offset = outcome.source
    state.next_offsets[partition] = max(state.next_offsets.get(partition, 0), offset + 1)
    proposal = outcome.proposal
    if outcome.verdict is m.Verdict.COMMITTED:
        assert proposal is not None
        assert outcome.snapshot_id == state.head_snapshot_id + 1
        _Replay(state, outcome, proposal).run()
        give_epoch(state, outcome, proposal)
    remember_answer(state, outcome)
    return state


# --- a committed changeset --------------------------------------------------------------------------------------------


class _Replay:
    """One committed changeset on its way into the state."""

    def __init__(self, state: SequencerState, outcome: m.Outcome, proposal: m.Proposal) -> None:
        assert outcome.snapshot_id is not None
        assert outcome.snapshot_time_us is not None
        self.state = state
        self.outcome = outcome
        self.proposal = proposal
        self.snapshot_id = outcome.snapshot_id
        self.table_ids = iter(outcome.assigned.table_ids)
        self.partition_ids = iter(outcome.assigned.partition_ids)
        self.data_file_ids = iter(outcome.assigned.data_file_ids)
        self.arrival = Arrival.of(state, proposal)
        self.images: dict[int, m.Row | None] = {}
        self.held: list[m.Resolution] = []
        self.released: list[m.Resolution] = []
        for resolution in outcome.resolutions:
            if resolution.action is m.ResolutionAction.HANDLED:
                self.images[resolution.change] = resolution.row
            elif resolution.ended_row_id is not None:
                self.held.append(resolution)
            elif resolution.row_id is not None:
                self.released.append(resolution)
        self.tables: list[TableState] = []
        self.files: list[int] = []
        self.rows: list[tuple[TableState, str]] = []

    def run(self) -> None:
        """Apply the changes in order, then move the head, the window and the floor."""
        state, outcome = self.state, self.outcome
        changes, effects = self.proposal.changes, outcome.effects
        assert len(effects) == len(changes)
        for resolution in self.held:
            self.hold_row(resolution)
        for index, change in enumerate(changes):
            effect = effects[index]
            if self.arrival is not None and is_row_change(change):
                self.arrive(self.arrival, change, effect, index)
            elif not effect.skipped:
                _APPLY[change.kind](self, change, effect, index)
        for resolution in self.released:
            self.release_row(resolution)
        if self.arrival is not None:
            self.arrival.note(state)
        state.head_snapshot_id = self.snapshot_id
        assert outcome.snapshot_time_us is not None
        state.snapshot_time_us = outcome.snapshot_time_us
        state.schema_version = outcome.assigned.schema_version
        state.next_catalog_id = outcome.next_catalog_id
        state.next_file_id = outcome.next_file_id
        state.commits[self.snapshot_id] = Commit(
            self.proposal.proposal_id, self.proposal.writer_id, tuple(self.tables), tuple(self.files), tuple(self.rows)
        )
        self._note_time(outcome.snapshot_time_us)
        advance_window(state)
        expire_by_settings(state)

    def _note_time(self, time_us: int) -> None:
        times = self.state.snapshot_times
        if times:
            newest_us = times[-1][1]
            since_us = time_us - newest_us
            if since_us < _TIME_GRAIN_US or since_us < (newest_us - times[0][1]) // _TIME_GRAINS:
                return
        times.append((self.snapshot_id, time_us))

    # --- names and objects --------------------------------------------------------------------------------------------

    def schema(self, name: str) -> SchemaState:
        """The schema of that name after the earlier changes."""
        schema = self.state.schema_at(fold(name), self.snapshot_id)
        assert schema is not None
        return schema

    def table(self, effect: m.Effect) -> TableState:
        """The table that a change worked on."""
        assert effect.object_id is not None
        return self.state.tables[effect.object_id]

    def bind(self, schema: SchemaState, name: str, entry: Entry | None, kind: m.ChangeKind, called: str) -> None:
        """From this snapshot on a name means ``entry``; ``called`` as `NameEvent` has it."""
        key = schema.schema_id, fold(name)
        self.state.names.setdefault(key, []).append(NameEvent(self.snapshot_id, entry, kind, called))
        schema.names.add(key[1])
        self.state.retired.append((self.snapshot_id, RetiredName(*key)))

    def bind_schema(self, name: str, schema: SchemaState | None) -> None:
        """From this snapshot on a schema name means ``schema``."""
        self.state.schema_names.setdefault(fold(name), []).append(SchemaEvent(self.snapshot_id, schema))
        self.state.retired.append((self.snapshot_id, RetiredSchemaName(fold(name))))

    def create_schema(self, change: m.CreateSchema, effect: m.Effect, _: int) -> None:
        assert effect.object_id is not None
        schema = SchemaState(effect.object_id, change.schema, self.snapshot_id)
        self.state.schemas[schema.schema_id] = schema
        self.bind_schema(change.schema, schema)

    def drop_schema(self, change: m.DropSchema, effect: m.Effect, _: int) -> None:
        assert effect.object_id is not None
        schema = self.state.schemas[effect.object_id]
        for entry in list(schema.entries.values()):
            if entry.dropped_at is None:
                self.drop_entry(entry, change.kind)
        schema.dropped_at = self.snapshot_id
        self.bind_schema(schema.name, None)
        self.state.retired.append((self.snapshot_id, RetiredSchema(schema.schema_id)))

    def drop_entry(self, entry: Entry, kind: m.ChangeKind) -> None:
        """Take a table or view out of the live objects."""
        self.bind(entry.schema, entry.name, None, kind, entry.name)
        entry.dropped_at = self.snapshot_id
        entry.last[kind] = self.snapshot_id
        self.state.retired.append((self.snapshot_id, RetiredEntry(entry)))
        if isinstance(entry, TableState):
            self.forget_contents(entry)

    def forget_contents(self, table: TableState) -> None:
        """Free what is kept per file and row of a dropped table; its conflicts need none of it."""
        state = self.state
        for data_file_id in table.live_files:
            state.record_counts.drop(data_file_id)
            state.deletes.pop(data_file_id, None)
        table.live_files = BitMap64()
        table.appended.forget_all()
        if table.rows is not None:
            state.keyed_rows -= len(table.rows.live)
            for key in table.definition.foreign_keys:
                children = state.referrers.get(key.ref_table_id, [])
                state.referrers[key.ref_table_id] = [each for each in children if each.table is not table]
                if not state.referrers[key.ref_table_id]:
                    del state.referrers[key.ref_table_id]
            table.rows = KeyedRows.of(table.definition)

    def create_table(self, change: m.CreateTable, effect: m.Effect, _: int) -> None:
        assert effect.object_id is not None
        schema = self.schema(change.schema)
        partition_id = next(self.partition_ids) if change.partition_by else None
        definition = define(change, table_id=effect.object_id, schema_id=schema.schema_id, partition_id=partition_id)
        table = TableState(definition, schema, self.snapshot_id)
        self.state.tables[effect.object_id] = table
        self.add_entry(schema, change.table, table, change.kind)
        for spec in change.foreign_keys:
            parent = self.state.entry_at(self.schema(spec.ref_schema), fold(spec.ref_table), self.snapshot_id)
            assert isinstance(parent, TableState)
            key = reference(table.definition, spec, parent.definition)
            self.state.referrers.setdefault(parent.table_id, []).append(
                Referrer(table, len(table.definition.foreign_keys))
            )
            table.definition = table.definition.replace(foreign_keys=(*table.definition.foreign_keys, key))
        table.rows = KeyedRows.of(table.definition)

    def add_entry(self, schema: SchemaState, name: str, entry: Entry, kind: m.ChangeKind) -> None:
        """Put a new table or view into its schema."""
        schema.entries[entry.entry_id] = entry
        schema.entry_created_at[kind] = self.snapshot_id
        self.bind(schema, name, entry, kind, name)

    def drop_table(self, change: m.DropTable | m.DropView, effect: m.Effect, _: int) -> None:
        assert effect.object_id is not None
        objects: Mapping[int, Entry] = self.state.tables if isinstance(change, m.DropTable) else self.state.views
        self.drop_entry(objects[effect.object_id], change.kind)

    def rename_table(self, change: m.RenameTable, effect: m.Effect, _: int) -> None:
        table = self.table(effect)
        self.bind(table.schema, table.name, None, change.kind, change.new_table)
        table.definition = table.definition.replace(name=change.new_table)
        table.last[change.kind] = self.snapshot_id
        self.bind(table.schema, change.new_table, table, change.kind, change.new_table)

    def alter_table(self, change: m.AlterTable, effect: m.Effect, _: int) -> None:
        table = self.table(effect)
        before = table.definition
        keys = sum(1 for step in change.alterations if step.partition_by)
        partition_ids = tuple(next(self.partition_ids) for _ in range(keys))
        table.definition = alter(before, change.alterations, partition_ids=partition_ids, came=True)
        if table.rows is not None:
            # Also before the log is a node: links meet the rows of then, too.
            names = {column.column_id: column.name for column in table.definition.columns}
            called = {fold(column.name): names.get(column.column_id) for column in before.columns}
            if any(called[fold(column.name)] != column.name for column in before.columns):
                table.rows.rename_columns(called)
        table.last[change.kind] = self.snapshot_id
        if any(step.op not in BENIGN_OPS for step in change.alterations):
            table.definition_changed_at = self.snapshot_id

    def create_view(self, change: m.CreateView, effect: m.Effect, _: int) -> None:
        assert effect.object_id is not None
        schema = self.schema(change.schema)
        view = ViewState(effect.object_id, schema, change.view, self.snapshot_id)
        self.state.views[view.view_id] = view
        self.add_entry(schema, change.view, view, change.kind)

    def replace_view(self, change: m.ReplaceView, effect: m.Effect, _: int) -> None:
        assert effect.object_id is not None
        self.state.views[effect.object_id].last[change.kind] = self.snapshot_id

    # --- files --------------------------------------------------------------------------------------------------------

    def touch(self, table: TableState, kind: m.ChangeKind) -> None:
        """Note that this snapshot did something of this kind to a table."""
        table.last[kind] = self.snapshot_id
        self.tables.append(table)

    def add_file(self, table: TableState, file: m.DataFile) -> int:
        """Make a new file live; its id."""
        data_file_id = next(self.data_file_ids)
        self.state.record_counts.put(data_file_id, file.record_count)
        table.live_files.add(data_file_id)
        table.file_bytes += file.file_size_bytes
        return data_file_id

    def append(self, change: m.Append, effect: m.Effect, _: int) -> None:
        table = self.table(effect)
        for file in change.files:
            data_file_id = self.add_file(table, file)
            table.next_row_id += file.record_count
            table.appended.files.append(AppendedFile(self.snapshot_id, data_file_id, file))
        self.touch(table, change.kind)

    def history(self, table: TableState, data_file_id: int) -> FileHistory:
        """The window's entry of a file that this snapshot touches."""
        self.files.append(data_file_id)
        history = self.state.file_history.get(data_file_id)
        if history is None:
            history = self.state.file_history[data_file_id] = FileHistory(table.table_id, [])
        return history

    def end_file(self, table: TableState, data_file_id: int, history: FileHistory) -> None:
        """Take a file out of the live ones."""
        history.ended_at = self.snapshot_id
        table.live_files.discard(data_file_id)
        self.state.record_counts.drop(data_file_id)
        self.state.deletes.pop(data_file_id, None)

    def delete(self, change: m.Delete, effect: m.Effect, _: int) -> None:
        table = self.table(effect)
        deletes = self.state.deletes
        for positions in change.positions:
            assert not isinstance(positions.rows, tuple)
            deletes.setdefault(positions.data_file_id, FileDeletes(BitMap64(), BitMap64())).inlined |= positions.rows
            history = self.history(table, positions.data_file_id)
            history.deletes.append(RowsDeleted(self.snapshot_id, positions.rows, False))
        for delete_file in change.delete_files:
            assert not isinstance(delete_file.rows, tuple)
            known = deletes.setdefault(delete_file.data_file_id, FileDeletes(BitMap64(), BitMap64()))
            added = BitMap64(delete_file.rows) - known.filed
            known.filed |= added
            self.history(table, delete_file.data_file_id).deletes.append(RowsDeleted(self.snapshot_id, added, True))
        for data_file_id in change.whole_files:
            history = self.history(table, data_file_id)
            history.deletes.append(RowsDeleted(self.snapshot_id, BitMap64(), True))
            self.end_file(table, data_file_id, history)
        self.touch(table, change.kind)

    def compact(self, change: m.Compact, effect: m.Effect, _: int) -> None:
        table = self.table(effect)
        moved_to = tuple([self.add_file(table, file) for file in change.files])
        for data_file_id in change.replaced:
            history = self.history(table, data_file_id)
            history.compacted_at = self.snapshot_id
            history.moved_to = moved_to
            self.end_file(table, data_file_id, history)
        self.touch(table, change.kind)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def row(self, change: RowChange, effect: m.Effect, index: int) -> None:
        table = self.table(effect)
        if effect.row_id is not None:
            table.next_row_id = max(table.next_row_id, effect.row_id + 1)
        if table.rows is None:
            self.touch(table, change.kind)
            return
        if effect.ended_row_id is None and effect.row_id is None:
            if self.arrival is None and isinstance(change, m.DeleteRow):
                self.give_up(table.rows, given_key(table.definition, change.key), change)
            return
        self.touch(table, change.kind)
        image = self.image(table, change, index)
        if effect.ended_row_id is not None:
            key = self.find_key(table, table.rows, change, effect.ended_row_id)
            self.end_row(table, table.rows, key, change.kind)
            if self.state.node is not None:
                self.give_up(table.rows, key, change)
        if effect.row_id is not None:
            assert image is not None
            identity = effect.identity if self.arrival is None else identity_in(change)
            self.start_row(table, table.rows, self.version(table, change, image, effect.row_id, identity), change.kind)

    def version(
        self, table: TableState, change: RowChange, image: m.Row, row_id: int, identity: str | None
    ) -> RowVersion:
        """The version of a row that this snapshot makes."""
        return make_version(
            table.definition,
            image,
            row_id=row_id,
            snapshot_id=self.snapshot_id,
            time_us=time_us_of(change, self.outcome.decided_at_ms),
            origin=origin_of(change),
            identity=identity,
        )

    def give_up(self, rows: KeyedRows, key: str, change: RowChange) -> None:
        """This log ends a row, whatever other sites made of it."""
        assert self.state.node is not None
        time_us = time_us_of(change, self.outcome.decided_at_ms)
        moves = isinstance(change, m.UpdateRow) or (isinstance(change, m.DeleteRow) and change.moves)
        rows.sites[key] = SiteRow(made_at(self.state.node, self.snapshot_id, time_us), (), moves)
        rows.release(key)

    def arrive(self, arrival: Arrival, change: RowChange, effect: m.Effect, index: int) -> None:
        """A row change that another site made: what it does here, and what stands and is kept besides."""
        if arrival.is_known:
            return
        table = self.table(effect)
        if table.rows is None:
            self.row(change, effect, index)
            return
        rows = table.rows
        key, settled = arrival.settle(self.state, table.definition, rows, change)
        if not effect.skipped:
            rows.release(key)
            standing = standing_change(change, settled)
            self.row(standing, effect, index)
            if effect.row_id is None and settled.standing.image is not None:
                version = self.version(table, standing, settled.standing.image, NO_ROW, settled.standing.identity)
                rows.hold(key, version)
        rows.sites[key] = kept_row(settled)

    def hold_row(self, told: m.Resolution) -> None:
        """A row that others do not let stand any longer."""
        table, rows, key = self.told_row(told, m.ChangeKind.DELETE_ROW)
        assert self.state.node is not None
        version, image = rows.live[key], told.row
        assert image is not None
        if version.image is None:
            version = version.with_image(conformed_row(table.definition, image))
        known = rows.sites.get(key)
        rows.sites[key] = known or SiteRow(origin_at(self.state.node, rows, key, version), ())
        self.end_row(table, rows, key, m.ChangeKind.DELETE_ROW)
        rows.hold(key, version)

    def release_row(self, told: m.Resolution) -> None:
        """A row that others let stand after all."""
        table, rows, key = self.told_row(told, m.ChangeKind.INSERT_ROW)
        held, known = rows.held[key], rows.sites[key]
        assert told.row is not None
        assert told.row_id is not None
        table.next_row_id = max(table.next_row_id, told.row_id + 1)
        version = make_version(
            table.definition,
            told.row,
            row_id=told.row_id,
            snapshot_id=self.snapshot_id,
            time_us=held.time_us,
            origin=held.origin,
            identity=held.identity,
        )
        self.start_row(table, rows, version, m.ChangeKind.INSERT_ROW)
        rows.sites[key] = known

    def told_row(self, told: m.Resolution, kind: m.ChangeKind) -> tuple[TableState, KeyedRows, str]:
        """The row that a resolution tells of, which is not one of the changes' own; its table is touched as by a change of a
        kind: the one that it tells of may be of another table, and of no row."""
        assert told.object.table_id is not None
        assert told.row is not None
        table = self.state.tables[told.object.table_id]
        assert table.rows is not None
        self.touch(table, kind)
        return table, table.rows, key_of(table.definition, told.row)

    def image(self, table: TableState, change: RowChange, index: int) -> m.Row | None:
        """The image that stands after a row change."""
        if index in self.images:
            image = self.images[index]
            return None if image is None else self.complete(table, image)
        return None if isinstance(change, m.DeleteRow) else self.complete(table, change.row)

    def complete(self, table: TableState, image: m.Row) -> m.Row:
        """The full image; what another site's lacks was added here since it was made."""
        return complete_row(table.definition, image, made_before=self.arrival is not None)

    def find_key(self, table: TableState, rows: KeyedRows, change: RowChange, row_id: int) -> str:
        """The key of the row that a change ended: the one it names, or one that it met through a UNIQUE value."""
        candidates: list[str] = []
        if not isinstance(change, m.InsertRow):
            candidates.append(given_key(table.definition, change.key))
        if not isinstance(change, m.DeleteRow):
            image = self.complete(table, change.row)
            candidates.append(key_of(table.definition, image))
            for holders, value in zip(rows.unique, unique_values(table.definition, image), strict=True):
                if value is not None and value in holders:
                    candidates.append(holders[value])
        for key in candidates:
            version = rows.live.get(key)
            if version is not None and version.row_id == row_id:
                return key
        raise AssertionError(f"row {row_id} of table {table.table_id} is not where the outcome says")

    def note_row(self, table: TableState, rows: KeyedRows, key: str, version: RowVersion | None) -> None:
        """Keep a key's change in the window."""
        versions = rows.history.get(key)
        if versions is None:
            before = rows.live.get(key)
            first = NO_ROW_BEFORE if before is None else KeyVersion(before.snapshot_id, before)
            versions = rows.history[key] = [first]
        if versions[-1].snapshot_id == self.snapshot_id:
            versions.pop()
        versions.append(KeyVersion(self.snapshot_id, version))
        self.rows.append((table, key))

    def touch_row(self, rows: KeyedRows, row_id: int, kind: m.ChangeKind) -> None:
        """Note a row's last change, the newest at the end."""
        before = rows.row_touches.pop(row_id, None)
        other_at = -1
        if before is not None:
            other_at = before.last(m.ChangeKind.UPDATE_ROW if kind is m.ChangeKind.FLUSH else m.ChangeKind.FLUSH)
        rows.row_touches[row_id] = RowTouch(self.snapshot_id, kind, other_at)

    def end_row(self, table: TableState, rows: KeyedRows, key: str, kind: m.ChangeKind) -> None:
        """Take a row out of the live ones."""
        self.note_row(table, rows, key, None)
        version = rows.fall(key)
        rows.inlined.discard(version.row_id)
        self.touch_row(rows, version.row_id, kind)
        self.state.keyed_rows -= 1

    def start_row(self, table: TableState, rows: KeyedRows, version: RowVersion, kind: m.ChangeKind) -> None:
        """Make a row live; one that stood under its key has been ended, and none is held back."""
        assert version.image is not None
        key = key_of(table.definition, version.image)
        assert key not in rows.live
        self.note_row(table, rows, key, version)
        rows.sites.pop(key, None)
        rows.release(key)
        rows.stand(key, version)
        rows.inlined.add(version.row_id)
        self.touch_row(rows, version.row_id, kind)
        self.state.keyed_rows += 1

    def flush(self, change: m.Flush, effect: m.Effect, _: int) -> None:
        table = self.table(effect)
        assert table.rows is not None
        for file in change.files:
            self.add_file(table, file)
            for row_id in file.row_ids or ():
                table.rows.inlined.discard(row_id)
                self.touch_row(table.rows, row_id, change.kind)
        self.touch(table, change.kind)

    # --- the log itself -----------------------------------------------------------------------------------------------

    def expire(self, change: m.ExpireSnapshots, _: m.Effect, __: int) -> None:
        raise_floor(self.state, change.older_than_snapshot_id)

    def configure(self, change: m.Configure, _: m.Effect, __: int) -> None:
        of_node, rest = node_and_rest(change.settings)
        if of_node:
            self.state.node = changed_node(self.state.node, of_node, self.state.settings.name_length_max)
        if rest:
            self.state.settings = changed_settings(self.state.settings, rest)


_APPLY: dict[m.ChangeKind, Callable[[_Replay, Any, m.Effect, int], None]] = {
    m.ChangeKind.CREATE_SCHEMA: _Replay.create_schema,
    m.ChangeKind.DROP_SCHEMA: _Replay.drop_schema,
    m.ChangeKind.CREATE_TABLE: _Replay.create_table,
    m.ChangeKind.DROP_TABLE: _Replay.drop_table,
    m.ChangeKind.RENAME_TABLE: _Replay.rename_table,
    m.ChangeKind.ALTER_TABLE: _Replay.alter_table,
    m.ChangeKind.CREATE_VIEW: _Replay.create_view,
    m.ChangeKind.REPLACE_VIEW: _Replay.replace_view,
    m.ChangeKind.DROP_VIEW: _Replay.drop_table,
    m.ChangeKind.APPEND: _Replay.append,
    m.ChangeKind.DELETE: _Replay.delete,
    m.ChangeKind.COMPACT: _Replay.compact,
    m.ChangeKind.INSERT_ROW: _Replay.row,
    m.ChangeKind.UPDATE_ROW: _Replay.row,
    m.ChangeKind.DELETE_ROW: _Replay.row,
    m.ChangeKind.FLUSH: _Replay.flush,
    m.ChangeKind.EXPIRE_SNAPSHOTS: _Replay.expire,
    m.ChangeKind.CONFIGURE: _Replay.configure,
}
