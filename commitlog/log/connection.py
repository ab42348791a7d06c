"""How this room's Kafka clients are configured, and what a broker that does not answer looks like to callers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError

T = TypeVar("T")
REQUEST_TIMEOUT_S = 10.0
NO_LEADER_PAUSE_S = 0.05
MESSAGE_BYTES_MAX = 256 * 1024 * 1024
BATCH_BYTES_MAX = 1_000_000

FRAME_BYTES = 8 * 1024
"""Room for a message's key and the batch around it: Kafka's limit is on the batch."""

# librdkafka says on its own what it tries again; it is of use only to somebody who looks for it.
_logger = logging.getLogger("commitlog.kafka")

_NO_LEADER = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_NO_ANSWER = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
    }
)


def client_options(settings: Settings, **options: object) -> dict[str, Any]:
    """librdkafka's options: ours (dots as underscores), and over them what the settings pass through."""
    ours = {name.replace("_", "."): value for name, value in options.items()}
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "logger": _logger,
        "log.connection.close": False,
        **ours,
        **settings.kafka,
    }


def make_consumer(settings: Settings, **options: object) -> Consumer:
    """A consumer that only ever reads what it was assigned, committed records only, and never commits offsets."""
    return Consumer(
        client_options(
            settings,
            **{
                "group_id": f"{settings.log}.unused",
                "enable_auto_commit": False,
                "enable_auto_offset_store": False,
                "isolation_level": "read_committed",
                "auto_offset_reset": "error",
                "fetch_wait_max_ms": 100,
                "fetch_message_max_bytes": 8 * 1024 * 1024,
                "queued_max_messages_kbytes": 64 * 1024,
                "receive_message_max_bytes": 2 * MESSAGE_BYTES_MAX,
                **options,
            },
        )
    )


def make_producer(settings: Settings, **options: object) -> Producer:
    """A producer that writes each record once, in order, to all replicas."""
    return Producer(
        client_options(
            settings,
            **{
                "enable_idempotence": True,
                "acks": "all",
                "queue_buffering_max_messages": 2_000_000,
                "queue_buffering_max_kbytes": 2 * 1024 * 1024 - 1,
                **options,
            },
        )
    )


def make_admin(settings: Settings) -> AdminClient:
    """A client for topics and offsets."""
    return AdminClient(client_options(settings))


def assign(settings: Settings, consumer: Consumer, starts: Sequence[TopicPartition]) -> None:
    """Have a consumer read partitions of one topic, each from its offset on.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    know_topic(settings, consumer, starts[0].topic)
    consumer.assign([*starts])


def know_topic(settings: Settings, client: Consumer | AdminClient, topic: str) -> None:
    """Have a client learn who leads a topic's partitions: left to itself it may take one to four seconds to ask.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    answered(settings, lambda: client.list_topics(topic, timeout=REQUEST_TIMEOUT_S))


def answered(settings: Settings, ask: Callable[[], T]) -> T:
    """What a request gives; LogUnavailableError when no broker answers.

    A partition whose leader is being elected, as one just created or after a broker's restart, is asked again.

    Raises:
        LogUnavailableError: no answer within the request's own timeout.
        KafkaException: any other error.
    """
    started = time.monotonic()
    while True:
        try:
            return ask()
        except KafkaException as error:
            failure = error.args[0]
            waited_s = time.monotonic() - started
            if failure.code() in _NO_LEADER and waited_s < REQUEST_TIMEOUT_S:
                time.sleep(NO_LEADER_PAUSE_S)
                continue
            if not is_no_answer(failure) and failure.code() not in _NO_LEADER:
                raise
            detail = failure.str()
        raise LogUnavailableError(settings.bootstrap_servers, waited_ms=int(waited_s * 1000), detail=detail) from None


def is_no_answer(error: KafkaError) -> bool:
    """Whether the error only says that nobody has answered (yet)."""
    return error.code() in _NO_ANSWER


def end_offset(settings: Settings, admin: AdminClient, topic: str, partition: int, *, committed: bool) -> int:
    """The offset after the last record; with ``committed`` the last stable offset."""
    return end_offsets(settings, admin, topic, [partition], committed=committed)[partition]


def end_offsets(
    settings: Settings, admin: AdminClient, topic: str, partitions: Iterable[int], *, committed: bool
) -> dict[int, int]:
    """By partition the offset after the last record; with ``committed`` the last stable offset."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _list_offsets(settings, admin, topic, partitions, latest, level)


def first_offsets(settings: Settings, admin: AdminClient, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """By partition the offset of the first record that is still there, or would be the next."""
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return _list_offsets(settings, admin, topic, partitions, earliest, IsolationLevel.READ_UNCOMMITTED)


def _list_offsets(
    settings: Settings,
    admin: AdminClient,
    topic: str,
    partitions: Iterable[int],
    spec: OffsetSpec,
    level: IsolationLevel,
) -> dict[int, int]:
    wanted = {TopicPartition(topic, partition): spec for partition in partitions}
    know_topic(settings, admin, topic)

    def ask() -> dict[int, int]:
        futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
        return {where.partition: int(future.result().offset) for where, future in futures.items()}

    return answered(settings, ask)
