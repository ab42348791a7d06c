"""Migrations: a catalog of the first version becomes what a fresh one is, whatever dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from catalog_shape import shape
from click.testing import CliRunner
from psycopg import sql

from commitlog.catalog import migrations
from commitlog.catalog.guard import install_guard, mark_projector
from commitlog.catalog.migrations import MIGRATIONS, VERSION, Migration, create_catalog, migrate, object_uuid
from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.errors import CatalogMismatchError
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.ops.cli import cli

VERSION_1 = Path(__file__).parent / "catalog-1.sql"
LOG_ID = bytes(range(16))
CREATED_AT = datetime(2024, 1, 1, tzinfo=UTC)


@contextmanager
def projector(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url) as conn:
        mark_projector(conn)
        yield conn


def make_version_1(url: str, data_path: str = "/lake/") -> None:
    """The catalog of an empty log as the first version made it."""
    rows = {
        "ducklake_snapshot": (0, CREATED_AT, 0, 1, 0),
        "ducklake_schema": (0, object_uuid(LOG_ID, "schema", 0), 0, None, "main", "main/", True),
        "ducklake_metadata": ("data_path", data_path, None, None),
        "commitlog.catalog_version": (1, 1),
        "commitlog.applied": (1, UUID(bytes=LOG_ID), 0, 0, b"", 0, CREATED_AT),
    }
    with projector(url) as conn:
        conn.execute(VERSION_1.read_bytes())
        for table, row in rows.items():
            values = sql.SQL(", ").join(sql.Placeholder() * len(row))
            conn.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(*table.split(".")), values), row)


def versions(url: str) -> tuple[object, ...]:
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT version, (to_jsonb(v) ->> 'prepared')::integer FROM commitlog.catalog_version v"
        ).fetchone()
    assert row is not None
    return row


def test_migrate_from_version_1_then_made_like_a_fresh_catalog(database_url: str) -> None:
    with projector(database_url) as conn:
        create_catalog(conn, log_id=LOG_ID, data_path="/lake/", created_at=CREATED_AT)
    fresh = shape(database_url)
    with psycopg.connect(database_url) as conn:
        conn.execute("DROP SCHEMA public, commitlog CASCADE")
        conn.execute("CREATE SCHEMA public")
    make_version_1(database_url)
    assert shape(database_url) != fresh
    with projector(database_url) as conn:
        assert migrate(conn) == [f"{version} pre" for version in MIGRATIONS] + [
            f"{version} post" for version in MIGRATIONS
        ]
        assert migrate(conn) == []
        install_guard(conn)
    assert shape(database_url) == fresh
    assert versions(database_url) == (VERSION, VERSION)


def test_migrate_only_pre_then_the_older_version_still_finds_its_number(database_url: str) -> None:
    make_version_1(database_url)
    with projector(database_url) as conn:
        assert migrate(conn, only_pre=True) == [f"{version} pre" for version in MIGRATIONS]
    assert versions(database_url) == (1, VERSION)
    with projector(database_url) as conn:
        assert migrate(conn) == [f"{version} post" for version in MIGRATIONS]
    assert versions(database_url) == (VERSION, VERSION)


def test_migrate_when_a_step_fails_then_it_is_taken_again_and_none_is_taken_twice(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {
        VERSION + 1: Migration(pre="CREATE TABLE a ()", post="CREATE TABLE b (); SELECT * FROM missing"),
        VERSION + 2: Migration(pre="CREATE TABLE c ()", post="ALTER TABLE b RENAME TO d"),
    }
    make_version_1(database_url)
    with projector(database_url) as conn:
        migrate(conn)
        monkeypatch.setattr(migrations, "MIGRATIONS", {**MIGRATIONS, **steps})
        monkeypatch.setattr(migrations, "VERSION", VERSION + 2)
        with pytest.raises(psycopg.errors.UndefinedTable):
            migrate(conn)
        assert versions(database_url) == (VERSION, VERSION + 2)
        assert conn.execute("SELECT to_regclass('b')").fetchone() == (None,)
        conn.execute("CREATE TABLE missing ()")
        conn.commit()
        assert migrate(conn) == [f"{VERSION + 1} post", f"{VERSION + 2} post"]
        assert conn.execute("SELECT to_regclass('b'), to_regclass('d') IS NULL").fetchone() == (None, False)


def test_migrate_when_a_newer_commitlog_made_the_catalog_then_refuses(settings: Settings) -> None:
    make_version_1(settings.database_url)
    with projector(settings.database_url) as conn:
        conn.execute("UPDATE commitlog.catalog_version SET version = 99")
    with pytest.raises(CatalogMismatchError, match="has version 99"):
        Projector(settings, decode_statistics=decode_statistics).project_to_end()


def test_migrate_when_the_user_may_not_then_says_who_has_to(database_url: str) -> None:
    make_version_1(database_url)
    with projector(database_url) as conn:
        conn.execute("DROP ROLE IF EXISTS commitlog_test_guest")
        conn.execute("CREATE ROLE commitlog_test_guest")
        conn.execute("GRANT USAGE ON SCHEMA commitlog TO commitlog_test_guest")
        conn.execute("GRANT SELECT ON commitlog.catalog_version TO commitlog_test_guest")
        conn.execute("SET ROLE commitlog_test_guest")
        conn.commit()
        with pytest.raises(CatalogMismatchError, match="commitlog catalog migrate"):
            migrate(conn)
        conn.execute("RESET ROLE")
        conn.execute("DROP OWNED BY commitlog_test_guest")
        conn.execute("DROP ROLE commitlog_test_guest")
    assert versions(database_url) == (1, None)


def test_migrate_by_the_projector_and_by_command_then_nothing_is_left_to_do(settings: Settings) -> None:
    init_log(settings)
    project = Projector(settings, decode_statistics=decode_statistics)
    project.project_to_end()
    with projector(settings.database_url) as conn:
        conn.execute("DROP INDEX commitlog.outcomes_by_snapshot")
        conn.execute("DROP TABLE commitlog.expiry")
        conn.execute("DROP INDEX ducklake_data_file_by_end")
        conn.execute("ALTER TABLE commitlog.catalog_version DROP COLUMN prepared")
        conn.execute("ALTER TABLE commitlog.applied DROP COLUMN next_offset")
        conn.execute("DROP TABLE commitlog.mileposts, commitlog.refused_tables")
        conn.execute("DROP VIEW commitlog.divergent_rows")
        conn.execute("DELETE FROM ducklake_metadata WHERE key = 'data_inlining_row_limit'")
        conn.execute("UPDATE commitlog.catalog_version SET version = 1")
    project.project_to_end()
    assert versions(settings.database_url) == (VERSION, VERSION)
    done = CliRunner(env=settings.environment()).invoke(cli, ["catalog", "migrate"], catch_exceptions=False)
    assert done.output == f"nothing to do: version {VERSION}\n"
