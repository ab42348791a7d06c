"""The birth of a log, its topics and their checks, on a real broker."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
)
from log_running import all_records, alter_topic, messages_of, serving, wait_until, write_raw

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Granularity
from commitlog.errors import ConfigurationError, LogIntegrityError, LogRefusedError
from commitlog.log import genesis
from commitlog.log.access_rules import Role, apply
from commitlog.log.codec import decode_record
from commitlog.log.connection import make_admin
from commitlog.log.genesis import init_log, read_genesis, require_genesis
from commitlog.log.topic_settings import check_topics, create_trims_topic, partition_counts
from commitlog.log.topics import topics_of


@pytest.fixture
def settings(kafka: str, log_name: str, tmp_path: Path) -> Settings:
    return Settings.load(environment={}, log=log_name, bootstrap_servers=kafka, home=tmp_path, partitions=2)


def delete(settings: Settings, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in partition_counts(settings), "the broker to know")


def test_init_when_done_twice_then_the_log_is_the_same(settings: Settings) -> None:
    first = init_log(replace(settings, genesis={"conflict_granularity": "ROW"}), log_id=b"L" * 16, now_ms=5)
    assert (first.log_id, first.partitions, first.created_at_ms) == (b"L" * 16, 2, 5)
    assert first.settings.conflict_granularity is Granularity.ROW
    assert init_log(settings) == first
    assert require_genesis(settings) == first
    assert [record.value for record in all_records(settings)] == [first]


def test_init_when_several_do_it_at_once_then_there_is_one_genesis(settings: Settings) -> None:
    made: list[Genesis] = []
    barrier = threading.Barrier(4)

    def init() -> None:
        barrier.wait()
        made.append(init_log(settings))

    threads = [threading.Thread(target=init) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raw = messages_of(settings, topics_of(settings.log).results)
    assert made == [decode_record(raw[0])] * 4
    assert [record.value for record in all_records(settings)] == made[:1]


def test_init_when_another_genesis_was_faster_then_it_is_the_one_for_both(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = init_log(settings)
    # Whoever looked before that finds nothing.
    looks = iter([lambda given: None])
    look = genesis.read_genesis
    monkeypatch.setattr(genesis, "find_genesis", lambda given: None)
    monkeypatch.setattr(genesis, "read_genesis", lambda given: next(looks, look)(given))
    assert init_log(settings) == first
    assert len(messages_of(settings, topics_of(settings.log).results)) == 2
    assert [record.value for record in all_records(settings)] == [first]


def test_init_when_the_results_are_of_an_unknown_schema_then_refused(settings: Settings) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    topic = topics_of(settings.log).results
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    write_raw(settings, topic, b"\xc3\x01of another version")
    with pytest.raises(LogIntegrityError, match="written by another version of commitlog"):
        init_log(settings)


@pytest.mark.parametrize(
    ("topic", "name", "value"),
    [
        ("results", "retention.ms", "604800000"),
        ("results", "cleanup.policy", "compact"),
        ("results", "max.message.bytes", "100000"),
        ("proposals", "retention.bytes", "1000000"),
        ("trims", "retention.ms", "604800000"),
    ],
)
def test_topics_when_set_so_that_the_log_could_lose_something_then_refused(
    settings: Settings, topic: str, name: str, value: str
) -> None:
    genesis = init_log(settings)
    create_trims_topic(settings)
    check_topics(settings, 2, genesis.settings.proposal_bytes_max)
    full_name = getattr(topics_of(settings.log), topic)
    alter_topic(settings, full_name, name, value)
    with pytest.raises(ConfigurationError, match=rf"{full_name} has {name}={value}"):
        check_topics(settings, 2, genesis.settings.proposal_bytes_max)


def test_init_when_somebody_has_made_the_topics_otherwise_then_says_all_that_is_to_be_done(settings: Settings) -> None:
    topics = topics_of(settings.log)
    made = [NewTopic(topics.proposals, 2), NewTopic(topics.receipts, 3), NewTopic(topics.results, 4)]
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for created in admin.create_topics(made).values():
        created.result()
    in_vain = rf"{topics.results} has 4 partitions, .* not there yet, would have 1: delete that topic, .* makes it$"
    with pytest.raises(ConfigurationError, match=in_vain):
        init_log(settings)
    delete(settings, topics.results)
    with pytest.raises(
        ConfigurationError, match=r"would have 2: .*; or give the log as many \(COMMITLOG_PARTITIONS=3\)"
    ):
        init_log(settings)
    delete(settings, topics.receipts)
    with pytest.raises(ConfigurationError) as raised:
        init_log(settings)
    told = str(raised.value).splitlines()
    assert [each.partition("=")[0] for each in told] == [
        f"the topic {topics.proposals} has {name}" for name in ("retention.ms", "max.message.bytes")
    ]
    alter_topic(settings, topics.proposals, "retention.ms", "-1")
    alter_topic(settings, topics.proposals, "max.message.bytes", told[1].rpartition("=")[2])
    assert init_log(settings).partitions == 2


def test_init_when_another_one_makes_the_log_meanwhile_with_other_partitions_then_it_is_that_log(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(_: Settings) -> None:
        monkeypatch.undo()
        init_log(replace(settings, partitions=3), log_id=b"O" * 16)

    monkeypatch.setattr(genesis, "_check_never_trimmed", meanwhile)
    found = init_log(settings)
    assert (found.log_id, found.partitions) == (b"O" * 16, 3)


def test_topics_when_the_partitions_differ_from_the_genesis_then_refused(settings: Settings) -> None:
    init_log(settings)
    with pytest.raises(ConfigurationError, match=r"has 2 partitions, the log .* has 3"):
        check_topics(settings, 3)


@pytest.mark.parametrize("name", ["receipts", "control", "dead_letters"])
def test_init_when_a_topic_of_the_log_was_deleted_then_it_is_made_anew(settings: Settings, name: str) -> None:
    made = init_log(settings)
    topic, admin = getattr(topics_of(settings.log), name), make_admin(settings)
    admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in partition_counts(settings), "the topic to be gone")
    with pytest.raises(ConfigurationError, match=rf"no topic {topic}: .*`commitlog init`"):
        check_topics(settings, made.partitions)
    with pytest.raises((ConfigurationError, LogRefusedError), match="`commitlog init`"), serving(settings):
        pass
    assert init_log(settings) == made
    check_topics(settings, made.partitions, made.settings.proposal_bytes_max)


def test_rules_when_the_broker_has_no_authorizer_then_refused_with_what_it_lacks(settings: Settings) -> None:
    init_log(settings)
    with pytest.raises(LogRefusedError, match=r"configured: everybody may do everything.*`authorizer\.class\.name`"):
        apply(settings, {Role.WRITER: ["etl"]})


def test_log_when_it_was_never_created_then_said(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="commitlog init"):
        require_genesis(settings)


def test_genesis_when_a_first_setting_is_wrong_then_refused(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="unknown setting 'wrong'"):
        init_log(replace(settings, genesis={"wrong": 1}))
    with pytest.raises(ConfigurationError):
        require_genesis(settings)


def test_genesis_when_the_topic_is_empty_then_none(settings: Settings) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    topic = topics_of(settings.log).results
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    assert read_genesis(settings) is None
