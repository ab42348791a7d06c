"""What the tests of the log need: proposals, a sequencer in a thread or a process, and waiting for conditions."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.log.checkpoint import checkpoint_dir_of, write_checkpoint
from commitlog.log.codec import decode_statistics
from commitlog.log.connection import make_admin
from commitlog.log.genesis import init_log
from commitlog.log.replica import Replica
from commitlog.log.results import ResultRecord, ResultsReader
from commitlog.log.sequencer import Phase, Sequencer
from commitlog.log.topic_settings import described, partition_counts

DEADLINE_S = 90.0

RUN_SEQUENCER = """
import logging, signal, sys, threading
from commitlog.config import Settings
from commitlog.log.garbage import OwnGarbage
from commitlog.log.sequencer import run_sequencer
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
sys.exit(run_sequencer(Settings.load(), standby="standby" in sys.argv, stop=stop, garbage=OwnGarbage()))
"""


def wait_until(condition: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Returns as soon as the condition holds; fails with ``what`` at the deadline."""
    began_s = looked_s = time.monotonic()
    while not condition():
        now_s = time.monotonic()
        assert now_s < began_s + deadline_s, f"not within {deadline_s:.0f} s: {what}"
        # Looks that are dear leave half of their time to what is waited for.
        time.sleep(min(max(now_s - looked_s, 0.005), 0.2))
        looked_s = time.monotonic()


def alter_topic(settings: Settings, topic: str, name: str, value: str) -> None:
    """Gives a topic a setting, as somebody would by hand."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    make_admin(settings).incremental_alter_configs([resource])[resource].result()
    # The controller has answered, of which the broker hears a moment later.
    wait_until(lambda: described(settings, [topic])[topic][name] == value, "the broker to know")


class Ids:
    """UUIDs version 7 from a seed; their time is now."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def next(self) -> bytes:
        head = (time.time_ns() // 1_000_000).to_bytes(6, "big")
        tail = self._chance.randbytes(10)
        return head + bytes([0x70 | tail[0] & 0x0F, tail[1], 0x80 | tail[2] & 0x3F]) + tail[3:]


def make_log(kafka: str, name: str, home: Path, **more: object) -> Settings:
    """A new log of two partitions, without a catalog."""
    settings = Settings.load(environment={}, log=name, bootstrap_servers=kafka, home=home, partitions=2, **more)
    init_log(settings)
    return settings


def proposal(ids: Ids, base: int, *changes: m.Change, writer: str = "w1", **more: object) -> m.Proposal:
    """A proposal made now."""
    created_at_ms = time.time_ns() // 1_000_000
    return m.Proposal(ids.next(), writer, base, changes, created_at_ms=created_at_ms, **more)  # type: ignore[arg-type]


def create_table(table: str = "t") -> m.CreateTable:
    return m.CreateTable("main", table, (m.ColumnSpec("id", "int64"),))


def append(path: str, table: str = "t") -> m.Append:
    return m.Append("main", table, (m.DataFile(path, 10, 1000),))


def save_checkpoint(settings: Settings) -> None:
    """Of all that was decided: a checkpointer would leave out what is not yet known to be told, now more and now less."""
    with closing(Replica(settings)) as replica:
        for _ in replica.follow_to_end():
            pass
        write_checkpoint(checkpoint_dir_of(settings), replica.state, replica.position)


@contextmanager
def serving(settings: Settings, *, standby: bool = False, **more: object) -> Iterator[Sequencer]:
    """A sequencer in a thread of this process; what it raised is raised at the end."""
    stop = threading.Event()
    sequencer = Sequencer(settings, stop=stop, **more)  # type: ignore[arg-type]
    raised: list[BaseException] = []

    def run() -> None:
        try:
            sequencer.run(standby=standby)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    expected = Phase.STANDBY if standby else Phase.SERVING
    try:
        wait_until(lambda: bool(raised) or sequencer.status.phase is expected, f"a sequencer in phase {expected}")
        if not raised:
            yield sequencer
    finally:
        stop.set()
        thread.join()
    if raised:
        raise raised[0]


@contextmanager
def projecting(settings: Settings) -> Iterator[None]:
    """A projector in a thread: whatever is appended while it runs becomes visible, a sequencer's second takeover too."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(Projector(settings, decode_statistics=decode_statistics).run, stop)
        try:
            yield
        finally:
            stop.set()
        running.result()


def delete_topics(settings: Settings, *topics: str) -> None:
    """And wait until they are gone: their names are to be used again."""
    admin = make_admin(settings)
    for future in admin.delete_topics(list(topics)).values():
        future.result()
    wait_until(lambda: not set(topics) & set(partition_counts(settings)), "the topics are gone")


@contextmanager
def sequencer_process(settings: Settings, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A sequencer in a process of its own, killed at the end if it still runs."""
    process = subprocess.Popen([sys.executable, "-c", RUN_SEQUENCER, *arguments], env=settings.environment())
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def all_records(settings: Settings) -> list[ResultRecord]:
    """Everything in the results topic, verified."""
    with ResultsReader(settings) as reader:
        return [record for records in reader.read_to_end() for record in records]


def all_outcomes(settings: Settings) -> list[m.Outcome]:
    return [record.outcome for record in all_records(settings)[1:]]


def messages_of(settings: Settings, topic: str, partition: int = 0) -> list[bytes]:
    """The values of a partition, as they are."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": "looking",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            **settings.kafka,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.1):
                if message.error() is not None:
                    return values
                values.append(message.value() or b"")
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic} was not reached")


def write_raw(settings: Settings, topic: str, *values: bytes | None, partition: int = 0) -> None:
    """Writes values past all of our own code."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "enable.idempotence": True})
    producer.list_topics(timeout=DEADLINE_S)
    failures: list[str] = []
    for value in values:
        producer.produce(
            topic,
            value=value,
            key=b"somebody",
            partition=partition,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []


def seed_of(test: str) -> int:
    """A seed that differs from test to test; COMMITLOG_TEST_SEED overrides it."""
    return int(os.environ.get("COMMITLOG_TEST_SEED", str(sum(test.encode()))))
