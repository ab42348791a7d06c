"""How far a group of subscribers has come, kept by Kafka as the group's offset of the results topic."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from commitlog.config import Settings
from commitlog.log.connection import REQUEST_TIMEOUT_S, answered, make_admin, make_consumer, told_by
from commitlog.log.topics import topics_of

STORED_EVERY_MS = 500
KEPT_EVERY_S = 3600.0
"""Kafka forgets what it was not told for its ``offsets.retention.minutes``, a week unless the brokers are told otherwise."""


class KafkaGroupPosition:
    """The ``seq`` of the last outcome that a group has handled. The offset is the seq, its metadata says of which log.

    Args:
        settings: which log, and where.
        log_id: the log's own, so that one that is created anew under its name does not begin in its middle.
        group: the group's name.
    """

    def __init__(self, settings: Settings, log_id: bytes, group: str) -> None:
        self._settings = settings
        self._log_id = log_id.hex()
        self._topic = topics_of(settings.log).results
        self._stored: TopicPartition | None = None
        self._kept: TopicPartition | None = None
        self._told_s = settings.machine.now_s()
        # It reads nothing: Kafka keeps offsets of partitions that a consumer is assigned.
        self._consumer: Consumer = make_consumer(
            settings,
            group_id=f"{_groups_of(settings)}{group}",
            enable_auto_commit=True,
            auto_commit_interval_ms=STORED_EVERY_MS,
        )

    def seq(self) -> int | None:
        """The last outcome that was handled; None for a group that is new, or that Kafka has forgotten.

        Raises:
            LogUnavailableError: no broker has answered.
        """
        asked = [TopicPartition(self._topic, 0)]
        [found] = answered(self._settings, lambda: self._consumer.committed(asked, timeout=REQUEST_TIMEOUT_S))
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        self._consumer.pause(asked)
        if found.offset < 0 or found.metadata != self._log_id:
            return None
        self._kept = self._at(found.offset)
        return found.offset

    def store(self, seq: int) -> None:
        """Take note that an outcome, and all before it, are handled; Kafka is told within half a second, or by ``close``."""
        self._stored = self._kept = self._at(seq)
        self._told_s = self._settings.machine.now_s()
        self._consumer.store_offsets(offsets=[self._stored])

    def keep(self) -> None:
        """Tell Kafka of it again, now and then, while nothing is handled; if it does not hear of it, it will the next time."""
        now_s = self._settings.machine.now_s()
        if self._kept is None or now_s - self._told_s < KEPT_EVERY_S:
            return
        self._told_s = now_s
        # Another thread may have closed it meanwhile.
        with suppress(KafkaException, RuntimeError):
            self._consumer.commit(offsets=[self._kept], asynchronous=True)

    def close(self) -> None:
        """Have Kafka keep what was stored, and let go of the connection.

        Raises:
            LogUnavailableError: no broker has answered: what was handled last may be told again.
        """
        stored, consumer = self._stored, self._consumer
        try:
            if stored is not None:
                answered(self._settings, lambda: consumer.commit(offsets=[stored], asynchronous=False))
        finally:
            with suppress(KafkaException):
                consumer.close()

    def _at(self, seq: int) -> TopicPartition:
        return TopicPartition(self._topic, 0, seq, metadata=self._log_id)


def group_positions(settings: Settings, log_id: bytes) -> dict[str, int]:
    """By group that Kafka knows, the last outcome that it has handled.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    admin, prefix = make_admin(settings), _groups_of(settings)
    results = TopicPartition(topics_of(settings.log).results, 0)

    def groups() -> list[str]:
        listed = admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
        # One for each broker that does not know its groups yet, such as one that has just started.
        if listed.errors:
            raise listed.errors[0]
        return [each.group_id for each in listed.valid if each.group_id.startswith(prefix)]

    def position(group_id: str) -> TopicPartition:
        asked = [ConsumerGroupTopicPartitions(group_id, [results])]
        [told] = admin.list_consumer_group_offsets(asked, request_timeout=REQUEST_TIMEOUT_S).values()
        at: TopicPartition = told_by(told, told.result).topic_partitions[0]
        if at.error is not None:
            raise KafkaException(at.error)
        return at

    found: dict[str, int] = {}
    for group_id in answered(settings, groups):
        at = answered(settings, partial(position, group_id))
        if at.offset >= 0 and at.metadata == log_id.hex():
            found[group_id.removeprefix(prefix)] = at.offset
    return found


def _groups_of(settings: Settings) -> str:
    """How the names of a log's groups begin in Kafka."""
    return f"{settings.log}.subscribers."
