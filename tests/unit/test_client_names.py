"""Table names and proposal ids as people give them."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from commitlog.client.ids import as_proposal_id, id_at, new_proposal_id
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.testing import InMemoryCommitLog


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("flights", ("main", "flights")),
        ("main.flights", ("main", "flights")),
        ('"a.b"."c""d"', ("a.b", 'c"d')),
        ('s."with, comma"', ("s", "with, comma")),
        ("späß.'quoted'", ("späß", "'quoted'")),
        ('""', ("main", "")),
        ("with space", ("main", "with space")),
        ("x" * 300, ("main", "x" * 300)),
    ],
)
def test_parse_table_name_when_well_formed_then_its_parts(text: str, name: tuple[str, str]) -> None:
    assert parse_table_name(text) == name


@pytest.mark.parametrize("text", ["", "a.b.c", "a.", ".b", '"a', 'a"b', '"a"b'])
def test_parse_table_name_when_not_a_name_then_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"schema\.table"):
        parse_table_name(text)


@pytest.mark.parametrize("seed", range(20))
def test_table_name_when_shown_then_reads_back(seed: int) -> None:
    chance = random.Random(seed)
    parts = ["".join(chance.choices("ab.\"', é", k=chance.randint(1, 8))) for _ in range(2)]
    name = TableName(*parts)
    assert parse_table_name(str(name)) == name


def test_new_proposal_id_when_many_are_made_then_version_7_and_in_order() -> None:
    made = [new_proposal_id() for _ in range(20_000)]
    assert sorted(made) == made
    assert len(set(made)) == len(made)
    assert all(each[6] >> 4 == 7 and each[8] >> 6 == 0b10 for each in made)


def test_id_at_when_the_time_is_known_then_it_is_in_front() -> None:
    assert uuid.UUID(bytes=id_at(0x01934F3E7C00, 0xABC, 1)) == uuid.UUID("01934f3e-7c00-7abc-8000-000000000001")


def test_as_proposal_id_when_given_in_any_form_then_its_bytes() -> None:
    made = uuid.UUID("01934f3e-7c00-7abc-8000-000000000001")
    assert as_proposal_id(made) == as_proposal_id(str(made)) == as_proposal_id(made.bytes) == made.bytes


@pytest.mark.parametrize("value", ["", "42", b"short"])
def test_as_proposal_id_when_no_uuid_then_says_so(value: str | bytes) -> None:
    with pytest.raises(ValueError, match="proposal id"):
        as_proposal_id(value)


def test_table_when_its_name_is_longer_than_a_folders_may_be_then_its_folder_has_another(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path, name_length_max=300)
    for name in ("a" * 255, "a" * 256, "a" * 300):
        with log.transaction() as tx:
            tx.create_table(name, {"id": "int64"})
        log.append(name, {"id": [1]})
        assert log.table(name).scan().count() == 1
