"""The logs of the contract suite: in memory, and on the real broker with its real catalog; what is of sending, also with a
carrier between."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from commitlog.client import CommitLog
from commitlog.client.access.kafka_access import KafkaAccess
from commitlog.config import Settings
from commitlog.testing import InMemoryCommitLog


@pytest.fixture(scope="module", params=["memory", "broker"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommitLog]:
    """A log that the tests of a module share; each test has tables of its own. Where one asks for "carrier", it has one."""
    lake = tmp_path_factory.mktemp("lake")
    if request.param == "memory":
        with InMemoryCommitLog(data_path=lake) as memory:
            yield memory
        return
    kafka, new_database = request.getfixturevalue("kafka"), request.getfixturevalue("new_database")
    with (
        new_database() as database_url,
        _served(kafka, database_url, lake) as settings,
        _carried(settings) if request.param == "carrier" else nullcontext(),
        CommitLog.connect(settings=settings, writer_id="test") as connected,
    ):
        yield connected


@pytest.fixture
def other(log: CommitLog) -> Iterator[CommitLog]:
    """Another program's connection to the same log."""
    if isinstance(log, InMemoryCommitLog):
        yield CommitLog(log._access, writer_id="other")
        return
    access = log._access
    assert isinstance(access, KafkaAccess)
    with CommitLog.connect(settings=access.connected_by, writer_id="other") as connected:
        yield connected


@pytest.fixture
def unnamed(log: CommitLog) -> Iterator[Callable[[], CommitLog]]:
    """Makes connections of programs that do not say who they are."""
    with ExitStack() as stack:

        def connect() -> CommitLog:
            if isinstance(log, InMemoryCommitLog):
                return CommitLog(log._access)
            access = log._access
            assert isinstance(access, KafkaAccess)
            return stack.enter_context(CommitLog.connect(settings=access.connected_by))

        yield connect


@pytest.fixture
def table() -> str:
    """The name of a table of this test's own."""
    return f"t_{uuid.uuid4().hex[:12]}"


@contextmanager
def _served(kafka: str, database_url: str, lake: Path) -> Iterator[Settings]:
    from commitlog.catalog.projector import Projector
    from commitlog.log.codec import decode_statistics
    from commitlog.log.genesis import init_log
    from commitlog.log.sequencer import run_sequencer

    with ExitStack() as services:
        settings = Settings.load(
            environment={},
            log=f"contract-{uuid.uuid4().hex[:12]}",
            bootstrap_servers=kafka,
            database_url=database_url,
            data_path=lake / "data",
            home=lake / "home",
        )
        init_log(settings)
        projector = Projector(settings, decode_statistics=decode_statistics)
        services.enter_context(_running(lambda stop: run_sequencer(settings, stop=stop)))
        services.enter_context(_running(projector.run))
        yield settings


@contextmanager
def _carried(settings: Settings) -> Iterator[None]:
    from log_running import wait_until

    from commitlog.log.carrier import Carrier

    carrier = Carrier(settings)
    with _running(carrier.run):
        assert settings.carrier_socket is not None
        # Whoever looks for it before it is there looks again in five seconds.
        wait_until(settings.carrier_socket.exists, "a carrier")
        yield
    assert carrier.carried > 0


@contextmanager
def _running(run: Callable[[threading.Event], object]) -> Iterator[None]:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, stop)
        yield
        stop.set()
        done.result()
