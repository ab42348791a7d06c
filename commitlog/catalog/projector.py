"""The projector: follows the results and writes the catalog, one SQL transaction per batch with its new position.

The position is checked against the one it read when it began, under a row lock, so two projectors cannot both write and
projecting twice changes nothing. After any failure of PostgreSQL, and when a rebuilt catalog has taken the place of the
one it knew, it forgets what it knew and starts from the position.

One projects at a time: whose turn it is holds a lock of PostgreSQL's as long as its session lives, and others stand by. One
who is frozen loses its turn when the log has gone on without it; the position tells it when it wakes.

PostgreSQL that is away, full or restarting is waited for. Any other failure is some outcome's: the batch is split until
that one is alone, what comes before it is projected, and the projector ends with a ProjectionError that names it.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from uuid import UUID

import psycopg

from commitlog.catalog.connecting import is_too_much, is_weather, plain, told_plainly
from commitlog.catalog.pacing import Pace
from commitlog.catalog.projecting.statistics import StatisticsDecoder
from commitlog.catalog.projector_status import ProjectorStatus
from commitlog.catalog.queries import PROJECTOR_NAME, STANDBY_NAME
from commitlog.catalog.shares import shared_out
from commitlog.catalog.tables import OWN_SCHEMA
from commitlog.catalog.written import Milepost, Move, WrittenCatalog, connected, meanwhile
from commitlog.config import Settings
from commitlog.domain.model import ChangeKind, Genesis, Outcome, Verdict
from commitlog.domain.model.definitions import counted
from commitlog.errors import CatalogMismatchError, CatalogUnavailableError, CommitLogError, ProjectionError
from commitlog.log.read_ahead import ReadAhead
from commitlog.log.results import LogPosition, ResultRecord, ResultsReader, results_end
from commitlog.observing.tracing import spans

RETRY_S_MIN = 0.05
RETRY_S_MAX = 2.0
SAID_EVERY_S = 60.0
MILEPOST_EVERY = 1_000
MILEPOST_BYTES = 64 * 1024
"""An outcome of so many bytes is a milepost, too: who looks for one near it would read and decode megabytes of it."""
AHEAD_BYTES_MAX = 16 * 1024 * 1024
SMALL_RECORDS = 64
SMALL_BYTES = 64 * 1024

TURN_POLL_S = 0.2
TURN_SILENT_S = 30.0
"""For so long may whose turn it is leave what the log has, and say nothing to PostgreSQL, before the turn is another's."""

LOSSES_MAX = 5
"""So often may the connection be lost at one outcome before that outcome is taken for the cause."""

_logger = logging.getLogger("commitlog.projector")


class _CatalogReplaced(Exception):  # noqa: N818
    """Another catalog stands where the one was that a session knows, or where there was none."""


class Projector:
    """Projects one log into one catalog until it is told to stop.

    Args:
        settings: the log, the database, and how many outcomes one SQL transaction takes at most.
        decode_statistics: expands a data file's opaque statistics.
        on_batch: told after every batch, with the status.
        on_waiting: told what PostgreSQL says, each time that it is tried again in vain, once that has lasted for some seconds.
        own: the schema of our own tables; another one than usual holds DuckLake's tables too.
        connect: makes a connection to the catalog; None is to PostgreSQL.
        traced: whether a span says of each outcome whose decision is one when it was visible.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        decode_statistics: StatisticsDecoder,
        on_batch: Callable[[ProjectorStatus], None] | None = None,
        on_waiting: Callable[[str], None] | None = None,
        own: str = OWN_SCHEMA,
        connect: Callable[[], WrittenCatalog] | None = None,
        traced: bool = False,
    ) -> None:
        self.settings = settings
        self.status = ProjectorStatus()
        self.connect = connect or partial(connected, settings, decode_statistics=decode_statistics, own=own)
        self.catalog_oid: int | None = None
        self.losses = Losses()
        self.traced = traced
        self._on_batch = on_batch or (lambda _: None)
        self._on_waiting = on_waiting or (lambda _: None)

    def run(self, stop: threading.Event) -> None:
        """Project until ``stop`` is set, as soon as no other projector does; a PostgreSQL that is away is waited for.

        Raises:
            CatalogMismatchError: the catalog belongs to another log, or is written by another one all the same.
            CatalogRefusedError: this user may not write the catalog, or something of it is missing.
            ProjectionError: an outcome cannot be written; all before it are.
            LogIntegrityError, LogLossError: the results do not fit the catalog's position.
        """
        pause_s = RETRY_S_MIN
        said_at = -SAID_EVERY_S
        while not stop.is_set():
            batches = self.status.batches
            try:
                self._run_connected(stop)
            except _CatalogReplaced:
                self.status.restarts += 1
            except (psycopg.OperationalError, CatalogUnavailableError) as error:
                self.status.restarts += 1
                if self.status.batches > batches:
                    pause_s = RETRY_S_MIN
                if self.settings.machine.now_s() - said_at >= SAID_EVERY_S:
                    said_at = self.settings.machine.now_s()
                    _logger.warning("waiting for PostgreSQL: %s", plain(error))
                if pause_s >= RETRY_S_MAX:
                    self._on_waiting(plain(error))
                stop.wait(pause_s)
                pause_s = min(pause_s * 2, RETRY_S_MAX)

    def project_to_end(self) -> None:
        """Project what the log holds now, then return; also when another projector makes the catalog at the same moment.

        Raises:
            CatalogUnavailableError: PostgreSQL does not answer; and what ``run`` raises.
        """
        with told_plainly(self.settings.database_url), self.connect() as catalog, self.reader(catalog) as reader:
            session = Session(self, catalog, reader)
            try:
                for records in reader.read_to_end(records_max=self.settings.projector_outcomes_max):
                    session.apply(records, reader.next_offset)
            except _CatalogReplaced:
                # Whoever has made it projects it; but it may be another log's.
                self.reader(catalog).close()

    def _run_connected(self, stop: threading.Event) -> None:
        with told_plainly(self.settings.database_url), self.connect() as catalog:
            if not catalog.take_turn():
                self._stand_by(catalog, stop)
            if stop.is_set():
                return
            catalog.name(PROJECTOR_NAME)
            with self.reader(catalog) as reader, for_batches():
                self._follow(catalog, reader, stop)

    def _follow(self, catalog: WrittenCatalog, reader: ResultsReader, stop: threading.Event) -> None:
        """Project what comes until ``stop`` is set."""
        machine, pace, session = self.settings.machine, Pace(), Session(self, catalog, reader)
        ahead = ReadAhead(reader, records_max=self.settings.projector_outcomes_max, bytes_max=AHEAD_BYTES_MAX)
        with meanwhile(catalog, ahead.read_on):
            while not stop.is_set():
                if pause_s := pace.pause_s(machine.now_s()):
                    stop.wait(pause_s)
                records, took_s = ahead.take(), machine.now_s()
                session.apply(records, ahead.next_offset)
                pace.wrote(len(records), took_s, is_awaited=catalog.is_awaited)

    def _stand_by(self, catalog: WrittenCatalog, stop: threading.Event) -> None:
        """Wait for a turn, and take it from one who leaves what the log has."""
        catalog.name(STANDBY_NAME)
        _logger.info("another projector writes the catalog; standing by until it stops")
        self.status.is_standby = True
        # How far it was when it had a turn says nothing of the catalog any more: by that it would be ever further behind.
        self.status.forget_position()
        machine = self.settings.machine
        heeded, since_s = catalog.heeded(), machine.now_s()
        try:
            while not stop.is_set() and not catalog.take_turn():
                stop.wait(TURN_POLL_S)
                before, heeded = heeded, catalog.heeded()
                if heeded is None or heeded != before or heeded >= results_end(self.settings):
                    since_s = machine.now_s()
                elif machine.now_s() - since_s > TURN_SILENT_S:
                    _logger.warning("the projector whose turn it is has stopped applying results; ending its turn")
                    catalog.end_turn(TURN_SILENT_S)
                    since_s = machine.now_s()
        finally:
            self.status.is_standby = False

    def reader(self, catalog: WrittenCatalog) -> ResultsReader:
        """The results after what the catalog holds."""
        return ResultsReader(self.settings, after=self._read_position(catalog), traced=self.traced, expanded=True)

    def _read_position(self, catalog: WrittenCatalog) -> LogPosition | None:
        """How far the catalog is; None when there is none yet."""
        found = catalog.position()
        self.catalog_oid = None if found is None else found.catalog_oid
        return None if found is None else LogPosition(*found[1:])

    def applied(self, position: LogPosition, next_offset: int, outcomes: list[Outcome]) -> None:
        """Note a batch that is visible."""
        self.status.applied_seq = position.seq
        self.status.next_offset = next_offset
        self.status.batches += 1
        if outcomes:
            self.status.head_snapshot_id = outcomes[-1].head_snapshot_id
            waited_ms = self.settings.machine.now_ms() - outcomes[0].decided_at_ms
            self.status.visible.add(waited_ms / 1000)
            self.status.note_sites(outcomes)
        self._on_batch(self.status)

    def trace(self, records: Iterable[ResultRecord]) -> None:
        """Say of outcomes that they are visible, in the spans of their decisions."""
        made = spans()
        for record in records:
            if made is not None and record.traceparent is not None:
                outcome = record.outcome
                made.visible(
                    record.traceparent,
                    log=self.settings.log,
                    seq=outcome.seq,
                    decided_at_ms=outcome.decided_at_ms,
                    snapshot_id=outcome.snapshot_id,
                )


class Losses:
    """How often the connection was lost after the same outcome: what comes next may be what PostgreSQL dies of."""

    def __init__(self) -> None:
        self._seq = -2
        self._times = 0

    def at(self, seq: int) -> int:
        """How often after this outcome."""
        return self._times if seq == self._seq else 0

    def add(self, seq: int) -> int:
        """Note one more after this outcome; how many that makes."""
        self._seq, self._times = seq, self.at(seq) + 1
        return self._times


class Session:
    """One connection's life: what it knows of the catalog ends with it. Without a reader it begins with the genesis."""

    def __init__(self, projector: Projector, catalog: WrittenCatalog, reader: ResultsReader | None) -> None:
        self.projector = projector
        self.catalog = catalog
        self.position = None if reader is None else reader.position
        self.next_offset = projector.status.next_offset = 0 if reader is None else reader.next_offset
        self.catalog_oid = projector.catalog_oid
        if self.position is not None:
            projector.status.applied_seq = self.position.seq
            catalog.open(self.position.log_id)

    def apply(self, records: list[ResultRecord], next_offset: int) -> None:
        """Project verified records, in as many SQL transactions as they need.

        Everything before ``next_offset`` has been read. Without records it is noted too: readers wait for the log's end,
        which may be a record that is no outcome.

        Raises:
            ProjectionError: one of them cannot be projected; all before it are.
        """
        if not records:
            # A database that was killed, or another one in its place, may lack what was projected: nothing may come of the log
            # for long, and whoever waits for the catalog waits for that.
            self.catalog.check_connected()
            self._note_read(next_offset)
        for share in shared_out(records):
            one_by_one = self.projector.losses.at(self._seq) > 1
            for part in [[record] for record in share] if one_by_one else [share]:
                self._apply_or_split(part, next_offset if part[-1] is records[-1] else part[-1].offset + 1)

    @property
    def _seq(self) -> int:
        return -1 if self.position is None else self.position.seq

    def _apply_or_split(self, records: list[ResultRecord], next_offset: int) -> None:
        """Project in one SQL transaction; when that fails because of what it writes, in two, down to the one outcome."""
        before = self.position, self.catalog_oid
        try:
            self._apply_together(records, next_offset)
            return
        except (CommitLogError, _CatalogReplaced):
            raise
        except Exception as error:
            self.position, self.catalog_oid = before
            self._judge(error, records)
            cause = error
        _logger.warning(
            "outcomes %d to %d do not go into one SQL transaction (%s): they are split",
            records[0].seq,
            records[-1].seq,
            plain(cause),
        )
        if self.position is not None:
            self.catalog.open(self.position.log_id)
        middle = len(records) // 2
        self._apply_or_split(records[:middle], records[middle].offset)
        self._apply_or_split(records[middle:], next_offset)

    def _judge(self, error: Exception, records: list[ResultRecord]) -> None:
        """Return if fewer outcomes at a time may do; else raise the error itself, or what it says of the one outcome."""
        is_alone = len(records) == 1
        if self.catalog.is_lost or (is_too_much(error) and is_alone):
            times = self.projector.losses.add(self._seq)
            if is_alone and times >= LOSSES_MAX:
                raise _projection_error(records[0], f"{plain(error)} ({times} times)") from error
            raise error
        if is_weather(error) and not is_too_much(error):
            raise error
        if self.position is not None:
            # Another catalog may have taken the place of the one that it was made for.
            self._check_position()
        if is_alone:
            if not isinstance(error, psycopg.Error):
                _logger.error("projecting outcome %d failed", records[0].seq, exc_info=error)
            raise _projection_error(records[0], plain(error)) from error

    def _apply_together(self, records: list[ResultRecord], next_offset: int) -> None:
        outcomes = [record.value for record in records if isinstance(record.value, Outcome)]
        if self._go_at_once(records):
            position = self._apply_at_once(records, outcomes, next_offset)
        else:
            position = self._apply_in_transaction(records, outcomes, next_offset)
        self.position, self.next_offset = position, next_offset
        self.projector.applied(position, next_offset, outcomes)
        if self.projector.traced:
            self.projector.trace(records)

    def _apply_in_transaction(
        self, records: list[ResultRecord], outcomes: list[Outcome], next_offset: int
    ) -> LogPosition:
        with self.catalog.transaction():
            for record in records:
                if isinstance(record.value, Genesis):
                    self._begin(record, record.value)
            self._check_position()
            self.catalog.project(outcomes, _mileposts(records))
            position = self._after(records)
            self._write_position(position, next_offset)
        return position

    def _apply_at_once(self, records: list[ResultRecord], outcomes: list[Outcome], next_offset: int) -> LogPosition:
        """One statement, which does nothing unless the position is the one that was read before the rows were made."""
        assert self.position is not None
        assert self.catalog_oid is not None
        position = self._after(records)
        seen = self.position.seq, self.position.hash, self.catalog_oid
        if not self.catalog.project_at_once(outcomes, _mileposts(records), _move(position, next_offset), seen):
            self._check_position()
            raise AssertionError("the position has moved, and back")
        return position

    def _after(self, records: list[ResultRecord]) -> LogPosition:
        assert self.position is not None
        return records[-1].position_in(self.position.log_id)

    def _go_at_once(self, records: Sequence[ResultRecord]) -> bool:
        """Whether they are few, of a catalog that is known, and make nothing due to be expired."""
        if self.position is None or self.catalog_oid is None or not _is_small(records):
            return False
        made = [(each.outcome.snapshot_id, each.outcome.snapshot_time_us) for each in records]
        is_due_after = self.catalog.is_due_after
        return not any(is_due_after(at, time_us) for at, time_us in made if at is not None and time_us is not None)

    def _note_read(self, next_offset: int) -> None:
        if self.position is None or next_offset <= self.next_offset:
            return
        with self.catalog.transaction():
            self._check_position()
            self._write_position(self.position, next_offset)
        self.next_offset = self.projector.status.next_offset = next_offset

    def _begin(self, record: ResultRecord, genesis: Genesis) -> None:
        if not self.catalog.create(genesis, self.projector.settings.data_path, record.hash, record.offset):
            raise _CatalogReplaced
        self.position = record.position_in(genesis.log_id)

    def _check_position(self) -> None:
        found = self.catalog.locked()
        assert self.position is not None
        if found is not None:
            self.catalog_oid = self.catalog_oid or found[0]
            if found[0] != self.catalog_oid:
                raise _CatalogReplaced
        if found is None or found[1:] != (self.position.seq, self.position.hash):
            seq = None if found is None else found[1]
            raise CatalogMismatchError(
                f"the catalog is at outcome {seq}, this projector left it at {self.position.seq}: another projector "
                "writes it; let one of them run"
            )

    def _write_position(self, position: LogPosition, next_offset: int) -> None:
        self.catalog.move(_move(position, next_offset))


def _move(position: LogPosition, next_offset: int) -> Move:
    return Move(position.seq, position.epoch, position.hash, position.results_offset, next_offset)


def _mileposts(records: Sequence[ResultRecord]) -> list[Milepost]:
    return [
        _milepost(record) for record in records if record.seq % MILEPOST_EVERY == 0 or len(record.raw) >= MILEPOST_BYTES
    ]


def _milepost(record: ResultRecord) -> Milepost:
    value = record.value
    epoch, head = (value.epoch, value.head_snapshot_id) if isinstance(value, Outcome) else (0, 0)
    return Milepost(record.seq, epoch, record.hash, record.offset, head)


@contextmanager
def for_batches() -> Iterator[None]:
    """Batches of many objects that live a short time, none of them in a cycle: looking for cycles took a third of it all."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _is_small(records: Sequence[ResultRecord]) -> bool:
    """Whether so little is to be written that the round trips are what it costs: a few appends, or refusals."""
    return (
        len(records) <= SMALL_RECORDS
        and sum(len(record.raw) for record in records) <= SMALL_BYTES
        and all(_only_appends(record.value) for record in records)
    )


def _only_appends(value: Genesis | Outcome) -> bool:
    if isinstance(value, Genesis):
        return False
    if value.verdict is not Verdict.COMMITTED or value.proposal is None:
        return True
    return all(change.kind is ChangeKind.APPEND for change in value.proposal.changes)


def _projection_error(record: ResultRecord, detail: str) -> ProjectionError:
    """What cannot be projected, in words: enough to find it, whoever reads it."""
    if isinstance(record.value, Genesis):
        return ProjectionError(0, "the log's first record", detail=detail)
    outcome = record.value
    proposal = outcome.proposal
    words = [] if outcome.snapshot_id is None else [f"snapshot {outcome.snapshot_id}"]
    if outcome.proposal_id is not None:
        words.append(f"proposal {UUID(bytes=outcome.proposal_id)}")
    if proposal is not None:
        kinds = list(dict.fromkeys(change.kind.value for change in proposal.changes))
        words.append(f"by writer {outcome.writer_id!r}: {counted(len(proposal.changes), 'change')}, {', '.join(kinds)}")
    return ProjectionError(outcome.seq, ", ".join(words) or "bytes that are no proposal", detail=detail)
