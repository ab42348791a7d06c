"""Which repeats are the same write, and which use a key again for another one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyroaring import FrozenBitMap64

from commitlog.client import Transaction
from commitlog.client.ids import new_proposal_id
from commitlog.client.outcomes.repeats import differences
from commitlog.client.tables.write_keys import key_of, parse_key, table_key
from commitlog.domain import model as m
from commitlog.errors import InvalidRequestError, KeyReusedError, ProposalRejectedError
from commitlog.log.codec import decode_proposal, encode_proposal
from commitlog.testing import InMemoryCommitLog


def proposal(*changes: m.Change, **more: Any) -> m.Proposal:
    return m.Proposal(new_proposal_id(), "w", 0, changes, writer_seq=1, **more)


def file_of(values: list[int | None], path: str = "f", *, size: int = 100) -> m.DataFile:
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    nulls = len(values) - len(known)
    return m.DataFile(path, len(values), size, statistics=(m.ColumnStatistics("a", low, high, nulls, len(known)),))


def append(*files: m.DataFile, table: str = "t") -> m.Append:
    return m.Append("main", table, files)


@pytest.mark.parametrize("seed", range(20))
def test_differences_when_the_same_rows_are_split_and_ordered_otherwise_then_none(seed: int) -> None:
    chance = random.Random(seed)
    rows: list[int | None] = [chance.choice([None, chance.randrange(-50, 50)]) for _ in range(chance.randrange(1, 40))]
    written = []
    for _ in range(2):
        chance.shuffle(rows)
        parts = [rows[at::3] for at in range(3)] if chance.random() < 0.7 else [rows]
        files = [file_of(part, new_proposal_id().hex(), size=chance.randrange(99)) for part in parts]
        written.append(proposal(append(*files), append(table="other")))
    sent = [decode_proposal(encode_proposal(each)) for each in written]
    assert all(isinstance(each, m.Proposal) for each in sent)
    assert differences(*sent) == ()  # type: ignore[arg-type]


OTHER_WRITES: dict[str, tuple[m.Change, m.Change, str]] = {
    "another table": (append(file_of([1])), append(file_of([1]), table="u"), "only this one has append of main.u"),
    "more rows": (append(file_of([1])), append(file_of([1, 2])), "1 row came into main.t first, 2 now"),
    "higher values": (append(file_of([1, 5])), append(file_of([1, 6])), "other values than the first in a"),
    "lower values": (append(file_of([1, 5])), append(file_of([0, 5])), "other values than the first in a"),
    "more NULLs": (append(file_of([1, 2, 2])), append(file_of([1, 2, None])), "other values than the first in a"),
    "another row": (m.InsertRow("main", "t", {"id": 1}), m.InsertRow("main", "t", {"id": 2}), "1 otherwise"),
    "a row less": (m.InsertRow("main", "t", {"id": 1}), m.DeleteRow("main", "t", {"id": 1}), "1 otherwise"),
    "another name": (m.CreateSchema("s"), m.CreateSchema("u"), "only the first has create schema of s"),
    "another view": (m.CreateView("main", "v", "SELECT 1"), m.CreateView("main", "v", "SELECT 2"), "main.v differs"),
    "other columns": (
        m.CreateTable("main", "t", (m.ColumnSpec("a", "int64"),)),
        m.CreateTable("main", "t", (m.ColumnSpec("b", "int64"),)),
        "create table of main.t differs",
    ),
}


@pytest.mark.parametrize("what", OTHER_WRITES)
def test_differences_when_it_is_another_write_then_says_in_what(what: str) -> None:
    before, now, said = OTHER_WRITES[what]
    assert said in "; ".join(differences(proposal(before), proposal(now)))


def overwritten(*files: m.DataFile, whole: tuple[int, ...] = (), positions: tuple[int, ...] = ()) -> m.Proposal:
    changes: list[m.Change] = []
    if whole or positions:
        rows = tuple(m.PositionDelete(each, FrozenBitMap64([0])) for each in positions)
        changes.append(m.Delete("main", "t", rows, (), whole))
    if files:
        changes.append(append(*files))
    return proposal(*changes, reads=(m.TableRead("main", "t"),), isolation=m.Isolation.SERIALIZABLE)


def test_differences_when_what_was_there_is_another_then_none() -> None:
    created = m.CreateTable("main", "t", (m.ColumnSpec("a", "int64"),))
    rows = append(file_of([1, 2]))
    assert differences(proposal(created, rows), proposal(m.Append("MAIN", "T", rows.files))) == ()
    assert differences(overwritten(file_of([1])), overwritten(file_of([1]), whole=(3,))) == ()
    computed = overwritten(file_of([1, 2]), positions=(3,))
    for again in (overwritten(file_of([2]), positions=(4,)), overwritten()):
        assert differences(computed, again) == ()
    assert differences(overwritten(file_of([1]), whole=(2,)), overwritten(file_of([7]), whole=(3,)))


def test_differences_when_rows_name_their_columns_in_another_order_or_case_then_none() -> None:
    first = m.UpdateRow("main", "t", {"id": 1, "part": "a"}, {"id": 1, "part": "a", "v": None}, row_time_us=1)
    again = m.UpdateRow("main", "t", {"Part": "a", "ID": 1}, {"V": None, "Part": "a", "id": 1}, row_time_us=2)
    assert differences(proposal(first), proposal(again)) == ()


def test_differences_when_rows_come_under_what_names_a_change_computed_from_rows_then_it_is_another_write() -> None:
    rows = proposal(append(file_of([7])))
    assert differences(overwritten(positions=(3,)), rows) == (
        "only the first has delete of main.t",
        "only this one has append of main.t",
    )
    assert "only the first has delete" in "; ".join(differences(overwritten(file_of([1]), whole=(2,)), rows))


def test_differences_when_a_change_computed_from_rows_comes_under_what_names_rows_then_it_is_another_write() -> None:
    rows = append(file_of([7]))
    computed = overwritten(file_of([1]), positions=(3,))
    for first in (proposal(rows), proposal(m.CreateTable("main", "u", (m.ColumnSpec("a", "int64"),)), rows)):
        assert "only this one has delete of main.t" in differences(first, computed)
    # Where the first has made the table, it had no rows to read.
    made = proposal(m.CreateTable("main", "t", (m.ColumnSpec("a", "int64"),)), rows)
    assert differences(made, overwritten(file_of([7]), whole=(3,))) == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("abcdefgh", "abcdefghijkl", True),
        ("abcdefgi", "abcdefghijkl", True),
        ("abc", "abd", False),
        ("a" * 9, "b", False),
    ],
)
def test_differences_when_bounds_are_texts_then_those_cut_short_are_compared_up_to_there(
    one: str, other: str, same: bool
) -> None:
    files = [m.DataFile("f", 1, 1, statistics=(m.ColumnStatistics("a", each, each, 0, 1),)) for each in (one, other)]
    assert (differences(*(proposal(append(each)) for each in files)) == ()) is same


# --- on a log ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[{}])
def log(request: pytest.FixtureRequest) -> InMemoryCommitLog:
    made = InMemoryCommitLog(**request.param)
    with made.transaction() as tx:
        for table in ("t", "u"):
            tx.create_table(table, {"a": "int64"})
    return made


def keyed(log: InMemoryCommitLog, table: str, rows: list[int | None], **more: Any) -> Transaction:
    tx = log.transaction(writer_id="nightly", **more)
    tx.append(table, [file_of(rows, new_proposal_id().hex())])
    return tx


FORGETFUL = {"duplicate_window_outcomes": 1, "duplicate_window_ms": 1}


@pytest.mark.parametrize(
    ("log", "key"), [({}, "proposal_id"), ({}, "writer_seq"), (FORGETFUL, "writer_seq")], indirect=["log"]
)
def test_commit_when_a_key_is_used_for_another_write_then_raises_and_the_same_write_is_answered(
    log: InMemoryCommitLog, key: str
) -> None:
    named: dict[str, Any] = {"writer_seq": 7} if key == "writer_seq" else {"proposal_id": new_proposal_id()}
    first = keyed(log, "t", [1, 2], **named).commit()
    with log.transaction(writer_id="nightly") as tx:
        tx.create_schema("s")
    for table, rows in (("u", [1, 2]), ("t", [1, 3]), ("t", [1, 2, 2])):
        with pytest.raises(KeyReusedError, match=f"snapshot {first.snapshot_id}") as raised:
            keyed(log, table, [*rows], **named).commit()
        assert raised.value.first is not None
    again = keyed(log, "t", [2, 1], **named).commit()
    assert (again.is_repeat, again.committed, again.snapshot_id) == (True, True, first.snapshot_id)
    assert again.first is not None
    assert again.assigned == first.assigned


@pytest.mark.parametrize("key", ["load:1", "nightly:2026-03-02", "one", "a@b:3", "branch:007", "key:one:0"])
@pytest.mark.parametrize("table", ["main.people", None])
def test_key_when_it_names_another_write_then_the_message_has_it_as_it_was_given(key: str, table: str | None) -> None:
    write = parse_key(key) if table is None else table_key(key, table)
    assert key_of(write) == key


@pytest.mark.parametrize(
    ("one", "other"), [("branch:007", "branch:7"), ("branch:0", "branch:00"), ("one", "key:one:0")]
)
def test_change_when_two_keys_are_almost_the_same_then_each_commits(
    log: InMemoryCommitLog, one: str, other: str
) -> None:
    with log.transaction() as tx:
        tx.create_table("people", {"id": "int64"}, primary_key=["id"])
    people = log.table("people")
    for number, key in enumerate((one, other)):
        committed = people.upsert({"id": number}, key=key)
        assert committed is not None
        assert not committed.is_repeat
    assert people.scan().count() == 2


def test_commit_when_a_key_is_used_again_then_the_message_says_which(log: InMemoryCommitLog) -> None:
    keyed(log, "t", [1], writer_seq=7).commit()
    with pytest.raises(KeyReusedError, match=r"^key 'nightly:7' \(writer_seq 7 of writer nightly\) was already used"):
        keyed(log, "u", [1], writer_seq=7).commit()


def test_publish_many_when_a_key_is_used_again_then_the_others_are_answered(log: InMemoryCommitLog) -> None:
    sent = [keyed(log, table, [1], writer_seq=seq).proposal() for table, seq in (("t", 1), ("u", 1), ("u", 2))]
    first, reused, last = log.publish_many(sent)
    assert isinstance(reused, KeyReusedError)
    assert reused.proposal_id.bytes == sent[1].proposal_id
    assert not isinstance(first, Exception)
    assert not isinstance(last, Exception)
    assert (first.committed, last.committed) == (True, True)


def test_publish_many_when_all_are_repeats_then_no_more_are_taken_ahead_than_is_asked_for(
    log: InMemoryCommitLog,
) -> None:
    with log.transaction(key="nightly:1") as tx:
        tx.append("t", [file_of([1])])
    taken = []

    def repeats() -> Iterator[Transaction]:
        for number in range(9):
            taken.append(number)
            yield log.transaction(key="nightly:1")

    next(iter(log.publish_many(repeats(), in_flight_max=2)))
    assert len(taken) == 3


def test_outcome_when_printed_then_says_what_became_of_it_in_one_line(log: InMemoryCommitLog) -> None:
    first = keyed(log, "t", [1], writer_seq=1).commit()
    again = keyed(log, "t", [1], writer_seq=1).commit()
    assert repr(first) == f"SubmittedOutcome(COMMITTED, snapshot {first.snapshot_id}, seq {first.seq})"
    assert repr(again).endswith(", a repeat)")
    with pytest.raises(ProposalRejectedError) as refused, log.transaction() as tx:
        tx.drop_table("gone")
    assert repr(refused.value.outcome).startswith("SubmittedOutcome(REJECTED, INVALID: ")
    assert repr(log) == f"InMemoryCommitLog(writer_id={log.writer_id!r})"


# --- once -------------------------------------------------------------------------------------------------------------


def test_transaction_when_committed_then_takes_no_change_and_no_second_commit(log: InMemoryCommitLog) -> None:
    with log.transaction() as tx:
        steps = tx.alter("t").add_column("b", "int64")
        tx.commit()
    for late in (
        lambda: tx.create_schema("s"),
        lambda: tx.read("t"),
        lambda: tx.append("t", []),
        lambda: steps.add_column("c", "int64"),
    ):
        with pytest.raises(InvalidRequestError, match="begin another one"):
            late()
    with pytest.raises(InvalidRequestError, match="begin another one"):
        tx.commit()
    assert tx.outcome.committed
    assert len(tx.changes) == 1


def test_transaction_when_refused_then_it_is_over(log: InMemoryCommitLog) -> None:
    tx = log.transaction()
    tx.drop_table("gone")
    with pytest.raises(ProposalRejectedError):
        tx.commit()
    with pytest.raises(InvalidRequestError, match="begin another one"):
        tx.create_schema("s")
    with pytest.raises(InvalidRequestError, match="begin another one"):
        tx.commit()
