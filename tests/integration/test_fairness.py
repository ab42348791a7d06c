"""One writer's backlog does not keep another one waiting; and a writer can be slowed down by Kafka's quotas."""

from __future__ import annotations

import dataclasses
import os
import random
import statistics
import subprocess
import time
from pathlib import Path

from log_running import Ids, append, create_table, make_log, proposal, seed_of, serving, wait_until

from commitlog.config import Settings
from commitlog.domain.model.ids import partition_for
from commitlog.local.jars import ensure_jars
from commitlog.local.java import find_java
from commitlog.log.codec import encode_proposal
from commitlog.log.connection import make_producer
from commitlog.log.genesis import init_log
from commitlog.log.proposals import AHEAD_RECORDS
from commitlog.log.publisher import Publisher
from commitlog.log.topics import topics_of

PARTITIONS = 4
BACKLOG = 8 * AHEAD_RECORDS
QUOTA_BYTES_S = 16_000
ROUNDS = 5


def writer_of(partition: int, name: str) -> str:
    return next(f"{name}-{n}" for n in range(1_000) if partition_for(f"{name}-{n}", PARTITIONS) == partition)


def publish_backlog(settings: Settings, ids: Ids, writer: str, count: int) -> None:
    producer, topic = make_producer(settings, linger_ms=5), topics_of(settings.log).proposals
    partition = partition_for(writer, PARTITIONS)
    for number in range(count):
        encoded = encode_proposal(proposal(ids, 1, append(f"{writer}/{number}.parquet"), writer=writer))
        producer.produce(topic, encoded, key=writer.encode(), partition=partition)
    assert producer.flush(60) == 0


def test_proposal_when_another_writer_has_a_backlog_then_it_waits_for_no_more_than_its_share(
    kafka: str, log_name: str, tmp_path: Path
) -> None:
    settings = Settings.load(
        environment={}, log=log_name, bootstrap_servers=kafka, home=tmp_path, partitions=PARTITIONS
    )
    init_log(settings)
    ids = Ids(seed_of("fair"))
    bulk, single = writer_of(0, "bulk"), writer_of(1, "single")
    waited: list[int] = []
    with Publisher(settings) as publisher:
        with serving(settings):
            publisher.publish(proposal(ids, 0, create_table(), writer=single)).wait(30)
        publish_backlog(settings, ids, bulk, BACKLOG)
        # What is on its way is decided already: here little, so that it is seen what was fetched.
        with serving(dataclasses.replace(settings, batch_records_max=500)) as sequencer:
            for number in range(1, 4):
                began = BACKLOG * number // 8
                wait_until(lambda began=began: sequencer.status.seq > began, "some of the backlog is decided")  # type: ignore[misc]
                pending = publisher.publish(proposal(ids, 1, append(f"s{number}.parquet"), writer=single))
                publisher.flush(60)
                before = sequencer.status.seq
                waited.append(pending.wait(60).seq - before)
    # The median, for where processors are short a fetch comes late once; without shares each would wait for what is left.
    assert statistics.median(waited) <= 2 * BACKLOG // PARTITIONS, (
        f"so many were decided before each: {waited} of {BACKLOG}"
    )


def test_writer_when_kafka_has_a_quota_for_it_then_it_alone_is_slowed_down(
    kafka: str, log_name: str, tmp_path: Path
) -> None:
    settings, ids = make_log(kafka, log_name, tmp_path), Ids(seed_of("quota"))
    chance = random.Random(seed_of("quota"))
    named = f"bulk-{log_name}"
    bulk = dataclasses.replace(settings, kafka={**settings.kafka, "client.id": named, "compression.type": "none"})
    limit(settings, kafka, named)

    def rounds_s(publisher: Publisher, writer: str) -> float:
        """How long some rounds of proposals take, each when the one before is answered."""
        began = time.monotonic()
        for _ in range(ROUNDS):
            files = [f"{chance.randbytes(500).hex()}.parquet" for _ in range(60)]
            answers = [publisher.publish(proposal(ids, 1, append(each), writer=writer)) for each in files]
            assert {answer.wait(120).verdict.value for answer in answers} == {"COMMITTED"}, "nothing is lost"
        return time.monotonic() - began

    with serving(settings), Publisher(settings) as publisher, Publisher(bulk) as slow:
        publisher.publish(proposal(ids, 0, create_table())).wait(30)
        slow_s, other_s = rounds_s(slow, "bulk"), rounds_s(publisher, "other")
    assert slow_s > 2 * other_s, "Kafka holds back what it answers beyond the quota"


def limit(settings: Settings, kafka: str, client_id: str) -> None:
    """What docs/reliability.md tells: kafka-configs.sh is this class."""
    java = find_java()
    jars = ensure_jars(settings.cache_dir, java)
    command = [
        *(str(java), "-cp", os.pathsep.join(map(str, jars)), "kafka.admin.ConfigCommand"),
        *("--bootstrap-server", kafka, "--alter", "--add-config", f"producer_byte_rate={QUOTA_BYTES_S}"),
        *("--entity-type", "clients", "--entity-name", client_id),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
