"""A log of each test's own with a sequencer and a projector, and a connection to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from people import TABLE

from commitlog.client import CommitLog
from commitlog.config import Settings


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
