"""Schemas, tables and views in the catalog.

Alterations and renames of a table are collected and written at the end of the changeset as the difference between its
definition before and after, so that a row never begins and ends in one snapshot, whatever a changeset does and undoes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg import sql
from psycopg.types.json import Jsonb

from commitlog.catalog.folders import object_uuid, path_of
from commitlog.catalog.guard import guard_statement
from commitlog.catalog.projecting.row_values import rows_table_column
from commitlog.catalog.projecting.tracking import Tracker
from commitlog.catalog.writing import CopyBuffer
from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import define, inlining_problem, reference
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import NESTED, fold

_END = sql.SQL("UPDATE {table} SET end_snapshot = %s WHERE {key} = %s AND end_snapshot IS NULL")
_SCHEMAS = sql.SQL("SELECT schema_id, schema_name FROM ducklake_schema WHERE end_snapshot IS NULL")
_SCHEMA_NAME = sql.SQL("SELECT schema_name FROM ducklake_schema WHERE schema_id = %s AND end_snapshot IS NULL")
_TABLES_OF = sql.SQL("SELECT table_id FROM ducklake_table WHERE schema_id = %s AND end_snapshot IS NULL ORDER BY 1")
_VIEWS_OF = sql.SQL("SELECT view_id FROM ducklake_view WHERE schema_id = %s AND end_snapshot IS NULL ORDER BY 1")
_END_TABLE_NAME = sql.SQL("""
    UPDATE ducklake_table SET end_snapshot = %s WHERE table_id = %s AND end_snapshot IS NULL
    RETURNING table_uuid, schema_id, path, path_is_relative""")
_END_COLUMNS = sql.SQL("""
    UPDATE ducklake_column SET end_snapshot = %s
    WHERE table_id = %s AND column_id = ANY(%s) AND end_snapshot IS NULL""")
_END_COLUMN_TAGS = sql.SQL("""
    UPDATE ducklake_column_tag SET end_snapshot = %s
    WHERE table_id = %s AND column_id = ANY(%s) AND end_snapshot IS NULL""")
_END_VIEW = sql.SQL("""
    UPDATE ducklake_view SET end_snapshot = %s WHERE view_id = %s AND end_snapshot IS NULL
    RETURNING view_uuid, schema_id, view_name""")
# Of several changes in one snapshot the first knows what there was before it.
_STORE_PROPERTIES = sql.SQL("INSERT INTO {own}.earlier_properties VALUES (%s, %s, %s) ON CONFLICT DO NOTHING")
_FORGET_NEVER_SEEN_VIEW = sql.SQL("DELETE FROM ducklake_view WHERE view_id = %s AND begin_snapshot = end_snapshot")
_MAKE_ROWS_TABLE = sql.SQL("CREATE TABLE {} (row_id bigint, begin_snapshot bigint, end_snapshot bigint, {})")
_INDEX_ROWS_TABLE = sql.SQL("CREATE INDEX ON {} (row_id)")

ColumnRow = tuple[int, str, str, str | None, str | None, bool, int | None, str]
NO_DEFAULT = "NULL"
"""As the catalog has it."""

_TABLES_NAMED = sql.SQL("""
    SELECT table_id, table_name FROM ducklake_table WHERE schema_id = %s AND end_snapshot IS NULL""")
_COVER_BUCKETS = sql.SQL("""
    INSERT INTO ducklake_file_partition_value
    SELECT data_file_id, table_id, %s, b::text
    FROM ducklake_data_file f CROSS JOIN generate_series(0, %s::int) b
    WHERE table_id = %s AND end_snapshot IS NULL AND NOT EXISTS (
        SELECT 1 FROM ducklake_file_partition_value v WHERE v.data_file_id = f.data_file_id
        AND v.partition_key_index = %s AND v.partition_value = b::text)""")


class ObjectProjection:
    """Projects changes of schemas, tables and views."""

    def __init__(self, buffer: CopyBuffer, tracker: Tracker) -> None:
        self.buffer = buffer
        self.tracker = tracker
        self.snapshot_id = 0
        self.schema_version = 0
        self._before: dict[int, TableDefinition] = {}

    def start(self, snapshot_id: int, schema_version: int) -> None:
        """A new changeset."""
        self.snapshot_id = snapshot_id
        self.schema_version = schema_version
        self._before.clear()

    def is_altered(self, table_id: int) -> bool:
        """Whether this changeset has altered or renamed a table so far."""
        return table_id in self._before

    def finish(self) -> Sequence[str]:
        """Write what the changeset's alterations come to; their words for ``changes_made``."""
        if not self._before:
            return ()
        words: list[str] = []
        for table_id, before in self._before.items():
            words += self._write_difference(before, self.tracker.table(table_id).definition)
        return words

    # --- schemas ------------------------------------------------------------------------------------------------------

    def create_schema(self, schema_id: int, name: str) -> None:
        uuid = object_uuid(self.tracker.log_id, "schema", schema_id)
        self.buffer.add(
            "ducklake_schema", (schema_id, uuid.bytes, self.snapshot_id, None, name, path_of(name, str(uuid)), True)
        )

    def drop_schema(self, schema_id: int) -> tuple[list[int], list[int]]:
        """End a schema and what it holds; return the ids of its tables and views."""
        tables, views = self.entries_of(schema_id)
        for table_id in tables:
            self.drop_table(table_id)
        for view_id in views:
            self.drop_view(view_id)
        self._end("schema", "schema_id", schema_id)
        return tables, views

    def entries_of(self, schema_id: int) -> tuple[list[int], list[int]]:
        """The live tables and views of a schema."""
        tables = [row[0] for row in self.buffer.execute(_TABLES_OF, (schema_id,)).fetchall()]
        views = [row[0] for row in self.buffer.execute(_VIEWS_OF, (schema_id,)).fetchall()]
        return tables, views

    def schema_id(self, name: str) -> int:
        """The live schema of that name, which the log says is there."""
        rows = self.buffer.execute(_SCHEMAS).fetchall()
        return next(int(schema_id) for schema_id, found in rows if fold(found) == fold(name))

    def _end(self, table: str, key: str, value: int) -> None:
        statement = _END.format(table=sql.Identifier(f"ducklake_{table}"), key=sql.Identifier(key))
        self.buffer.execute(statement, (self.snapshot_id, value))

    # --- tables -------------------------------------------------------------------------------------------------------

    def create_table(self, table_id: int, change: m.CreateTable, partition_id: int | None) -> None:
        schema_id = self.schema_id(change.schema)
        definition = define(change, table_id=table_id, schema_id=schema_id, partition_id=partition_id)
        self.tracker.add(definition)
        uuid = object_uuid(self.tracker.log_id, "table", table_id)
        path = path_of(change.table, str(uuid))
        row = (table_id, uuid.bytes, self.snapshot_id, None, schema_id, change.table, path, True)
        self.buffer.add("ducklake_table", row)
        # It may refer to itself.
        for spec in change.foreign_keys:
            parent = self._live_definition(spec.ref_schema, spec.ref_table)
            key = reference(definition, spec, parent)
            definition = definition.replace(foreign_keys=(*definition.foreign_keys, key))
        for column in column_rows(definition).values():
            self._add_column(table_id, column)
        self._add_partitioning(definition)
        self.tracker.redefine(definition)
        self._new_version(definition)

    def _live_definition(self, schema_name: str, table_name: str) -> TableDefinition:
        schema_id = self.schema_id(schema_name)
        rows = self.buffer.execute(_TABLES_NAMED, (schema_id,)).fetchall()
        # What this changeset renames is there by its old name as yet.
        found = [t for t, name in rows if fold(name) == fold(table_name) and t not in self._before]
        for definition in (self.tracker.table(t).definition for t in (*found, *self._before)):
            if definition.schema_id == schema_id and fold(definition.name) == fold(table_name):
                return definition
        raise AssertionError(f"table {schema_name}.{table_name} is not in the catalog")

    def _add_column(self, table_id: int, row: ColumnRow) -> None:
        column_id, name, kind, initial_default, default, nullable, parent, default_type = row
        self.buffer.add(
            "ducklake_column",
            (
                column_id,
                self.snapshot_id,
                None,
                table_id,
                column_id,
                name,
                kind,
                initial_default,
                NO_DEFAULT if default is None else default,
                nullable,
                parent,
                default_type,
                "duckdb",
            ),
        )

    def _add_partitioning(self, definition: TableDefinition) -> None:
        if not definition.partition_by:
            return
        table_id, partition_id = definition.table_id, definition.partition_id
        self.buffer.add("ducklake_partition_info", (partition_id, table_id, self.snapshot_id, None))
        for index, key in enumerate(definition.partition_by):
            self.buffer.add("ducklake_partition_column", (partition_id, table_id, index, key.column_id, key.transform))

    def _cover_buckets(self, definition: TableDefinition) -> None:
        """Files from before a table had these buckets can hold rows of each, and the stock client looks for just one."""
        for index, key in enumerate(definition.partition_by):
            if key.buckets is not None:
                self.buffer.execute(_COVER_BUCKETS, (index, key.buckets - 1, definition.table_id, index))

    def _new_version(self, definition: TableDefinition) -> None:
        """Note the schema version, and make the inlined data table that clients expect of it."""
        table_id = definition.table_id
        self.buffer.add("ducklake_schema_versions", (self.snapshot_id, self.schema_version, table_id))
        if inlining_problem(definition) is None:
            self._make_rows_table(definition, f"ducklake_inlined_data_{table_id}_{self.schema_version}")

    def _make_rows_table(self, definition: TableDefinition, name: str) -> None:
        table_id = definition.table_id
        columns = [
            sql.Identifier(column.name) + sql.SQL(" ") + sql.SQL(rows_table_column(column.type))
            for column in definition.columns
        ]
        self.buffer.execute(_MAKE_ROWS_TABLE.format(sql.Identifier(name), sql.SQL(", ").join(columns)))
        self.buffer.execute(_INDEX_ROWS_TABLE.format(sql.Identifier(name)))
        self.buffer.execute(guard_statement(name))
        self.buffer.add("ducklake_inlined_data_tables", (table_id, name, self.schema_version))
        self.tracker.table(table_id).rows_tables.append(name)

    def drop_table(self, table_id: int) -> None:
        """End a table and everything of it."""
        self._before.pop(table_id, None)
        for table in ("table", "column", "data_file", "delete_file", "partition_info", "column_tag"):
            self._end(table, "table_id", table_id)
        self._end("tag", "object_id", table_id)
        self.tracker.forget(table_id)

    def rename_table(self, table_id: int, name: str) -> None:
        definition = self.tracker.table(table_id).definition
        self._before.setdefault(table_id, definition)
        self.tracker.redefine(definition.replace(name=name))

    def alter_table(self, table_id: int, change: m.AlterTable, partition_ids: tuple[int, ...]) -> None:
        definition = self.tracker.table(table_id).definition
        self._before.setdefault(table_id, definition)
        self.tracker.redefine(alter(definition, change.alterations, partition_ids=partition_ids, came=True))

    def _write_difference(self, before: TableDefinition, after: TableDefinition) -> Iterator[str]:
        table_id = after.table_id
        if before.name != after.name:
            yield self._write_name(table_id, after.name)
        old, new = column_rows(before), column_rows(after)
        ended = [column_id for column_id, row in old.items() if new.get(column_id) != row]
        added = [row for column_id, row in new.items() if old.get(column_id) != row]
        if ended:
            self.buffer.execute(_END_COLUMNS, (self.snapshot_id, table_id, ended))
        for row in added:
            self._add_column(table_id, row)
        self._forget_bounds_of_widened(before, after)
        repartitioned = (before.partition_id, before.partition_by) != (after.partition_id, after.partition_by)
        if repartitioned:
            self._end("partition_info", "table_id", table_id)
            self._add_partitioning(after)
        if repartitioned or _are_buckets_others(before, after):
            self._cover_buckets(after)
        if before.properties != after.properties:
            earlier = (table_id, self.snapshot_id, Jsonb(dict(before.properties)))
            self.buffer.execute(_STORE_PROPERTIES.format(own=self.buffer.own), earlier)
        commented = self._write_comments(before, after)
        if ended or added or repartitioned:
            self._new_version(after)
        if ended or added or repartitioned or commented:
            yield f"altered_table:{table_id}"

    def _forget_bounds_of_widened(self, before: TableDefinition, after: TableDefinition) -> None:
        """The stock client reads a table's bounds as values of a column's type at its snapshot, and fails on wider ones."""
        known = self.tracker.table(after.table_id)
        for column in _retyped(before, after):
            known.statistics.bounds(column).forget()
            known.dirty = True

    def _write_name(self, table_id: int, name: str) -> str:
        row = self.buffer.execute(_END_TABLE_NAME, (self.snapshot_id, table_id)).fetchone()
        assert row is not None
        uuid, schema_id, path, is_relative = row
        row = (table_id, uuid.bytes, self.snapshot_id, None, schema_id, name, path, is_relative)
        self.buffer.add("ducklake_table", row)
        found = self.buffer.execute(_SCHEMA_NAME, (schema_id,)).fetchone()
        assert found is not None
        return f"created_table:{quoted_in_changes(found[0], name)}"

    def _write_comments(self, before: TableDefinition, after: TableDefinition) -> bool:
        changed = False
        if before.comment != after.comment:
            changed = True
            self._end("tag", "object_id", after.table_id)
            if after.comment is not None:
                self.buffer.add("ducklake_tag", (after.table_id, self.snapshot_id, None, "comment", after.comment))
        old = {column.column_id: column.comment for column in before.columns}
        commented = [column for column in after.columns if old.get(column.column_id) != column.comment]
        if commented:
            ended = [column.column_id for column in commented]
            self.buffer.execute(_END_COLUMN_TAGS, (self.snapshot_id, after.table_id, ended))
        for column in commented:
            if column.comment is not None:
                row = (after.table_id, column.column_id, self.snapshot_id, None, "comment", column.comment)
                self.buffer.add("ducklake_column_tag", row)
        return changed or bool(commented)

    # --- views --------------------------------------------------------------------------------------------------------

    def create_view(self, view_id: int, schema: str, name: str, text: str, dialect: str) -> None:
        uuid = object_uuid(self.tracker.log_id, "view", view_id)
        row = (view_id, uuid.bytes, self.snapshot_id, None, self.schema_id(schema), name, dialect, text, "")
        self.buffer.add("ducklake_view", row)

    def replace_view(self, view_id: int, text: str, dialect: str) -> None:
        row = self.buffer.execute(_END_VIEW, (self.snapshot_id, view_id)).fetchone()
        assert row is not None
        self.buffer.execute(_FORGET_NEVER_SEEN_VIEW, (view_id,))
        uuid, schema_id, name = row
        row = (view_id, uuid.bytes, self.snapshot_id, None, schema_id, name, dialect, text, "")
        self.buffer.add("ducklake_view", row)

    def drop_view(self, view_id: int) -> None:
        self._end("view", "view_id", view_id)
        self.buffer.execute(_FORGET_NEVER_SEEN_VIEW, (view_id,))


def quoted_in_changes(*names: str) -> str:
    """A name, with that of its schema before it, as ``changes_made`` has it."""
    return ".".join(['"' + name.replace('"', '""') + '"' for name in names])


def column_rows(definition: TableDefinition) -> dict[int, ColumnRow]:
    """What ``ducklake_column`` holds of a definition, by column id, nested fields included."""
    rows: dict[int, ColumnRow] = {}

    def add(column: Column, parent: int | None) -> None:
        default_type = "" if column.type.name in NESTED else "literal"
        rows[column.column_id] = (
            column.column_id,
            column.name,
            column.type.catalog_name,
            column.initial_default,
            column.default,
            column.nullable,
            parent,
            default_type,
        )
        for child in column.children:
            add(child, column.column_id)

    for column in definition.columns:
        add(column, None)
    return rows


def _are_buckets_others(before: TableDefinition, after: TableDefinition) -> bool:
    """Whether values are in other buckets than before: a decimal's digits are hashed, of which a larger scale has more."""
    decimals = [column.column_id for column in _retyped(before, after) if column.type.name == "decimal"]
    return any(key.buckets is not None and key.column_id in decimals for key in after.partition_by)


def _retyped(before: TableDefinition, after: TableDefinition) -> list[Column]:
    types = {column.column_id: column.type for column in before.columns}
    return [column for column in after.columns if types.get(column.column_id, column.type) != column.type]
