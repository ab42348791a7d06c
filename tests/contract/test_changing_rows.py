"""Rows of a table that go, come back, or are changed by their key, by a table's handle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from commitlog.client import CommitLog, changeset_tables
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.overlay import table_after
from commitlog.client.writing import keyed_rows
from commitlog.domain.model import Delete, ForeignKeySpec, Outcome
from commitlog.errors import (
    DataFileError,
    InvalidRequestError,
    ProposalRejectedError,
    SnapshotNotFoundError,
    TableNotFoundError,
)

ROWS = pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", None, "d"]})


def ids(log: CommitLog, table: str) -> list[int]:
    log.wait_for_snapshot()
    return sorted(log.table(table).scan(columns=["id"]).to_arrow()["id"].to_pylist())


def deletes(log: CommitLog, snapshot_id: int | None) -> Delete:
    outcome: Outcome = next(each for each in log.subscribe(follow=False) if each.snapshot_id == snapshot_id)
    assert outcome.proposal is not None
    return next(change for change in outcome.proposal.changes if isinstance(change, Delete))


@pytest.fixture
def many(log: CommitLog, table: str) -> str:
    """A table of three files, ids 1 to 4, 11 to 14 and 21 to 24."""
    for start in (0, 10, 20):
        log.append(table, {"id": [start + at for at in range(1, 5)], "v": ["a", "b", None, "d"]}, create=True)
    return table


def test_delete_when_statistics_prove_whole_files_then_only_others_are_read(log: CommitLog, many: str) -> None:
    files = {each.data_file_id: Path(each.path) for each in log.table(many).files()}
    first, _, third = sorted(files)
    kept = files[first].rename(files[first].with_suffix(".away"))
    outcome = log.table(many).delete("id < 13")
    assert outcome is not None
    kept.rename(files[first])
    change = deletes(log, outcome.snapshot_id)
    assert change.whole_files == (first,)
    assert [len(each.rows) for each in change.positions] == [2]
    assert ids(log, many) == [13, 14, 21, 22, 23, 24]
    again = log.table(many).delete([("id", ">", 20)])
    assert again is not None
    assert deletes(log, again.snapshot_id).whole_files == (third,)
    assert log.table(many).delete("id = 5") is None
    assert log.table(many).delete(True) is not None
    assert ids(log, many) == []


@pytest.mark.parametrize(
    ("where", "matching"),
    [("f > 0.1", []), ("f < 0.1", []), ("f = 0.1", [1, 2]), ("f <= 0.1", [1, 2]), ("f > '0.0999'", [1, 2])],
)
def test_filter_when_a_decimal_is_beside_a_rounded_column_then_rows_are_what_counts(
    log: CommitLog, table: str, where: str, matching: list[int]
) -> None:
    log.append(table, pa.table({"id": [1, 2], "f": pa.array([0.1, 0.1], pa.float32())}), create=True)
    log.wait_for_snapshot()
    assert log.table(table).scan(columns=["id"], where=where).to_arrow()["id"].to_pylist() == matching
    outcome = log.table(table).delete(where)
    assert (outcome is not None) is bool(matching)
    assert ids(log, table) == ([] if matching else [1, 2])


def test_delete_when_rows_were_deleted_before_then_the_rest_of_a_file_is_all_of_it(log: CommitLog, many: str) -> None:
    log.table(many).delete("id in (1, 2)")
    outcome = log.table(many).delete("v is null")
    assert outcome is not None
    assert ids(log, many) == [4, 11, 12, 14, 21, 22, 24]
    last = log.table(many).delete("id between 1 and 4")
    assert last is not None
    assert len(deletes(log, last.snapshot_id).whole_files) == 1
    assert ids(log, many) == [11, 12, 14, 21, 22, 24]


def test_delete_when_many_rows_of_a_file_go_then_by_a_delete_file(log: CommitLog, table: str) -> None:
    log.append(table, {"id": list(range(250_000))}, create=True)
    log.table(table).delete("id < 5")
    outcome = log.table(table).delete("id < 150000")
    assert outcome is not None
    [deleted] = deletes(log, outcome.snapshot_id).delete_files
    assert len(deleted.rows) == 149_995
    assert ids(log, table) == list(range(150_000, 250_000))
    folder = Path(log.table(table).at().path or "")
    with pytest.raises(ProposalRejectedError):
        log.table(table).delete("id < 249990", decide_before_ms=1)
    assert len(list(folder.glob("*-deletes.parquet"))) == 1


def test_delete_when_rows_that_match_come_meanwhile_then_it_is_computed_again(
    log: CommitLog, other: CommitLog, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commitlog.client.writing.deleting import Deletion

    put, added = Deletion.put, []

    def once(self: Deletion, transaction: Any) -> None:
        put(self, transaction)
        if not added:
            added.append(other.append(many, {"id": [2]}))

    monkeypatch.setattr(Deletion, "put", once)
    assert log.table(many).delete("id = 2") is not None
    assert ids(log, many) == [1, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (None, "say which rows go"), ([], "say which rows go"), (False, "say which rows go"),
        ("id like 3", "like"), (("nope", "=", 1), "nope"), (("id", "=", "x"), "id"),
    ],
)  # fmt: skip
def test_delete_when_the_filter_is_none_then_says_so(log: CommitLog, many: str, where: Any, message: str) -> None:
    with pytest.raises((InvalidRequestError, ValueError), match=message):
        log.table(many).delete(where)


def test_delete_when_its_key_is_known_then_the_first_answers(log: CommitLog, many: str) -> None:
    first = log.table(many).delete("id = 1", key="cleanup:1")
    again = log.table(many).delete("id = 1", key="cleanup:1")
    assert first is not None
    assert again is not None
    assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)


def test_restore_when_rows_went_and_came_then_they_are_as_they_were(log: CommitLog, many: str) -> None:
    table = log.table(many)
    then, before = log.head_snapshot_id(), ids(log, many)
    table.delete("id < 3")
    table.append({"id": [99]})
    table.delete("id > 22")
    outcome = table.restore(then)
    assert outcome is not None
    assert ids(log, many) == before
    assert table.restore(log.head_snapshot_id()) is None
    kept = {each.data_file_id for each in table.files(then)} & {each.data_file_id for each in table.files()}
    assert len(kept) == 1


def test_restore_when_rows_are_written_again_then_a_few_are_in_memory_at_a_time(
    log: CommitLog, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commitlog.client.reading import file_rows
    from commitlog.client.writing import restoring

    pieces: list[int] = []

    write_rows = restoring.write_rows

    def counted(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for each in rows:
            pieces.append(each.num_rows)
            yield each

    monkeypatch.setattr(restoring, "write_rows", lambda rows, *args: write_rows(counted(rows), *args))
    monkeypatch.setattr(file_rows, "BATCH_ROWS", 3)
    table = log.table(many)
    then, before = log.head_snapshot_id(), ids(log, many)
    table.delete("id > 0")
    assert table.restore(then) is not None
    assert ids(log, many) == before
    assert (sum(pieces), max(pieces)) == (len(before), 3)


def test_restore_when_columns_have_changed_since_then_values_stay_with_their_columns(
    log: CommitLog, table: str
) -> None:
    handle = log.table(table)
    for start in (0, 10):
        log.append(table, {"id": [start], "a": [start + 1], "b": [start + 2], "c": [start + 3]}, create=True)
    then = log.head_snapshot_id()
    handle.delete("id = 10")
    with log.transaction() as tx:
        alter = tx.alter(table).rename_column("a", "old").rename_column("b", "a").rename_column("old", "b")
        alter.drop_column("c").add_column("d", "int64", default=7)
    handle.restore(then)
    assert list(rows(log, table)) == [(0, 1, 2, 7), (10, 11, 12, 7)]
    assert handle.schema.names == ["id", "b", "a", "d"]


def test_restore_when_it_cannot_be_then_says_why(log: CommitLog, many: str) -> None:
    table = log.table(many)
    with pytest.raises(SnapshotNotFoundError):
        table.restore(10**9)
    with pytest.raises(TableNotFoundError):
        log.table(f"{many}_none").restore(1)
    then = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.drop_table(many)
    table.append(ROWS, create=True)
    with pytest.raises(DataFileError, match="created anew"):
        table.restore(then)


@pytest.fixture
def keyed(log: CommitLog, table: str) -> str:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "v": "varchar", "n": "int64"}, primary_key=["id"])
    return table


def rows(log: CommitLog, table: str) -> Iterator[tuple[Any, ...]]:
    log.wait_for_snapshot()
    return iter(sorted(tuple(row.values()) for row in log.table(table).scan().to_arrow().to_pylist()))


def test_restore_when_rows_have_keys_then_they_are_as_they_were(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "v": "varchar", "at": "timestamptz"}, primary_key=["id"], unique=[["v"]])
    keyed = log.table(table)
    at = datetime(1905, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    keyed.insert([{"id": 1, "v": "a", "at": at}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}, {"id": 4, "v": "d"}])
    then, before = log.head_snapshot_id(), list(rows(log, table))
    keyed.delete_row({"id": 1})
    keyed.update({"id": 2}, {"id": 9, "v": "b"})
    keyed.insert({"id": 1, "v": "c2"})
    keyed.update({"id": 3}, {"id": 3, "v": "a"})
    keyed.delete_row({"id": 4})
    keyed.insert({"id": 5, "v": "d"})
    restored = keyed.restore(then, key=f"{table}:restored")
    assert restored is not None
    assert list(rows(log, table)) == before
    assert keyed.restore(then) is None
    keyed.delete_row({"id": 2})
    again = keyed.restore(then, key=f"{table}:restored")
    assert again is not None
    assert (again.is_repeat, again.snapshot_id) == (True, restored.snapshot_id)
    assert keyed.restore(then) is not None
    assert list(rows(log, table)) == before
    assert keyed.restore(log.head_snapshot_id()) is None


def test_restore_when_rows_have_exchanged_unique_values_then_says_what_to_do(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "v": "varchar"}, primary_key=["id"], unique=[["v"]])
    keyed = log.table(table)
    keyed.insert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    then = log.head_snapshot_id()
    keyed.update({"id": 1}, {"id": 1, "v": "c"})
    keyed.update({"id": 2}, {"id": 2, "v": "a"})
    keyed.update({"id": 1}, {"id": 1, "v": "b"})
    with pytest.raises(InvalidRequestError, match="exchanged UNIQUE values"):
        keyed.restore(then)
    keyed.update({"id": 1}, {"id": 1, "v": None})
    keyed.restore(then)
    assert list(rows(log, table)) == [(1, "a"), (2, "b")]


def test_rows_when_they_refer_to_others_of_their_table_then_go_and_come_back_whatever_their_order(
    log: CommitLog, table: str
) -> None:
    boss = [ForeignKeySpec(("boss",), "main", table, ("id",)), ForeignKeySpec(("mate",), "main", table, ("name",))]
    columns = {"id": "int64", "boss": "int64", "name": "varchar", "mate": "varchar"}
    with log.transaction() as tx:
        tx.create_table(table, columns, primary_key=["id"], unique=[["name"]], foreign_keys=boss)
    people = log.table(table)
    empty = log.head_snapshot_id()
    people.insert([{"id": 3}, {"id": 2, "boss": 3, "name": "b"}, {"id": 1, "boss": 2, "name": "a", "mate": "a"}])
    people.insert({"id": 4, "mate": "b"})
    down, first = log.head_snapshot_id(), list(rows(log, table))
    people.delete("id in (1, 2, 4)")
    people.update({"id": 3}, {"id": 3, "name": "a"})
    people.insert([{"id": 4, "boss": 3, "mate": "a"}, {"id": 1, "boss": 4}])
    up, second = log.head_snapshot_id(), list(rows(log, table))
    for snapshot_id, expected in ((down, first), (up, second), (empty, []), (up, second), (down, first)):
        people.restore(snapshot_id)
        assert list(rows(log, table)) == expected
    people.update({"id": 3}, {"id": 3, "boss": 1})
    with pytest.raises(
        InvalidRequestError, match="refer to each other, which one commit cannot undo: change one of them"
    ):
        people.delete(True)
    people.update({"id": 3}, {"id": 3})
    people.delete(True)
    assert list(rows(log, table)) == []


def test_keyed_rows_when_inserted_updated_and_deleted_then_as_asked(log: CommitLog, keyed: str) -> None:
    table = log.table(keyed)
    table.insert({"id": 1, "v": "a", "n": 1})
    table.insert(pl.DataFrame({"id": [2, 3], "v": ["b", "c"]}))
    table.update({"id": 1}, {"id": 1, "v": "A"})
    table.delete_row({"id": 2})
    assert list(rows(log, keyed)) == [(1, "A", None), (3, "c", None)]
    with pytest.raises(ProposalRejectedError):
        table.insert({"id": 1})


def test_upsert_when_some_keys_are_there_then_only_given_columns_change(log: CommitLog, keyed: str) -> None:
    table = log.table(keyed)
    table.insert([{"id": 1, "v": "a", "n": 1}, {"id": 2, "v": "b", "n": 2}])
    assert table.upsert(pa.table({"ID": [2, 3], "v": ["B", "c"]})) is not None
    assert list(rows(log, keyed)) == [(1, "a", 1), (2, "B", 2), (3, "c", None)]
    first = table.upsert({"id": 4}, key="load:4")
    again = table.upsert({"id": 4}, key="load:4")
    assert first is not None
    assert again is not None
    assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)
    assert table.upsert([]) is None


@pytest.fixture
def uneven(log: CommitLog, table: str) -> str:
    """A keyed table with a default and a map."""
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "m": "map(varchar, int32)", "l": "list(int32)"}, primary_key=["id"])
    with log.transaction() as tx:
        tx.alter(table).add_column("d", "int32", default="7")
    return table


def test_upsert_when_there_are_many_rows_then_those_that_are_there_are_looked_for_once(
    log: CommitLog, keyed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.table(keyed).insert([{"id": each, "v": "old"} for each in range(10, 3_000)])
    asked: list[int] = []
    scanned = keyed_rows.Scan

    def scan(*args: Any, **options: Any) -> Scan:
        asked.append(1)
        return scanned(*args, **options)

    monkeypatch.setattr(keyed_rows, "Scan", scan)
    log.table(keyed).upsert([{"id": each, "v": "new"} for each in range(2_000, 5_000)])
    log.wait_for_snapshot()
    assert len(asked) == 1
    found = log.table(keyed).scan(where="id >= 10").to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(10, 5_000))
    assert found["v"].to_pylist().count("new") == 3_000


@pytest.mark.parametrize(
    ("kind", "key"),
    [("blob", b"a\xff"), ("boolean", True), ("date", date(2026, 1, 2)), ("varchar", "a"), ("float64", 1.5)],
)
def test_rows_when_they_hold_maps_then_keys_stay_what_they_are(
    log: CommitLog, table: str, kind: str, key: object
) -> None:
    with log.transaction() as tx:
        held = f"struct(l list(map({kind}, int64)))"
        tx.create_table(table, {"id": "int64", "m": f"map({kind}, int64)", "s": held, "v": "int64"}, primary_key=["id"])
    handle = log.table(table)
    handle.insert({"id": 1, "m": {key: 5}, "s": {"l": [{key: 6}, {}]}})
    handle.upsert({"id": 1, "v": 1})
    log.wait_for_snapshot()
    there = handle.scan().to_arrow().to_pylist()
    assert there == [{"id": 1, "m": [(key, 5)], "s": {"l": [[(key, 6)], []]}, "v": 1}]
    handle.upsert([{**there[0], "id": 2}])
    assert list(rows(log, table))[1] == (2, *list(there[0].values())[1:])


def test_rows_when_the_key_of_a_map_is_missing_or_is_none_of_its_type_then_says_so(log: CommitLog, uneven: str) -> None:
    for given in ({None: 1}, [(None, 1)]):
        with pytest.raises(InvalidRequestError, match="a key that is missing"):
            log.table(uneven).insert({"id": 1, "m": given})
    for given in ({b"k": 1}, [(b"k", 1)]):
        with pytest.raises(InvalidRequestError, match="has bytes, which are no text"):
            log.table(uneven).insert({"id": 1, "m": given})


def test_rows_when_many_have_times_then_the_table_is_made_out_once_for_all_of_them(
    log: CommitLog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "at": "timestamp"}, primary_key=["id"])
    asked: list[int] = []

    def counted(*args: Any) -> Any:
        asked.append(1)
        return table_after(*args)

    monkeypatch.setattr(changeset_tables, "table_after", counted)
    with log.transaction() as tx:
        for each in range(100):
            tx.insert_row(table, {"id": each, "at": datetime(2026, 1, 2)})
        assert len(asked) == 1
        alteration = tx.alter(table)
        for column in ("seen", "left"):
            alteration.add_column(column, "timestamptz")
            with pytest.raises(InvalidRequestError, match="without a zone"):
                tx.insert_row(table, {"id": 100, column: datetime(2026, 1, 2)})
    assert ids(log, table) == list(range(100))


def test_insert_when_rows_give_different_columns_then_the_others_have_their_defaults(
    log: CommitLog, uneven: str
) -> None:
    table = log.table(uneven)
    table.insert([{"id": 1, "m": {"k": 1}}, {"id": 2, "m": {"l": 2}, "d": 9}])
    table.insert({"id": each} for each in (3, 4))
    table.insert({"id": [5, 6], "m": [{"k": 1}, {"l": 2}], "l": [np.array([1]), {2}]})
    table.insert(pa.table({"id": [8], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))}))
    table.insert({"id": 9, "l": [1, 2]})
    assert list(rows(log, uneven)) == [
        (1, [("k", 1)], None, 7),
        (2, [("l", 2)], None, 9),
        (3, None, None, 7),
        (4, None, None, 7),
        (5, [("k", 1)], [1], 7),
        (6, [("l", 2)], [2], 7),
        (8, [("k", 1)], None, 7),
        (9, None, [1, 2], 7),
    ]
    with pytest.raises(InvalidRequestError, match="a list of rows has dicts only, not 2"):
        table.insert([{"id": 10}, 2])
    with pytest.raises(InvalidRequestError, match="different numbers of values: id 2, d 1"):
        table.insert({"id": [10, 11], "d": [1]})


def test_upsert_when_rows_give_different_columns_then_each_keeps_its_others(log: CommitLog, uneven: str) -> None:
    table = log.table(uneven)
    table.insert([{"id": 1, "m": {"k": 1}, "d": 1}, {"id": 2, "l": [2]}])
    then = log.head_snapshot_id()
    table.upsert([{"id": 1, "d": 10}, {"id": 2, "l": []}, {"id": 3}])
    assert list(rows(log, uneven)) == [(1, [("k", 1)], None, 10), (2, None, [], 7), (3, None, None, 7)]
    table.restore(then)
    assert list(rows(log, uneven)) == [(1, [("k", 1)], None, 1), (2, None, [2], 7)]


def test_upsert_when_it_cannot_be_then_says_why(log: CommitLog, keyed: str) -> None:
    table = log.table(keyed)
    with pytest.raises(InvalidRequestError, match="a row lacks id"):
        table.upsert({"v": "a"})
    with pytest.raises(InvalidRequestError, match="give each key once"):
        table.upsert([{"id": 1}, {"id": 1}])
    log.append(f"{keyed}_plain", ROWS, create=True)
    with pytest.raises(DataFileError, match="no primary key"):
        log.table(f"{keyed}_plain").upsert({"id": 1})


def test_delete_when_the_table_has_a_key_then_rows_go_by_it(log: CommitLog, keyed: str) -> None:
    table = log.table(keyed)
    table.insert([{"id": at, "v": "x" if at < 3 else "y"} for at in range(5)])
    assert table.delete("v = 'x'") is not None
    assert [row[0] for row in rows(log, keyed)] == [3, 4]
