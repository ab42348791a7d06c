"""The source's history as proposals: one for each of its snapshots, decided in memory as they are made.

The log's own rules say whether a proposal commits and which ids it gives, so a lake that cannot be expressed stops here,
before anything is written. Snapshots that were expired become fillers; the state of the oldest one that is kept is made
in the last of them:

- the schemas, tables and views are created, with placeholders for column ids that are used up;
- the tables are altered to what they were, and take their files; ids of rows that are gone are given to empty files;
- deleted rows are deleted, and the empty files.

A state that is too large for one changeset is made so in parts, one after another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pyroaring import FrozenBitMap64

from commitlog.adoption.definitions import Definitions, LakeAt, SourceColumn, SourceTable, difference, without_history
from commitlog.adoption.file_records import name_mapping, partition_values, statistics
from commitlog.adoption.files import SourceFiles, Written
from commitlog.adoption.parts import parts_of
from commitlog.adoption.rowids import RowIds
from commitlog.adoption.rows import Piece, RowHistory, TableRows
from commitlog.adoption.source import SourceLake, find_obstacles
from commitlog.client.ids import id_of_content
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.model.definitions import FOREIGN_PATHS, Column
from commitlog.domain.model.ids import partition_for
from commitlog.domain.model.settings import PROPOSAL_BYTES_LIMIT
from commitlog.domain.model.types import NESTED
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import AdoptionError
from commitlog.log.codec import decode_proposal, encode_proposal

WRITER = "adopt"
POSITIONS_MAX = 10_000
"""Rows of one file that are deleted by position; more of them take a delete file, as what is more than a changeset may have."""

_FILLER = m.ExpireSnapshots(0)
_ANYWHERE = {FOREIGN_PATHS: "true"}


@dataclass(frozen=True, slots=True)
class AdoptedSnapshot:
    """A proposal and what became of it in memory."""

    proposal: m.Proposal
    encoded: bytes
    outcome: m.Outcome


@dataclass(slots=True)
class AdoptionCounts:
    """What a translation comes to."""

    snapshots: int = 0
    tables: int = 0
    files: int = 0
    files_written: int = 0
    rows: int = 0


@dataclass(slots=True)
class _Table:
    """A table on its way through the history."""

    rows: TableRows
    log_table_id: int = -1
    ids: RowIds = field(default_factory=RowIds)


class Translation:
    """One run through the source's history; each run starts anew.

    Args:
        lake: the source.
        genesis: of the log that takes it over.
        write: False leaves no trace: files that would be written are only named.
    """

    def __init__(self, lake: SourceLake, genesis: m.Genesis, *, write: bool) -> None:
        self._lake = lake
        self._genesis = genesis
        self._files = SourceFiles(lake, write=write)
        self._definitions = Definitions(lake)
        self._state = new_state(genesis)
        self._source = partition_for(WRITER, genesis.partitions)
        self._floor = lake.floor if lake.floor >= 2 else 0
        self._steps = min(self._floor, 3)
        self._parts: list[LakeAt] = []
        self._history = RowHistory(lake, self._files, starts_at=self._floor, deletes_apart=self._steps == 3)
        self._tables: dict[int, _Table] = {}
        self._moved: dict[int, set[int]] = defaultdict(set)
        self._appending: list[Piece] = []
        self._positions_left = genesis.settings.changeset_positions_max
        self._gaps: dict[int, list[Piece]] = {}
        self._checked: LakeAt | None = None
        self._time_ms = lake.first_time_ms
        self.counts = AdoptionCounts()

    def run(self) -> Iterator[AdoptedSnapshot]:
        """Each proposal in turn.

        Raises:
            AdoptionError: something in the source that a log cannot express.
        """
        if obstacles := list(find_obstacles(self._lake)):
            raise AdoptionError(obstacles)
        if self._floor:
            parts = parts_of(self._lake, self._definitions.at(self._floor), self._genesis.settings)
            # Too few snapshots may have been expired for more than one.
            is_enough = len(parts) * self._steps <= self._floor
            self._parts = parts if is_enough else [self._definitions.at(self._floor)]
        before = LakeAt()
        for snapshot_id in range(1, self._lake.head + 1):
            if snapshot_id <= self._floor:
                changes = self._start(snapshot_id)
                before = self._definitions.at(self._floor) if snapshot_id == self._floor else before
            else:
                after = self._definitions.at(snapshot_id)
                changes = self._changes(before, after, snapshot_id)
                before = after
            yield self._commit(snapshot_id, changes)
        rest: list[list[m.Change]] = [list(self._comments(before))]
        if self._lake.floor > 0:
            rest.append([m.ExpireSnapshots(self._lake.floor)])
        for snapshot_id, changes in enumerate(filter(None, rest), self._lake.head + 1):
            yield self._commit(snapshot_id, changes)
        self._count(before)

    # --- the state of the oldest snapshot -----------------------------------------------------------------------------

    def _start(self, snapshot_id: int) -> list[m.Change]:
        """What makes the start in a snapshot up to it: for each part of it its steps, one after another."""
        number, step = divmod(snapshot_id - 1 - self._floor + len(self._parts) * self._steps, self._steps)
        if number < 0:
            return []
        state = self._parts[number]
        bare = replace(state, tables={key: without_history(table) for key, table in state.tables.items()})
        if step == 0:
            before = LakeAt(state.schemas) if number else LakeAt()
            return list(difference(before, bare, self._next_column_id, _ANYWHERE))
        changes: list[m.Change] = []
        if step == 1:
            changes += difference(bare, state, self._next_column_id, _ANYWHERE)
            for table in state.tables.values():
                changes += self._append_start(table) if self._steps == 3 else self._append(table, self._floor)
            return changes
        for table in state.tables.values():
            changes += self._delete(table, self._floor, also=self._gaps.get(table.table_id, ()))
        return changes

    def _append_start(self, table: SourceTable) -> Iterator[m.Change]:
        """The files of the start. Ids of rows that are gone go to gaps, so that each row keeps its id of the source.

        Files whose rows are numbered in order come first; then the others, which carry their ids.
        """
        known = self._known(table)
        numbered: list[tuple[range, Piece]] = []
        carrying: list[tuple[list[int], Piece]] = []
        end = 0
        for piece in known.rows.pieces.get(self._floor, []):
            ids = self._source_ids(piece)
            if isinstance(ids, range):
                numbered.append((ids, piece))
                end = max(end, ids.stop)
            else:
                carrying.append((ids, piece))
                end = max(end, max(ids, default=-1) + 1)
        made: list[m.DataFile] = []
        start = self._next_row_id(known)
        for following, piece in sorted(numbered, key=lambda each: each[0].start):
            start += self._add_gap(made, table, start, following.start - start)
            made.append(self._data_file(piece, table, start, following))
            start += made[-1].record_count
        start += self._add_gap(made, table, start, end - start)
        for ids, piece in carrying:
            made.append(self._data_file(piece, table, start, ids))
            start += made[-1].record_count
        if made:
            yield m.Append(table.schema, table.name, tuple(made))

    def _source_ids(self, piece: Piece) -> range | list[int]:
        """The row ids of a piece; a range when they follow from its first one, so that nothing has to carry them."""
        if piece.file is None:
            ids = [row_id for row_id, _ in piece.inlined_rows]
        else:
            carried = self._files.row_ids(piece.path)
            start, count = piece.file["row_id_start"], piece.file["record_count"]
            if carried is not None:
                return carried if piece.positions is None else [carried[position] for position in piece.positions]
            if piece.positions is None:
                return range(start, start + count)
            ids = [start + position for position in piece.positions]
        return range(ids[0], ids[-1] + 1) if ids and ids[-1] - ids[0] + 1 == len(ids) else ids

    def _add_gap(self, made: list[m.DataFile], table: SourceTable, start: int, count: int) -> int:
        if count <= 0:
            return 0
        target = self._target(table, f"gap-{start}")
        piece = Piece(table.table_id, self._floor, log_path=target)
        self._gaps.setdefault(table.table_id, []).append(piece)
        self._appending.append(piece)
        self._known(table).ids.add(start, count, start)
        made.append(self._files.write_gap(target, table, count))
        self.counts.files_written += 1
        return count

    # --- one snapshot after another -----------------------------------------------------------------------------------

    def _changes(self, before: LakeAt, after: LakeAt, snapshot_id: int) -> list[m.Change]:
        changes = list(difference(before, after, self._next_column_id, _ANYWHERE))
        compactions: list[m.Change] = []
        if after is not before:
            for table in after.tables.values():
                self._known(table)
        moved = self._moved.pop(snapshot_id, ())
        for table in after.tables.values() if moved else ():
            if table.table_id not in moved:
                continue
            if self._is_compaction(self._known(table), table.table_id, snapshot_id):
                compactions += self._compact(table, snapshot_id)
            else:
                changes += self._delete(table, snapshot_id)
                changes += self._append(table, snapshot_id)
        return changes + compactions

    def _is_compaction(self, known: _Table, table_id: int, snapshot_id: int) -> bool:
        if not known.rows.ends.get(snapshot_id):
            return False
        snapshot = self._lake.snapshots.get(snapshot_id)
        if snapshot is not None and snapshot.compacted(table_id):
            return True
        begun = known.rows.pieces.get(snapshot_id, ())
        return bool(begun) and all(p.file is not None and p.file["row_id_start"] is None for p in begun)

    def _compact(self, table: SourceTable, snapshot_id: int) -> Iterator[m.Change]:
        rows = self._known(table).rows
        replaced = tuple(piece.data_file_id for piece in rows.ends[snapshot_id])
        made = tuple(self._data_file(piece, table, None) for piece in rows.pieces.get(snapshot_id, ()))
        for piece in rows.ends[snapshot_id]:
            piece.ended = True
        yield m.Compact(table.schema, table.name, replaced, made)

    def _append(self, table: SourceTable, snapshot_id: int) -> Iterator[m.Change]:
        known = self._known(table)
        start = self._next_row_id(known)
        made: list[m.DataFile] = []
        for piece in known.rows.pieces.get(snapshot_id, ()):
            made.append(self._data_file(piece, table, start))
            start += made[-1].record_count
        if made:
            yield m.Append(table.schema, table.name, tuple(made))

    def _delete(self, table: SourceTable, snapshot_id: int, also: Iterable[Piece] = ()) -> Iterator[m.Change]:
        rows = self._known(table).rows
        whole = [*rows.ends.get(snapshot_id, ()), *also]
        for piece in whole:
            piece.ended = True
        positions: list[m.PositionDelete] = []
        delete_files: list[m.DeleteFile] = []
        for piece, places in rows.deaths.get(snapshot_id, {}).values():
            if piece.ended:
                continue
            if len(places) <= min(POSITIONS_MAX, self._positions_left):
                self._positions_left -= len(places)
                positions.append(m.PositionDelete(piece.data_file_id, FrozenBitMap64(sorted(places))))
                continue
            piece.filed |= places
            delete_files.append(self._delete_file(piece, table, snapshot_id))
        files = tuple(piece.data_file_id for piece in whole)
        if positions or delete_files or files:
            yield m.Delete(table.schema, table.name, tuple(positions), tuple(delete_files), files)

    def _delete_file(self, piece: Piece, table: SourceTable, snapshot_id: int) -> m.DeleteFile:
        target = self._target(table, f"{piece.data_file_id}-deleted-{snapshot_id}")
        rows = FrozenBitMap64(sorted(piece.filed))
        return self._files.write_delete_file(piece.log_path, target, piece.data_file_id, rows)

    def _comments(self, last: LakeAt) -> Iterator[m.Change]:
        """The comments that the source has at last and the log has not: no changeset comments on a table that it creates."""
        for table in last.tables.values():
            definition = self._state.tables[self._known(table).log_table_id].definition
            made = {column.column_id: column.comment for column in definition.columns}
            steps: list[m.Alteration] = []
            if table.comment != definition.comment:
                steps.append(m.Alteration(m.AlterOp.SET_COMMENT, comment=table.comment))
            steps += (
                m.Alteration(m.AlterOp.SET_COMMENT, name=column.name, comment=column.comment)
                for column in table.columns
                if column.comment != made[column.column_id]
            )
            if steps:
                yield m.AlterTable(table.schema, table.name, tuple(steps))

    # --- files --------------------------------------------------------------------------------------------------------

    def _data_file(
        self, piece: Piece, table: SourceTable, start: int | None, source_ids: range | list[int] | None = None
    ) -> m.DataFile:
        """The file of a piece, whose rows get the ids from ``start`` on; None: they have theirs from before.

        source_ids: the row ids that the source gave, if that is known; a range when the file does not carry them.
        """
        self._appending.append(piece)
        if piece.file is None:
            return self._inlined_file(piece, table, start)
        row = piece.file
        carried = self._carried(piece, self._tables[table.table_id].ids, start, source_ids)
        lacks_defaults = self._lacks_defaults(piece, table)
        if piece.positions is None and not lacks_defaults and (carried is None or carried[0] == carried[1]):
            return self._as_it_is(piece, table)
        given = None if carried is None else carried[1]
        target = self._target(table, f"{row['data_file_id']}-{piece.begin}")
        values = partition_values(self._lake, row, table)
        if lacks_defaults:
            written = self._files.write_seen(piece.begin, target, table, self._source_ids(piece), given)
            return self._new_file(piece, written).replace(partition_values=values)
        positions = range(row["record_count"]) if piece.positions is None else piece.positions
        mapping = name_mapping(self._lake, row, table)
        written = self._files.rewrite(piece.path, target, table, positions, given, mapping)
        return self._new_file(piece, written).replace(partition_values=values)

    def _lacks_defaults(self, piece: Piece, table: SourceTable) -> bool:
        """Whether rows are read as defaults of columns that came after them, in the transaction that created their table: a
        table that a log creates has none for such rows."""
        defaulted = {column.name for column in table.columns if column.initial_default is not None}
        is_created = self._tables[table.table_id].log_table_id < 0
        return is_created and bool(defaulted) and not defaulted <= self._files.names(piece.path)

    def _carried(
        self, piece: Piece, ids: RowIds, start: int | None, source_ids: range | list[int] | None
    ) -> tuple[list[int], list[int]] | None:
        """The row ids that a piece of a file carries, the source's and the log's; None when it need not carry any."""
        row = piece.file
        assert row is not None
        source_start = row["row_id_start"]
        is_plain = source_ids is None and piece.positions is None and row["partial_max"] is None
        if is_plain and ids.is_identity and self._steps != 2:
            # Whatever it carries was given before, and all ids of the source so far are the log's.
            if source_start is not None and start is not None:
                ids.add(source_start, row["record_count"], start)
            return None
        if source_ids is None:
            source_ids = self._source_ids(piece)
        if isinstance(source_ids, range):
            assert start is not None
            ids.add(source_ids.start, len(source_ids), start)
            return None
        return source_ids, ids.carried(source_ids, start)

    def _inlined_file(self, piece: Piece, table: SourceTable, start: int | None) -> m.DataFile:
        assert piece.inlined is not None
        assert start is not None
        ids = self._tables[table.table_id].ids
        source = [row_id for row_id, _ in piece.inlined_rows]
        is_new = all(ids.find(row_id) is None for row_id in source)
        carried = ids.carried(source, start)
        target = self._target(table, f"{piece.inlined.removeprefix('ducklake_')}-{piece.begin}")
        given = None if is_new else carried
        if piece.begin == self._floor:
            return self._new_file(piece, self._files.write_seen(self._floor, target, table, source, given))
        return self._new_file(piece, self._files.write_inlined(piece.inlined, target, table, piece.inlined_rows, given))

    def _new_file(self, piece: Piece, written: Written) -> m.DataFile:
        piece.log_path = written.path
        self.counts.files_written += 1
        return m.DataFile(
            written.path,
            written.record_count,
            written.file_size_bytes,
            False,
            written.footer_size,
            written.statistics,
        )

    def _as_it_is(self, piece: Piece, table: SourceTable) -> m.DataFile:
        row = piece.file
        assert row is not None
        self._files.check(piece.path)
        piece.log_path = piece.path
        return m.DataFile(
            piece.path,
            row["record_count"],
            row["file_size_bytes"],
            False,
            row["footer_size"],
            statistics(self._lake, row, table),
            partition_values(self._lake, row, table),
            name_mapping(self._lake, row, table),
        )

    def _target(self, table: SourceTable, name: str) -> str:
        folder = self._lake.data_path + (table.folder or f"adopted/{table.table_id}/")
        return f"{folder}commitlog-adopted-{name}.parquet"

    # --- what the log makes of it -------------------------------------------------------------------------------------

    def _known(self, table: SourceTable) -> _Table:
        known = self._tables.get(table.table_id)
        if known is None:
            rows = self._history.of_table(table.table_id)
            known = self._tables[table.table_id] = _Table(rows)
            for snapshot_id in {*rows.pieces, *rows.deaths, *rows.ends}:
                self._moved[snapshot_id].add(table.table_id)
        return known

    def _next_row_id(self, known: _Table) -> int:
        return self._state.tables[known.log_table_id].next_row_id if known.log_table_id >= 0 else 0

    def _next_column_id(self, table_id: int) -> int:
        return self._state.tables[self._tables[table_id].log_table_id].definition.next_column_id

    def _commit(self, snapshot_id: int, changes: Iterable[m.Change]) -> AdoptedSnapshot:
        snapshot = self._lake.snapshots.get(snapshot_id)
        self._time_ms = max(self._time_ms, snapshot.time_ms if snapshot else 0)
        proposal = m.Proposal(
            bytes(16),
            WRITER,
            snapshot_id - 1,
            tuple(changes) or (_FILLER,),
            writer_seq=snapshot_id,
            author=snapshot.author if snapshot else None,
            message=snapshot.message if snapshot else None,
            extra=snapshot.extra if snapshot else None,
            created_at_ms=self._time_ms,
        )
        proposal = proposal.replace(proposal_id=id_of_content(self._time_ms, encode_proposal(proposal)))
        encoded = encode_proposal(proposal)
        if len(encoded) > PROPOSAL_BYTES_LIMIT:
            raise AdoptionError(
                [
                    f"what snapshot {snapshot_id} has takes {len(encoded):,} bytes, more than the "
                    f"{PROPOSAL_BYTES_LIMIT:,} that a log takes at once: merge small files first "
                    "(ducklake_merge_adjacent_files), and expire the snapshots before that"
                ]
            )
        outcome = decide(
            self._state,
            decode_proposal(encoded),
            now_ms=self._time_ms,
            source=m.Position(self._source, snapshot_id - 1),
            proposal_bytes=encoded,
        )
        if outcome.verdict is not m.Verdict.COMMITTED or outcome.snapshot_id != snapshot_id:
            raise AdoptionError(
                [f"snapshot {snapshot_id} has what a log cannot express: {outcome.detail}{_way_on(outcome)}"]
            )
        replay(self._state, outcome)
        self._note(proposal, outcome)
        self._check(snapshot_id)
        return AdoptedSnapshot(proposal, encoded, outcome)

    def _note(self, proposal: m.Proposal, outcome: m.Outcome) -> None:
        for change, effect in zip(proposal.changes, outcome.effects, strict=True):
            if isinstance(change, m.CreateTable):
                assert effect.object_id is not None
                self._tables[self._created(change)].log_table_id = effect.object_id
        for piece, data_file_id in zip(self._appending, outcome.assigned.data_file_ids, strict=True):
            piece.data_file_id = data_file_id
        self._appending.clear()
        self._positions_left = self._genesis.settings.changeset_positions_max

    def _created(self, change: m.CreateTable) -> int:
        assert self._definitions.last is not None
        for table in self._definitions.last.tables.values():
            if (table.schema, table.name) == (change.schema, change.table):
                self._known(table)
                return table.table_id
        raise AssertionError(f"table {change.schema}.{change.table} was created and is not in the source")

    def _check(self, snapshot_id: int) -> None:
        """The columns have the ids of the source, which are in its files."""
        made = self._definitions.last
        if snapshot_id < self._floor or made is None or made is self._checked:
            return
        checked, self._checked = self._checked, made
        for table in made.tables.values():
            if checked is not None and checked.tables.get(table.table_id) is table:
                continue
            definition = self._state.tables[self._tables[table.table_id].log_table_id].definition
            differing = _differing(table.columns, definition.columns)
            if differing is not None:
                raise AdoptionError(
                    [
                        f"column {differing} of table {table.schema}.{table.name} cannot get its id of the source at "
                        f"snapshot {snapshot_id} (fields of a struct that were added or dropped, or columns dropped in "
                        "the transaction that created the table)"
                    ]
                )

    def _count(self, last: LakeAt) -> None:
        counts = self.counts
        counts.snapshots, counts.tables = len(self._lake.snapshots), len(last.tables)
        for table in last.tables.values():
            state = self._state.tables[self._tables[table.table_id].log_table_id]
            counts.files += len(state.live_files)
            counts.rows += sum(
                self._state.record_counts.get(each) - self._state.deleted_count(each) for each in state.live_files
            )


def _way_on(outcome: m.Outcome) -> str:
    """What can be done where a snapshot, which cannot be split, has more than the log's settings let a changeset have."""
    found = re.search(r"\((\w+_max)\)", outcome.detail or "")
    return (
        "" if found is None else f". A log that begins with a larger {found[1]} takes it: [genesis] in commitlog.toml"
    )


def _differing(source: tuple[SourceColumn, ...], made: tuple[Column, ...]) -> str | None:
    """The first column that has another id, name or type than its counterpart."""
    by_id = {column.column_id: column for column in made}
    for column in source:
        found = by_id.get(column.column_id)
        if found is None or found.name != column.name:
            return column.name
        if column.type_name not in NESTED and str(found.type) != column.type:
            return column.name
        if inner := _differing(column.children, found.children):
            return f"{column.name}.{inner}"
    return None if len(source) == len(made) else "(their number)"
