"""The topics at a log's border, beside its own."""

from __future__ import annotations

from commitlog.config import Settings
from commitlog.domain.model.settings import PROPOSAL_BYTES_LIMIT
from commitlog.log.topic_settings import ensure_topics, wanted_topics
from commitlog.log.topics import BorderTopics, border_topics_of, topics_of


def ensure_border_topics(settings: Settings, partitions: int) -> BorderTopics:
    """Create those that are not there, and give their names. They take whatever the log may be set to take: a relay may not
    change them.

    Raises:
        ConfigurationError: one cannot be created.
        LogUnavailableError: no broker has answered.
    """
    names, own = border_topics_of(settings.log), topics_of(settings.log)
    wanted = wanted_topics(settings.log, partitions, PROPOSAL_BYTES_LIMIT)
    ensure_topics(
        settings,
        {
            names.proposals: wanted[own.proposals],
            names.receipts: wanted[own.receipts],
            names.results: wanted[own.results],
            names.dead_letters: wanted[own.dead_letters],
        },
    )
    return names
