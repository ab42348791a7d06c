"""What the tables of a log in memory hold, worked out from its outcomes: the catalog of a testing log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyroaring import BitMap64, FrozenBitMap64

from commitlog.catalog.folders import is_plain, object_uuid, path_of
from commitlog.catalog.history import HistoryEntry, HistoryFilter, WriterTotals
from commitlog.catalog.projecting.given_ids import AssignedIds, FileIds
from commitlog.catalog.projecting.row_values import to_rows_table
from commitlog.catalog.queries import CatalogFile, CatalogSnapshot, CatalogTable, FileTotals
from commitlog.catalog.snapshot_diff import Named, ObjectDifference, compared
from commitlog.catalog.table_changes import ChangedFile, ChangedRow
from commitlog.catalog.taken_over import HeldRow
from commitlog.client.access.history_entries import schemas_dropped
from commitlog.client.access.memory_history import MemoryHistory
from commitlog.client.access.memory_shapes import MemoryViews, columns_ended, shape_at
from commitlog.client.access.memory_sites import HeldRows
from commitlog.client.tables.table_at import LiveFile
from commitlog.domain import model as m
from commitlog.domain.deciding.proofs import excludes, lists_of
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import check_partition_values, partition_texts
from commitlog.domain.model.definitions import Column, EndedColumn, TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import Entry, SchemaState, SequencerState, TableState
from commitlog.domain.state.sites import moves
from commitlog.errors import InvalidChangeError, MomentNotFoundError, SnapshotNotFoundError
from commitlog.log.codec import decode_statistics


@dataclass(slots=True)
class _File:
    """A data file and what became of it: the definition of its table at the time, its partition as a catalog would tell it,
    and deletes, the oldest first."""

    live: LiveFile
    table_id: int
    file: m.DataFile
    row_id_start: int | None
    since: int
    then: TableDefinition
    partition: tuple[str | None, ...] | None
    until: int | None = None
    positions: list[tuple[int, FrozenBitMap64]] = field(default_factory=list)
    delete_files: list[tuple[int, m.DeleteFile]] = field(default_factory=list)

    def is_live_at(self, snapshot_id: int) -> bool:
        return self.since <= snapshot_id and (self.until is None or self.until > snapshot_id)

    def deletes(self) -> list[tuple[int, FrozenBitMap64]]:
        """The positions that were deleted, by snapshot, the oldest first."""
        filed = [(since, FrozenBitMap64(each.rows)) for since, each in self.delete_files]
        return sorted([*self.positions, *filed], key=lambda each: each[0])


@dataclass(slots=True)
class _Row:
    """A row that is in no file, its values by column id as the projector writes them."""

    row_id: int
    values: Mapping[int, Any]
    since: int
    until: int | None = None


class MemoryContents:
    """The contents of a log in memory: the `Contents` of its readers.

    Args:
        state: the log's state by now.
        genesis: what it began with.
        lock: held while the log changes; one thread may take it again.
    """

    def __init__(
        self,
        state: Callable[[], SequencerState],
        genesis: m.Genesis,
        lock: AbstractContextManager[Any],
    ) -> None:
        self._state = state
        self._genesis = genesis
        self._lock = lock
        began = datetime.fromtimestamp(genesis.created_at_ms / 1000, UTC)
        self._snapshots = [(CatalogSnapshot(0, began, None, (), None, None, None), frozenset[int]())]
        self._history = MemoryHistory()
        self._views = MemoryViews()
        self._held = HeldRows()
        self._definitions: dict[int, list[tuple[int, TableDefinition]]] = {}
        self._files: dict[int, _File] = {}
        self._rows: defaultdict[int, list[_Row]] = defaultdict(list)
        # Of those the ones that nothing has ended, by their ids: a table has as many others as it had changes.
        self._standing: defaultdict[int, dict[int, _Row]] = defaultdict(dict)

    # --- taking outcomes ----------------------------------------------------------------------------------------------

    def take(self, outcome: m.Outcome) -> None:
        """Add an outcome and what it has committed; the log's state is the one after it."""
        proposal, snapshot_id = outcome.proposal, outcome.snapshot_id
        with self._lock:
            self._history.take(outcome, self._table_id_of, self._dropped_by(outcome))
            self._views.take(outcome)
            self._held.take(outcome)
            if snapshot_id is None or proposal is None:
                return
            touched = self._define(outcome, snapshot_id)
            self._change(outcome, proposal, snapshot_id)
            self._snapshots.append((_snapshot(outcome, proposal, snapshot_id), touched))

    def _table_id_of(self, named: tuple[str, str]) -> int | None:
        """Of a table at the head."""
        state = self._state()
        head = state.head_snapshot_id
        holder = state.schema_at(fold(named[0]), head)
        entry = None if holder is None else state.entry_at(holder, fold(named[1]), head)
        return entry.table_id if isinstance(entry, TableState) else None

    def _dropped_by(self, outcome: m.Outcome) -> dict[int, Named]:
        """The tables and views that went with their schema, by id."""
        dropped = schemas_dropped(outcome)
        state = self._state()
        entries: Iterable[Entry] = (*state.tables.values(), *state.views.values()) if dropped else ()
        return {
            each.entry_id: Named(each.schema.name, each.name)
            for each in entries
            if each.dropped_at == outcome.snapshot_id and fold(each.schema.name) in dropped
        }

    def _define(self, outcome: m.Outcome, snapshot_id: int) -> frozenset[int]:
        """Keep the definitions of the tables that an outcome names; their ids."""
        effects = (*outcome.effects, *(effect for effect, _ in moves(outcome)))
        named = {each.object_id for each in effects if each.object_id is not None and not each.skipped}
        tables = [table for each in named if (table := self._state().tables.get(each)) is not None]
        for table in tables:
            versions = self._definitions.setdefault(table.table_id, [])
            if not versions or versions[-1][1] != table.definition:
                versions.append((snapshot_id, table.definition))
        return frozenset(table.table_id for table in tables)

    def _change(self, outcome: m.Outcome, proposal: m.Proposal, snapshot_id: int) -> None:
        assigned = AssignedIds(outcome.assigned)
        images = {each.change: each.row for each in outcome.resolutions if each.action is m.ResolutionAction.HANDLED}
        altered: dict[int, TableDefinition] = {}
        for index, (change, effect) in enumerate(zip(proposal.changes, outcome.effects, strict=True)):
            if effect.skipped:
                continue
            given = assigned.of(change, effect)
            if isinstance(change, m.Append | m.Compact | m.Flush):
                assert effect.object_id is not None
                # A compaction commits beside alterations of its table, which its writer knew as it was at the base.
                known_at = proposal.base_snapshot_id if isinstance(change, m.Compact) else snapshot_id
                then = self.definition_at(effect.object_id, known_at)
                for file, ids in zip(change.files, given.files, strict=True):
                    self._add_file(effect.object_id, file, ids, proposal, snapshot_id, then)
                self._end_replaced(effect.object_id, change, snapshot_id)
            elif isinstance(change, m.Delete):
                self._delete(change, snapshot_id)
            elif isinstance(change, m.AlterTable):
                assert effect.object_id is not None
                then = altered.get(effect.object_id) or self._found(effect.object_id, snapshot_id)
                altered[effect.object_id] = alter(then, change.alterations, partition_ids=given.partitions, came=True)
            elif isinstance(change, m.InsertRow | m.UpdateRow | m.DeleteRow):
                assert effect.object_id is not None
                asked = None if isinstance(change, m.DeleteRow) else change.row
                then = altered.get(effect.object_id) or self._found(effect.object_id, snapshot_id)
                came = proposal.replicated is not None
                self._change_row(effect, images.get(index, asked), snapshot_id, then, made_before=came)
        for effect, image in moves(outcome):
            assert effect.object_id is not None
            then = self.definition_at(effect.object_id, snapshot_id)
            self._change_row(effect, image, snapshot_id, then, made_before=True)

    def _found(self, table_id: int, snapshot_id: int) -> TableDefinition:
        """The definition of a table as the changeset of a snapshot found it, or has created it."""
        versions = self._definitions[table_id]
        return next((known for since, known in reversed(versions) if since < snapshot_id), versions[-1][1])

    def _add_file(
        self, table_id: int, file: m.DataFile, ids: FileIds, by: m.Proposal, snapshot_id: int, then: TableDefinition
    ) -> None:
        live = LiveFile(ids.data_file_id, file.path, by.proposal_id, by.writer_id, by.writer_seq)
        partition = _partition_of(file, then)
        self._files[ids.data_file_id] = _File(live, table_id, file, ids.row_id_start, snapshot_id, then, partition)

    def _end_replaced(self, table_id: int, change: m.Append | m.Compact | m.Flush, snapshot_id: int) -> None:
        if isinstance(change, m.Compact):
            for data_file_id in change.replaced:
                self._files[data_file_id].until = snapshot_id
        for file in change.files:
            for row_id in file.row_ids or ():
                if (row := self._standing[table_id].pop(row_id, None)) is not None:
                    row.until = snapshot_id

    def _delete(self, change: m.Delete, snapshot_id: int) -> None:
        for positions in change.positions:
            self._files[positions.data_file_id].positions.append((snapshot_id, FrozenBitMap64(positions.rows)))
        for each in change.delete_files:
            self._files[each.data_file_id].delete_files.append((snapshot_id, each))
        for data_file_id in change.whole_files:
            self._files[data_file_id].until = snapshot_id

    def _change_row(
        self, effect: m.Effect, image: m.Row | None, snapshot_id: int, then: TableDefinition, *, made_before: bool
    ) -> None:
        assert effect.object_id is not None
        if effect.ended_row_id is not None:
            self._end_row(effect.object_id, effect.ended_row_id, snapshot_id)
        if effect.row_id is not None:
            assert image is not None
            whole = complete_row(then, image, made_before=made_before)
            values = {column.column_id: to_rows_table(column.type, whole[column.name]) for column in then.columns}
            row = _Row(effect.row_id, values, snapshot_id)
            self._rows[effect.object_id].append(row)
            self._standing[effect.object_id][effect.row_id] = row

    def _end_row(self, table_id: int, row_id: int, snapshot_id: int) -> None:
        """End a row where it is: outside of files, or in the file that a flush has moved it to."""
        if (row := self._standing[table_id].pop(row_id, None)) is not None:
            row.until = snapshot_id
            return
        for file in self._files.values():
            if file.table_id == table_id and file.until is None and row_id in (file.file.row_ids or ()):
                position = (file.file.row_ids or ()).index(row_id)
                file.positions.append((snapshot_id, FrozenBitMap64([position])))

    # --- asking -------------------------------------------------------------------------------------------------------

    def at_once(self) -> AbstractContextManager[Any]:
        return self._lock

    def definition_at(self, table_id: int, snapshot_id: int) -> TableDefinition:
        """The definition of a table that was there at a snapshot."""
        versions = self._definitions[table_id]
        return next(known for since, known in reversed(versions) if since <= snapshot_id)

    def live_files(self, table_id: int, paths: Sequence[str]) -> list[LiveFile]:
        """The live data files of a table that have these paths."""
        with self._lock:
            return [
                each.live
                for each in self._files.values()
                if each.table_id == table_id and each.until is None and each.live.path in paths
            ]

    def check_snapshot(self, snapshot_id: int) -> None:
        floor, head = self._state().floor_snapshot_id, self._state().head_snapshot_id
        if not floor <= snapshot_id <= head:
            raise SnapshotNotFoundError(snapshot_id, floor_snapshot_id=floor, head_snapshot_id=head)

    def snapshot_at(self, moment: datetime) -> int:
        with self._lock:
            floor = self._state().floor_snapshot_id
            kept = [each for each, _ in self._snapshots if each.snapshot_id >= floor]
        before = [each.snapshot_id for each in kept if each.time <= moment]
        if not before:
            raise MomentNotFoundError(moment, floor_snapshot_id=floor, began=kept[0].time)
        return before[-1]

    def snapshots(
        self, *, table_id: int | None = None, limit: int | None = None, before: int | None = None
    ) -> list[CatalogSnapshot]:
        floor = self._state().floor_snapshot_id
        with self._lock:
            found = [
                each
                for each, touched in reversed(self._snapshots)
                if each.snapshot_id >= floor
                and (before is None or each.snapshot_id < before)
                and (table_id is None or table_id in touched)
            ]
        return found[:limit]

    def differences(self, first: int, last: int) -> list[ObjectDifference]:
        for snapshot_id in (first, last):
            self.check_snapshot(snapshot_id)
        with self._lock:
            return compared(*(shape_at(self, self._state(), self._views, at) for at in (first, last)))

    def own_node(self) -> Node | None:
        return self._state().node

    def digest(self) -> Mapping[str, m.KnownNode]:
        return dict(self._state().digest)

    def held_rows(self, limit: int) -> list[HeldRow]:
        with self._lock:
            live = {table_id for table_id, table in self._state().tables.items() if table.dropped_at is None}
            return self._held.latest(limit, live)

    def history(self, asked: HistoryFilter) -> list[HistoryEntry]:
        with self._lock:
            return self._history.search(asked)

    def schemas(self, snapshot_id: int) -> list[str]:
        state = self._state()
        with self._lock:
            return sorted(
                each.name for each in state.schemas.values() if state.schema_at(fold(each.name), snapshot_id) is each
            )

    def tables(self, snapshot_id: int) -> list[tuple[str, str, int]]:
        with self._lock:
            known = [
                (table_id, self.definition_at(table_id, snapshot_id))
                for table_id, versions in self._definitions.items()
                if versions[0][0] <= snapshot_id
            ]
        named = [(self._state().schemas[each.schema_id].name, each.name, table_id) for table_id, each in known]
        return sorted(
            (schema, name, table_id)
            for schema, name, table_id in named
            if (found := self.table_at(schema, name, snapshot_id)) is not None and found.definition.table_id == table_id
        )

    def schemas_with_views(self, snapshot_id: int) -> list[str]:
        with self._lock:
            return sorted({each.named.schema for each in self._views.at(self._state(), snapshot_id).values()})

    def table_at(self, schema: str, table: str, snapshot_id: int) -> CatalogTable | None:
        state = self._state()
        with self._lock:
            holder = state.schema_at(fold(schema), snapshot_id)
            entry = None if holder is None else state.entry_at(holder, fold(table), snapshot_id)
            if holder is None or not isinstance(entry, TableState):
                return None
            first = self._definitions[entry.table_id][0][1]
            definition = self.definition_at(entry.table_id, snapshot_id)
            folder = path_of(first.name, str(object_uuid(self._genesis.log_id, "table", entry.table_id)))
            return CatalogTable(definition, holder.name, self._schema_path(holder) + folder)

    def tables_at(self, snapshot_id: int) -> list[CatalogTable]:
        found = (self.table_at(schema, name, snapshot_id) for schema, name, _ in self.tables(snapshot_id))
        return [each for each in found if each is not None]

    def columns_ended(self, table_id: int, name: str) -> list[EndedColumn]:
        with self._lock:
            return columns_ended(self._definitions[table_id], name)

    def namings(self, schema: str, table: str) -> list[int]:
        state = self._state()
        with self._lock:
            holders = [each.schema_id for each in state.schemas.values() if fold(each.name) == fold(schema)]
            events = [event for each in holders for event in state.names.get((each, fold(table)), ())]
            found = {event.snapshot_id for event in events}
            for event in events:
                if isinstance(event.entry, TableState):
                    found.update(since for since, _ in self._definitions[event.entry.table_id])
            return sorted(found, reverse=True)

    def new_table_path(self, schema: str, table: str, *, is_schema_new: bool = False) -> str | None:
        """Where the files of a table will be that does not exist yet; None where a real log does not know it either."""
        if is_schema_new:
            both_plain = is_plain(schema) and is_plain(table)
            return f"{self._genesis.data_path}/{schema}/{table}/" if both_plain else None
        state = self._state()
        holder = state.schema_at(fold(schema), state.head_snapshot_id)
        return None if holder is None or not is_plain(table) else self._schema_path(holder) + table + "/"

    def _schema_path(self, schema: SchemaState) -> str:
        folder = path_of(schema.name, str(object_uuid(self._genesis.log_id, "schema", schema.schema_id)))
        return f"{self._genesis.data_path}/{folder}"

    def files_at(
        self, table: CatalogTable, snapshot_id: int, *, where: Iterable[m.Predicate] = (), newest: int | None = None
    ) -> list[CatalogFile]:
        now, conjunction = table.definition, tuple(where)
        for predicate in conjunction:
            now.column(predicate.column)
        listed = lists_of(now, conjunction)
        with self._lock:
            found = [
                self._shown(each, table, snapshot_id)
                for each in self._files.values()
                if each.table_id == now.table_id
                and each.is_live_at(snapshot_id)
                # Statistics and partition values go by the names of their day.
                and not (each.then == now and excludes(now, each.file, conjunction, decode_statistics, listed))
            ]
        return found if newest is None else found[max(0, len(found) - newest) :]

    def file_totals_at(self, table: CatalogTable, snapshot_id: int) -> FileTotals:
        files = self.files_at(table, snapshot_id)
        return FileTotals(
            len(files),
            sum(each.live_count for each in files),
            sum(each.deleted_count for each in files),
            sum(each.file_size_bytes for each in files),
        )

    def file_count_at(self, table_id: int, snapshot_id: int) -> int:
        return self.file_counts_at(snapshot_id).get(table_id, 0)

    def file_counts_at(self, snapshot_id: int) -> Mapping[int, int]:
        with self._lock:
            return Counter(each.table_id for each in self._files.values() if each.is_live_at(snapshot_id))

    def _shown(self, kept: _File, table: CatalogTable, snapshot_id: int) -> CatalogFile:
        file, now = kept.file, table.definition
        filed = [each for since, each in kept.delete_files if since <= snapshot_id]
        return CatalogFile(
            data_file_id=kept.live.data_file_id,
            path=table.place(file.path, file.path_is_relative),
            record_count=file.record_count,
            file_size_bytes=file.file_size_bytes,
            footer_size=file.footer_size,
            row_id_start=kept.row_id_start,
            begin_snapshot=kept.since,
            partition_values=kept.partition if kept.then.partition_id == now.partition_id else None,
            delete_file_path=table.place(filed[-1].path, filed[-1].path_is_relative) if filed else None,
            delete_count=len(filed[-1].rows) if filed else 0,
            deleted=FrozenBitMap64(BitMap64().union(*(rows for since, rows in kept.positions if since <= snapshot_id))),
            name_mapping=None
            if file.name_mapping is None
            else _renamed(file.name_mapping, kept.then.columns, now.columns),
        )

    def rows_at(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> list[Mapping[int, Any]]:
        return [row for _, row in self.rows_by_id_at(table_id, snapshot_id, limit=limit)]

    def rows_in_parts(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> Iterator[list[Mapping[int, Any]]]:
        yield self.rows_at(table_id, snapshot_id, among=among, limit=limit)

    def rows_by_id_at(
        self, table_id: int, snapshot_id: int, *, upto: int | None = None, limit: int | None = None
    ) -> list[tuple[int, Mapping[int, Any]]]:
        rows = sorted(self._live_rows(table_id, snapshot_id), key=lambda each: each.row_id)
        return [(each.row_id, each.values) for each in rows if upto is None or each.since <= upto][:limit]

    def _live_rows(self, table_id: int, snapshot_id: int) -> list[_Row]:
        with self._lock:
            return [
                each
                for each in self._rows.get(table_id, ())
                if each.since <= snapshot_id and (each.until is None or each.until > snapshot_id)
            ]

    def row_count_at(self, table_id: int, snapshot_id: int) -> int:
        return len(self._live_rows(table_id, snapshot_id))

    def newest_row_at(self, table_id: int, snapshot_id: int) -> int | None:
        """The snapshot that made the newest of a table's rows that are in no file."""
        return max((each.since for each in self._live_rows(table_id, snapshot_id)), default=None)

    def writers(self, limit: int) -> list[WriterTotals]:
        with self._lock:
            return self._history.writers(limit)

    def changes(self, table: CatalogTable, after: int, upto: int) -> MemoryChanges:
        return MemoryChanges(self, table, after, upto)

    def changed_files(self, table: CatalogTable, is_asked: Callable[[int], bool]) -> Iterator[ChangedFile]:
        """What was inserted into and deleted from files, in the snapshots that are asked for."""
        for kept in self._files.values():
            if kept.table_id != table.definition.table_id:
                continue
            file = self._shown(kept, table, -1)
            if is_asked(kept.since):
                yield ChangedFile(kept.since, False, file)
            gone = BitMap64()
            for since, rows in kept.deletes():
                if is_asked(since):
                    yield ChangedFile(since, True, file, tuple(rows - gone))
                gone |= rows
            if kept.until is not None and is_asked(kept.until):
                yield ChangedFile(kept.until, True, file, without=tuple(gone))

    def changed_rows(self, table: CatalogTable, is_asked: Callable[[int], bool]) -> Iterator[ChangedRow]:
        """Which rows outside of files came and went in the snapshots that are asked for."""
        for row in self._rows.get(table.definition.table_id, ()):
            if is_asked(row.since):
                yield ChangedRow(row.since, False, row.row_id, row.values)
            if row.until is not None and is_asked(row.until):
                yield ChangedRow(row.until, True, row.row_id, row.values)

    def maintained(self) -> frozenset[int]:
        """The snapshots that changed no rows, only where they are."""
        with self._lock:
            return frozenset(each.snapshot_id for each, _ in self._snapshots if {*each.changes} & {"COMPACT", "FLUSH"})


class MemoryChanges:
    """What the snapshots after one and up to another changed in a table of a log in memory: the `Changes` of its readers."""

    def __init__(self, contents: MemoryContents, table: CatalogTable, after: int, upto: int) -> None:
        self._contents = contents
        self._table = table
        maintained = contents.maintained()
        self._is_asked = lambda snapshot_id: after < snapshot_id <= upto and snapshot_id not in maintained

    def files(self, *, deletes: bool) -> list[ChangedFile]:
        with self._contents.at_once():
            found = list(self._contents.changed_files(self._table, self._is_asked))
        return sorted(
            (each for each in found if deletes or not each.is_delete),
            key=lambda each: (each.snapshot_id, each.file.data_file_id),
        )

    def rows_in_parts(self, *, deletes: bool) -> Iterator[list[ChangedRow]]:
        with self._contents.at_once():
            found = list(self._contents.changed_rows(self._table, self._is_asked))
        yield [each for each in found if deletes or not each.is_delete]


def _snapshot(outcome: m.Outcome, proposal: m.Proposal, snapshot_id: int) -> CatalogSnapshot:
    return CatalogSnapshot(
        snapshot_id=snapshot_id,
        time=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=outcome.snapshot_time_us or 0),
        writer_id=proposal.writer_id,
        changes=tuple(dict.fromkeys(change.kind.value for change in proposal.changes)),
        author=proposal.author,
        message=proposal.message,
        extra=proposal.extra,
    )


def _partition_of(file: m.DataFile, then: TableDefinition) -> tuple[str | None, ...] | None:
    """A file's partition values; None where they are not known, or those of a compaction do not fit."""
    values = file.partition_values
    if not values:
        return None
    try:
        check_partition_values(then, file)
    except InvalidChangeError:
        return None
    return None if then.unknown_buckets(values) else partition_texts(then, values)


def _renamed(
    mapped: Sequence[m.MappedColumn], then: Sequence[Column], now: Sequence[Column]
) -> tuple[m.MappedColumn, ...]:
    """A mapping by today's names of the columns."""
    old = {fold(column.name): column for column in then}
    new = {column.column_id: column for column in now}
    pairs = [(each, old[fold(each.column)]) for each in mapped if fold(each.column) in old]
    return tuple(
        m.MappedColumn(
            each.source_name,
            new[column.column_id].name,
            _renamed(each.children, column.children, new[column.column_id].children),
        )
        for each, column in pairs
        if column.column_id in new
    )
