"""What a site tells one that joins late: what it holds as of one snapshot, instead of all that ever led to it (rules.md 6).

Each version of a row that stands, is held back or is a rival is said with where and when it was made, as if nothing else
had come from there: so the versions that nobody supersedes are the same at both sites, and so is what follows from them.
Pure: the images that the state has no longer are given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition, conformed_row
from commitlog.domain.model.nodes import Node
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.row_keys import key_columns
from commitlog.domain.state.rows import KeyedRows, RowVersion, SiteVersion
from commitlog.domain.state.sites import versions_of

JOIN = "join"
"""By which writer a site that joins is told what there is."""

HAS_ALL: tuple[m.Change, ...] = (m.CreateSchema("main", if_not_exists=True),)
"""The changes of a snapshot that says nothing but that it was taken over: they do nothing."""

Images = Callable[[TableState], Mapping[str, m.Row]]
"""The rows of a table by key, as readers see them."""

Said = tuple[m.Replicated, tuple[m.Change, ...]]
_Grouped = dict[tuple[bool, str, int], list[m.Change]]


def told_to_joiner(node: Node, state: SequencerState, next_tick: int, images: Images) -> Iterator[Said]:
    """What is proposed to a log that holds nothing yet, snapshot after snapshot: this site's own ones first.

    next_tick: the tick after the last of its own snapshots that had something to forward.
    """
    grouped: _Grouped = defaultdict(list)
    for tick, change in _definitions(state):
        grouped[False, node.name, tick].append(change)
    for table in _keyed(state):
        for origin, change in _versions(node, table, images):
            grouped[origin.node != node.name, origin.node, origin.tick].append(change)
    priorities = {node.name: node.priority, **{name: known.priority for name, known in state.digest.items()}}
    told: dict[str, int] = {}
    for (_, name, tick), changes in sorted(grouped.items(), key=lambda each: each[0]):
        yield _replicated(name, tick, told, priorities), tuple(changes)
    for name, known in sorted(state.digest.items()):
        if told.get(name, 0) < known.tick:
            yield _replicated(name, known.tick - 1, told, priorities), HAS_ALL
    yield _replicated(node.name, max(0, next_tick - 1), told, priorities), HAS_ALL


def _replicated(name: str, tick: int, told: dict[str, int], priorities: Mapping[str, int]) -> m.Replicated:
    known = m.KnownNode(name, told.get(name, 0), priorities[name])
    told[name] = tick + 1
    return m.Replicated(name, tick, (known,))


def _keyed(state: SequencerState) -> Iterator[TableState]:
    """The keyed tables, what is referred to before what refers to it."""
    for _, table in sorted(state.tables.items()):
        if table.rows is not None and table.dropped_at is None:
            yield table


# --- definitions ------------------------------------------------------------------------------------------------------


def _definitions(state: SequencerState) -> Iterator[tuple[int, m.Change]]:
    """What makes the schemas and keyed tables as they are, each with the snapshot that made it first."""
    for _, schema in sorted(state.schemas.items()):
        if schema.dropped_at is None and schema.name != "main":
            yield schema.created_at, m.CreateSchema(schema.name)
    for table in _keyed(state):
        yield table.created_at, _creation(state, table)
        comments = list(_comments(table.definition))
        if comments:
            # Not by the changeset that creates it, nor were they given in that snapshot.
            yield table.created_at + 1, m.AlterTable(table.schema.name, table.name, tuple(comments))


def _creation(state: SequencerState, table: TableState) -> m.CreateTable:
    definition = table.definition
    return m.CreateTable(
        schema=table.schema.name,
        table=table.name,
        columns=tuple(
            m.ColumnSpec(each.name, str(each.type), each.nullable, each.default) for each in definition.columns
        ),
        primary_key=_names(definition, definition.primary_key),
        unique=tuple(_names(definition, ids) for ids in definition.unique),
        foreign_keys=tuple(
            m.ForeignKeySpec(
                _names(definition, each.column_ids),
                state.tables[each.ref_table_id].schema.name,
                state.tables[each.ref_table_id].name,
                _names(state.tables[each.ref_table_id].definition, each.ref_column_ids),
            )
            for each in definition.foreign_keys
        ),
        partition_by=tuple(
            m.PartitionSpec(definition.column_by_id(each.column_id).name, each.transform)
            for each in definition.partition_by
        ),
        properties=definition.properties,
    )


def _names(definition: TableDefinition, column_ids: Iterable[int]) -> tuple[str, ...]:
    return tuple(definition.column_by_id(column_id).name for column_id in column_ids)


def _comments(definition: TableDefinition) -> Iterator[m.Alteration]:
    if definition.comment is not None:
        yield m.Alteration(m.AlterOp.SET_COMMENT, comment=definition.comment)
    for column in definition.columns:
        if column.comment is not None:
            yield m.Alteration(m.AlterOp.SET_COMMENT, name=column.name, comment=column.comment)


# --- rows -------------------------------------------------------------------------------------------------------------


def _versions(node: Node, table: TableState, images: Images) -> Iterator[tuple[m.RowOrigin, m.Change]]:
    """Every version of every row of a table that nobody supersedes."""
    rows = table.rows
    assert rows is not None
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
        return m.DeleteRow(table.schema.name, table.name, key_columns(table.definition, key), time_us, origin)
    image = seen[key] if version.image is None else conformed_row(table.definition, version.image)
    return m.InsertRow(table.schema.name, table.name, image, time_us, origin)
