"""Errors go from one process to another, as pools of workers send them, and say there what they said here."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from commitlog import errors
from commitlog.errors import CommitLogError, ProposalRejectedError
from commitlog.testing import InMemoryCommitLog

ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, CommitLogError)]


def refused(log: InMemoryCommitLog) -> None:
    late = log.transaction()
    late.append("t", [{"id": 2}])
    with log.transaction() as tx:
        tx.alter("t").add_column("note", "varchar")
    late.commit()


def reused(log: InMemoryCommitLog) -> None:
    for number in (1, 2):
        log.append("t", [{"id": number}], key="load")


def unknown(log: InMemoryCommitLog) -> None:
    log.lose_next_answer()
    log.append("t", [{"id": 2}])


@pytest.mark.parametrize(
    "fails",
    [
        refused,
        reused,
        unknown,
        lambda log: log.table("s").scan(),
        lambda log: log.table("t").scan(snapshot=9),
        lambda log: log.table("t").scan(timestamp="2001-01-01"),
        lambda log: log.transaction().create_table("a", {"id": "no type"}),
    ],
)
def test_error_when_it_is_pickled_or_copied_then_it_is_the_same(
    tmp_path: Path, fails: Callable[[InMemoryCommitLog], object]
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    log.append("t", [{"id": 1}], create=True)
    with pytest.raises(CommitLogError) as raised:
        fails(log)
    error = raised.value
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("kind", ERRORS)
def test_error_when_its_class_is_made_of_other_things_than_a_message_then_it_is_pickled_all_the_same(
    kind: type[CommitLogError],
) -> None:
    error = kind.__new__(kind)
    error.args, error.place = ("what it says",), 7  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, again.place) == (kind, error.args, 7)


def refuse(data_path: Path) -> None:
    log = InMemoryCommitLog(data_path=data_path)
    log.append("t", [{"id": 1}], create=True)
    refused(log)


def test_error_when_a_process_of_a_pool_fails_then_its_parent_hears_why(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(ProposalRejectedError, match="altered table") as raised:
            pool.submit(refuse, tmp_path).result()
        assert raised.value.conflicts


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "FATAL:  sorry, too many clients already",
            r"has no connection left.* max_connections; if this is the wrong server, set .* to the right address",
        ),
        ("FATAL:  remaining connection slots are reserved for roles", "has no connection left"),
        ("FATAL:  the database system is starting up", r"accepts no connections now.* continues once it has started"),
        ('FATAL:  database "lake" does not exist', r"refused the connection.* Check the login and the database"),
        ("fe_sendauth: no password supplied", r"refused the connection.* from another directory, .* COMMITLOG_HOME"),
        ('FATAL:  no pg_hba.conf entry for host "h", user "u", SSL off', "refused the connection"),
        ("failed: server does not support SSL, but SSL was required", r"by TLS.* Check sslmode"),
        ("failed: SSL error: certificate verify failed", "by TLS"),
        ("failed: SSL SYSCALL error: EOF detected", r"does not answer.* Start it"),
        ("closed: SSL connection has been closed unexpectedly", r"does not answer.* Start it"),
        ("closed: SSL error: unexpected eof while reading", r"does not answer.* Start it"),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", "cannot be found"),
        ("failed: Connection refused", r"does not answer.* Start it \(`commitlog up`"),
    ],
)
def test_postgresql_when_no_connection_comes_about_then_the_error_says_why_and_what_to_do(said: str, told: str) -> None:
    detail = f'connection failed: connection to server at "127.0.0.1", port 5432 {said}'
    message = str(errors.CatalogUnavailableError("postgresql://h/lake", detail=detail))
    assert re.search(told, message), message
