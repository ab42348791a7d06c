"""Producers of proposals: each outlives what breaks it, and waits for room where too much waits to be sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.log.connection import (
    FRAME_BYTES,
    REQUEST_TIMEOUT_S,
    batch_bytes,
    check_may,
    ready_producer,
)
from commitlog.observing.headers import headers_of

ROOM_S = 0.01
HURRY_S = 0.001
"""The shortest that librdkafka waits for; while it does, nothing lingers."""
DELIVERY_TIMEOUT_S = 120.0
"""Beyond it the broker forgets who sent what, and an answer is no longer to be hoped for."""

OnDelivery = Callable[[KafkaError | None, Message], None]


class Sender:
    """Sends to one topic by a producer, and by another one in its place once that can send no more. Thread-safe.

    A producer whose records have not come to the broker until their time was over is taken for one that never sends again:
    one that met two restarts of its broker has kept all that it was given for a quarter of an hour, and said nothing.

    Args:
        settings: where Kafka is.
        topic: what is sent to.
        proposal_bytes_max: the largest value.
        linger_ms: how long more is waited for that may be sent together; it is an attribute too.
        timeout_s: how long a broker may take to say who leads the topic's partitions.
        delivery_timeout_s: how long a record may be on its way.
        headers: of each record.

    Raises:
        LogRefusedError: these credentials may not write it.
        LogUnavailableError: no broker has answered.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        *,
        proposal_bytes_max: int,
        linger_ms: int,
        timeout_s: float = REQUEST_TIMEOUT_S,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self._settings = settings
        self._headers = headers
        self._delivery_timeout_s = delivery_timeout_s
        self._topic = topic
        self._proposal_bytes_max = proposal_bytes_max
        self.linger_ms = linger_ms
        self._replacing = threading.Lock()
        self._retired: list[Producer] = []
        self._number = 0
        self._is_spent = False
        check_may(settings, AclOperation.WRITE, topic, timeout_s=timeout_s)
        self._producer = self._make_producer(timeout_s)

    def _make_producer(self, timeout_s: float) -> Producer:
        return ready_producer(
            self._settings,
            self._topic,
            timeout_s=timeout_s,
            batch_size=batch_bytes(self._proposal_bytes_max + FRAME_BYTES),
            linger_ms=self.linger_ms,
            retry_backoff_ms=5,
            delivery_timeout_ms=int(self._delivery_timeout_s * 1000),
        )

    def send(
        self,
        value: bytes,
        key: bytes,
        partition: int,
        on_delivery: OnDelivery,
        *,
        timeout_s: float,
        traceparent: str | None = None,
    ) -> None:
        """Hands a record over to be sent, in a span; waits up to ``timeout_s`` while too much is waiting to be sent.

        Raises:
            BufferError: it still does.
            KafkaException: the record is refused.
        """
        if self._is_spent:
            self._replaced(self._producer)
        delivered = partial(self._delivered, self._number, on_delivery)
        producer = self._producer
        deadline, headers = None, headers_of(traceparent, *self._headers)
        while True:
            try:
                producer.produce(
                    self._topic, value=value, key=key, partition=partition, on_delivery=delivered, **headers
                )
            except KafkaException as error:
                if not error.args[0].fatal() and error.args[0].code() != KafkaError._FATAL:
                    raise
                producer = self._replaced(producer)
            except BufferError:
                deadline = deadline or self._settings.machine.now_s() + timeout_s
                if self._settings.machine.now_s() > deadline:
                    raise
                # What was delivered takes room until it has been heard of.
                producer.poll(ROOM_S)
            else:
                return

    def hear_deliveries(self) -> None:
        """Has what became of records told to whoever sent them, in this thread."""
        self._producer.poll(0)
        for retired in self._retired:
            retired.poll(0)

    def give_up(self) -> None:
        """What is sent from now on is sent by another producer."""
        self._is_spent = True

    def hurry(self) -> None:
        """Has what lingers sent now."""
        if len(self._producer):
            self._producer.flush(HURRY_S)

    def flush(self, timeout_s: float) -> None:
        """Waits until everything is sent."""
        self._producer.flush(timeout_s)

    def close(self) -> None:
        """Its threads and connections end with it, whoever still holds it; what is not sent yet is not."""
        self._producer.purge()
        self._producer.poll(0)
        self._retired.clear()
        del self._producer

    def _replaced(self, broken: Producer) -> Producer:
        """A producer in the place of one that can send no more: the broker has forgotten what it knew of it."""
        with self._replacing:
            if self._producer is broken:
                self._producer = self._make_producer(REQUEST_TIMEOUT_S)
                self._number += 1
                self._is_spent = False
                self._retired = [each for each in (*self._retired, broken) if len(each)]
            return self._producer

    def _delivered(self, number: int, tell: OnDelivery, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() == KafkaError._MSG_TIMED_OUT and number == self._number:
            self._is_spent = True
        tell(error, message)
