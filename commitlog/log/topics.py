"""The names of a log's topics, and of those at its border."""

from __future__ import annotations

from typing import NamedTuple


class Topics(NamedTuple):
    """The names of a log's topics; that of trims is only there once results were trimmed."""

    proposals: str
    results: str
    receipts: str
    dead_letters: str
    control: str
    trims: str


def topics_of(log: str) -> Topics:
    """The names of a log's topics."""
    return Topics(*(f"{log}.{name.replace('_', '-')}" for name in Topics._fields))


class BorderTopics(NamedTuple):
    """The names of those that a relay has: what comes in, what goes out, and what came in and is no proposal."""

    proposals: str
    receipts: str
    results: str
    dead_letters: str


def border_topics_of(log: str) -> BorderTopics:
    """The names of the topics at a log's border."""
    return BorderTopics(*(f"{log}.{name.replace('_', '-')}.confluent" for name in BorderTopics._fields))


def relay_of(log: str) -> str:
    """The name of a log's relay, to Kafka: its transactional id, and how its groups begin."""
    return f"{log}.relay"
