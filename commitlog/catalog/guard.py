"""Who may write the catalog: the projector alone.

A trigger refuses the commit of a stock DuckLake client with a message that says where to propose instead. The projector's
sessions are known by a setting, which costs nothing per row: the trigger runs once per INSERT statement or COPY.
"""

from __future__ import annotations

from psycopg import sql

from commitlog.catalog.writing import Connection

READER_ROLE = "commitlog_reader"
_SETTING = "commitlog.projector"

_REFUSAL = (
    "this DuckLake is written by commitlog: nothing was committed. Propose the change instead (commitlog submit, the "
    "Python client, or Spark); reading works as ever"
)


def mark_projector(conn: Connection) -> None:
    """Let this session write the catalog."""
    conn.execute(f"SET {_SETTING} = 'on'".encode())
    conn.commit()


def install_guard(conn: Connection) -> None:
    """Install the trigger, and the read-only role for readers; in the caller's SQL transaction, again and again."""
    conn.execute(
        sql.SQL(
            """CREATE OR REPLACE FUNCTION commitlog.refuse_foreign_commit() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF current_setting('commitlog.projector', true) IS DISTINCT FROM 'on' THEN
                    RAISE EXCEPTION {} USING ERRCODE = 'insufficient_privilege';
                END IF;
                RETURN NULL;
            END $$"""
        ).format(sql.Literal(_REFUSAL))
    )
    for table in ("ducklake_snapshot", "ducklake_snapshot_changes", "ducklake_metadata", "ducklake_data_file"):
        conn.execute(
            f"""CREATE OR REPLACE TRIGGER commitlog_guard BEFORE INSERT OR UPDATE OR DELETE ON {table}
                FOR EACH STATEMENT EXECUTE FUNCTION commitlog.refuse_foreign_commit()""".encode()
        )
    _install_reader(conn)


def _install_reader(conn: Connection) -> None:
    exists = conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (READER_ROLE,)).fetchone()
    may_create = conn.execute("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if exists is None and may_create is not None and may_create[0]:
        conn.execute("SELECT pg_advisory_xact_lock(hashtext('commitlog.roles'))")
        if conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (READER_ROLE,)).fetchone() is None:
            conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(READER_ROLE)))
        exists = (1,)
    if exists is None:
        return
    role = sql.Identifier(READER_ROLE)
    for text in (
        "GRANT USAGE ON SCHEMA public, commitlog TO {}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public, commitlog TO {}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public, commitlog GRANT SELECT ON TABLES TO {}",
    ):
        conn.execute(sql.SQL(text).format(role))
