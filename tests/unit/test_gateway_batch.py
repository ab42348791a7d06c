"""The text of a stock client's commit: everything that duckdb 1.5.5 sends is understood, and nothing else is."""

from __future__ import annotations

import contextlib
import re

import pytest
from gateway_commits import NAMES, commit
from gateway_texts import HOSTILE, broken_texts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commitlog.errors import NotUnderstoodError
from commitlog.gateway.batch import Ending, is_batch, parse

UNPARSED = {
    "drop_macro": "CREATE TEMP MACRO",
    "flush": "flushes keyed tables",
    "inlined_insert": "DATA_INLINING_ROW_LIMIT 0",
    "inlined_insert_types": "DATA_INLINING_ROW_LIMIT 0",
    "inlined_update": "DATA_INLINING_ROW_LIMIT 0",
    "macro": "CREATE TEMP MACRO",
    "merge_files": "compacts tables",
    "sorted": "ORDER BY in the INSERT",
    "table_macro": "CREATE TEMP MACRO",
}
"""What is refused for its text alone, and what is said to do instead."""
PARSED = [name for name in NAMES if name not in UNPARSED]
TEXTS = {name: commit(name).text for name in NAMES}


def commit_text(*statements: str, changes: str = "(5, 'inserted_into_table:1', NULL, NULL, NULL)") -> str:
    """A commit of snapshot 5 with these statements, in which ``@`` is the schema of the catalog."""
    first = "INSERT INTO @.ducklake_snapshot VALUES (5, NOW(), 1, 2, 3)"
    last = f"INSERT INTO @.ducklake_snapshot_changes VALUES {changes}"
    return "".join(f"{each};" for each in (first, *statements, last)).replace("@", '"public"')


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("name", PARSED)
def test_a_commit_of_the_stock_client_is_parsed(name: str) -> None:
    text = TEXTS[name]
    batch = parse(text)
    assert is_batch(text)
    assert batch.schema == "public"
    assert batch.base_snapshot_id == commit(name).base.snapshot_id


@pytest.mark.parametrize(("name", "instead"), UNPARSED.items())
def test_a_commit_of_another_kind_is_refused_with_what_to_do_instead(name: str, instead: str) -> None:
    with pytest.raises(NotUnderstoodError, match=re.escape(instead)):
        parse(TEXTS[name])


def test_the_rows_of_a_commit_have_the_columns_of_the_catalog() -> None:
    batch = parse(TEXTS["insert_message"])
    (file,) = batch.rows["data_file"]
    assert file["path"] == "ducklake-01a20645-bf86-79e9-a71c-be32bf8c823e.parquet"
    assert (file["data_file_id"], file["table_id"], file["begin_snapshot"], file["end_snapshot"]) == (0, 1, 2, None)
    assert (file["path_is_relative"], file["record_count"], file["footer_size"]) == (True, 1, 210)
    assert (batch.author, batch.message, batch.extra) == ("me", "it's; a conflict", '{"k": "v;\'"}')
    assert batch.uuids_and_paths == (file["path"],)


def test_a_file_that_was_there_before_names_no_batch() -> None:
    """The client may be told to add it again: under the id of the first commit the second one would be a repeat."""
    batch = parse(commit("add_data_files").text)
    assert len(batch.rows["data_file"]) == 1
    assert batch.uuids_and_paths == ()


def test_rows_that_end_are_named() -> None:
    assert parse(TEXTS["truncate"]).endings == (Ending("data_file", ("data_file_id",), frozenset({(0,)})),)
    assert parse(TEXTS["alter_twice"]).endings == (
        Ending("column", ("table_id", "column_id"), frozenset({(1, 1), (1, 2)})),
    )
    assert parse(TEXTS["comment_column"]).endings == (
        Ending("column_tag", ("table_id", "column_id", "key"), frozenset({(1, 1, "comment")})),
    )
    assert parse(TEXTS["comment_table"]).endings == (Ending("tag", ("object_id", "key"), frozenset({(1, "comment")})),)
    assert parse(TEXTS["delete_again"]).superseded == {1}
    assert parse(TEXTS["inlined_delete"]).inlined_deletes == {1: [(0, 3)]}
    assert parse(TEXTS["inlined_truncate"]).ended_rows == {1: [0, 1]}


def test_a_row_that_ends_in_the_commit_that_made_it_was_never_there() -> None:
    row = "INSERT INTO @.ducklake_schema VALUES (7, '01a20645-bf86-79e9-a71c-be32bf8c823e', 5, NULL, 's', 's/', true)"
    end = "UPDATE @.ducklake_schema SET end_snapshot = 5 WHERE end_snapshot IS NULL AND schema_id IN (6, 7)"
    assert parse(commit_text(row, end)).rows["schema"][0]["end_snapshot"] == 5
    assert parse(commit_text(end, row)).rows["schema"][0]["end_snapshot"] is None


# --- nothing else -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["update_twice", "comment_column", "insert_two_files_partitioned", "inlined_create"])
def test_a_text_that_breaks_off_anywhere_is_refused(name: str) -> None:
    text = TEXTS[name].rstrip()
    for end in range(len(text)):
        with pytest.raises(NotUnderstoodError):
            parse(text[:end])


@pytest.mark.parametrize(
    "more",
    [
        "DROP TABLE x;",
        "INSERT INTO @.ducklake_schema VALUES (7, NULL, 5, NULL, 's', 's/', true);",
        "-- comment",
        "/* comment */",
        ";",
        "\x00",
        "INSERT INTO @.ducklake_snapshot_changes VALUES (5, 'inserted_into_table:1', NULL, NULL, NULL);",
    ],
)
def test_a_text_that_goes_on_is_refused(more: str) -> None:
    parse(commit_text())
    with pytest.raises(NotUnderstoodError):
        parse(commit_text() + more.replace("@", '"public"'))


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE x",
        "",
        "SELECT 1",
        "DELETE FROM @.ducklake_data_file WHERE data_file_id IN (1)",
        "DELETE FROM @.ducklake_delete_file WHERE delete_file_id IN (1) OR true",
        "DELETE FROM @.ducklake_delete_file WHERE delete_file_id IN ()",
        "delete from @.ducklake_delete_file where delete_file_id in (1)",
        "UPDATE @.ducklake_data_file SET end_snapshot = 5 WHERE end_snapshot IS NULL AND path IN (1)",
        "UPDATE @.ducklake_data_file SET end_snapshot = 4 WHERE end_snapshot IS NULL AND data_file_id IN (1)",
        "UPDATE @.ducklake_data_file SET end_snapshot = NULL WHERE end_snapshot IS NULL AND data_file_id IN (1)",
        "UPDATE @.ducklake_macro SET end_snapshot = 5 WHERE end_snapshot IS NULL AND macro_id IN (1)",
        "UPDATE @.ducklake_metadata SET value = 'x' WHERE key = 'version'",
        "INSERT INTO @.ducklake_metadata VALUES ('a', 'b', NULL, NULL)",
        "INSERT INTO @.ducklake_unknown VALUES (1)",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', 'a') RETURNING 1",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', 'a' 'b')",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', 'a'\n'b')",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', E'a')",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', $$a$$)",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', 'a'||'b')",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', (SELECT 'a'))",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment')",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', 'a', NULL)",
        "INSERT INTO @.ducklake_tag VALUES (1, 5, NULL, 'comment', 5)",
        "INSERT INTO @.ducklake_tag VALUES ('1', 5, NULL, 'comment', 'a')",
        "INSERT INTO @.ducklake_tag VALUES (1.0, 5, NULL, 'comment', 'a')",
        "INSERT INTO @.ducklake_tag VALUES (0x1, 5, NULL, 'comment', 'a')",
        "INSERT INTO @.ducklake_tag VALUES (9223372036854775808, 5, NULL, 'comment', 'a')",
        "INSERT INTO @.ducklake_tag (value) VALUES ('a')",
        "INSERT INTO public.ducklake_tag VALUES (1, 5, NULL, 'comment', 'a')",
        "INSERT INTO \"other\".ducklake_tag VALUES (1, 5, NULL, 'comment', 'a')",
        "INSERT INTO @.ducklake_snapshot VALUES (6, NOW(), 1, 2, 3)",
        "INSERT INTO @.ducklake_snapshot_changes VALUES (6, 'inserted_into_table:1', NULL, NULL, NULL)",
        "CREATE TABLE IF NOT EXISTS @.ducklake_inlined_data_1_1(row_id BIGINT DEFAULT (f(1)))",
        "CREATE TABLE IF NOT EXISTS @.other(row_id BIGINT)",
        "CREATE TABLE IF NOT EXISTS @.ducklake_inlined_data_1_1(a INTEGER) AS SELECT 1",
    ],
)
def test_another_statement_is_refused(statement: str) -> None:
    with pytest.raises(NotUnderstoodError):
        parse(commit_text(statement))


@pytest.mark.parametrize(
    "changes",
    [
        "(5, NULL, NULL, NULL, NULL)",
        "(5, '', NULL, NULL, NULL)",
        "(5, 'inserted_into_table:1,', NULL, NULL, NULL)",
        "(5, 'inserted_into_table:1, inserted_into_table:2', NULL, NULL, NULL)",
        "(5, 'invented:1', NULL, NULL, NULL)",
        "(4, 'inserted_into_table:1', NULL, NULL, NULL)",
    ],
)
def test_a_commit_that_calls_its_changes_otherwise_is_refused(changes: str) -> None:
    with pytest.raises(NotUnderstoodError):
        parse(commit_text(changes=changes))


@pytest.mark.parametrize(
    "text", ["", ";", "SELECT 1", "BEGIN", "INSERT INTO \"public\".ducklake_tag VALUES (1, 5, NULL, 'comment', 'a');"]
)
def test_another_text_is_no_commit(text: str) -> None:
    assert not is_batch(text)
    with pytest.raises(NotUnderstoodError):
        parse(text)


def test_a_catalog_of_another_version_is_refused() -> None:
    """1.1 has a column more on its files."""
    newer = TEXTS["insert"].replace("NULL, NULL, NULL, NULL);", "NULL, NULL, NULL, NULL, 1);", 1)
    assert newer != TEXTS["insert"]
    with pytest.raises(NotUnderstoodError, match=re.escape("duckdb 1.5.5")):
        parse(newer)


texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    st.lists(st.sampled_from(HOSTILE)).map("".join),
)


@settings(deadline=None, derandomize=True)
@given(path=texts, message=texts, schema=texts.filter(bool))
@example(path="@", message="@", schema="@")
@example(path="'');", message="\\", schema='"')
def test_a_literal_may_hold_anything(path: str, message: str, schema: str) -> None:
    values = f"(1, 2, 5, NULL, NULL, {literal(path)}, true, 'parquet', 3, 4, 5, 0, NULL, NULL, NULL, NULL)"
    changes = f"(5, 'inserted_into_table:2', NULL, {literal(message)}, NULL)"
    name = '"' + schema.replace('"', '""') + '"'
    batch = parse(
        f"INSERT INTO {name}.ducklake_snapshot VALUES (5, NOW(), 1, 2, 3);"
        f"INSERT INTO {name}.ducklake_data_file VALUES {values}, {values};"
        f"INSERT INTO {name}.ducklake_snapshot_changes VALUES {changes};"
    )
    assert [row["path"] for row in batch.rows["data_file"]] == [path, path]
    assert (batch.message, batch.schema) == (message, schema)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(broken_texts())
def test_a_broken_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(NotUnderstoodError):
        parse(text)
