"""How far a log's relays are. What one of them has done it counts itself; where all of them are, Kafka knows by their groups,
and tells anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from commitlog.config import Settings
from commitlog.log.connection import REQUEST_TIMEOUT_S, all_answered, end_offsets, first_offsets, make_admin
from commitlog.log.reading import read_through
from commitlog.log.topics import border_topics_of, relay_of, topics_of
from commitlog.relay.turn import outcomes_group_of


@dataclass(slots=True)
class RelayProgress:
    """What a relay has done since its process began; its two threads add to it, each to fields of its own.

    Attributes:
        partitions: of the proposals at the border; 0 before that is known.
        proposals: were taken to the log.
        dead_letters: came and are no proposals.
        receipts: records of receipts that were given to the border.
        outcomes: were given to the border.
        is_standby: whether it is another relay's turn to give outcomes.
    """

    partitions: int = 0
    proposals: int = 0
    dead_letters: int = 0
    receipts: int = 0
    outcomes: int = 0
    is_standby: bool = True


class Backlog:
    """What waits for a log's relays in one topic.

    Args:
        settings: which log, and where.
        topic: what they read.
        group: in whose name they do.
    """

    def __init__(self, settings: Settings, topic: str, group: str) -> None:
        self._settings, self._topic, self._group = settings, topic, group

    def done(self, partitions: int) -> dict[int, int]:
        """By partition, before which offset they have taken all to the other side."""
        admin = make_admin(self._settings)
        where = [TopicPartition(self._topic, partition) for partition in range(partitions)]
        asked = ConsumerGroupTopicPartitions(self._group, where)
        [told] = all_answered(
            self._settings,
            lambda: admin.list_consumer_group_offsets([asked], request_timeout=REQUEST_TIMEOUT_S),
        ).values()
        firsts = first_offsets(self._settings, self._topic, range(partitions))
        return {each.partition: max(each.offset, firsts[each.partition]) for each in told.topic_partitions}

    def ends(self, done: Mapping[int, int]) -> dict[int, int]:
        """By partition, the offset after the last record."""
        return end_offsets(self._settings, self._topic, done)

    def has_any(self, done: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        """Whether a record lies between: the ends of somebody's transactions have offsets, too."""
        return any(True for _ in read_through(self._settings, self._topic, done, ends, skips_trimmed=True))

    def count(self, partitions: int) -> int:
        """How many records wait."""
        done = self.done(partitions)
        return sum(end - done[partition] for partition, end in self.ends(done).items())

    def readers(self) -> int:
        """How many relays there are, as far as Kafka has heard."""
        admin = make_admin(self._settings)
        [told] = all_answered(
            self._settings,
            lambda: admin.describe_consumer_groups([self._group], request_timeout=REQUEST_TIMEOUT_S),
        ).values()
        return len(told.members)


def proposals_backlog(settings: Settings) -> Backlog:
    """The proposals at the border that are not in the log yet."""
    return Backlog(settings, border_topics_of(settings.log).proposals, relay_of(settings.log))


def outcomes_backlog(settings: Settings) -> Backlog:
    """The results that are not at the border yet."""
    return Backlog(settings, topics_of(settings.log).results, outcomes_group_of(settings.log))
