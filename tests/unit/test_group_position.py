"""How far groups of subscribers are, asked of brokers of which some do not know their groups yet."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from commitlog.client.access import group_position
from commitlog.config import Settings

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


def test_groups_when_a_broker_does_not_know_them_yet_then_asked_again_until_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    admin = Admin()
    monkeypatch.setattr(group_position, "make_admin", lambda _: admin)
    assert group_position.group_positions(Settings.load(environment={}, home=tmp_path, log="main"), LOG_ID) == {"g": 7}
    assert (admin.lists, admin.positions) == ([], [])
