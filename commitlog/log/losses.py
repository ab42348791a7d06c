"""Losses that show where the log's topics meet: what one of them says of another that does not hold it (any more)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from confluent_kafka import TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import ProposalId
from commitlog.errors import LogLossError, MalformedRecordError
from commitlog.log.codec import Heartbeat, Receipts, decode_heartbeat, decode_receipts, readable_ids
from commitlog.log.connection import assign, end_offsets, first_offsets, make_consumer
from commitlog.log.reading import Patience
from commitlog.log.topics import topics_of
from commitlog.log.triage import Consumed, consumed

ToldT = TypeVar("ToldT", Receipts, Heartbeat)

READ_TIMEOUT_S = 30.0
POLL_S = 0.2


def first_proposals(settings: Settings, partitions: int) -> dict[int, int]:
    """Where the proposals begin now, by partition; LogUnavailableError when no broker answers."""
    return first_offsets(settings, topics_of(settings.log).proposals, range(partitions))


def check_proposals(
    settings: Settings,
    firsts: Mapping[int, int],
    next_offsets: Mapping[int, int],
    newest_ids: Mapping[int, ProposalId | None],
) -> None:
    """Checks that every proposal that was not decided is there, and every one that was has been.

    Args:
        settings: which log, and where.
        firsts: where the proposals began before the log was read to its end: since then more may have been decided and
            trimmed.
        next_offsets: the next to decide, by partition, as the log's end says.
        newest_ids: of the last that was decided, by partition, if it was a proposal.

    Raises:
        LogLossError: which are gone.
        LogUnavailableError: no broker has answered.
    """
    topic = topics_of(settings.log).proposals
    ends = end_offsets(settings, topic, next_offsets)
    for partition, expected in next_offsets.items():
        first, end = firsts[partition], ends[partition]
        if first > expected:
            raise LogLossError(
                f"{topic} partition {partition} starts at offset {first}, but {expected} is the next to decide: "
                f"the proposals from {expected} to {first - 1} are gone without an answer (retention, or deleted "
                "records); docs/retention.md says what to do"
            )
        if end < expected:
            raise LogLossError(
                f"{topic} partition {partition} ends at offset {end}, but proposals up to {expected - 1} were "
                "decided: the topic was made anew, lost its end in a power loss, or was restored from a backup; "
                "docs/retention.md says what to do"
            )
    # A topic that was made anew may hold as many by now. Decided ones may be trimmed, and a restored log has empty messages.
    last = {at: expected - 1 for at, expected in next_offsets.items() if firsts[at] < expected}
    for partition, value in _values_at(settings, topic, last).items():
        found, decided = readable_ids(value)[0], newest_ids.get(partition)
        if None not in (found, decided) and found != decided:
            raise LogLossError(
                f"{topic} partition {partition} holds another proposal at offset {last[partition]} than the one that was "
                "decided there: the topic was made anew, and what was sent to it since may be passed over; "
                "docs/retention.md says what to do"
            )


class LastTold(NamedTuple):
    """The last outcome that the receipts tell of, and the last that heartbeats do; 0 where there is none."""

    receipts: int
    heartbeats: int


def last_told(settings: Settings, log_id: bytes, partitions: int) -> LastTold:
    """What was told of a log; LogUnavailableError when no broker answers."""
    topics = topics_of(settings.log)
    receipts = _decoded(decode_receipts, last_values(settings, topics.receipts, partitions), log_id)
    heartbeats = _decoded(decode_heartbeat, last_values(settings, topics.control, 1), log_id)
    return LastTold(
        max((receipt.seq for packed in receipts for receipt in packed.receipts), default=0),
        max((heartbeat.seq for heartbeat in heartbeats), default=0),
    )


def check_told(settings: Settings, told: LastTold, *, seq: int) -> None:
    """Checks what was told before the log was read to its end, which is outcome ``seq``.

    Raises:
        LogLossError: the log has lost outcomes.
    """
    for what, found in told._asdict().items():
        if found > seq:
            raise LogLossError(
                f"{topics_of(settings.log).results} ends with outcome {seq}, but the {what} tell of outcome {found}: the "
                f"outcomes from {seq + 1} on are gone (a power loss without flushing, or a broker restored from a "
                "backup); writers have been told of them; docs/retention.md says what to do"
            )


def _decoded(decode: Callable[[bytes], ToldT], values: Iterable[bytes], log_id: bytes) -> Iterator[ToldT]:
    """What this log has told, and nobody else."""
    for value in values:
        try:
            told = decode(value)
        except MalformedRecordError:
            continue
        if told.log_id == log_id:
            yield told


def last_values(settings: Settings, topic: str, partitions: int) -> list[bytes]:
    """The last message of each partition that has one; LogUnavailableError when no broker answers."""
    firsts = first_offsets(settings, topic, range(partitions))
    ends = end_offsets(settings, topic, range(partitions))
    last = {number: end - 1 for number, end in ends.items() if end > firsts[number]}
    return list(_values_at(settings, topic, last).values())


def _values_at(settings: Settings, topic: str, offsets: Mapping[int, int]) -> dict[int, bytes]:
    """The messages at these offsets, by partition, without what is gone; LogUnavailableError when no broker answers."""
    values: dict[int, bytes] = {}
    if not offsets:
        return values
    waiting = dict(offsets)
    consumer = make_consumer(settings, fetch_wait_max_ms=10)
    try:
        assign(settings, consumer, [TopicPartition(topic, number, offset) for number, offset in offsets.items()])
        patience = Patience(settings, READ_TIMEOUT_S, f"messages of {topic} cannot be read")
        while waiting:
            for message in consumer.consume(1, POLL_S):
                kind = consumed(message.error(), settings.bootstrap_servers, topic)
                if kind is Consumed.WAIT:
                    continue
                partition = message.partition()
                assert partition is not None
                wanted = waiting.pop(partition, None)
                if kind is Consumed.RECORD and message.offset() == wanted:
                    values[partition] = message.value() or b""
                patience.renew()
            patience.check()
    finally:
        consumer.close()
    return values
