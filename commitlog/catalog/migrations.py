"""Making a catalog, and bringing an older one up to this version.

A migration has two steps: ``pre`` may run while the older service still does, ``post`` when it has ended. All the pre steps
come before the first post step, also over several versions. Every step is one SQL transaction that also writes how far it
is, so a migration that dies can simply be started again.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql
from sqlalchemy import MetaData, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from commitlog.catalog.agreed_snapshots import QUERY_SNAPSHOTS
from commitlog.catalog.connecting import Connection, wait_for_database
from commitlog.catalog.folders import object_uuid
from commitlog.catalog.guard import ONE_AT_A_TIME, install_guard
from commitlog.catalog.queries import Catalog
from commitlog.catalog.tables import DUCKLAKE, OWN, OWN_SCHEMA, READERS_INDEXES, ROWS_OUTSIDE_FILES, VIEWS
from commitlog.config import Settings, without_password
from commitlog.domain.model.ids import format_id
from commitlog.errors import CatalogMismatchError


class Migration(NamedTuple):
    """What leads to a version from the one before; ``{own}`` stands for the schema of our own tables."""

    pre: LiteralString = ""
    post: LiteralString = ""


MIGRATIONS: dict[int, Migration] = {}
"""By the version that each leads to. `catalog.tables` has the newest form; the first release's is version 1."""
VERSION = max(MIGRATIONS, default=1)

_THIS_VERSION = sql.SQL("INSERT INTO {own}.catalog_version VALUES (1, %s, %s)")
_NO_SETTINGS = sql.SQL("INSERT INTO {own}.log_settings VALUES (1, '{{}}')")
_VERSION = sql.SQL("SELECT version, prepared FROM {own}.catalog_version")
_SET_VERSION = sql.SQL("UPDATE {own}.catalog_version SET {column} = %s")
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def catalog_exists(conn: Connection, *, own: str = OWN_SCHEMA) -> bool:
    """Whether this database holds one of our catalogs."""
    return conn.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{own}.catalog_version",)).fetchone() == (True,)


def check_database(settings: Settings, log_id: bytes | None, *, timeout_s: float) -> bool:
    """See that the database holds no other log's catalog; whether it holds this one's.

    log_id: None of a log that is not there yet.

    Raises:
        CatalogMismatchError: it holds another log's.
        CatalogUnavailableError: PostgreSQL does not answer in time.
    """
    wait_for_database(settings, timeout_s)
    with closing(Catalog(settings.database_url)) as catalog:
        found = catalog.exists()
        applied = catalog.applied() if found else None
    if applied is not None and applied.log_id != log_id:
        raise CatalogMismatchError(
            f"the database at {without_password(settings.database_url)} holds the catalog of another log, "
            f"{format_id(applied.log_id)}, and each log needs its own: give log {settings.log} an empty database "
            "(COMMITLOG_DATABASE_URL) or, with `commitlog up`, a home of its own (--home)"
        )
    return found


def create_catalog(
    conn: Connection, *, log_id: bytes, data_path: str, created_at: datetime, own: str = OWN_SCHEMA
) -> bool:
    """Create every table and the rows of an empty lake, in the caller's SQL transaction; False, and nothing, if it exists.

    data_path: where the lake's files are; ends with a slash. own: the schema of our own tables; DuckLake's are made where
    the connection's search path says. In another schema than usual nobody reads them yet: what only readers look up by is
    missing there until `ensure_readers_indexes`. Raises CatalogMismatchError when another DuckLake catalog is in the way, or
    the database cannot keep all texts.
    """
    conn.execute(ONE_AT_A_TIME)
    if catalog_exists(conn, own=own):
        return False
    if conn.execute("SELECT to_regclass('ducklake_snapshot') IS NOT NULL").fetchone() == (True,):
        raise CatalogMismatchError(
            "this database already holds a DuckLake catalog that commitlog did not make: use an empty database"
        )
    [encoding] = conn.execute("SHOW server_encoding").fetchone() or [""]
    if encoding != "UTF8":
        raise CatalogMismatchError(
            f"this database keeps texts as {encoding}, which lacks some that a log may hold: use one that is made by "
            "`CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0`"
        )
    for schema in dict.fromkeys((OWN_SCHEMA, own)):
        conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    left_out = frozenset() if own == OWN_SCHEMA else READERS_INDEXES
    for table in _tables(own):
        conn.execute(_ddl(CreateTable(table)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.name not in left_out:
                conn.execute(_ddl(CreateIndex(index)))
    conn.execute(ROWS_OUTSIDE_FILES)
    conn.execute(QUERY_SNAPSHOTS)
    ours = sql.Identifier(own)
    for name, text in VIEWS.items():
        query = sql.SQL(text).format(own=ours)
        conn.execute(sql.SQL("CREATE VIEW {} AS {}").format(sql.Identifier(own, name), query))
    _first_rows(conn, log_id, data_path, created_at)
    conn.execute(_THIS_VERSION.format(own=ours), (VERSION, VERSION))
    conn.execute(_NO_SETTINGS.format(own=ours))
    install_guard(conn)
    return True


def ensure_readers_indexes(conn: Connection, *, own: str) -> None:
    """Create what readers look up by and is missing; one that is there stays."""
    for table in _tables(own):
        for index in table.indexes:
            if index.name in READERS_INDEXES:
                conn.execute(_ddl(CreateIndex(index, if_not_exists=True)))


def _tables(own: str) -> list[Table]:
    made_here = MetaData()
    return [*DUCKLAKE.sorted_tables, *(table.to_metadata(made_here, schema=own) for table in OWN.sorted_tables)]


def _ddl(element: CreateTable | CreateIndex) -> sql.SQL:
    return sql.SQL(str(element.compile(dialect=_DIALECT)))


def _first_rows(conn: Connection, log_id: bytes, data_path: str, created_at: datetime) -> None:
    path = data_path if data_path.endswith("/") else data_path + "/"
    metadata = {
        "version": "1.0",
        "created_by": "commitlog",
        "data_path": path,
        "encrypted": "false",
        # Of clients that write through the gateway: small commits are files, too.
        "data_inlining_row_limit": "0",
    }
    for key, value in metadata.items():
        conn.execute("INSERT INTO ducklake_metadata VALUES (%s, %s, NULL, NULL)", (key, value))
    conn.execute("INSERT INTO ducklake_snapshot VALUES (0, %s, 0, 1, 0)", (created_at,))
    conn.execute("""INSERT INTO ducklake_snapshot_changes VALUES (0, 'created_schema:"main"', NULL, NULL, NULL)""")
    main = object_uuid(log_id, "schema", 0)
    conn.execute("INSERT INTO ducklake_schema VALUES (0, %s, 0, NULL, 'main', 'main/', true)", (main,))


def migrate(conn: Connection, *, only_pre: bool = False, own: str = OWN_SCHEMA) -> list[str]:
    """Bring a catalog up to this version; return the steps that were taken, none where there is no catalog.

    only_pre: no more than what an older service that still runs does not notice.

    Raises:
        CatalogMismatchError: a newer commitlog made the catalog, or this user may not change it.
    """
    with conn.transaction():
        _check_known(conn, own)
    steps = [(version, "pre", migration.pre) for version, migration in sorted(MIGRATIONS.items())]
    if not only_pre:
        steps += [(version, "post", migration.post) for version, migration in sorted(MIGRATIONS.items())]
    return [f"{version} {step}" for version, step, text in steps if _migrate(conn, version, step, text, own)]


def _migrate(conn: Connection, version: int, step: str, text: LiteralString, own: str) -> bool:
    """Take one step, unless it was taken before."""
    try:
        with conn.transaction():
            if not _is_due(conn, version, step, own):
                return False
            conn.execute(ONE_AT_A_TIME)
            if not _is_due(conn, version, step, own):
                return False
            if text:
                conn.execute(sql.SQL(text).format(own=sql.Identifier(own)))
            column = sql.Identifier("prepared" if step == "pre" else "version")
            conn.execute(_SET_VERSION.format(own=sql.Identifier(own), column=column), (version,))
    except psycopg.errors.InsufficientPrivilege as error:
        raise CatalogMismatchError(
            f"the catalog has to be brought to version {VERSION}, and this user may not do it ({str(error).strip()}): "
            "run `commitlog catalog migrate` as the owner of its tables"
        ) from error
    return True


def _is_due(conn: Connection, version: int, step: str, own: str) -> bool:
    found = _versions(conn, own)
    return found is not None and found[1 if step == "pre" else 0] < version


def _check_known(conn: Connection, own: str) -> None:
    found = _versions(conn, own)
    if found is not None and found[0] > VERSION:
        raise CatalogMismatchError(
            f"the catalog has version {found[0]}, this commitlog knows {VERSION}: update commitlog"
        )


def _versions(conn: Connection, own: str) -> tuple[int, int] | None:
    """The version that the catalog has, and the one that it is prepared for; None where there is no catalog."""
    if not catalog_exists(conn, own=own):
        return None
    row = conn.execute(_VERSION.format(own=sql.Identifier(own))).fetchone()
    if row is None:
        raise not_whole("catalog_version")
    return row[0], row[1]


def not_whole(table: str) -> CatalogMismatchError:
    """What is said of a catalog whose tables are there, but not the one row of this one."""
    return CatalogMismatchError(
        f"the catalog in this database is not whole: its table {table} is empty, as while a backup is restored, or when that "
        "was not done to its end. Let it end, or give an empty database, which a projector fills from the log"
    )
