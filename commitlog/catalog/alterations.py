"""What somebody has changed on the catalog's tables themselves (DDL), as PostgreSQL knows it.

Whoever owns a table may change it, and no trigger of ours runs then: so it is looked for. Columns, primary keys, indexes,
views and functions have to be as `tables` says, for stock clients insert and read by position; rules, constraints and
inheritance can change what is written or read, so there may be none. Triggers and row policies of users are carried over by
a rebuild: they are only told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from psycopg import sql
from psycopg.errors import UndefinedColumn, UndefinedFunction, UndefinedTable
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql

from commitlog.catalog.agreed_snapshots import QUERY_SNAPSHOTS
from commitlog.catalog.connecting import Connection
from commitlog.catalog.guard import TRIGGER
from commitlog.catalog.tables import DUCKLAKE, OWN, OWN_SCHEMA, ROWS_OUTSIDE_FILES, VIEWS

_COLUMNS = sql.SQL("""
    SELECT c.relname, array_agg(a.attname || ' ' || format_type(a.atttypid, NULL) || CASE WHEN a.attnotnull THEN ' NOT NULL'
           ELSE '' END ORDER BY a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind = 'r' AND c.relnamespace = quote_ident({schema})::regnamespace AND c.relname = ANY(%(tables)s)
    GROUP BY 1""")
_INDEXES = sql.SQL("""
    SELECT c.relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.relnamespace = quote_ident({schema})::regnamespace AND i.indisvalid""")
_KEYED = sql.SQL("""
    SELECT c.relname FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
    WHERE c.relnamespace = quote_ident({schema})::regnamespace""")
_ADDED = sql.SQL("""
    WITH made AS (SELECT oid, relname, relrowsecurity FROM pg_class WHERE relkind = 'r'
                  AND relnamespace = quote_ident({schema})::regnamespace AND relname = ANY(%(tables)s))
    SELECT 'rule ' || rulename || ' on ' || relname, false FROM made JOIN pg_rewrite ON ev_class = made.oid
    UNION ALL
    SELECT 'constraint ' || conname || ' on ' || relname, false FROM made JOIN pg_constraint ON conrelid = made.oid
    WHERE contype NOT IN ('p', 'n')
    UNION ALL
    SELECT 'heir ' || inhrelid::regclass || ' of ' || relname, false FROM made JOIN pg_inherits ON inhparent = made.oid
    UNION ALL
    SELECT 'trigger ' || tgname || ' on ' || relname, true FROM made JOIN pg_trigger ON tgrelid = made.oid
    WHERE NOT tgisinternal AND tgname <> %(trigger)s
    UNION ALL
    SELECT 'row policies on ' || relname, true FROM made WHERE relrowsecurity ORDER BY 1""")
_VIEWS = sql.SQL("SELECT viewname FROM pg_views WHERE schemaname = %s")
_FUNCTIONS = sql.SQL("SELECT proname, prosrc FROM pg_proc WHERE pronamespace = to_regnamespace(%s)")
PLANS_COMPARED = 3
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_TYPES_TOLD = {
    "VARCHAR": "character varying",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
}
_FUNCTION_TEXT = re.compile(r"FUNCTION commitlog\.(\w+)\(.*?\$\$(.*?)\$\$", re.DOTALL)


class Alteration(NamedTuple):
    """What was changed, and whether the catalog can be well all the same."""

    what: str
    is_note: bool = False


def alterations(conn: Connection) -> Iterator[Alteration]:
    """Everything that was changed on the tables, views and functions of the connection's catalog."""
    yield from _of_tables(conn, sql.SQL("current_schema()"), list(DUCKLAKE.sorted_tables))
    yield from _of_tables(conn, sql.Literal(OWN_SCHEMA), list(OWN.sorted_tables))
    there = {name for (name,) in conn.execute(_VIEWS, (OWN_SCHEMA,)).fetchall()}
    for name in sorted(VIEWS):
        if name not in there:
            yield Alteration(f"the view {OWN_SCHEMA}.{name} is gone")
        elif not _is_as_made(conn, name):
            yield Alteration(f"the view {OWN_SCHEMA}.{name} is not as commitlog made it")
    bodies: dict[str, str] = dict(conn.execute(_FUNCTIONS, (OWN_SCHEMA,)).fetchall())
    for name, body in _FUNCTION_TEXT.findall(ROWS_OUTSIDE_FILES + QUERY_SNAPSHOTS):
        if bodies.get(name) != body:
            yield Alteration(f"the function {OWN_SCHEMA}.{name} is not as commitlog made it")


def _is_as_made(conn: Connection, view: str) -> bool:
    """Whether a view is planned as its text is: PostgreSQL keeps no text, and tells what it keeps in words of its own."""
    found = sql.Identifier(OWN_SCHEMA, view)
    made = sql.SQL("({}) AS made").format(sql.SQL(VIEWS[view]).format(own=sql.Identifier(OWN_SCHEMA)))
    try:
        with conn.transaction():
            # A table that grows between the two may be planned otherwise.
            return any(_planned(conn, found) == _planned(conn, made) for _ in range(PLANS_COMPARED))
    except (UndefinedColumn, UndefinedTable, UndefinedFunction):
        return False


def _planned(conn: Connection, relation: sql.Composable) -> tuple[list[str], list[tuple[object, ...]]]:
    """The columns of all rows of a relation, and how they are found."""
    none = conn.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(relation))
    names = [column.name for column in none.description or ()]
    return names, conn.execute(sql.SQL("EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM {}").format(relation)).fetchall()


def _of_tables(conn: Connection, schema: sql.Composable, tables: list[Table]) -> Iterator[Alteration]:
    asked = {"tables": [table.name for table in tables], "trigger": TRIGGER}
    columns: dict[str, list[str]] = dict(conn.execute(_COLUMNS.format(schema=schema), asked).fetchall())
    indexes = {name for (name,) in conn.execute(_INDEXES.format(schema=schema)).fetchall()}
    keyed = {name for (name,) in conn.execute(_KEYED.format(schema=schema)).fetchall()}
    for table in tables:
        if table.name not in columns:
            yield Alteration(f"the table {table.name} is gone")
            continue
        wanted = _columns_of(table)
        if columns[table.name] != wanted:
            found = ", ".join(sorted(set(columns[table.name]) ^ set(wanted))) or "their order"
            yield Alteration(f"the columns of {table.name} are not as commitlog made them: {found}")
        if len(table.primary_key) and table.name not in keyed:
            yield Alteration(f"the primary key of {table.name} is gone")
        for name in sorted(str(index.name) for index in table.indexes if index.name not in indexes):
            yield Alteration(f"the index {name} is gone")
    for what, is_note in conn.execute(_ADDED.format(schema=schema), asked).fetchall():
        yield Alteration(f"somebody made the {what}", is_note)


def _columns_of(table: Table) -> list[str]:
    return [
        f"{column.name} {_told(column.type.compile(_DIALECT))}{'' if column.nullable else ' NOT NULL'}"
        for column in table.columns
    ]


def _told(type_name: str) -> str:
    """A type as PostgreSQL itself writes it."""
    return _TYPES_TOLD.get(type_name, type_name.lower())
