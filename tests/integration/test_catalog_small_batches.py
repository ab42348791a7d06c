"""What a writer waits for that goes on when its commit is visible: a small batch costs one round trip, and writes the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from deciding import DecidedLog, append, create_table, data_file, delete_whole
from log_running import wait_until
from projecting import Projecting, records_of
from psycopg import sql

from commitlog.catalog.projector import SMALL_BYTES, SMALL_RECORDS, _CatalogReplaced
from commitlog.catalog.queries import Catalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.errors import CatalogMismatchError, ProjectionError

ROUND_TRIPS_MAX = 1
TABLES = (
    "commitlog.outcomes",
    "ducklake_data_file",
    "ducklake_file_column_stats",
    "ducklake_snapshot",
    "ducklake_snapshot_changes",
    "ducklake_table_stats",
    "ducklake_table_column_stats",
)


@pytest.fixture
def projecting(database_url: str, lake_dir: Path) -> Projecting:
    return Projecting(database_url, lake_dir)


def some_commits() -> DecidedLog:
    """Appends to two tables, with statistics, and a refusal."""
    log = DecidedLog()
    log.commit(create_table(), create_table("u"))
    for number in range(12):
        low = {"column": "id", "min": number, "max": 40_000 + number, "null_count": 0}
        text = {"column": "v", "min": "a%s", "max": None, "null_count": number}
        file = data_file(10**number, path=f"f{number} %.parquet", statistics=[low, text])
        log.commit(append(file, table="tu"[number % 2]), message="100 %")
    log.refused("INVALID", delete_whole(99))
    log.commit(append(data_file(path="a.parquet"), data_file(path="b.parquet")))
    return log


def content(database_url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(database_url) as conn:
        return {table: conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3".encode()).fetchall() for table in TABLES}


def test_apply_when_outcomes_come_one_by_one_then_the_catalog_is_as_when_they_come_together(
    database_url: str, other_database_url: str, lake_dir: Path
) -> None:
    log = some_commits()
    records = records_of(log)
    Projecting(database_url, lake_dir).apply_rest(records)
    with Projecting(other_database_url, lake_dir).session() as session:
        for record in records:
            session.apply([record], record.offset + 1)
    together, one_by_one = content(database_url), content(other_database_url)
    assert one_by_one == together
    assert len(together["ducklake_file_column_stats"]) == 24


def test_apply_when_one_append_has_come_then_it_takes_one_round_trip(projecting: Projecting, tmp_path: Path) -> None:
    log = some_commits()
    projecting.apply_rest(records_of(log))
    log.commit(append(data_file(path="c.parquet")))
    log.commit(append(data_file(path="d.parquet")))
    *_, first, last = records_of(log)
    with projecting.session() as session, (tmp_path / "protocol").open("wb") as said:
        # The first one reads what the session knows of the table from then on, and prepares its statement.
        session.apply([first], first.offset + 1)
        session.catalog.conn.pgconn.trace(said.fileno())
        session.apply([last], last.offset + 1)
        session.catalog.conn.pgconn.untrace()
    answered = (tmp_path / "protocol").read_text().count("ReadyForQuery")
    assert 0 < answered <= ROUND_TRIPS_MAX
    assert projecting.applied_seq() == log.outcomes[-1].seq


def test_apply_when_the_catalog_takes_no_row_of_a_small_batch_then_nothing_of_it_is_there_and_it_goes_on_later(
    projecting: Projecting,
) -> None:
    log = some_commits()
    *before, last = records_of(log)
    projecting.apply_rest(before)
    url = projecting.projector.settings.database_url
    with projecting.session() as session, psycopg.connect(url, autocommit=True) as other:
        other.execute("ALTER TABLE ducklake_snapshot_changes RENAME TO away")
        with pytest.raises(ProjectionError, match=rf"outcome {last.outcome.seq} .*ducklake_snapshot_changes") as raised:
            session.apply([last], last.offset + 1)
        assert "changed by hand: `commitlog doctor` shows how, `commitlog catalog rebuild` repairs it" in str(
            raised.value
        )
        other.execute("ALTER TABLE away RENAME TO ducklake_snapshot_changes")
    assert projecting.applied_seq() == last.outcome.seq - 1
    projecting.apply_rest([*before, last])
    assert projecting.applied_seq() == last.outcome.seq


def test_apply_when_a_few_bytes_are_many_rows_then_all_of_them_are_written(projecting: Projecting) -> None:
    log = DecidedLog()
    log.commit(create_table(partition_by=[{"column": "id", "transform": "bucket(4096)"}]))
    projecting.apply_rest(records_of(log))
    log.commit(append(*(data_file(path=f"f{number}.parquet") for number in range(12))))
    last = records_of(log)[-1]
    assert len(last.raw) < SMALL_BYTES
    with projecting.session() as session:
        session.apply([last], last.offset + 1)
    with psycopg.connect(projecting.projector.settings.database_url) as conn:
        assert conn.execute("SELECT count(*) FROM ducklake_file_partition_value").fetchone() == (12 * 4096,)


def test_apply_when_another_projector_has_written_then_a_small_batch_writes_nothing(projecting: Projecting) -> None:
    log = some_commits()
    *before, last = records_of(log)
    projecting.apply_rest(before)
    with projecting.session() as late:
        with projecting.session() as other:
            other.apply([last], last.offset + 1)
        with pytest.raises(CatalogMismatchError, match="another projector"):
            late.apply([last], last.offset + 1)
    assert projecting.applied_seq() == last.outcome.seq


@pytest.mark.parametrize("small_records", [0, SMALL_RECORDS])
def test_apply_when_the_catalog_is_at_another_outcome_of_that_number_then_nothing_is_written(
    projecting: Projecting, monkeypatch: pytest.MonkeyPatch, small_records: int
) -> None:
    monkeypatch.setattr("commitlog.catalog.projector.SMALL_RECORDS", small_records)
    log = some_commits()
    *before, last = records_of(log)
    projecting.apply_rest(before)
    with projecting.session() as session:
        with session.catalog.transaction():
            session.catalog.conn.execute("UPDATE commitlog.applied SET hash = decode('07', 'hex')")
        with pytest.raises(CatalogMismatchError, match="another projector"):
            session.apply([last], last.offset + 1)
    assert projecting.applied_seq() == last.outcome.seq - 1


def test_apply_when_another_catalog_has_taken_the_place_then_a_small_batch_begins_anew(projecting: Projecting) -> None:
    log = some_commits()
    *before, one, last = records_of(log)
    projecting.apply_rest(before)
    url = projecting.projector.settings.database_url
    with projecting.session() as session, psycopg.connect(url, autocommit=True) as other:
        session.apply([one], one.offset + 1)
        for place in (("commitlog", "applied"), ("public", "ducklake_snapshot")):
            old, new = sql.Identifier(*place), sql.Identifier(place[0], "made_anew")
            other.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(new, old))
            other.execute(sql.SQL("INSERT INTO {} SELECT * FROM {}").format(new, old))
            other.execute(sql.SQL("DROP TABLE {} CASCADE").format(old))
            other.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(new, sql.Identifier(place[1])))
        with pytest.raises(_CatalogReplaced):
            session.apply([last], last.offset + 1)
        assert other.execute("SELECT max(snapshot_id) FROM ducklake_snapshot").fetchone() == (
            one.outcome.head_snapshot_id,
        )


def test_apply_when_somebody_waits_then_that_is_known_with_what_was_written_and_no_longer(
    projecting: Projecting,
) -> None:
    log = some_commits()
    projecting.apply_rest(records_of(log))
    for _ in range(3):
        log.commit(append(data_file(path=f"{log.head}.parquet")))
    *_, first, second, third = records_of(log)
    url = projecting.projector.settings.database_url
    with projecting.session() as session, closing(Catalog(url)) as catalog, ThreadPoolExecutor(1) as pool:
        session.apply([first], first.offset + 1)
        assert not session.catalog.is_awaited
        waiting = pool.submit(CatalogWatch(catalog).wait_until, lambda shown: shown.next_offset > second.offset, 60)
        wait_until(lambda: _listeners(url) == 1, "the waiter to be seen")
        session.apply([second], second.offset + 1)
        assert session.catalog.is_awaited
        assert waiting.result(60) is not None
        session.apply([third], third.offset + 1)
        assert not session.catalog.is_awaited


def _listeners(database_url: str) -> int:
    with psycopg.connect(database_url) as conn:
        row = conn.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchone()
    assert row is not None
    return int(row[0])
