"""`commitlog bench restart`: from the start of a sequencer's process until it serves, when there is a checkpoint.

The log holds what a sequencer reads then: its genesis, the outcome that the checkpoint was made at, and those after it, as
many as come between two checkpoints. The state is that of a log of so many appends to 1,000 tables; those beyond window
and duplicate window are put into it without being decided, for all that is kept of them is that their files are live.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from array import array
from dataclasses import dataclass

from pyroaring import BitMap64

from commitlog import compiled
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.log.checkpoint import EVERY_OUTCOMES, checkpoint_dir_of, write_checkpoint
from commitlog.log.codec import encode_outcome, encode_proposal, hash_record
from commitlog.log.connection import make_producer
from commitlog.log.genesis import require_genesis
from commitlog.log.results import LogPosition
from commitlog.log.sequencer import Phase
from commitlog.log.topics import topics_of
from commitlog.ops.bench.decide import PROPOSALS_PER_MS, TABLES, History
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.sequencer_fleet import Fleet
from commitlog.ops.bench.servers import Say, own_servers

REMEMBERED = 60_000 * PROPOSALS_PER_MS
"""The ids of a minute."""
CHUNK = 4096
RESTART_S_MAX = 5.0
SERVING_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class RestartBench:
    """What was measured.

    Attributes:
        outcomes: of the log.
        replayed: how many of them came after the checkpoint.
        seconds: of each restart.
        write_s: that writing the checkpoint took.
        checkpoint_bytes: its size.
    """

    outcomes: int
    replayed: int
    seconds: tuple[float, ...]
    write_s: float
    checkpoint_bytes: int
    cpus: int
    load_before: float
    core: str = compiled.form

    def goals(self) -> list[Goal]:
        """The figures of it that have bounds to meet."""
        what = f"restart with {self.outcomes:,} outcomes and a checkpoint, s"
        return [Goal.at_most(what, statistics.median(self.seconds), RESTART_S_MAX)]

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "goals": [goal.as_dict() for goal in self.goals()]}


def run_restart_bench(settings: Settings, *, outcomes: int, repetitions: int, say: Say) -> RestartBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        outcomes: of the log, in all.
        repetitions: how often to start.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    with own_servers(settings, say) as own, Fleet(own) as fleet:
        say(f"a state of {outcomes:,} outcomes")
        log = _Log(own, outcomes)
        write_s, size = log.write()
        say(f"a checkpoint of {size / 2**20:,.0f} MiB, written in {write_s:.1f} s")
        seconds = []
        for _ in range(repetitions):
            seconds.append(_time_start(fleet))
            say(f"it served after {seconds[-1]:.2f} s")
    return RestartBench(outcomes, EVERY_OUTCOMES, tuple(seconds), write_s, size, os.cpu_count() or 1, load_before)


def _time_start(fleet: Fleet) -> float:
    started = time.monotonic()
    sequencer = fleet.start(standby=False)
    fleet.wait_for("a sequencer that serves", lambda: sequencer.phase is Phase.SERVING, timeout_s=SERVING_TIMEOUT_S)
    took_s = time.monotonic() - started
    sequencer.kill()
    fleet.members.remove(sequencer)
    return took_s


class _Log:
    """The end of a long log."""

    def __init__(self, settings: Settings, outcomes: int) -> None:
        self._settings = settings
        self._history = History(require_genesis(settings))
        put_old_files(self._history, max(0, outcomes - EVERY_OUTCOMES - REMEMBERED - TABLES))
        self._history.grow(outcomes - EVERY_OUTCOMES - 1, lambda line: None)

    def write(self) -> tuple[float, int]:
        """Write the checkpoint and what the topics have to hold; the checkpoint's seconds and bytes."""
        topics = topics_of(self._settings.log)
        producer = make_producer(self._settings)
        for partition in range(self._history.state.partitions):
            producer.produce(topics.proposals, b"decided", partition=partition)
        first = self._next(bytes(32))
        producer.produce(topics.results, first, partition=0)
        state = self._history.state
        position = LogPosition(state.log_id, state.next_seq - 1, 0, hash_record(first), 1)
        started = time.monotonic()
        path = write_checkpoint(checkpoint_dir_of(self._settings), state, position)
        took_s = time.monotonic() - started
        last = first
        for _ in range(EVERY_OUTCOMES):
            last = self._next(hash_record(last))
            producer.produce(topics.results, last, partition=0)
            producer.poll(0)
        producer.flush()
        return took_s, path.stat().st_size

    def _next(self, prev_hash: bytes) -> bytes:
        proposal = self._history.next_append()
        outcome = self._history.commit(proposal, encode_proposal(proposal))
        log_id = self._history.state.log_id
        return encode_outcome(outcome, log_id=log_id, prev_hash=prev_hash, told=outcome.seq - 1)


def put_old_files(history: History, count: int) -> None:
    """Make the state as if so many files had been appended to the tables in turn long ago, rounded to whole chunks."""
    state, chunks = history.state, count // CHUNK
    count = chunks * CHUNK
    for number in range(chunks):
        state.record_counts.put_chunk(number, array("q", [1_000] * CHUNK + [CHUNK]))
    for number, table in enumerate(state.tables.values()):
        files = BitMap64(range(number, count, TABLES))
        table.live_files = files
        table.next_row_id, table.file_bytes = 1_000 * len(files), 100_000 * len(files)
        table.last[m.ChangeKind.APPEND] = state.head_snapshot_id + count
    state.commits.clear()
    state.head_snapshot_id += count
    state.index_floor = state.head_snapshot_id
    state.next_seq += count
    state.next_file_id = count
    history.pass_over(count)
