"""A backlog waits in Kafka, not in the sequencer's memory: what it takes is the same for any length of what is queued."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from log_running import Ids, make_log, proposal, seed_of, sequencer_process

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.log.codec import encode_proposal
from commitlog.log.connection import make_producer
from commitlog.log.proposals import AHEAD_RECORDS
from commitlog.log.results import ResultsReader
from commitlog.log.topics import topics_of

BATCH_RECORDS = 500
QUEUED, QUEUED_BYTES = 8 * AHEAD_RECORDS, 6_000
"""Much more than is fetched ahead: 192 MB, of which 24 MB may be in memory, and what is on its way (37 to 66 MiB were seen)."""
GROWN_MIB_MAX = 96
QUEUED_AT_NIGHT, BYTES_AT_NIGHT = 1_000_000, 100
REMEMBERED_BYTES = 400
"""Of each proposal, by which it is known when it comes again."""


def queue(settings: Settings, count: int, text_bytes: int) -> None:
    """Rows of one key: the first stands, the others are refused, and the state stays as it is but for their ids."""
    ids, text = Ids(seed_of("queued")), "x" * text_bytes
    key, row = m.ColumnSpec("id", "int64", nullable=False), m.ColumnSpec("v", "varchar")
    producer, topic = make_producer(settings, linger_ms=5, compression_type="none"), topics_of(settings.log).proposals
    table = proposal(ids, 0, m.CreateTable("main", "k", (key, row), primary_key=("id",)))
    rows = (proposal(ids, 1, m.InsertRow("main", "k", {"id": 1, "v": text})) for _ in range(count))
    for each in (table, *rows):
        producer.produce(topic, encode_proposal(each), key=b"w1", partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0


def grown_mib(settings: Settings, count: int) -> float:
    """By how much the memory of a sequencer grows while it decides all that is queued, from its first outcome on."""
    with sequencer_process(settings) as process, ResultsReader(settings) as reader:
        measured, seq, deadline = psutil.Process(process.pid), 0, time.monotonic() + 600
        before = most = 0
        while seq <= count:
            assert time.monotonic() < deadline, f"{seq} of {count} are decided"
            records = reader.read()
            seq = records[-1].outcome.seq if records and isinstance(records[-1].value, m.Outcome) else seq
            now = measured.memory_info().rss
            before, most = (now if seq == 0 else before), max(most, now)
    return (most - before) / 2**20


def test_sequencer_when_more_is_queued_than_it_fetches_ahead_then_its_memory_does_not_hold_it(
    kafka: str, log_name: str, tmp_path: Path
) -> None:
    settings = make_log(kafka, log_name, tmp_path, batch_records_max=BATCH_RECORDS)
    queue(settings, QUEUED, QUEUED_BYTES)
    grown = grown_mib(settings, QUEUED)
    print(f"{QUEUED:,} queued: {grown:.0f} MiB more")
    assert grown < GROWN_MIB_MAX


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_sequencer_when_a_million_is_queued_then_its_memory_grows_by_what_it_remembers_of_each(
    kafka: str, log_name: str, tmp_path: Path
) -> None:
    settings = make_log(kafka, log_name, tmp_path)
    queue(settings, QUEUED_AT_NIGHT, BYTES_AT_NIGHT)
    grown = grown_mib(settings, QUEUED_AT_NIGHT)
    print(f"{QUEUED_AT_NIGHT:,} queued: {grown:.0f} MiB more")
    assert grown < GROWN_MIB_MAX + QUEUED_AT_NIGHT * REMEMBERED_BYTES / 2**20
