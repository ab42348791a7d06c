"""The proposals that wait for the sequencer, read without being one: for those who must not do what one of them forbids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, TopicPartition

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.log.connection import assign, end_offsets, first_offsets, is_no_answer, make_admin, make_consumer
from commitlog.log.topics import topics_of

_SILENT_READS_MAX = 20
_READ_MAX = 1_000


def undecided_proposals(settings: Settings, next_offsets: Mapping[int, int], partitions: int) -> Iterator[bytes] | None:
    """The bytes of every proposal from the decided positions to the end of each partition as it is now.

    None when some of them were decided and trimmed already, so that only the results know them.

    Args:
        settings: which log, and where.
        next_offsets: the first offset not decided yet, by partition; 0 for a partition that is not named.
        partitions: how many there are.

    Raises:
        LogUnavailableError: they cannot all be read.
    """
    topic, admin = topics_of(settings.log).proposals, make_admin(settings)
    firsts = first_offsets(settings, admin, topic, range(partitions))
    if any(first > next_offsets.get(partition, 0) for partition, first in firsts.items()):
        return None
    starts = {partition: next_offsets.get(partition, 0) for partition in firsts}
    ends = end_offsets(settings, admin, topic, starts, committed=False)
    return _read(settings, {partition: start for partition, start in starts.items() if start < ends[partition]}, ends)


def _read(settings: Settings, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[bytes]:
    unread, topic = set(starts), topics_of(settings.log).proposals
    if not unread:
        return
    consumer = make_consumer(settings, enable_partition_eof=True)
    try:
        assign(settings, consumer, [TopicPartition(topic, partition, starts[partition]) for partition in unread])
        silent = 0
        while unread:
            messages = consumer.consume(_READ_MAX, 0) or consumer.consume(1, 0.5)
            silent = 0 if messages else silent + 1
            if silent > _SILENT_READS_MAX:
                raise LogUnavailableError(settings.bootstrap_servers, detail="the queued proposals cannot be read")
            for message in messages:
                partition, error = message.partition(), message.error()
                assert partition is not None
                if error is None:
                    yield message.value() or b""
                elif error.code() != KafkaError._PARTITION_EOF:
                    if is_no_answer(error) or error.retriable():
                        continue
                    raise LogUnavailableError(settings.bootstrap_servers, detail=error.str())
                offset = message.offset() or 0
                is_last = error is not None or offset + 1 >= ends[partition]
                if is_last:
                    unread.discard(partition)
    finally:
        consumer.close()
