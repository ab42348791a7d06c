"""Changesets as a whole: what earlier changes mean to later ones, flags, limits, text (rules.md 10, 12.4-5, 12.21)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import (
    DecidedLog,
    alter,
    append,
    change,
    create_table,
    data_file,
    delete,
    delete_file,
    delete_row,
    insert,
    keyed_table,
    read_table,
    update,
)

from commitlog.domain.deciding import bounds
from commitlog.domain.model import InvalidCode, altering, definitions
from commitlog.domain.model.row_width import stored_width
from commitlog.domain.model.types import fold
from commitlog.errors import MalformedRecordError

REFERS = [{"columns": ["v"], "ref_schema": "main", "ref_table": "p", "ref_columns": ["id"]}]


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """Schema s with table t in it; head 1."""
    log = DecidedLog()
    log.commit(schema("CREATE_SCHEMA"), create_table(schema="s"))
    yield log
    log.check_replay()


def schema(kind: str, name: str = "s", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "schema": name, **fields}


def view(kind: str, name: str = "v", **fields: Any) -> dict[str, Any]:
    sql = {} if kind == "DROP_VIEW" else {"sql": "SELECT 1"}
    return {"kind": kind, "schema": "s", "view": name, **sql, **fields}


def within(request: dict[str, Any]) -> dict[str, Any]:
    return {**request, "schema": "s"}


# --- what the earlier changes mean ------------------------------------------------------------------------------------


def test_a_schema_dropped_here_then_it_is_gone_for_the_later_changes(log: DecidedLog) -> None:
    refused = log.refused("INVALID", schema("DROP_SCHEMA", cascade=True), create_table(schema="s"))
    assert refused.detail == "change 1 (CREATE_TABLE): schema s was dropped earlier in this changeset"
    log.commit(schema("DROP_SCHEMA", cascade=True), schema("CREATE_SCHEMA"), create_table(schema="s"))


def test_a_schema_with_an_entry_made_here_then_it_cannot_be_dropped_here(log: DecidedLog) -> None:
    for made in (create_table("u", schema="s"), view("CREATE_VIEW")):
        log.refused("INVALID", made, schema("DROP_SCHEMA"))
        log.refused("INVALID", made, schema("DROP_SCHEMA", cascade=True))
        assert "cannot drop it as well" in str(log.outcomes[-1].detail)
    log.commit(within(change("DROP_TABLE")), schema("DROP_SCHEMA"))


def test_a_table_that_a_new_one_refers_to_then_it_cannot_be_dropped_here(log: DecidedLog) -> None:
    log.commit(keyed_table("p", "id int64"), keyed_table("q", "id int64"))
    child = keyed_table("c", "id int64, v int64", foreign_keys=REFERS)
    refused = log.refused("INVALID", child, change("DROP_TABLE", "p"))
    assert "table p is referred to by a foreign key of c" in str(refused.detail)
    log.commit(child, change("DROP_TABLE", "q"))


def test_a_table_that_refers_to_itself_then_it_can_be_dropped(log: DecidedLog) -> None:
    log.commit(keyed_table("p", "id int64, v int64", foreign_keys=REFERS))
    log.commit(insert("p", id=1, v=1))
    log.commit(insert("p", id=2, v=1))
    log.commit(change("DROP_TABLE", "p"))


def test_a_schema_whose_tables_are_referred_to_then_dropped_only_together_with_the_child(log: DecidedLog) -> None:
    log.commit(keyed_table("p", "id int64", schema="s"))
    parent = [{**REFERS[0], "ref_schema": "s"}]
    log.commit(keyed_table("c", "id int64, v int64", foreign_keys=parent))
    log.commit(keyed_table("d", "id int64, v int64", foreign_keys=parent))
    drop = schema("DROP_SCHEMA", cascade=True)
    log.refused("INVALID", drop)
    log.conflict("TABLE_REFERENCED@3", "TABLE_REFERENCED@4", on=drop, base=2)
    log.commit(change("DROP_TABLE", "c"))
    log.refused("INVALID", drop)
    log.commit(change("DROP_TABLE", "d"), drop)


# --- if_exists, if_not_exists -----------------------------------------------------------------------------------------


def test_if_not_exists_when_it_does_not_exist_then_made(log: DecidedLog) -> None:
    outcome = log.propose(schema("CREATE_SCHEMA", "n", if_not_exists=True), view("CREATE_VIEW", if_not_exists=True))
    assert [effect.skipped for effect in outcome.effects] == [False, False]


def test_if_not_exists_when_made_since_the_base_then_skipped_and_known_to_later_changes(log: DecidedLog) -> None:
    log.commit(schema("CREATE_SCHEMA", "n"))
    log.commit(view("CREATE_VIEW"))
    made = log.propose(schema("CREATE_SCHEMA", "n", if_not_exists=True), create_table(schema="n"), base=1)
    assert [effect.skipped for effect in made.effects] == [True, False]
    outcome = log.propose(view("CREATE_VIEW", if_not_exists=True), view("REPLACE_VIEW"), base=1)
    assert [effect.skipped for effect in outcome.effects] == [True, False]


def test_if_exists_when_it_exists_then_dropped(log: DecidedLog) -> None:
    log.commit(view("CREATE_VIEW"))
    drops = [
        view("DROP_VIEW", if_exists=True),
        within(change("DROP_TABLE", if_exists=True)),
        schema("DROP_SCHEMA", if_exists=True),
    ]
    outcome = log.propose(*drops)
    assert [effect.skipped for effect in outcome.effects] == [False, False, False]


def test_if_exists_when_it_never_existed_then_skipped_and_the_name_is_free(log: DecidedLog) -> None:
    drops = [view("DROP_VIEW", if_exists=True), within(change("DROP_TABLE", "v", if_exists=True))]
    outcome = log.propose(*drops, view("CREATE_VIEW"))
    assert [effect.skipped for effect in outcome.effects] == [True, True, False]


@pytest.mark.parametrize(
    "skipped",
    [
        within(create_table(columns="a\0 int64", if_not_exists=True)),
        within(create_table(columns="a in\x7ft64", if_not_exists=True)),
        within(create_table(if_not_exists=True, primary_key=["a\ud800"])),
        within(create_table(if_not_exists=True, properties={"a\0": "x"})),
        {**change("DROP_TABLE", if_exists=True), "schema": "never\0"},
        view("DROP_VIEW", if_exists=True) | {"schema": "never\ud800"},
    ],
)
def test_what_is_skipped_when_it_holds_what_no_text_may_then_invalid(log: DecidedLog, skipped: dict[str, Any]) -> None:
    assert log.refused("INVALID", skipped).invalid_code == "TEXT_UNSTORABLE"


def test_if_exists_when_dropped_since_the_base_then_later_changes_do_not_see_it(log: DecidedLog) -> None:
    log.commit(within(change("DROP_TABLE")))
    drop = within(change("DROP_TABLE", if_exists=True))
    log.refused("INVALID", drop, within(append()), base=1)
    log.commit(drop, schema("DROP_SCHEMA"), base=1)


@pytest.mark.parametrize("again", [False, True])
def test_flags_under_a_schema_that_is_gone_or_made_again_since_the_base_then_conflict(again: bool) -> None:
    log = DecidedLog()
    log.commit(schema("CREATE_SCHEMA"), view("CREATE_VIEW"))
    log.commit(schema("DROP_SCHEMA", cascade=True))
    if again:
        log.commit(schema("CREATE_SCHEMA"), within(create_table()))
    dropped = "SCHEMA_DROPPED@2"
    log.conflict(dropped, on=[view("DROP_VIEW", if_exists=True), view("CREATE_VIEW")], base=1)
    log.conflict(dropped, on=[within(change("DROP_TABLE", "v", if_exists=True)), view("CREATE_VIEW")], base=1)
    own = view("CREATE_VIEW", "w")
    log.conflict(dropped, on=[own, {**own, "if_not_exists": True}], base=1)
    log.conflict(dropped, on=[within(create_table("w")), within(create_table("w", if_not_exists=True))], base=1)
    log.refused("INVALID", own, view("DROP_VIEW", "w", if_exists=True), base=1)
    if again:
        adopted = [within(create_table(if_not_exists=True)), view("CREATE_VIEW", "w", if_not_exists=True)]
        log.conflict(dropped, on=[own, *adopted], base=1)
        log.commit(view("DROP_VIEW", if_exists=True), *adopted, view("CREATE_VIEW"), base=1)
    log.check_replay()


# --- limits -----------------------------------------------------------------------------------------------------------

FIVE_BUCKETS = [{"column": "id", "transform": "bucket(5)"}]
WIDE_COLUMNS = "a int64, b varchar, c boolean, d timetz, e list(int64)"
WIDE_ROW = {"a": 1, "b": "x" * 30, "c": True, "d": "12:00:00+01", "e": None}


def test_one_row_of_1100_int64_columns_then_invalid_and_what_fits_a_page_commits() -> None:
    log = DecidedLog()
    log.commit(create_table(columns=", ".join(f"c{n} int64" for n in range(1_100))))
    refused = log.refused("INVALID", change("INSERT_ROW", row={f"c{n}": n for n in range(1_100)}))
    assert "8992 bytes of a page in PostgreSQL, more than 8000 (inlined_row_bytes_max)" in str(refused.detail)
    log.commit(change("INSERT_ROW", row={f"c{n}": n for n in range(970)}))


def test_stored_width_when_values_are_null_short_or_long_then_as_postgresql_stores_them() -> None:
    log = DecidedLog()
    log.commit(create_table(columns=WIDE_COLUMNS))
    definition = log.state.tables[1].definition
    empty = dict.fromkeys(WIDE_ROW)
    assert stored_width(definition, empty) == 48
    assert stored_width(definition, {**empty, "c": True, "d": "12:00:00"}) == 48 + 8 + 12
    assert stored_width(definition, {**empty, "b": "four"}) == 48 + 5
    assert stored_width(definition, {**empty, "b": "x" * 1_000}) == stored_width(definition, {**empty, "e": [1]}) == 72


def test_appends_to_any_number_of_tables_and_one_table_altered_often_then_commit() -> None:
    log = DecidedLog(changeset_objects_max=2)
    log.commit(create_table("a"), create_table("b"))
    log.commit(create_table("c"))
    log.commit(append(table="a"), append(table="b"), append(table="c"))
    log.commit(*[alter("SET_COMMENT", "a", comment=str(n)) for n in range(5)])
    drops = [change("DROP_TABLE", "gone", if_exists=True), change("DROP_TABLE", "lost", if_exists=True)]
    log.commit(*drops, change("DROP_TABLE", "a"), change("DROP_TABLE", "b"))


def test_what_a_changeset_did_in_a_schema_that_was_made_again_then_holds_when_a_flag_finds_the_new_one() -> None:
    log = DecidedLog()
    log.commit(schema("CREATE_SCHEMA"), view("CREATE_VIEW"))
    log.commit(schema("DROP_SCHEMA", cascade=True))
    log.commit(schema("CREATE_SCHEMA"), view("CREATE_VIEW", "w"), create_table(schema="s"))
    finds = create_table(schema="s", if_not_exists=True)
    refused = log.refused("INVALID", view("CREATE_VIEW", "y"), finds, view("CREATE_VIEW", "y"), base=1)
    assert "view s.y already exists" in str(refused.detail)
    refused = log.refused("INVALID", view("CREATE_VIEW", "y"), finds, view("DROP_VIEW", "y"), base=1)
    assert "y is created by this changeset" in str(refused.detail)
    log.conflict("VIEW_DROPPED@2", on=[view("DROP_VIEW"), finds, view("DROP_VIEW", if_exists=True)], base=1)
    log.commit(view("DROP_VIEW", if_exists=True), finds, view("CREATE_VIEW"), base=1)
    log.check_replay()


def test_a_wide_table_altered_column_by_column_then_in_one_change_or_not_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folded: list[str] = []
    for module in (altering, definitions):
        monkeypatch.setattr(module, "fold", lambda name: folded.append(name) or fold(name))
    log = DecidedLog()
    log.commit(create_table(columns=", ".join(f"c{n} int64" for n in range(500))))
    folded.clear()
    steps = [{"op": "RENAME_COLUMN", "name": f"c{n}", "new_name": f"d{n}"} for n in range(500)]
    log.commit(
        change("ALTER_TABLE", alterations=[*steps, *[{"op": "DROP_COLUMN", "name": f"d{n}"} for n in range(499)]])
    )
    assert len(folded) < 20 * 500, "the work grows with the columns, not with their square"
    monkeypatch.setattr(bounds, "ALTERED_COLUMNS_MAX", 5)
    log.commit(*[alter("SET_COMMENT", name=None, comment=str(n)) for n in range(5)])
    refused = log.refused("INVALID", *[alter("SET_COMMENT", name=None, comment=str(n)) for n in range(6)])
    assert "6 columns, more than 5" in str(refused.detail)
    assert refused.invalid_code is InvalidCode.TOO_MANY_ALTERED_COLUMNS
    log.check_replay()


@pytest.mark.parametrize(
    ("setting", "limit", "changes", "fields"),
    [
        ("changes_max", 2, [append(), append(), append()], {}),
        ("files_max", 2, [append(data_file(), data_file()), append()], {}),
        ("files_max", 2, [change("FLUSH", "k", files=[{**data_file(0), "row_ids": []}] * 3)], {}),
        ("files_max", 2, [delete_file(0, [1]), delete_file(1, [1]), append()], {}),
        ("reads_max", 1, [append()], {"reads": [read_table(), read_table()]}),
        (
            "read_keys_max",
            1,
            [append()],
            {"reads": [{"kind": "ROWS", "schema": "main", "table": "k", "keys": [{}, {}]}]},
        ),
        ("name_length_max", 8, [create_table("a" * 9)], {}),
        ("inlined_positions_max", 2, [delete({0: [1, 2, 3]})], {}),
        ("keyed_rows_max", 2, [insert(id=7), insert(id=8)], {}),
        ("changeset_positions_max", 3, [delete({0: [1, 2], 1: [3, 4]})], {}),
        ("changeset_objects_max", 2, [create_table("a"), create_table("b"), insert(id=7)], {}),
        (
            "changeset_bucket_values_max",
            9,
            [append(data_file(), data_file(partition_values=["9" * 5_000]), table="five")],
            {},
        ),
        ("changeset_bucket_values_max", 9, [alter("SET_PARTITION_BY", partition_by=FIVE_BUCKETS)], {}),
        ("inlined_row_bytes_max", 80, [change("INSERT_ROW", "wide", row=WIDE_ROW)], {}),
    ],
)
def test_more_than_a_limit_then_invalid_and_the_text_gives_it(
    setting: str, limit: int, changes: list[dict], fields: dict
) -> None:
    log = DecidedLog()
    log.commit(create_table(), append(data_file(), data_file()), keyed_table(), create_table("wide", WIDE_COLUMNS))
    log.commit(insert(id=1), create_table("five", partition_by=FIVE_BUCKETS))
    log.commit({"kind": "CONFIGURE", "settings": {setting: limit}})
    assert str(limit) in str(log.refused("INVALID", *changes, **fields).detail)
    log.commit(append())
    log.check_replay()


def test_names_longer_than_the_limit_then_they_still_name_what_has_them() -> None:
    log = DecidedLog()
    log.commit(schema("CREATE_SCHEMA", "a_schema"), create_table("a_table", "a_column varchar", schema="a_schema"))
    log.commit(create_table("a_table", "a_column varchar"))
    log.commit({"kind": "CONFIGURE", "settings": {"name_length_max": 5}})
    for new in (
        create_table("a_view"),
        create_table("b", "b_column varchar"),
        schema("CREATE_SCHEMA", "b_schema"),
        change("RENAME_TABLE", "a_table", new_table="b_table"),
        alter("RENAME_COLUMN", "a_table", name="a_column", new_name="b_column"),
    ):
        assert log.refused("INVALID", new).invalid_code is InvalidCode.NAME_TOO_LONG
    log.commit(append(table="a_table"), create_table("a_table", if_not_exists=True))
    log.commit(append(table="a_table"), writer_id="a_writer")
    log.commit(alter("RENAME_COLUMN", "a_table", name="a_column", new_name="b"))
    log.commit(change("RENAME_TABLE", "a_table", new_table="b"))
    log.commit(schema("DROP_SCHEMA", "a_schema", cascade=True))
    log.check_replay()


def test_more_keyed_rows_than_the_limit_then_they_may_still_change_and_go() -> None:
    log = DecidedLog()
    log.commit(keyed_table(), insert(id=1), insert(id=2), insert(id=3))
    log.commit({"kind": "CONFIGURE", "settings": {"keyed_rows_max": 2}})
    log.refused("INVALID", insert(id=4))
    log.commit(update(1, v="b"))
    log.commit(insert(id=4), delete_row(3))
    log.refused("INVALID", delete_row(1), insert(id=5), insert(id=6))
    log.commit(delete_row(1))
    log.commit(insert(id=5), delete_row(2))
    log.refused("INVALID", insert(id=6))
    log.check_replay()


def test_conflict_granularity_and_policy_of_the_log_when_configured_then_they_hold_for_tables_without_their_own() -> (
    None
):
    log = DecidedLog()
    log.commit(create_table(), append(), keyed_table())
    settings = {"conflict_granularity": "ROW", "on_conflict": "KEEP_EXISTING", "expire_older_than_ms": 5}
    log.commit({"kind": "CONFIGURE", "settings": settings})
    log.commit({"kind": "CONFIGURE", "settings": {"expire_older_than_ms": None}})
    base = log.commit(insert(id=1))
    log.commit(delete({0: [1]}), insert(id=2))
    log.commit(delete({0: [2]}), insert(id=2), base=base)
    assert log.outcomes[-1].effects[1].skipped
    for value in (5, None):
        log.refused("INVALID", {"kind": "CONFIGURE", "settings": {"on_conflict": value}})
    log.check_replay()


def test_snapshots_expired_below_zero_then_invalid(log: DecidedLog) -> None:
    log.refused("INVALID", {"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": -1})


# --- text and times ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["a\0b", ["a\0b"], [["\ud800"]], {"x": "a\x1fb"}, {"a\0b": 1}, {"x": [1, {"y": "\x7f"}]}],
)
def test_a_control_character_deep_in_a_row_then_invalid(value: object) -> None:
    log = DecidedLog()
    log.commit(create_table(columns="id int64, j json"))
    refused = log.refused("INVALID", change("INSERT_ROW", row={"id": 1, "j": value}))
    assert "holds the character U+" in str(refused.detail)
    log.commit(change("INSERT_ROW", row={"id": 1, "j": {"x": ["two\nlines", None, 5]}}))


@pytest.mark.parametrize("is_list", [True, False])
def test_a_value_nested_deeper_than_64_then_invalid_and_so_deep_that_nobody_looks_at_it_then_malformed(
    is_list: bool,
) -> None:
    log = DecidedLog()
    log.commit(create_table(columns="id int64, j json"))
    value: Any = 1
    for depth in range(1, 66):
        value = [value, depth] if is_list else {"a": value, "b": depth}
        if depth == 64:
            log.commit(change("INSERT_ROW", row={"id": 1, "j": value}))
    refused = log.refused("INVALID", change("INSERT_ROW", row={"id": 1, "j": value}))
    assert "nested deeper than 64" in str(refused.detail)
    log.refused("INVALID", change("DELETE_ROW", key={"id": value}))
    for _ in range(136):
        value = [value]
    with pytest.raises(MalformedRecordError, match="nested deeper than 200"):
        log.propose(change("INSERT_ROW", row={"id": 1, "j": value}))


@pytest.mark.parametrize("field", ["created_at_ms", "decide_before_ms"])
def test_a_time_beyond_postgresqls_then_invalid(log: DecidedLog, field: str) -> None:
    refused = log.refused("INVALID", within(append()), **{field: 10**16})
    assert f"{field} {10**16} is beyond PostgreSQL's times" in str(refused.detail)
