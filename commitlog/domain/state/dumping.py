"""The state as plain values and back: what a checkpoint holds, and what the state's hash is taken of.

Plain are dict, list, str, bytes, int, float, bool and None. ``load_state(dump_state(s))`` decides like ``s`` for ever after.
Objects that refer to each other are written by id; tables and views share one id space.

The plain form of many rows or files is larger than they are, so it is never there as a whole: long lists are made and read in
sections of a thousand items, and those of rows and of appended files become part of the state before the next one is read.
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, groupby, islice
from typing import Any

from pyroaring import AbstractBitMap64, BitMap64

from commitlog.domain import model as m
from commitlog.domain.model.definitions import Column, ForeignKey, PartitionKey, TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.domain.model.types import parse_type
from commitlog.domain.state import index as s
from commitlog.domain.state.dumped_rows import ROW_LISTS, dump_rows, load_rows, stand_as_in_history
from commitlog.domain.state.duplicates import Answer, DuplicateWindow
from commitlog.domain.state.files import AppendedFile, AppendedFiles, FileDeletes, FileHistory, RowsDeleted
from commitlog.domain.state.forgetting import RetiredEntry, RetiredName, RetiredSchema, RetiredSchemaName
from commitlog.domain.state.rows import KeyedRows

Plain = Any
_PIECE = 1_000


def _bits(bitmap: AbstractBitMap64) -> bytes:
    return bitmap.serialize()


def _unbits(data: bytes) -> BitMap64:
    return BitMap64.deserialize(data)


# --- definitions ------------------------------------------------------------------------------------------------------


def _dump_column(column: Column) -> Plain:
    return [
        column.column_id,
        column.name,
        str(column.type),
        column.nullable,
        column.default,
        column.initial_default,
        column.comment,
        [_dump_column(child) for child in column.children],
    ]


def _load_column(plain: Plain) -> Column:
    column_id, name, kind, nullable, default, initial_default, comment, children = plain
    loaded = tuple(_load_column(child) for child in children)
    return Column(column_id, name, parse_type(kind), nullable, default, initial_default, comment, loaded)


def dump_definition(table: TableDefinition) -> dict[str, Plain]:
    """A table's definition as plain values, which JSON can hold."""
    return {
        "table_id": table.table_id,
        "schema_id": table.schema_id,
        "name": table.name,
        "columns": [_dump_column(column) for column in table.columns],
        "next_column_id": table.next_column_id,
        "primary_key": list(table.primary_key),
        "unique": [list(ids) for ids in table.unique],
        "foreign_keys": [[list(k.column_ids), k.ref_table_id, list(k.ref_column_ids)] for k in table.foreign_keys],
        "partition_id": table.partition_id,
        "partition_by": [[key.column_id, key.transform] for key in table.partition_by],
        "comment": table.comment,
        "properties": dict(table.properties),
    }


def load_definition(plain: dict[str, Plain]) -> TableDefinition:
    """The definition that ``dump_definition`` wrote."""
    return TableDefinition(
        table_id=plain["table_id"],
        schema_id=plain["schema_id"],
        name=plain["name"],
        columns=tuple(_load_column(column) for column in plain["columns"]),
        next_column_id=plain["next_column_id"],
        primary_key=tuple(plain["primary_key"]),
        unique=tuple(tuple(ids) for ids in plain["unique"]),
        foreign_keys=tuple(ForeignKey(tuple(own), ref, tuple(theirs)) for own, ref, theirs in plain["foreign_keys"]),
        partition_id=plain["partition_id"],
        partition_by=tuple(PartitionKey(column_id, transform) for column_id, transform in plain["partition_by"]),
        comment=plain["comment"],
        properties=dict(plain["properties"]),
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def _dump_file(file: m.DataFile) -> Plain:
    known = file.statistics
    statistics = known if isinstance(known, bytes) else [list(column.values()) for column in known]
    return [
        file.path,
        file.record_count,
        file.file_size_bytes,
        statistics,
        None if file.partition_values is None else list(file.partition_values),
    ]


def _load_file(plain: Plain) -> m.DataFile:
    path, record_count, size, statistics, values = plain
    if not isinstance(statistics, bytes):
        statistics = tuple(m.ColumnStatistics(*column) for column in statistics)
    partition_values = None if values is None else tuple(values)
    return m.DataFile(path, record_count, size, statistics=statistics, partition_values=partition_values)


def _dump_last(last: dict[m.ChangeKind, int]) -> Plain:
    return sorted([str(kind), snapshot_id] for kind, snapshot_id in last.items())


def _load_last(plain: Plain) -> dict[m.ChangeKind, int]:
    return {m.ChangeKind(kind): snapshot_id for kind, snapshot_id in plain}


def _dump_table(table: s.TableState) -> Plain:
    return {
        "definition": dump_definition(table.definition),
        "created_at": table.created_at,
        "dropped_at": table.dropped_at,
        "last": _dump_last(table.last),
        "definition_changed_at": table.definition_changed_at,
        "next_row_id": table.next_row_id,
        "file_bytes": table.file_bytes,
        "live_files": _bits(table.live_files),
        "inlined": None if table.rows is None else _bits(table.rows.inlined),
    }


def _load_table(plain: Plain, schemas: dict[int, s.SchemaState]) -> s.TableState:
    definition = load_definition(plain["definition"])
    rows = KeyedRows.of(definition)
    if rows is not None:
        rows.inlined = _unbits(plain["inlined"])
    return s.TableState(
        definition,
        schemas[definition.schema_id],
        plain["created_at"],
        plain["dropped_at"],
        _load_last(plain["last"]),
        plain["definition_changed_at"],
        plain["next_row_id"],
        plain["file_bytes"],
        _unbits(plain["live_files"]),
        AppendedFiles(),
        rows,
    )


def _entry_id(entry: s.Entry | None) -> int | None:
    if entry is None:
        return None
    return entry.entry_id


def _dump_answer(answer: Answer) -> Plain:
    reason = answer.reason and str(answer.reason)
    return [answer.seq, str(answer.verdict), answer.snapshot_id, reason, answer.detail, answer.content_hash]


def _load_answer(plain: Plain) -> Answer:
    seq, verdict, snapshot_id, reason, detail, content_hash = plain
    given = None if reason is None else m.Reason(reason)
    return Answer(seq, m.Verdict(verdict), snapshot_id, given, detail, content_hash)


# --- the whole --------------------------------------------------------------------------------------------------------

_COUNTERS = (
    "log_id", "partitions", "next_seq", "epoch", "head_snapshot_id", "floor_snapshot_id", "index_floor", "decided_at_ms",
    "snapshot_time_us", "schema_version", "next_catalog_id", "next_file_id", "keyed_rows",
)  # fmt: skip


def dump_settings(settings: m.LogSettings) -> dict[str, Plain]:
    """A log's settings as plain values."""
    return {name: _scalar(value) for name, value in settings.fields().items()}


def _scalar(value: Any) -> Plain:
    return str(value) if isinstance(value, str) else value


def load_settings(plain: dict[str, Plain]) -> m.LogSettings:
    """The settings that ``dump_settings`` wrote."""
    return m.LogSettings(**{**plain, "conflict_granularity": m.Granularity(plain["conflict_granularity"])})


def dump_state(state: s.SequencerState) -> Iterator[CheckpointSection]:
    """The whole state as plain values, made one section after another: it must not change meanwhile."""
    for name, value in {**_wholes(state), "commits": _dump_commits(state)}.items():
        yield CheckpointSection(name, True, [value])
    for name, items in _lists(state):
        remaining = iter(items)
        yield CheckpointSection(name, False, list(islice(remaining, _PIECE)))
        while piece := list(islice(remaining, _PIECE)):
            yield CheckpointSection(name, False, piece)


def _wholes(state: s.SequencerState) -> dict[str, Plain]:
    return {
        **{name: getattr(state, name) for name in _COUNTERS},
        "settings": dump_settings(state.settings),
        **_dump_node(state),
    }


def _lists(state: s.SequencerState) -> Iterator[tuple[str, Iterable[Plain]]]:
    """By name, each made while it is read; those of ``_ADDED_LISTS`` are the last, since to load them takes the others."""
    yield "next_offsets", sorted([p, offset] for p, offset in state.next_offsets.items())
    yield (
        "schemas",
        (
            [
                x.schema_id,
                x.name,
                x.created_at,
                x.dropped_at,
                sorted(x.names),
                _dump_last(x.entry_created_at),
                list(x.entries),
            ]
            for _, x in sorted(state.schemas.items())
        ),
    )
    yield "tables", (_dump_table(table) for _, table in sorted(state.tables.items()))
    yield (
        "views",
        (
            [v.view_id, v.schema.schema_id, v.name, v.created_at, v.dropped_at, _dump_last(v.last)]
            for _, v in sorted(state.views.items())
        ),
    )
    yield (
        "schema_names",
        (
            [name, [[e.snapshot_id, None if e.schema is None else e.schema.schema_id] for e in events]]
            for name, events in sorted(state.schema_names.items())
        ),
    )
    yield (
        "names",
        (
            [schema_id, name, [[e.snapshot_id, _entry_id(e.entry), str(e.kind), e.called] for e in events]]
            for (schema_id, name), events in sorted(state.names.items())
        ),
    )
    yield (
        "referrers",
        (
            [table_id, [[each.table.table_id, each.number] for each in children]]
            for table_id, children in sorted(state.referrers.items())
        ),
    )
    yield "record_counts", ([number, chunk.tobytes()] for number, chunk in sorted(state.record_counts.chunks()))
    yield "deletes", ([f, _bits(d.filed), _bits(d.inlined)] for f, d in sorted(state.deletes.items()))
    yield (
        "file_history",
        (
            [
                f,
                h.table_id,
                h.compacted_at,
                h.ended_at,
                list(h.moved_to),
                [[d.snapshot_id, _bits(d.rows), d.every_row] for d in h.deletes],
            ]
            for f, h in sorted(state.file_history.items())
        ),
    )
    yield (
        "writers",
        (
            [name, w.epoch, None if w.committed_seqs is None else _bits(w.committed_seqs), _dump_answers(w.answers)]
            for name, w in sorted(state.writers.items())
        ),
    )
    yield (
        "duplicates",
        ([p, w.outcomes, w.expired_time_ms, w.newest_id, *w.dump()] for p, w in sorted(state.duplicates.items())),
    )
    yield "retired", ([at, retired.plain()] for at, retired in state.retired)
    yield "snapshot_times", (list(pair) for pair in state.snapshot_times)
    yield (
        "touched",
        (
            [at, *_touched(state, commit)]
            for at, commit in state.commits.items()
            if _only_table(state, commit) == _OTHERS
        ),
    )
    yield "appended", _dump_appended(state)
    yield "touched_rows", _dump_touched_rows(state)
    yield from dump_rows(state.tables)


def _dump_node(state: s.SequencerState) -> dict[str, Plain]:
    """What the log is among several sites; nothing where it is alone."""
    if state.node is None:
        return {}
    return {"node": list(state.node), "digest": [list(known.values()) for _, known in sorted(state.digest.items())]}


def _dump_answers(answers: dict[int, Answer]) -> Plain:
    return [[writer_seq, _dump_answer(answer)] for writer_seq, answer in sorted(answers.items())]


def _touched(state: s.SequencerState, commit: s.Commit) -> list[Plain]:
    return [[t.table_id for t in commit.tables if t.table_id in state.tables], list(commit.files)]


def _only_table(state: s.SequencerState, commit: s.Commit) -> int:
    """What a commit touched that touched one table and no file that was there before, as nearly every one; else ``_OTHERS``."""
    tables, files = _touched(state, commit)
    return tables[0] if len(tables) == 1 and not files else _OTHERS


def _dump_appended(state: s.SequencerState) -> Iterator[Plain]:
    for table_id, table in sorted(state.tables.items()):
        for each in table.appended.files:
            yield [table_id, each.snapshot_id, each.data_file_id, _dump_file(each.file)]


def _dump_touched_rows(state: s.SequencerState) -> Iterator[Plain]:
    for at, commit in state.commits.items():
        for table, key in commit.rows:
            if table.table_id in state.tables:
                yield [at, table.table_id, key]


def _dump_commits(state: s.SequencerState) -> Plain:
    """In columns, but for what those touched that touched others."""
    commits = state.commits.values()
    return [
        array("q", state.commits).tobytes(),
        b"".join([commit.proposal_id for commit in commits]),
        [commit.writer_id for commit in commits],
        array("q", [_only_table(state, commit) for commit in commits]).tobytes(),
    ]


_ID_SIZE = 16
_OTHERS = -1


def _load_commits(state: s.SequencerState, snapshots: bytes, ids: bytes, writers: list[str], tables: bytes) -> None:
    alone = {table_id: (table,) for table_id, table in state.tables.items()}
    numbers = zip(array("q", snapshots), writers, array("q", tables), strict=True)
    for number, (at, writer_id, table_id) in enumerate(numbers):
        proposal_id = ids[number * _ID_SIZE : (number + 1) * _ID_SIZE]
        state.commits[at] = s.Commit(proposal_id, writer_id, () if table_id == _OTHERS else alone[table_id], (), ())


def _load_appended(state: s.SequencerState, pieces: Iterable[list[Plain]]) -> None:
    for table_id, at, data_file_id, file in chain.from_iterable(pieces):
        state.tables[table_id].appended.files.append(AppendedFile(at, data_file_id, _load_file(file)))


def _load_touched_rows(state: s.SequencerState, pieces: Iterable[list[Plain]]) -> None:
    """Of one commit there may be more in the piece after."""
    for at, of_commit in groupby(chain.from_iterable(pieces), lambda item: item[0]):
        state.commits[at].rows = tuple([(state.tables[table_id], key) for _, table_id, key in of_commit])


def load_state(sections: Iterable[CheckpointSection]) -> s.SequencerState:
    """The state of sections that ``dump_state`` wrote, in their order."""
    plain: dict[str, Plain] = {}
    state: s.SequencerState | None = None
    for name, of_name in groupby(sections, lambda section: section.name):
        if name not in _ADDED_LISTS:
            for section in of_name:
                if section.whole:
                    plain[name] = section.items[0]
                else:
                    plain.setdefault(name, []).extend(section.items)
            continue
        if state is None:
            state = _load_index(plain)
            plain.clear()
        pieces = (section.items for section in of_name)
        if name == "appended":
            _load_appended(state, pieces)
        elif name == "touched_rows":
            _load_touched_rows(state, pieces)
        else:
            load_rows(name, pieces, state.tables)
    assert state is not None
    for table in state.tables.values():
        if table.rows is not None:
            stand_as_in_history(table.rows)
    return state


_ADDED_LISTS = frozenset({"appended", "touched_rows", *ROW_LISTS})
"""Those whose sections become part of the state one after another."""


def _load_index(plain: dict[str, Plain]) -> s.SequencerState:
    """All but what is in ``_ADDED_LISTS``."""
    state = s.SequencerState(
        log_id=plain["log_id"], partitions=plain["partitions"], settings=load_settings(plain["settings"])
    )
    for name in _COUNTERS:
        setattr(state, name, plain[name])
    state.next_offsets = dict(plain["next_offsets"])
    state.node = Node(*plain["node"]) if "node" in plain else None
    state.digest = {each[0]: m.KnownNode(*each) for each in plain.get("digest", ())}
    _load_objects(state, plain)
    _load_files(state, plain)
    _load_commits(state, *plain["commits"])
    for at, touched, files in plain["touched"]:
        commit = state.commits[at]
        commit.tables = tuple(state.tables[table_id] for table_id in touched)
        commit.files = tuple(files)
    for name, epoch, seqs, answers in plain["writers"]:
        writer = state.writers[name] = s.WriterState()
        writer.epoch = epoch
        writer.committed_seqs = None if seqs is None else _unbits(seqs)
        writer.answers = {writer_seq: _load_answer(answer) for writer_seq, answer in answers}
    for partition, outcomes, expired_time_ms, newest_id, *remembered in plain["duplicates"]:
        window = state.duplicates[partition] = DuplicateWindow(outcomes, expired_time_ms, newest_id)
        window.load(*remembered)
    state.snapshot_times = deque((at, time_us) for at, time_us in plain["snapshot_times"])
    return state


def _load_objects(state: s.SequencerState, plain: dict[str, Plain]) -> None:
    state.schemas = {}
    for schema_id, name, created_at, dropped_at, names, created, _ in plain["schemas"]:
        state.schemas[schema_id] = s.SchemaState(
            schema_id, name, created_at, dropped_at, names=set(names), entry_created_at=_load_last(created)
        )
    for table_plain in plain["tables"]:
        table = _load_table(table_plain, state.schemas)
        state.tables[table.table_id] = table
    for view_id, schema_id, name, created_at, dropped_at, last in plain["views"]:
        state.views[view_id] = s.ViewState(
            view_id, state.schemas[schema_id], name, created_at, dropped_at, _load_last(last)
        )
    entries: dict[int, s.Entry] = {**state.tables, **state.views}
    for schema_id, *_, entry_ids in plain["schemas"]:
        state.schemas[schema_id].entries = {entry_id: entries[entry_id] for entry_id in entry_ids}
    state.schema_names = {
        name: [s.SchemaEvent(at, None if schema_id is None else state.schemas[schema_id]) for at, schema_id in events]
        for name, events in plain["schema_names"]
    }
    state.names = {
        (schema_id, name): [
            s.NameEvent(at, None if entry_id is None else entries[entry_id], m.ChangeKind(kind), called)
            for at, entry_id, kind, called in events
        ]
        for schema_id, name, events in plain["names"]
    }
    state.referrers = {
        table_id: [s.Referrer(state.tables[child], number) for child, number in children]
        for table_id, children in plain["referrers"]
    }
    state.retired.extend((at, _load_retired(entries, what)) for at, what in plain["retired"])


def _load_retired(entries: dict[int, s.Entry], plain: Plain) -> s.Retired:
    match plain:
        case ["schema_name", name]:
            return RetiredSchemaName(name)
        case ["name", schema_id, name]:
            return RetiredName(schema_id, name)
        case ["schema", schema_id]:
            return RetiredSchema(schema_id)
        case _:
            return RetiredEntry(entries[plain[1]])


def _load_files(state: s.SequencerState, plain: dict[str, Plain]) -> None:
    for number, data in plain["record_counts"]:
        chunk: array[int] = array("q")
        chunk.frombytes(data)
        state.record_counts.put_chunk(number, chunk)
    for data_file_id, filed, inlined in plain["deletes"]:
        state.deletes[data_file_id] = FileDeletes(_unbits(filed), _unbits(inlined))
    for data_file_id, table_id, compacted_at, ended_at, moved_to, deletes in plain["file_history"]:
        state.file_history[data_file_id] = FileHistory(
            table_id,
            [RowsDeleted(at, _unbits(rows), every) for at, rows, every in deletes],
            compacted_at,
            ended_at,
            tuple(moved_to),
        )


def state_hash(state: s.SequencerState) -> bytes:
    """SHA-256 over the plain form, with nothing packed: equal for states that hold the same."""
    digest, parts = sha256(), _parts(state)
    while some := list(islice(parts, _PIECE)):
        digest.update(json.dumps(some, sort_keys=True, default=_spelt_bytes).encode())
    return digest.digest()


def _parts(state: s.SequencerState) -> Iterator[Plain]:
    yield _wholes(state)
    yield {"list": "commits"}
    yield from ([at, x.proposal_id, x.writer_id, *_touched(state, x)] for at, x in state.commits.items())
    for name, items in _lists(state):
        yield {"list": name}
        yield from _spelt_out(state.duplicates) if name == "duplicates" else items


def _spelt_bytes(value: bytes) -> list[str]:
    return ["bytes", value.hex()]


def _spelt_out(duplicates: dict[int, DuplicateWindow]) -> Plain:
    return [
        [
            partition,
            window.outcomes,
            window.expired_time_ms,
            window.newest_id,
            [
                [
                    x.proposal_id,
                    x.writer_id,
                    x.writer_seq,
                    x.decided_at_ms,
                    x.number,
                    _dump_answer(x.answer),
                    x.is_from_future,
                ]
                for x in window.remembered()
            ],
        ]
        for partition, window in sorted(duplicates.items())
    ]
