"""Whether services on a real log are ready: one that is stuck is not, though its process lives."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from log_running import wait_until

from commitlog import CommitLog
from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.log.checkpoint import run_checkpointer
from commitlog.log.codec import decode_statistics
from commitlog.log.sequencer import run_sequencer
from commitlog.ops.service import watched
from commitlog.ops.service.serve import prepare
from commitlog.ops.service.watched import WatchedCheckpointer, WatchedProjector, WatchedSequencer

DEADLINE_S = 90


@contextmanager
def running(run: Callable[[threading.Event], object]) -> Iterator[None]:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, stop)
        try:
            yield
        finally:
            stop.set()
            done.result(DEADLINE_S)


def problem_of(one: WatchedSequencer | WatchedProjector) -> str | None:
    one.lag.look()
    return one.problem()


def test_services_when_one_is_stuck_then_it_alone_is_not_ready(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "LAG_S_MAX", 0.3)
    prepare(settings)
    projector = Projector(settings, decode_statistics=decode_statistics)
    sequencing, projecting = WatchedSequencer(settings), WatchedProjector(settings, projector)
    assert problem_of(sequencing) == "it is STARTING"
    assert problem_of(projecting) == "its starting position is not known yet"
    with (
        running(lambda stop: run_sequencer(settings, stop=stop, on_made=sequencing.is_made)),
        running(projector.run),
        CommitLog.connect(settings=settings) as log,
    ):
        wait_until(lambda: problem_of(sequencing) is None and problem_of(projecting) is None, "both to be well")
        with log.transaction() as tx:
            tx.create_schema("seen")
        log.wait_for_snapshot(1)
        # Readers see it a moment before the projector notes that they do.
        wait_until(lambda: projector.status.visible.count > 0, "the projector to note it")
        wait_until(lambda: problem_of(sequencing) is None and problem_of(projecting) is None, "both to be well")
        assert (sequencing.lag.records, projecting.lag.records) == (0, 0)

        with psycopg.connect(settings.database_url) as connection:
            connection.execute("LOCK TABLE commitlog.applied")
            with log.transaction(base_snapshot_id=1) as tx:
                tx.create_schema("unseen")
            wait_until(
                lambda: "readers have not seen decided outcomes" in str(problem_of(projecting)), "it to be stuck"
            )
            assert projecting.lag.records == 1
            assert problem_of(sequencing) is None
        wait_until(lambda: problem_of(projecting) is None, "it to go on")
        log.wait_for_snapshot(2)
    again = Projector(settings, decode_statistics=decode_statistics)
    with running(again.run):
        wait_until(lambda: problem_of(WatchedProjector(settings, again)) is None, "the next one to be well")
    assert again.status.applied_seq == 2


def test_checkpointer_when_it_has_begun_then_tells_what_it_has_replayed(settings: Settings) -> None:
    prepare(settings)
    checkpointing = WatchedCheckpointer()
    assert checkpointing.problem() == "it has not started yet"
    with (
        running(lambda stop: run_sequencer(settings, stop=stop)),
        running(lambda stop: run_checkpointer(settings, stop=stop, on_made=checkpointing.is_made)),
        CommitLog.connect(settings=settings) as log,
    ):
        wait_until(lambda: checkpointing.problem() is None, "the checkpointer to be well")
        checkpointer = checkpointing.checkpointer
        assert checkpointer is not None

        def has_replayed() -> bool:
            # It replays what is told, which the next outcome says.
            with log.transaction(base_snapshot_id=0) as tx:
                tx.create_schema(f"s{uuid.uuid4().hex}")
            return checkpointer.replayed_seq > 0

        wait_until(has_replayed, "it to replay")
        assert checkpointer.saved_seq == 0
