"""Commits of several changes that have a name: done again, they commit nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import append, create

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.errors import InvalidRequestError, KeyReusedError


def count(log: CommitLog, table: str) -> int:
    log.wait_for_snapshot()
    return log.table(table).scan().count()


def test_transaction_when_its_key_was_committed_then_is_a_repeat_that_leaves_nothing(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    key = f"nightly:{table}"
    with log.transaction(key=key) as tx:
        assert not tx.is_repeat
        tx.append(table, {"id": [1]})
    first = tx.outcome
    files = set(Path(log.table(table).at().path or "").rglob("*.parquet"))
    with log.transaction(key=key) as again:
        assert again.is_repeat
        assert again.outcome.snapshot_id == first.snapshot_id
        again.append(table, {"id": [2, 3]})
    assert (again.outcome.snapshot_id, again.outcome.is_repeat) == (first.snapshot_id, True)
    assert log.head_snapshot_id() == first.snapshot_id
    assert set(Path(log.table(table).at().path or "").rglob("*.parquet")) == files
    assert count(log, table) == 1
    with pytest.raises(InvalidRequestError, match="its answer is final"):
        again.commit()


def test_transaction_when_its_key_was_committed_and_it_is_sent_with_others_then_answered_without_being_sent(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    key = f"nightly:{table}"
    with log.transaction(key=key) as tx:
        tx.append(table, {"id": [1]})
    before = log.last_seq()
    other = log.transaction()
    other.append(table, {"id": [2]})
    for answers in (
        log.publish_many([log.transaction(key=key), other]),
        [log.submit_async(log.transaction(key=key)).result(60)],
    ):
        first, *_ = answers
        assert isinstance(first, SubmittedOutcome)
        assert (first.snapshot_id, first.is_repeat) == (tx.outcome.snapshot_id, True)
    assert log.last_seq() == before + 1


def test_run_when_its_key_was_committed_then_is_not_called(log: CommitLog, table: str, tmp_path: Path) -> None:
    create(log, table)
    append(log, table, tmp_path)
    calls = []

    def put(tx: Transaction) -> None:
        calls.append(tx)
        tx.append(table, {"id": [1]})

    first = log.run(put, key=f"load-{table}:1")
    again = log.run(put, key=f"load-{table}:1")
    other = log.run(put, key=f"load-{table}:2")
    assert (again.snapshot_id, again.is_repeat, len(calls)) == (first.snapshot_id, True, 2)
    assert (other.snapshot_id, other.is_repeat) == ((first.snapshot_id or 0) + 1, False)


def test_run_when_its_key_is_committed_meanwhile_with_something_else_then_is_answered_as_a_later_one_would_be(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    firsts = []

    def put(tx: Transaction) -> None:
        if not firsts:
            with log.transaction(key=f"meanwhile:{table}") as other:
                other.append(table, {"id": [1]})
            firsts.append(other.outcome)
        tx.append(table, {"id": [1, 2]})

    found = log.run(put, key=f"meanwhile:{table}")
    assert (found.snapshot_id, found.is_repeat) == (firsts[0].snapshot_id, True)
    assert count(log, table) == 1


def test_change_when_its_key_is_committed_meanwhile_and_nothing_is_left_to_do_then_is_answered_as_the_first(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    log.append(table, {"id": [1]})
    firsts = []

    def nothing(tx: Transaction) -> None:
        firsts.append(log.table(table).delete("id = 1", key="cleanup:7"))

    found = log.change_rows(table, nothing, key="cleanup:7")
    assert found is not None
    assert (found.snapshot_id, found.is_repeat) == (firsts[0].snapshot_id, True)
    assert log.change_rows(table, lambda tx: None, key="cleanup:8") is None


def test_run_when_its_key_is_committed_meanwhile_and_nothing_is_left_to_do_then_is_answered_as_the_first(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    append(log, table, tmp_path)
    key, firsts = f"cleanup:{table}", []

    def drop_files(tx: Transaction) -> None:
        if there := [each.data_file_id for each in log.table(table).files()]:
            tx.delete(table, whole_files=there)

    def late(tx: Transaction) -> None:
        firsts.append(log.run(drop_files, key=key))
        drop_files(tx)

    found = log.run(late, key=key)
    assert (found.snapshot_id, found.is_repeat) == (firsts[0].snapshot_id, True)
    with pytest.raises(InvalidRequestError, match="nothing to commit"):
        log.run(lambda tx: None, key=f"another:{table}")


def test_key_when_another_kind_of_write_has_had_it_then_says_so_instead_of_doing_nothing(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    pq.write_table(pa.table({"id": [1]}), file := tmp_path / "rows.parquet")
    with log.transaction() as tx:
        tx.create_table(f"{table}_k", {"id": "int64"}, primary_key=["id"])
    plain, keyed = log.table(table), log.table(f"{table}_k")
    plain.append({"id": [1]}, key="nightly:1")
    plain.delete("id = 1", key="nightly:2")
    keyed.upsert([{"id": 1}], key="nightly:1")
    keyed.delete("id = 1", key="nightly:2")
    for again in (
        lambda: plain.delete("id = 1", key="nightly:1"),
        lambda: plain.append(files=[file], key="nightly:2"),
        lambda: keyed.delete("id = 1", key="nightly:1"),
        lambda: keyed.delete_row({"id": 1}, key="nightly:1"),
        lambda: keyed.upsert([{"id": 1}], key="nightly:2"),
        lambda: keyed.insert([{"id": 1}], key="nightly:2"),
        lambda: keyed.update({"id": 1}, {"id": 1}, key="nightly:2"),
    ):
        with pytest.raises(KeyReusedError, match=r"'nightly:[12]' .* the first had .*, as this one never does"):
            again()
    for answered in (
        plain.overwrite({"id": [1]}, True, key="nightly:1"),
        keyed.upsert([{"id": 7}], key="nightly:1"),
        keyed.delete("id = 7", key="nightly:2"),
    ):
        assert answered is not None
        assert answered.is_repeat


def test_key_when_two_commits_have_it_at_once_then_the_second_is_answered_as_the_first(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    early, late = (log.transaction(key=f"both:{table}") for _ in range(2))
    for tx in (early, late):
        tx.append(table, {"id": [1]})
    assert late.commit().snapshot_id == early.commit().snapshot_id
    assert count(log, table) == 1


@pytest.mark.parametrize("name", ["writer_id", "writer_seq", "writer_epoch", "proposal_id"])
def test_key_when_the_writer_is_said_as_well_then_says_which_to_leave_out(log: CommitLog, name: str) -> None:
    given = {name: "w" if name == "writer_id" else 1 if name != "proposal_id" else bytes(16)}
    for call in (
        lambda: log.transaction(key="load:1", **given),
        lambda: log.run(lambda tx: None, key="load:1", **given),
    ):
        with pytest.raises(InvalidRequestError, match=f"leave out {name}"):
            call()
