"""Spark Connect: what works in a session that has no driver of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.client import CommitLog
from commitlog.config import Settings

DRIVER = Path(__file__).with_name("connect_driver.py")
NAMES = ("log", "bootstrap_servers", "database_url", "data_path")
TABLE = "main.people"


@pytest.fixture
def people(log: CommitLog) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "name": "varchar", "tags": "list(struct(k varchar, v int32))"})


@pytest.mark.usefixtures("people")
def test_connect_when_tables_are_written_read_and_followed_then_both_faces_work(
    settings: Settings, tmp_path: Path
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
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kind"].startswith("pyspark.sql.connect")
    assert found["format"] == [*range(5, 20)]
    assert found["copied"] == [*range(20)]
    assert found["native"] == [number for number in range(31) if number % 10 != 3]
    assert found["row"] == {"id": 25, "name": "new", "tags": [{"k": "a", "v": 25}]}
    assert found["overwritten"] == [1, *(number for number in range(5, 31) if number % 10 != 3)]
    assert "Spark Connect" in found["stream_into"]
    assert "format('commitlog')" in found["stream_into"]
