"""Consumers that go deaf: they give out nothing any more, and say nothing.

So it was with one that read receipts: its broker was restarted in an orderly way, and for a quarter of an hour it gave out
nothing of what came. What is asked of the broker beside it tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.log.connection import REQUEST_TIMEOUT_S, make_admin, told_by

DEAF = "delivered nothing for too long although there was something to read"
LOOK_S = 20.0
"""What has been there for so long, and does not come, will not come; nor is it said of a topic that was made anew, and ends
before it."""


class Hearing:
    """Watches one consumer. Asks the broker now and then where partitions end, and waits for no answer.

    Args:
        settings: where Kafka is.
        topic: what the consumer reads.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._admin = make_admin(settings)
        self._asked: dict[int, Future[Any]] = {}
        self._was_next: dict[int, int] = {}
        self._apart: set[int] = set()
        self._looked_s = settings.machine.now_s()

    def is_lost(self, next_offsets: Mapping[int, int]) -> bool:
        """Whether the consumer has gone deaf: a partition did not end where it was at the last look, and it is still there.

        Ask whenever nothing was given out; between two looks the answer is no.

        Args:
            next_offsets: by partition the offset after the last that was given out.
        """
        self._hear_answers()
        now_s = self._settings.machine.now_s()
        if self._asked or now_s - self._looked_s < LOOK_S:
            return False
        missed = [at for at in self._apart if self._was_next[at] == next_offsets.get(at)]
        self._looked_s, self._was_next, self._apart = now_s, dict(next_offsets), set()
        if next_offsets:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            wanted = {TopicPartition(self._topic, at): latest for at in next_offsets}
            asked = self._admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
            self._asked = {where.partition: answer for where, answer in asked.items()}
        return bool(missed)

    def _hear_answers(self) -> None:
        if self._asked and all(told_by(answer, answer.done) for answer in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._looked_s = self._settings.machine.now_s()
            for at, answer in asked.items():
                if answer.exception() is None and answer.result().offset != self._was_next[at]:
                    self._apart.add(at)
