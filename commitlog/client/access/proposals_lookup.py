"""Whether a proposal lies in the proposals topic: the difference between "still queued" and "never seen"."""

from __future__ import annotations

from typing import NamedTuple

from commitlog.config import Settings
from commitlog.domain.model import Position, ProposalId
from commitlog.domain.model.ids import id_time_ms
from commitlog.log.codec import readable_ids
from commitlog.log.connection import end_offsets, offsets_since
from commitlog.log.reading import read_through
from commitlog.log.topics import topics_of

CLOCK_SLACK_MS = 10_000
"""How much earlier than its id's time a proposal's message may claim to have been sent, beside what the log allows."""


class Searched(NamedTuple):
    """Whether it was found, and the end of each partition that was searched."""

    found: bool
    positions: tuple[Position, ...]


def find_queued(settings: Settings, partitions: int, clock_skew_ms_max: int, proposal_id: ProposalId) -> Searched:
    """Look for an id among the proposals that are still in the topic; those that are trimmed meanwhile have been decided.

    Only what was sent since the id was made is read, by whichever clocks the log allows; an id without a time is looked for
    everywhere.

    Raises:
        LogUnavailableError: they cannot all be read.
    """
    topic, numbers = topics_of(settings.log).proposals, range(partitions)
    made_at_ms = id_time_ms(proposal_id)
    slack_ms = CLOCK_SLACK_MS + clock_skew_ms_max
    since_ms = 0 if made_at_ms is None else max(0, made_at_ms - slack_ms)
    starts = offsets_since(settings, topic, numbers, since_ms)
    ends = end_offsets(settings, topic, numbers)
    sent_since = {partition: start for partition, start in starts.items() if start >= 0}
    queued = read_through(settings, topic, sent_since, ends, skips_trimmed=True)
    found = any(readable_ids(value)[0] == proposal_id for _, value in queued if value)
    return Searched(found, tuple(Position(partition, end) for partition, end in sorted(ends.items())))
