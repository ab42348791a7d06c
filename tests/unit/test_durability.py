"""What a production topic needs, asked of clusters that are not there."""

from __future__ import annotations

from types import SimpleNamespace as Plain
from typing import Any

import pytest

from commitlog.config import Settings
from commitlog.domain.model import Genesis, LogSettings
from commitlog.log import connection, durability, topic_settings
from commitlog.log.durability import weaknesses

GENESIS = Genesis(log_id=bytes(16), partitions=4, created_at_ms=0, settings=LogSettings())
GOOD = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A cluster: how many brokers, replicas of each partition, those in sync where not all are, and how topics are set."""
    cluster: dict[str, Any] = {"brokers": 3, "replicas": [3, 3], "in_sync": None, "settings": GOOD, "topics": {}}

    def described(_: Settings, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
        return dict.fromkeys(names, cluster["settings"])

    def topic() -> Plain:
        counts = zip(cluster["replicas"], cluster["in_sync"] or cluster["replicas"], strict=True)
        return Plain(partitions=[Plain(replicas=range(count), isr=range(in_sync)) for count, in_sync in counts])

    admin = Plain(
        list_topics=lambda timeout: Plain(brokers=range(cluster["brokers"]), topics=cluster["topics"]),
        describe_topics=lambda topics, request_timeout: {
            name: Plain(result=topic) for name in ("main.proposals", "main.results", "main.trims")
        },
    )
    for each in (durability, connection):
        monkeypatch.setattr(each, "make_admin", lambda settings: admin)
    for each in (durability, topic_settings):
        monkeypatch.setattr(each, "described", described)
    return cluster


def found(cluster: dict[str, Any], **changed: object) -> list[tuple[str, bool]]:
    cluster.update(changed)
    return [(each.what, each.is_note) for each in weaknesses(Settings.load(environment={}, log="main"), GENESIS)]


def test_topics_when_set_as_production_needs_then_nothing_is_found(asked: dict[str, Any]) -> None:
    assert found(asked) == []


@pytest.mark.parametrize("brokers", [1, 3])
def test_topics_when_one_is_set_to_lose_records_then_named_however_many_brokers_there_are(
    asked: dict[str, Any], brokers: int
) -> None:
    told = found(asked, brokers=brokers, settings={**GOOD, "cleanup.policy": "compact"})
    assert told[:5] == [
        (f"the topic main.{topic} has cleanup.policy=compact, a log needs delete", False)
        for topic in ("proposals", "results", "receipts", "dead-letters", "control")
    ]


@pytest.mark.parametrize("brokers", [1, 3])
def test_topics_when_one_takes_less_than_the_log_then_named_before_the_service_is_not_started_again(
    asked: dict[str, Any], brokers: int
) -> None:
    told = found(asked, brokers=brokers, settings={**GOOD, "max.message.bytes": "1000000"})
    assert [what for what, is_note in told if not is_note] == [
        f"the topic main.{topic} has max.message.bytes=1000000, a log needs {needed}"
        for topic, needed in (
            ("proposals", 4_008_192),
            ("results", 8_065_536),
            ("receipts", 8_065_536),
            ("dead-letters", 8_065_536),
        )
    ]


def test_topics_when_what_was_trimmed_could_be_forgotten_then_named(asked: dict[str, Any]) -> None:
    settings = {**GOOD, "retention.ms": "604800000"}
    told = found(asked, settings=settings, topics={"main.trims": Plain(partitions=range(1))})
    assert ("the topic main.trims has retention.ms=604800000, a log needs -1", False) in told


def test_topics_when_partitions_were_added_then_named_before_the_service_is_not_started_again(
    asked: dict[str, Any],
) -> None:
    counts = {"main.proposals": 5, "main.receipts": 4, "main.results": 2, "main.control": 1}
    told = found(asked, topics={name: Plain(partitions=range(count)) for name, count in counts.items()})
    assert [(what.partition(":")[0], is_note) for what, is_note in told] == [
        ("the topic main.proposals has 5 partitions, the log 4", False),
        ("the topic main.results has 2 partitions, the log 1", False),
    ]


def test_topics_when_what_was_trimmed_is_noted_by_one_broker_alone_then_named_as_the_results_are(
    asked: dict[str, Any],
) -> None:
    told = found(asked, replicas=[1], topics={"main.trims": Plain(partitions=range(1))})
    assert told == [(f"the topic main.{name} has 1 replica", False) for name in ("proposals", "results", "trims")]


def test_topics_when_there_is_one_broker_then_it_is_only_good_to_know(asked: dict[str, Any]) -> None:
    [(what, is_note)] = found(asked, brokers=1, replicas=[1], settings={"min.insync.replicas": "1"})
    assert is_note
    assert what.startswith("Kafka has 1 broker: a lost disk, or a power loss,")


@pytest.mark.parametrize("brokers", [2, 3], ids=["one is away", "another one has taken its place"])
def test_topics_when_a_replica_is_away_then_each_is_named_and_what_else_it_lacks(
    asked: dict[str, Any], brokers: int
) -> None:
    settings = {**GOOD, "unclean.leader.election.enable": "true"}
    told = found(asked, brokers=brokers, in_sync=[3, 2], settings=settings)
    assert told == [
        each
        for topic in ("main.proposals", "main.results")
        for each in (
            (f"of the 3 replicas of the topic {topic} 2 hold all that was acknowledged", False),
            (
                f"the topic {topic} has unclean.leader.election.enable=true, a log in production needs false",
                False,
            ),
        )
    ]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"replicas": [3, 1]}, "has 1 replica"),
        ({"settings": {**GOOD, "min.insync.replicas": "1"}}, "has min.insync.replicas=1, a log in production needs 2"),
        ({"settings": {**GOOD, "unclean.leader.election.enable": "true"}}, "has unclean.leader.election.enable=true"),
    ],
)
def test_topics_when_a_cluster_could_lose_something_then_each_topic_is_named(
    asked: dict[str, Any], changed: dict[str, Any], what: str
) -> None:
    told = found(asked, **changed)
    assert [is_note for _, is_note in told] == [False, False]
    assert [
        f"the topic {topic} {what}" in said
        for topic, (said, _) in zip(("main.proposals", "main.results"), told, strict=True)
    ] == [True, True]
