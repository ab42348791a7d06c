"""A PostgreSQL that was killed comes back a moment older than it was seen, as a replica is a moment older than its primary:
whoever saw it, or what it does not show yet, waits until it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg
import pytest
from log_running import serving
from psycopg import sql
from replicas import replica_of

from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projector import Projector
from commitlog.catalog.queries import Catalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.client import CommitLog
from commitlog.client.reading.scan import Scan
from commitlog.config import Settings
from commitlog.errors import CatalogBehindError, CatalogUnavailableError, SnapshotNotFoundError, TableNotFoundError
from commitlog.local.postgres import EmbeddedPostgres
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log


def project(settings: Settings) -> None:
    Projector(settings, decode_statistics=decode_statistics).project_to_end()


class Database:
    """One of which a copy takes its place.

    Args:
        maintenance: the URL of another one.
        url: its own.
    """

    def __init__(self, maintenance: str, url: str) -> None:
        self._maintenance = maintenance
        self._name = url.rpartition("/")[2]

    def remember(self) -> None:
        self._execute("CREATE DATABASE {older} TEMPLATE {name}")

    def set_back(self) -> None:
        self._execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = {text}",
            "DROP DATABASE {name} WITH (FORCE)",
            "ALTER DATABASE {older} RENAME TO {name}",
        )

    def _execute(self, *statements: str) -> None:
        names = {
            "name": sql.Identifier(self._name),
            "older": sql.Identifier(f"{self._name}_older"),
            "text": sql.Literal(self._name),
        }
        with psycopg.connect(self._maintenance, autocommit=True) as conn:
            for each in statements:
                conn.execute(sql.SQL(each).format(**names))


@pytest.fixture
def read(settings: Settings, postgres: str) -> Iterator[tuple[CommitLog, Scan]]:
    """A log, and a read of its table, whose catalog was seen at snapshot 2, and is at snapshot 1 again."""
    quick = replace(settings, catalog_timeout_ms=500)
    init_log(quick)
    with serving(quick):
        project(quick)
        with CommitLog.connect(settings=quick) as writer, writer.transaction(base_snapshot_id=0) as tx:
            tx.create_table("t", {"id": "int64"})
        database = Database(postgres, quick.database_url)
        project(quick)
        database.remember()
        with CommitLog.connect(settings=quick, writer_id="w1") as connected:
            with connected.transaction() as tx:
                tx.alter("t").add_column("v", "varchar")
            project(quick)
            assert connected.head_snapshot_id() == 2
            scan = connected.table("t").scan()
            database.set_back()
            # A restart costs a reader one error at most.
            with pytest.raises(CatalogUnavailableError):
                connected.tables(snapshot=2)
            yield connected, scan


def test_reads_when_postgres_has_lost_a_snapshot_that_was_seen_then_the_catalog_is_behind_until_it_is_there_again(
    read: tuple[CommitLog, Scan], settings: Settings
) -> None:
    log, scan = read
    table = log.table("t")
    reads: tuple[Callable[[], object], ...] = (
        partial(table.at, 2),
        partial(log.table("no_such").at, 2),
        scan.count,
        log.tables,
        partial(log.tables, snapshot=2),
    )
    for ask in reads:
        with pytest.raises(CatalogBehindError):
            ask()
    project(settings)
    assert [column.name for column in table.at(2).definition.columns] == ["id", "v"]
    with pytest.raises(TableNotFoundError):
        reads[1]()
    assert (scan.count(), log.tables(), log.tables(snapshot=2)) == (0, ["main.t"], ["main.t"])
    with pytest.raises(SnapshotNotFoundError):
        log.tables(snapshot=3)


def test_projector_when_postgres_comes_back_older_and_nothing_is_decided_then_brings_back_what_it_lacks(
    settings: Settings, postgres: str
) -> None:
    """Whoever waits for the catalog commits nothing meanwhile, so nothing would come of the log that shows what is lacking."""
    init_log(settings)
    stop = threading.Event()
    projector = Projector(settings, decode_statistics=decode_statistics)
    projecting = threading.Thread(target=projector.run, args=(stop,))
    with serving(settings):
        project(settings)
        database = Database(postgres, settings.database_url)
        database.remember()
        projecting.start()
        try:
            with CommitLog.connect(settings=settings) as log:
                with log.transaction() as tx:
                    tx.create_table("t", {"id": "int64"})
                log.wait_for_snapshot()
                database.set_back()
                # A restart costs a reader one error at most.
                with pytest.raises(CatalogUnavailableError):
                    log.tables()
                assert log.tables() == ["main.t"]
        finally:
            stop.set()
            projecting.join()


def test_reader_of_a_replica_when_it_does_not_show_it_yet_then_it_waits_for_it(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "primary") as primary, psycopg.connect(primary.create_database("lake")) as conn:
        create_catalog(conn, log_id=bytes(16), data_path="lake", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    with replica_of(tmp_path / "primary") as replica, closing(Catalog(replica.database_url("lake"))) as catalog:
        assert catalog.is_replica()
        assert CatalogWatch(catalog).wait_until(lambda shown: False, 0.3) is None
