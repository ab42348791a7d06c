"""Owners, grants, triggers and row policies of tables and views, carried over to others that take their place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.guard import TRIGGER
from commitlog.catalog.together import in_parts

_RELATIONS = sql.SQL("""
    SELECT c.oid, c.relname, w.place, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity
    FROM pg_class c JOIN unnest(%(schemas)s::text[], %(names)s::text[]) AS w(place, name)
        ON c.relnamespace = to_regnamespace(quote_ident(w.place)) AND c.relname = w.name
    WHERE EXISTS (SELECT 1 FROM pg_class n WHERE n.relnamespace = %(successor)s::regnamespace AND n.relname = c.relname)""")
_OWNERS = sql.SQL("""
    SELECT n.relname, n.relkind::text, o.rolname FROM ({relations}) w
    JOIN pg_class n ON n.relnamespace = %(successor)s::regnamespace AND n.relname = w.relname AND n.relowner <> w.relowner
    JOIN pg_roles o ON o.oid = w.relowner AND pg_has_role(o.oid, %(membership)s)""").format(relations=_RELATIONS)
# Of tables and views as a whole, and of single columns; the owner's own are the owner's anyway.
_GRANTS = sql.SQL("""
    WITH wanted AS ({relations})
    SELECT relname, NULL AS attname, privilege_type, grantee, is_grantable
    FROM wanted, aclexplode(relacl) WHERE grantee <> relowner
    UNION ALL
    SELECT relname, attname, privilege_type, grantee, is_grantable
    FROM wanted JOIN pg_attribute a ON a.attrelid = wanted.oid AND NOT a.attisdropped, aclexplode(attacl)
    WHERE grantee <> relowner""").format(relations=_RELATIONS)
_ON_RELATIONS = sql.SQL("""
    WITH wanted AS ({relations}),
    policies AS (
        SELECT w.oid, format('CREATE POLICY %%I ON %%I.%%I AS %%s FOR %%s TO %%s', policyname, place, relname, permissive, cmd,
                (SELECT string_agg(CASE role WHEN 'public' THEN 'PUBLIC' ELSE quote_ident(role) END, ', ')
                 FROM unnest(roles) role))
            || coalesce(' USING (' || qual || ')', '') || coalesce(' WITH CHECK (' || with_check || ')', '') AS statement
        FROM wanted w JOIN pg_policies p ON p.schemaname = w.place AND p.tablename = w.relname)
    SELECT 1, statement FROM policies
    UNION ALL SELECT 2, format('ALTER TABLE %%I.%%I ENABLE ROW LEVEL SECURITY', place, relname) FROM wanted WHERE relrowsecurity
    UNION ALL
    SELECT 3, format('ALTER TABLE %%I.%%I FORCE ROW LEVEL SECURITY', place, relname) FROM wanted WHERE relforcerowsecurity
    UNION ALL
    SELECT 4, pg_get_triggerdef(t.oid) FROM wanted w JOIN pg_trigger t ON t.tgrelid = w.oid
    WHERE NOT t.tgisinternal AND t.tgname <> %(ours)s
    UNION ALL
    SELECT 5, format('ALTER TABLE %%I.%%I %%s TRIGGER %%I', place, relname,
        CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname)
    FROM wanted w JOIN pg_trigger t ON t.tgrelid = w.oid
    WHERE NOT t.tgisinternal AND t.tgname <> %(ours)s AND t.tgenabled <> 'O' ORDER BY 1, 2""").format(
    relations=_RELATIONS
)

_SET_OWNER = sql.SQL("ALTER {} {} OWNER TO {}")
_GRANT = sql.SQL("GRANT {}{} ON {} TO {}{}")


def made_on(conn: Connection, relations: Sequence[tuple[str, str]], successor: str) -> list[sql.SQL]:
    """The statements, in PostgreSQL's own words, that make users' triggers and row policies on these (schema, name) anew.

    They are for when the relations of the schema ``successor`` have taken their places."""
    asked = {**_asked(relations, successor), "ours": TRIGGER}
    return [sql.SQL(statement) for _, statement in conn.execute(_ON_RELATIONS, asked).fetchall()]


def _asked(relations: Sequence[tuple[str, str]], successor: str) -> dict[str, object]:
    return {
        "schemas": [schema for schema, _ in relations],
        "names": [name for _, name in relations],
        "successor": successor,
    }


def carry_over(conn: Connection, relations: Sequence[tuple[str, str]], successor: str) -> None:
    """Give the relations of the same names in the schema ``successor`` the grants of these (schema, name).

    Their owners too, as far as this session may."""
    asked = _asked(relations, successor)
    # Since PostgreSQL 16 a member need not be allowed to act as the role: whoever created it and is no superuser is not.
    asked["membership"] = "SET" if conn.info.server_version >= 160000 else "MEMBER"
    for name, kind, owner in conn.execute(_OWNERS, asked).fetchall():
        conn.execute(
            _SET_OWNER.format(
                sql.SQL("VIEW" if kind == "v" else "TABLE"), sql.Identifier(successor, name), sql.Identifier(owner)
            )
        )
    roles = {oid: sql.Identifier(name) for oid, name in conn.execute("SELECT oid, rolname FROM pg_roles").fetchall()}
    alike: dict[tuple[str, str | None, int, bool], list[str]] = defaultdict(list)
    for name, column, privilege, grantee, is_grantable in conn.execute(_GRANTS, asked).fetchall():
        alike[privilege, column, grantee, is_grantable].append(name)
    for (privilege, column, grantee, is_grantable), names in alike.items():
        for together in in_parts(names):
            conn.execute(
                _GRANT.format(
                    sql.SQL(privilege),
                    sql.SQL("" if column is None else " ({})").format(
                        *([] if column is None else [sql.Identifier(column)])
                    ),
                    sql.SQL(", ").join(sql.Identifier(successor, name) for name in together),
                    roles.get(grantee, sql.SQL("PUBLIC")),
                    sql.SQL(" WITH GRANT OPTION" if is_grantable else ""),
                )
            )
