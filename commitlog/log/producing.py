"""The producers of a sequencer: one for the results alone, whose reports say what was accepted, one for all else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.log.connection import (
    REQUEST_TIMEOUT_S,
    batch_bytes,
    know_topic,
    make_admin,
    ready_producer,
)
from commitlog.log.replies import Replier
from commitlog.log.reports import WITHOUT_OFFSET, Delivery, Report, offset_of
from commitlog.log.results import read_range
from commitlog.log.serving import DoubtError
from commitlog.observing.headers import headers_of

APPEND_TIMEOUT_MS = 5_000
"""After it an append counts as failed, which is doubt: it may have been written, or be written yet."""

TELL_TIMEOUT_MS = 30_000

LATER_S = 0.015
"""So long what may wait is gathered: the batches of some turns of writers who wait for their answers."""

GATHER_MS = 5
"""So long an outcome may wait for the rest of its batch, which is handed over one by one; whoever then waits for the reports
sends them at once. Sent singly, the first would go alone: while more than five records of an idempotent producer are on their
way, librdkafka sends no other, and looks in a busy loop whether it may."""

_NO_SPANS: Mapping[int, str | None] = {}


def _make(settings: Settings, batch_bytes_max: int, **options: Any) -> Producer:
    return ready_producer(
        settings,
        batch_size=batch_bytes(batch_bytes_max),
        retry_backoff_ms=10,
        compression_type="lz4",
        **options,
    )


def make_results_producer(settings: Settings, *, batch_bytes_max: int) -> Producer:
    """What a sequencer appends outcomes by; see `KafkaResults`."""
    return _make(
        settings,
        batch_bytes_max,
        linger_ms=GATHER_MS,
        delivery_timeout_ms=APPEND_TIMEOUT_MS,
        batch_num_messages=20_000,
    )


class KafkaResults:
    """`ports.ResultsLog` over Kafka.

    Args:
        settings: where Kafka is.
        topic: the results topic.
        batch_bytes_max: what the topic takes in one batch; a larger record is a batch of its own.

    Raises:
        LogUnavailableError: no broker has answered.
    """

    def __init__(self, settings: Settings, topic: str, *, batch_bytes_max: int) -> None:
        self._settings = settings
        self._topic = topic
        self._producer = make_results_producer(settings, batch_bytes_max=batch_bytes_max)
        self._admin = make_admin(settings)
        know_topic(settings, self._admin, topic)
        self._asked: Future[Any] | None = None

    def append(
        self,
        values: Sequence[bytes],
        on_report: Callable[[int, Report], None],
        traceparents: Mapping[int, str | None] = _NO_SPANS,
    ) -> None:
        try:
            for index, value in enumerate(values):
                headers = headers_of(traceparents.get(index)) if traceparents else {}
                self._producer.produce(self._topic, value, None, 0, Delivery(on_report, index), **headers)
        except (BufferError, KafkaException) as error:
            raise DoubtError(f"a record could not be queued for {self._topic}: {error}") from None

    def poll(self, timeout_s: float) -> None:
        if timeout_s:
            self._producer.flush(timeout_s)
        else:
            self._producer.poll(0)

    def read(self, start: int, end: int) -> Iterable[tuple[int, bytes | None]]:
        return read_range(self._settings, start, end)

    def end_seen(self) -> int | None:
        if self._asked is None:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            wanted = {TopicPartition(self._topic, 0): latest}
            [self._asked] = self._admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S).values()
        if not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        # Who cannot ask cannot append either, and hears it there.
        return None if asked.exception() is not None else int(asked.result().offset)

    def close(self) -> None:
        self._producer.purge()
        del self._producer


class KafkaVoice:
    """`ports.Voice` over Kafka.

    Args:
        settings: where Kafka is.
        batch_bytes_max: what each topic takes in one batch.

    Raises:
        LogUnavailableError: no broker has answered.
    """

    def __init__(self, settings: Settings, *, batch_bytes_max: int) -> None:
        self._now_s = settings.machine.now_s
        self._producer = _make(settings, batch_bytes_max, linger_ms=0, delivery_timeout_ms=TELL_TIMEOUT_MS)
        self._replier = Replier(settings.carrier_socket)
        self._later: list[Callable[[], None]] = []
        self._later_at_s = 0.0

    def reply(self, reply_to: str, value: bytes) -> bool:
        return self._replier.reply(reply_to, value)

    def send(
        self,
        topic: str,
        partition: int,
        value: bytes,
        on_done: Callable[[str | None], None],
        *,
        may_wait: bool = False,
    ) -> None:
        if not may_wait:
            self._send(topic, partition, value, on_done)
            return
        if not self._later:
            self._later_at_s = self._now_s() + LATER_S
        self._later.append(partial(self._send, topic, partition, value, on_done))

    def flush(self, timeout_s: float) -> None:
        """Waits until everything was answered, at most so long."""
        self._send_later()
        self._producer.flush(timeout_s)

    def poll(self, timeout_s: float) -> None:
        if self._later and self._now_s() >= self._later_at_s:
            self._send_later()
        self._producer.poll(timeout_s)

    def close(self) -> None:
        self._producer.purge()
        del self._producer
        self._replier.close()

    def _send(self, topic: str, partition: int, value: bytes, on_done: Callable[[str | None], None]) -> None:
        try:
            self._producer.produce(topic, value=value, partition=partition, on_delivery=partial(_done, on_done))
        except (BufferError, KafkaException) as error:
            on_done(str(error))

    def _send_later(self) -> None:
        later, self._later = self._later, []
        for send in later:
            send()


def _done(on_done: Callable[[str | None], None], error: KafkaError | None, message: Message) -> None:
    if error is not None:
        on_done(f"{error.name()}: {error.str()}")
    else:
        on_done(WITHOUT_OFFSET if offset_of(message) is None else None)
