"""Migrations: the catalog is brought to this version step by step, whatever dies in between.

No version was released before this one, so that there is no step yet but those that the tests plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
import pytest
from catalog_shape import shape
from click.testing import CliRunner

from commitlog.catalog import migrations
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import VERSION, Migration, create_catalog, migrate
from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.errors import CatalogMismatchError
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.ops.cli import cli

CREATED_AT = datetime(2024, 1, 1, tzinfo=UTC)
NEXT, AFTER_NEXT = VERSION + 1, VERSION + 2


@contextmanager
def projector(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url) as conn:
        mark_projector(conn)
        yield conn


@pytest.fixture
def made(database_url: str) -> str:
    """A database with the catalog of an empty log, as this version makes it."""
    with projector(database_url) as conn:
        create_catalog(conn, log_id=bytes(16), data_path="/lake/", created_at=CREATED_AT)
    return database_url


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has later versions of commitlog need steps."""

    def plan(*steps: Migration) -> None:
        planned = dict(enumerate(steps, NEXT))
        monkeypatch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, **planned})
        monkeypatch.setattr(migrations, "VERSION", max(planned))

    return plan


def versions(url: str) -> tuple[object, ...]:
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT version, prepared FROM commitlog.catalog_version").fetchone()
    assert row is not None
    return row


def tables(url: str) -> set[object]:
    with psycopg.connect(url) as conn:
        return {
            name for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE length(tablename) = 1").fetchall()
        }


A_THEN_B = Migration(pre="CREATE TABLE a ()", post="CREATE TABLE b ()")
C_THEN_D = Migration(pre="CREATE TABLE c ()", post="ALTER TABLE b RENAME TO d")


def test_migrate_when_the_catalog_is_of_this_version_then_nothing_is_done(made: str) -> None:
    before = shape(made)
    with projector(made) as conn:
        assert migrate(conn) == []
    assert shape(made) == before
    assert versions(made) == (VERSION, VERSION)


def test_migrate_over_two_versions_then_all_that_goes_before_comes_first(made: str, plan: Callable[..., None]) -> None:
    plan(A_THEN_B, C_THEN_D)
    with projector(made) as conn:
        assert migrate(conn) == [f"{NEXT} pre", f"{AFTER_NEXT} pre", f"{NEXT} post", f"{AFTER_NEXT} post"]
        assert migrate(conn) == []
    assert tables(made) == {"a", "c", "d"}
    assert versions(made) == (AFTER_NEXT, AFTER_NEXT)


def test_migrate_only_pre_then_the_older_version_still_finds_its_number(made: str, plan: Callable[..., None]) -> None:
    plan(A_THEN_B)
    with projector(made) as conn:
        assert migrate(conn, only_pre=True) == [f"{NEXT} pre"]
    assert (versions(made), tables(made)) == ((VERSION, NEXT), {"a"})
    with projector(made) as conn:
        assert migrate(conn) == [f"{NEXT} post"]
    assert (versions(made), tables(made)) == ((NEXT, NEXT), {"a", "b"})


def test_migrate_when_a_step_fails_then_it_is_taken_again_and_none_is_taken_twice(
    made: str, plan: Callable[..., None]
) -> None:
    plan(A_THEN_B._replace(post="CREATE TABLE b (); SELECT * FROM missing"), C_THEN_D)
    with projector(made) as conn:
        with pytest.raises(psycopg.errors.UndefinedTable):
            migrate(conn)
        assert (versions(made), tables(made)) == ((VERSION, AFTER_NEXT), {"a", "c"})
        conn.execute("CREATE TABLE missing ()")
        conn.commit()
        assert migrate(conn) == [f"{NEXT} post", f"{AFTER_NEXT} post"]
    assert tables(made) == {"a", "c", "d"}


def test_migrate_when_a_newer_commitlog_made_the_catalog_then_refuses(settings: Settings) -> None:
    init_log(settings)
    project = Projector(settings, decode_statistics=decode_statistics)
    project.project_to_end()
    with projector(settings.database_url) as conn:
        conn.execute("UPDATE commitlog.catalog_version SET version = 99")
    with pytest.raises(CatalogMismatchError, match="has version 99"):
        Projector(settings, decode_statistics=decode_statistics).project_to_end()


def test_migrate_when_the_user_may_not_then_says_who_has_to(made: str, plan: Callable[..., None]) -> None:
    plan(A_THEN_B)
    with projector(made) as conn:
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
    assert versions(made) == (VERSION, VERSION)


def test_migrate_by_the_projector_and_by_command_then_nothing_is_left_to_do(
    settings: Settings, plan: Callable[..., None]
) -> None:
    init_log(settings)
    project = Projector(settings, decode_statistics=decode_statistics)
    project.project_to_end()
    plan(A_THEN_B)
    project.project_to_end()
    assert versions(settings.database_url) == (NEXT, NEXT)
    done = CliRunner(env=settings.environment()).invoke(cli, ["catalog", "migrate"], catch_exceptions=False)
    assert done.output == f"nothing to do: the catalog has version {NEXT}\n"


def test_catalog_when_its_database_cannot_keep_all_texts_then_says_which_can(made: str) -> None:
    name = f"latin_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(made, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
        try:
            wrong = pytest.raises(CatalogMismatchError, match=r"keeps texts as LATIN1.*ENCODING 'UTF8'")
            with projector(f"{made.rpartition('/')[0]}/{name}") as conn, wrong:
                create_catalog(conn, log_id=bytes(16), data_path="/lake/", created_at=CREATED_AT)
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
