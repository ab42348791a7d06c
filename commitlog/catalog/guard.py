"""Who may write the catalog: the projector alone.

A trigger on every table of the catalog refuses what others write, with a message that says what to do instead; it runs once
per statement or COPY, so the projector pays nothing per row, and in every session, also where replication's role is set.
It asks two things. Who writes is the table's or the catalog's owner or a member of ``commitlog_projector``: that is the key,
which nobody can give himself, whatever else was granted to him. And the session has said that it is a projector's, which is no
key but keeps accidents out: a stock client that was given the projector's password is refused too.

Three roles without login are for others to be members of: ``commitlog_reader`` sees everything, also tables that are made
later; ``commitlog_writer`` sees the same, and the gateway proposes what its members commit; ``commitlog_projector`` may run a
projector. Where this session may not create roles, somebody else has to. What is
made later is opened when it is made; default privileges are set in the schema of our own tables alone, for other schemas
may hold what is not ours.
"""

from __future__ import annotations

import logging
from typing import LiteralString

from psycopg import errors, sql

from commitlog.catalog.agreed_snapshots import QUERY_SNAPSHOTS_TABLE
from commitlog.catalog.connecting import Connection, check_keeps_session, current_schema
from commitlog.catalog.tables import DUCKLAKE_COLUMNS, OWN, OWN_SCHEMA

READER_ROLE = "commitlog_reader"
WRITER_ROLE = "commitlog_writer"
PROJECTOR_ROLE = "commitlog_projector"
_SETTING = "commitlog.projector"
TRIGGER = "commitlog_guard"
ONE_AT_A_TIME: LiteralString = "SELECT pg_advisory_xact_lock(hashtext('commitlog.catalog'))"
"""Whoever makes or changes tables of the catalog waits for others who do, until the end of the SQL transaction."""
_TIME_LIMITS = [
    "statement_timeout",
    "lock_timeout",
    "transaction_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
]
# What the owner of the tables can grant: a membership would take a superuser, where somebody else has made the roles.
_PRIVILEGES = {
    READER_ROLE: "SELECT",
    WRITER_ROLE: "SELECT",
    PROJECTOR_ROLE: "SELECT, INSERT, UPDATE, DELETE, TRUNCATE",
}
ROLES = tuple(_PRIVILEGES)
_SCHEMA_PRIVILEGES = {READER_ROLE: "USAGE", WRITER_ROLE: "USAGE", PROJECTOR_ROLE: "USAGE, CREATE"}

# BEFORE (2) for each statement, INSERT (4), DELETE (8), UPDATE (16), TRUNCATE (32).
_TRIGGER_TYPE = 62

_logger = logging.getLogger("commitlog.projector")

REFUSAL = "this DuckLake is written by commitlog: nothing was committed. "
INSTEAD = {
    "change": "Propose the change: `commitlog submit`, CommitLog.transaction() in Python, or commitlog.spark. "
    "Reading works as ever: attach with READ_ONLY",
    "expire": "Propose EXPIRE_SNAPSHOTS: `commitlog submit`, or commitlog.spark.expire",
    "clean": "Files that nobody needs are removed by `commitlog clean`",
    "option": "Options of a stock client are not kept here; a table's properties are set by ALTER_TABLE, settings of the "
    "log by CONFIGURE (`commitlog submit`)",
}

# A stock client tries again, up to ten times, after an error that speaks of a conflict or of uniqueness: this must not.
_REFUSE: LiteralString = """
    BEGIN
        IF current_setting({setting}, true) IS DISTINCT FROM 'on' AND TG_TABLE_NAME <> {agreed} THEN
            RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = {refusal} || CASE
                WHEN TG_TABLE_NAME = 'ducklake_metadata' THEN {option}
                WHEN TG_TABLE_NAME = 'ducklake_files_scheduled_for_deletion' AND TG_OP = 'DELETE' THEN {clean}
                WHEN TG_TABLE_NAME LIKE 'ducklake_snapshot%' AND TG_OP = 'DELETE' THEN {expire}
                ELSE {change} END;
        END IF;
        IF NOT (SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = TG_RELID)
           AND NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = {own} AND pg_has_role(current_user, nspowner, 'USAGE'))
           AND NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = {role} AND pg_has_role(current_user, oid, 'USAGE')) THEN
            RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
                MESSAGE = {refusal} || format({stranger}, current_user);
        END IF;
        RETURN NULL;
    END """
_REFUSING = (
    sql.SQL(_REFUSE)
    .format(
        setting=sql.Literal(_SETTING),
        agreed=sql.Literal(QUERY_SNAPSHOTS_TABLE),
        own=sql.Literal(OWN_SCHEMA),
        role=sql.Literal(PROJECTOR_ROLE),
        refusal=sql.Literal(REFUSAL),
        stranger=sql.Literal(f"%I is no member of {PROJECTOR_ROLE}, which only the catalog's projectors are"),
        **{name: sql.Literal(text) for name, text in INSTEAD.items()},
    )
    .as_string()
)
# Whoever writes chooses where names are looked up, and could have a table of roles of his own.
_PATH: LiteralString = "pg_catalog, pg_temp"
_FUNCTION = sql.SQL(
    "CREATE OR REPLACE FUNCTION commitlog.refuse_foreign_commit() RETURNS trigger LANGUAGE plpgsql SET search_path = {} AS {}"
).format(sql.SQL(_PATH), sql.Literal(_REFUSING))

_GUARD = sql.SQL("""
    CREATE OR REPLACE TRIGGER {trigger} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT
    EXECUTE FUNCTION commitlog.refuse_foreign_commit(); ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}""")
_OPEN = sql.SQL("""
    DO $$ BEGIN IF to_regrole({name}) IS NOT NULL THEN GRANT {privileges} ON {table} TO {role}; END IF; END $$""")
# The catalog's owner is whoever owns the schema of our own tables; a member of a role may make tables beside his.
_OPEN_TO_OWNER = sql.SQL("""
    DO $$ DECLARE owner regrole := (SELECT nspowner FROM pg_namespace WHERE nspname = {own}); BEGIN
    IF owner <> quote_ident(current_user)::regrole THEN
        EXECUTE format('GRANT {privileges} ON %I TO %s', {name}, owner);
    END IF; END $$""")
_CATALOGS_TABLES = sql.SQL("""
    SELECT c.oid, c.relname, c.oid::regclass::text AS name FROM pg_class c WHERE c.relkind = 'r' AND (
        c.relnamespace = quote_ident(current_schema())::regnamespace
            AND (c.relname = ANY(%(ducklake)s) OR c.relname ~ '^ducklake_inlined_(data|delete)_[0-9_]+$')
        OR c.relnamespace = to_regnamespace('commitlog') AND c.relname = ANY(%(own)s))""")
_UNGUARDED = sql.SQL("""
    SELECT c.name FROM ({tables}) c WHERE NOT EXISTS (
        SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND t.tgname = %(trigger)s AND t.tgtype = %(type)s AND t.tgenabled = 'A'
        AND p.oid = to_regproc('commitlog.refuse_foreign_commit') AND p.prosrc = %(source)s
        AND p.proconfig = ARRAY[%(path)s]) ORDER BY 1""").format(tables=_CATALOGS_TABLES)
_ROLES_THERE = sql.SQL("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)")
_CLOSED = sql.SQL("""
    SELECT c.oid::regclass::text, pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c
    WHERE c.relnamespace IN (quote_ident(current_schema())::regnamespace, 'commitlog'::regnamespace)
    AND c.relkind IN ('r', 'v') AND (c.relname LIKE 'ducklake%%' OR c.relnamespace = 'commitlog'::regnamespace)
    AND NOT (has_schema_privilege(%(role)s, c.relnamespace, 'USAGE')
             AND (SELECT bool_and(has_table_privilege(%(role)s, c.oid, p)) FROM unnest(%(privileges)s::text[]) p))
    ORDER BY 1""")
_OWNER = sql.SQL("SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %s")
_MAY_CREATE_ROLES = sql.SQL("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user")
_GRANT_LATER_TABLES = sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA commitlog GRANT {} ON TABLES TO {}")
_GRANT_SCHEMAS = sql.SQL("GRANT {} ON SCHEMA {} TO {}")
_MEMBERSHIP = sql.SQL("GRANT {} TO {}")
_GRANT_TABLES = sql.SQL("GRANT {} ON {} TO {}")
_OPENS_LATER_TABLES = """
    SELECT EXISTS (SELECT FROM pg_default_acl d, aclexplode(d.defaclacl) a
        WHERE d.defaclobjtype = 'r' AND d.defaclnamespace = 'commitlog'::regnamespace
        AND d.defaclrole = quote_ident(current_user)::regrole AND a.grantee = to_regrole(%s))"""


def mark_projector(conn: Connection) -> None:
    """Let this session write the catalog, without time limits: those that an installation sets are meant for people's sessions,
    and a batch that runs into one would be tried again for ever.

    Raises:
        ConfigurationError: a pooler would give others the session.
    """
    check_keeps_session(conn)
    conn.execute("SELECT set_config(%s, 'on', false)", (_SETTING,))
    conn.execute("SELECT set_config(name, '0', false) FROM pg_settings WHERE name = ANY(%s)", (_TIME_LIMITS,))
    conn.commit()


def install_guard(conn: Connection) -> None:
    """Install the triggers and the roles where they are missing, for the connection's schema; in the caller's transaction.

    Raises:
        psycopg.errors.InsufficientPrivilege: something is missing and this session may not install it.
    """
    conn.execute(ONE_AT_A_TIME)
    if unguarded_tables(conn):
        conn.execute(_FUNCTION)
        # Where the function alone was another, nothing is asked of tables that somebody else has made.
        for table in unguarded_tables(conn):
            conn.execute(_guarding(sql.SQL(table)))
    for role in missing_roles(conn):
        _create_role(conn, role)
    for role in _PRIVILEGES.keys() - set(missing_roles(conn)):
        _grant(conn, role)
    owner = _owner(conn)
    _grant_tables(conn, owner, _closed_here(conn, owner))


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
    if _closed_here(conn, _owner(conn)):
        return False
    return all(_opens_later_tables(conn, role) and not _closed_tables(conn, role) for role in _PRIVILEGES)


def guard_statement(table: str) -> sql.Composed:
    """The statements that guard a new table against stock clients, and open it to our roles where there are any."""
    opened = [
        _OPEN.format(
            name=sql.Literal(role),
            privileges=sql.SQL(privileges),
            table=sql.Identifier(table),
            role=sql.Identifier(role),
        )
        for role, privileges in _PRIVILEGES.items()
    ]
    to_owner = _OPEN_TO_OWNER.format(
        own=sql.Literal(OWN_SCHEMA), privileges=sql.SQL(_PRIVILEGES[PROJECTOR_ROLE]), name=sql.Literal(table)
    )
    return sql.SQL(";").join([_guarding(sql.Identifier(table)), *opened, to_owner])


def _guarding(table: sql.Composable) -> sql.Composed:
    return _GUARD.format(trigger=sql.Identifier(TRIGGER), table=table)


def unguarded_tables(conn: Connection) -> list[str]:
    """Tables of the catalog that others could write, each as a statement names it."""
    asked = {
        "ducklake": [f"ducklake_{name}" for name in DUCKLAKE_COLUMNS],
        "own": [*(table.name for table in OWN.sorted_tables), QUERY_SNAPSHOTS_TABLE],
        "trigger": TRIGGER,
        "type": _TRIGGER_TYPE,
        "source": _REFUSING,
        "path": f"search_path={_PATH}",
    }
    return [name for (name,) in conn.execute(_UNGUARDED, asked).fetchall()]


def _opens_later_tables(conn: Connection, role: str) -> bool:
    """Whether a role may use what this session's user makes later among our own tables."""
    return conn.execute(_OPENS_LATER_TABLES, (role,)).fetchone() == (True,)


def membership(login: str, role: str) -> str:
    """The statement that makes a login a member of one of our roles."""
    return _MEMBERSHIP.format(sql.Identifier(role), sql.Identifier(login)).as_string()


def missing_roles(conn: Connection) -> list[str]:
    """Those of our roles that the server does not have."""
    rows = conn.execute(_ROLES_THERE, (list(ROLES),)).fetchall()
    return sorted(set(ROLES) - {name for (name,) in rows})


def closed_tables(conn: Connection, role: str) -> list[str]:
    """Tables and views of the catalog that an existing role may not use as it should, each as a statement names it."""
    return [name for name, _ in _closed_tables(conn, role)]


def _closed_tables(conn: Connection, role: str) -> list[tuple[str, bool]]:
    """... and whether this session may open it."""
    rows = conn.execute(_CLOSED, {"role": role, "privileges": _privileges(role).split(", ")}).fetchall()
    return [(name, mine) for name, mine in rows]


def _closed_here(conn: Connection, role: str) -> list[str]:
    """Those that this session may open."""
    return [table for table, mine in _closed_tables(conn, role) if mine]


def _owner(conn: Connection) -> str:
    """The catalog's: whoever owns the schema of our own tables."""
    [(owner,)] = conn.execute(_OWNER, (OWN_SCHEMA,)).fetchall()
    return str(owner)


def _privileges(role: str) -> LiteralString:
    """What one of our roles may on the tables, or the catalog's owner, who may be the projector."""
    return _PRIVILEGES.get(role, _PRIVILEGES[PROJECTOR_ROLE])


def _create_role(conn: Connection, role: str) -> None:
    if conn.execute(_MAY_CREATE_ROLES).fetchone() != (True,):
        return
    try:
        with conn.transaction():
            conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
    except (errors.DuplicateObject, errors.UniqueViolation):
        pass  # Roles belong to the server: another database's catalog was quicker.


def _grant(conn: Connection, role: str) -> None:
    """Give a role its privileges: on what is there and lacks them, and on what this session's user makes later."""
    schemas = sql.SQL(", ").join(map(sql.Identifier, dict.fromkeys([current_schema(conn), OWN_SCHEMA])))
    name = sql.Identifier(role)
    if not _opens_later_tables(conn, role):
        conn.execute(_GRANT_LATER_TABLES.format(sql.SQL(_privileges(role)), name))
    closed = _closed_here(conn, role)
    if closed:
        conn.execute(_GRANT_SCHEMAS.format(sql.SQL(_SCHEMA_PRIVILEGES[role]), schemas, name))
        _grant_tables(conn, role, closed)


def _grant_tables(conn: Connection, role: str, tables: list[str]) -> None:
    if tables:
        on = sql.SQL(", ").join(map(sql.SQL, tables))
        conn.execute(_GRANT_TABLES.format(sql.SQL(_privileges(role)), on, sql.Identifier(role)))
