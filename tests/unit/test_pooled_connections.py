"""PostgreSQL behind a pooler: readers do without a session of their own, and who writes the catalog is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import psycopg
import pytest

from commitlog.catalog.connecting import connect, is_pooled
from commitlog.catalog.guard import mark_projector
from commitlog.errors import ConfigurationError

URL = "postgresql://ann:secret@there:6432/lake"


class PlayedConnection:
    """A client's connection, of which each statement is answered by the session that ``session`` gives."""

    def __init__(self, told: int, session: Callable[[], int]) -> None:
        self.info = SimpleNamespace(
            backend_pid=told,
            user="ann",
            host="there",
            port=6432,
            password="secret",
            get_parameters=lambda: {"host": "there", "user": "ann"},
        )
        self.prepare_threshold: int | None = 5
        self.autocommit = True
        self.said: list[str] = []
        self._session = session

    def execute(self, statement: str, parameters: object = ()) -> Self:
        self.said.append(statement)
        return self

    def fetchall(self) -> list[tuple[int]]:
        return [(self._session(),)]

    def commit(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def connected(monkeypatch: pytest.MonkeyPatch, *made: PlayedConnection) -> Any:
    left = iter(made)
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: next(left))
    return connect(URL)


def test_connection_when_no_pooler_is_between_then_it_may_prepare_and_write(monkeypatch: pytest.MonkeyPatch) -> None:
    conn = connected(monkeypatch, PlayedConnection(7, lambda: 7))
    assert not is_pooled(conn)
    mark_projector(conn)
    assert "set_config" in conn.said[-1]


def test_connection_when_a_pooler_lends_it_a_session_for_good_then_it_writes_and_prepares_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conn = connected(monkeypatch, PlayedConnection(1, lambda: 7), PlayedConnection(2, lambda: 8))
    assert is_pooled(conn)
    mark_projector(conn)
    assert "set_config" in conn.said[-1]


def test_connection_when_the_pooler_has_no_second_session_then_the_one_it_lent_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left() -> int:
        raise psycopg.OperationalError("query_wait_timeout")

    conn = connected(monkeypatch, PlayedConnection(1, lambda: 7), PlayedConnection(2, none_left))
    mark_projector(conn)
    assert "set_config" in conn.said[-1]


def test_connection_when_a_pooler_lends_a_session_by_transaction_then_who_writes_is_refused_before_it_sets_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conn = connected(monkeypatch, PlayedConnection(1, lambda: 7), PlayedConnection(2, lambda: 7))
    with pytest.raises(
        ConfigurationError, match="there:6432 is behind a pooler that gives each transaction any session"
    ):
        mark_projector(conn)
    assert not any("set_config" in each for each in conn.said)
