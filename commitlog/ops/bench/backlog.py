"""Proposals of one file, made beforehand and published at once, so that making them takes no time from who is measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.ids import partition_for
from commitlog.log.codec import encode_proposal
from commitlog.log.connection import ready_producer
from commitlog.log.genesis import require_genesis
from commitlog.log.topics import topics_of

TABLES = 8
WRITERS = 16
COLUMNS = 5


class Record(NamedTuple):
    """A proposal as it is sent."""

    key: bytes
    value: bytes
    partition: int


def make_backlog(settings: Settings, proposals: int, columns: int) -> list[Record]:
    """Proposals ready to send, each with statistics of so many columns."""
    partitions = require_genesis(settings).partitions
    made = [make_proposal(number, columns) for number in range(proposals)]
    return [
        Record(each.writer_id.encode(), encode_proposal(each), partition_for(each.writer_id, partitions))
        for each in made
    ]


class BacklogPublisher:
    """Publishes backlogs as fast as Kafka takes them; made before anything counts, for a new producer may need half a second
    before it sends."""

    def __init__(self, settings: Settings) -> None:
        self._topic = topics_of(settings.log).proposals
        self._producer = ready_producer(settings, self._topic, linger_ms=2)

    def publish(self, backlog: Sequence[Record]) -> None:
        """Return when Kafka has all of it."""
        for record in backlog:
            self._producer.produce(self._topic, record.value, key=record.key, partition=record.partition)
        self._producer.flush()


def make_proposal(number: int, columns: int) -> m.Proposal:
    """An append of one file to one of the tables, with statistics of so many columns."""
    known = tuple(
        m.ColumnStatistics(f"c{column}", min=number, max=number + 999, null_count=0, value_count=1000, size_bytes=4096)
        for column in range(columns)
    )
    file = m.DataFile(
        f"part-{number:08d}.parquet", record_count=1000, file_size_bytes=65_536, footer_size=900, statistics=known
    )
    return m.Proposal(
        proposal_id=new_proposal_id(),
        writer_id=f"writer-{number % WRITERS}",
        base_snapshot_id=1,
        changes=(m.Append("main", f"t{number % TABLES}", (file,)),),
        created_at_ms=time.time_ns() // 1_000_000,
    )
