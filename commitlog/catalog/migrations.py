"""Making a catalog, and bringing an older one up to this version.

Every step is one SQL transaction that also writes the version, so a migration that dies can simply be started again.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid5

import psycopg
from psycopg import sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from commitlog.catalog.guard import install_guard
from commitlog.catalog.tables import DUCKLAKE, OWN, ROWS_OUTSIDE_FILES, VIEWS
from commitlog.errors import CatalogMismatchError

VERSION = 1
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def object_uuid(log_id: bytes, kind: str, object_id: int) -> UUID:
    """The uuid of a schema, table or view: made of the log and the id, so that a rebuilt catalog has the same."""
    return uuid5(UUID(bytes=log_id), f"{kind}/{object_id}")


def catalog_exists(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Whether this database holds one of our catalogs."""
    row = conn.execute("SELECT to_regclass('commitlog.catalog_version')").fetchone()
    return row is not None and row[0] is not None


def create_catalog(
    conn: psycopg.Connection[tuple[object, ...]], *, log_id: bytes, data_path: str, created_at: datetime
) -> None:
    """Create every table and the rows of an empty lake, in the caller's SQL transaction; nothing if it exists.

    data_path: where the lake's files are; ends with a slash. Raises CatalogMismatchError when another DuckLake catalog is
    in the way.
    """
    conn.execute("SELECT pg_advisory_xact_lock(hashtext('commitlog.catalog'))")
    if catalog_exists(conn):
        return
    row = conn.execute("SELECT to_regclass('ducklake_snapshot')").fetchone()
    if row is not None and row[0] is not None:
        raise CatalogMismatchError(
            "this database already holds a DuckLake catalog that commitlog did not make: use an empty database"
        )
    conn.execute("CREATE SCHEMA IF NOT EXISTS commitlog")
    for metadata in (DUCKLAKE, OWN):
        for table in metadata.sorted_tables:
            conn.execute(str(CreateTable(table).compile(dialect=_DIALECT)).encode())
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                conn.execute(str(CreateIndex(index).compile(dialect=_DIALECT)).encode())
    conn.execute(ROWS_OUTSIDE_FILES.encode())
    for name, text in VIEWS.items():
        conn.execute(sql.SQL("CREATE VIEW commitlog.{} AS ").format(sql.Identifier(name)) + sql.SQL(text))
    _first_rows(conn, log_id, data_path, created_at)
    install_guard(conn)


def _first_rows(
    conn: psycopg.Connection[tuple[object, ...]], log_id: bytes, data_path: str, created_at: datetime
) -> None:
    path = data_path if data_path.endswith("/") else data_path + "/"
    metadata = {"version": "1.0", "created_by": "commitlog", "data_path": path, "encrypted": "false"}
    for key, value in metadata.items():
        conn.execute("INSERT INTO ducklake_metadata VALUES (%s, %s, NULL, NULL)", (key, value))
    conn.execute("INSERT INTO ducklake_snapshot VALUES (0, %s, 0, 1, 0)", (created_at,))
    conn.execute("""INSERT INTO ducklake_snapshot_changes VALUES (0, 'created_schema:"main"', NULL, NULL, NULL)""")
    main = object_uuid(log_id, "schema", 0)
    conn.execute("INSERT INTO ducklake_schema VALUES (0, %s, 0, NULL, 'main', 'main/', true)", (main,))
    conn.execute("INSERT INTO commitlog.catalog_version VALUES (1, %s)", (VERSION,))


def check_version(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Raise CatalogMismatchError when the catalog was made by a newer commitlog."""
    row = conn.execute("SELECT version FROM commitlog.catalog_version").fetchone()
    found = row[0] if row else None
    if found != VERSION:
        raise CatalogMismatchError(f"the catalog has version {found}, this commitlog knows {VERSION}: update commitlog")
