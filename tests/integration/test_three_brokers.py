"""The three brokers of docker-compose.yml, with TLS, passwords and the authorizer: one dies, and nobody's work is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from log_running import Ids, proposal, seed_of, serving
from three_brokers import BROKERS, ThreeBrokers
from writing_on import Writers, check

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import LogUnavailableError, OutcomeUnknownError
from commitlog.log.access_rules import Role, apply, writers_of_results
from commitlog.log.durability import weaknesses
from commitlog.log.genesis import init_log, require_genesis
from commitlog.log.publisher import Publisher
from commitlog.log.topics import topics_of

pytestmark = pytest.mark.nightly

AWAY = ["of the 3 replicas of the"] * 2
"""What the proposals and the results lack while one broker is away."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path / "three") as brokers:
        yield brokers


@pytest.fixture
def owner(brokers: ThreeBrokers, tmp_path: Path) -> Settings:
    """Of the log's owner, who has made it and said who may do what."""
    settings = Settings.load(
        environment={},
        log="three",
        bootstrap_servers=brokers.bootstrap_servers,
        kafka=brokers.options_of("admin", "KAFKA_ADMIN_PASSWORD"),
        home=tmp_path / "home",
        partitions=2,
    )
    init_log(settings)
    apply(settings, {Role.SERVICE: ["commitlog"], Role.WRITER: ["writer"]})
    return settings


def test_broker_when_each_in_turn_is_killed_then_writers_are_answered_and_nothing_is_lost(
    brokers: ThreeBrokers, owner: Settings
) -> None:
    service = replace(owner, kafka=brokers.options_of("commitlog", "KAFKA_SERVICE_PASSWORD"))
    writer = replace(owner, kafka=brokers.options_of("writer", "KAFKA_WRITER_PASSWORD"))
    assert weaknesses(owner, require_genesis(owner)) == [], "three copies, two of them in sync, clean elections"
    assert writers_of_results(owner) == ("User:commitlog",)
    writers = Writers(writer, seed_of("three"), pause_s=0.05)
    killed = []
    with serving(service), writers:
        writers.wait_until_answered()
        for topic in (topics_of(owner.log).results, topics_of(owner.log).proposals, topics_of(owner.log).results):
            brokers.wait_until_all_hold_all()
            killed.append(brokers.leader_of(topic))
            brokers.kill(killed[-1])
            writers.wait_until_answered()
            assert [each.what.partition(" topic ")[0] for each in weaknesses(owner, require_genesis(owner))] == AWAY
            brokers.start(killed[-1])
    assert set(killed) <= set(BROKERS)
    check(owner, writers)
    assert len(writers.receipts) > 3 * len(killed)


def test_two_of_three_brokers_when_killed_then_nothing_is_acknowledged_until_one_is_back(
    brokers: ThreeBrokers, owner: Settings
) -> None:
    """What two would have to hold is not told to anybody as long as one alone holds it."""
    ids = Ids(seed_of("two of three"))
    with serving(owner), Publisher(owner) as publisher:
        assert publisher.submit(proposal(ids, 0, m.CreateSchema("before")), timeout_s=60).snapshot_id == 1
        brokers.wait_until_all_hold_all()
        left = brokers.leader_of(topics_of(owner.log).results)
        for name in BROKERS:
            if name != left:
                brokers.kill(name)
        waiting = proposal(ids, 0, m.CreateSchema("meanwhile"))
        with pytest.raises((OutcomeUnknownError, LogUnavailableError)):
            publisher.submit(waiting, timeout_s=5)
        brokers.start(next(name for name in BROKERS if name != left))
        assert publisher.submit(waiting, timeout_s=120).snapshot_id == 2
