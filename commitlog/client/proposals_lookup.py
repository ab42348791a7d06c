"""Whether a proposal lies in the proposals topic: the difference between "still queued" and "never seen"."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import Position, ProposalId
from commitlog.domain.partitioning import id_time_ms
from commitlog.errors import LogUnavailableError
from commitlog.log.codec import readable_ids
from commitlog.log.connection import REQUEST_TIMEOUT_S, answered, assign, make_consumer
from commitlog.log.topics import topics_of

CLOCK_SLACK_MS = 10_000
"""How much earlier than its id's time a proposal's message may claim to have been sent."""

READ_MAX = 1_000
SILENT_READS_MAX = 20


class Searched(NamedTuple):
    """Whether it was found, and the end of each partition that was searched."""

    found: bool
    positions: tuple[Position, ...]


def find_queued(settings: Settings, partitions: int, proposal_id: ProposalId) -> Searched:
    """Look for an id among the proposals that are still in the topic.

    Only what was sent since the id was made is read; an id without a time is looked for everywhere.
    """
    consumer = make_consumer(settings, enable_partition_eof=True)
    try:
        starts = _starts(settings, consumer, partitions, proposal_id)
        ends = {where.partition: _end(settings, consumer, where) for where in starts}
        found = _read_through(settings, consumer, starts, ends, proposal_id)
    finally:
        consumer.close()
    return Searched(found, tuple(Position(partition, end) for partition, end in sorted(ends.items())))


def _starts(settings: Settings, consumer: Consumer, partitions: int, proposal_id: ProposalId) -> list[TopicPartition]:
    topic = topics_of(settings.log).proposals
    made_at_ms = id_time_ms(proposal_id)
    since_ms = 0 if made_at_ms is None else max(0, made_at_ms - CLOCK_SLACK_MS)
    asked = [TopicPartition(topic, partition, since_ms) for partition in range(partitions)]
    return answered(settings, lambda: consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S))


def _end(settings: Settings, consumer: Consumer, where: TopicPartition) -> int:
    return answered(settings, lambda: consumer.get_watermark_offsets(where, timeout=REQUEST_TIMEOUT_S))[1]


def _read_through(
    settings: Settings,
    consumer: Consumer,
    starts: list[TopicPartition],
    ends: dict[int, int],
    proposal_id: ProposalId,
) -> bool:
    unread = {where.partition for where in starts if 0 <= where.offset < ends[where.partition]}
    if not unread:
        return False
    assign(settings, consumer, [where for where in starts if where.partition in unread])
    silent = 0
    while unread:
        # Asked for many at once, the consumer would wait for all of them.
        messages = consumer.consume(READ_MAX, 0) or consumer.consume(1, 0.5)
        silent = 0 if messages else silent + 1
        if silent > SILENT_READS_MAX:
            raise LogUnavailableError(settings.bootstrap_servers, detail="the queued proposals cannot be read")
        for message in messages:
            error, partition = message.error(), message.partition()
            if error is None and readable_ids(message.value() or b"")[0] == proposal_id:
                return True
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if partition is not None and (at_end or (message.offset() or 0) + 1 >= ends[partition]):
                unread.discard(partition)
    return False
