"""Owners and grants of tables and views, carried over to others that take their place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from psycopg import sql

from commitlog.catalog.writing import Connection

_TOGETHER = 200

# Of tables and views as a whole, and of single columns; the owner's own are the owner's anyway.
_GRANTS = """
    WITH wanted AS (
        SELECT c.oid, c.relname, c.relowner, c.relacl FROM pg_class c JOIN unnest(%(schemas)s::text[], %(names)s::text[])
            AS w(place, name) ON c.relnamespace = to_regnamespace(quote_ident(w.place)) AND c.relname = w.name
        WHERE EXISTS (SELECT 1 FROM pg_class n WHERE n.relnamespace = %(successor)s::regnamespace AND n.relname = c.relname))
    SELECT relname, NULL AS attname, privilege_type, grantee, is_grantable
    FROM wanted, aclexplode(relacl) WHERE grantee <> relowner
    UNION ALL
    SELECT relname, attname, privilege_type, grantee, is_grantable
    FROM wanted JOIN pg_attribute a ON a.attrelid = wanted.oid AND NOT a.attisdropped, aclexplode(attacl)
    WHERE grantee <> relowner"""
_OWNERS = """
    SELECT n.relname, n.relkind::text, o.rolname FROM pg_class c JOIN unnest(%(schemas)s::text[], %(names)s::text[])
        AS w(place, name) ON c.relnamespace = to_regnamespace(quote_ident(w.place)) AND c.relname = w.name
    JOIN pg_class n ON n.relnamespace = %(successor)s::regnamespace AND n.relname = c.relname AND n.relowner <> c.relowner
    JOIN pg_roles o ON o.oid = c.relowner"""


def carry_over(conn: Connection, relations: Sequence[tuple[str, str]], successor: str) -> None:
    """Give relations of the same names in the schema ``successor`` the owners and grants of these (schema, name)."""
    asked = {
        "schemas": [schema for schema, _ in relations],
        "names": [name for _, name in relations],
        "successor": successor,
    }
    for name, kind, owner in conn.execute(_OWNERS, asked).fetchall():
        conn.execute(
            sql.SQL("ALTER {} {} OWNER TO {}").format(
                sql.SQL("VIEW" if kind == "v" else "TABLE"), sql.Identifier(successor, name), sql.Identifier(owner)
            )
        )
    roles = {oid: sql.Identifier(name) for oid, name in conn.execute("SELECT oid, rolname FROM pg_roles").fetchall()}
    alike: dict[tuple[str, str | None, int, bool], list[str]] = defaultdict(list)
    for name, column, privilege, grantee, is_grantable in conn.execute(_GRANTS, asked).fetchall():
        alike[privilege, column, grantee, is_grantable].append(name)
    for (privilege, column, grantee, is_grantable), names in alike.items():
        for together in _parts(names):
            conn.execute(
                sql.SQL("GRANT {}{} ON {} TO {}{}").format(
                    sql.SQL(privilege),
                    sql.SQL("" if column is None else " ({})").format(
                        *([] if column is None else [sql.Identifier(column)])
                    ),
                    sql.SQL(", ").join(sql.Identifier(successor, name) for name in together),
                    roles.get(grantee, sql.SQL("PUBLIC")),
                    sql.SQL(" WITH GRANT OPTION" if is_grantable else ""),
                )
            )


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _TOGETHER] for start in range(0, len(names), _TOGETHER))
