"""A log of each test's own with a sequencer and a projector, and a connection to it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator

import pytest
from people import TABLE

from commitlog.catalog.projector import Projector
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.log.sequencer import Sequencer


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """The settings of this test; its parameter are first values of the log's own settings."""
    return dataclasses.replace(settings, genesis=getattr(request, "param", {}))


@pytest.fixture
def log(settings: Settings) -> Iterator[CommitLog]:
    """A connection to a log that decides and projects."""
    init_log(settings)
    stop = threading.Event()
    projector = Projector(settings, decode_statistics=decode_statistics)
    threads = [
        threading.Thread(target=Sequencer(settings, stop=stop).run, name="sequencer"),
        threading.Thread(target=projector.run, args=(stop,), name="projector"),
    ]
    for thread in threads:
        thread.start()
    try:
        with CommitLog.connect(settings=settings, writer_id="test") as connected:
            yield connected
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=30)
            assert not thread.is_alive(), f"the {thread.name} did not stop"


@pytest.fixture
def people(log: CommitLog) -> None:
    """An empty table: id, name, age."""
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "name": "varchar", "age": "int32"})
