"""Who may write the catalog: the projector alone.

A trigger on every DuckLake table refuses what a stock client writes, with a message that says what to do instead; it runs
once per statement or COPY, so the projector pays nothing per row. The projector's sessions are known by a setting, not by
their role: a stock client that was given the projector's password is refused too.

Two roles without login are for others to be members of: ``commitlog_reader`` sees everything, also tables that are made
later; ``commitlog_projector`` may run a projector. Where this session may not create roles, somebody else has to.
"""

from __future__ import annotations

import logging

from psycopg import errors, sql

from commitlog.catalog.tables import DUCKLAKE_COLUMNS
from commitlog.catalog.writing import Connection

READER_ROLE = "commitlog_reader"
PROJECTOR_ROLE = "commitlog_projector"
_SETTING = "commitlog.projector"
TRIGGER = "commitlog_guard"
_PRIVILEGES = {READER_ROLE: "SELECT", PROJECTOR_ROLE: "SELECT, INSERT, UPDATE, DELETE, TRUNCATE"}
_SCHEMA_PRIVILEGES = {READER_ROLE: "USAGE", PROJECTOR_ROLE: "USAGE, CREATE"}

# BEFORE (2) for each statement, INSERT (4), DELETE (8), UPDATE (16), TRUNCATE (32).
_TRIGGER_TYPE = 62

_logger = logging.getLogger("commitlog.projector")

REFUSAL = "this DuckLake is written by commitlog: nothing was committed. "
_INSTEAD = {
    "change": "Propose the change: `commitlog submit`, CommitLog.transaction() in Python, or commitlog.spark. "
    "Reading works as ever: attach with READ_ONLY",
    "expire": "Propose EXPIRE_SNAPSHOTS: `commitlog submit`, or commitlog.spark.expire",
    "clean": "Files that nobody needs are removed by `commitlog clean`",
    "option": "Options of a stock client are not kept here; a table's properties are set by ALTER_TABLE, settings of the "
    "log by CONFIGURE (`commitlog submit`)",
}

# A stock client tries again, up to ten times, after an error that speaks of a conflict or of uniqueness: this must not.
_FUNCTION = sql.SQL(
    """CREATE OR REPLACE FUNCTION commitlog.refuse_foreign_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting({setting}, true) IS DISTINCT FROM 'on' THEN
            RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = {refusal} || CASE
                WHEN TG_TABLE_NAME = 'ducklake_metadata' THEN {option}
                WHEN TG_TABLE_NAME = 'ducklake_files_scheduled_for_deletion' AND TG_OP = 'DELETE' THEN {clean}
                WHEN TG_TABLE_NAME LIKE 'ducklake_snapshot%' AND TG_OP = 'DELETE' THEN {expire}
                ELSE {change} END;
        END IF;
        RETURN NULL;
    END $$"""
).format(
    setting=sql.Literal(_SETTING),
    refusal=sql.Literal(REFUSAL),
    **{name: sql.Literal(text) for name, text in _INSTEAD.items()},
)

_GUARD = sql.SQL("""
    CREATE OR REPLACE TRIGGER {trigger} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT
    EXECUTE FUNCTION commitlog.refuse_foreign_commit(); ALTER TABLE {table} ENABLE TRIGGER {trigger}""")
_UNGUARDED = sql.SQL("""
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    AND (c.relname = ANY(%s) OR c.relname ~ '^ducklake_inlined_(data|delete)_[0-9_]+$')
    AND NOT EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = %s AND t.tgtype = %s
                    AND t.tgenabled IN ('O', 'A')
                    AND t.tgfoid = to_regproc('commitlog.refuse_foreign_commit')) ORDER BY 1""")
_ROLES_THERE = sql.SQL("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)")
_CLOSED = sql.SQL("""
    SELECT c.oid::regclass::text, pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c
    WHERE c.relnamespace IN (current_schema()::regnamespace, 'commitlog'::regnamespace)
    AND c.relkind IN ('r', 'v') AND (c.relname LIKE 'ducklake%%' OR c.relnamespace = 'commitlog'::regnamespace)
    AND NOT (has_schema_privilege(%(role)s, c.relnamespace, 'USAGE')
             AND (SELECT bool_and(has_table_privilege(%(role)s, c.oid, p)) FROM unnest(%(privileges)s::text[]) p))
    ORDER BY 1""")
_MAY_CREATE_ROLES = sql.SQL("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user")
_GRANT_LATER_TABLES = sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT {} ON TABLES TO {}")
_GRANT_SCHEMAS = sql.SQL("GRANT {} ON SCHEMA {} TO {}")
_GRANT_TABLES = sql.SQL("GRANT {} ON {} TO {}")
_HAS_DEFAULTS = sql.SQL("""
    SELECT count(DISTINCT d.defaclnamespace) = (SELECT count(DISTINCT n)
           FROM unnest(ARRAY[current_schema()::regnamespace, 'commitlog'::regnamespace]) n)
    FROM pg_default_acl d, aclexplode(d.defaclacl) a
    WHERE d.defaclrole = current_user::regrole AND d.defaclobjtype = 'r' AND a.grantee = %s::regrole
    AND d.defaclnamespace IN (current_schema()::regnamespace, 'commitlog'::regnamespace)""")


def mark_projector(conn: Connection) -> None:
    """Let this session write the catalog."""
    conn.execute("SELECT set_config(%s, 'on', false)", (_SETTING,))
    conn.commit()


def install_guard(conn: Connection) -> None:
    """Install the triggers and the roles where they are missing, for the connection's schema; in the caller's transaction.

    Raises:
        psycopg.errors.InsufficientPrivilege: something is missing and this session may not install it.
    """
    conn.execute("SELECT pg_advisory_xact_lock(hashtext('commitlog.catalog'))")
    unguarded = unguarded_tables(conn)
    if unguarded:
        conn.execute(_FUNCTION)
        for table in unguarded:
            conn.execute(guard_statement(table))
    for role in missing_roles(conn):
        _create_role(conn, role)
    for role in _PRIVILEGES.keys() - set(missing_roles(conn)):
        _grant(conn, role)


def ensure_guard(conn: Connection) -> None:
    """Install what is missing, in a SQL transaction of its own, as far as this session may; what it may not is logged."""
    try:
        with conn.transaction():
            if not _is_complete(conn):
                install_guard(conn)
    except errors.InsufficientPrivilege as error:
        _logger.warning(
            "the catalog's guard is not complete and this session may not complete it (%s); run `commitlog init` once as "
            "the owner of the catalog. `commitlog doctor` says what is missing",
            str(error).splitlines()[0],
        )


def _is_complete(conn: Connection) -> bool:
    """Whether there is nothing to install, so that nobody has to be waited for."""
    if unguarded_tables(conn) or missing_roles(conn):
        return False
    return all(_has_defaults(conn, role) and not _closed_tables(conn, role) for role in _PRIVILEGES)


def guard_statement(table: str) -> sql.Composed:
    """The statement that guards a table against stock clients."""
    return _GUARD.format(trigger=sql.Identifier(TRIGGER), table=sql.Identifier(table))


def unguarded_tables(conn: Connection) -> list[str]:
    """DuckLake tables of the connection's schema that a stock client could write."""
    rows = conn.execute(
        _UNGUARDED, ([f"ducklake_{name}" for name in DUCKLAKE_COLUMNS], TRIGGER, _TRIGGER_TYPE)
    ).fetchall()
    return [name for (name,) in rows]


def missing_roles(conn: Connection) -> list[str]:
    """Those of our roles that the server does not have."""
    rows = conn.execute(_ROLES_THERE, (list(_PRIVILEGES),)).fetchall()
    return sorted(_PRIVILEGES.keys() - {name for (name,) in rows})


def closed_tables(conn: Connection, role: str) -> list[str]:
    """Tables and views of the catalog that an existing role may not use as it should, each as a statement names it."""
    return [name for name, _ in _closed_tables(conn, role)]


def _closed_tables(conn: Connection, role: str) -> list[tuple[str, bool]]:
    """... and whether this session may open it."""
    rows = conn.execute(_CLOSED, {"role": role, "privileges": _PRIVILEGES[role].split(", ")}).fetchall()
    return [(name, mine) for name, mine in rows]


def _create_role(conn: Connection, role: str) -> None:
    may_create = conn.execute(_MAY_CREATE_ROLES).fetchone()
    if may_create is None or not may_create[0]:
        return
    try:
        with conn.transaction():
            conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
    except (errors.DuplicateObject, errors.UniqueViolation):
        pass  # Roles belong to the server: another database's catalog was quicker.


def _grant(conn: Connection, role: str) -> None:
    """Give a role its privileges: on what is there and lacks them, and on what this session's user makes later."""
    row = conn.execute("SELECT current_schema()").fetchone()
    assert row is not None
    schemas = sql.SQL(", ").join(map(sql.Identifier, dict.fromkeys([row[0], "commitlog"])))
    name, privileges = sql.Identifier(role), sql.SQL(_PRIVILEGES[role])
    if not _has_defaults(conn, role):
        conn.execute(_GRANT_LATER_TABLES.format(schemas, privileges, name))
    closed = [table for table, mine in _closed_tables(conn, role) if mine]
    if closed:
        on_schemas = sql.SQL(_SCHEMA_PRIVILEGES[role])
        conn.execute(_GRANT_SCHEMAS.format(on_schemas, schemas, name))
        on = sql.SQL(", ").join(map(sql.SQL, closed))
        conn.execute(_GRANT_TABLES.format(privileges, on, name))


def _has_defaults(conn: Connection, role: str) -> bool:
    """Whether the tables that this session's user makes from now on are open to a role."""
    row = conn.execute(_HAS_DEFAULTS, (role,)).fetchone()
    return row is not None and bool(row[0])
