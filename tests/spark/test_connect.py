"""Spark Connect: what works in a session that has no driver of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import told_by
from people import settings_given

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings

TABLE = "main.people"


@pytest.fixture
def people(log: CommitLog) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "name": "varchar", "tags": "list(struct(k varchar, v int32))"})


@pytest.mark.usefixtures("people")
def test_connect_when_tables_are_written_read_and_followed_then_both_faces_work(
    settings: Settings, tmp_path: Path
) -> None:
    told = {"settings": settings_given(settings)}
    found = told_by("connect_driver.py", told, tmp_path)
    assert found["kind"].startswith("pyspark.sql.connect")
    assert found["format"] == [*range(5, 20)]
    assert found["copied"] == [*range(20)]
    assert found["plain"] == found["native"]
    assert found["native"] == [number for number in range(31) if number % 10 != 3]
    assert found["updated"] == [25]
    assert found["history"][-1] == ["CREATE_TABLE", "APPEND"]
    assert found["row"] == {"id": 25, "name": "n25", "tags": [{"k": "a", "v": 25}]}
    with open_lake(settings.database_url) as duck:
        assert duck.execute(f"SELECT tags FROM {TABLE} WHERE id = 25").fetchall() == [([{"k": "a", "v": 25}],)]
    assert "no field ids for what is in lists and maps (tags)" in found["compact"]
    assert found["overwritten"] == [1, *(number for number in range(5, 31) if number % 10 != 3)]
    for stale in ("shown short", "checkpoint"):
        assert "appended to main.plain since base" in found[stale]
    assert found["verified"].endswith("all as it should be"), found["verified"]
    assert "Spark Connect" in found["stream_into"]
    assert "format('commitlog')" in found["stream_into"]
