"""The topics at a log's border, beside its own."""

from __future__ import annotations

from commitlog.config import Settings
from commitlog.log.connection import FRAME_BYTES
from commitlog.log.topic_settings import allow_messages, ensure_topics, topic_message_bytes_max, wanted_topics
from commitlog.log.topics import BorderTopics, border_topics_of, topics_of

BATCH_BYTES = 1_000_000
"""What programs' producers send at once (librdkafka's `batch.size`), however little the log takes of each proposal."""


def ensure_border_topics(settings: Settings, partitions: int, proposal_bytes_max: int | None = None) -> BorderTopics:
    """Create those that are not there, have all of them take what the log takes, or more, and give their names.

    Args:
        settings: which log, and where.
        partitions: of the log.
        proposal_bytes_max: what it takes; None is what its topics do.

    Raises:
        ConfigurationError: one cannot be created.
        LogRefusedError: these credentials may not have one take larger messages; the message says what to set.
        LogUnavailableError: no broker has answered.
    """
    names, own = border_topics_of(settings.log), topics_of(settings.log)
    if proposal_bytes_max is None:
        proposal_bytes_max = topic_message_bytes_max(settings, own.proposals) - FRAME_BYTES
    of_log = wanted_topics(settings.log, partitions, max(proposal_bytes_max, BATCH_BYTES))
    wanted = {
        names.receipts: of_log[own.receipts],
        names.results: of_log[own.results],
        names.dead_letters: of_log[own.dead_letters],
        # Last: what comes larger must find its answer a place.
        names.proposals: of_log[own.proposals],
    }
    ensure_topics(settings, wanted)
    allow_messages(settings, wanted, role="relay")
    return names
