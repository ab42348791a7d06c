"""The sequencer's process: load, take over, serve; any doubt: throw the state away and load again.

One process is active. Which one, the log says: whoever's takeover the chain has accepted last. Others stand by: they
replay along and take over when the active one has not been heard for too long, or has said that it leaves. Whoever is
fenced ends with `EXIT_FENCED` and comes back as a standby. What has been consumed is what the outcomes say, not a
consumer group.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from commitlog.config import Settings
from commitlog.domain.deciding.rules import RowHandler
from commitlog.domain.model import Position, Verdict
from commitlog.domain.state.index import SequencerState
from commitlog.errors import FencedError, LogRefusedError, LogUnavailableError
from commitlog.log.active import Active, Limits
from commitlog.log.batches import Batch, Decider
from commitlog.log.chain import ChainState, Skip
from commitlog.log.checkpoint import load_checkpoints
from commitlog.log.connection import end_offsets
from commitlog.log.garbage import Garbage
from commitlog.log.heartbeats import HeartbeatListener
from commitlog.log.losses import check_proposals, check_told, first_proposals, last_told
from commitlog.log.ports import Ports
from commitlog.log.producing import APPEND_TIMEOUT_MS, KafkaResults, KafkaVoice
from commitlog.log.proposals import ProposalSource, read_proposals
from commitlog.log.replica import Replica
from commitlog.log.reports import Report
from commitlog.log.row_handlers import load_row_handlers
from commitlog.log.serving import DoubtError, SentBatch, Serving, TakeoverAttempt, Telling
from commitlog.log.topic_settings import allow_proposal_bytes, check_topics, topic_message_bytes_max
from commitlog.log.topics import topics_of
from commitlog.log.traced import TracedResults
from commitlog.observing.durations import Durations
from commitlog.observing.tracing import spans

EXIT_FENCED = 75
TAKEOVER_AFTER_S = 1.5
TAKEOVER_DOUBLINGS_MAX = 6
LIVED_S = 10.0
"""Whoever was heard for so long since its takeover was not silenced by what had waited before."""
STANDBY_POLL_S = 0.05
AWAY_PAUSE_S = 0.5
DOUBT_PAUSE_S_MIN = 0.1
DOUBT_PAUSE_S_MAX = 5.0
"""The first doubt costs no pause; what is in doubt again before anything was accepted will not pass by haste."""
LEAVE_TIMEOUT_S = 10.0
LEAVE_FLUSH_S = 1.0
CAUGHT_UP_RECORDS = 100

_logger = logging.getLogger("commitlog.sequencer")


class Phase(StrEnum):
    """Where a sequencer is on its way."""

    STARTING = "STARTING"
    LOADING = "LOADING"
    STANDBY = "STANDBY"
    TAKING_OVER = "TAKING_OVER"
    SERVING = "SERVING"
    FENCED = "FENCED"
    STOPPED = "STOPPED"


LEGAL_MOVES: Mapping[Phase, frozenset[Phase]] = {
    Phase.STARTING: frozenset({Phase.LOADING, Phase.STOPPED}),
    Phase.LOADING: frozenset({Phase.LOADING, Phase.STANDBY, Phase.TAKING_OVER, Phase.FENCED, Phase.STOPPED}),
    Phase.STANDBY: frozenset({Phase.TAKING_OVER, Phase.LOADING, Phase.STOPPED}),
    Phase.TAKING_OVER: frozenset({Phase.SERVING, Phase.STANDBY, Phase.LOADING, Phase.FENCED, Phase.STOPPED}),
    Phase.SERVING: frozenset({Phase.LOADING, Phase.FENCED, Phase.STOPPED}),
    Phase.FENCED: frozenset({Phase.STOPPED}),
    Phase.STOPPED: frozenset(),
}


class _Loaded(NamedTuple):
    """What was replayed, and what taking over needs."""

    heartbeats: HeartbeatListener
    replica: Replica
    results: KafkaResults
    voice: KafkaVoice
    answer_bytes_max: int


@dataclass(frozen=True, slots=True)
class SequencerStatus:
    """What a sequencer has to tell, for health, metrics and tests; `seq` and `head_snapshot_id` are accepted.

    `next_offsets` is by partition where the first proposal without an outcome would be, empty before that is known. `decided`
    counts by verdict what of this process was accepted, in how many `batches`, `internal` those of them that were
    refused for a defect of this program; `accepted_after` how long, by the clocks, after the first proposal of each batch was
    made its outcome was accepted; `doubts` how often it has loaded again; `skipped` which records of the results did
    not count.
    """

    phase: Phase = Phase.STARTING
    epoch: int = 0
    seq: int = 0
    head_snapshot_id: int = 0
    next_offsets: Mapping[int, int] = field(default_factory=dict)
    decided: Mapping[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    internal: int = 0
    batches: int = 0
    accepted_after: Durations = field(default_factory=Durations)
    doubts: int = 0
    skipped: Mapping[Skip, int] = field(default_factory=Counter)


def run_sequencer(
    settings: Settings,
    *,
    standby: bool = False,
    stop: threading.Event | None = None,
    garbage: Garbage | None = None,
    on_made: Callable[[Sequencer], None] = lambda sequencer: None,
    on_doubt: Callable[[str], None] | None = None,
    traced: bool = False,
) -> int:
    """Runs a sequencer until it is stopped (exit code 0) or fenced (`EXIT_FENCED`: come back with ``standby``).

    ``on_made`` is told of it before it begins.
    """
    handlers = load_row_handlers()
    sequencer = Sequencer(settings, handlers=handlers, stop=stop, garbage=garbage, on_doubt=on_doubt, traced=traced)
    on_made(sequencer)
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
        stop: ends `run` in an orderly way when it is set: what was decided is told, and a standby takes over at once.
        clock_ms: the time for ``decided_at_ms``; None is the machine's.
        decides_as_made: give each proposal the time it was made at instead of the clock's, for history that is taken over.
        garbage: `OwnGarbage` where nothing else runs in this process.
        on_doubt: told why it loads again, each time, once that has not helped for some seconds.
        traced: whether each decision is a span, where the proposal was sent in one.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        handlers: Mapping[str, RowHandler] | None = None,
        stop: threading.Event | None = None,
        clock_ms: Callable[[], int] | None = None,
        decides_as_made: bool = False,
        garbage: Garbage | None = None,
        on_doubt: Callable[[str], None] | None = None,
        traced: bool = False,
    ) -> None:
        self._settings = settings
        self._traced = traced
        self._decides_as_made = decides_as_made
        self._garbage = garbage or Garbage()
        self._topics = topics_of(settings.log)
        self._handlers = handlers or {}
        self._stop = stop or settings.machine.event()
        self._clock_ms = clock_ms or settings.machine.now_ms
        self._instances: set[bytes] = set()
        self._served_epoch: int | None = None
        self._undecidable: dict[Position, Exception] = {}
        self._has_loaded = False
        self._allowed_bytes = 0
        self._doubt_pause_s = 0.0
        self._on_doubt = on_doubt or (lambda _: None)
        self.status = SequencerStatus()

    def run(self, *, standby: bool = False) -> None:
        """Serves until the stop event is set.

        Args:
            standby: wait until the active sequencer is not heard any more; else take its place as soon as all is loaded.

        Raises:
            FencedError: another sequencer has taken over.
            LogIntegrityError: the log is not what it was.
            LogLossError: something is gone that was decided, told, or never decided.
            LogUnavailableError: no broker has answered at the start.
        """
        self._garbage.begin()
        try:
            while not self._stop.is_set():
                try:
                    # What an attempt has opened is closed with it: nothing of it may still be on its way in the next one.
                    with ExitStack() as held:
                        self._become_active(self._load(held), waits=standby and self._served_epoch is None)
                except DoubtError as doubt:
                    _logger.warning("not sure what the log holds, loading it again: %s", doubt)
                    self._tell(doubts=self.status.doubts + 1)
                    if self._doubt_pause_s >= DOUBT_PAUSE_S_MAX:
                        self._on_doubt(f"the log has to be loaded again and again: {doubt}")
                    self._stop.wait(self._doubt_pause_s)
                    self._doubt_pause_s = min(max(2 * self._doubt_pause_s, DOUBT_PAUSE_S_MIN), DOUBT_PAUSE_S_MAX)
                except LogUnavailableError as error:
                    if not self._has_loaded:
                        raise
                    _logger.warning("trying again: %s", error)
                    self._stop.wait(AWAY_PAUSE_S)
        except FencedError:
            self._move(Phase.FENCED)
            raise
        finally:
            self._move(Phase.STOPPED)

    def _become_active(self, loaded: _Loaded, *, waits: bool) -> None:
        """Waits for its turn and serves, as often as another one is faster."""
        while not self._stop.is_set():
            if waits:
                self._stand_by(loaded.replica, loaded.heartbeats)
            if self._stop.is_set():
                return
            if self._take_over(loaded):
                self._serve(loaded)
                return
            self._check_own(loaded.replica.chain)
            waits = True

    def _move(self, phase: Phase) -> None:
        if phase not in LEGAL_MOVES[self.status.phase]:
            raise AssertionError(f"a sequencer does not go from {self.status.phase} to {phase}")
        # Whoever waits for a broker begins again and again: that is said by who tries again, once a minute.
        begins = self.status.phase is Phase.STARTING or (self.status.phase, phase) == (Phase.LOADING, Phase.STOPPED)
        _logger.log(logging.DEBUG if begins else logging.INFO, "%s -> %s", self.status.phase, phase)
        self._tell(phase=phase)

    def _tell(self, **news: object) -> None:
        self.status = replace(self.status, **news)  # type: ignore[arg-type]

    def _tell_of(self, replica: Replica) -> None:
        if replica.has_genesis:
            self._tell(
                epoch=replica.chain.epoch,
                seq=replica.position.seq,
                head_snapshot_id=replica.state.head_snapshot_id,
                next_offsets=_next_offsets(replica.state),
                skipped=Counter(replica.skipped),
            )

    # --- loading and standing by --------------------------------------------------------------------------------------

    def _load(self, held: ExitStack) -> _Loaded:
        """Replays the log to where it ends now, and makes ready what taking over needs; all of it is closed with ``held``."""
        self._move(Phase.LOADING)
        if self._served_epoch is not None:
            self._garbage.has_thrown_away()
        heartbeats = HeartbeatListener(self._settings)
        held.callback(heartbeats.close)
        replica = Replica(
            self._settings,
            checkpoints=load_checkpoints(self._settings),
            on_skipped=lambda error: _logger.warning("a checkpoint is skipped: %s", error),
        )
        held.callback(replica.close)
        for _ in replica.follow_to_end():
            heartbeats.listen()
        # What was decided during a long load would have to be replayed while nobody serves.
        while self._caught_up(replica, heartbeats) >= CAUGHT_UP_RECORDS and not self._stop.is_set():
            pass
        state = replica.state
        told = last_told(self._settings, state.log_id, state.partitions)
        firsts = first_proposals(self._settings, state.partitions)
        self._caught_up(replica, heartbeats)
        check_told(self._settings, told, seq=replica.chain.seq)
        newest_ids = {partition: window.newest_id for partition, window in state.duplicates.items()}
        check_proposals(self._settings, firsts, _next_offsets(state), newest_ids)
        self._tell_of(replica)
        check_topics(self._settings, state.partitions)
        answer_bytes_max = self._make_room(state.settings.proposal_bytes_max)
        results = KafkaResults(self._settings, self._topics.results, batch_bytes_max=answer_bytes_max)
        held.callback(results.close)
        voice = KafkaVoice(self._settings, batch_bytes_max=answer_bytes_max)
        held.callback(voice.close)
        self._has_loaded = True
        return _Loaded(heartbeats, replica, results, voice, answer_bytes_max)

    def _caught_up(self, replica: Replica, heartbeats: HeartbeatListener) -> int:
        """Replays what has come since the last look; how many records that was."""
        count, epoch = 0, replica.chain.epoch
        for replayed in replica.follow_to_end():
            count += replayed
            heartbeats.listen()
        if replica.chain.epoch != epoch:
            heartbeats.took_over()
        return count

    def _stand_by(self, replica: Replica, heartbeats: HeartbeatListener) -> None:
        """Replays along until the active sequencer has not been heard for too long."""
        self._move(Phase.STANDBY)
        while not self._stop.is_set() and self._is_patient(replica, heartbeats):
            epoch = replica.chain.epoch
            replica.follow(timeout_s=STANDBY_POLL_S)
            if replica.chain.epoch != epoch:
                heartbeats.took_over()
            self._tell_of(replica)

    def _is_patient(self, replica: Replica, heartbeats: HeartbeatListener) -> bool:
        """Whether the active sequencer may still be alive.

        It says nothing while it decides one proposal. If that takes longer than a silence may, whoever takes over meets the
        same proposal: so each takeover after which nothing was decided of what waits makes the next one wait twice as long.
        Takeovers while the log was idle have no part in that.
        """
        silent_s = heartbeats.silent_s(replica.chain)
        doublings = min(replica.chain.epoch - replica.position.epoch, TAKEOVER_DOUBLINGS_MAX)
        if heartbeats.heard.lived_s(replica.chain) >= LIVED_S:
            doublings = 0
        if silent_s < TAKEOVER_AFTER_S or silent_s >= TAKEOVER_AFTER_S * 2**doublings:
            return silent_s < TAKEOVER_AFTER_S
        decided = _next_offsets(replica.state)
        ends = end_offsets(self._settings, self._topics.proposals, decided)
        return any(end > decided[partition] for partition, end in ends.items())

    # --- taking over --------------------------------------------------------------------------------------------------

    def _take_over(self, loaded: _Loaded) -> bool:
        """Appends a takeover and reads it back; False when another one was faster.

        Raises:
            DoubtError: it is not known where the takeover is, if anywhere.
            FencedError: this one was active, and another one has taken over since.
        """
        self._move(Phase.TAKING_OVER)
        heartbeats, replica, results, *_ = loaded
        self._check_own(replica.chain)
        attempt = TakeoverAttempt(replica.chain, instance=self._settings.machine.unique(), now_ms=self._clock_ms())
        # Its report may get lost, and it may count all the same.
        self._instances.add(attempt.takeover.instance)
        reports: list[Report] = []
        results.append([attempt.record], lambda index, report: reports.append(report))
        deadline = self._settings.machine.now_s() + 2 * APPEND_TIMEOUT_MS / 1000
        while not reports and self._settings.machine.now_s() < deadline:
            results.poll(0.1)
        offset = attempt.offset_of(reports[0] if reports else Report(None, "no report came"))
        for _ in replica.follow_to(offset + 1):
            pass
        self._tell_of(replica)
        if attempt.has_won(replica.chain):
            return True
        if replica.chain.instance in self._instances:
            raise DoubtError("an earlier takeover of this sequencer came late, and counts")
        # Whoever was faster lives.
        heartbeats.took_over()
        return False

    def _check_own(self, chain: ChainState) -> None:
        """Whoever was active and has loaded again may only follow itself."""
        served = self._served_epoch
        if served is not None and chain.epoch > served and chain.instance not in self._instances:
            raise FencedError(f"another sequencer has taken over (epoch {chain.epoch}) while this one was in doubt")

    # --- serving ------------------------------------------------------------------------------------------------------

    def _serve(self, loaded: _Loaded) -> None:
        heartbeats, replica, results, voice, answer_bytes_max = loaded
        chain, state, untold = replica.chain, replica.state, list(replica.untold)
        assert chain.instance is not None
        self._served_epoch = chain.epoch
        decider = Decider(
            state,
            prev_hash=chain.hash,
            epoch=chain.epoch,
            topics=self._topics,
            handlers=self._handlers,
            undecidable=self._undecidable,
            answer_bytes_max=answer_bytes_max,
        )
        serving, telling = Serving(chain, replica.next_offset), Telling(replica.told)
        heartbeats.rest()
        replica.close()
        made = spans() if self._traced else None
        traced = None if made is None else TracedResults(results, made, self._settings.log)
        on_message = None if traced is None else traced.begin
        proposals = ProposalSource(self._settings, _next_offsets(state), on_message=on_message)
        ports = Ports(traced or results, voice, proposals, self._clock_ms, self._settings.machine.now_s)
        active = Active(
            decider,
            serving,
            telling,
            ports,
            self._topics,
            limits=Limits(
                self._settings.batch_records_max, self._settings.batch_bytes_max, self._settings.batch_wait_ms / 1000
            ),
            decides_as_made=self._decides_as_made,
            on_accepted=partial(self._make_room_for_settings, decider),
            on_replied=self._replied,
        )
        self._allowed_bytes = state.settings.proposal_bytes_max
        self._garbage.has_loaded()
        try:
            active.tell_again(untold, partial(read_proposals, self._settings))
            self._move(Phase.SERVING)
            while not self._stop.is_set():
                active.step()
            self._leave(active, voice)
        finally:
            proposals.close()

    def _leave(self, active: Active, voice: KafkaVoice) -> None:
        """Waits until all that was appended is told, and says so."""
        deadline = self._settings.machine.now_s() + LEAVE_TIMEOUT_S
        while not active.is_quiet and self._settings.machine.now_s() < deadline:
            active.settle()
        active.leave()
        voice.flush(LEAVE_FLUSH_S)

    def _make_room(self, proposal_bytes_max: int) -> int:
        """Has the topics take what the log takes now; gives how much those of its answers do. Where Kafka lets nobody have them
        take so much, the log goes on with what they take."""
        try:
            allow_proposal_bytes(self._settings, proposal_bytes_max)
        except LogRefusedError as error:
            _logger.warning("topics do not take all that the log's settings allow: %s", error)
        topics = self._topics
        return topic_message_bytes_max(self._settings, topics.results, topics.receipts, topics.dead_letters)

    def _make_room_for_settings(self, decider: Decider) -> None:
        """Whoever hears that the log takes more now can send it at once."""
        wanted = decider.state.settings.proposal_bytes_max
        if wanted > self._allowed_bytes:
            self._allowed_bytes = wanted
            decider.answer_bytes_max = self._make_room(wanted)

    def _replied(self, sent: SentBatch, batch: Batch) -> None:
        self._doubt_pause_s = 0.0
        if batch.made_at_ms is not None:
            self.status.accepted_after.add((self._clock_ms() - batch.made_at_ms) / 1000)
        decided = {verdict: count + batch.verdicts[verdict] for verdict, count in self.status.decided.items()}
        head = max(self.status.head_snapshot_id, batch.head_snapshot_id)
        self._tell(
            seq=sent.seq,
            head_snapshot_id=head,
            next_offsets={**self.status.next_offsets, **batch.next_offsets},
            decided=decided,
            internal=self.status.internal + batch.internal,
            batches=self.status.batches + 1,
        )
        self._garbage.is_due()


def _next_offsets(state: SequencerState) -> dict[int, int]:
    return {partition: state.next_offsets.get(partition, 0) for partition in range(state.partitions)}
