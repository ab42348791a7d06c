"""The topics at a log's border, beside its own."""

from __future__ import annotations

from typing import NamedTuple

from commitlog.config import Settings
from commitlog.log.connection import FRAME_BYTES
from commitlog.log.topic_settings import FOR_EVER, RECEIPTS_KEPT_MS, ensure_topics, kept_for, outcome_bytes_max


class BorderTopics(NamedTuple):
    """Their names: what comes in, what goes out, and what came in and is no proposal."""

    proposals: str
    receipts: str
    results: str
    dead_letters: str


def border_topics_of(log: str) -> BorderTopics:
    """The names of the topics at a log's border."""
    return BorderTopics(*(f"{log}.{name.replace('_', '-')}.confluent" for name in BorderTopics._fields))


def ensure_border_topics(settings: Settings, partitions: int, proposal_bytes_max: int) -> BorderTopics:
    """Create those that are not there, and give their names.

    Raises:
        ConfigurationError: one cannot be created.
        LogUnavailableError: no broker has answered.
    """
    names = border_topics_of(settings.log)
    small = {"max.message.bytes": str(proposal_bytes_max + FRAME_BYTES)}
    large = {"max.message.bytes": str(outcome_bytes_max(proposal_bytes_max))}
    ensure_topics(
        settings,
        {
            names.proposals: (partitions, FOR_EVER | small),
            names.receipts: (partitions, kept_for(RECEIPTS_KEPT_MS) | large),
            names.results: (1, FOR_EVER | large),
            names.dead_letters: (1, FOR_EVER | large),
        },
    )
    return names
