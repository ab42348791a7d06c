"""Exactly once also when executors die: Spark runs their tasks again, and what they left is in no snapshot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from executor_driver import FORMAT_TABLE, FUNCTION_TABLE, ROWS

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.ops.duck import open_lake

DRIVER = Path(__file__).with_name("executor_driver.py")
NAMES = ("log", "bootstrap_servers", "database_url", "data_path")


@pytest.fixture
def tables(log: CommitLog) -> None:
    with log.transaction() as tx:
        for table in (FUNCTION_TABLE, FORMAT_TABLE):
            tx.create_table(table, {"id": "int64", "name": "varchar"})


@pytest.mark.usefixtures("tables")
def test_writes_when_an_executor_is_killed_in_the_middle_then_each_row_is_there_once(
    log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    told = {"settings": {name: str(getattr(settings, name)) for name in NAMES}, "work": str(tmp_path)}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(DRIVER), json.dumps(told)],
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"by_function": True, "by_format": True}
    outcomes = [outcome for outcome in log.subscribe(follow=False) if outcome.verdict is Verdict.COMMITTED]
    log.wait_for_snapshot(max(outcome.snapshot_id or 0 for outcome in outcomes))
    with open_lake(settings.database_url) as connection:
        for table in (FUNCTION_TABLE, FORMAT_TABLE):
            found = connection.execute(f"SELECT id, name FROM {table} ORDER BY id").fetchall()
            assert found == [(i, f"n{i}") for i in range(ROWS)], table
