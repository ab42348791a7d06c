"""Checkpoints: what they save, when they are skipped, and that proposals are trimmed only when they were decided."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from log_running import (
    Ids,
    all_outcomes,
    all_records,
    append,
    create_table,
    make_log,
    proposal,
    serving,
    wait_until,
    write_raw,
)

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.ids import partition_for
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import HistoryUnavailableError, LogLossError
from commitlog.log import checkpoint
from commitlog.log.checkpoint import Checkpointer, checkpoint_dir_of, load_checkpoints, state_after, write_checkpoint
from commitlog.log.codec import encode_proposal
from commitlog.log.publisher import Publisher
from commitlog.log.replica import Replica
from commitlog.log.topics import topics_of
from commitlog.machine import Machine


@pytest.fixture
def settings(kafka: str, log_name: str, tmp_path: Path) -> Settings:
    return make_log(kafka, log_name, tmp_path)


def decide_some(settings: Settings, ids: Ids, start: int, count: int) -> None:
    with serving(settings), Publisher(settings) as publisher:
        for base in range(start, start + count):
            change = create_table() if base == 0 else append(f"f{base}")
            assert publisher.submit(proposal(ids, base, change, writer_seq=base)).snapshot_id == base + 1


def decide_until_told(settings: Settings, ids: Ids, start: int, count: int) -> int:
    """Decides so many, and more until the log says that more is told than before; the number of the next.

    What was told is known when the receipts are acknowledged, perhaps only after further decisions.
    """
    before = told(settings)
    decide_some(settings, ids, start, count)
    decided = start + count
    while told(settings) == before:
        decide_some(settings, ids, decided, 2)
        decided += 2
    return decided


def told(settings: Settings) -> int:
    """The last outcome that the log says to be told: where a checkpoint made now lies."""
    return all_records(settings)[-1].told


def checkpoint_now(settings: Settings) -> Path:
    checkpointer = Checkpointer(settings)
    try:
        path = checkpointer.checkpoint_now()
    finally:
        checkpointer.close()
    assert path is not None
    return path


def loaded(settings: Settings, *, with_checkpoints: bool) -> tuple[int, bytes]:
    """Where a replica starts, and the hash of its state at the end."""
    replica = Replica(settings, checkpoints=load_checkpoints(settings) if with_checkpoints else ())
    try:
        for _ in replica.follow_to_end():
            pass
        return replica.start_seq, state_hash(replica.state)
    finally:
        replica.close()


def first_offset(settings: Settings, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "looking"})
    try:
        low, _ = consumer.get_watermark_offsets(
            TopicPartition(topics_of(settings.log).proposals, partition), timeout=10
        )
        return int(low)
    finally:
        consumer.close()


def test_checkpoint_when_loaded_then_the_state_is_the_replayed_one(settings: Settings, ids: Ids) -> None:
    decided = decide_until_told(settings, ids, 0, 5)
    at = told(settings)
    assert 0 < at < decided
    path = checkpoint_now(settings)
    decide_some(settings, ids, decided, 3)
    start, state = loaded(settings, with_checkpoints=True)
    assert (start, state) == (at, loaded(settings, with_checkpoints=False)[1])
    assert path.name.split("-")[1:3] == [f"{at:020d}", "r1"]


def test_sequencer_when_it_starts_from_a_checkpoint_then_decides_as_ever(settings: Settings, ids: Ids) -> None:
    decided = decide_until_told(settings, ids, 0, 4)
    checkpoint_now(settings)
    decide_some(settings, ids, decided, 3)
    assert [outcome.seq for outcome in all_outcomes(settings)] == list(range(1, decided + 4))


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "other rules"])
def test_checkpoint_when_broken_then_the_one_before_is_taken(settings: Settings, ids: Ids, damage: str) -> None:
    decided = decide_until_told(settings, ids, 0, 2)
    before = told(settings)
    checkpoint_now(settings)
    decide_until_told(settings, ids, decided, 1)
    newest = checkpoint_now(settings)
    assert loaded(settings, with_checkpoints=True)[0] == told(settings)
    opened = next(load_checkpoints(settings))
    data = bytearray(newest.read_bytes())
    match damage:
        case "changed":
            data[len(data) // 2] ^= 1
        case "cut":
            del data[-10:]
        case "empty":
            data.clear()
        case _:
            newest.rename(newest.with_name(newest.name.replace("-r1-", "-r2-")))
    if newest.exists():
        newest.write_bytes(data)
    start, state = loaded(settings, with_checkpoints=True)
    assert (start, state) == (before, loaded(settings, with_checkpoints=False)[1])
    # And by who has found it whole a moment before.
    with closing(Replica(settings, checkpoints=[opened, *load_checkpoints(settings)])) as replica:
        assert replica.start_seq == before


def test_checkpoint_when_it_lies_beyond_the_end_of_its_log_then_the_loss_is_said(settings: Settings, ids: Ids) -> None:
    decide_some(settings, ids, 0, 3)
    replica = Replica(settings)
    for _ in replica.follow_to_end():
        pass
    directory = checkpoint_dir_of(settings)
    write_checkpoint(directory, replica.state, replica.position.replace(results_offset=1_000))
    with pytest.raises(LogLossError, match=r"ends at offset \d+, but outcome 3 was read from offset 1000"):
        loaded(settings, with_checkpoints=True)
    # One of another log of that name says nothing of this one.
    for path in directory.iterdir():
        path.unlink()
    write_checkpoint(directory, replica.state, replica.position.replace(log_id=b"O" * 16, results_offset=1_000))
    replica.close()
    assert loaded(settings, with_checkpoints=True)[0] == 0


def test_checkpoint_when_it_does_not_fit_the_log_then_skipped(settings: Settings, ids: Ids) -> None:
    decide_some(settings, ids, 0, 3)
    replica = Replica(settings)
    for _ in replica.follow_to_end():
        pass
    write_checkpoint(checkpoint_dir_of(settings), replica.state, replica.position.replace(hash=b"?" * 32))
    replica.close()
    assert loaded(settings, with_checkpoints=True)[0] == 0


def test_checkpoint_when_there_are_many_then_three_are_kept(settings: Settings, ids: Ids) -> None:
    made: list[int] = []
    decided = 0
    for _ in range(5):
        decided = decide_until_told(settings, ids, decided, 1)
        checkpoint_now(settings)
        made.append(told(settings))
    names = sorted(path.name for path in checkpoint_dir_of(settings).iterdir())
    assert [int(name.split("-")[1]) for name in names] == made[-3:]


def test_checkpoint_when_the_process_dies_while_writing_then_there_is_none(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_some(settings, ids, 0, 2)

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(checkpoint.os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        checkpoint_now(settings)
    assert list(load_checkpoints(settings)) == []
    assert loaded(settings, with_checkpoints=True)[0] == 0


def test_proposals_when_decided_then_trimmed_and_undecided_ones_stay(settings: Settings, ids: Ids) -> None:
    partition = partition_for("w1", 2)
    decided = decide_until_told(settings, ids, 0, 4)
    waiting = [encode_proposal(proposal(ids, decided, append(f"late{i}"))) for i in range(3)]
    write_raw(settings, topics_of(settings.log).proposals, *waiting, partition=partition)
    assert first_offset(settings, partition) == 0
    at = told(settings)
    checkpoint_now(settings)
    assert first_offset(settings, partition) == at > 0
    decide_some(settings, ids, decided + 3, 1)
    outcomes = all_outcomes(settings)
    assert [outcome.source.offset for outcome in outcomes] == list(range(decided + 4))
    assert {outcome.verdict for outcome in outcomes} == {m.Verdict.COMMITTED}


def test_checkpointer_when_enough_was_decided_then_writes_one(settings: Settings, ids: Ids) -> None:
    decide_until_told(settings, ids, 0, 3)
    at = told(settings)
    checkpointer = Checkpointer(settings, every_outcomes=at, every_s=3600)

    class UntilWritten:
        def is_set(self) -> bool:
            return checkpoint_dir_of(settings).is_dir() and any(checkpoint_dir_of(settings).glob("*.avro"))

    checkpointer.run(UntilWritten())  # type: ignore[arg-type]
    assert [saved.position.seq for saved in load_checkpoints(settings)] == [at]


# --- earlier states ---------------------------------------------------------------------------------------------------


def test_state_after_when_asked_for_any_outcome_then_as_it_was_with_and_without_checkpoints(
    settings: Settings, ids: Ids
) -> None:
    decided = decide_until_told(settings, ids, 0, 6)
    genesis, *outcomes = (record.value for record in all_records(settings))
    assert isinstance(genesis, m.Genesis)
    state = new_state(genesis)
    expected = [state_hash(state)] + [
        state_hash(replay(state, each)) for each in outcomes if isinstance(each, m.Outcome)
    ]
    found = [state_hash(state_after(settings, seq, outcomes_max=100)) for seq in range(decided + 1)]
    assert found == expected
    at = told(settings)
    checkpoint_now(settings)
    decide_some(settings, ids, decided, 2)
    assert state_hash(state_after(settings, 3, outcomes_max=100)) == expected[3]
    assert state_hash(state_after(settings, at, outcomes_max=0)) == expected[at]


def test_state_after_when_too_many_outcomes_would_be_replayed_then_says_so(settings: Settings, ids: Ids) -> None:
    last = decide_until_told(settings, ids, 0, 4)
    with pytest.raises(HistoryUnavailableError, match=rf"{last} outcomes would have .*, which is more than {last - 1}"):
        state_after(settings, last, outcomes_max=last - 1)
    checkpoint_now(settings)
    assert state_after(settings, last, outcomes_max=last - 1).next_seq == last + 1


def test_state_after_when_the_beginning_is_gone_then_says_so(settings: Settings, ids: Ids) -> None:
    decide_some(settings, ids, 0, 4)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topics_of(settings.log).results, 0, 2)]).values():
        future.result()
    with pytest.raises(HistoryUnavailableError, match="does not go back so far"):
        state_after(settings, 3, outcomes_max=100)


def test_checkpointer_when_the_disk_is_full_then_it_goes_on_and_leaves_nothing_there(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_until_told(settings, ids, 0, 3)
    monkeypatch.setattr(checkpoint, "FAILED_PAUSE_S", 0.0)
    is_full, tried = True, threading.Event()

    def sync(machine: Machine, descriptor: int) -> None:
        if is_full:
            tried.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Machine, "sync", sync)
    checkpointer, stop = Checkpointer(settings, every_outcomes=1), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(checkpointer.run, stop)
        try:
            assert tried.wait(60)
            wait_until(lambda: checkpointer.problem is not None, "word of the disk")
            assert "No space left" in str(checkpointer.problem)
            is_full = False
            wait_until(lambda: checkpointer.problem is None, "a checkpoint")
        finally:
            stop.set()
        running.result()
    assert [path.suffix for path in checkpoint_dir_of(settings).iterdir()] == [checkpoint.SUFFIX]


def test_checkpoint_when_one_before_was_killed_while_it_wrote_then_its_rest_is_removed(
    settings: Settings, ids: Ids
) -> None:
    decide_some(settings, ids, 0, 2)
    directory = checkpoint_dir_of(settings)
    directory.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    here, elsewhere = f".{socket.gethostname()}-{ended.pid}.writing", f".elsewhere-{ended.pid}.writing"
    alive = f".{socket.gethostname()}-{os.getppid()}.writing"
    for name in (here, elsewhere, alive):
        (directory / name).write_bytes(b"half")
    path = checkpoint_now(settings)
    assert {each.name for each in directory.iterdir()} == {path.name, elsewhere, alive}
