"""A producer that says of what it was given whatever Kafka's client can say."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

Said = tuple[KafkaError | None, int | None]
"""Of one record: an error, or the offset that it has, which None and negative ones leave open."""


class SayingProducer:
    """Says it of one record after another when it is flushed; those that nothing is left for wait on."""

    def __init__(self, *said: Said) -> None:
        self._said = list(said)
        self._told: list[Callable[[Any, Any], None]] = []

    def produce(self, *_: object, on_delivery: Callable[[Any, Any], None], **__: object) -> None:
        """Is given a record."""
        self._told.append(on_delivery)

    def poll(self, _: float) -> None:
        """Says nothing yet."""

    def flush(self, _: float) -> int:
        """Says what it has to say."""
        for told, (error, offset) in zip(self._told, self._said, strict=False):
            told(error, SimpleNamespace(offset=lambda offset=offset: offset))
        return len(self._told) - len(self._said)
