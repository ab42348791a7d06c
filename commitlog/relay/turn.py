"""Whose turn it is to give a log's outcomes to its border, where several relays run: that of the one to which Kafka gives the
results' partition in their group. It is found anew when that one ends, or is not heard for a while.

That outcomes are given once does not hang on it: a relay that does not know yet that its turn is over is fenced.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from commitlog.config import Settings
from commitlog.log.connection import make_consumer
from commitlog.log.reading import take
from commitlog.log.topics import relay_of, topics_of
from commitlog.log.triage import consumed

SILENT_MS_MAX = 10_000
"""For how long a relay may not be heard before another one does its work."""


def outcomes_group_of(log: str) -> str:
    """The group whose offset of the results is how far the outcomes are at the border."""
    return f"{relay_of(log)}.outcomes"


class Turn:
    """One relay's place among those of its log. For one thread, which asks again and again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = topics_of(settings.log).results
        self._is_mine = False
        # It reads nothing: what the partition holds is read by its chain.
        self._consumer = make_consumer(
            settings,
            group_id=outcomes_group_of(settings.log),
            auto_offset_reset="earliest",
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=SILENT_MS_MAX,
        )
        self._consumer.subscribe([self._topic], on_assign=self._given, on_revoke=self._taken)

    def is_mine(self, timeout_s: float = 0) -> bool:
        """Whether it is this one's turn; word of it is waited for as long.

        Raises:
            LogRefusedError: Kafka does not let it be one of the group.
        """
        for message in take(self._consumer, 1, timeout_s):
            consumed(message.error(), self._settings.bootstrap_servers, self._topic)
        return self._is_mine

    def note(self, next_offset: int) -> None:
        """Have Kafka know before which offset of the results all are at the border: for those who look after it."""
        with suppress(KafkaException):
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, next_offset)], asynchronous=True)

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._is_mine = self._is_mine or bool(partitions)

    def _taken(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._is_mine = self._is_mine and not partitions

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Whoever leaves without a word keeps its turn until it is missed.
        self._consumer.close()
