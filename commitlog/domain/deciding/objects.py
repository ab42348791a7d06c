"""Changes to schemas, tables and views: whether each can be asked for, the ids it is given, what it touches (rules.md 3).

What cannot be raises ``InvalidChangeError``; what was committed meanwhile is left to the conflict rules.
"""

from __future__ import annotations

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Footprint
from commitlog.domain.deciding.plan import Plan, Planned
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import column_type, define, reference
from commitlog.domain.model.definitions import HANDLER_PREFIX, ForeignKey, TableDefinition, quoted
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.texts import check_all_text, check_text
from commitlog.domain.model.types import ColumnType, fold
from commitlog.domain.state.index import SchemaState, TableState, ViewState
from commitlog.domain.state.row_keys import shown_key
from commitlog.domain.state.rows import KeyedRows
from commitlog.errors import InvalidChangeError

# --- schemas ----------------------------------------------------------------------------------------------------------


def create_schema(plan: Plan, change: m.CreateSchema, index: int) -> Planned:
    """A new schema, of a name that is free."""
    if change.if_not_exists and (found := plan.names.schema_at_head(change.schema)) is not None:
        plan.names.adopt_schema(change.schema, found)
        return m.Effect(found.schema_id, skipped=True), None
    plan.names.check_free_schema(change.schema)
    schema = SchemaState(plan.ids.schema(), change.schema, plan.state.head_snapshot_id + 1)
    plan.names.make_schema(schema)
    return m.Effect(schema.schema_id), Footprint(index, change.kind, schema_name=fold(change.schema))


def drop_schema(plan: Plan, change: m.DropSchema, index: int) -> Planned:
    """A schema goes, and with cascade what it holds."""
    if change.if_exists and plan.names.schema_at_head(change.schema) is None:
        plan.names.adopt_schema(change.schema, None)
        return m.Effect(skipped=True), None
    schema = plan.names.schema(change.schema)
    plan.names.check_not_made_here(schema, "drop")
    if schema.schema_id == m.MAIN_SCHEMA_ID:
        raise InvalidChangeError(m.InvalidCode.MAIN_SCHEMA_STAYS, "schema main cannot be dropped")
    held, made = plan.names.contents(schema)
    if (held or made) and not change.cascade:
        raise InvalidChangeError(
            m.InvalidCode.SCHEMA_NOT_EMPTY,
            f"schema {quoted(change.schema)} is not empty; drop it with cascade, or its entries first",
        )
    for entry in made:
        plan.names.check_not_made_here(entry, "drop")
    plan.names.drop_schema(schema, change.schema, held)
    referring = [child for entry in held if isinstance(entry, TableState) for child in _referring(plan, entry)]
    footprint = Footprint(index, change.kind, schema=schema, contained=held, referenced_by=referring)
    return m.Effect(schema.schema_id), footprint


def _new_name(
    plan: Plan,
    change: m.CreateTable | m.CreateView,
    index: int,
    schema: SchemaState,
    name: str,
    parents: list[TableState],
) -> Footprint:
    """What a new table or view touches: its name, if the schema was there before, and what it refers to."""
    seen = None if plan.names.is_made_here(schema) else schema
    return Footprint(index, change.kind, schema=seen, name=fold(name), parents=parents)


# --- views ------------------------------------------------------------------------------------------------------------


def create_view(plan: Plan, change: m.CreateView, index: int) -> Planned:
    """A new view, of a name that is free."""
    _check_view(change)
    if change.if_not_exists and (found := plan.names.at_head(change.schema, change.view)):
        schema, there = found
        if isinstance(there, ViewState):
            plan.names.adopt(schema, change.view, there)
            return m.Effect(there.view_id, skipped=True), None
    schema = plan.names.schema(change.schema)
    plan.names.check_free(schema, change.view, "view")
    view = ViewState(plan.ids.view(), schema, change.view, plan.state.head_snapshot_id + 1)
    plan.names.make(schema, view)
    return m.Effect(view.view_id), _new_name(plan, change, index, schema, change.view, [])


def _check_view(change: m.CreateView | m.ReplaceView) -> None:
    check_text(change.sql, "the view's sql", multiline=True)
    check_text(change.dialect, "the view's dialect")
    if not change.sql.strip():
        raise InvalidChangeError(m.InvalidCode.VIEW_SQL_INVALID, f"view {quoted(change.view)} has no sql")


def replace_view(plan: Plan, change: m.ReplaceView, index: int) -> Planned:
    """A view gets another statement."""
    _check_view(change)
    view = plan.names.view(change.schema, change.view)
    plan.names.check_not_made_here(view, "replace")
    return m.Effect(view.view_id), Footprint(index, change.kind, entry=view)


def drop_view(plan: Plan, change: m.DropView, index: int) -> Planned:
    """A view goes."""
    if change.if_exists and _is_absent(plan, change.schema, change.view):
        return m.Effect(skipped=True), None
    view = plan.names.view(change.schema, change.view)
    plan.names.check_not_made_here(view, "drop")
    plan.names.drop(view, change.view)
    return m.Effect(view.view_id), Footprint(index, change.kind, entry=view)


def _is_absent(plan: Plan, schema_name: str, name: str) -> bool:
    """Whether nothing has the name at the head; the later changes see it so."""
    found = plan.names.at_head(schema_name, name)
    if found is not None and found[1] is not None:
        return False
    plan.names.adopt_absence(schema_name, name)
    return True


# --- tables -----------------------------------------------------------------------------------------------------------


def create_table(plan: Plan, change: m.CreateTable, index: int) -> Planned:
    """A new table, of a name that is free, which may refer to others."""
    if change.if_not_exists and (found := plan.names.at_head(change.schema, change.table)):
        schema, there = found
        if isinstance(there, TableState):
            # Nobody judges what is skipped, but it enters the log.
            check_all_text(change, f"the definition of table {quoted(change.table)}")
            plan.names.adopt(schema, change.table, there)
            return m.Effect(there.table_id, skipped=True), None
    schema = plan.names.schema(change.schema)
    plan.names.check_free(schema, change.table, "table")
    for column in change.columns:
        _check_column_text(plan, column)
        _check_field_names(plan, column_type(column.type))
    table_id = plan.ids.table()
    partition_id = plan.ids.partition() if change.partition_by else None
    definition = define(change, table_id=table_id, schema_id=schema.schema_id, partition_id=partition_id)
    check_handler(plan, change.properties.get("on_conflict"))
    table = TableState(definition, schema, plan.state.head_snapshot_id + 1)
    plan.names.make(schema, table)
    parents = _resolve_references(plan, change, table)
    table.rows = KeyedRows.of(table.definition)
    plan.ids.columns(tuple(column.column_id for column in definition.all_columns()))
    return m.Effect(table_id), _new_name(plan, change, index, schema, change.table, parents)


def check_handler(plan: Plan, policy: str | None) -> None:
    """See that the handler that an ``on_conflict`` names, if any, is installed where the log is decided."""
    if policy is not None and policy.startswith(HANDLER_PREFIX):
        name = policy.removeprefix(HANDLER_PREFIX)
        if not plan.rules.handlers.may_be_named(name):
            raise InvalidChangeError(
                m.InvalidCode.HANDLER_MISSING,
                f"the row handler {quoted(name)} is not installed where the log is decided",
            )


def _check_column_text(plan: Plan, column: m.ColumnSpec) -> None:
    plan.names.check_new(column.name, "column")
    check_text(column.type, f"the type of column {quoted(column.name)}")
    check_text(column.default, f"the default of column {quoted(column.name)}")


def _check_field_names(plan: Plan, data_type: ColumnType) -> None:
    for name, inner in data_type.fields:
        if data_type.name == "struct":
            plan.names.check_new(name, "struct field")
        _check_field_names(plan, inner)


def _resolve_references(plan: Plan, change: m.CreateTable, table: TableState) -> list[TableState]:
    """Give a new table its foreign keys; return the tables that were there before and that they refer to."""
    parents: list[TableState] = []
    keys: list[ForeignKey] = []
    for spec in change.foreign_keys:
        parent = plan.names.table(spec.ref_schema, spec.ref_table)
        definition = plan.names.definition(parent)
        if not plan.names.is_made_here(parent):
            parents.append(parent)
        if definition is not None:
            key = reference(table.definition, spec, definition)
            plan.names.refer(table, len(keys), key.ref_table_id)
            keys.append(key)
    table.definition = table.definition.replace(foreign_keys=tuple(keys))
    return parents


def _referring(plan: Plan, table: TableState) -> list[TableState]:
    """Tables whose foreign keys refer to ``table`` and that were created since the base; older ones make it INVALID."""
    recent: list[TableState] = []
    for child, _ in plan.names.referrers(table):
        if child is table:
            continue
        if plan.names.is_made_here(child) or child.created_at <= plan.base:
            raise InvalidChangeError(
                m.InvalidCode.TABLE_REFERENCED,
                f"table {quoted(table.name)} is referred to by a foreign key of {quoted(child.name)}",
            )
        recent.append(child)
    return recent


def drop_table(plan: Plan, change: m.DropTable, index: int) -> Planned:
    """A table goes, to which no other one refers."""
    if change.if_exists and _is_absent(plan, change.schema, change.table):
        return m.Effect(skipped=True), None
    table = plan.names.table(change.schema, change.table)
    plan.names.check_not_made_here(table, "drop")
    footprint = Footprint(index, change.kind, entry=table, referenced_by=_referring(plan, table))
    plan.names.drop(table, change.table)
    return m.Effect(table.table_id), footprint


def rename_table(plan: Plan, change: m.RenameTable, index: int) -> Planned:
    """A table gets another name that is free in its schema, or its own in another case."""
    table = plan.names.table(change.schema, change.table)
    plan.names.check_not_made_here(table, "rename")
    is_called_so = plan.names.called(table) == change.new_table
    plan.names.check_free(table.schema, change.new_table, "table", but_for=None if is_called_so else table)
    plan.names.rename(table, change.table, change.new_table)
    footprint = Footprint(index, change.kind, entry=table, schema=table.schema, name=fold(change.new_table))
    return m.Effect(table.table_id), footprint


def alter_table(plan: Plan, change: m.AlterTable, index: int) -> Planned:
    """A table gets other columns, partitioning, properties or comments."""
    if not change.alterations:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "ALTER_TABLE without alterations: nothing to commit")
    table = plan.names.table(change.schema, change.table)
    plan.names.check_not_made_here(table, "alter")
    for step in change.alterations:
        _check_step_text(plan, step)
    partition_ids = tuple([plan.ids.partition() for step in change.alterations if step.partition_by])
    definition = plan.names.definition(table)
    if definition is not None:
        plan.bounds.count_altered(len(definition.columns))
        for step in change.alterations:
            if step.column is not None:
                _check_field_names(plan, column_type(step.column.type))
        altered = alter(
            definition,
            change.alterations,
            partition_ids=partition_ids,
            came=plan.arrival is not None,
        )
        _check_kept_rows(table, definition, altered)
        for step in change.alterations:
            if step.key == "on_conflict":
                check_handler(plan, step.value)
        plan.names.redefine(table, altered)
        if altered.partition_by != definition.partition_by:
            plan.bounds.count_bucket_values(altered.unknown_buckets(None) * len(table.live_files))
        if given := range(definition.next_column_id, altered.next_column_id):
            plan.ids.columns(tuple(given))
    # Who altered it at another site has seen no row that was written here, whatever the base.
    constrains = plan.arrival is None and any(_constrains_rows(step) for step in change.alterations)
    return m.Effect(table.table_id), Footprint(index, change.kind, entry=table, constrains_rows=constrains)


def _check_kept_rows(table: TableState, before: TableDefinition, after: TableDefinition) -> None:
    """No row that may stand again, for all that a writer can see, has NULL where none may be any longer."""
    known = {column.column_id: column for column in before.columns}
    if table.rows is None or all(column.nullable or column == known.get(column.column_id) for column in after.columns):
        return
    names = {column.column_id: column.name for column in after.columns}
    for key, image in table.rows.kept_images():
        named = [(names.get(column.column_id), column.name) for column in before.columns]
        try:
            complete_row(after, {new: image[old] for new, old in named if new is not None and old in image})
        except InvalidChangeError as error:
            raise InvalidChangeError(
                error.code,
                f"{error}, and a version of row {quoted(shown_key(key))} that another site's does not let stand now has NULL "
                "there: write that row anew first, or delete it (`commitlog replicate divergent` lists those held back)",
            ) from None


def _check_step_text(plan: Plan, step: m.Alteration) -> None:
    if step.column is not None:
        _check_column_text(plan, step.column)
    check_text(step.type, "the type")
    check_text(step.default, "the default")
    if step.new_name is not None:
        plan.names.check_new(step.new_name, "column")
    if step.comment is not None:
        check_text(step.comment, "the comment", multiline=True)


def _constrains_rows(step: m.Alteration) -> bool:
    match step.op:
        case m.AlterOp.SET_NULLABLE:
            return step.nullable is False
        case m.AlterOp.ADD_COLUMN:
            assert step.column is not None
            return not step.column.nullable and step.column.default is None
        case _:
            return step.op is m.AlterOp.SET_PARTITION_BY
