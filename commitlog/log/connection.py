"""How this room's Kafka clients are configured, and what a broker that does not answer looks like to callers."""

from __future__ import annotations

import ctypes
import gc
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient, ClusterMetadata, OffsetSpec  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.errors import ConfigurationError, LogRefusedError, LogUnavailableError
from commitlog.log.certificates import distrusted
from commitlog.log.triage import UNTRUSTED, Triage, triage, unreached

T = TypeVar("T")
AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")
REQUEST_TIMEOUT_S = 10.0
REQUEST_S_MIN = 0.1
RETRY_PAUSE_S = 0.05
MISSING_PATIENCE_S = 3.0
ADMINS_KEPT = 8
RECONNECT_MS_MIN, RECONNECT_MS_MAX = 50, 1_000
"""The least is that of Kafka's own client. For half of it librdkafka asks for no second connection, and a new client drops its
first one for that to the broker which it is told of: each waited 50 ms by librdkafka's own tenth of a second, before it was
answered anything."""
MESSAGE_BYTES_MAX = 256 * 1024 * 1024
BATCH_BYTES_MAX = 1_000_000

FRAME_BYTES = 8 * 1024
"""Room for a message's key and the batch around it: Kafka's limit is on the batch."""

SAID_EVERY_S = 60.0

_logger = logging.getLogger("commitlog.kafka")


class _OnceAMinute(logging.Filter):
    """Lets one line through and then one a minute: librdkafka repeats what it tries again several times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at = -math.inf
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._said_at < SAID_EVERY_S:
            self._left_out += 1
            return False
        if self._left_out:
            record.msg, record.args = f"{record.getMessage()} ({self._left_out} lines since the last one left out)", ()
        self._said_at, self._left_out = now, 0
        return True


_logger.addFilter(_OnceAMinute())
_admins: dict[tuple[object, ...], AdminClient] = {}
_heard: dict[tuple[object, ...], KafkaError] = {}
_admins_lock = threading.Lock()


def client_options(settings: Settings, **options: object) -> dict[str, Any]:
    """librdkafka's options: ours (dots as underscores), and over them what the settings pass through.

    Raises:
        LogUnavailableError: the settings mean the embedded runtime of a home, which does not run.
    """
    if settings.is_stopped("bootstrap_servers"):
        raise LogUnavailableError(settings.bootstrap_servers, detail=f"nothing is running in {settings.home}")
    ours = {name.replace("_", "."): value for name, value in options.items()}
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "logger": _logger,
        "log.connection.close": False,
        "reconnect.backoff.ms": RECONNECT_MS_MIN,
        # Nobody waits ten seconds more because a broker was away for long.
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        **ours,
        **settings.kafka,
    }


def _made(settings: Settings, kind: str, options: Mapping[str, object]) -> Any:
    """One of Kafka's clients.

    Raises:
        ConfigurationError: librdkafka does not take an option.
        LogUnavailableError: the machine has no room for its threads.
    """
    try:
        return getattr(settings.machine.kafka or _Library, kind)(options)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._INVALID_ARG:
            # By which code is told varies, NO_ERROR among them.
            raise LogUnavailableError(
                settings.bootstrap_servers,
                detail=error.args[0].str(),
                met="cannot be asked: this machine gives this process no client of Kafka",
                advice="Raise its limits of threads (`ulimit -u`, TasksMax of a unit, pids of a container) or of open files, "
                "or end what uses them up",
            ) from None
        raise ConfigurationError(
            f"{error.args[0].str()}: check the options of kafka (`commitlog config show` says where each is from)"
        ) from None


class _Library:
    Consumer = Consumer
    Producer = Producer
    AdminClient = AdminClient


def make_consumer(settings: Settings, **options: object) -> Consumer:
    """A consumer that only ever reads what it was assigned, all of it, and never commits offsets."""
    consumer: Consumer = _made(
        settings,
        "Consumer",
        client_options(
            settings,
            **{
                "group_id": f"{settings.log}.unused",
                "enable_auto_commit": False,
                "enable_auto_offset_store": False,
                "isolation_level": "read_uncommitted",
                "auto_offset_reset": "error",
                "fetch_wait_max_ms": 500,
                "fetch_message_max_bytes": 8 * 1024 * 1024,
                "queued_max_messages_kbytes": 64 * 1024,
                "receive_message_max_bytes": 2 * MESSAGE_BYTES_MAX,
                **options,
            },
        ),
    )
    return consumer


def make_producer(settings: Settings, **options: object) -> Producer:
    """A producer that writes each record once, in order, to all replicas."""
    producer: Producer = _made(
        settings,
        "Producer",
        client_options(
            settings,
            **{
                "enable_idempotence": True,
                "acks": "all",
                "message_max_bytes": MESSAGE_BYTES_MAX,
                "queue_buffering_max_messages": 2_000_000,
                "queue_buffering_max_kbytes": 2 * 1024 * 1024 - 1,
                **options,
            },
        ),
    )
    return producer


def batch_bytes(message_bytes_max: int) -> int:
    """How many bytes of records may be sent together to a topic that takes messages of so many, and refuses a larger batch as a
    whole; a record that is larger goes alone."""
    return min(BATCH_BYTES_MAX, message_bytes_max - FRAME_BYTES // 2)


def ready_producer(
    settings: Settings, topic: str | None = None, *, timeout_s: float = REQUEST_TIMEOUT_S, **options: object
) -> Producer:
    """A producer that sends its first record at once: it knows who leads the topic's partitions (None: those of all topics).

    An idempotent producer asks for its id when it hears of topics, or half a second later if it has no connection then. The
    first answer comes by the bootstrap connection, which it drops for one to the broker that the answer names: so ask twice.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    producer = make_producer(settings, **options)
    for _ in range(2):
        know_topic(settings, producer, topic, timeout_s=timeout_s)
    return producer


def make_admin(settings: Settings) -> AdminClient:
    """The process's client for topics and offsets; thread-safe, and shared, because each has threads and connections."""
    key = _client_key(settings)
    with _admins_lock:
        admin = _admins.pop(key, None)
        # Not `or`: a client with nothing on its way has the length 0.
        if admin is None:
            admin = _made(settings, "AdminClient", {**client_options(settings), "error_cb": partial(_hear, key)})
        _admins[key] = admin
        if len(_admins) > ADMINS_KEPT:
            del _admins[next(iter(_admins))]
    return admin


def _client_key(settings: Settings) -> tuple[object, ...]:
    return settings.machine, settings.bootstrap_servers, tuple(sorted(settings.kafka.items()))


def _hear(key: tuple[object, ...], error: KafkaError) -> None:
    """Notes why no broker can be reached, until one answers: the request itself only fails with a timeout.

    A refused login outweighs whatever ends connections later; that all brokers are down is said along with any other cause.
    """
    before = _heard.get(key)
    if before is None or _weight(error) >= _weight(before):
        _heard[key] = error


def _weight(error: KafkaError) -> int:
    code = error.code()
    return 2 if code in (KafkaError._AUTHENTICATION, KafkaError._SSL) else int(code != KafkaError._ALL_BROKERS_DOWN)


def _unanswered(settings: Settings, failure: KafkaError, waited_ms: int) -> LogUnavailableError:
    """The error of a request that nobody answers, with all that is known of why."""
    key, servers = _client_key(settings), settings.bootstrap_servers
    admin = _admins.get(key)
    if isinstance(admin, AdminClient):
        # What it has heard waits to be asked for.
        admin.poll(0)
    cause = _heard.get(key, failure)
    met, detail = unreached(cause), cause.str()
    if met is None:
        return LogUnavailableError(servers, waited_ms=waited_ms, detail=detail)
    if cause.code() == KafkaError._ALL_BROKERS_DOWN:
        detail = f"kafka.security.protocol is {settings.kafka.get('security.protocol', 'PLAINTEXT')}"
    elif UNTRUSTED in detail:
        detail = distrusted(servers, settings.kafka.get("ssl.ca.location")) or detail
    return LogUnavailableError(servers, waited_ms=waited_ms, detail=detail, **met._asdict())


def leave_to_parent(held: object) -> None:
    """In a process made by fork: never free this, nor collect any garbage that was the parent's.

    The threads of Kafka's clients did not come along, so that to free a client would hang, or crash.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    gc.freeze()


def _leave_admins_to_parent() -> None:
    global _admins, _admins_lock
    leave_to_parent(_admins)
    _admins, _admins_lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_leave_admins_to_parent)


def assign(settings: Settings, consumer: Consumer, starts: Sequence[TopicPartition]) -> None:
    """Have a consumer read partitions of one topic, each from its offset on.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    know_topic(settings, consumer, starts[0].topic)
    consumer.assign([*starts])


def cluster_of(settings: Settings) -> ClusterMetadata:
    """What Kafka says of its brokers and topics now.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    return answered(settings, lambda: make_admin(settings).list_topics(timeout=REQUEST_TIMEOUT_S))


def know_topic(
    settings: Settings,
    client: Consumer | Producer | AdminClient,
    topic: str | None,
    *,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> None:
    """Have a client learn who leads a topic's partitions (None: those of all): left to itself it may take one to four
    seconds to ask.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    answered(settings, lambda: client.list_topics(topic, timeout=timeout_s), timeout_s=timeout_s)


def check_may(settings: Settings, operation: AclOperation, topic: str, *, timeout_s: float) -> None:
    """Check, before anything is sent, that these credentials may do this with a topic.

    An idempotent producer without rights fails in a way that does not tell what was written, and whoever may not read answers
    gets none.

    Raises:
        LogRefusedError: Kafka says that these credentials may not do that there.
        LogUnavailableError: no broker has answered.
    """
    admin, topics, request_s = make_admin(settings), TopicCollection([topic]), max(timeout_s, REQUEST_S_MIN)
    [described] = all_answered(
        settings,
        lambda: admin.describe_topics(topics, include_authorized_operations=True, request_timeout=request_s),
        timeout_s=timeout_s,
    ).values()
    allowed: Collection[AclOperation] | None = described.authorized_operations
    if allowed is not None and operation not in allowed:
        what = operation.name.lower()
        detail = f"these credentials may not {what} {topic}, which `commitlog acl apply --writer` allows"
        raise LogRefusedError(settings.bootstrap_servers, "TOPIC_AUTHORIZATION_FAILED", detail=detail)


def answered(settings: Settings, ask: Callable[[], T], *, timeout_s: float = REQUEST_TIMEOUT_S) -> T:
    """What a request gives; it is repeated while it meets what passes by itself, such as the election of a leader.

    Args:
        settings: where Kafka is.
        ask: makes the request anew.
        timeout_s: it is not repeated after that; each request has a timeout of its own besides.

    Raises:
        LogUnavailableError: no answer in time.
        LogRefusedError: Kafka answers, and refuses.
    """
    started = settings.machine.now_s()
    missed_at: float | None = None
    while True:
        try:
            answer = ask()
        except KafkaException as error:
            failure: KafkaError = error.args[0]
        else:
            _heard.pop(_client_key(settings), None)
            return answer
        now, kind = settings.machine.now_s(), triage(failure)
        # Of a broker that was away for long, the first word may be that it does not know the topic yet.
        is_missing = missed_at is not None and now - missed_at >= min(timeout_s, MISSING_PATIENCE_S)
        missed_at = (now if missed_at is None else missed_at) if kind is Triage.MISSING else None
        if (is_missing and kind is Triage.MISSING) or kind not in (Triage.RETRY, Triage.MISSING):
            advice = ": `commitlog init` creates what a log lacks" if kind is Triage.MISSING else ""
            if failure.code() == KafkaError.SECURITY_DISABLED:
                advice = ": everybody may do everything there until its brokers are given an `authorizer.class.name`"
            detail = f"{failure.str().rstrip('.')}{advice}"
            raise LogRefusedError(settings.bootstrap_servers, failure.name(), detail=detail)
        waited_s = now - started
        if waited_s >= timeout_s:
            raise _unanswered(settings, failure, int(waited_s * 1000))
        settings.machine.sleep(min(RETRY_PAUSE_S, timeout_s - waited_s))


def all_answered(
    settings: Settings, ask: Callable[[], Mapping[AskedT, Future[T]]], *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[AskedT, T]:
    """What a request gives whose parts have a future each, such as one for each topic; see `answered`."""
    return answered(
        settings, lambda: {asked: told_by(part, part.result) for asked, part in ask().items()}, timeout_s=timeout_s
    )


def told_by(future: Future[T], ask: Callable[[], AnswerT]) -> AnswerT:
    """What a future of Kafka's client says, asked by ``ask``.

    A signal that interrupts the question may leave the future's lock taken; the one thread by which the client gives all its
    answers would then wait for it for ever. So the lock is released."""
    try:
        return ask()
    except BaseException:
        if isinstance(future, Future):
            with suppress(RuntimeError):
                while True:
                    future._condition.release()
        raise


def end_offset(settings: Settings, topic: str, partition: int, *, timeout_s: float = REQUEST_TIMEOUT_S) -> int:
    """The offset after the last record that readers see."""
    return end_offsets(settings, topic, [partition], timeout_s=timeout_s)[partition]


def committed_end(settings: Settings, topic: str, partition: int) -> int:
    """The same for those who read what is committed: it lies before the first Kafka transaction that is still open."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    committed = IsolationLevel.READ_COMMITTED
    found = _list_offsets(settings, topic, [partition], latest, REQUEST_TIMEOUT_S, isolation_level=committed)
    return found[partition]


def end_offsets(
    settings: Settings, topic: str, partitions: Iterable[int], *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[int, int]:
    """By partition the offset after the last record that readers see."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _list_offsets(settings, topic, partitions, latest, timeout_s)


def first_offsets(
    settings: Settings, topic: str, partitions: Iterable[int], *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[int, int]:
    """By partition the offset of the first record that is still there, or would be the next."""
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return _list_offsets(settings, topic, partitions, earliest, timeout_s)


def offsets_since(settings: Settings, topic: str, partitions: Iterable[int], since_ms: int) -> dict[int, int]:
    """By partition the offset of the first record that was sent at that time or later; -1 where there is none."""
    since = OffsetSpec.for_timestamp(since_ms)
    return _list_offsets(settings, topic, partitions, since, REQUEST_TIMEOUT_S, least=-1)


def checked_offset(offset: int, least: int = 0) -> int:
    """An offset that a broker has told.

    Raises:
        KafkaException: it is none: of a broker that is just starting librdkafka gives -1001, without an error.
    """
    if offset < least:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return int(offset)


def _list_offsets(
    settings: Settings,
    topic: str,
    partitions: Iterable[int],
    spec: OffsetSpec,
    timeout_s: float,
    *,
    least: int = 0,
    **options: object,
) -> dict[int, int]:
    admin = make_admin(settings)
    wanted = {TopicPartition(topic, partition): spec for partition in partitions}
    started = settings.machine.now_s()

    def ask() -> dict[int, int]:
        # A broker that is away, or just starts and knows of no leader, would be taken for one that has no such topic.
        known = admin.list_topics(topic, timeout=max(left_s(), REQUEST_S_MIN)).topics.get(topic)
        if known is not None and any(each.leader < 0 for each in known.partitions.values()):
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        futures = admin.list_offsets(wanted, request_timeout=max(left_s(), REQUEST_S_MIN), **options)
        return {
            where.partition: checked_offset(told_by(future, future.result).offset, least)
            for where, future in futures.items()
        }

    def left_s() -> float:
        return timeout_s - (settings.machine.now_s() - started)

    return answered(settings, ask, timeout_s=timeout_s)
