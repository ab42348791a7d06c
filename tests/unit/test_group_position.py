"""How far groups of subscribers are: asked of brokers of which some do not know their groups yet, and kept by those."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from commitlog.client.access import group_position
from commitlog.client.subscribing import Subscription
from commitlog.config import Settings
from commitlog.machine import Machine

LOG_ID = bytes(16)
LOADING = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def told(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Admin:
    """A cluster whose second broker, which knows the group, is loading its groups when it is asked first."""

    def __init__(self) -> None:
        self.lists = [([], [KafkaException(LOADING)]), (["main.subscribers.g"], [])]
        self.positions: list[tuple[KafkaError | None, int]] = [(LOADING, -1001), (None, 7)]

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        groups, errors = self.lists.pop(0)
        valid = [SimpleNamespace(group_id=each) for each in groups]
        return told(SimpleNamespace(valid=valid, errors=errors))

    def list_consumer_group_offsets(self, asked: Sequence[Any], **_: object) -> dict[str, Future[Any]]:
        error, offset = self.positions.pop(0)
        at = SimpleNamespace(error=error, offset=offset, metadata=LOG_ID.hex())
        return {asked[0].group_id: told(SimpleNamespace(topic_partitions=[at]))}


class Clock(Machine):
    now = 0.0

    def now_s(self) -> float:
        return self.now


class Consumer:
    """A consumer of a group that is at an outcome, or at none; what Kafka is told of it."""

    def __init__(self, offset: int) -> None:
        self._committed = SimpleNamespace(offset=offset, metadata=LOG_ID.hex())
        self.told: list[int] = []
        self.is_closed = False

    def committed(self, asked: Sequence[Any], timeout: float) -> list[Any]:
        return [self._committed]

    def assign(self, asked: Sequence[Any]) -> None: ...

    def pause(self, asked: Sequence[Any]) -> None: ...

    def store_offsets(self, offsets: Sequence[Any]) -> None: ...

    def commit(self, offsets: Sequence[Any], asynchronous: bool) -> None:
        if self.is_closed:
            raise RuntimeError("Consumer closed")
        assert [each.metadata for each in offsets] == [LOG_ID.hex()]
        self.told += [each.offset for each in offsets]


def idle(position: group_position.KafkaGroupPosition, clock: Clock) -> None:
    """A day on which nothing comes."""
    until_s = clock.now + 24 * 3600
    while clock.now < until_s:
        position.keep()
        clock.now += 600


def test_group_when_nothing_comes_for_long_then_kafka_is_told_of_it_again_each_hour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    consumer, clock = Consumer(7), Clock()
    monkeypatch.setattr(group_position, "make_consumer", lambda *_, **__: consumer)
    settings = replace(Settings.load(environment={}, home=tmp_path, log="main"), machine=clock)
    position = group_position.KafkaGroupPosition(settings, LOG_ID, "g")
    idle(position, clock)
    assert consumer.told == [], "it is not known yet"
    assert position.seq() == 7
    idle(position, clock)
    assert consumer.told == [7] * 24
    position.store(9)
    idle(position, clock)
    assert consumer.told[24:] == [9] * 23
    consumer.is_closed = True
    idle(position, clock)


def test_group_when_it_has_no_position_then_none_is_made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consumer, clock = Consumer(-1001), Clock()
    monkeypatch.setattr(group_position, "make_consumer", lambda *_, **__: consumer)
    settings = replace(Settings.load(environment={}, home=tmp_path, log="main"), machine=clock)
    position = group_position.KafkaGroupPosition(settings, LOG_ID, "g")
    assert position.seq() is None
    idle(position, clock)
    assert consumer.told == []


def test_subscription_when_nothing_comes_then_its_group_is_kept() -> None:
    kept: list[str] = []
    at = SimpleNamespace(seq=lambda: 3, keep=lambda: kept.append("kept"), store=lambda seq: None, close=lambda: None)
    waits: list[list[Any]] = [[], [SimpleNamespace(seq=4)], []]
    outcomes = Subscription(lambda seq: iter(waits), 0, lambda outcome: True, cast(Any, at))
    assert [each.seq for each in outcomes] == [4]
    assert kept == ["kept"] * 2


def test_groups_when_a_broker_does_not_know_them_yet_then_asked_again_until_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    admin = Admin()
    monkeypatch.setattr(group_position, "make_admin", lambda _: admin)
    assert group_position.group_positions(Settings.load(environment={}, home=tmp_path, log="main"), LOG_ID) == {"g": 7}
    assert (admin.lists, admin.positions) == ([], [])
