"""A log of each test's own with a sequencer and a projector, and a connection to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from people import TABLE, rows, source_options
from pyspark.sql import SparkSession

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.spark import SparkTable
from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """The settings of this test; its parameter are first values of the log's own settings."""
    return dataclasses.replace(settings, genesis=getattr(request, "param", {}))


@pytest.fixture
def log(settings: Settings, deciding: None) -> Iterator[CommitLog]:
    """A connection to a log that decides and projects."""
    with CommitLog.connect(settings=settings, writer_id="test") as connected:
        yield connected


@pytest.fixture
def people(log: CommitLog) -> None:
    """An empty table: id, name, age."""
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "name": "varchar", "age": "int32"})


@pytest.fixture
def options(people: None, settings: Settings) -> dict[str, str]:
    """The options by which the data source finds the empty table."""
    return source_options(settings)


@pytest.fixture
def people_table(spark: SparkSession, tmp_path: Path) -> SparkTable:
    """A table of a log in memory with the people 1, 2 and 3."""
    t = commitlog.spark.table(spark, "main.people", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1, 2, 3), create=True)
    return t
