"""The lake as the oracle sees it: a whole copy for every snapshot, and plain lists of what each snapshot did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.model.altering import BENIGN_OPS, alter
from commitlog.domain.model.defining import define, reference
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.types import fold
from commitlog.domain.state.row_keys import canonical_text, given_key, key_of

K = m.ChangeKind


@dataclass
class File:
    """A live data file."""

    rows: int
    file: m.DataFile | None
    inlined: set[int] = field(default_factory=set)
    filed: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Row:
    """A live row of a keyed table; ``flushed`` when it is in a file."""

    row_id: int
    image: dict[str, Any]
    time_us: int
    origin: tuple[int, str]
    flushed: bool = False


@dataclass
class Table:
    """A table, or with ``definition`` None a view."""

    id: int
    schema_id: int
    name: str
    definition: TableDefinition | None
    files: dict[int, File] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)

    def copy(self) -> Table:
        """A copy to change: definitions and rows are values."""
        files = {i: File(f.rows, f.file, set(f.inlined), set(f.filed)) for i, f in self.files.items()}
        return Table(self.id, self.schema_id, self.name, self.definition, files, dict(self.rows))


@dataclass
class Event:
    """One thing that a snapshot did, in ids."""

    kind: str
    schema_id: int | None = None
    name: str = ""
    id: int | None = None
    file_id: int | None = None
    positions: frozenset[int] | None = None
    key: str | None = None
    row_id: int | None = None
    benign: bool = False
    file: m.DataFile | None = None
    refers_to: tuple[int, ...] = ()
    moved_to: tuple[int, ...] = ()


@dataclass
class World:
    """Everything there is at one snapshot."""

    schemas: dict[int, str] = field(default_factory=lambda: {0: "main"})
    entries: dict[int, Table] = field(default_factory=dict)

    def copy(self) -> World:
        """A copy to change."""
        return World(dict(self.schemas), {i: entry.copy() for i, entry in self.entries.items()})

    def schema(self, name: str) -> int | None:
        """The schema of that name."""
        return next((i for i, n in self.schemas.items() if fold(n) == fold(name)), None)

    def entry(self, schema_id: int | None, name: str) -> Table | None:
        """The table or view of that name."""
        found = (e for e in self.entries.values() if e.schema_id == schema_id and fold(e.name) == fold(name))
        return next(found, None)


def apply(world: World, outcome: m.Outcome) -> tuple[World, list[Event]]:
    """The world after a committed outcome, and what it did; ids are the outcome's."""
    world = world.copy()
    events: list[Event] = []
    assert outcome.proposal is not None
    assigned = outcome.assigned
    files, partitions = iter(assigned.data_file_ids), iter(assigned.partition_ids)
    handled = {r.change: r.row for r in outcome.resolutions if r.action is m.ResolutionAction.HANDLED}
    for index, (change, effect) in enumerate(zip(outcome.proposal.changes, outcome.effects, strict=True)):
        if effect.skipped:
            continue
        match change:
            case m.CreateSchema():
                world.schemas[effect.object_id] = change.schema
                events.append(Event("CREATE_SCHEMA", schema_id=effect.object_id, name=fold(change.schema)))
            case m.DropSchema():
                for entry in [e for e in world.entries.values() if e.schema_id == effect.object_id]:
                    events.append(Event("DROP", effect.object_id, fold(entry.name), entry.id))
                    del world.entries[entry.id]
                events.append(Event("DROP_SCHEMA", schema_id=effect.object_id, name=fold(change.schema)))
                del world.schemas[effect.object_id]
            case m.CreateTable():
                schema_id = world.schema(change.schema)
                partition_id = next(partitions) if change.partition_by else None
                made = define(change, table_id=effect.object_id, schema_id=schema_id, partition_id=partition_id)
                world.entries[made.table_id] = Table(made.table_id, schema_id, change.table, made)
                keys = []
                for spec in change.foreign_keys:
                    parent = world.entry(world.schema(spec.ref_schema), spec.ref_table)
                    keys.append(reference(made, spec, parent.definition))
                world.entries[made.table_id].definition = made.replace(foreign_keys=tuple(keys))
                refers = tuple(key.ref_table_id for key in keys)
                events.append(Event("CREATE_TABLE", schema_id, fold(change.table), made.table_id, refers_to=refers))
            case m.CreateView():
                schema_id = world.schema(change.schema)
                world.entries[effect.object_id] = Table(effect.object_id, schema_id, change.view, None)
                events.append(Event("CREATE_VIEW", schema_id, fold(change.view), effect.object_id))
            case m.DropTable() | m.DropView():
                entry = world.entries.pop(effect.object_id)
                events.append(Event("DROP", entry.schema_id, fold(entry.name), entry.id))
            case m.ReplaceView():
                entry = world.entries[effect.object_id]
                events.append(Event("REPLACE_VIEW", entry.schema_id, fold(entry.name), entry.id))
            case m.RenameTable():
                entry = world.entries[effect.object_id]
                events.append(Event("RENAME_AWAY", entry.schema_id, fold(entry.name), entry.id))
                entry.name = change.new_table
                entry.definition = entry.definition.replace(name=change.new_table)
                events.append(Event("RENAME", entry.schema_id, fold(entry.name), entry.id))
            case m.AlterTable():
                entry = world.entries[effect.object_id]
                count = sum(1 for step in change.alterations if step.partition_by)
                ids = tuple(next(partitions) for _ in range(count))
                before = entry.definition
                entry.definition = alter(before, change.alterations, partition_ids=ids)
                entry.rows = {key: called_anew(row, before, entry.definition) for key, row in entry.rows.items()}
                benign = all(step.op in BENIGN_OPS for step in change.alterations)
                events.append(Event("ALTER", entry.schema_id, fold(entry.name), entry.id, benign=benign))
            case m.Append() | m.Compact():
                entry = world.entries[effect.object_id]
                made_ids = [next(files) for _ in change.files]
                for file_id, file in zip(made_ids, change.files, strict=True):
                    entry.files[file_id] = File(file.record_count, file)
                    if isinstance(change, m.Append):
                        events.append(Event("APPEND", id=entry.id, file_id=file_id, file=file))
                for file_id in change.replaced if isinstance(change, m.Compact) else ():
                    del entry.files[file_id]
                    events.append(Event("COMPACT", id=entry.id, file_id=file_id, moved_to=tuple(made_ids)))
            case m.Delete():
                entry = world.entries[effect.object_id]
                for each in change.positions:
                    entry.files[each.data_file_id].inlined |= set(each.rows)
                    rows = frozenset(each.rows)
                    events.append(Event("DELETE", id=entry.id, file_id=each.data_file_id, positions=rows))
                for each in change.delete_files:
                    entry.files[each.data_file_id].filed |= set(each.rows)
                    events.append(Event("DELETE", id=entry.id, file_id=each.data_file_id))
                for file_id in change.whole_files:
                    del entry.files[file_id]
                    events.append(Event("DELETE", id=entry.id, file_id=file_id))
            case m.InsertRow() | m.UpdateRow() | m.DeleteRow():
                image = handled.get(index, None if isinstance(change, m.DeleteRow) else change.row)
                _apply_row(world.entries[effect.object_id], change, image, effect, outcome, events)
            case m.Flush():
                entry = world.entries[effect.object_id]
                for file in change.files:
                    entry.files[next(files)] = File(file.record_count, file)
                    for key, row in list(entry.rows.items()):
                        if row.row_id in file.row_ids:
                            entry.rows[key] = replace(row, flushed=True)
                    events += [Event("FLUSH", id=entry.id, row_id=row_id) for row_id in file.row_ids]
    return world, events


def called_anew(row: Row, before: TableDefinition, after: TableDefinition) -> Row:
    """A row whose columns are called as they are after an alteration, without those that are gone."""
    left = {column.column_id: column.name for column in after.columns}
    names = {column.name: left[column.column_id] for column in before.columns if column.column_id in left}
    return replace(row, image={names[name]: value for name, value in row.image.items() if name in names})


def _apply_row(
    entry: Table, change: Any, given: Any, effect: m.Effect, outcome: m.Outcome, events: list[Event]
) -> None:
    definition = entry.definition
    assert definition is not None
    if not definition.primary_key:
        events.append(Event("ROW", id=entry.id))
        return
    gone = [key for key, row in entry.rows.items() if row.row_id == effect.ended_row_id]
    events += [Event("ROW", id=entry.id, key=key, row_id=entry.rows.pop(key).row_id) for key in gone]
    if effect.row_id is not None:
        image = complete_row(definition, given)
        key = key_of(definition, image)
        time_us = outcome.decided_at_ms * 1000 if change.row_time_us is None else change.row_time_us
        origin = (0, "") if change.origin is None else (change.origin.priority, change.origin.node)
        entry.rows[key] = Row(effect.row_id, image, time_us, origin)
        events.append(Event("ROW", id=entry.id, key=key, row_id=effect.row_id))


def unique_values(definition: TableDefinition, image: dict[str, Any]) -> tuple[str | None, ...]:
    """The values of an image that must be unique."""
    return tuple(canonical_text(definition, ids, image) for ids in definition.unique)


__all__ = ["Event", "File", "Row", "Table", "World", "apply", "given_key", "unique_values"]
