"""What commits of stock clients ask of tables with a primary key: rows by key, wherever the client found and put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_commits import commit, write_file

from commitlog.domain import model as m
from commitlog.errors import InvalidRequestError, NotUnderstoodError
from commitlog.gateway.batch import parse
from commitlog.gateway.translation import Translated, translate

Files = dict[int, tuple[list[int], list[int] | None]]


def keyed(name: str, folder: Path, new: Files, old: Files | None = None, **differing: Any) -> Translated:
    """What a commit comes to where column a is the key: with these values and row ids in its files, and in those before."""
    found = commit(name)
    base = found.base
    base.data_path, base.primary_keys = f"{folder}/", {1: ("a",)}
    base.in_no_file = differing.get("in_no_file", {})
    for row in base.catalog.get("data_file", ()):
        row["row_id_start"] += differing.get("row_ids_from", 0)
    batch = parse(found.text)
    for rows, files in ((batch.rows.get("data_file", ()), new), (base.catalog.get("data_file", ()), old or {})):
        for at, (values, row_ids) in files.items():
            write_file(folder / "main/t" / rows[at]["path"], values, row_ids)
    return translate(batch, base, lambda _: differing.get("changes_max", 10))


def told(found: Translated) -> list[Any]:
    """Each change in short."""
    short: list[Any] = []
    for change in found.changes:
        assert isinstance(change, m.InsertRow | m.UpdateRow | m.DeleteRow)
        assert (change.schema, change.table) == ("main", "t")
        key = None if isinstance(change, m.InsertRow) else dict(change.key)
        row = None if isinstance(change, m.DeleteRow) else dict(change.row)
        short.append((key, row))
    return short


def image(a: int, b: str) -> dict[str, Any]:
    return {"a": a, "b": b}


def test_rows_that_come_in_a_file_are_inserted_and_the_file_is_not_needed(tmp_path: Path) -> None:
    found = keyed("insert", tmp_path, {0: ([5, 6], None)})
    (file,) = parse(commit("insert").text).rows["data_file"]
    assert told(found) == [(None, image(5, "r0")), (None, image(6, "r1"))]
    assert found.unused == (f"{tmp_path}/main/t/{file['path']}",)
    assert found.files == ()


def test_rows_in_no_file_go_by_their_keys(tmp_path: Path) -> None:
    found = keyed("inlined_row_delete", tmp_path, {}, in_no_file={0: {1: 41, 2: b"x"}, 1: {1: 42, 2: b"y"}})
    assert told(found) == [({"a": 41}, None)]


def test_a_row_in_no_file_that_was_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotUnderstoodError, match="row 0, which was not there: read again"):
        keyed("inlined_row_delete", tmp_path, {}, in_no_file={})


def test_a_row_that_carries_the_id_of_one_that_goes_is_that_row_changed(tmp_path: Path) -> None:
    found = keyed("inlined_row_update_as_file", tmp_path, {0: ([7], [0])}, in_no_file={0: {1: 1}})
    assert told(found) == [({"a": 1}, image(7, "r0"))]
    found = keyed("update", tmp_path, {0: ([3], [3])}, {0: (list(range(10)), None)})
    assert told(found) == [({"a": 3}, image(3, "r0"))]
    found = keyed("update", tmp_path, {0: ([14], [43])}, {0: (list(range(10)), None)}, row_ids_from=40)
    assert told(found) == [({"a": 3}, image(14, "r0"))]


def test_rows_of_a_flushed_file_are_known_by_the_ids_that_it_carries(tmp_path: Path) -> None:
    found = keyed("update", tmp_path, {0: ([3], [93])}, {0: (list(range(10)), [90 + n for n in range(10)])})
    assert told(found) == [({"a": 3}, image(3, "r0"))]


def test_a_row_that_comes_with_the_key_of_one_that_goes_takes_its_place(tmp_path: Path) -> None:
    found = keyed("update", tmp_path, {0: ([3], None)}, {0: (list(range(10)), None)})
    assert told(found) == [({"a": 3}, image(3, "r0"))]
    found = keyed("update", tmp_path, {0: ([4], None)}, {0: (list(range(10)), None)})
    assert told(found) == [({"a": 3}, None), (None, image(4, "r0"))]


def test_a_row_that_takes_the_key_of_one_that_has_another_now_takes_its_place(tmp_path: Path) -> None:
    """A proposal changes a key once: of keys that move up each takes the rows that come, the last is new, the first goes."""
    found = keyed("update_all", tmp_path, {0: (list(range(1, 11)), list(range(10)))}, {0: (list(range(10)), None)})
    assert told(found) == [
        ({"a": 0}, None),
        *(({"a": key}, image(key, f"r{key - 1}")) for key in range(1, 10)),
        (None, image(10, "r9")),
    ]


def test_all_rows_of_a_file_go_but_those_that_had_gone(tmp_path: Path) -> None:
    found = keyed("truncate", tmp_path, {}, {0: (list(range(10)), None)})
    assert [key["a"] for key, _ in told(found)] == list(range(10))
    base = commit("truncate").base
    base.data_path, base.primary_keys = f"{tmp_path}/", {1: ("a",)}
    base.catalog["inlined_delete_1"] = [{"file_id": 0, "row_id": 3, "begin_snapshot": 2}]
    again = translate(parse(commit("truncate").text), base, lambda _: 10)
    assert [key["a"] for key, _ in told(again)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_rows_that_the_same_transaction_inserted_and_changed_come_as_they_are_at_its_end(tmp_path: Path) -> None:
    found = keyed("own_update", tmp_path, {0: (list(range(10)), None), 1: ([33], [10**18 + 3])})
    rows = [row for key, row in told(found) if key is None]
    assert [row["a"] for row in rows] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 33]
    batch = parse(commit("own_update").text)
    paths = [row["path"] for name in ("data_file", "delete_file") for row in batch.rows[name]]
    assert sorted(found.unused) == sorted(f"{tmp_path}/main/t/{path}" for path in paths)


def test_more_rows_than_a_proposal_takes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="each changed by its key"):
        keyed("truncate", tmp_path, {}, changes_max=9)


def test_rows_of_a_table_with_a_key_that_is_altered_too_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotUnderstoodError, match="split it"):
        keyed("alter_insert", tmp_path, {0: ([1], None)})
