"""The proposals that wait for the sequencer, read without being one: for those who must not do what one of them forbids, and
for those who look after the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from commitlog.config import Settings
from commitlog.log.connection import end_offsets, first_offsets, offsets_since
from commitlog.log.reading import read_through
from commitlog.log.topics import topics_of


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
    topic = topics_of(settings.log).proposals
    firsts = first_offsets(settings, topic, range(partitions))
    if any(first > next_offsets.get(partition, 0) for partition, first in firsts.items()):
        return None
    starts = {partition: next_offsets.get(partition, 0) for partition in firsts}
    ends = end_offsets(settings, topic, starts)
    return (value or b"" for _, value in read_through(settings, topic, starts, ends))


def sent_before(settings: Settings, partitions: int, before_ms: int) -> dict[int, int]:
    """By partition, the offset below which all was sent before a time.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    topic = topics_of(settings.log).proposals
    ends = end_offsets(settings, topic, range(partitions))
    since = offsets_since(settings, topic, range(partitions), before_ms)
    return {partition: min(end, since[partition]) if since[partition] >= 0 else end for partition, end in ends.items()}


def has_proposal(settings: Settings, next_offsets: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    """Whether one lies between the first offset that is not decided yet, by partition, and an end.

    What has an offset need not be one: the ends of somebody's Kafka transactions have theirs.
    """
    topic, starts = topics_of(settings.log).proposals, {partition: next_offsets.get(partition, 0) for partition in ends}
    return any(True for _ in read_through(settings, topic, starts, ends, skips_trimmed=True))
