"""Where the log ends now: what whoever must see everything that was acknowledged before asks first."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.log.connection import REQUEST_TIMEOUT_S, answered, checked_offset, know_topic, make_consumer
from commitlog.log.topics import topics_of

_LATEST = -1
"""The time by which Kafka means a partition's end."""


class LogEnd:
    """Asks for the end of a log's results. Thread-safe: one asks at a time, for all who wait for their turn.

    Args:
        settings: which log, and where.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = topics_of(settings.log).results
        # Not one that reads: the broker answers a connection's requests in turn, and a fetch waits for records.
        self._consumer: Consumer | None = None
        self._is_in_doubt = False
        self._turn = threading.RLock()
        self._asked_at_s = float("-inf")
        self._end = 0

    def offset(self) -> int:
        """The offset after the last record: what was acknowledged before this call lies below it.

        Raises:
            LogUnavailableError: no broker has answered.
        """
        called_at_s = time.monotonic()
        try:
            if not self._turn.acquire(timeout=REQUEST_TIMEOUT_S):
                detail = "others have asked before, and had no answer"
                raise LogUnavailableError(
                    self._settings.bootstrap_servers, waited_ms=int(REQUEST_TIMEOUT_S * 1000), detail=detail
                )
            if self._asked_at_s <= called_at_s:
                asked_at_s = time.monotonic()
                self._end = answered(self._settings, self._ask)
                self._asked_at_s = asked_at_s
            return self._end
        finally:
            # Only the lock knows whether this thread has it, where it was interrupted while it waited. Nothing else is called
            # first: a signal may come after each call.
            try:  # noqa: SIM105
                self._turn.release()
            except RuntimeError:
                pass

    def close(self) -> None:
        """Let go of the connection."""
        with self._turn:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _ask(self) -> int:
        if self._consumer is None:
            consumer = make_consumer(self._settings)
            know_topic(self._settings, consumer, self._topic)
            self._consumer = consumer
        wanted = TopicPartition(self._topic, 0, _LATEST)
        # Its log lines and errors would wait for ever.
        self._consumer.poll(0)
        if self._is_in_doubt:
            # Of a broker that is away it says that there is no such partition.
            self._consumer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S)
        self._is_in_doubt = True
        [found] = self._consumer.offsets_for_times([wanted], timeout=REQUEST_TIMEOUT_S)
        if found.error is not None:
            raise KafkaException(found.error)
        end = checked_offset(found.offset)
        self._is_in_doubt = False
        return end
