"""The sequencer: fence, load, serve; any doubt: throw the state away and load again.

One process is active. It polls proposals, decides them in memory and writes each batch in one Kafka transaction:
outcomes, receipts, dead letters and, when it is time, its heartbeat. While one transaction is being committed the next
batch is already decided; the state may be ahead of the log, so a transaction that fails takes the state with it.

Others stand by: they replay along and take over when no heartbeat comes. Whoever is fenced ends with `EXIT_FENCED` and
comes back as a standby, never as active. What has been consumed is what the outcomes say, not a consumer group.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum

from commitlog.config import Settings
from commitlog.domain.model import Position, Verdict
from commitlog.domain.row_conflicts import RowHandler
from commitlog.errors import FencedError, LogIntegrityError, LogLossError
from commitlog.log.batches import Batch, Decider
from commitlog.log.checkpoint import load_checkpoints
from commitlog.log.codec import Heartbeat, encode_heartbeat
from commitlog.log.connection import end_offsets, first_offsets, make_admin
from commitlog.log.handlers import load_row_handlers
from commitlog.log.heartbeats import HeartbeatListener
from commitlog.log.proposals import ProposalSource
from commitlog.log.replica import Replica
from commitlog.log.topics import (
    allow_proposal_bytes,
    check_topics,
    topic_message_bytes_max,
    topics_of,
    transactional_id_of,
)
from commitlog.log.transaction import DoubtError, Records, TransactionalProducer

EXIT_FENCED = 75
HEARTBEAT_INTERVAL_S = 0.3
TAKEOVER_AFTER_S = 1.5
IDLE_POLL_S = 0.05
BUSY_POLL_S = 0.001

_logger = logging.getLogger("commitlog.sequencer")


class Phase(StrEnum):
    """Where a sequencer is on its way."""

    STARTING = "STARTING"
    STANDBY = "STANDBY"
    FENCING = "FENCING"
    LOADING = "LOADING"
    SERVING = "SERVING"
    STOPPED = "STOPPED"


LEGAL_MOVES: Mapping[Phase, frozenset[Phase]] = {
    Phase.STARTING: frozenset({Phase.STANDBY, Phase.FENCING, Phase.STOPPED}),
    Phase.STANDBY: frozenset({Phase.FENCING, Phase.STOPPED}),
    Phase.FENCING: frozenset({Phase.LOADING, Phase.STOPPED}),
    Phase.LOADING: frozenset({Phase.SERVING, Phase.FENCING, Phase.STOPPED}),
    Phase.SERVING: frozenset({Phase.FENCING, Phase.STOPPED}),
    Phase.STOPPED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class SequencerStatus:
    """What a sequencer has to tell, for health, metrics and tests; `seq` and `head_snapshot_id` are in the log.

    `decided` counts by verdict what this process has written, `internal` those of them that were refused for a defect of
    this program, `doubts` how often it has loaded again, `zombies` how many records of a lower epoch it has skipped.
    """

    phase: Phase = Phase.STARTING
    epoch: int = 0
    seq: int = 0
    head_snapshot_id: int = 0
    decided: Mapping[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    internal: int = 0
    transactions: int = 0
    doubts: int = 0
    zombies: int = 0


@dataclass(frozen=True, slots=True)
class _Writing:
    """A transaction that is being committed, and what will be true when it is."""

    done: Future[None]
    seq: int
    head_snapshot_id: int
    verdicts: Mapping[Verdict, int]
    internal: int


def run_sequencer(settings: Settings, *, standby: bool = False, stop: threading.Event | None = None) -> int:
    """Runs a sequencer until it is stopped (exit code 0) or fenced (`EXIT_FENCED`: come back with ``standby``).

    For a process of its own: it changes how the process collects garbage.
    """
    # The state is large, long-lived and without cycles: to walk it again and again costs a third of the speed.
    gc.disable()
    sequencer = Sequencer(settings, handlers=load_row_handlers(), stop=stop)
    try:
        sequencer.run(standby=standby)
    except FencedError as error:
        _logger.warning("fenced: %s", error)
        return EXIT_FENCED
    return 0


class Sequencer:
    """One sequencer process. Not thread-safe, but for `status` and the stop event.

    Args:
        settings: which log, where, and the size of a batch.
        handlers: row handlers by name, for tables with ``on_conflict`` handler:NAME.
        stop: ends `run` in an orderly way when it is set.
        clock_ms: the time for ``decided_at_ms``.
        schema_ids: record names by a schema registry's ids; proposals in Confluent's wire format are then accepted.
        decides_as_made: give each proposal the time it was made at instead of the clock's, for history that is taken over.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        handlers: Mapping[str, RowHandler] | None = None,
        stop: threading.Event | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        schema_ids: Mapping[int, str] | None = None,
        decides_as_made: bool = False,
    ) -> None:
        self._settings = settings
        self._decides_as_made = decides_as_made
        self._topics = topics_of(settings.log)
        self._handlers = handlers or {}
        self._stop = stop or threading.Event()
        self._clock_ms = clock_ms
        self._schema_ids = schema_ids or {}
        self._id = uuid.uuid4().bytes
        self._admin = make_admin(settings)
        self._replica: Replica | None = None
        self._producer: TransactionalProducer | None = None
        self._beaten_at = 0.0
        self._undecidable: dict[Position, Exception] = {}
        self.status = SequencerStatus()

    def run(self, *, standby: bool = False) -> None:
        """Serves until the stop event is set.

        Raises:
            FencedError: another sequencer has taken over.
            LogIntegrityError: the log is not what it was.
            LogLossError: proposals are gone that were never decided.
            LogUnavailableError: no broker has answered.
        """
        try:
            if standby:
                self._stand_by()
            while not self._stop.is_set():
                try:
                    self._serve(self._load(self._fence()))
                except DoubtError as doubt:
                    _logger.warning("in doubt, loading again: %s", doubt)
                    self._drop()
                    self._tell(doubts=self.status.doubts + 1)
        finally:
            self._drop()
            self._move(Phase.STOPPED)

    def _move(self, phase: Phase) -> None:
        if phase not in LEGAL_MOVES[self.status.phase]:
            raise AssertionError(f"a sequencer does not go from {self.status.phase} to {phase}")
        _logger.info("%s -> %s", self.status.phase, phase)
        self._tell(phase=phase)

    def _tell(self, **news: object) -> None:
        self.status = replace(self.status, **news)  # type: ignore[arg-type]

    def _tell_of(self, replica: Replica) -> None:
        self._tell(
            epoch=replica.position.epoch,
            seq=replica.position.seq,
            head_snapshot_id=replica.state.head_snapshot_id,
            zombies=replica.zombies,
        )

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        if self._replica is not None:
            self._replica.close()
            self._replica = None

    # --- standby ------------------------------------------------------------------------------------------------------

    def _stand_by(self) -> None:
        """Replays along until the active sequencer has not been heard for too long."""
        self._move(Phase.STANDBY)
        replica = self._replica = self._open_replica()
        for _ in replica.follow_to_end():
            if self._stop.is_set():
                return
        heartbeats = HeartbeatListener(self._settings, replica.position.log_id)
        try:
            while not self._stop.is_set() and heartbeats.silent_s() < TAKEOVER_AFTER_S:
                replica.follow(timeout_s=IDLE_POLL_S)
                self._tell_of(replica)
        finally:
            heartbeats.close()

    def _open_replica(self) -> Replica:
        return Replica(
            self._settings,
            checkpoints=load_checkpoints(self._settings),
            on_skipped=lambda error: _logger.warning("a checkpoint does not fit the log: %s", error),
        )

    # --- fence and load -----------------------------------------------------------------------------------------------

    def _fence(self) -> TransactionalProducer:
        self._move(Phase.FENCING)
        message_bytes_max = topic_message_bytes_max(self._settings, self._topics.results)
        producer = self._producer = TransactionalProducer(
            self._settings, transactional_id_of(self._settings.log), batch_bytes_max=message_bytes_max
        )
        producer.fence()
        return producer

    def _load(self, producer: TransactionalProducer) -> Decider:
        """The state at the end of the log, which nobody else can move any more."""
        self._move(Phase.LOADING)
        replica = self._replica = self._replica or self._open_replica()
        for _ in replica.follow_to_end():
            if replica.has_genesis and self._beat_is_due():
                producer.write_all(
                    [self._heartbeat(replica.position.log_id, replica.position.epoch, replica.position.seq)]
                )
        self._tell_of(replica)
        state, position = replica.state, replica.position
        check_topics(self._settings, state.partitions)
        allow_proposal_bytes(self._settings, state.settings.proposal_bytes_max)
        replica.close()
        self._replica = None
        return Decider(
            state,
            prev_hash=position.hash,
            epoch=position.epoch + 1,
            topics=self._topics,
            handlers=self._handlers,
            schema_ids=self._schema_ids,
            undecidable=self._undecidable,
        )

    def _check_positions(self, next_offsets: Mapping[int, int]) -> None:
        """Every proposal that was not decided must still be there: our own trim is only below decided ones."""
        topic = self._topics.proposals
        firsts = first_offsets(self._settings, self._admin, topic, next_offsets)
        ends = end_offsets(self._settings, self._admin, topic, next_offsets, committed=False)
        for partition, expected in next_offsets.items():
            first, end = firsts[partition], ends[partition]
            if first > expected:
                raise LogLossError(
                    f"{topic} partition {partition} starts at offset {first}, but {expected} is the next to decide: "
                    f"the proposals from {expected} to {first - 1} are gone without an answer (retention, or deleted "
                    "records)"
                )
            if end < expected:
                raise LogIntegrityError(
                    f"{topic} partition {partition} ends at offset {end}, but proposals up to {expected - 1} were "
                    "decided: the topic was made anew, or restored from a backup"
                )

    # --- serve --------------------------------------------------------------------------------------------------------

    def _serve(self, decider: Decider) -> None:
        state = decider.state
        starts = {partition: state.next_offsets.get(partition, 0) for partition in range(state.partitions)}
        self._check_positions(starts)
        source = ProposalSource(self._settings, starts)
        writer = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._tell(epoch=decider.epoch)
        self._move(Phase.SERVING)
        try:
            self._serve_from(source, decider, writer)
        finally:
            writer.shutdown(wait=True)
            source.close()

    def _serve_from(self, source: ProposalSource, decider: Decider, writer: ThreadPoolExecutor) -> None:
        """Decides ahead while a transaction is being committed; what has come by then is the next one."""
        batch, writing = Batch(), None
        proposal_bytes_max = decider.state.settings.proposal_bytes_max
        while not self._stop.is_set():
            room = self._settings.batch_records_max - len(batch)
            messages = source.poll(room, IDLE_POLL_S if writing is None else BUSY_POLL_S)
            decider.decide_all(messages, batch, now_ms=None if self._decides_as_made else self._clock_ms())
            if writing is not None and (writing.done.done() or self._is_full(batch)):
                self._finish(writing)
                writing = None
            if writing is None and (len(batch) or self._beat_is_due()):
                writing = self._start(writer, decider, batch)
                batch = Batch()
            if decider.state.settings.proposal_bytes_max > proposal_bytes_max and writing is not None:
                self._finish(writing)
                raise DoubtError("the log takes larger proposals now, which needs larger messages")
        if writing is not None:
            self._finish(writing)

    def _is_full(self, batch: Batch) -> bool:
        settings = self._settings
        return len(batch) >= settings.batch_records_max or batch.size_bytes >= settings.batch_bytes_max

    def _start(self, writer: ThreadPoolExecutor, decider: Decider, batch: Batch) -> _Writing:
        assert self._producer is not None
        records = decider.sealed(batch)
        seq, head = decider.state.next_seq - 1, decider.state.head_snapshot_id
        if self._beat_is_due():
            records.append(self._heartbeat(decider.state.log_id, decider.epoch, seq))
        if not gc.isenabled():
            gc.collect(1)
        return _Writing(writer.submit(self._producer.write_all, records), seq, head, batch.verdicts, batch.internal)

    def _finish(self, writing: _Writing) -> None:
        writing.done.result()
        decided = {verdict: count + writing.verdicts[verdict] for verdict, count in self.status.decided.items()}
        transactions = self.status.transactions + 1
        self._tell(
            seq=writing.seq,
            head_snapshot_id=writing.head_snapshot_id,
            decided=decided,
            internal=self.status.internal + writing.internal,
            transactions=transactions,
        )

    # --- signs of life ------------------------------------------------------------------------------------------------

    def _beat_is_due(self) -> bool:
        return time.monotonic() - self._beaten_at >= HEARTBEAT_INTERVAL_S

    def _heartbeat(self, log_id: bytes, epoch: int, seq: int) -> Records:
        self._beaten_at = time.monotonic()
        heartbeat = Heartbeat(log_id, self._id, epoch, seq, self._clock_ms())
        return Records(self._topics.control, 0, [encode_heartbeat(heartbeat)])
