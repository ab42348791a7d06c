"""What each kind of change asks for: judged, ids given, footprints taken (rules.md 3, 12.1-5, 12.10, 12.21, 12.25).

The first request that cannot be raises ``InvalidChangeError``; what was committed meanwhile is left to the conflict rules,
which get a ``Footprint`` per change. Nothing here changes the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Footprint
from commitlog.domain.deciding.files import plan_append, plan_compact, plan_delete
from commitlog.domain.deciding.planning import Plan
from commitlog.domain.deciding.rows import new_keyed_rows
from commitlog.domain.model.altering import alter
from commitlog.domain.model.definitions import (
    HANDLER_PREFIX,
    ForeignKey,
    InvalidChangeError,
    define,
    quoted,
    reference,
)
from commitlog.domain.model.settings import changed_settings
from commitlog.domain.model.texts import check_name, check_text
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import Entry, SchemaState, TableState, ViewState

Planned = tuple[m.Effect, Footprint | None]


def plan_changes(plan: Plan) -> None:
    """Look at every change in order; raise InvalidChangeError at the first that cannot be."""
    check_mixture(plan.proposal)
    for index, change in enumerate(plan.proposal.changes):
        try:
            effect, footprint = _PLANNERS[change.kind](plan, change, index)
        except InvalidChangeError as error:
            if len(plan.proposal.changes) == 1:
                raise
            raise InvalidChangeError(error.code, f"change {index} ({change.kind}): {error}") from None
        plan.effects.append(effect)
        if change.kind is not m.ChangeKind.APPEND and effect.object_id is not None and not effect.skipped:
            plan.count_object(effect.object_id)
        if footprint is not None:
            plan.footprints.append(footprint)


_ALONE = (m.ChangeKind.COMPACT, m.ChangeKind.FLUSH, m.ChangeKind.EXPIRE_SNAPSHOTS, m.ChangeKind.CONFIGURE)


def check_mixture(proposal: m.Proposal) -> None:
    """Refuse an empty changeset, and maintenance beside other kinds of change (rules.md 12.5)."""
    if proposal.open_writer:
        if proposal.changes:
            raise InvalidChangeError(
                m.InvalidCode.OPEN_WRITER_NOT_ALONE, "open_writer asks for an epoch and takes no changes"
            )
        if proposal.writer_seq is not None:
            raise InvalidChangeError(m.InvalidCode.OPEN_WRITER_NOT_ALONE, "open_writer takes no writer_seq")
        return
    if not proposal.changes:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "nothing to commit: the changeset is empty")
    kinds = {change.kind for change in proposal.changes}
    for kind in _ALONE:
        if kind in kinds and len(kinds) > 1:
            raise InvalidChangeError(
                m.InvalidCode.CHANGE_NOT_ALONE, f"{kind} stands alone in its changeset, without other kinds of change"
            )


# --- schemas and views ------------------------------------------------------------------------------------------------


def _create_schema(plan: Plan, change: m.CreateSchema, index: int) -> Planned:
    check_name(change.schema, "schema", plan.state.settings.name_length_max)
    folded = fold(change.schema)
    if change.if_not_exists:
        head = (
            plan.schemas[folded]
            if folded in plan.schemas
            else plan.state.schema_at(folded, plan.state.head_snapshot_id)
        )
        if head is not None:
            plan.schemas[folded] = head
            return m.Effect(head.schema_id, skipped=True), None
    holder = plan.schemas[folded] if folded in plan.schemas else plan.state.schema_at(folded, plan.base)
    if holder is not None:
        raise InvalidChangeError(m.InvalidCode.SCHEMA_EXISTS, f"schema {quoted(change.schema)} already exists")
    schema = SchemaState(plan.ids.catalog(plan.ids.schema_ids), change.schema, plan.state.head_snapshot_id + 1)
    plan.schemas[folded] = schema
    plan.created.add(id(schema))
    plan.changes_schema = True
    return m.Effect(schema.schema_id), Footprint(index, change.kind, schema_name=folded)


def _drop_schema(plan: Plan, change: m.DropSchema, index: int) -> Planned:
    check_name(change.schema, "schema", plan.state.settings.name_length_max)
    folded = fold(change.schema)
    if change.if_exists:
        head = (
            plan.schemas[folded]
            if folded in plan.schemas
            else plan.state.schema_at(folded, plan.state.head_snapshot_id)
        )
        if head is None:
            plan.schemas[folded] = None
            return m.Effect(skipped=True), None
    schema = plan.schema(change.schema)
    plan.not_created_here(schema, "drop")
    if schema.schema_id == m.MAIN_SCHEMA_ID:
        raise InvalidChangeError(m.InvalidCode.MAIN_SCHEMA_STAYS, "schema main cannot be dropped")
    held = [entry for entry in schema.entries.values() if _is_held(plan, entry)]
    created = [
        e for (schema_id, _), e in plan.names.items() if schema_id == schema.schema_id and e and id(e) in plan.created
    ]
    if (held or created) and not change.cascade:
        raise InvalidChangeError(
            m.InvalidCode.SCHEMA_NOT_EMPTY,
            f"schema {quoted(change.schema)} is not empty; drop it with cascade, or its entries first",
        )
    for entry in created:
        plan.not_created_here(entry, "drop")
    plan.dropped.update(id(entry) for entry in held)
    referring: list[TableState] = []
    for entry in held:
        if isinstance(entry, TableState):
            referring += _referring(plan, entry)
    plan.schemas[folded] = None
    plan.changes_schema = True
    footprint = plan.footprint(index, change, schema, contained=held, referenced_by=referring)
    return m.Effect(schema.schema_id), footprint


def _is_held(plan: Plan, entry: Entry) -> bool:
    """Whether an entry was in its schema at the base and the changeset has not dropped it."""
    alive_at_base = entry.created_at <= plan.base and (entry.dropped_at is None or entry.dropped_at > plan.base)
    skipped_into_view = plan.names.get((entry.schema.schema_id, fold(entry.name))) is entry
    return (alive_at_base or skipped_into_view) and id(entry) not in plan.dropped


def _create_view(plan: Plan, change: m.CreateView, index: int) -> Planned:
    _check_view(change)
    if change.if_not_exists and (found := plan.at_head(change.schema, change.view)) and isinstance(found[1], ViewState):
        schema, view = found[0], found[1]
        plan.adopt(schema, change.view, view)
        return m.Effect(view.view_id, skipped=True), None
    schema = plan.schema(change.schema)
    folded = plan.free_name(schema, change.view, "view")
    view = ViewState(plan.ids.catalog(plan.ids.view_ids), schema, change.view, plan.state.head_snapshot_id + 1)
    plan.created.add(id(view))
    plan.names[schema.schema_id, folded] = view
    plan.changes_schema = True
    return m.Effect(view.view_id), _new_name(plan, index, change, schema, folded)


def _check_view(change: m.CreateView | m.ReplaceView) -> None:
    check_text(change.sql, "the view's sql", multiline=True)
    check_text(change.dialect, "the view's dialect")
    if not change.sql.strip():
        raise InvalidChangeError(m.InvalidCode.VIEW_SQL_INVALID, f"view {quoted(change.view)} has no sql")


def _new_name(
    plan: Plan, index: int, change: m.Change, schema: SchemaState, folded: str, **more: Any
) -> Footprint | None:
    known = None if id(schema) in plan.created else schema
    return Footprint(index, change.kind, schema=known, name=folded, **more)


def _replace_view(plan: Plan, change: m.ReplaceView, index: int) -> Planned:
    _check_view(change)
    view = plan.view(change.schema, change.view)
    plan.not_created_here(view, "replace")
    plan.changes_schema = True
    return m.Effect(view.view_id), plan.footprint(index, change, view)


def _drop_view(plan: Plan, change: m.DropView, index: int) -> Planned:
    if change.if_exists and (skipped := _nothing_to_drop(plan, change.schema, change.view)):
        return skipped
    view = plan.view(change.schema, change.view)
    plan.not_created_here(view, "drop")
    return _drop_entry(plan, change, index, view, change.view)


def _nothing_to_drop(plan: Plan, schema_name: str, name: str) -> Planned | None:
    found = plan.at_head(schema_name, name)
    if found is not None and found[1] is not None:
        return None
    check_name(name, "table or view", plan.state.settings.name_length_max)
    for schema in plan.schemas_meant(schema_name):
        folded = fold(name)
        at_base = plan.state.entry_at(schema, folded, plan.base)
        if at_base is not None and at_base.dropped_at is not None:
            plan.dropped.add(id(at_base))
        plan.names[schema.schema_id, folded] = None
    return m.Effect(skipped=True), None


def _drop_entry(plan: Plan, change: m.Change, index: int, entry: Entry, name: str, **more: Any) -> Planned:
    plan.dropped.add(id(entry))
    plan.names[entry.schema.schema_id, fold(name)] = None
    plan.changes_schema = True
    entry_id = entry.table_id if isinstance(entry, TableState) else entry.view_id
    return m.Effect(entry_id), plan.footprint(index, change, entry, **more)


# --- tables -----------------------------------------------------------------------------------------------------------


def _create_table(plan: Plan, change: m.CreateTable, index: int) -> Planned:
    if (
        change.if_not_exists
        and (found := plan.at_head(change.schema, change.table))
        and isinstance(found[1], TableState)
    ):
        schema, table = found[0], found[1]
        plan.adopt(schema, change.table, table)
        return m.Effect(table.table_id, skipped=True), None
    schema = plan.schema(change.schema)
    folded = plan.free_name(schema, change.table, "table")
    for column in change.columns:
        _check_column_text(plan, column)
    table_id = plan.ids.catalog(plan.ids.table_ids)
    partition_id = plan.ids.catalog(plan.ids.partition_ids) if change.partition_by else None
    definition = define(change, table_id=table_id, schema_id=schema.schema_id, partition_id=partition_id)
    _check_handler(plan, change.properties.get("on_conflict"))
    table = TableState(definition, schema, plan.state.head_snapshot_id + 1)
    plan.created.add(id(table))
    plan.names[schema.schema_id, folded] = table
    parents = _resolve_references(plan, change, table)
    table.rows = new_keyed_rows(table.definition)
    plan.ids.column_ids.append(tuple(column.column_id for column in definition.all_columns()))
    plan.changes_schema = True
    footprint = _new_name(plan, index, change, schema, folded, parents=parents)
    return m.Effect(table_id), footprint


def _check_handler(plan: Plan, policy: str | None) -> None:
    if policy is not None and policy.startswith(HANDLER_PREFIX):
        name = policy.removeprefix(HANDLER_PREFIX)
        if name not in plan.handlers:
            raise InvalidChangeError(
                m.InvalidCode.HANDLER_MISSING,
                f"the row handler {quoted(name)} is not installed where the log is decided",
            )


def _check_column_text(plan: Plan, column: m.ColumnSpec) -> None:
    check_name(column.name, "column", plan.state.settings.name_length_max)
    check_text(column.default, f"the default of column {quoted(column.name)}")


def _resolve_references(plan: Plan, change: m.CreateTable, table: TableState) -> list[TableState]:
    parents: list[TableState] = []
    keys: list[ForeignKey] = []
    for spec in change.foreign_keys:
        parent = plan.table(spec.ref_schema, spec.ref_table)
        known = plan.definition(parent)
        if parent is not table and id(parent) not in plan.created:
            parents.append(parent)
        if known is not None:
            keys.append(reference(table.definition, spec, known))
            plan.new_referrers.append((table, keys[-1].ref_table_id))
    table.definition = replace(table.definition, foreign_keys=tuple(keys))
    return parents


def _referring(plan: Plan, table: TableState) -> list[TableState]:
    """Tables whose foreign keys refer to ``table`` and that were created since the base; older ones make it INVALID."""
    for child, ref_table_id in plan.new_referrers:
        if ref_table_id == table.table_id and child is not table and id(child) not in plan.dropped:
            raise InvalidChangeError(
                m.InvalidCode.TABLE_REFERENCED,
                f"table {quoted(table.name)} is referred to by a foreign key of {quoted(child.name)}",
            )
    recent: list[TableState] = []
    for child, _ in plan.state.referrers.get(table.table_id, ()):
        if child is table or id(child) in plan.dropped:
            continue
        if child.created_at <= plan.base:
            raise InvalidChangeError(
                m.InvalidCode.TABLE_REFERENCED,
                f"table {quoted(table.name)} is referred to by a foreign key of {quoted(child.name)}",
            )
        recent.append(child)
    return recent


def _drop_table(plan: Plan, change: m.DropTable, index: int) -> Planned:
    if change.if_exists and (skipped := _nothing_to_drop(plan, change.schema, change.table)):
        return skipped
    table = plan.table(change.schema, change.table)
    plan.not_created_here(table, "drop")
    return _drop_entry(plan, change, index, table, change.table, referenced_by=_referring(plan, table))


def _rename_table(plan: Plan, change: m.RenameTable, index: int) -> Planned:
    table = plan.table(change.schema, change.table)
    plan.not_created_here(table, "rename")
    folded = plan.free_name(table.schema, change.new_table, "table")
    plan.names[table.schema.schema_id, fold(change.table)] = None
    plan.names[table.schema.schema_id, folded] = table
    plan.changes_schema = True
    return m.Effect(table.table_id), plan.footprint(index, change, table, schema=table.schema, name=folded)


def _alter_table(plan: Plan, change: m.AlterTable, index: int) -> Planned:
    if not change.alterations:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "ALTER_TABLE without alterations: nothing to commit")
    table = plan.table(change.schema, change.table)
    plan.not_created_here(table, "alter")
    for step in change.alterations:
        if step.column is not None:
            _check_column_text(plan, step.column)
        check_text(step.default, "the default")
        if step.new_name is not None:
            check_name(step.new_name, "column", plan.state.settings.name_length_max)
        if step.comment is not None:
            check_text(step.comment, "the comment", multiline=True)
        if step.op is not m.AlterOp.SET_PROPERTY:
            plan.changes_schema = True
    partition_ids = tuple(plan.ids.catalog(plan.ids.partition_ids) for s in change.alterations if s.partition_by)
    known = plan.definition(table)
    if known is not None:
        plan.count_altered(len(known.columns))
        altered = alter(known, change.alterations, partition_ids=partition_ids)
        for step in change.alterations:
            if step.key == "on_conflict":
                _check_handler(plan, step.value)
        plan.definitions[table.table_id] = altered
        if altered.partition_by != known.partition_by:
            plan.count_bucket_values(altered.unknown_buckets(None) * len(table.live_files))
        if given := range(known.next_column_id, altered.next_column_id):
            plan.ids.column_ids.append(tuple(given))
    constrains = any(_constrains_rows(step) for step in change.alterations)
    return m.Effect(table.table_id), plan.footprint(index, change, table, constrains_rows=constrains)


def _constrains_rows(step: m.Alteration) -> bool:
    match step.op:
        case m.AlterOp.SET_NULLABLE:
            return step.nullable is False
        case m.AlterOp.ADD_COLUMN:
            assert step.column is not None
            return not step.column.nullable and step.column.default is None
        case _:
            return step.op is m.AlterOp.SET_PARTITION_BY


# --- data and maintenance ---------------------------------------------------------------------------------------------


def _append(plan: Plan, change: m.Append, index: int) -> Planned:
    table = plan.table(change.schema, change.table)
    plan_append(plan, table, change)
    return m.Effect(table.table_id), plan.footprint(index, change, table)


def _delete(plan: Plan, change: m.Delete, index: int) -> Planned:
    table = plan.table(change.schema, change.table)
    files = plan_delete(plan, table, change)
    return m.Effect(table.table_id), plan.footprint(index, change, table, files=files)


def _compact(plan: Plan, change: m.Compact, index: int) -> Planned:
    table = plan.table(change.schema, change.table)
    files = plan_compact(plan, table, change)
    return m.Effect(table.table_id), plan.footprint(index, change, table, files=files, old_name=fold(change.table))


def _row(plan: Plan, change: m.InsertRow | m.UpdateRow | m.DeleteRow, index: int) -> Planned:
    table = plan.table(change.schema, change.table)
    effect = plan.rows.plan_change(table, change, index)
    return effect, plan.footprint(index, change, table)


def _flush(plan: Plan, change: m.Flush, index: int) -> Planned:
    table = plan.table(change.schema, change.table)
    row_ids = plan.rows.plan_flush(table, change)
    return m.Effect(table.table_id), plan.footprint(index, change, table, row_ids=row_ids)


def _expire(plan: Plan, change: m.ExpireSnapshots, index: int) -> Planned:
    if change.older_than_snapshot_id < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"older_than_snapshot_id {change.older_than_snapshot_id} is negative"
        )
    if change.older_than_snapshot_id > plan.state.head_snapshot_id:
        raise InvalidChangeError(
            m.InvalidCode.SNAPSHOT_BEYOND_HEAD,
            f"older_than_snapshot_id {change.older_than_snapshot_id} is beyond the head {plan.state.head_snapshot_id}",
        )
    return m.Effect(), None


def _configure(plan: Plan, change: m.Configure, index: int) -> Planned:
    changed_settings(plan.state.settings, change.settings)
    return m.Effect(), None


_PLANNERS: dict[m.ChangeKind, Callable[[Plan, Any, int], Planned]] = {
    m.ChangeKind.CREATE_SCHEMA: _create_schema,
    m.ChangeKind.DROP_SCHEMA: _drop_schema,
    m.ChangeKind.CREATE_TABLE: _create_table,
    m.ChangeKind.DROP_TABLE: _drop_table,
    m.ChangeKind.RENAME_TABLE: _rename_table,
    m.ChangeKind.ALTER_TABLE: _alter_table,
    m.ChangeKind.CREATE_VIEW: _create_view,
    m.ChangeKind.REPLACE_VIEW: _replace_view,
    m.ChangeKind.DROP_VIEW: _drop_view,
    m.ChangeKind.APPEND: _append,
    m.ChangeKind.DELETE: _delete,
    m.ChangeKind.COMPACT: _compact,
    m.ChangeKind.INSERT_ROW: _row,
    m.ChangeKind.UPDATE_ROW: _row,
    m.ChangeKind.DELETE_ROW: _row,
    m.ChangeKind.FLUSH: _flush,
    m.ChangeKind.EXPIRE_SNAPSHOTS: _expire,
    m.ChangeKind.CONFIGURE: _configure,
}
