"""The results topic as everybody reads it: through `Chain`, which says what of it counts (see there).

``ResultsReader`` gives the accepted records in order, decoded.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator
from typing import ClassVar, Final

from confluent_kafka import Message
from mypy_extensions import mypyc_attr

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Outcome
from commitlog.domain.model.record import Record
from commitlog.errors import (
    LogIntegrityError,
    LogLossError,
    MalformedRecordError,
    RulesVersionError,
)
from commitlog.log.chain import Accepted, Chain, ChainState, Skip
from commitlog.log.chain import LogPosition as LogPosition
from commitlog.log.codec import OutcomeHead, OutcomeRecord, Takeover, decode_record, hash_record
from commitlog.log.connection import end_offset, first_offsets
from commitlog.log.reading import Patience, TopicLossError, TopicReader
from commitlog.log.topics import topics_of
from commitlog.log.trims import begins_at as begins_at
from commitlog.log.trims import check_beginning
from commitlog.observing.headers import traceparent_in

END_TIMEOUT_S = 60.0
READ_RECORDS_MAX = 5_000
READ_BYTES_MAX = 4 * 1024 * 1024
"""So much is decoded at once, and one outcome more: one with thousands of changes takes twenty times the room of its bytes."""
POLL_TIMEOUT_S = 0.2

FOREIGN_NAMED = 10
_logger = logging.getLogger("commitlog.results")

FETCH_WAIT_MS = 2_000
"""How long the broker keeps a request to which it has nothing to answer yet: an idle log costs a request each time."""


@mypyc_attr(acyclic=True)
class ResultRecord(Record):
    """One accepted record.

    value: the genesis (seq 0) or an outcome. hash, raw: of its bytes, and these. told: the seq up to which everything had been
    told when it was decided. takeovers: the bytes of the accepted takeovers right before it, which its prev_hash covers.
    traceparent: the span of its decision, where the reader asks for that.
    """

    __slots__ = ("hash", "offset", "raw", "takeovers", "told", "traceparent", "value")

    FIELDS: ClassVar[tuple[str, ...]] = ("value", "offset", "hash", "raw", "told", "takeovers", "traceparent")

    def __init__(
        self,
        value: Genesis | Outcome,
        offset: int,
        hash: bytes,
        raw: bytes,
        told: int = 0,
        takeovers: tuple[bytes, ...] = (),
        traceparent: str | None = None,
    ) -> None:
        self.value: Final = value
        self.offset: Final = offset
        self.hash: Final = hash
        self.raw: Final = raw
        self.told: Final = told
        self.takeovers: Final = takeovers
        self.traceparent: Final = traceparent

    @property
    def seq(self) -> int:
        """Its place in the log; 0 of the genesis."""
        return self.value.seq if isinstance(self.value, Outcome) else 0

    @property
    def outcome(self) -> Outcome:
        """The outcome, where the caller knows that it is no genesis."""
        assert isinstance(self.value, Outcome)
        return self.value

    def position_in(self, log_id: bytes) -> LogPosition:
        """The place of the record, to go on after it."""
        epoch = self.value.epoch if isinstance(self.value, Outcome) else 0
        return LogPosition(log_id, self.seq, epoch, self.hash, self.offset)


class ResultsReader:
    """Reads a log's results in order, from its genesis or after a known position.

    Args:
        settings: which log, and where.
        after: the last record applied; it is read again and must still be there.
        traced: whether records are to say in which span they were decided.
        expanded: whether statistics of files are to be decoded, too.

    Attributes:
        foreign: the offsets of the first records that were read and are nobody's of ours.

    Raises:
        LogIntegrityError: it is not, or not the same.
        ResultsTrimmedError: what comes after the position was archived and trimmed.
        LogLossError: what comes after the position is gone, or the results end before it.
        LogUnavailableError: no broker has answered.
    """

    def __init__(
        self, settings: Settings, *, after: LogPosition | None = None, traced: bool = False, expanded: bool = False
    ) -> None:
        self._settings = settings
        self._traced = traced
        self._expanded = expanded
        self._topic = topics_of(settings.log).results
        self._chain = Chain() if after is None else Chain.after(after)
        self._takeovers: tuple[bytes, ...] = ()
        self.foreign: list[int] = []
        self._failure: LogIntegrityError | RulesVersionError | None = None
        self._unread: deque[Message] = deque()
        self._reader = TopicReader(settings, self._topic, fetch_wait_max_ms=FETCH_WAIT_MS)
        try:
            self._start(after)
            if after is not None:
                self._check_start(after)
        except BaseException:
            self._reader.close()
            raise

    @property
    def position(self) -> LogPosition | None:
        """The last outcome (or the genesis) that was given out; None before the genesis."""
        return self._chain.position

    @property
    def chain(self) -> ChainState | None:
        """What has been accepted so far; None before the genesis."""
        return self._chain.state

    @property
    def next_offset(self) -> int:
        """Everything before this offset was read: given out, or nothing that anybody is given."""
        return self._chain.next_offset

    @property
    def skipped(self) -> Counter[Skip]:
        """How many records did not count, by reason."""
        return self._chain.skipped

    def read(self, *, records_max: int = READ_RECORDS_MAX, timeout_s: float = POLL_TIMEOUT_S) -> list[ResultRecord]:
        """The next records, as many as come within the timeout, of large ones some; none at the end of the log, or when those
        that came are nothing that anybody is given (then `next_offset` has moved).

        Raises:
            LogIntegrityError: a record does not fit; those before it have been given out.
            LogLossError: the position is gone from the topic, or offsets are missing.
        """
        if self._failure is not None:
            raise self._failure
        accepted: list[ResultRecord] = []
        try:
            for message in self._some(records_max, timeout_s):
                record = self._taken(message)
                if record is not None:
                    accepted.append(record)
            if not self._unread and self._reader.ends.get(0, 0) > self.next_offset:
                # All before the end was given out, and nothing came for these offsets.
                self._chain.check_offset(self._reader.ends[0])
        except (LogIntegrityError, RulesVersionError) as error:
            self._failure = self._told_apart(error)
            if not accepted:
                raise self._failure from None
        return accepted

    def _some(self, records_max: int, timeout_s: float) -> list[Message]:
        """The next messages; those that are too many for now are kept."""
        if not self._unread:
            self._unread.extend(self._reader.read(records_max, timeout_s))
        some: list[Message] = []
        size_bytes = 0
        while self._unread and len(some) < records_max and size_bytes < READ_BYTES_MAX:
            message = self._unread.popleft()
            size_bytes += len(message.value() or b"")
            some.append(message)
        return some

    def _told_apart(self, error: LogIntegrityError | RulesVersionError) -> LogIntegrityError | RulesVersionError:
        """Who is overtaken by a trim while reading is told of that, and of no loss."""
        if isinstance(error, TopicLossError) and error.first > error.offset:
            try:
                check_beginning(self._settings, error.first, self.position)
            except LogLossError as better:
                return better
        return error

    def read_to(self, end: int, *, records_max: int = READ_RECORDS_MAX) -> Iterator[list[ResultRecord]]:
        """All records before an offset that the topic has, and perhaps some after it; empty batches come while it waits.

        Raises:
            LogUnavailableError: nothing has come for long.
        """
        patience = Patience(self._settings, END_TIMEOUT_S, f"offset {end} of {self._topic} was not reached")
        while (before := self.next_offset) < end:
            yield self.read(records_max=records_max)
            if self.next_offset > before:
                patience.renew()
            else:
                patience.check()

    def read_to_end(self, *, records_max: int = READ_RECORDS_MAX) -> Iterator[list[ResultRecord]]:
        """All that the log held when this was called.

        Empty batches come while it waits, so that the caller can show that it lives.
        """
        return self.read_to(self.end(), records_max=records_max)

    def end(self) -> int:
        """The offset after the last record that readers see now."""
        return results_end(self._settings)

    def lag(self) -> int:
        """How many records come after those that were read."""
        return max(0, self.end() - self.next_offset)

    def close(self) -> None:
        """Ends reading."""
        self._reader.close()

    def __enter__(self) -> ResultsReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, after: LogPosition | None) -> None:
        first = first_offsets(self._settings, self._topic, [0])[0]
        if first > 0:
            check_beginning(self._settings, first, after)
        start = 0
        if after is not None:
            start, end = after.results_offset, self.end()
            if start >= end:
                raise LogLossError(
                    f"{self._topic} ends at offset {end}, but outcome {after.seq} was read from offset {start}: the "
                    "outcomes since are gone (a power loss, or a broker restored from a backup), or it is another log; "
                    "docs/retention.md says what to do"
                )
        self._reader.start({0: start})

    def _check_start(self, after: LogPosition) -> None:
        """Reads the record at the position again, which also moves on to the one after it."""
        missed = f"offset {after.results_offset} of {self._topic} was not read"
        patience = Patience(self._settings, END_TIMEOUT_S, missed)
        try:
            while not (messages := self._reader.read(1, POLL_TIMEOUT_S)):
                patience.check()
        except TopicLossError as error:
            raise self._told_apart(error) from None
        raw = messages[0].value()
        if messages[0].offset() != after.results_offset or raw is None or hash_record(raw) != after.hash:
            raise LogIntegrityError(
                f"results offset {after.results_offset} does not hold the outcome {after.seq} that was read from it: "
                "another log, or a broker restored from a backup; docs/retention.md says what to do"
            )

    def _taken(self, message: Message) -> ResultRecord | None:
        offset, raw = message.offset(), message.value()
        assert offset is not None
        step = self._chain.take(raw, offset)
        if step is Skip.FOREIGN:
            self._tell_foreign(offset, raw)
        if not isinstance(step, Accepted):
            return None
        assert raw is not None
        record = self._record(step, raw)
        if self._traced and record is not None:
            return record.replace(traceparent=traceparent_in(message.headers()))
        return record

    def _tell_foreign(self, offset: int, raw: bytes | None) -> None:
        """Name what somebody else has written: the first, and each time that there are ten times as many."""
        if len(self.foreign) < FOREIGN_NAMED:
            self.foreign.append(offset)
        count = self.skipped[Skip.FOREIGN]
        if count == 10 ** (len(str(count)) - 1):
            size = 0 if raw is None else len(raw)
            _logger.warning(
                "%s holds at offset %d what is no record of commitlog (%d bytes; %d such so far): it does not count. Only the "
                "service may write there: `commitlog acl apply` tells who does",
                *(self._topic, offset, size, count),
            )

    def _record(self, step: Accepted, raw: bytes) -> ResultRecord | None:
        if isinstance(step.head, Genesis):
            return ResultRecord(step.head, step.offset, step.hash, raw)
        if isinstance(step.head, Takeover):
            self._takeovers += (raw,)
            return None
        takeovers, self._takeovers = self._takeovers, ()
        outcome = decode_accepted(raw, step, expanded=self._expanded)
        return ResultRecord(outcome, step.offset, step.hash, raw, step.head.told, takeovers)


def decode_accepted(raw: bytes, step: Accepted, *, expanded: bool = False) -> Outcome:
    """The outcome of an accepted record; ``expanded`` as `decode_record` has it.

    Raises:
        LogIntegrityError: its bytes are broken beyond the head.
    """
    assert isinstance(step.head, OutcomeHead)
    try:
        record = decode_record(raw, expanded=expanded)
    except MalformedRecordError as error:
        raise LogIntegrityError(f"outcome {step.head.seq} at results offset {step.offset} is broken: {error}") from None
    assert isinstance(record, OutcomeRecord)
    return record.outcome


def results_end(settings: Settings) -> int:
    """The offset after the last record of the results that readers see.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    return end_offset(settings, topics_of(settings.log).results, 0)


def read_range(settings: Settings, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    """What lies in the results at ``start <= offset < end``, as it is: only `Chain` knows what of it counts.

    Raises:
        LogLossError: the range is not in the topic (any more).
        LogUnavailableError: no broker has answered for long.
    """
    for message in read_messages(settings, start, end):
        offset = message.offset()
        assert offset is not None
        yield offset, message.value()


def read_messages(settings: Settings, start: int, end: int) -> Iterator[Message]:
    """The same with all that a message has beside its value; raises as `read_range`."""
    topic = topics_of(settings.log).results
    reader = TopicReader(settings, topic, {0: start})
    patience = Patience(settings, END_TIMEOUT_S, f"offset {end} of {topic} was not reached")
    try:
        while reader.next_offsets[0] < end:
            messages = reader.read(READ_RECORDS_MAX, POLL_TIMEOUT_S)
            if not messages:
                if reader.ends.get(0, 0) > reader.next_offsets[0]:
                    # All before the end was given out, and nothing came for these offsets.
                    Chain(next_offset=reader.next_offsets[0]).check_offset(reader.ends[0])
                patience.check()
            for message in messages:
                offset = message.offset()
                assert offset is not None
                if offset < end:
                    yield message
                patience.renew()
    finally:
        reader.close()


def read_accepted(settings: Settings, after: LogPosition | None, end: int) -> Iterator[ResultRecord]:
    """The accepted records after a position (None: from the genesis on) that lie before an offset which the results have.

    Raises:
        LogIntegrityError, LogLossError: as `ResultsReader`.
        LogUnavailableError: no broker has answered for long.
    """
    with ResultsReader(settings, after=after) as reader:
        for records in reader.read_to(end):
            yield from (record for record in records if record.offset < end)
