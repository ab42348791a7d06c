"""What a Kafka error means to us: the one place that says so.

An outage shows in many codes, by where it is met: nobody answers, a leader is being elected, the client does not know yet
who leads or what the leader's epoch is. All of them pass by themselves, so whoever meets one asks again as long as its
caller waits. What Kafka refuses does not pass.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from confluent_kafka import KafkaError

from commitlog.errors import OF_ANOTHER_FOLDER, LogRefusedError

TLS_FAILED, UNTRUSTED = "SSL handshake failed", "certificate verify failed"


class Triage(StrEnum):
    """What to do about a Kafka error."""

    RETRY = "RETRY"
    """It passes by itself: ask again."""
    MISSING = "MISSING"
    """There is no such topic or partition, or it is not known yet: ask again for a moment."""
    GONE = "GONE"
    """The offset is not there, or so it seems: look where the partition begins and ends."""
    AT_END = "AT_END"
    """No error: there is nothing more to read now."""
    TOO_LARGE = "TOO_LARGE"
    """The message is over the topic's limit."""
    REFUSED = "REFUSED"
    """It will be the same the next time: say so."""


_RETRY = frozenset(
    {
        # Nobody answers.
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._DESTROY_BROKER,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._NODE_UPDATE,
        KafkaError._RETRY,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        # Who leads, or coordinates, is being settled.
        KafkaError._WAIT_CACHE,
        KafkaError._WAIT_COORD,
        KafkaError._PREV_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.STALE_BROKER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.REBOOTSTRAP_REQUIRED,
        # Replicas or a disk are away.
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.CONCURRENT_TRANSACTIONS,
    }
)
_MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._NOENT,
    }
)
_GONE = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})


def triage(error: KafkaError) -> Triage:
    """What to do about an error of a request, of a consumer, or of a message that was sent."""
    code = error.code()
    if code == KafkaError._PARTITION_EOF:
        return Triage.AT_END
    if code in _GONE:
        return Triage.GONE
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return Triage.TOO_LARGE
    if code in _MISSING:
        return Triage.MISSING
    return Triage.RETRY if code in _RETRY or error.retriable() else Triage.REFUSED


class Consumed(StrEnum):
    """What a consumer has given out."""

    RECORD = "RECORD"
    """A record."""
    END = "END"
    """Word that the partition holds no more now; its offset is the partition's end."""
    GONE = "GONE"
    """Word that the next offset is not there, or so it seems; the partition is read no further."""
    WAIT = "WAIT"
    """Word of an outage: what comes next comes by itself."""


def consumed(error: KafkaError | None, bootstrap_servers: str, topic: str) -> Consumed:
    """What a message of a consumer is, by its error; every reader asks here.

    Raises:
        LogRefusedError: Kafka does not let the topic be read, and will not the next time.
    """
    if error is None:
        return Consumed.RECORD
    match triage(error):
        case Triage.AT_END:
            return Consumed.END
        case Triage.GONE:
            return Consumed.GONE
        case Triage.REFUSED:
            raise LogRefusedError(bootstrap_servers, error.name(), detail=f"{topic}: {error.str()}")
        case _:
            return Consumed.WAIT


class Unreached(NamedTuple):
    """How a broker cannot be reached, as a message says it."""

    met: str
    advice: str


def unreached(error: KafkaError) -> Unreached | None:
    """What it is that a client meets instead of a broker's answer; None is one that is away."""
    code = error.code()
    if code == KafkaError._AUTHENTICATION:
        account = "kafka.sasl.username, kafka.sasl.password and kafka.sasl.mechanism"
        return Unreached(
            "does not let this process in", f"Check {account} (`commitlog config show`), and its account there"
        )
    if code == KafkaError._SSL or TLS_FAILED in error.str():
        options = "kafka.ssl.ca.location and kafka.security.protocol"
        return Unreached("cannot be reached by TLS", f"Check {options} (`commitlog config show`), and its certificate")
    if code == KafkaError._RESOLVE:
        advice = (
            "Give COMMITLOG_BOOTSTRAP_SERVERS a name that is known here, or the brokers another in advertised.listeners"
        )
        return Unreached("cannot be found", advice)
    if code == KafkaError._ALL_BROKERS_DOWN:
        wish = "Either it wants TLS or an account, and so another protocol (`commitlog config show`)"
        other = (
            "or it is no Kafka (COMMITLOG_BOOTSTRAP_SERVERS), one that hangs, or a proxy before one that does not run"
        )
        return Unreached("takes connections and does not answer on them", f"{wish} - {OF_ANOTHER_FOLDER} -, {other}")
    return None


_HINTS = {
    KafkaError.INVALID_TIMESTAMP: "; is this machine's clock right?",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "; `commitlog acl apply` gives each role its rights",
}


def in_words(error: KafkaError) -> str:
    """The error as a message may quote it."""
    return f"{error.name()}: {error.str()}{_HINTS.get(error.code(), '')}"
