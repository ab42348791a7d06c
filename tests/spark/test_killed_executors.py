"""Exactly once also when executors die: Spark runs their tasks again, and what they left is in no snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import told_by
from executor_driver import FORMAT_TABLE, FUNCTION_TABLE, ROWS
from people import settings_given

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings


@pytest.fixture
def tables(log: CommitLog) -> None:
    with log.transaction() as tx:
        for table in (FUNCTION_TABLE, FORMAT_TABLE):
            tx.create_table(table, {"id": "int64", "name": "varchar"})


@pytest.mark.usefixtures("tables")
def test_writes_when_an_executor_is_killed_in_the_middle_then_each_row_is_there_once(
    log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    told = {"settings": settings_given(settings)}
    answer = told_by("executor_driver.py", told, tmp_path)
    assert answer == {"by_function": True, "by_format": True, "left": ROWS - 1}
    log.wait_for_snapshot()
    with open_lake(settings.database_url) as connection:
        for table, first in ((FUNCTION_TABLE, 1), (FORMAT_TABLE, 0)):
            found = connection.execute(f"SELECT id, name FROM {table} ORDER BY id").fetchall()
            assert found == [(i, f"n{i}") for i in range(first, ROWS)], table
