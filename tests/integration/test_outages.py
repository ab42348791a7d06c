"""Clients live through outages: a broker that is silent, refuses, is frozen, ends, and comes back; and through crowds."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from confluent_kafka.error import KafkaException
from live_lakes import live_lake
from log_running import Ids, all_outcomes, append, create_table, proposal, serving, wait_until, write_raw

from commitlog import CommitLog
from commitlog.client.access import log_end
from commitlog.client.access.log_end import LogEnd
from commitlog.client.access.proposals_lookup import find_queued
from commitlog.client.access.results_lookup import ResultsLookup
from commitlog.config import Settings
from commitlog.domain.model import Outcome
from commitlog.domain.model.ids import format_id
from commitlog.errors import (
    CommitLogError,
    ConfigurationError,
    LogIntegrityError,
    LogRefusedError,
    LogUnavailableError,
    OutcomeUnknownError,
)
from commitlog.local import EmbeddedBroker
from commitlog.local.proxy import KafkaProxy
from commitlog.log import deafness, proposals, topic_settings
from commitlog.log.connection import (
    MISSING_PATIENCE_S,
    RETRY_PAUSE_S,
    answered,
    end_offsets,
    first_offsets,
    make_admin,
    offsets_since,
)
from commitlog.log.genesis import init_log
from commitlog.log.publisher import Publisher
from commitlog.log.reading import TopicLossError, TopicReader
from commitlog.log.results import ResultsReader
from commitlog.log.topic_settings import partition_counts
from commitlog.log.topics import topics_of
from commitlog.log.undecided import has_proposal
from commitlog.machine import Machine

WRITER = """
import sys
from log_running import Ids, append, proposal
from commitlog.config import Settings
from commitlog.log.publisher import Publisher
settings, name = Settings.load(), sys.argv[1]
ids = Ids(int(sys.argv[2]))
with Publisher(settings) as publisher:
    for number in range(2):
        sent = proposal(ids, 1, append(f"{name}-{number}"), writer=name)
        assert publisher.submit(sent, timeout_s=120).snapshot_id is not None
"""

THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from commitlog.client import CommitLog
from commitlog.config import Settings

def write(number):
    for count in range(2):
        with log.transaction(timeout_ms=120_000) as tx:
            tx.create_schema(f"s{sys.argv[1]}_{number}_{count}")

with CommitLog.connect(settings=Settings.load()) as log, ThreadPoolExecutor(64) as pool:
    assert len(list(pool.map(write, range(64)))) == 64
"""


@pytest.fixture
def proxy(kafka: str) -> Iterator[KafkaProxy]:
    with KafkaProxy(kafka) as proxy:
        yield proxy


@pytest.fixture
def remote(settings: Settings, proxy: KafkaProxy) -> Settings:
    """The settings of a client that reaches the broker through the proxy alone."""
    init_log(settings)
    return dataclasses.replace(settings, bootstrap_servers=proxy.address)


@pytest.mark.parametrize("weather", ["be_silent", "refuse"])
def test_publisher_when_its_first_send_meets_an_outage_then_says_so_in_time_and_lives(
    settings: Settings, remote: Settings, proxy: KafkaProxy, ids: Ids, weather: str
) -> None:
    with serving(settings), Publisher(remote) as publisher:
        getattr(proxy, weather)()
        started = time.monotonic()
        with pytest.raises(LogUnavailableError, match="does not answer"):
            publisher.submit(proposal(ids, 0, create_table()), timeout_s=1)
        assert time.monotonic() - started < 5
        proxy.heal()
        assert publisher.submit(proposal(ids, 0, create_table()), timeout_s=60).snapshot_id == 1


def test_log_when_its_broker_dies_before_the_first_write_then_that_waits_no_longer_than_the_caller(
    settings: Settings, remote: Settings, proxy: KafkaProxy, ids: Ids
) -> None:
    with CommitLog.connect(settings=remote) as log:
        proxy.refuse()
        started = time.monotonic()
        with pytest.raises(LogUnavailableError, match="does not answer"):
            log.submit(proposal(ids, 0, create_table()), timeout_ms=500)
        assert time.monotonic() - started < 6


def test_publisher_when_an_outage_comes_later_then_unknown_in_time_and_the_answer_is_found_afterwards(
    settings: Settings, remote: Settings, proxy: KafkaProxy, ids: Ids
) -> None:
    with serving(settings), Publisher(remote) as publisher:
        publisher.submit(proposal(ids, 0, create_table()), timeout_s=60)
        proxy.refuse()
        sent, started = proposal(ids, 1, append("f")), time.monotonic()
        with pytest.raises(OutcomeUnknownError):
            publisher.submit(sent, timeout_s=1)
        assert time.monotonic() - started < 5
        assert publisher.is_sending(sent.proposal_id)
        proxy.heal()
        assert publisher.submit(sent, timeout_s=60).answered_snapshot_id in (None, 2)
        assert publisher.submit(proposal(ids, 2, append("g")), timeout_s=60).snapshot_id == 3
    assert [each.snapshot_id for each in all_outcomes(settings) if each.snapshot_id] == [1, 2, 3]


def test_lookups_when_the_broker_was_away_then_answer_again(
    settings: Settings, remote: Settings, proxy: KafkaProxy, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.log.connection.REQUEST_TIMEOUT_S", 1.0)
    with serving(settings), Publisher(settings) as publisher:
        seq = publisher.submit(proposal(ids, 0, create_table())).seq
    sent = proposal(ids, 1, append("f"))
    with Publisher(settings) as publisher:
        publisher.publish(sent)
    with closing(ResultsLookup(remote)) as lookup:
        assert lookup.by_seq(seq) is not None
        proxy.refuse()
        with pytest.raises(LogUnavailableError):
            lookup.by_seq(seq)
        with pytest.raises(LogUnavailableError):
            find_queued(remote, remote.partitions, 0, sent.proposal_id)
        proxy.heal()
        assert lookup.by_seq(seq) is not None
        assert find_queued(remote, remote.partitions, 0, sent.proposal_id).found


def test_client_when_every_answer_is_late_then_commits_looks_up_and_follows_all_the_same(
    settings: Settings, remote: Settings, proxy: KafkaProxy, ids: Ids
) -> None:
    with serving(settings), Publisher(remote) as publisher, closing(ResultsLookup(remote)) as lookup:
        first = publisher.submit(proposal(ids, 0, create_table()), timeout_s=60)
        proxy.be_late(0.15)
        sent, started = proposal(ids, 1, append("f")), time.monotonic()
        with pytest.raises(OutcomeUnknownError):
            publisher.submit(sent, timeout_s=0.1)
        assert time.monotonic() - started < 5
        assert publisher.submit(sent, timeout_s=60).answered_snapshot_id in (None, 2)
        last = publisher.submit(proposal(ids, 2, append("g")), timeout_s=60)
        assert last.snapshot_id == 3
        assert [lookup.by_seq(each.seq) is not None for each in (first, last)] == [True, True]
        assert find_queued(remote, remote.partitions, 0, sent.proposal_id).found
        with ResultsReader(remote) as reader:
            followed = [record.value for records in reader.read_to_end() for record in records]
    assert [each.snapshot_id for each in followed if isinstance(each, Outcome) and each.snapshot_id] == [1, 2, 3]


def test_publisher_when_its_broker_is_frozen_killed_and_started_again_then_commits_each_time(
    servers_dir: Path, settings: Settings, ids: Ids
) -> None:
    broker = EmbeddedBroker(servers_dir / "outages", is_open=True)
    with broker:
        local = dataclasses.replace(settings, bootstrap_servers=broker.bootstrap_servers)
        init_log(local)
        with Publisher(local) as publisher:
            with serving(local):
                assert publisher.submit(proposal(ids, 0, create_table())).snapshot_id == 1
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGSTOP)
            with pytest.raises(OutcomeUnknownError):
                publisher.submit(proposal(ids, 1, append("frozen")), timeout_s=0.5)
            os.kill(broker.pid, signal.SIGCONT)
            with serving(local):
                assert publisher.submit(proposal(ids, 1, append("thawed")), timeout_s=60).snapshot_id == 3
            os.kill(broker.pid, signal.SIGKILL)
            with pytest.raises(OutcomeUnknownError):
                publisher.submit(proposal(ids, 3, append("killed")), timeout_s=0.5)
            broker.stop()
            broker.start()
            assert local.bootstrap_servers == broker.bootstrap_servers
            with serving(local):
                assert publisher.submit(proposal(ids, 3, append("again")), timeout_s=60).snapshot_id == 5


def test_publisher_when_somebody_writes_into_the_receipts_then_it_goes_on(settings: Settings, ids: Ids) -> None:
    init_log(settings)
    with serving(settings), Publisher(settings) as publisher:
        assert publisher.submit(proposal(ids, 0, create_table())).snapshot_id == 1
        for partition in range(settings.partitions):
            write_raw(settings, topics_of(settings.log).receipts, b"somebody's", None, partition=partition)
        assert publisher.submit(proposal(ids, 1, append("f"))).snapshot_id == 2
        assert publisher.submit(proposal(ids, 2, append("g"))).snapshot_id == 3


def test_client_when_another_log_of_the_same_name_answers_then_refuses(settings: Settings) -> None:
    genesis = init_log(settings)
    meant = dataclasses.replace(settings, log_id=format_id(genesis.log_id))
    Publisher(meant).close()
    other = dataclasses.replace(settings, log_id="0193a000-0000-7000-8000-000000000001")
    other = dataclasses.replace(other, sources={**settings.sources, "log_id": "run.json"})
    with pytest.raises(LogIntegrityError, match="another broker answers there"):
        Publisher(other)


# --- one reader, one triage -------------------------------------------------------------------------------------------


class SaidGone:
    """A message that says an offset is gone."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET, "no position, reset is not allowed")

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return -1001


class SaysGoneFirst:
    """A consumer that says of an offset which is there that it is gone."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._said = [SaidGone(0)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        return [self._said.pop()] if self._said else self._consumer.consume(num_messages, timeout)


def test_reader_when_an_offset_is_said_to_be_gone_then_believes_it_only_if_it_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_log(settings)
    topic = topics_of(settings.log).dead_letters
    write_raw(settings, topic, b"a", b"b", b"c")
    with closing(TopicReader(settings, topic, {0: 1})) as reader:
        monkeypatch.setattr(reader, "_consumer", SaysGoneFirst(reader._consumer))
        read: list[bytes | None] = []
        while not reader.is_through(0, 3):
            read += [message.value() for message in reader.read(10, 0.5)]
        assert read == [b"b", b"c"]

        deleted = make_admin(settings).delete_records([TopicPartition(topic, 0, 2)])
        next(iter(deleted.values())).result()
        reader.start({0: 0})
        with pytest.raises(TopicLossError, match="no offset 0 any more, it holds 2 to 2") as raised:
            read_for_ever(reader)
        assert raised.value.partition == 0


class SaysNothing:
    """A consumer that gives out nothing any more."""

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        return []

    def close(self) -> None: ...


def test_reader_when_its_topic_is_made_anew_and_its_consumer_says_nothing_of_it_then_hears_of_the_loss(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deafness, "LOOK_S", 0.05)
    init_log(settings)
    topic, admin = topics_of(settings.log).dead_letters, make_admin(settings)
    write_raw(settings, topic, b"a", b"b", b"c")
    with closing(TopicReader(settings, topic, {0: 0})) as reader:
        while not reader.is_through(0, 3):
            reader.read(10, 0.5)
        monkeypatch.setattr(reader, "_consumer", SaysNothing())
        admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in partition_counts(settings), "the topic is gone")
        init_log(settings)
        write_raw(settings, topic, b"d")
        with pytest.raises(TopicLossError, match="no offset 3 any more, it holds 0 to 0"):
            read_for_ever(reader)
        reader.move(0, 0)
        read: list[bytes | None] = []
        while not reader.is_through(0, 1):
            read += [message.value() for message in reader.read(10, 0.5)]
        assert (read, reader._awaited()) == ([b"d"], {0: 1})


def test_sequencer_when_proposals_end_with_somebodys_kafka_transaction_then_is_in_no_doubt(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deafness, "LOOK_S", 0.05)
    looked: list[bool] = []

    def has_any(*asked: Any) -> bool:
        looked.append(has_proposal(*asked))
        return looked[-1]

    monkeypatch.setattr(proposals, "has_proposal", has_any)
    init_log(settings)
    with serving(settings) as sequencer, Publisher(settings) as publisher:
        epoch = sequencer.status.epoch
        client = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": settings.log})
        client.init_transactions(30)
        client.begin_transaction()
        client.produce(topics_of(settings.log).proposals, b"nothing of ours", partition=0)
        client.commit_transaction(30)
        wait_until(lambda: False in looked or sequencer.status.doubts > 0, "it was looked what is there")
        for _ in range(2):
            assert publisher.submit(proposal(ids, 0, create_table()), timeout_s=30).seq > 0
        assert (sequencer.status.doubts, sequencer.status.epoch) == (0, epoch)


def read_for_ever(reader: TopicReader) -> None:
    while True:
        reader.read(10, 0.5)


def asked(*codes: int, kafka: str) -> str:
    """What a request gives that meets these errors first."""
    left = list(codes)

    def ask() -> str:
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return "answer"

    settings = Settings.load(environment={}, bootstrap_servers=kafka)
    return answered(settings, ask, timeout_s=1)


def test_answered_when_errors_pass_by_themselves_then_asks_again() -> None:
    codes = (
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError._NOENT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._TRANSPORT,
    )
    assert asked(*codes, kafka="somewhere:1") == "answer"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.UNKNOWN_LEADER_EPOCH, LogUnavailableError),
        (KafkaError._UNKNOWN_PARTITION, LogRefusedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, LogRefusedError),
    ],
)
def test_answered_when_an_error_stays_then_says_it_in_our_words(code: int, expected: type[CommitLogError]) -> None:
    with pytest.raises(expected, match="somewhere:1"):
        asked(*[code] * 1000, kafka="somewhere:1")


class Hours(Machine):
    """A machine whose clock is set by what it does."""

    kafka: Any = None

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += max(seconds, 0.001)


def settings_of(admin: JustStarting | Fenced) -> Settings:
    """Whoever asks a broker by them asks this client."""
    machine = Hours()
    machine.kafka = SimpleNamespace(AdminClient=lambda _: admin)
    return dataclasses.replace(Settings.load(environment={}, bootstrap_servers="somewhere:1"), machine=machine)


class JustStarting:
    """An admin's client at a broker that does not know its partitions' ends yet, at first."""

    def __init__(self, *offsets: int, without_leader: int = 0) -> None:
        self._left = list(offsets)
        self._without_leader = without_leader

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        self._without_leader -= 1
        leader = -1 if self._without_leader >= 0 else 0
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: SimpleNamespace(leader=leader)})})

    def list_offsets(
        self, wanted: dict[TopicPartition, object], request_timeout: float
    ) -> dict[TopicPartition, object]:
        told: Future[SimpleNamespace] = Future()
        if self._without_leader >= 0:
            told.set_exception(KafkaException(KafkaError(KafkaError._NOENT, "No leaders found")))
        else:
            told.set_result(SimpleNamespace(offset=self._left.pop(0)))
        return dict.fromkeys(wanted, told)


def test_offsets_when_a_broker_just_starts_then_what_is_none_is_not_believed() -> None:
    assert end_offsets(settings_of(JustStarting(-1001, -1001, 7)), "t", [0]) == {0: 7}
    assert offsets_since(settings_of(JustStarting(-1001, -1)), "t", [0], 5) == {0: -1}
    with pytest.raises(LogUnavailableError):
        first_offsets(settings_of(JustStarting(*[-1001] * 1000)), "t", [0], timeout_s=1)


def test_offsets_when_nobody_leads_for_long_then_that_is_no_missing_topic() -> None:
    longer = int(2 * MISSING_PATIENCE_S / RETRY_PAUSE_S)
    assert end_offsets(settings_of(JustStarting(7, without_leader=longer)), "t", [0]) == {0: 7}


class Fenced:
    """An admin's client at a broker that is not let in yet by its controller."""

    def __init__(self, times: int, detail: str) -> None:
        self._times = times
        self._detail = detail

    def create_topics(self, topics: list[NewTopic], request_timeout: float) -> dict[str, Future[None]]:
        self._times -= 1
        made: Future[None] = Future()
        if self._times < 0:
            made.set_result(None)
        else:
            made.set_exception(KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, self._detail)))
        return {topic.topic: made for topic in topics}


def test_topic_when_brokers_are_not_let_in_yet_then_it_is_made_when_they_are() -> None:
    fenced = "Unable to replicate the partition 1 time(s): All brokers are currently fenced"
    topic_settings._create_one(settings_of(Fenced(20, fenced)), NewTopic("t", 1))
    for never in (Fenced(1_000, fenced), Fenced(1, "only 1 broker(s) are registered")):
        with pytest.raises(ConfigurationError, match="the topic t cannot be created"):
            topic_settings._create_one(settings_of(never), NewTopic("t", 1))


class Refusing:
    """An admin's client that brokers do not let in, whose connections end after that, until they do."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.refusal: KafkaError | None = KafkaError(KafkaError._SSL, "certificate verify failed")

    def made(self, options: dict[str, Any]) -> Refusing:
        self.options = options
        return self

    def list_topics(self, topic: str | None = None, *, timeout: float) -> SimpleNamespace:
        if self.refusal is None:
            return SimpleNamespace(topics={})
        ended = KafkaError(KafkaError._TRANSPORT, "Disconnected")
        for each in (self.refusal, ended):
            self.options["error_cb"](each)
        raise KafkaException(ended)


def test_admin_when_a_connection_ends_after_it_was_refused_then_the_refusal_is_told_until_it_is_let_in() -> None:
    refusing, machine = Refusing(), Hours()
    machine.kafka = SimpleNamespace(AdminClient=refusing.made)
    settings = dataclasses.replace(Settings.load(environment={}, bootstrap_servers="somewhere:2"), machine=machine)
    with pytest.raises(LogUnavailableError, match="certificate verify failed"):
        partition_counts(settings)
    refusing.refusal = None
    assert partition_counts(settings) == {}
    refusing.refusal = KafkaError(KafkaError._TRANSPORT, "Connection refused")
    with pytest.raises(LogUnavailableError, match="Disconnected"):
        partition_counts(settings)


def test_log_end_when_the_broker_is_away_then_it_does_not_refuse(
    settings: Settings, remote: Settings, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_end, "REQUEST_TIMEOUT_S", 1.0)
    with closing(LogEnd(remote)) as end:
        assert end.offset() == 1
        real = end._consumer
        assert real is not None

        class Away:
            """What the consumer says while nobody can be asked."""

            def offsets_for_times(self, *_: object, **__: object) -> list[TopicPartition]:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

        end._consumer = Away()  # type: ignore[assignment]
        proxy.refuse()
        with pytest.raises(LogUnavailableError):
            end.offset()
        proxy.heal()
        end._consumer = real
        assert end.offset() == 1


def test_answered_when_a_broker_that_was_silent_does_not_know_the_topic_yet_then_it_is_no_refusal() -> None:
    machine = Hours()
    settings = dataclasses.replace(Settings.load(environment={}, bootstrap_servers="somewhere:1"), machine=machine)

    def silent() -> str:
        machine.time_s += 9.9
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    with pytest.raises(LogUnavailableError):
        answered(settings, silent, timeout_s=5)


# --- crowds -----------------------------------------------------------------------------------------------------------


def commit_from_processes(settings: Settings, count: int) -> None:
    environment = {**settings.environment(), "PYTHONPATH": str(Path(__file__).parent)}
    with serving(settings), Publisher(settings) as publisher:
        publisher.submit(proposal(Ids(0), 0, create_table()))
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, f"w{number}", str(number)], env=environment)
            for number in range(count)
        ]
        assert [writer.wait() for writer in writers] == [0] * count
    assert len({each.snapshot_id for each in all_outcomes(settings)}) == 2 * count + 1


def commit_from_threads(settings: Settings, count: int) -> None:
    answers: list[int | None] = []

    def write(publisher: Publisher, number: int) -> None:
        sent = proposal(Ids(number), 1, append(f"f{number}"), writer=f"w{number}")
        answers.append(publisher.submit(sent, timeout_s=120).snapshot_id)

    with serving(settings), Publisher(settings) as publisher:
        publisher.submit(proposal(Ids(count), 0, create_table()))
        threads = [threading.Thread(target=write, args=(publisher, number)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers, key=str) == sorted(range(2, count + 2), key=str)


def test_writers_when_twelve_processes_start_at_once_then_all_commit(settings: Settings) -> None:
    init_log(settings)
    commit_from_processes(settings, 12)


def test_writers_when_128_threads_share_a_publisher_then_all_commit(settings: Settings) -> None:
    init_log(settings)
    commit_from_threads(settings, 128)


def test_writers_when_256_threads_of_four_processes_begin_at_once_then_all_commit(settings: Settings) -> None:
    with live_lake(settings) as lake:
        before = lake.log.head_snapshot_id()
        writers = [
            subprocess.Popen([sys.executable, "-c", THREADS, str(number)], env=settings.environment())
            for number in range(4)
        ]
        assert [writer.wait() for writer in writers] == [0] * 4
        assert lake.log.head_snapshot_id() == before + 2 * 256


@pytest.mark.nightly
def test_writers_when_64_processes_start_at_once_then_all_commit(settings: Settings) -> None:
    init_log(settings)
    commit_from_processes(settings, 64)


def test_admin_when_made_twice_then_it_is_the_same(settings: Settings) -> None:
    assert make_admin(settings) is make_admin(settings)


def test_publisher_when_closed_then_its_threads_are_gone(settings: Settings) -> None:
    init_log(settings)
    make_admin(settings).list_topics(timeout=10)
    before = len(os.listdir("/proc/self/task"))
    publishers = [Publisher(settings) for _ in range(3)]
    for publisher in publishers:
        publisher.close()
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= before, "the threads of what was closed to end")
