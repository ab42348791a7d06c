"""The results topic, verified: whoever reads it gets only records that fit the ones before, or one clear error.

``Chain`` is the rule (DESIGN 1, "the log verifies itself"), without Kafka; ``ResultsReader`` reads a topic through it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, TopicPartition

from commitlog.config import Settings
from commitlog.domain.json_form import format_id
from commitlog.domain.model import RULES_VERSION, Genesis, Outcome
from commitlog.errors import (
    LogIntegrityError,
    LogLossError,
    LogRefusedError,
    LogUnavailableError,
    MalformedRecordError,
    RulesVersionError,
)
from commitlog.log.codec import OutcomeRecord, Takeover, decode_record, hash_record
from commitlog.log.connection import assign, end_offset, first_offsets, is_no_answer, make_admin, make_consumer

HASHES_KEPT = 4_096
END_TIMEOUT_S = 60.0
READ_RECORDS_MAX = 5_000
POLL_TIMEOUT_S = 0.2


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in a log that can be found again and checked: what applied rows and checkpoints hold."""

    log_id: bytes
    seq: int
    epoch: int
    hash: bytes
    results_offset: int


class ResultRecord(NamedTuple):
    """One verified record: the genesis (seq 0) or an outcome, its offset, its hash and its bytes."""

    value: Genesis | Outcome
    offset: int
    hash: bytes
    raw: bytes

    @property
    def outcome(self) -> Outcome:
        """The outcome, where the caller knows that it is no genesis."""
        assert isinstance(self.value, Outcome)
        return self.value

    def position_in(self, log_id: bytes) -> LogPosition:
        """The place of the record, to go on after it."""
        seq, epoch = (self.value.seq, self.value.epoch) if isinstance(self.value, Outcome) else (0, 0)
        return LogPosition(log_id, seq, epoch, self.hash, self.offset)


class Chain:
    """Decides of each record whether it is the next one of this log.

    Args:
        after: the last record that was applied; None is a reader that has nothing yet.
    """

    def __init__(self, after: LogPosition | None = None) -> None:
        self.position = after
        self.zombies = 0
        self._hashes: OrderedDict[int, bytes] = OrderedDict()
        if after is not None:
            self._hashes[after.seq] = after.hash

    def accept(self, raw: bytes | None, offset: int) -> ResultRecord | None:
        """The record, or None when it is to be skipped (a zombie's, or one that was applied already).

        Raises:
            LogIntegrityError: it does not fit; nothing has changed.
            RulesVersionError: it was decided under newer rules.
        """
        try:
            value = decode_record(raw or b"")
        except MalformedRecordError as error:
            raise LogIntegrityError(f"results offset {offset} holds no record of a log: {error}") from None
        assert raw is not None
        assert not isinstance(value, Takeover)
        if isinstance(value, Genesis):
            return self._accept_genesis(value, raw, offset)
        return self._accept_outcome(value, raw, offset)

    def _accept_genesis(self, genesis: Genesis, raw: bytes, offset: int) -> ResultRecord | None:
        digest = hash_record(raw)
        if self.position is not None:
            self._check_log_id(genesis.log_id, offset)
            self._check_applied(0, digest, offset)
            return None
        _check_rules(genesis.rules_version)
        self._advance(genesis.log_id, 0, 0, digest, offset)
        return ResultRecord(genesis, offset, digest, raw)

    def _accept_outcome(self, record: OutcomeRecord, raw: bytes, offset: int) -> ResultRecord | None:
        outcome, last = record.outcome, self.position
        if last is None:
            raise LogIntegrityError(
                f"the log starts at results offset {offset} with outcome {outcome.seq} instead of its genesis"
            )
        if record.log_id != last.log_id:
            self._check_log_id(record.log_id, offset)
        if outcome.epoch < last.epoch:
            self.zombies += 1
            return None
        digest = hash_record(raw)
        if outcome.seq <= last.seq:
            self._check_applied(outcome.seq, digest, offset)
            return None
        if outcome.seq != last.seq + 1:
            raise LogIntegrityError(
                f"results offset {offset} holds outcome {outcome.seq}, but {last.seq + 1} comes after {last.seq}: "
                "outcomes are missing"
            )
        if record.prev_hash != last.hash:
            raise LogIntegrityError(
                f"outcome {outcome.seq} at results offset {offset} was written after another outcome {last.seq} "
                f"(hash {record.prev_hash.hex()[:16]}) than the one here (hash {last.hash.hex()[:16]})"
            )
        _check_rules(outcome.rules_version)
        self._advance(record.log_id, outcome.seq, outcome.epoch, digest, offset)
        return ResultRecord(outcome, offset, digest, raw)

    def _check_log_id(self, log_id: bytes, offset: int) -> None:
        assert self.position is not None
        if log_id != self.position.log_id:
            raise LogIntegrityError(
                f"results offset {offset} belongs to log {format_id(log_id)}, not to {format_id(self.position.log_id)}"
            )

    def _check_applied(self, seq: int, digest: bytes, offset: int) -> None:
        known = self._hashes.get(seq)
        if known == digest:
            return
        why = "which is too old to compare" if known is None else "with another content"
        raise LogIntegrityError(
            f"results offset {offset} holds outcome {seq} again, {why}: another log, or a broker restored from a backup"
        )

    def _advance(self, log_id: bytes, seq: int, epoch: int, digest: bytes, offset: int) -> None:
        self.position = LogPosition(log_id, seq, epoch, digest, offset)
        self._hashes[seq] = digest
        if len(self._hashes) > HASHES_KEPT:
            self._hashes.popitem(last=False)


def _check_rules(rules_version: int) -> None:
    if rules_version > RULES_VERSION:
        raise RulesVersionError(rules_version, supported=RULES_VERSION)


class ResultsReader:
    """Reads a log's results in order, from its genesis or after a known position.

    Args:
        settings: which log, and where.
        after: the last record applied; it is read again and must still be there.

    Raises:
        LogIntegrityError: it is not, or not the same.
        LogLossError: the results do not start at their first offset any more.
        LogUnavailableError: no broker has answered.
    """

    def __init__(self, settings: Settings, *, after: LogPosition | None = None) -> None:
        self._settings = settings
        self._topic = f"{settings.log}.results"
        self._chain = Chain(after)
        self._end_seen = -1
        self._next_offset = 0 if after is None else after.results_offset + 1
        self._failure: LogIntegrityError | RulesVersionError | None = None
        self._admin = make_admin(settings)
        self._consumer = make_consumer(settings, enable_partition_eof=True)
        try:
            self._assign(after)
            if after is not None:
                self._check_start(after)
        except BaseException:
            self._consumer.close()
            raise

    @property
    def position(self) -> LogPosition | None:
        """The last record that was given out; None before the genesis."""
        return self._chain.position

    @property
    def next_offset(self) -> int:
        """Everything before this offset was read: given out, or nothing that anybody is given."""
        return self._next_offset

    @property
    def zombies(self) -> int:
        """How many records of a lower epoch were skipped."""
        return self._chain.zombies

    def read(self, *, records_max: int = READ_RECORDS_MAX, timeout_s: float = POLL_TIMEOUT_S) -> list[ResultRecord]:
        """The next records, as many as come within the timeout; none at the end of the log.

        Raises:
            LogIntegrityError: a record does not fit; those before it have been given out.
            LogLossError: the position is gone from the topic.
        """
        if self._failure is not None:
            raise self._failure
        messages = self._consumer.consume(1, timeout_s)
        if messages and records_max > 1:
            messages += self._consumer.consume(records_max - 1, 0)
        accepted: list[ResultRecord] = []
        for message in messages:
            try:
                record = self._taken(message)
            except (LogIntegrityError, RulesVersionError) as error:
                self._failure = error
                if not accepted:
                    raise
                break
            if record is not None:
                accepted.append(record)
        return accepted

    def read_to_end(self, *, records_max: int = READ_RECORDS_MAX) -> Iterator[list[ResultRecord]]:
        """All that the log held when this was called; waits until no transaction is open any more.

        Empty batches come while it waits, so that the caller can show that it lives.
        """
        target = -1
        deadline = time.monotonic() + END_TIMEOUT_S
        while target < 0 or self._end_seen < target:
            records = self.read(records_max=records_max)
            if records:
                deadline = time.monotonic() + END_TIMEOUT_S
            elif target < 0:
                target = self._stable_end()
            if time.monotonic() > deadline:
                detail = f"the end of {self._topic} (offset {target}) was not reached"
                servers = self._settings.bootstrap_servers
                raise LogUnavailableError(servers, waited_ms=int(END_TIMEOUT_S * 1000), detail=detail)
            yield records

    def lag(self) -> int:
        """About how many records come after the position (offsets of transaction markers count)."""
        end = end_offset(self._settings, self._admin, self._topic, 0, committed=True)
        at = self._end_seen if self._end_seen >= 0 else 0
        last = self.position.results_offset + 1 if self.position is not None else 0
        return max(0, end - max(at, last))

    def close(self) -> None:
        """Ends reading."""
        self._consumer.close()

    def __enter__(self) -> ResultsReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _assign(self, after: LogPosition | None) -> None:
        first = first_offsets(self._settings, self._admin, self._topic, [0])[0]
        if first > 0:
            raise LogLossError(
                f"{self._topic} starts at offset {first}: the results before it are gone (retention, or deleted "
                "records), and with them the log's history"
            )
        start = 0
        if after is not None:
            start = after.results_offset
            end = end_offset(self._settings, self._admin, self._topic, 0, committed=False)
            if start >= end:
                raise LogIntegrityError(
                    f"{self._topic} ends at offset {end}, but outcome {after.seq} was read from offset {start}: "
                    "another log, or a broker restored from a backup"
                )
        assign(self._settings, self._consumer, [TopicPartition(self._topic, 0, start)])

    def _check_start(self, after: LogPosition) -> None:
        """Reads the record at the position again, which also moves on to the one after it."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._end_seen <= after.results_offset:
            for message in self._consumer.consume(1, POLL_TIMEOUT_S):
                error = message.error()
                if error is not None:
                    self._on_error(error, message)
                    continue
                raw = message.value()
                if message.offset() == after.results_offset and raw is not None and hash_record(raw) == after.hash:
                    return
                self._end_seen = after.results_offset + 1
            if time.monotonic() > deadline:
                waited_ms = int(END_TIMEOUT_S * 1000)
                raise LogUnavailableError(self._settings.bootstrap_servers, waited_ms=waited_ms)
        raise LogIntegrityError(
            f"results offset {after.results_offset} does not hold the outcome {after.seq} that was read from it: "
            "another log, or a broker restored from a backup"
        )

    def _stable_end(self) -> int:
        """The high watermark if no transaction is open below it, else -1."""
        high = end_offset(self._settings, self._admin, self._topic, 0, committed=False)
        stable = end_offset(self._settings, self._admin, self._topic, 0, committed=True)
        return high if stable == high else -1

    def _taken(self, message: Message) -> ResultRecord | None:
        error = message.error()
        if error is not None:
            self._on_error(error, message)
            return None
        offset = message.offset()
        assert offset is not None
        record = self._chain.accept(message.value(), offset)
        self._next_offset = offset + 1
        return record

    def _on_error(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self._end_seen = max(self._end_seen, message.offset() or 0)
            self._next_offset = max(self._next_offset, self._end_seen)
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise LogLossError(f"{self._topic}: the next record is gone: {error.str()}")
        elif not is_no_answer(error):
            raise LogRefusedError(self._settings.bootstrap_servers, error.name(), detail=error.str())


class ReadAhead:
    """Reads in a thread of its own, so that records are fetched and decoded while their reader waits for something else.

    Args:
        reader: nobody else may read from it until this is closed.
        records_max: most records that one call gives.
        bytes_max: most bytes of records that wait; one fetch more may come on top.
    """

    def __init__(self, reader: ResultsReader, *, records_max: int, bytes_max: int) -> None:
        self._reader = reader
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._waiting: deque[ResultRecord] = deque()
        self._bytes = 0
        self._read_offset = self._next_offset = reader.next_offset
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="read-ahead", daemon=True)

    def __enter__(self) -> ReadAhead:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def next_offset(self) -> int:
        """As `ResultsReader.next_offset`, of what has been taken."""
        return self._next_offset

    def take(self, *, timeout_s: float = POLL_TIMEOUT_S) -> list[ResultRecord]:
        """The next records, as many as are there; none when none come within the timeout, or only such as nobody is given
        (then `next_offset` has moved). What was read before the end of the block can be taken after it.

        Raises:
            CommitLogError: what ended the reading, after the records before it have been given out.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._failure or self._next_offset < self._read_offset, timeout_s
            )
            if not self._waiting and self._failure is not None:
                raise self._failure
            taken = [self._waiting.popleft() for _ in range(min(self._records_max, len(self._waiting)))]
            self._bytes -= sum(len(record.raw) for record in taken)
            self._next_offset = taken[-1].offset + 1 if self._waiting else self._read_offset
            self._changed.notify_all()
        return taken

    def _read(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._bytes < self._bytes_max)
                    if self._closed:
                        return
                records = self._reader.read(records_max=self._records_max)
                with self._changed:
                    self._waiting.extend(records)
                    self._bytes += sum(len(record.raw) for record in records)
                    self._read_offset = self._reader.next_offset
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()


def results_end(settings: Settings) -> int:
    """The offset after the last record of the results that is committed for good.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    return end_offset(settings, make_admin(settings), f"{settings.log}.results", 0, committed=True)


def read_range(settings: Settings, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The records of the results with ``start <= offset < end``, each with its offset, for readers that share the work.

    Nothing is verified here: a reader that trusts nobody looks at the borders of its neighbours' ranges.

    Raises:
        LogLossError: the range is not in the topic (any more).
        LogUnavailableError: no broker has answered for long.
    """
    consumer = make_consumer(settings, enable_partition_eof=True)
    try:
        assign(settings, consumer, [TopicPartition(f"{settings.log}.results", 0, start)])
        deadline = time.monotonic() + END_TIMEOUT_S
        while True:
            for message in consumer.consume(READ_RECORDS_MAX, POLL_TIMEOUT_S):
                error, offset = message.error(), message.offset()
                assert offset is not None
                if error is not None:
                    code = error.code()
                    if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                        raise LogLossError(f"{settings.log}.results has no offset {start}: {error.str()}")
                    if code != KafkaError._PARTITION_EOF and not is_no_answer(error):
                        raise LogRefusedError(settings.bootstrap_servers, error.name(), detail=error.str())
                if offset >= end:
                    return
                if error is None:
                    raw = message.value()
                    assert raw is not None
                    yield offset, raw
                deadline = time.monotonic() + END_TIMEOUT_S
            if time.monotonic() > deadline:
                raise LogUnavailableError(settings.bootstrap_servers, waited_ms=int(END_TIMEOUT_S * 1000))
    finally:
        consumer.close()
