"""The projector on the real broker and PostgreSQL: nothing lost and nothing twice, whatever is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from log_running import wait_until
from psycopg import sql

from commitlog.catalog.projector import Projector, Session
from commitlog.catalog.written import SqlCatalog, WrittenCatalog, connected
from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain.model import Append, ColumnSpec, CreateTable, DataFile, Proposal, Verdict
from commitlog.errors import CatalogMismatchError
from commitlog.local.postgres import EmbeddedPostgres
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.log.publisher import Publisher
from commitlog.log.sequencer import Sequencer

DEADLINE_S = 60.0


@contextmanager
def running(target: Callable[[threading.Event], None]) -> Iterator[threading.Thread]:
    """A thread that serves until the block ends; what it raises fails the test."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            target(stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert not failures, failures


def sequencing(settings: Settings) -> Callable[[threading.Event], None]:
    return lambda stop: Sequencer(settings, stop=stop).run()


def projecting(settings: Settings) -> Callable[[threading.Event], None]:
    return lambda stop: Projector(settings, decode_statistics=decode_statistics).run(stop)


def project_in_process(settings: Settings) -> None:
    Projector(settings, decode_statistics=decode_statistics).run(threading.Event())


class Writer:
    """Publishes one proposal after another and checks each answer."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.head = 0
        self.commit(CreateTable("main", "t", (ColumnSpec("id", "int64"),)))

    def commit(self, change: CreateTable | Append) -> None:
        proposal = Proposal(new_proposal_id(), "w", self.head, (change,), created_at_ms=time.time_ns() // 1_000_000)
        receipt = self.publisher.submit(proposal, timeout_s=30)
        assert receipt.verdict is Verdict.COMMITTED, receipt.detail
        assert receipt.snapshot_id is not None
        self.head = receipt.snapshot_id

    def append(self, count: int) -> None:
        for _ in range(count):
            self.commit(Append("main", "t", (DataFile(f"f{self.head}.parquet", 10, 1000),)))


@contextmanager
def serving(settings: Settings) -> Iterator[Writer]:
    """A sequencer, and a writer that has created table t."""
    with running(sequencing(settings)), Publisher(settings) as publisher:
        yield Writer(publisher)


def applied_head(url: str) -> int:
    """The catalog's newest snapshot; -1 while it cannot be asked."""
    try:
        with psycopg.connect(url, connect_timeout=2) as conn:
            row = conn.execute("SELECT max(snapshot_id) FROM ducklake_snapshot").fetchone()
    except psycopg.Error:
        return -1
    return -1 if row is None or row[0] is None else int(row[0])


def check_complete(url: str, head: int) -> None:
    """Every snapshot once, every file once, every outcome once, totals exact."""
    with psycopg.connect(url) as conn:
        for table, key in (("ducklake_snapshot", "snapshot_id"), ("commitlog.outcomes", "seq")):
            query = f"SELECT count(*), count(DISTINCT {key}), max({key}) - min({key}) + 1 FROM {table}"
            total, distinct, span = conn.execute(query.encode()).fetchone() or (0, 0, 0)
            assert total == distinct == span
        files = conn.execute(
            "SELECT count(*), count(DISTINCT path), sum(record_count) FROM ducklake_data_file"
        ).fetchone()
        stats = conn.execute("SELECT record_count, next_row_id FROM ducklake_table_stats").fetchone()
    assert files == (head - 1, head - 1, 10 * (head - 1))
    assert stats == (10 * (head - 1), 10 * (head - 1))


def test_projector_then_the_catalog_follows_the_log(settings: Settings) -> None:
    init_log(settings)
    with serving(settings) as writer, running(projecting(settings)):
        writer.append(30)
        wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
    check_complete(settings.database_url, writer.head)
    Projector(settings, decode_statistics=decode_statistics).project_to_end()
    check_complete(settings.database_url, writer.head)


def test_catalog_when_several_make_it_at_the_same_moment_then_one_does_and_the_others_go_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_log(settings)
    read_position, all_have_seen_none = Projector._read_position, threading.Barrier(3, timeout=DEADLINE_S)

    def read_together(self: Projector, catalog: WrittenCatalog) -> object:
        position = read_position(self, catalog)
        if position is None:
            all_have_seen_none.wait()
        return position

    def project_to_end(stop: threading.Event) -> None:
        Projector(settings, decode_statistics=decode_statistics).project_to_end()

    monkeypatch.setattr(Projector, "_read_position", read_together)
    with running(projecting(settings)), running(project_to_end) as one, running(project_to_end) as other:
        one.join(DEADLINE_S)
        other.join(DEADLINE_S)
        wait_until(lambda: applied_head(settings.database_url) == 0, "the catalog to be there")


@pytest.mark.parametrize("limit", ["statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout"])
def test_projector_when_the_database_limits_how_long_sessions_take_then_it_takes_as_long_as_it_needs(
    settings: Settings, limit: str
) -> None:
    init_log(settings)
    with psycopg.connect(settings.database_url, autocommit=True) as conn:
        database = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET {} = '300ms'").format(database, sql.Identifier(limit)))
    with connected(settings, decode_statistics=decode_statistics) as catalog, catalog.transaction():
        catalog.conn.execute("SELECT pg_sleep(0.4)")
        threading.Event().wait(0.4)
        assert catalog.position() is None


@pytest.mark.parametrize("table", ["applied", "catalog_version"])
def test_projector_when_a_backup_of_the_catalog_is_not_whole_then_says_so(settings: Settings, table: str) -> None:
    init_log(settings)
    projector = Projector(settings, decode_statistics=decode_statistics)
    projector.project_to_end()
    with projector.connect() as catalog:
        assert isinstance(catalog, SqlCatalog)
        catalog.conn.execute(sql.SQL("DELETE FROM commitlog.{}").format(sql.Identifier(table)))
    with pytest.raises(CatalogMismatchError, match=f"not whole: its table {table} is empty"):
        projector.run(threading.Event())


def test_projector_when_it_is_killed_in_the_middle_then_the_next_one_goes_on(settings: Settings) -> None:
    init_log(settings)
    small = replace(settings, projector_outcomes_max=3)
    context = multiprocessing.get_context("spawn")
    with serving(settings) as writer:
        for _ in range(3):
            process = context.Process(target=project_in_process, args=(small,))
            process.start()
            before = applied_head(settings.database_url)
            writer.append(15)
            wait_until(lambda before=before: applied_head(settings.database_url) > before, "a part of the load")
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join(DEADLINE_S)
        with running(projecting(settings)):
            wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
    check_complete(settings.database_url, writer.head)


def test_projector_when_postgres_is_killed_then_it_waits_and_goes_on(settings: Settings, tmp_path: Path) -> None:
    init_log(settings)
    server = EmbeddedPostgres(tmp_path / "pg")
    server.start()
    try:
        url = server.create_database("lake")
        own = replace(settings, database_url=url)
        with serving(own) as writer, running(projecting(own)):
            writer.append(10)
            wait_until(lambda: applied_head(url) > 3, "the first part")
            os.kill(int((tmp_path / "pg" / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            writer.append(10)
            server.stop()
            server = EmbeddedPostgres(tmp_path / "pg", port=urlsplit(url).port or 0)
            server.start()
            wait_until(lambda: applied_head(url) == writer.head, "the catalog's head")
            check_complete(url, writer.head)
    finally:
        server.stop()


def test_two_projectors_then_one_of_them_stops_and_says_why(settings: Settings) -> None:
    init_log(settings)
    with serving(settings) as writer, running(projecting(settings)):
        writer.append(5)
        wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
        late = Projector(settings, decode_statistics=decode_statistics)
        with late.connect() as catalog, late.reader(catalog) as reader:
            writer.append(5)
            wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
            session = Session(late, catalog, reader)
            batches = [records for records in reader.read_to_end() if records]
            with pytest.raises(CatalogMismatchError, match="another projector"):
                session.apply(batches[0], reader.next_offset)
    check_complete(settings.database_url, writer.head)
