"""The transactional producer, and the one place that says what a Kafka error means.

librdkafka knows three kinds: try again, abort, and fatal; being fenced is the fourth, because it must never be answered
by coming back and fencing the other. What is tried again is tried here. Everything else is doubt: whoever wrote throws
the state away and loads it from the log, which says what was committed (DESIGN 1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from commitlog.config import Settings
from commitlog.errors import FencedError, LogUnavailableError
from commitlog.log.connection import (
    BATCH_BYTES_MAX,
    FRAME_BYTES,
    MESSAGE_BYTES_MAX,
    REQUEST_TIMEOUT_S,
    answered,
    is_no_answer,
    make_producer,
)

TRANSACTION_TIMEOUT_MS = 15_000
COMMIT_TIMEOUT_S = 20.0


class Triage(StrEnum):
    """What to do about a Kafka error."""

    RETRY = "RETRY"
    ABORT = "ABORT"
    FATAL = "FATAL"
    FENCED = "FENCED"


class DoubtError(Exception):
    """It is not known what the log holds. Never leaves the room: the answer is to load again."""


_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


def triage(error: KafkaError) -> Triage:
    """What to do about an error of a transactional producer."""
    if error.txn_requires_abort():
        return Triage.ABORT
    if error.code() in _FENCED:
        return Triage.FENCED
    if error.fatal():
        return Triage.FATAL
    return Triage.RETRY if error.retriable() or is_no_answer(error) else Triage.FATAL


class Records(NamedTuple):
    """Records for one partition."""

    topic: str
    partition: int
    values: Sequence[bytes]


class TransactionalProducer:
    """Writes batches, each in one transaction; whoever makes a second one with the same id fences the first.

    Args:
        settings: where Kafka is.
        transactional_id: names the one writer that may be active.
        batch_bytes_max: what the topics take in one batch; a larger record is a batch of its own.
    """

    def __init__(self, settings: Settings, transactional_id: str, *, batch_bytes_max: int) -> None:
        self._settings = settings
        self._id = transactional_id
        self._producer: Producer = make_producer(
            settings,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            message_max_bytes=MESSAGE_BYTES_MAX,
            batch_size=min(BATCH_BYTES_MAX, batch_bytes_max - FRAME_BYTES // 2),
            # A transaction meets the markers of the one before; with the default of 100 ms that costs it 100 ms.
            retry_backoff_ms=1,
            retry_backoff_max_ms=20,
            # Nothing waits for it: a commit flushes.
            linger_ms=50,
            batch_num_messages=20_000,
            compression_type="lz4",
        )

    def fence(self) -> None:
        """Makes this the only writer; aborts what an earlier one has left open.

        Raises:
            LogUnavailableError: no broker has answered.
            FencedError: another one was faster.
        """
        # A producer without metadata waits half a second for its first coordinator.
        answered(self._settings, lambda: self._producer.list_topics(timeout=REQUEST_TIMEOUT_S))
        self._insist(lambda: self._producer.init_transactions(COMMIT_TIMEOUT_S), "fencing")

    def write_all(self, records: Sequence[Records]) -> None:
        """Writes all or nothing in one transaction and returns when it is durable.

        Raises:
            FencedError: another writer has taken over; nothing of this is in the log.
            DoubtError: it was aborted, or it is not known whether it was committed.
        """
        self._insist(self._producer.begin_transaction, "begin")
        for each in records:
            self._write(each)
        self._insist(lambda: self._producer.commit_transaction(COMMIT_TIMEOUT_S), "commit")

    def _write(self, records: Records) -> None:
        messages = [{"value": value} for value in records.values]
        try:
            queued = self._producer.produce_batch(records.topic, messages, partition=records.partition)
        except BufferError as error:
            self._abort(str(error))
        except KafkaException as error:
            self._stop(error.args[0], "produce")
        if queued != len(messages):
            failed = next((message["_error"] for message in messages if "_error" in message), None)
            self._abort(f"only {queued} of {len(messages)} records could be queued for {records.topic}: {failed!r}")

    def close(self) -> None:
        """Lets go of the connection without waiting; an open transaction is aborted by whoever fences."""
        # Its own close() would first wait until it has aborted and flushed, which it cannot once it is fenced.
        self._producer.purge()
        del self._producer

    def _insist(self, act: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + COMMIT_TIMEOUT_S
        while True:
            try:
                act()
            except KafkaException as error:
                found: KafkaError = error.args[0]
                if triage(found) is not Triage.RETRY:
                    self._stop(found, what)
                if time.monotonic() >= deadline:
                    raise self._given_up(found, what) from None
            else:
                return

    def _given_up(self, error: KafkaError, what: str) -> Exception:
        if what == "fencing":
            servers, waited_ms = self._settings.bootstrap_servers, int(COMMIT_TIMEOUT_S * 1000)
            return LogUnavailableError(servers, waited_ms=waited_ms, detail=error.str())
        return DoubtError(f"{what}: no answer from Kafka in {COMMIT_TIMEOUT_S:.0f} s: {error.str()}")

    def _stop(self, error: KafkaError, what: str) -> NoReturn:
        match triage(error):
            case Triage.FENCED:
                raise FencedError(f"another process writes as {self._id!r} now: {error.str()}")
            case Triage.ABORT:
                self._abort(f"{what}: {error.str()}")
            case _:
                raise DoubtError(f"{what}: {error.name()}: {error.str()}")

    def _abort(self, why: str) -> NoReturn:
        """Always raises; an abort that is refused tells whether we are fenced."""
        try:
            self._producer.abort_transaction(COMMIT_TIMEOUT_S)
        except KafkaException as error:
            if triage(error.args[0]) is Triage.FENCED:
                raise FencedError(f"another process writes as {self._id!r} now: {why}") from None
        raise DoubtError(why)
