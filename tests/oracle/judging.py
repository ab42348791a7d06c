"""Could the changes be, and what since the base stands against them? Change by change, snapshot by snapshot (DESIGN 3, 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from commitlog.domain import model as m
from commitlog.domain.definitions import InvalidChangeError, alter, define, reference
from commitlog.domain.types import fold

from .meeting import RowJudge
from .proving import stored_point
from .world import Event, Table

if TYPE_CHECKING:
    from .oracle import Oracle

Report = Callable[..., None]
_NAMED = {"CREATE_TABLE": "TABLE_CREATED", "CREATE_VIEW": "VIEW_CREATED", "RENAME": "TABLE_RENAMED"}


def refuse(why: str) -> None:
    """The request cannot be."""
    raise InvalidChangeError(why)


class Judge:
    """Looks at one proposal's changes in order, on a copy of the world at its base."""

    def __init__(self, oracle: Oracle, proposal: m.Proposal, now_ms: int, found: Report) -> None:
        self.oracle = oracle
        self.proposal = proposal
        self.base = proposal.base_snapshot_id
        self.seen = oracle.worlds[self.base].copy()
        self.head = oracle.worlds[-1]
        self.since = oracle.since(self.base)
        self.found = found
        self.mine: set[int] = set()
        self.mine_schemas: set[int] = set()
        self.gone: set[tuple[int | None, str]] = set()
        self.gone_schemas: set[str] = set()
        self.dropped: set[int] = set()
        self.redefined: set[int] = set()
        self.files: set[int] = set()
        self.next_id = -1000
        self.rows = RowJudge(self, now_ms)

    def run(self) -> None:
        """Judge every change; InvalidChangeError at the first that cannot be."""
        kinds = {change.kind for change in self.proposal.changes}
        alone = {m.ChangeKind.COMPACT, m.ChangeKind.FLUSH, m.ChangeKind.EXPIRE_SNAPSHOTS, m.ChangeKind.CONFIGURE}
        if not kinds or (kinds & alone and len(kinds) > 1):
            refuse("mixture")
        for index, change in enumerate(self.proposal.changes):
            getattr(self, "on_" + change.kind.lower().replace("_row", "_key"))(change, index)

    # --- what names mean ----------------------------------------------------------------------------------------------

    def schema(self, name: str) -> int:
        if fold(name) in self.gone_schemas:
            refuse("schema dropped here")
        schema_id = self.seen.schema(name)
        if schema_id is None:
            refuse("no such schema")
        assert schema_id is not None
        return schema_id

    def entry(self, schema: str, name: str, *, view: bool = False) -> Table:
        schema_id = self.schema(schema)
        entry = self.seen.entry(schema_id, name)
        if entry is None or (entry.definition is None) != view:
            refuse("no such entry")
        assert entry is not None
        return entry

    def new_id(self) -> int:
        self.next_id -= 1
        return self.next_id

    def known(self, table: Table) -> bool:
        """Whether the writer knows the table's definition."""
        return not any(
            e.id == table.id and (e.kind in ("DROP", "RENAME") or (e.kind == "ALTER" and not e.benign))
            for _, e in self.since
        )

    def head_entry(self, schema: str, name: str) -> tuple[int | None, Table | None]:
        """What a name means at the head, overlaid by this changeset."""
        made = self.seen.schema(schema)
        schema_id = made if made in self.mine_schemas else self.head.schema(schema)
        if fold(schema) in self.gone_schemas and made not in self.mine_schemas:
            return None, None
        if (schema_id, fold(name)) in self.gone and self.seen.entry(schema_id, name) is None:
            return schema_id, None
        overlaid = self.seen.entry(schema_id, name)
        if overlaid is not None and (overlaid.id in self.mine or overlaid.id in self.redefined):
            return schema_id, overlaid
        return schema_id, self.head.entry(schema_id, name)

    def look(self, entry: Table, index: int, *kinds: str, benign: bool = True) -> None:
        """Report the last of these events on an entry."""
        view = entry.definition is None
        names = {
            "DROP": "VIEW_DROPPED" if view else "TABLE_DROPPED", "RENAME": "TABLE_RENAMED", "ALTER": "TABLE_ALTERED",
            "REPLACE_VIEW": "VIEW_REPLACED", "APPEND": "TABLE_APPENDED", "ROW": "TABLE_ROWS_CHANGED",
        }  # fmt: skip
        for at, event in self.since:
            if event.id == entry.id and event.kind in kinds and (benign or not event.benign):
                self.found(names[event.kind], at, change=index, id=entry.id)

    def look_name(self, schema_id: int, name: str, index: int) -> None:
        for at, event in self.since:
            if event.schema_id == schema_id and event.name == fold(name) and event.kind in _NAMED:
                self.found(_NAMED[event.kind], at, change=index, id=event.id)
            if event.kind == "DROP_SCHEMA" and event.schema_id == schema_id:
                self.found("SCHEMA_DROPPED", at, change=index, id=event.name)

    def free(self, schema_id: int, name: str) -> None:
        if self.seen.entry(schema_id, name) is not None:
            refuse("name is taken")

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
                made = made.__class__(**{**_fields(made), "foreign_keys": (*made.foreign_keys, key)})
                table.definition = made
        if schema_id not in self.mine_schemas:
            self.look_name(schema_id, change.table, index)

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
                gone = self.seen.entry(schema_id, name)
                if gone is not None:
                    del self.seen.entries[gone.id]
                self.gone.add((schema_id, fold(name)))
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
            table.definition = alter(table.definition, change.alterations, partition_ids=(1,) * 9)
        self.look(table, index, "DROP", "RENAME", "ALTER")
        if any(_constrains(step) for step in change.alterations):
            self.look(table, index, "APPEND", "ROW")

    # --- files --------------------------------------------------------------------------------------------------------

    def data(self, change: Any, index: int) -> Table:
        table = self.entry(change.schema, change.table)
        if table.definition is not None and table.definition.primary_key:
            refuse("keyed")
        if table.id not in self.mine:
            self.look(table, index, "DROP", "RENAME")
            self.look(table, index, "ALTER", benign=False)
        return table

    def on_append(self, change: m.Append, index: int) -> None:
        table = self.data(change, index)
        if not change.files:
            refuse("no files")
        if self.known(table):
            for file in change.files:
                self.partition(table, file)

    @staticmethod
    def partition(table: Table, file: m.DataFile) -> None:
        assert table.definition is not None
        if file.partition_values is None:
            return
        keys = table.definition.partition_by
        if len(file.partition_values) != len(keys):
            refuse("another number of partition values")
        for key, value in zip(keys, file.partition_values, strict=True):
            kind = table.definition.column_by_id(key.column_id).type.name
            if value is not None and key.transform == "identity" and stored_point(kind, value) is None:
                refuse("no value of the partition column")

    def on_delete(self, change: m.Delete, index: int) -> None:
        table = self.data(change, index)
        asked: dict[int, frozenset[int] | None] = {}
        for each in change.positions:
            asked[self.name_file(each.data_file_id)] = self.positions(table, each)
        for each in change.delete_files:
            self.name_file(each.data_file_id)
            self.delete_file(table, each)
            asked[each.data_file_id] = None
        for file_id in change.whole_files:
            self.live(table, self.name_file(file_id))
            asked[file_id] = None
        if not asked:
            refuse("nothing to delete")
        granularity = self.granularity(table)
        for at, event in self.since:
            if event.id != table.id or event.kind not in ("DELETE", "COMPACT"):
                continue
            kind = "TABLE_DELETED_FROM" if event.kind == "DELETE" else "TABLE_COMPACTED"
            if granularity == "TABLE":
                self.found(kind, at, change=index, id=table.id)
            elif event.file_id in asked and (granularity == "FILE" or self.overlap(asked[event.file_id], event)):
                self.found(kind, at, change=index, id=table.id, file_id=event.file_id)

    @staticmethod
    def overlap(asked: frozenset[int] | None, event: Event) -> bool:
        return asked is None or event.positions is None or bool(asked & event.positions)

    def granularity(self, table: Table) -> str:
        if self.oracle.beyond_window(self.base):
            return "TABLE"
        now = self.oracle.last(table).definition
        assert now is not None
        return str(now.properties.get("conflict_granularity") or self.oracle.settings.conflict_granularity)

    def name_file(self, file_id: int) -> int:
        if file_id in self.files:
            refuse("file named twice")
        self.files.add(file_id)
        return file_id

    def live(self, table: Table, file_id: int) -> bool:
        now = self.head.entries.get(table.id)
        if now is not None and file_id in now.files:
            return True
        if not 0 <= file_id < self.oracle.next_file_id:
            refuse("never a file")
        if any(file_id in other.files for other in self.head.entries.values()):
            refuse("a file of another table")
        if now is None and table.id not in self.mine:
            return False
        ended = any(
            e.id == table.id and e.file_id == file_id and e.kind in ("DELETE", "COMPACT") for _, e in self.since
        )
        if self.oracle.beyond_window(self.base):
            ended = any(e.id == table.id and e.kind in ("DELETE", "COMPACT") for _, e in self.since)
        if not ended:
            refuse("not live")
        return False

    def deleted_before(self, table: Table, file_id: int) -> tuple[set[int], set[int]] | None:
        """Inlined and filed positions at the base; None when the core cannot know them."""
        raced = any(e.id == table.id and e.kind == "DELETE" for _, e in self.since)
        if self.oracle.beyond_window(self.base) and raced:
            return None
        then = self.oracle.worlds[self.base].entries.get(table.id)
        if then is None or file_id not in then.files:
            return set(), set()
        return then.files[file_id].inlined, then.files[file_id].filed

    def positions(self, table: Table, each: m.PositionDelete) -> frozenset[int]:
        if isinstance(each.rows, tuple) or not each.rows:
            refuse("no set of positions")
        if self.live(table, each.data_file_id):
            if max(each.rows) >= self.head.entries[table.id].files[each.data_file_id].rows:
                refuse("beyond the file")
            before = self.deleted_before(table, each.data_file_id)
            if before is not None and set(each.rows) & (before[0] | before[1]):
                refuse("deleted already")
        return frozenset(each.rows)

    def delete_file(self, table: Table, each: m.DeleteFile) -> None:
        if isinstance(each.rows, tuple) or not each.rows:
            refuse("no set of positions")
        if not self.live(table, each.data_file_id):
            return
        if max(each.rows) >= self.head.entries[table.id].files[each.data_file_id].rows:
            refuse("beyond the file")
        touched = any(e.id == table.id and e.kind == "DELETE" and e.file_id == each.data_file_id for _, e in self.since)
        before = self.deleted_before(table, each.data_file_id)
        if before is None or touched:
            return
        rows = set(each.rows)
        if not before[1] <= rows or rows & before[0] or rows == before[1]:
            refuse("delete file breaks the rules")

    def on_compact(self, change: m.Compact, index: int) -> None:
        table = self.entry(change.schema, change.table)
        if table.definition is not None and table.definition.primary_key:
            refuse("keyed")
        if not change.replaced:
            refuse("no file")
        lives = [self.live(table, self.name_file(file_id)) for file_id in change.replaced]
        deletes = [e for _, e in self.since if e.id == table.id and e.kind == "DELETE"]
        raced = any(e.file_id in change.replaced or self.oracle.beyond_window(self.base) for e in deletes)
        if all(lives) and not raced:
            now = self.head.entries[table.id].files
            rows = sum(now[f].rows - len(now[f].inlined) - len(now[f].filed) for f in change.replaced)
            if rows != sum(file.record_count for file in change.files):
                refuse("rows differ")
        self.look(table, index, "DROP")
        granularity = self.granularity(table)
        beyond = self.oracle.beyond_window(self.base)
        for at, event in self.since:
            if event.id == table.id and event.kind == "DELETE":
                if granularity == "TABLE":
                    self.found("TABLE_DELETED_FROM", at, change=index, id=table.id)
                elif event.file_id in change.replaced:
                    self.found("TABLE_DELETED_FROM", at, change=index, id=table.id, file_id=event.file_id)
            if event.id == table.id and event.kind == "COMPACT":
                if beyond and not all(lives):
                    self.found("TABLE_COMPACTED", at, change=index, id=table.id)
                elif not beyond and event.file_id in change.replaced:
                    self.found("TABLE_COMPACTED", at, change=index, id=table.id, file_id=event.file_id)
        schema_id, now_named = self.schema(change.schema), None
        now_named = self.head.entry(schema_id, change.table)
        if now_named is not None and now_named.id != table.id:
            bound = [(at, e) for at, e in self.since if e.kind in _NAMED and e.id == now_named.id]
            at, event = next((at, e) for at, e in reversed(bound) if e.name == fold(change.table))
            self.found(_NAMED[event.kind], at, change=index, id=now_named.id)

    def on_flush(self, change: m.Flush, index: int) -> None:
        """Row by row its last change; of a table that was dropped the drop says it all."""
        table = self.entry(change.schema, change.table)
        if table.definition is None or not table.definition.primary_key:
            refuse("not keyed")
        row_ids = [row_id for file in change.files for row_id in file.row_ids or ()]
        if not change.files or any(len(f.row_ids or ()) != f.record_count or not f.row_ids for f in change.files):
            refuse("no rows, or another number of them")
        if len(set(row_ids)) < len(row_ids) or min(row_ids) < 0:
            refuse("a row twice, or none")
        self.look(table, index, "DROP", "RENAME", "ALTER")
        dropped, wide = table.id not in self.head.entries, self.oracle.beyond_window(self.base)
        touches = [(at, e) for at, e in self.since if e.id == table.id and e.kind in ("ROW", "FLUSH")]
        names = {"ROW": "TABLE_ROWS_CHANGED", "FLUSH": "TABLE_FLUSHED"}
        if wide:
            for at, event in touches:
                self.found(names[event.kind], at, change=index, id=table.id)
        if dropped or (wide and touches):
            return
        outside = {row.row_id for row in self.seen.entries[table.id].rows.values() if not row.flushed}
        for row_id in row_ids:
            last = [(at, event) for at, event in touches if event.row_id == row_id][-1:]
            for at, event in last:
                self.found(names[event.kind], at, change=index, id=table.id)
            if not last and row_id not in outside:
                refuse("no row outside of files")

    # --- rows and the log itself --------------------------------------------------------------------------------------

    def on_insert_key(self, change: m.InsertRow, index: int) -> None:
        self.rows.judge(change, index)

    on_update_key = on_delete_key = on_insert_key

    def on_expire_snapshots(self, change: m.ExpireSnapshots, _: int) -> None:
        if not 0 <= change.older_than_snapshot_id <= self.oracle.head:
            refuse("beyond the head")

    def on_configure(self, _: m.Configure, __: int) -> None:
        """The histories only set what may be set."""


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _constrains(step: m.Alteration) -> bool:
    if step.op is m.AlterOp.SET_NULLABLE:
        return not step.nullable
    if step.op is m.AlterOp.ADD_COLUMN:
        assert step.column is not None
        return not step.column.nullable and step.column.default is None
    return step.op is m.AlterOp.SET_PARTITION_BY
