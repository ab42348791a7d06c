"""Could the changes be, and what since the base stands against them? Change by change, snapshot by snapshot (rules.md 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import define, reference
from commitlog.domain.model.types import fold

from .judging_files import FileJudge
from .meeting import RowJudge
from .sight import Report, refuse
from .world import Table, called_anew

if TYPE_CHECKING:
    from .oracle import Oracle


class Judge(FileJudge):
    """Looks at one proposal's changes in order, on a copy of the world at its base."""

    def __init__(self, oracle: Oracle, proposal: m.Proposal, now_ms: int, found: Report) -> None:
        super().__init__(oracle, proposal, found)
        self.rows = RowJudge(self, now_ms)

    def run(self) -> None:
        """Judge every change; CannotBeError at the first that cannot be."""
        kinds = {change.kind for change in self.proposal.changes}
        alone = {m.ChangeKind.COMPACT, m.ChangeKind.FLUSH, m.ChangeKind.EXPIRE_SNAPSHOTS, m.ChangeKind.CONFIGURE}
        if not kinds or (kinds & alone and len(kinds) > 1):
            refuse("mixture")
        for index, change in enumerate(self.proposal.changes):
            getattr(self, "on_" + change.kind.lower().replace("_row", "_key"))(change, index)

    # --- schemas ------------------------------------------------------------------------------------------------------

    def on_create_schema(self, change: m.CreateSchema, index: int) -> None:
        name = fold(change.schema)
        if change.if_not_exists:
            made = self.seen.schema(name)
            head = made if made in self.mine_schemas else None if name in self.gone_schemas else self.head.schema(name)
            if head is not None:
                self.adopt_schema(head)
                return
        if self.seen.schema(name) is not None:
            refuse("schema exists")
        schema_id = self.new_id()
        self.seen.schemas[schema_id] = change.schema
        self.mine_schemas.add(schema_id)
        self.gone_schemas.discard(name)
        for at, event in self.since:
            if event.kind == "CREATE_SCHEMA" and event.name == name:
                self.found("SCHEMA_CREATED", at, change=index, id=name)

    def adopt_schema(self, schema_id: int) -> None:
        if schema_id in self.head.schemas and schema_id not in self.seen.schemas:
            name = self.head.schemas[schema_id]
            for known, other in list(self.seen.schemas.items()):
                if fold(other) == fold(name):
                    del self.seen.schemas[known]
            self.seen.schemas[schema_id] = name

    def on_drop_schema(self, change: m.DropSchema, index: int) -> None:
        name = fold(change.schema)
        if change.if_exists:
            made = self.seen.schema(name)
            head = made if made in self.mine_schemas else None if name in self.gone_schemas else self.head.schema(name)
            if head is None:
                for known, other in list(self.seen.schemas.items()):
                    if fold(other) == name:
                        del self.seen.schemas[known]
                self.gone_schemas.add(name)
                return
        schema_id = self.schema(change.schema)
        if schema_id in self.mine_schemas or schema_id == 0:
            refuse("own schema or main")
        held = [e for e in self.seen.entries.values() if e.schema_id == schema_id]
        if held and not change.cascade:
            refuse("not empty")
        if any(e.id in self.mine for e in held):
            refuse("own entry")
        self.dropped |= {e.id for e in held}
        for entry in held:
            if entry.definition is not None:
                self.look_references(entry, index)
        for at, event in self.since:
            if event.kind == "DROP_SCHEMA" and event.schema_id == schema_id:
                self.found("SCHEMA_DROPPED", at, change=index, id=name)
            if event.kind in ("CREATE_TABLE", "CREATE_VIEW") and event.schema_id == schema_id:
                self.found("ENTRY_CREATED", at, change=index, id=name)
        for entry in held:
            self.look(entry, index, "DROP", "RENAME", "REPLACE_VIEW")
            del self.seen.entries[entry.id]
        del self.seen.schemas[schema_id]
        self.gone_schemas.add(name)

    # --- tables and views ---------------------------------------------------------------------------------------------

    def on_create_table(self, change: m.CreateTable, index: int) -> None:
        if change.if_not_exists:
            schema_id, head = self.head_entry(change.schema, change.table)
            if schema_id is not None and head is not None and head.definition is not None:
                self.adopt(schema_id, head)
                return
        schema_id = self.schema(change.schema)
        self.free(schema_id, change.table)
        self.installed(change.properties.get("on_conflict"))
        made = define(change, table_id=self.new_id(), schema_id=schema_id, partition_id=1)
        table = Table(made.table_id, schema_id, change.table, made)
        self.seen.entries[table.id] = table
        self.mine.add(table.id)
        for spec in change.foreign_keys:
            parent = self.entry(spec.ref_schema, spec.ref_table)
            if parent.id not in self.mine:
                self.look(parent, index, "DROP", "RENAME")
                self.look(parent, index, "ALTER", benign=False)
            if self.known(parent) or parent.id in self.mine:
                key = reference(made, spec, parent.definition)
                made = made.replace(foreign_keys=(*made.foreign_keys, key))
                table.definition = made
        if schema_id not in self.mine_schemas:
            self.look_name(schema_id, change.table, index)

    def installed(self, policy: str | None) -> None:
        """A table may only ask for handlers that are there."""
        kind, _, name = (policy or "").partition(":")
        if kind == "handler" and name not in self.oracle.handlers:
            refuse("no such handler")

    def adopt(self, schema_id: int, head: Table) -> None:
        """What was skipped is visible to the later changes, whatever its age."""
        self.adopt_schema(schema_id)
        if head.id not in self.seen.entries:
            other = self.seen.entry(schema_id, head.name)
            if other is not None:
                del self.seen.entries[other.id]
            self.seen.entries[head.id] = head.copy()

    def on_create_view(self, change: m.CreateView, index: int) -> None:
        if change.if_not_exists:
            schema_id, head = self.head_entry(change.schema, change.view)
            if schema_id is not None and head is not None and head.definition is None:
                self.adopt(schema_id, head)
                return
        schema_id = self.schema(change.schema)
        self.free(schema_id, change.view)
        view = Table(self.new_id(), schema_id, change.view, None)
        self.seen.entries[view.id] = view
        self.mine.add(view.id)
        if schema_id not in self.mine_schemas:
            self.look_name(schema_id, change.view, index)

    def on_drop_table(self, change: m.DropTable, index: int) -> None:
        self.drop(change.schema, change.table, index, view=False, if_exists=change.if_exists)

    def on_drop_view(self, change: m.DropView, index: int) -> None:
        self.drop(change.schema, change.view, index, view=True, if_exists=change.if_exists)

    def drop(self, schema: str, name: str, index: int, *, view: bool, if_exists: bool) -> None:
        if if_exists:
            schema_id, head = self.head_entry(schema, name)
            if head is None:
                for each in {schema_id, self.seen.schema(schema)} - {None}:
                    gone = self.seen.entry(each, name)
                    if gone is not None:
                        del self.seen.entries[gone.id]
                    self.gone.add((each, fold(name)))
                return
        entry = self.entry(schema, name, view=view)
        if entry.id in self.mine:
            refuse("own entry")
        self.dropped.add(entry.id)
        if not view:
            self.look_references(entry, index)
            self.look(entry, index, "RENAME")
        self.look(entry, index, "DROP", "REPLACE_VIEW")
        self.gone.add((entry.schema_id, fold(entry.name)))
        del self.seen.entries[entry.id]

    def look_references(self, table: Table, index: int) -> None:
        """Who refers to a table that goes: INVALID, or a conflict when it was created since the base."""
        for child in [
            *self.head.entries.values(),
            *(self.seen.entries[i] for i in self.mine if i in self.seen.entries),
        ]:
            if child.definition is None or child.id == table.id or child.id in self.dropped:
                continue
            if not any(key.ref_table_id == table.id for key in child.definition.foreign_keys):
                continue
            created = [at for at, e in self.since if e.kind == "CREATE_TABLE" and e.id == child.id]
            if not created:
                refuse("referenced")
            self.found("TABLE_REFERENCED", created[-1], change=index, id=child.id)

    def on_replace_view(self, change: m.ReplaceView, index: int) -> None:
        view = self.entry(change.schema, change.view, view=True)
        if view.id in self.mine:
            refuse("own view")
        self.look(view, index, "DROP", "REPLACE_VIEW")

    def on_rename_table(self, change: m.RenameTable, index: int) -> None:
        table = self.entry(change.schema, change.table)
        if table.id in self.mine:
            refuse("own table")
        is_renamed = any(event.id == table.id and event.kind == "RENAME" for _, event in self.since)
        if fold(change.new_table) != fold(table.name) or (change.new_table == table.name and not is_renamed):
            self.free(table.schema_id, change.new_table)
        self.gone.add((table.schema_id, fold(table.name)))
        table.name = change.new_table
        self.redefined.add(table.id)
        self.look(table, index, "DROP", "RENAME", "ALTER")
        self.look_name(table.schema_id, change.new_table, index)

    def on_alter_table(self, change: m.AlterTable, index: int) -> None:
        if not change.alterations:
            refuse("no alterations")
        table = self.entry(change.schema, change.table)
        if table.id in self.mine:
            refuse("own table")
        if self.known(table):
            before, rows = table.definition, self.rows.rows(table)
            table.definition = alter(before, change.alterations, partition_ids=(1,) * 9)
            rows.update({key: called_anew(row, before, table.definition) for key, row in rows.items()})
            for step in change.alterations:
                self.installed(step.value if step.key == "on_conflict" else None)
        self.look(table, index, "DROP", "RENAME", "ALTER")
        if any(_constrains(step) for step in change.alterations):
            self.look(table, index, "APPEND", "ROW")

    # --- rows and the log itself --------------------------------------------------------------------------------------

    def on_insert_key(self, change: m.InsertRow, index: int) -> None:
        self.rows.judge(change, index)

    on_update_key = on_delete_key = on_insert_key

    def on_expire_snapshots(self, change: m.ExpireSnapshots, _: int) -> None:
        if not 0 <= change.older_than_snapshot_id <= self.oracle.head:
            refuse("beyond the head")

    def on_configure(self, _: m.Configure, __: int) -> None:
        """The histories only set what may be set."""


def _constrains(step: m.Alteration) -> bool:
    if step.op is m.AlterOp.SET_NULLABLE:
        return not step.nullable
    if step.op is m.AlterOp.ADD_COLUMN:
        assert step.column is not None
        return not step.column.nullable and step.column.default is None
    return step.op is m.AlterOp.SET_PARTITION_BY
