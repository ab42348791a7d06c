"""A loop that only consumes and produces what a sequencer did, with the same clients: more than that no deciding can reach.

A process of its own, as the sequencer is. It is told the ranges in JSON on stdin, takes the outcomes into memory, says `ready`,
and on `go` reads the proposals again and appends the outcomes to another topic: one for each proposal that has come.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.log.connection import assign, make_admin
from commitlog.log.producing import make_results_producer
from commitlog.log.proposals import make_proposals_consumer
from commitlog.log.reading import take
from commitlog.log.results import read_range
from commitlog.log.topic_settings import topic_message_bytes_max
from commitlog.log.topics import topics_of

COPY_MODULE = "commitlog.ops.bench.copy_loop"
WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class CopyJob:
    """What is copied.

    Attributes:
        starts: the first proposal, by partition.
        first, end: of the results, whose outcomes are these proposals'.
        topic: where to.
    """

    starts: Mapping[int, int]
    first: int
    end: int
    topic: str


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy took: seconds until all was acknowledged, and CPU seconds of all threads."""

    read_bytes: int
    records: int
    elapsed_s: float
    cpu_s: float


def copy_in_process(settings: Settings, job: CopyJob) -> Copied:
    """Run a copy in a process of its own, whose start and preparing is not measured."""
    limit = topic_message_bytes_max(settings, topics_of(settings.log).results)
    topic = NewTopic(job.topic, 1, 1, config={"max.message.bytes": str(limit)})
    for created in make_admin(settings).create_topics([topic]).values():
        created.result()
    command = [sys.executable, "-m", COPY_MODULE]
    with subprocess.Popen(
        command, env=settings.environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(dataclasses.asdict(job)) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
        return Copied(**json.loads(process.stdout.readline()))


def main() -> None:
    """Do as told."""
    settings = Settings.load()
    job = CopyJob(**json.loads(sys.stdin.readline()))
    outcomes = [value for _, value in read_range(settings, job.first, job.end)]
    topics = topics_of(settings.log)
    producer = make_results_producer(settings, batch_bytes_max=topic_message_bytes_max(settings, topics.results))
    consumer = make_proposals_consumer(settings)
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu_before = time.perf_counter(), time.process_time()
    assign(
        settings,
        consumer,
        [TopicPartition(topics.proposals, int(number), offset) for number, offset in job.starts.items()],
    )
    acknowledged: list[int | None] = []
    copied = read_bytes = 0
    while copied < len(outcomes):
        messages = take(consumer, settings.batch_records_max, WAIT_S)
        read_bytes += sum(len(message.value() or b"") for message in messages)
        for value in outcomes[copied : copied + len(messages)]:
            producer.produce(
                job.topic, value, partition=0, on_delivery=lambda _, sent: acknowledged.append(sent.offset())
            )
        producer.poll(0)
        copied += len(messages)
    producer.flush()
    assert acknowledged == [*range(len(outcomes))]
    done = Copied(read_bytes, len(outcomes), time.perf_counter() - began, time.process_time() - cpu_before)
    print(json.dumps(dataclasses.asdict(done)), flush=True)


if __name__ == "__main__":
    main()
