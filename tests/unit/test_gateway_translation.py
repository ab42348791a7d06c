"""What the commits of stock clients ask of the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from gateway_commits import FOLDER, NAMES, StoredBase, commit

from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.json_values import to_json
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.batch import parse
from commitlog.gateway.translation import Translated, translate

OWN_ROW_ID = 10**18


def translated(name: str, **differing: Any) -> Translated:
    """What a commit of the corpus comes to; in its text each key is replaced by its value."""
    found = commit(name)
    text = found.text
    for old, new in differing.get("text", {}).items():
        assert old in text
        text = text.replace(old, new)
    base = differing.get("base", found.base)
    return translate(parse(text), base)


def bare(value: Any) -> Any:
    """JSON without what says nothing."""
    if isinstance(value, dict):
        return {key: bare(each) for key, each in value.items() if each not in (None, [], {})}
    return [bare(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_a_commit_of_the_stock_client_becomes_its_changes(name: str) -> None:
    told = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    try:
        found = {"changes": [bare(to_json(change)) for change in translated(name).changes]}
    except NotUnderstoodError as error:
        found = {"refused": str(error)}
    assert found == {key: told[key] for key in ("changes", "refused") if key in told}


def test_what_was_deleted_at_the_base_is_not_deleted_again() -> None:
    found = translated("delete_again")
    (file,) = parse(commit("delete_again").text).rows["delete_file"]
    assert [list(each.rows) for each in found.changes[0].positions] == [[5, 6]]
    assert found.unused == (f"/lake/main/t/{file['path']}",)


def test_rows_that_somebody_deleted_without_a_file_are_not_deleted_again() -> None:
    base = commit("delete").base
    base.catalog["inlined_delete_1"] = [{"file_id": 0, "row_id": 3, "begin_snapshot": 2}]
    assert [list(each.rows) for each in translated("delete", base=base).changes[0].positions] == [[1]]


def test_a_delete_of_what_was_deleted_already_comes_to_nothing() -> None:
    base = commit("delete").base
    base.catalog["inlined_delete_1"] = [{"file_id": 0, "row_id": row, "begin_snapshot": 2} for row in (1, 3)]
    assert translated("delete", base=base).changes == ()


def test_many_rows_go_as_the_clients_own_delete_file() -> None:
    found = translated("delete_large")
    (file,) = found.changes[0].delete_files
    (row,) = parse(commit("delete_large").text).rows["delete_file"]
    assert (file.path, file.path_is_relative, file.file_size_bytes) == (row["path"], True, row["file_size_bytes"])
    assert (len(file.rows), file.data_file_id, found.unused) == (2500, 0, ())


def test_a_delete_file_that_names_the_clients_snapshots_is_written_anew(tmp_path: Path) -> None:
    lake = f"{tmp_path}/"
    (tmp_path / "main/t").mkdir(parents=True)
    base = commit("delete_large").base
    base.data_path = lake
    (row,) = parse(commit("delete_large").text).rows["delete_file"]
    numbers = f"{row['file_size_bytes']}, {row['footer_size']}, NULL"
    found = translated("delete_large", base=base, text={f"{numbers}, NULL)": f"{numbers}, 3)"})
    (file,) = found.changes[0].delete_files
    assert found.unused == (f"{lake}main/t/{row['path']}",)
    assert file.path != row["path"]
    written = pq.read_table(tmp_path / "main/t" / file.path)
    assert written.column_names == ["file_path", "pos"]
    assert written["pos"].to_pylist() == list(file.rows) == list(range(0, 5000, 2))
    assert set(written["file_path"].to_pylist()) == {f"{lake}main/t/{base.rows('data_file')[0]['path']}"}


def test_a_delete_from_a_file_that_was_not_there_is_refused() -> None:
    for name in ("delete", "truncate"):
        base = commit(name).base
        base.catalog["data_file"].clear()
        with pytest.raises(NotUnderstoodError, match="read again and repeat"):
            translated(name, base=base)


def test_an_update_of_all_own_rows_is_seen_in_the_file_alone() -> None:
    base = commit("update_all").base
    (file,) = parse(commit("update_all").text).rows["data_file"]
    base.carried[file["path"]] = [OWN_ROW_ID, 3]
    with pytest.raises(NotUnderstoodError, match="split it"):
        translated("update_all", base=base)


def test_files_are_found_where_their_table_lies() -> None:
    base = commit("insert").base
    translated("insert", base=base)
    (file,) = parse(commit("insert").text).rows["data_file"]
    assert base.opened == [f"/lake/main/t/{file['path']}"]


def test_a_file_named_by_its_whole_path_is_named_below_its_table_where_it_lies_there() -> None:
    found = translated("add_data_files", text={"/elsewhere/f.parquet": "/lake/main/t/f.parquet"})
    (file,) = found.changes[0].files
    assert (file.path, file.path_is_relative) == ("f.parquet", True)


def keyed(name: str) -> StoredBase:
    base = commit(name).base
    base.primary_keys = {1: ("a",)}
    return base


@pytest.mark.parametrize("name", ["insert", "delete", "update", "truncate", "inlined_row_delete"])
def test_rows_of_a_keyed_table_are_refused_with_the_way_to_do_it(name: str) -> None:
    with pytest.raises(NotUnderstoodError, match="primary key: change them by key"):
        translated(name, base=keyed(name))


def test_a_table_that_the_client_makes_is_not_taken_for_one_that_has_its_number_by_now() -> None:
    base = commit("create_table_as").base
    base.primary_keys = {2: ("a",)}
    assert [type(each) for each in translated("create_table_as", base=base).changes] == [m.CreateTable, m.Append]


def test_a_table_with_an_odd_name_is_filled_once_it_is_there() -> None:
    text = {"'u/', true": "'01a20645-f2f2-7d52-a61a-81e7869fa427/', true"}
    with pytest.raises(NotUnderstoodError, match="split it"):
        translated("create_table_as", text=text)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("insert", {"'parquet'": "'csv'"}, "not Parquet"),
        ("insert", {"NULL, NULL, NULL, NULL);": "NULL, 'key', NULL, NULL);"}, "attach without ENCRYPTED"),
        ("insert", {"NULL, NULL, NULL, NULL);": "NULL, NULL, NULL, 2);"}, "rows of other snapshots"),
        ("insert", {"NULL, NULL, NULL, NULL);": "NULL, NULL, 7, NULL);"}, "attach again"),
        ("insert", {"(0, 1, 2, NULL, NULL,": "(0, 9, 2, NULL, NULL,"}, "which was not there"),
        ("delete", {"NULL, NULL);INSERT INTO": "'key', NULL);INSERT INTO"}, "attach without ENCRYPTED"),
        ("add_data_files", {"1, NULL, false)": "1, NULL, true)"}, "read_parquet"),
        ("truncate", {"data_file_id IN (0)": "table_id IN (1)"}, "TRUNCATE it instead"),
        ("comment_table", {"'comment'": "'other'"}, "the tag other"),
        ("comment_column", {"(1, 1": "(1, 9"}, ""),
    ],
)  # fmt: skip
def test_what_the_log_has_no_change_for_is_refused(name: str, text: dict[str, str], said: str) -> None:
    if said:
        with pytest.raises(NotUnderstoodError, match=said):
            translated(name, text=text)
    else:
        assert translated(name, text=text).changes == ()


def test_a_delete_file_that_goes_without_another_is_refused() -> None:
    found = commit("delete_again")
    start, end = (
        found.text.index(f'INSERT INTO "public".ducklake_{name} ') for name in ("delete_file", "snapshot_changes")
    )
    with pytest.raises(NotUnderstoodError, match="come back"):
        translate(parse(found.text[:start] + found.text[end:]), found.base)


@pytest.mark.parametrize(
    ("first", "second", "steps"),
    [
        ("aa", "a", [("a", "aa"), ("b", "a")]),
        ("b", "c", [("b", "c"), ("a", "b")]),
        ("b", "a", [("a", "commitlog_renamed_0"), ("b", "a"), ("commitlog_renamed_0", "b")]),
        ("A", "B", [("a", "A"), ("b", "B")]),
    ],
)
def test_columns_that_take_each_others_names_are_renamed_in_an_order_that_can_be(
    first: str, second: str, steps: list[tuple[str, str]]
) -> None:
    found = commit("alter_twice")
    text = found.text
    for old, new in (("3, 'b'", "3, 'z'"), ("1, 'aa'", f"1, '{first}'"), ("2, 'a'", f"2, '{second}'")):
        assert old in text
        text = text.replace(old, new)
    (change,) = translate(parse(text), found.base).changes
    assert isinstance(change, m.AlterTable)
    assert [(each.name, each.new_name) for each in change.alterations if each.op is m.AlterOp.RENAME_COLUMN] == steps
    definition = found.base.definition(1)
    assert definition is not None
    after = alter(definition, change.alterations, partition_ids=())
    assert [(column.column_id, column.name) for column in after.columns] == [(1, first), (2, second), (3, "z")]
