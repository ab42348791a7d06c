"""What lies between two snapshots: schemas, tables and views that came, went or changed, and files and rows in counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.outside_files import deletes_by_position, newest_outside_files
from commitlog.catalog.queries import Catalog
from commitlog.domain.model.definitions import quoted

_LIVE: LiteralString = "begin_snapshot <= %(at)s AND (end_snapshot IS NULL OR end_snapshot > %(at)s)"

_SCHEMAS = sql.SQL("SELECT schema_id, schema_name FROM ducklake_schema WHERE " + _LIVE)
_VIEWS = sql.SQL("SELECT view_id, schema_id, view_name, dialect, sql FROM ducklake_view WHERE " + _LIVE)
_AMONG: LiteralString = "table_id = ANY(%(among)s) AND " + _LIVE
_COLUMNS = sql.SQL(
    "SELECT table_id, column_id, column_name, column_type, nulls_allowed, nullif(default_value, 'NULL') "
    "FROM ducklake_column WHERE parent_column IS NULL AND " + _AMONG
)
_COLUMN_COMMENTS = sql.SQL(
    "SELECT table_id, column_id, value FROM ducklake_column_tag WHERE key = 'comment' AND " + _AMONG
)
_COMMENTS = sql.SQL(
    "SELECT object_id, value FROM ducklake_tag WHERE key = 'comment' AND object_id = ANY(%(among)s) AND " + _LIVE
)
_PARTITIONING = sql.SQL(
    "SELECT i.table_id, c.column_id, c.transform "
    "FROM (SELECT * FROM ducklake_partition_info WHERE " + _AMONG + ") i "
    "JOIN ducklake_partition_column c USING (partition_id, table_id) ORDER BY c.partition_key_index"
)
_PROPERTIES = sql.SQL(
    "SELECT table_id, coalesce((SELECT properties FROM commitlog.earlier_properties p WHERE p.table_id = d.table_id "
    "AND p.end_snapshot > %(at)s ORDER BY p.end_snapshot LIMIT 1), definition -> 'properties') "
    "FROM commitlog.table_definitions d WHERE table_id = ANY(%(among)s)"
)
_FILES = sql.SQL("SELECT table_id, data_file_id, record_count FROM ducklake_data_file WHERE " + _AMONG)
_DELETED = sql.SQL(
    "SELECT table_id, sum(delete_count)::bigint FROM ducklake_delete_file WHERE " + _AMONG + " GROUP BY 1"
)
_TABLES = sql.SQL("SELECT table_id, schema_id, table_name FROM ducklake_table WHERE " + _AMONG)

# A name that holds such a text brings a table too many, which is the same at both.
_TOUCHED = sql.SQL("""
    SELECT found[1]::bigint FROM ducklake_snapshot_changes, regexp_matches(changes_made, ':([0-9]{{1,18}})', 'g') found
    WHERE snapshot_id > {after} AND snapshot_id <= {upto}
    UNION SELECT table_id FROM ducklake_table
    WHERE begin_snapshot > {after} AND begin_snapshot <= {upto} OR end_snapshot > {after} AND end_snapshot <= {upto}
    UNION SELECT table_id FROM commitlog.earlier_properties WHERE end_snapshot > {after} AND end_snapshot <= {upto}""")


class Named(NamedTuple):
    """A schema, table or view as it was called; ``schema`` is empty for a schema."""

    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """A schema, table or view that is not as it was.

    kind: "schema", "table" or "view". before, after: None where there was or is none. what: changes in words.
    """

    kind: str
    before: Named | None
    after: Named | None
    what: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableDifference(ObjectDifference):
    """A table, with its files and rows: ``rows_before`` and ``rows_after`` are those that readers see."""

    files_added: int = 0
    files_removed: int = 0
    rows_before: int = 0
    rows_after: int = 0


class ColumnShape(NamedTuple):
    """A column of a table at a snapshot."""

    name: str
    type: str
    nullable: bool
    default: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table at a snapshot: its columns by id, its files by id, its rows by count.

    partition_by: ids of columns, and transforms. newest_row: the snapshot that made the newest of the rows that are in no file.
    Rows that are others, and as many as before, show by nothing else.
    """

    named: Named
    columns: Mapping[int, ColumnShape]
    partition_by: Sequence[tuple[int, str]]
    comment: str | None
    properties: Mapping[str, str]
    files: frozenset[int]
    rows: int
    newest_row: int | None = None


class View(NamedTuple):
    """A view at a snapshot."""

    named: Named
    dialect: str
    text: str


class Shape(NamedTuple):
    """What there is at a snapshot, by id."""

    schemas: Mapping[int, Named]
    tables: Mapping[int, TableShape]
    views: Mapping[int, View]


def differences(catalog: Catalog, first: int, last: int) -> list[ObjectDifference]:
    """What has become of each object that is not the same at two snapshots: schemas, then tables, then views, by name.

    Raises:
        SnapshotNotFoundError: one of them is not there, or not any more.
    """
    with catalog.at_once() as conn:
        for snapshot_id in (first, last):
            catalog.check_snapshot(snapshot_id)
        touched = conn.execute(_TOUCHED.format(after=min(first, last), upto=max(first, last))).fetchall()
        among = {table_id for (table_id,) in touched}
        shapes = [Shape(_schemas(conn, at), _tables(conn, at, among), _views(conn, at)) for at in (first, last)]
    return compared(*shapes)


def compared(before: Shape, after: Shape) -> list[ObjectDifference]:
    """The objects that are not the same in both."""
    found: list[ObjectDifference] = [
        ObjectDifference("schema", *pair) for pair in _pairs(before.schemas, after.schemas) if pair[0] != pair[1]
    ]
    pairs = _pairs(before.tables, after.tables)
    found += [each for then, now in pairs if (each := _of_table(then, now)) is not None]
    for then, now in _pairs(before.views, after.views):
        if then != now:
            changed = ("another query",) if then and now and then[1:] != now[1:] else ()
            found.append(ObjectDifference("view", then and then.named, now and now.named, changed))
    return found


def _pairs(before: Mapping[int, Any], after: Mapping[int, Any]) -> list[tuple[Any, Any]]:
    pairs = [(before.get(key), after.get(key)) for key in before.keys() | after.keys()]
    return sorted(pairs, key=lambda pair: _name_of(pair[1] if pair[1] is not None else pair[0]))


def _name_of(value: Named | TableShape | View) -> Named:
    return value if isinstance(value, Named) else value.named


def _of_table(before: TableShape | None, after: TableShape | None) -> TableDifference | None:
    if before == after:
        return None
    files = [frozenset[int]() if each is None else each.files for each in (before, after)]
    return TableDifference(
        "table",
        None if before is None else before.named,
        None if after is None else after.named,
        ()
        if before is None or after is None
        else (*_of_columns(before.columns, after.columns), *_of_definition(before, after), *_of_rows(before, after)),
        files_added=len(files[1] - files[0]),
        files_removed=len(files[0] - files[1]),
        rows_before=0 if before is None else before.rows,
        rows_after=0 if after is None else after.rows,
    )


def _of_columns(before: Mapping[int, ColumnShape], after: Mapping[int, ColumnShape]) -> Sequence[str]:
    found = [f"column {before[key].name} dropped" for key in sorted(before.keys() - after.keys())]
    found += [f"column {after[key].name} {after[key].type} added" for key in sorted(after.keys() - before.keys())]
    for key in sorted(before.keys() & after.keys()):
        then, now = before[key], after[key]
        if then.name != now.name:
            found.append(f"column {then.name} renamed to {now.name}")
        if then.type != now.type:
            found.append(f"column {now.name} {then.type} is now {now.type}")
        if then.nullable != now.nullable:
            found.append(f"column {now.name} {'takes' if now.nullable else 'no longer takes'} NULL")
        if then.default != now.default:
            found.append(f"column {now.name} {_now('default', now.default)}")
        if then.comment != now.comment:
            found.append(f"column {now.name} {_now('comment', now.comment)}")
    return found


def _of_definition(before: TableShape, after: TableShape) -> Sequence[str]:
    """What of a table is not its columns'."""
    found = []
    if before.partition_by != after.partition_by:
        keys = [
            name if transform == "identity" else f"{transform} of {name}"
            for name, transform in ((after.columns[column].name, transform) for column, transform in after.partition_by)
        ]
        found.append(f"partitioned by {', '.join(keys)}" if keys else "no longer partitioned")
    if before.comment != after.comment:
        found.append(_now("comment", after.comment))
    found += [
        _now(f"property {key}", after.properties.get(key))
        for key in sorted(before.properties.keys() | after.properties.keys())
        if before.properties.get(key) != after.properties.get(key)
    ]
    return found


def _now(what: str, value: str | None) -> str:
    return f"has no {what} any more" if value is None else f'has the {what} "{quoted(value)}"'


def _of_rows(before: TableShape, after: TableShape) -> Sequence[str]:
    """What no count tells."""
    is_told = (before.files, before.rows) != (after.files, after.rows)
    return () if is_told or before.newest_row == after.newest_row else ("other rows",)


# --- one snapshot -----------------------------------------------------------------------------------------------------


def _schemas(conn: Connection, at: int) -> dict[int, Named]:
    rows = conn.execute(_SCHEMAS, {"at": at})
    return {schema_id: Named("", name) for schema_id, name in rows}


def _views(conn: Connection, at: int) -> dict[int, View]:
    schemas = _schemas(conn, at)
    rows = conn.execute(_VIEWS, {"at": at})
    return {view: View(Named(schemas[schema].name, name), dialect, text) for view, schema, name, dialect, text in rows}


def _tables(conn: Connection, at: int, among: Set[int]) -> dict[int, TableShape]:
    """Some tables at a snapshot: all that are the same at both need not be looked at, of a lake with many files."""
    schemas, here = _schemas(conn, at), {"at": at, "among": list(among)}
    comments = {(table, column): text for table, column, text in conn.execute(_COLUMN_COMMENTS, here)}
    columns: dict[int, dict[int, ColumnShape]] = {}
    for table, column, name, kind, nullable, default in conn.execute(_COLUMNS, here):
        shape = ColumnShape(name, kind, nullable, default, comments.get((table, column)))
        columns.setdefault(table, {})[column] = shape
    partitioning: dict[int, list[tuple[int, str]]] = {}
    for table, column, transform in conn.execute(_PARTITIONING, here):
        partitioning.setdefault(table, []).append((column, transform))
    table_comments: dict[int, str] = dict(conn.execute(_COMMENTS, here).fetchall())
    properties: dict[int, dict[str, str]] = dict(conn.execute(_PROPERTIES, here).fetchall())
    files: dict[int, list[tuple[int, int]]] = {}
    for table, file, rows in conn.execute(_FILES, here):
        files.setdefault(table, []).append((file, rows))
    gone: dict[int, int] = dict(conn.execute(_DELETED, here).fetchall())
    outside, deleted = newest_outside_files(conn, at, among), deletes_by_position(conn, at, among)
    found: dict[int, TableShape] = {}
    for table, schema, name in conn.execute(_TABLES, here).fetchall():
        own = files.get(table, [])
        beside = outside.get(table)
        rows = sum(count for _, count in own) - gone.get(table, 0) - deleted.get(table, 0)
        named = Named(schemas[schema].name, name)
        found[table] = TableShape(
            named,
            columns.get(table, {}),
            partitioning.get(table, []),
            table_comments.get(table),
            properties.get(table, {}),
            frozenset(file for file, _ in own),
            rows if beside is None else rows + beside.rows,
            None if beside is None else beside.newest,
        )
    return found
