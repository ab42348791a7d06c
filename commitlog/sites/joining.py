"""What a site tells one that joins late: what it holds as of one snapshot, instead of all that ever led to it (rules.md 6).

Each version of a row that stands, is held back or is a rival is said with where and when it was made, as if nothing else
had come from there: so the versions that nobody supersedes are the same at both sites, and so is what follows from them.
Definitions are said as the new site's own, for who made them does not matter, and no tick of another node may be named that
others do not know. Pure: the images that the state has no longer are given.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile

from commitlog.domain import model as m
from commitlog.domain.model.definitions import ForeignKey, TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.model.row_images import conformed_row
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.row_keys import key_columns
from commitlog.domain.state.rows import KeyedRows, RowVersion, SiteVersion
from commitlog.domain.state.sites import versions_of

JOIN = "commitlog-join"
"""By which writer a site that joins is told what there is."""

NAMED_BY = "named_by"
"""In what is told beside a table's creation: the node and tick of the snapshot that gave it its name."""

HAS_ALL: tuple[m.Change, ...] = (m.CreateSchema("main", if_not_exists=True),)
"""The changes of a snapshot that says nothing but that it was taken over: they do nothing."""

Images = Callable[[TableState], Mapping[str, m.Row]]
"""The rows of a table by key, as readers see them."""

Said = tuple[m.Replicated | None, tuple[m.Change, ...]]
"""Changes, and which snapshot of which node they are; None: the new site's own."""
_Grouped = dict[tuple[bool, str, int], list[m.Change]]


def told_to_joiner(node: Node, state: SequencerState, next_tick: int, images: Images) -> Iterator[Said]:
    """What is proposed to a log that holds nothing yet, snapshot after snapshot: this site's own ones first.

    next_tick: the tick after the last of its own snapshots that had something to forward.
    """
    for change in _definitions(state):
        yield None, (change,)
    grouped: _Grouped = defaultdict(list)
    for table in replicated_tables(state):
        for origin, change in _versions(node, table, images):
            grouped[origin.node != node.name, origin.node, origin.tick].append(change)
    priorities = {node.name: node.priority, **{name: known.priority for name, known in state.digest.items()}}
    told: dict[str, int] = {}
    for (_, name, tick), changes in sorted(grouped.items(), key=lambda each: each[0]):
        yield _replicated(name, tick, told, priorities), tuple(changes)
    for name, known in sorted(state.digest.items()):
        if told.get(name, 0) < known.tick:
            yield _replicated(name, known.tick - 1, told, priorities), HAS_ALL
    # A site that made nothing itself is in nobody's digest, and is in none here.
    yield _replicated(node.name, next_tick - 1, told, priorities) if next_tick else None, HAS_ALL


def name_given_by(told: m.Proposal) -> tuple[str, int] | None:
    """Which snapshot of which node gave its name to the table that was told; None where nobody says."""
    said = json.loads(told.extra or "{}").get(NAMED_BY)
    return None if said is None else (said[0], said[1])


def _replicated(name: str, tick: int, told: dict[str, int], priorities: Mapping[str, int]) -> m.Replicated:
    known = m.KnownNode(name, told.get(name, 0), priorities[name])
    told[name] = tick + 1
    return m.Replicated(name, tick, (known,))


def replicated_tables(state: SequencerState) -> Iterator[TableState]:
    """The tables that links bring, what is referred to before what refers to it."""
    for _, table in sorted(state.tables.items()):
        if table.dropped_at is None and table.definition.is_replicated:
            yield table


# --- definitions ------------------------------------------------------------------------------------------------------


def _definitions(state: SequencerState) -> Iterator[m.Change]:
    """What makes the schemas and tables as they are."""
    for _, schema in sorted(state.schemas.items()):
        if schema.dropped_at is None and schema.name != "main":
            yield m.CreateSchema(schema.name)
    for table in replicated_tables(state):
        columns, gone = _columns(table.definition)
        # Only a column that is added has a default in rows that are older.
        created = tuple(takewhile(lambda column: column.default is None, columns))
        yield _creation(state, table, created)
        steps = [
            *(m.Alteration(m.AlterOp.ADD_COLUMN, column=column) for column in columns[len(created) :]),
            *(m.Alteration(m.AlterOp.DROP_COLUMN, name=name) for name in gone),
            *_options(table.definition),
        ]
        if steps:
            yield m.AlterTable(table.schema.name, table.name, tuple(steps))


def _columns(definition: TableDefinition) -> tuple[tuple[m.ColumnSpec, ...], tuple[str, ...]]:
    """The columns of a new table, with the defaults of older rows, so that each gets the number that it has here, by which
    files name it; and the names of those that stand for columns which were dropped."""
    made: list[m.ColumnSpec] = []
    gone: list[str] = []
    names, next_id = set(definition.by_name), 1

    def pass_over(upto: int) -> None:
        for column_id in range(next_id, upto):
            name = f"gone_{column_id}"
            while name in names:
                name += "_"
            gone.append(name)
            made.append(m.ColumnSpec(name, "boolean", True, None))

    for each in definition.columns:
        pass_over(each.column_id)
        made.append(m.ColumnSpec(each.name, str(each.type), each.nullable, each.initial_default))
        next_id = each.column_id + sum(1 for _ in each.walk())
    pass_over(definition.next_column_id)
    return tuple(made), tuple(gone)


def _creation(state: SequencerState, table: TableState, columns: tuple[m.ColumnSpec, ...]) -> m.CreateTable:
    definition = table.definition
    return m.CreateTable(
        schema=table.schema.name,
        table=table.name,
        columns=columns,
        primary_key=tuple(definition.names_of(definition.primary_key)),
        unique=tuple(tuple(definition.names_of(ids)) for ids in definition.unique),
        foreign_keys=tuple(
            _reference(definition, each, state.tables[each.ref_table_id]) for each in definition.foreign_keys
        ),
        properties=definition.properties,
    )


def _reference(definition: TableDefinition, key: ForeignKey, parent: TableState) -> m.ForeignKeySpec:
    names, ref_names = definition.names_of(key.column_ids), parent.definition.names_of(key.ref_column_ids)
    return m.ForeignKeySpec(tuple(names), parent.schema.name, parent.name, tuple(ref_names))


def _options(definition: TableDefinition) -> Iterator[m.Alteration]:
    """What a table says beside its columns' names and types: the defaults of new rows, its partitioning, comments."""
    for column in definition.columns:
        if column.default != column.initial_default:
            yield m.Alteration(m.AlterOp.SET_DEFAULT, name=column.name, default=column.default)
    if definition.partition_by:
        names = definition.names_of(each.column_id for each in definition.partition_by)
        keys = zip(names, definition.partition_by, strict=True)
        partition_by = tuple(m.PartitionSpec(name, key.transform) for name, key in keys)
        yield m.Alteration(m.AlterOp.SET_PARTITION_BY, partition_by=partition_by)
    if definition.comment is not None:
        yield m.Alteration(m.AlterOp.SET_COMMENT, comment=definition.comment)
    for column in definition.columns:
        if column.comment is not None:
            yield m.Alteration(m.AlterOp.SET_COMMENT, name=column.name, comment=column.comment)


# --- rows -------------------------------------------------------------------------------------------------------------


def _versions(node: Node, table: TableState, images: Images) -> Iterator[tuple[m.RowOrigin, m.Change]]:
    """Every version of every row of a table that nobody supersedes."""
    rows = table.rows
    if rows is None:
        return
    seen = images(table) if any(version.image is None for version in rows.live.values()) else {}
    for key in sorted({*rows.live, *rows.held, *rows.sites}):
        standing, *rivals = versions_of(node, rows, key)
        yield standing.origin, _said(table, key, standing, _row_of(rows, key), seen)
        for rival in rivals:
            yield rival.origin, _said(table, key, rival, None, seen)


def _row_of(rows: KeyedRows, key: str) -> RowVersion | None:
    return rows.live.get(key) or rows.held.get(key)


def _said(
    table: TableState, key: str, version: SiteVersion, row: RowVersion | None, seen: Mapping[str, m.Row]
) -> m.Change:
    origin = version.origin
    time_us = origin.stamp_ms * 1000 if row is None else row.time_us
    if version.gone:
        ended = key_columns(table.definition, key)
        return m.DeleteRow(table.schema.name, table.name, ended, time_us, origin, version.moves)
    image = seen[key] if version.image is None else conformed_row(table.definition, version.image)
    return m.InsertRow(table.schema.name, table.name, image, time_us, origin, version.identity)
