"""What there is at a snapshot of a log in memory, to be compared with another one, and what there was before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from commitlog.catalog.snapshot_diff import ColumnShape, Named, Shape, TableShape, View
from commitlog.client.access.contents import Contents
from commitlog.domain import model as m
from commitlog.domain.model.definitions import EndedColumn, TableDefinition, ended_columns
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import SequencerState, ViewState


class _RowsByAge(Contents, Protocol):
    def newest_row_at(self, table_id: int, snapshot_id: int) -> int | None: ...


class MemoryViews:
    """The queries of views, which the state of a log does not hold."""

    def __init__(self) -> None:
        self._queries: dict[int, list[tuple[int, str, str]]] = {}

    def take(self, outcome: m.Outcome) -> None:
        """Add the views of what was committed."""
        if outcome.proposal is None or outcome.snapshot_id is None:
            return
        for change, effect in zip(outcome.proposal.changes, outcome.effects, strict=True):
            if isinstance(change, m.CreateView | m.ReplaceView) and effect.object_id is not None:
                query = (outcome.snapshot_id, change.dialect, change.sql)
                self._queries.setdefault(effect.object_id, []).append(query)

    def at(self, state: SequencerState, snapshot_id: int) -> dict[int, View]:
        """The views at a snapshot, by id."""
        found = {}
        for view in state.views.values():
            if isinstance(view, ViewState) and state.entry_at(view.schema, fold(view.name), snapshot_id) is view:
                queries = reversed(self._queries[view.view_id])
                _, dialect, text = next(query for query in queries if query[0] <= snapshot_id)
                found[view.view_id] = View(Named(view.schema.name, view.name), dialect, text)
        return found


def columns_ended(versions: Sequence[tuple[int, TableDefinition]], name: str) -> list[EndedColumn]:
    """The columns with a name that the newest definition does not give, the last one first."""
    return ended_columns(
        EndedColumn(column.column_id, began_at, ended_at)
        for (began_at, definition), (ended_at, _) in reversed([*pairwise(versions)])
        if (column := definition.by_name.get(name)) is not None
    )


def shape_at(contents: _RowsByAge, state: SequencerState, views: MemoryViews, snapshot_id: int) -> Shape:
    """What there is at a snapshot."""
    tables = {
        table_id: table_shape(contents, Named(schema, name), snapshot_id)
        for schema, name, table_id in contents.tables(snapshot_id)
    }
    schemas = {
        each.schema_id: Named("", each.name)
        for each in state.schemas.values()
        if state.schema_at(fold(each.name), snapshot_id) is each
    }
    return Shape(schemas, tables, views.at(state, snapshot_id))


def table_shape(contents: _RowsByAge, named: Named, snapshot_id: int) -> TableShape:
    """A table that is there at a snapshot."""
    table = contents.table_at(*named, snapshot_id)
    assert table is not None
    files = contents.files_at(table, snapshot_id)
    in_files = sum(each.live_count for each in files)
    return TableShape(
        named,
        {
            each.column_id: ColumnShape(each.name, str(each.type), each.nullable, each.default, each.comment)
            for each in table.definition.columns
        },
        [(key.column_id, key.transform) for key in table.definition.partition_by],
        table.definition.comment,
        table.definition.properties,
        frozenset(each.data_file_id for each in files),
        in_files + contents.row_count_at(table.definition.table_id, snapshot_id),
        contents.newest_row_at(table.definition.table_id, snapshot_id),
    )
