"""Exactly once: drivers that are killed at every step, on the way also tasks that fail; and what they leave is cleaned."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers import exit_code, last_words
from killed_driver import FORMAT_TABLE, FUNCTION_TABLE, NO_STEP, STEPS
from people import settings_given

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.ops.maintenance.clean import Cleaning

ROWS_OF_A_FILE = 10


@pytest.fixture
def tables(log: CommitLog) -> None:
    with log.transaction() as tx:
        for table in (FUNCTION_TABLE, FORMAT_TABLE):
            tx.create_table(table, {"id": "int64", "name": "varchar"})


def feed_file(directory: Path, number: int) -> None:
    """File ``number`` of the feed, which Spark takes in the order of their times."""
    directory.mkdir(exist_ok=True)
    ids = range(number * ROWS_OF_A_FILE, (number + 1) * ROWS_OF_A_FILE)
    path = directory / f"{number}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]}), path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def drive(settings: Settings, work: Path, step: str, batch_id: int, *, fails: bool) -> int:
    """One driver; its exit code, -9 when it was killed."""
    orders = {"settings": settings_given(settings), "step": step, "batch_id": batch_id, "fails_first": fails}
    return exit_code("killed_driver.py", orders, work)


def duck_ids(settings: Settings, table: str) -> list[int]:
    with open_lake(settings.database_url) as connection:
        return [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()]


@pytest.mark.timeout(3_600)
@pytest.mark.usefixtures("tables")
def test_streams_when_drivers_are_killed_at_each_step_and_tasks_fail_then_each_row_is_there_once(
    log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    for number in range(len(STEPS) + 1):
        feed_file(tmp_path / "feed", number)
    for batch_id, step in enumerate(STEPS):
        code = drive(settings, tmp_path, step, batch_id, fails=batch_id == len(STEPS) - 1)
        assert code == -9, f"{step}: {last_words(tmp_path)}"
        marks = tmp_path / "marks" / f"{step}-{batch_id}"
        assert {mark.name for mark in marks.iterdir()} == {"function", "format"}, step
    code = drive(settings, tmp_path, NO_STEP, len(STEPS), fails=False)
    assert code == 0, last_words(tmp_path)

    log.wait_for_snapshot()
    every_id = list(range((len(STEPS) + 1) * ROWS_OF_A_FILE))
    for table in (FUNCTION_TABLE, FORMAT_TABLE):
        assert duck_ids(settings, table) == every_id, table
    decided = list(log.subscribe(follow=False))
    repeats = [outcome for outcome in decided if outcome.verdict is Verdict.DUPLICATE]
    assert len(repeats) == 6, "three of the steps come after the proposal was sent, in two queries"
    assert not [outcome for outcome in decided if outcome.verdict is Verdict.REJECTED]

    with open_lake(settings.database_url) as connection:
        live = {
            row[0]
            for table in (FUNCTION_TABLE, FORMAT_TABLE)
            for row in connection.execute(
                f"SELECT data_file FROM ducklake_list_files('lake', '{table.split('.')[1]}')"
            ).fetchall()
        }
    stored = {str(path) for path in Path(settings.data_path).rglob("*.parquet")}
    assert live < stored, "what was written before a death, and by the task that failed, is still there"
    with Cleaning(settings, older_than_ms=0) as cleaning:
        removed = {each.place for each in cleaning.remove(cleaning.removable())}
    assert {place for place in removed if place.endswith(".parquet")} == stored - live
    for table in (FUNCTION_TABLE, FORMAT_TABLE):
        assert duck_ids(settings, table) == every_id, table
