"""What the source's schemas, tables and views were at a snapshot, and the changes that lead from one to the next.

Pure. Column ids are the field ids of the Parquet files, so a log must give the same ones. Where the source has used up an id of
which nothing is kept, a placeholder column takes it here, and is dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from commitlog.adoption.source import SQL_TYPES, CatalogRows, Row, alive, default_of, quoted
from commitlog.domain import model as m
from commitlog.domain.model.types import fold, quote

PLACEHOLDER = "commitlog_dropped_{}"
_ASIDE = "commitlog_renamed_{}"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column or nested field as it is at one snapshot."""

    column_id: int
    name: str
    type_name: str
    nullable: bool
    default: str | None
    initial_default: str | None
    comment: str | None
    children: tuple[SourceColumn, ...] = ()

    @property
    def type(self) -> str:
        """The type as a proposal writes it."""
        match self.type_name:
            case "struct":
                return "struct(" + ", ".join(f"{quote(child.name)} {child.type}" for child in self.children) + ")"
            case "list" | "map":
                return f"{self.type_name}(" + ", ".join(child.type for child in self.children) + ")"
        return self.type_name

    @property
    def sql_type(self) -> str:
        """The type as DuckDB writes it."""
        match self.type_name:
            case "struct":
                return "STRUCT(" + ", ".join(f"{quoted(child.name)} {child.sql_type}" for child in self.children) + ")"
            case "list":
                return f"{self.children[0].sql_type}[]"
            case "map":
                return f"MAP({self.children[0].sql_type}, {self.children[1].sql_type})"
        return SQL_TYPES.get(self.type_name, self.type_name.upper())

    def ids(self) -> Iterator[int]:
        """Its id, then those of its fields, depth first."""
        yield self.column_id
        for child in self.children:
            yield from child.ids()

    def leaves(self, prefix: str = "") -> Iterator[tuple[int, str, str]]:
        """(id, dotted path, type) of what holds values."""
        path = prefix + self.name
        if not self.children:
            yield self.column_id, path, self.type_name
        for child in self.children:
            yield from child.leaves(path + ".")


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it is at one snapshot. ``folder`` is its path below the lake's, None when it lies elsewhere."""

    table_id: int
    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    partition_id: int | None
    partition_by: tuple[tuple[int, str], ...]
    comment: str | None
    folder: str | None

    def leaves(self) -> dict[int, tuple[str, str]]:
        """By id, (dotted path, type) of what holds values."""
        return {leaf_id: (path, kind) for column in self.columns for leaf_id, path, kind in column.leaves()}

    def partition_specs(self) -> tuple[m.PartitionSpec, ...]:
        """The partition keys by name."""
        names = {column.column_id: column.name for column in self.columns}
        return tuple(m.PartitionSpec(names[column_id], transform) for column_id, transform in self.partition_by)


@dataclass(frozen=True, slots=True)
class SourceView:
    """A view as it is at one snapshot."""

    view_id: int
    schema: str
    name: str
    dialect: str
    sql: str


@dataclass(frozen=True, slots=True)
class LakeAt:
    """The objects of the lake at one snapshot, by their ids there."""

    schemas: Mapping[int, str] = field(default_factory=lambda: {0: "main"})
    tables: Mapping[int, SourceTable] = field(default_factory=dict)
    views: Mapping[int, SourceView] = field(default_factory=dict)


class Definitions:
    """Answers what the lake was at a snapshot; asked in rising order. A table that has not changed since is the same object."""

    def __init__(self, lake: CatalogRows) -> None:
        self._lake = lake
        self._events_of = _events_by_table(lake)
        others = (at for name in ("schema", "view") for row in lake.rows[name] for at in _ends(row))
        self._events = set(others).union(*self._events_of.values())
        self._known: dict[int, tuple[int, SourceTable]] = {}
        self._keys: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        for row in lake.rows["partition_column"]:
            self._keys[row["partition_id"]].append((row["partition_key_index"], row["column_id"], row["transform"]))
        self._last: tuple[int, LakeAt] | None = None

    def at(self, snapshot_id: int) -> LakeAt:
        """The objects at a snapshot."""
        if self._last is None or any(n in self._events for n in range(self._last[0] + 1, snapshot_id + 1)):
            self._last = snapshot_id, self._made_at(snapshot_id)
        self._last = snapshot_id, self._last[1]
        return self._last[1]

    @property
    def last(self) -> LakeAt | None:
        """What was asked last."""
        return None if self._last is None else self._last[1]

    def _made_at(self, n: int) -> LakeAt:
        rows = self._lake.rows
        schemas = {row["schema_id"]: row for row in rows["schema"] if alive(row, n)}
        comments = {row["object_id"]: row["value"] for row in rows["tag"] if alive(row, n) and row["key"] == "comment"}
        tables = {
            row["table_id"]: self._table_at(row, schemas[row["schema_id"]], comments.get(row["table_id"]), n)
            for row in rows["table"]
            if alive(row, n)
        }
        views = {
            row["view_id"]: SourceView(
                row["view_id"], schemas[row["schema_id"]]["schema_name"], row["view_name"], row["dialect"], _sql(row)
            )
            for row in rows["view"]
            if alive(row, n)
        }
        return LakeAt({key: row["schema_name"] for key, row in schemas.items()}, tables, views)

    def _table_at(self, row: Row, schema: Row, comment: str | None, n: int) -> SourceTable:
        table_id = row["table_id"]
        events = bisect_right(self._events_of[table_id], n)
        known = self._known.get(table_id)
        if known is None or known[0] != events:
            known = self._known[table_id] = events, self._table(row, schema, comment, n)
        return known[1]

    def _table(self, row: Row, schema: Row, comment: str | None, n: int) -> SourceTable:
        table_id = row["table_id"]
        of_table = self._lake.of_table
        comments = {
            tag["column_id"]: tag["value"]
            for tag in of_table("column_tag", table_id)
            if alive(tag, n) and tag["key"] == "comment"
        }
        children: dict[int | None, list[Row]] = defaultdict(list)
        for column in sorted(of_table("column", table_id), key=lambda c: (c["column_order"], c["column_id"])):
            if alive(column, n):
                children[column["parent_column"]].append(column)
        partition = next((p["partition_id"] for p in of_table("partition_info", table_id) if alive(p, n)), None)
        keys = sorted(self._keys[partition]) if partition is not None else []
        relative = schema["path_is_relative"] and row["path_is_relative"]
        return SourceTable(
            table_id,
            schema["schema_name"],
            row["table_name"],
            tuple(_column(column, children, comments) for column in children[None]),
            partition if keys else None,
            tuple((column_id, transform) for _, column_id, transform in keys),
            comment,
            (schema["path"] or "") + (row["path"] or "") if relative else None,
        )


def _events_by_table(lake: CatalogRows) -> dict[int, list[int]]:
    """By table the snapshots that may have changed it, in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for name, key in (
        ("column", "table_id"),
        ("column_tag", "table_id"),
        ("partition_info", "table_id"),
        ("tag", "object_id"),
    ):
        for row in lake.rows[name]:
            found[row[key]] += _ends(row)
    of_schema: dict[int, list[int]] = defaultdict(list)
    for row in lake.rows["schema"]:
        of_schema[row["schema_id"]] += _ends(row)
    for row in lake.rows["table"]:
        found[row["table_id"]] += (*_ends(row), *of_schema[row["schema_id"]])
    return {table_id: sorted(events) for table_id, events in found.items()}


def _ends(row: Row) -> list[int]:
    """The snapshots between which a row of the catalog is seen."""
    return [at for at in (row["begin_snapshot"], row["end_snapshot"]) if at is not None]


def _sql(row: Row) -> str:
    aliases = (row["column_aliases"] or "").strip()
    return row["sql"] if not aliases else f"SELECT * FROM ({row['sql']}) AS aliased({aliases.strip('[]()')})"


def _column(row: Row, children: Mapping[int | None, list[Row]], comments: Mapping[int, str]) -> SourceColumn:
    return SourceColumn(
        row["column_id"],
        row["column_name"],
        row["column_type"],
        bool(row["nulls_allowed"]),
        default_of(row),
        row["initial_default"],
        comments.get(row["column_id"]),
        tuple(_column(child, children, comments) for child in children.get(row["column_id"], ())),
    )


# --- from one snapshot to the next ------------------------------------------------------------------------------------


def difference(
    before: LakeAt, after: LakeAt, next_column_id: Callable[[int], int], properties: Mapping[str, str]
) -> Iterator[m.Change]:
    """The changes of objects that lead from ``before`` to ``after``.

    Args:
        before: what was there.
        after: what is to be there.
        next_column_id: of a table of the source, the id that the log would give to its next column.
        properties: those of tables that are created.
    """
    for view in before.views.values():
        if after.views.get(view.view_id) != view:
            yield m.DropView(view.schema, view.name)
    for table in before.tables.values():
        if table.table_id not in after.tables:
            yield m.DropTable(table.schema, table.name)
    for schema_id, name in before.schemas.items():
        if schema_id not in after.schemas:
            yield m.DropSchema(name)
    for schema_id, name in after.schemas.items():
        if schema_id not in before.schemas:
            yield m.CreateSchema(name)
    renamed: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for table in after.tables.values():
        old = before.tables.get(table.table_id)
        if old is not None and old.name != table.name:
            renamed[table.schema].append((old.name, table.name))
    for schema, names in renamed.items():
        for name, new_name in _renames(names):
            yield m.RenameTable(schema, name, new_name)
    for table in after.tables.values():
        old = before.tables.get(table.table_id)
        if old is None:
            yield m.CreateTable(
                table.schema,
                table.name,
                tuple(_spec(c) for c in table.columns),
                partition_by=table.partition_specs(),
                properties=properties,
            )
        elif old is not table and (steps := tuple(_alterations(old, table, next_column_id))):
            yield m.AlterTable(table.schema, table.name, steps)
    for view in after.views.values():
        if before.views.get(view.view_id) != view:
            yield m.CreateView(view.schema, view.name, view.sql, view.dialect)


def _spec(column: SourceColumn) -> m.ColumnSpec:
    return m.ColumnSpec(column.name, column.type, column.nullable, column.default)


def _alterations(old: SourceTable, new: SourceTable, next_column_id: Callable[[int], int]) -> Iterator[m.Alteration]:
    op = m.AlterOp
    before = {column.column_id: column for column in old.columns}
    after = {column.column_id: column for column in new.columns}
    repartitioned = (old.partition_id, old.partition_by) != (new.partition_id, new.partition_by)
    if repartitioned and old.partition_by and any(column_id not in after for column_id, _ in old.partition_by):
        yield m.Alteration(op.SET_PARTITION_BY)
    next_id = next_column_id(new.table_id)
    added = [column for column in new.columns if column.column_id not in before]
    kept = [column for column in old.columns if column.column_id in after]
    dropped = [column for column in old.columns if column.column_id not in after]
    if not kept:
        # The last column cannot be dropped, so what comes goes first.
        yield from _add(added, next_id)
    for column in dropped:
        yield m.Alteration(op.DROP_COLUMN, name=column.name)
    for name, new_name in _renames([(was.name, after[was.column_id].name) for was in kept]):
        yield m.Alteration(op.RENAME_COLUMN, name=name, new_name=new_name)
    for was in kept:
        yield from _column_steps(was, after[was.column_id])
    if kept:
        yield from _add(added, next_id)
    if repartitioned and new.partition_by:
        yield m.Alteration(op.SET_PARTITION_BY, partition_by=new.partition_specs())
    elif repartitioned and all(column_id in after for column_id, _ in old.partition_by):
        yield m.Alteration(op.SET_PARTITION_BY)
    if old.comment != new.comment:
        yield m.Alteration(op.SET_COMMENT, comment=new.comment)
    for column in new.columns:
        commented = before[column.column_id].comment if column.column_id in before else None
        if commented != column.comment:
            yield m.Alteration(op.SET_COMMENT, name=column.name, comment=column.comment)


def _renames(names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Renames in an order in which each new name is free; of those that only change places one goes aside."""
    waiting = [(name, new) for name, new in names if name != new]
    for number in count():
        taken = {fold(name) for name, _ in waiting}
        while ready := [each for each in waiting if fold(each[1]) not in taken - {fold(each[0])}]:
            yield from ready
            waiting = [each for each in waiting if each not in ready]
            taken = {fold(name) for name, _ in waiting}
        if not waiting:
            return
        (name, new), aside = waiting[0], _ASIDE.format(number)
        yield name, aside
        waiting[0] = aside, new


def _column_steps(was: SourceColumn, now: SourceColumn) -> Iterator[m.Alteration]:
    op = m.AlterOp
    if was.type != now.type:
        yield m.Alteration(op.SET_TYPE, name=now.name, type=now.type)
    if was.nullable != now.nullable:
        yield m.Alteration(op.SET_NULLABLE, name=now.name, nullable=now.nullable)
    if was.default != now.default:
        yield m.Alteration(op.SET_DEFAULT, name=now.name, default=now.default)


def _add(added: Sequence[SourceColumn], next_id: int) -> Iterator[m.Alteration]:
    """Add columns under their ids; ids that were used up in between go to placeholders that are dropped at once."""
    op = m.AlterOp
    for column in sorted(added, key=lambda c: c.column_id):
        for column_id in range(next_id, column.column_id):
            name = PLACEHOLDER.format(column_id)
            yield m.Alteration(op.ADD_COLUMN, column=m.ColumnSpec(name, "int8"))
            yield m.Alteration(op.DROP_COLUMN, name=name)
        yield m.Alteration(op.ADD_COLUMN, column=_spec(column).replace(default=column.initial_default))
        if column.default != column.initial_default:
            yield m.Alteration(op.SET_DEFAULT, name=column.name, default=column.default)
        next_id = max(column.ids()) + 1


def without_history(table: SourceTable) -> SourceTable:
    """The table as it could have been created, so that `difference` can lead from there to what it is.

    Ids that are used up go to placeholder columns, and columns that were added later are left out from the first on that
    older files read as its default.
    """
    columns: list[SourceColumn] = []
    next_id = 1
    for column in sorted(table.columns, key=lambda c: c.column_id):
        for column_id in range(next_id, column.column_id):
            name = PLACEHOLDER.format(column_id)
            columns.append(SourceColumn(column_id, name, "int8", True, None, None, None))
        next_id = max(column.ids()) + 1
        if column.initial_default is not None and columns:
            break
        columns.append(replace(column, comment=None))
    made = {column.column_id for column in columns}
    partitioned = all(column_id in made for column_id, _ in table.partition_by)
    return replace(
        table,
        columns=tuple(columns),
        comment=None,
        partition_id=table.partition_id if partitioned else None,
        partition_by=table.partition_by if partitioned else (),
    )
