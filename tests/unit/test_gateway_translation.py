"""What the commits of stock clients ask of the log."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from gateway_commits import FOLDER, NAMES, StoredBase, commit, write_file

from commitlog.client.files import new_files
from commitlog.client.files.lake import is_named_by_us
from commitlog.client.writing import delete_files
from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.json_values import to_json
from commitlog.errors import NotUnderstoodError
from commitlog.gateway import base
from commitlog.gateway.batch import Ending, parse
from commitlog.gateway.translation import Translated, own_rows, translate

OWN_ROW_ID = 10**18
OWN = ("own_delete", "own_delete_old_too", "own_update")
"""Commits whose files are written anew."""
FILE_OF_T = (
    """INSERT INTO "public".ducklake_data_file VALUES (7, 1, 3, NULL, NULL, 'ducklake-01a20645-f2f2-7d52-a61a-81e7869fa427"""
    """.parquet', true, 'parquet', 10, 367, 220, 0, NULL, NULL, NULL, NULL);"""
)


def translated(name: str, **differing: Any) -> Translated:
    """What a commit of the corpus comes to; in its text each key is replaced by its value."""
    found = commit(name)
    text = found.text
    for old, new in differing.get("text", {}).items():
        assert old in text
        text = text.replace(old, new)
    base = differing.get("base", found.base)
    settings, on_file = m.LogSettings(**differing.get("settings", {})), differing.get("on_file", lambda _: None)
    return translate(parse(text), base, settings=settings, on_file=on_file)


def bare(value: Any) -> Any:
    """JSON without what says nothing."""
    if isinstance(value, dict):
        return {key: bare(each) for key, each in value.items() if each not in (None, [], {})}
    return [bare(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN])
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
    assert found.files == (f"/lake/main/t/{row['path']}",)


@pytest.mark.parametrize("limit", ["inlined_positions_max", "changeset_positions_max"])
def test_few_rows_go_as_the_clients_own_delete_file_where_the_log_takes_no_more_positions(limit: str) -> None:
    (change,) = translated("delete", settings={limit: 2}).changes
    assert [list(each.rows) for each in change.positions] == [[1, 3]]
    (change,) = translated("delete", settings={limit: 1}).changes
    assert (change.positions, [list(each.rows) for each in change.delete_files]) == ((), [[1, 3]])


def test_positions_that_the_client_itself_gives_count_before_those_of_its_delete_files() -> None:
    found = commit("delete")
    batch = replace(parse(found.text), inlined_deletes={1: [(7, 0)]})
    for limit, as_positions in ((3, [[1, 3], [0]]), (2, [[0]]), (1, [[0]])):
        (change,) = translate(batch, found.base, settings=m.LogSettings(changeset_positions_max=limit)).changes
        assert isinstance(change, m.Delete)
        assert [list(each.rows) for each in change.positions] == as_positions


def test_rows_of_a_file_that_goes_as_a_whole_are_not_named_beside_it() -> None:
    found = commit("delete")
    batch = parse(found.text)
    whole = Ending("data_file", ("data_file_id",), frozenset({(0,)}))
    batch = replace(batch, endings=(*batch.endings, whole), inlined_deletes={1: [(0, 5)]})
    assert translate(batch, found.base).changes == (m.Delete("main", "t", whole_files=(0,)),)


@pytest.mark.parametrize("keyed", [False, True])
def test_files_that_go_from_two_tables_go_from_their_own(tmp_path: Path, keyed: bool) -> None:
    found = commit("truncate")
    base, batch = found.base, parse(found.text)
    for name in ("table", "column"):
        rows = [{**row, "table_id": 2} for row in base.catalog[name]]
        base.catalog[name] += [{**row, "table_name": "u", "path": "u/"} if name == "table" else row for row in rows]
    (file,) = base.catalog["data_file"]
    base.catalog["data_file"].append({**file, "data_file_id": 7, "table_id": 2, "row_id_start": 40})
    batch = replace(batch, endings=(Ending("data_file", ("data_file_id",), frozenset({(0,), (7,)})),))
    base.data_path, base.primary_keys = f"{tmp_path}/", {1: ("a",)} if keyed else {}
    for table, values in (("t", range(10)), ("u", range(40, 50))):
        write_file(tmp_path / "main" / table / file["path"], values)
    of_t = (
        [m.DeleteRow("main", "t", {"a": key}) for key in range(10)] if keyed else [m.Delete("main", "t", (), (), (0,))]
    )
    changes = translate(batch, base, lambda wanted: wanted).changes
    assert sorted(map(repr, changes)) == sorted(map(repr, [*of_t, m.Delete("main", "u", (), (), (7,))]))


def test_a_delete_file_that_names_the_clients_snapshots_is_written_anew(tmp_path: Path) -> None:
    lake = f"{tmp_path}/"
    (tmp_path / "main/t").mkdir(parents=True)
    base = commit("delete_large").base
    base.data_path = lake
    (row,) = parse(commit("delete_large").text).rows["delete_file"]
    numbers = f"{row['file_size_bytes']}, {row['footer_size']}, NULL"
    made: list[str] = []
    found = translated("delete_large", base=base, text={f"{numbers}, NULL)": f"{numbers}, 3)"}, on_file=made.append)
    (file,) = found.changes[0].delete_files
    assert made == [f"{lake}main/t/{file.path}"]
    assert (found.unused, found.files) == ((f"{lake}main/t/{row['path']}",), ())
    assert file.path != row["path"]
    written = pq.read_table(tmp_path / "main/t" / file.path)
    assert written.column_names == ["file_path", "pos"]
    assert written["pos"].to_pylist() == list(file.rows) == list(range(0, 5000, 2))
    assert set(written["file_path"].to_pylist()) == {f"{lake}main/t/{base.rows('data_file')[0]['path']}"}


def test_files_of_a_table_that_goes_are_not_needed() -> None:
    batch = parse(commit("change_drop").text)
    found = translated("change_drop")
    made = [f"/lake/main/t/{row['path']}" for name in ("data_file", "delete_file") for row in batch.rows[name]]
    assert (sorted(found.unused), found.files) == (sorted(made), ())


def test_rows_of_a_table_that_was_not_there_are_refused() -> None:
    base = commit("delete").base
    base.catalog["table"].clear()
    with pytest.raises(NotUnderstoodError, match="read again and repeat"):
        translated("delete", base=base)


def test_a_delete_from_a_file_that_was_not_there_is_refused() -> None:
    for name in ("delete", "truncate"):
        base = commit(name).base
        base.catalog["data_file"].clear()
        with pytest.raises(NotUnderstoodError, match="read again and repeat"):
            translated(name, base=base)


# --- rows that the same transaction inserted --------------------------------------------------------------------------


def own(name: str, folder: Path, files: dict[int, tuple[int, list[int] | None]]) -> tuple[Translated, Path]:
    """What a commit comes to whose data files, by their places in the text, have so many rows and carry these ids."""
    found = commit(name)
    found.base.data_path = f"{folder}/"
    table = folder / "main" / "t"
    for at, row in enumerate(parse(found.text).rows["data_file"]):
        rows, row_ids = files[at]
        write_file(table / row["path"], range(rows), row_ids)
    return translate(parse(found.text), found.base), table


def held(table: Path, file: m.DataFile) -> dict[str, list[Any]]:
    read: dict[str, list[Any]] = pq.read_table(table / file.path).to_pydict()
    assert file.record_count == len(read["a"])
    return read


def test_rows_that_were_inserted_and_deleted_at_once_are_in_no_file(tmp_path: Path) -> None:
    found, table = own("own_delete", tmp_path, {0: (10, None)})
    (change,) = found.changes
    (file,) = change.files
    assert held(table, file) == {"a": [0, 1, 2, 4, 5, 6, 7, 8, 9], "b": [f"r{n}" for n in (0, 1, 2, 4, 5, 6, 7, 8, 9)]}
    batch = parse(commit("own_delete").text)
    client = [row["path"] for name in ("data_file", "delete_file") for row in batch.rows[name]]
    assert sorted(found.unused) == sorted(f"{table}/{path}" for path in client)
    assert pq.read_schema(table / file.path).field("b").metadata[b"PARQUET:field_id"] == b"2"
    told = {each.column: (each.min, each.max, each.null_count) for each in file.statistics}
    assert told == {"a": (0, 9, 0), "b": ("r0", "r9", 0)}


@pytest.mark.parametrize("place", ["elsewhere/f.parquet", "main/t/f.parquet", "main/u/{made}"])
def test_a_file_that_the_client_has_not_made_is_not_removed(tmp_path: Path, place: str) -> None:
    given = commit("own_delete")
    (row,) = parse(given.text).rows["data_file"]
    (deleted,) = parse(given.text).rows["delete_file"]
    given.base.data_path = f"{tmp_path}/"
    path = f"{tmp_path}/{place.format(made=row['path'])}"
    write_file(Path(path), range(10))
    text = given.text.replace(f"'{row['path']}', true", f"'{path}', false")
    found = translate(parse(text), given.base)
    assert [file.record_count for file in found.changes[0].files] == [9]
    assert found.unused == (f"{tmp_path}/main/t/{deleted['path']}",)


@pytest.mark.parametrize("name", ["delete", "own_delete", "create_table_as", "drop_table"])
def test_file_when_a_snapshot_names_it_then_not_removed_whatever_a_text_calls_it(tmp_path: Path, name: str) -> None:
    """A commit may name what others have committed as files of its own that nobody needs."""
    found = commit(name)
    files = parse(found.text).rows
    text = found.text.replace("'u', 'u/', true", "'u', 't/', true")
    if name == "drop_table":
        text = text.replace(
            'INSERT INTO "public".ducklake_snapshot_changes',
            f'{FILE_OF_T}INSERT INTO "public".ducklake_snapshot_changes',
        )
        files = parse(text).rows
    names = [row["path"] for table in ("data_file", "delete_file") for row in files.get(table, ())]
    found.base.data_path = f"{tmp_path}/"
    for row in files.get("data_file", ()):
        write_file(tmp_path / "main/t" / row["path"], range(10))
    places = {f"{tmp_path}/main/t/{each}" for each in names}
    assert places
    assert set(translate(parse(text), found.base).unused) == places
    found.base.in_snapshots = places
    assert translate(parse(text), found.base).unused == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("insert", {"'ducklake-": "'../u/ducklake-"}),
        ("insert", {"'ducklake-": "'/../u/ducklake-"}),
        ("delete", {"'ducklake-": "'../u/ducklake-"}),
        ("own_delete", {"'ducklake-": "'../u/ducklake-"}),
        ("add_data_files", {}),
        ("add_data_files", {"/elsewhere/": "/lake/main/t/../../"}),
        ("add_data_files", {"/elsewhere/": "s3://elsewhere/"}),
        ("create_table_as", {"'u', 'u/', true": "'u', '/elsewhere/', false"}),
        ("create_table_as", {"'u', 'u/', true": "'u', '../elsewhere/', true"}),
        ("create_table_as", {"'u', 'u/', true": "'u', '../', true"}),
        ("create_table_as", {"'u', 'u/', true": "'u', '', true"}),
        ("create_table_as", {"'u', 'u/', true": "'u', 'u', true"}),
        ("create_table_as", {"'u', 'u/', true": "'u', 'u/v/', true"}),
        ("create_table_as", {"'ducklake-": "'/elsewhere/ducklake-", ".parquet', true": ".parquet', false"}),
        ("create_schema_table", {"'s', 's/', true": "'s', '../elsewhere/', true"}),
    ],
)  # fmt: skip
def test_file_when_it_may_lie_outside_of_its_table_then_refused_and_never_opened(
    name: str, text: dict[str, str]
) -> None:
    """The gateway may see, and remove, what who commits may not."""
    base = commit(name).base
    base.takes_foreign_paths = False
    with pytest.raises(NotUnderstoodError, match=r"outside of its table's folder|which is not its own"):
        translated(name, base=base, text=text)
    assert base.opened == []


def test_table_when_a_text_gives_it_another_folder_then_its_files_are_where_they_were() -> None:
    base = commit("rename_insert").base
    (table,) = base.catalog["table"]
    translated("rename_insert", base=base, text={f"'{table['path']}', true": "'/elsewhere/', false"})
    assert [path.rpartition("/")[0] for path in base.opened] == ["/lake/main/t"]


def test_file_when_written_anew_then_known_as_ours_whatever_partition_it_is_of(tmp_path: Path) -> None:
    found = commit("own_delete")
    found.base.data_path = f"{tmp_path}/"
    batch = parse(found.text.replace("'ducklake-", "'a=1/ducklake-"))
    write_file(tmp_path / "main/t" / batch.rows["data_file"][0]["path"], range(10))
    (file,) = translate(batch, found.base).changes[0].files
    assert is_named_by_us(file.path)
    assert held(tmp_path / "main/t", file)["a"] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_rows_that_were_there_are_deleted_beside_own_ones(tmp_path: Path) -> None:
    found, table = own("own_delete_old_too", tmp_path, {0: (10, None)})
    deleted, appended = found.changes
    assert [(each.data_file_id, list(each.rows)) for each in deleted.positions] == [(0, [3])]
    assert held(table, appended.files[0])["a"] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_rows_that_were_inserted_and_updated_at_once_are_new_ones(tmp_path: Path) -> None:
    found, table = own("own_update", tmp_path, {0: (10, None), 1: (1, [OWN_ROW_ID + 3])})
    first, second = found.changes[0].files
    assert held(table, first)["a"] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert held(table, second) == {"a": [0], "b": ["r0"]}


def test_an_update_of_own_rows_and_others_keeps_the_ids_of_the_others(tmp_path: Path) -> None:
    found, table = own("update_all", tmp_path, {0: (10, [OWN_ROW_ID, 7, *range(OWN_ROW_ID + 1, OWN_ROW_ID + 9)])})
    new, kept = found.changes[1].files
    assert held(table, new)["a"] == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert held(table, kept) == {"a": [1], "b": ["r1"], "_ducklake_internal_row_id": [7]}


def test_own_rows_of_which_none_is_left_are_no_append(tmp_path: Path) -> None:
    found = commit("own_delete")
    found.base.data_path = f"{tmp_path}/"
    (row,) = parse(found.text).rows["data_file"]
    (delete,) = parse(found.text).rows["delete_file"]
    write_file(tmp_path / "main" / "t" / row["path"], range(10))
    found.base.deletes[delete["path"]] = list(range(10))
    assert translate(parse(found.text), found.base).changes == ()


@pytest.mark.parametrize("keyed", [False, True])
def test_file_when_the_commit_says_that_it_has_other_rows_than_it_has_then_refused_before_they_are_read(
    tmp_path: Path, keyed: bool
) -> None:
    """Some such number of rows fills the memory by itself."""
    found = commit("insert" if keyed else "own_delete")
    (row,) = parse(found.text).rows["data_file"]
    found.base.data_path, found.base.primary_keys = f"{tmp_path}/", {1: ("a",)} if keyed else {}
    write_file(tmp_path / "main" / "t" / row["path"], range(row["record_count"]))
    text = found.text.replace(f"'parquet', {row['record_count']},", "'parquet', 1000000000000,")
    assert text != found.text
    with pytest.raises(NotUnderstoodError, match="with 1000000000000 rows, of which it has"):
        translate(parse(text), found.base)


def test_own_rows_in_an_object_store_are_refused() -> None:
    base = commit("own_delete").base
    base.data_path = "s3://bucket/lake/"
    with pytest.raises(NotUnderstoodError, match="split it"):
        translated("own_delete", base=base)


# --- files, tables ----------------------------------------------------------------------------------------------------


def test_files_are_found_where_their_table_lies() -> None:
    base = commit("insert").base
    translated("insert", base=base)
    (file,) = parse(commit("insert").text).rows["data_file"]
    assert base.opened == [f"/lake/main/t/{file['path']}"]
    assert translated("insert").files == tuple(base.opened)


def test_a_file_named_by_its_whole_path_is_named_below_its_table_where_it_lies_there() -> None:
    found = translated("add_data_files", text={"/elsewhere/f.parquet": "/lake/main/t/f.parquet"})
    (file,) = found.changes[0].files
    assert (file.path, file.path_is_relative) == ("f.parquet", True)
    # The client does not remove what it has not made.
    assert found.files == ()


def added_again(**columns: int) -> Translated:
    """A file like one that was added before, whose columns the client knows by the mapping of that one in the catalog."""
    given = commit("add_data_files")
    batch = parse(given.text)
    text = given.text
    for name in ("column_mapping", "name_mapping"):
        start = text.index(f'INSERT INTO "public".ducklake_{name} ')
        text = text[:start] + text[text.index(";", start) + 1 :]
    rows = [
        {**row, "target_field_id": columns.get(row["source_name"], row["target_field_id"])}
        for row in batch.rows["name_mapping"]
    ]
    given.base.catalog = {
        **given.base.catalog,
        "column_mapping": list(batch.rows["column_mapping"]),
        "name_mapping": rows,
    }
    return translate(parse(text), given.base)


def test_a_file_like_one_that_was_added_before_has_the_columns_of_its_names() -> None:
    assert added_again().changes == translated("add_data_files").changes


def test_a_file_whose_mapping_means_other_columns_by_now_is_refused() -> None:
    with pytest.raises(NotUnderstoodError, match="attach again"):
        added_again(a=2, b=1)


def test_a_table_that_the_client_makes_is_not_taken_for_one_that_has_its_number_by_now() -> None:
    base = commit("create_table_as").base
    base.primary_keys = {2: ("a",)}
    assert [type(each) for each in translated("create_table_as", base=base).changes] == [m.CreateTable, m.Append]


def test_a_table_with_an_odd_name_is_filled_once_it_is_there() -> None:
    text = {"'u', 'u/', true": "'ü', '01a20645-f2f2-7d52-a61a-81e7869fa427/', true"}
    with pytest.raises(NotUnderstoodError, match="split it"):
        translated("create_table_as", text=text)


def test_a_table_that_is_filled_under_another_name_has_its_files_in_its_own_folder(tmp_path: Path) -> None:
    given = commit("create_table_as")
    (row,) = parse(given.text).rows["data_file"]
    given.base.data_path = f"{tmp_path}/"
    written = tmp_path / "main/u__new" / row["path"]
    write_file(written, range(10))
    made: list[str] = []
    text = {"'u', 'u/', true": "'u', 'u__new/', true"}
    found = translated("create_table_as", base=given.base, text=text, on_file=made.append)
    created, appended = found.changes
    (file,) = appended.files
    assert (created.table, appended.table) == ("u", "u")
    assert held(tmp_path / "main/u", file)["a"] == list(range(10))
    assert file.path_is_relative
    assert (found.unused, found.files, made) == ((str(written),), (), [f"{tmp_path}/main/u/{file.path}"])


@pytest.mark.interpreted("compiled code calls functions directly: a broken one cannot be put in their place")
@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("own_delete", {}, {"data_file": "t"}),
        ("create_table_as", {"'u', 'u/', true": "'u', 'u__new/', true"}, {"data_file": "u__new"}),
        ("delete_large", {"NULL, NULL);INSERT": "NULL, 3);INSERT"}, {}),
    ],
)
def test_files_that_cannot_be_written_anew_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: dict[str, str], rows: dict[str, str]
) -> None:
    given = commit(name)
    given.base.data_path = f"{tmp_path}/"
    for kind, folder in rows.items():
        for row in parse(given.text).rows[kind]:
            write_file(tmp_path / "main" / folder / row["path"], range(10))
    for module in (own_rows, new_files, delete_files):
        monkeypatch.setattr(module, "new_name", lambda: "x" * 300)
    with pytest.raises(NotUnderstoodError, match=rf"cannot write in {tmp_path}/main/[tu]/ \(.*xxx"):
        translated(name, base=given.base, text=text)


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


def test_files_that_the_gateway_does_not_reach_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: StoredBase, path: str) -> Any:
        raise FileNotFoundError(f"no file {path}")

    monkeypatch.setattr(StoredBase, "open", missing)
    for name in ("insert", "insert_twice", "delete"):
        with pytest.raises(NotUnderstoodError, match="under one path"):
            translated(name)


def test_file_when_it_is_a_pipe_then_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "f.parquet"
    os.mkfifo(pipe)
    kept_open = os.open(pipe, os.O_RDWR)
    try:
        with pytest.raises(OSError, match="no file"):
            base.CatalogBase.open(None, str(pipe))  # type: ignore[arg-type]
    finally:
        os.close(kept_open)


def test_definitions_when_clients_see_version_after_version_then_a_limit_holds_for_all_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "_REMEMBERED_MAX", 10)
    definitions = base.Definitions()
    for version in range(5):
        definitions.remember((version, "column"), [{"column_id": each} for each in range(3)])
        definitions.remember((version, "column"), [{"column_id": each} for each in range(3)])
        definitions.remember((version, "tag"), [])
    assert [definitions.find((version, "column")) is not None for version in range(5)] == [False] * 3 + [True] * 2
    definitions.remember("wide", [{}] * 99)
    assert definitions.find("wide") == [{}] * 99
    assert definitions.find((4, "column")) is None
