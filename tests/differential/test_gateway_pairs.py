"""Pairs of concurrent transactions by stock clients through the gateway: DuckLake's documented answer, or a finer one.

One client begins and does its part, the other does its own and commits, then the first commits. DuckLake decides by table;
the log looks at files, and at what an alteration changes, and it minds renames, of which DuckLake loses one side's work.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import count, product

import duckdb
import pytest
from gateway_sides import lake_through_gateway, writing

SETUP = (
    "CREATE SCHEMA l.{s}; CREATE SCHEMA l.{s}e; CREATE TABLE l.{s}.t AS SELECT range AS id, 'v' AS v FROM range(10); "
    "INSERT INTO l.{s}.t SELECT range, 'v' FROM range(10, 20); CREATE TABLE l.{s}.u (id BIGINT, v VARCHAR); "
    "CREATE VIEW l.{s}.v AS SELECT 0 AS a"
)
DOES = {
    "insert": "INSERT INTO l.{s}.t VALUES (100, 'n')",
    "insert elsewhere": "INSERT INTO l.{s}.u VALUES (100, 'n')",
    "delete": "DELETE FROM l.{s}.t WHERE id = 1",
    "delete beside": "DELETE FROM l.{s}.t WHERE id = 2",
    "delete in other file": "DELETE FROM l.{s}.t WHERE id = 11",
    "delete file": "DELETE FROM l.{s}.t WHERE id < 10",
    "update": "UPDATE l.{s}.t SET v = 'x' WHERE id = 1",
    "update in other file": "UPDATE l.{s}.t SET v = 'x' WHERE id = 12",
    "truncate": "TRUNCATE l.{s}.t",
    "add column": "ALTER TABLE l.{s}.t ADD COLUMN c{n} INTEGER",
    "rename column": "ALTER TABLE l.{s}.t RENAME COLUMN v TO v{n}",
    "rename": "ALTER TABLE l.{s}.t RENAME TO t{n}",
    "drop": "DROP TABLE l.{s}.t",
    "create": "CREATE TABLE l.{s}.w (a INTEGER)",
    "create view": "CREATE VIEW l.{s}.w AS SELECT {n} AS a",
    "replace view": "CREATE OR REPLACE VIEW l.{s}.v AS SELECT {n} AS a",
    "drop view": "DROP VIEW l.{s}.v",
    "drop schema": "DROP SCHEMA l.{s}e",
    "create in schema": "CREATE TABLE l.{s}e.w (a INTEGER)",
}
PAIRS = sorted(product(DOES, DOES))
FEW = 40
_NUMBERS = count()
FIRST_FILE = {"delete", "delete beside", "delete file", "update", "truncate"}
SECOND_FILE = {"delete in other file", "update in other file", "truncate"}
DELETES = FIRST_FILE | SECOND_FILE
WRITES = DELETES | {"insert"}
ALTERS = {"add column", "rename column"}
NAMED_W = {"create", "create view"}
VIEWS = {"replace view", "drop view"}
OF_SCHEMA = {"drop schema", "create in schema"}


def documented(second: str, first: str) -> bool:
    """Whether DuckLake says that the second may commit after the first."""
    if "drop" in (second, first) and {second, first} <= WRITES | ALTERS | {"drop", "rename"}:
        return second in ("drop", "rename") and first in WRITES | ALTERS | {"rename"}
    if second in WRITES and first in ALTERS:
        return False
    if second in WRITES and first in WRITES:
        return second == first == "insert"
    if second in ALTERS and first in ALTERS:
        return False
    return not any({second, first} <= alike for alike in (NAMED_W, VIEWS, OF_SCHEMA))


def finer(second: str, first: str) -> bool:
    """Whether the log lets both commit where DuckLake does not: what is written lies apart."""
    if {second, first} <= WRITES:
        return not any({second, first} <= file for file in (FIRST_FILE, SECOND_FILE))
    return False


def stricter(second: str, first: str) -> bool:
    """Whether the log refuses what would undo a rename without a word, or be done to a table that has another name by now."""
    return (first == "rename" and second in WRITES | ALTERS | {"drop", "rename"}) or (
        first in ALTERS and second == "rename"
    )


@pytest.fixture(scope="module")
def url(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with lake_through_gateway(new_database, tmp_path_factory.mktemp("pairs")) as (_, _, gateway_url):
        yield gateway_url


def attempt(client: duckdb.DuckDBPyConnection, statement: str) -> str | None:
    """What the client is told instead of a success."""
    try:
        client.execute(statement)
    except duckdb.Error as error:
        return str(error)
    return None


def answer_of(second: str, first: str, told: str | None) -> str:
    """How the answer to the second stands beside DuckLake's documented one; empty when it is wrong."""
    if told is not None:
        return "documented" if not documented(second, first) else "stricter" if stricter(second, first) else ""
    if documented(second, first):
        return "" if stricter(second, first) else "documented"
    return "finer" if finer(second, first) else ""


def play(url: str, pairs: Iterable[tuple[str, str]]) -> Counter[str]:
    """How often each kind of answer was given to pairs, of which the first one named commits last."""
    answers: Counter[str] = Counter()
    wrong: list[str] = []
    with writing(url, "l") as one, writing(url, "l") as two:
        for second, first in pairs:
            schema = f"s{next(_NUMBERS)}"
            one.execute("BEGIN; " + SETUP.format(s=schema) + "; COMMIT")
            one.execute("BEGIN; " + DOES[second].format(s=schema, n=1))
            two.execute(DOES[first].format(s=schema, n=2))
            told = attempt(one, "COMMIT")
            answer = answer_of(second, first, told)
            answers[answer] += 1
            if not answer:
                wrong.append(f"{second} after {first}: {told or 'committed'}")
    assert not wrong, "\n".join(wrong)
    return answers


def test_some_pairs_of_stock_clients_then_answered_as_documented_or_finer(url: str) -> None:
    play(url, random.Random(7).sample(PAIRS, FEW))


@pytest.mark.nightly
@pytest.mark.parametrize("second", DOES)
def test_all_pairs_of_stock_clients_then_answered_as_documented_or_finer(url: str, second: str) -> None:
    print(second, play(url, [(second, first) for first in DOES]))
