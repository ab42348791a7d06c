"""Schemas, tables and views: names, definitions and the conflicts over them (rules.md 3, 12.1-5, 12.10-12, 12.20-22)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from deciding import DecidedLog, alter, append, change, create_table, delete, insert, keyed_table

from commitlog.domain.model import Outcome


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    log = DecidedLog()
    yield log
    log.check_replay()


def schema(name: str, **fields: object) -> dict[str, object]:
    return {"kind": "CREATE_SCHEMA", "schema": name, **fields}


def drop_schema(name: str, **fields: object) -> dict[str, object]:
    return {"kind": "DROP_SCHEMA", "schema": name, **fields}


def view(kind: str, name: str, **fields: object) -> dict[str, object]:
    return {
        "kind": kind,
        "schema": "main",
        "view": name,
        **({"sql": "SELECT 1"} if kind != "DROP_VIEW" else {}),
        **fields,
    }


def rename(old: str, new: str) -> dict[str, object]:
    return change("RENAME_TABLE", old, new_table=new)


def test_create_schema_when_one_of_that_name_was_created_then_conflict(log: DecidedLog) -> None:
    log.commit(schema("s"))
    log.conflict("SCHEMA_CREATED@1", on=schema("S"), base=0)
    log.refused("INVALID", schema("s"))
    log.commit(schema("other"), base=0)


def test_create_schema_when_it_was_created_and_dropped_again_then_still_created(log: DecidedLog) -> None:
    log.commit(schema("s"))
    log.commit(drop_schema("s"))
    log.conflict("SCHEMA_CREATED@1", on=schema("s"), base=0)
    log.commit(schema("s"))


def test_drop_schema_when_an_entry_was_created_in_it_then_conflict(log: DecidedLog) -> None:
    log.commit(schema("s"))
    log.commit(create_table(schema="s"))
    log.conflict("ENTRY_CREATED@2", on=drop_schema("s"), base=1)
    log.refused("INVALID", drop_schema("s"))
    log.commit(drop_schema("s", cascade=True))
    log.conflict("SCHEMA_DROPPED@3", "TABLE_DROPPED@3", on=drop_schema("s", cascade=True), base=2)


def test_drop_schema_when_it_was_not_empty_at_the_base_then_invalid(log: DecidedLog) -> None:
    log.commit(schema("s"), create_table(schema="s"))
    log.commit({**change("DROP_TABLE"), "schema": "s"})
    log.refused("INVALID", drop_schema("s"), base=1)
    log.commit(drop_schema("s"), base=2)


def test_drop_schema_when_an_entry_was_renamed_then_it_counts_only_with_cascade(log: DecidedLog) -> None:
    log.commit(schema("s"), create_table(schema="s"))
    log.commit({**rename("t", "u"), "schema": "s"})
    log.conflict("TABLE_RENAMED@2", on=drop_schema("s", cascade=True), base=1)


def test_drop_schema_when_rows_were_appended_to_its_tables_then_commits(log: DecidedLog) -> None:
    log.commit(schema("s"), create_table(schema="s"))
    log.commit({**append(), "schema": "s"})
    log.commit(drop_schema("s", cascade=True), base=1)
    log.conflict("TABLE_DROPPED@3", on={**append(), "schema": "s"}, base=2)


def test_drop_schema_main_then_invalid(log: DecidedLog) -> None:
    log.refused("INVALID", drop_schema("main", cascade=True))


@pytest.mark.parametrize("second", [create_table("T"), view("CREATE_VIEW", "t"), rename("u", "t")])
@pytest.mark.parametrize("first", [create_table("t"), view("CREATE_VIEW", "T"), rename("v", "t")])
def test_create_or_rename_when_the_name_was_taken_then_conflict(log: DecidedLog, first: dict, second: dict) -> None:
    log.commit(create_table("u"))
    log.commit(create_table("v"))
    log.commit(first)
    kind = {"CREATE_TABLE": "TABLE_CREATED", "CREATE_VIEW": "VIEW_CREATED", "RENAME_TABLE": "TABLE_RENAMED"}[
        first["kind"]
    ]
    log.conflict(f"{kind}@3", on=second, base=2)
    log.refused("INVALID", second)


def test_a_table_renamed_in_case_only_then_it_is_the_same_table(log: DecidedLog) -> None:
    log.commit(create_table("t"))
    log.commit(rename("t", "T"), append())
    assert log.state.tables[1].name == "T"
    log.conflict("TABLE_RENAMED@2", on=append(), base=1)
    log.conflict("TABLE_RENAMED@2", on=rename("t", "T"), base=1)
    log.refused("INVALID", rename("T", "T"))
    log.refused("INVALID", rename("t", "T"))
    log.refused("INVALID", rename("t", "T"), rename("T", "t"), rename("T", "t"))
    log.commit(rename("t", "t"), append())
    assert log.state.tables[1].name == "t"


def objects(outcome: Outcome) -> list[tuple[str | None, int | None]]:
    """Name and id of what each conflict is about."""
    return [(each.object.table, each.object.table_id) for each in outcome.conflicts]


def test_a_name_that_was_taken_when_its_table_was_renamed_again_then_the_conflict_names_what_took_it(
    log: DecidedLog,
) -> None:
    log.commit(create_table("T"), create_table("k"))
    log.commit(rename("t", "U"))
    log.commit(rename("u", "w"))
    created = log.conflict("TABLE_CREATED@1", on=create_table("t"), base=0)
    assert objects(created) == [("T", 1)]
    deed = "snapshot 1 by writer w1 created table main.T"
    assert created.conflicts[0].detail == f"create table main.t - but {deed} since base 0"
    renamed = log.conflict("TABLE_RENAMED@2", on=view("CREATE_VIEW", "u"), base=1)
    assert objects(renamed) == [("U", 1)]
    assert renamed.conflicts[0].detail.endswith("but snapshot 2 by writer w1 renamed a table to main.U since base 1")
    assert objects(log.conflict("TABLE_RENAMED@2", on=rename("k", "u"), base=1)) == [("U", 1)]


def test_a_name_that_was_taken_and_given_up_in_one_changeset_then_the_conflict_names_it(log: DecidedLog) -> None:
    log.commit(create_table("t"))
    log.commit(rename("t", "u"), rename("u", "t"))
    assert objects(log.conflict("TABLE_RENAMED@2", on=create_table("u"), base=1)) == [("u", 1)]


def test_create_table_when_its_schema_was_dropped_then_conflict(log: DecidedLog) -> None:
    log.commit(schema("s"))
    log.commit(drop_schema("s"))
    log.conflict("SCHEMA_DROPPED@2", on=create_table(schema="s"), base=1)
    log.refused("INVALID", create_table(schema="s"))


def test_create_table_when_the_name_was_taken_at_the_base_then_invalid_even_if_dropped_since(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(change("DROP_TABLE"))
    log.refused("INVALID", create_table(), base=1)
    log.commit(create_table())


def test_drop_x_rename_then_one_of_them_conflicts(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(rename("t", "u"))
    log.conflict("TABLE_RENAMED@2", on=change("DROP_TABLE"), base=1)
    log.commit(change("DROP_TABLE", "u"))
    log.conflict("TABLE_DROPPED@3", "TABLE_RENAMED@2", on=rename("t", "w"), base=1)


def test_drop_table_when_it_was_altered_or_appended_then_commits(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int32"}))
    log.commit(append())
    log.commit(change("DROP_TABLE"), base=1)


def test_a_name_when_its_table_was_dropped_and_created_anew_then_conflict_never_the_new_one(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(change("DROP_TABLE"), create_table())
    log.conflict("TABLE_DROPPED@2", on=append(), base=1)
    assert log.commit(append()) == 3


def test_a_name_bound_only_after_the_base_then_invalid(log: DecidedLog) -> None:
    log.commit(create_table())
    assert "after the base 0" in str(log.refused("INVALID", append(), base=0).detail)


@pytest.mark.parametrize(
    "step",
    [
        alter("SET_COMMENT", name=None, comment="x"),
        alter("SET_DEFAULT", name="v", default="x"),
        alter("SET_PROPERTY", key="conflict_granularity", value="ROW"),
    ],
)
def test_benign_alteration_then_data_changes_commit_and_alterations_conflict(log: DecidedLog, step: dict) -> None:
    log.commit(create_table())
    log.commit(append())
    log.commit(step)
    log.commit(append(), base=2)
    log.commit(delete({0: [1]}), base=2)
    log.conflict("TABLE_ALTERED@3", on=alter("DROP_COLUMN", name="v"), base=2)
    log.conflict("TABLE_ALTERED@3", on=rename("t", "u"), base=2)


def test_alteration_of_columns_then_append_and_delete_conflict_and_compact_commits(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(append())
    log.commit(alter("RENAME_COLUMN", name="v", new_name="w"))
    log.conflict("TABLE_ALTERED@3", on=append(), base=2)
    log.conflict("TABLE_ALTERED@3", on=delete({0: [1]}), base=2)
    log.commit(change("COMPACT", replaced=[0], files=[{"path": "n", "record_count": 10, "file_size_bytes": 1}]), base=2)


@pytest.mark.parametrize(
    ("step", "constrains"),
    [
        (alter("SET_NULLABLE", name="v", nullable=False), True),
        (alter("SET_NULLABLE", name="v", nullable=True), False),
        (alter("ADD_COLUMN", column={"name": "x", "type": "int64", "nullable": False}), True),
        (alter("ADD_COLUMN", column={"name": "x", "type": "int64", "nullable": False, "default": "1"}), False),
        (alter("ADD_COLUMN", column={"name": "x", "type": "int64"}), False),
        (alter("SET_PARTITION_BY", partition_by=[{"column": "id", "transform": "identity"}]), True),
        (alter("DROP_COLUMN", name="v"), False),
    ],
)
def test_alter_beside_appends_then_conflict_only_if_it_constrains_rows(
    log: DecidedLog, step: dict, constrains: bool
) -> None:
    log.commit(create_table())
    log.commit(append())
    if constrains:
        log.conflict("TABLE_APPENDED@2", on=step, base=1)
    else:
        log.commit(step, base=1)


def test_alter_when_columns_changed_since_the_base_then_the_conflict_is_the_answer(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(alter("DROP_COLUMN", name="v"))
    log.conflict("TABLE_ALTERED@2", on=alter("RENAME_COLUMN", name="v", new_name="w"), base=1)
    log.conflict("TABLE_ALTERED@2", on=alter("DROP_COLUMN", name="never"), base=1)
    log.refused("INVALID", alter("DROP_COLUMN", name="v"))


@pytest.mark.parametrize(
    "step",
    [
        alter("DROP_COLUMN", name="none"),
        alter("SET_TYPE", name="id", type="int64"),
        alter("SET_TYPE", name="id", type="int32"),
        alter("SET_TYPE", name="id", type="varchar"),
        alter("SET_TYPE", name="id", type="nonsense"),
        alter("ADD_COLUMN", column={"name": "ID", "type": "int64"}),
        alter("ADD_COLUMN", column={"name": "x", "type": "int64", "default": "many"}),
        alter("SET_PROPERTY", key="conflict_granularity", value="PAGE"),
        alter("SET_PROPERTY", key="colour", value="red"),
        alter("SET_PARTITION_BY", partition_by=[{"column": "id", "transform": "month"}]),
        change("ALTER_TABLE", alterations=[]),
        alter("SET_COMMENT", name=None, comment="\0"),
        alter("SET_DEFAULT", name="v", default="a\nb"),
    ],
)
def test_alter_when_it_cannot_be_then_invalid(log: DecidedLog, step: dict) -> None:
    log.commit(create_table())
    log.refused("INVALID", step)


def test_drop_column_when_it_is_the_last_or_a_key_then_invalid(log: DecidedLog) -> None:
    log.commit(create_table("one", "id int64"))
    log.commit(keyed_table("k", "id int64, v varchar, w varchar", unique=[["v"]]))
    log.commit(create_table("p", "id int64, d date", partition_by=[{"column": "d", "transform": "month"}]))
    log.refused("INVALID", alter("DROP_COLUMN", "one", name="id"))
    log.refused("INVALID", alter("DROP_COLUMN", "k", name="id"))
    log.refused("INVALID", alter("DROP_COLUMN", "k", name="v"))
    log.refused("INVALID", alter("RENAME_COLUMN", "k", name="id", new_name="key"))
    log.refused("INVALID", alter("DROP_COLUMN", "p", name="d"))
    log.commit(alter("DROP_COLUMN", "k", name="w"))


@pytest.mark.parametrize(
    ("old", "new", "possible"),
    [
        ("int8", "int64", True), ("int32", "int8", False), ("uint8", "uint32", True), ("uint8", "int64", False),
        ("int64", "int128", False), ("float32", "float64", True), ("int32", "float64", False),
        ("decimal(9,2)", "decimal(12,2)", True), ("decimal(9,2)", "decimal(9,3)", False), ("date", "timestamp", False),
    ],
)  # fmt: skip
def test_set_type_then_only_widenings_of_ducklake(log: DecidedLog, old: str, new: str, possible: bool) -> None:
    log.commit(create_table("t", f"c {old}"))
    step = alter("SET_TYPE", name="c", type=new)
    log.commit(step) if possible else log.refused("INVALID", step)


@pytest.mark.parametrize(
    "request_",
    [
        create_table(columns="id nonsense"),
        create_table(columns="id int64, ID varchar"),
        {**create_table(), "columns": []},
        create_table("x" * 300),
        create_table(""),
        create_table("a\nb"),
        create_table(unique=[["id"]]),
        create_table(primary_key=["none"]),
        keyed_table(columns="id float64, v varchar"),
        keyed_table(columns="id int64, v float32", unique=[["v"]]),
        keyed_table(exclusion_constraints=["x WITH &&"]),
        keyed_table(on_conflict="GUESS"),
        keyed_table(
            foreign_keys=[{"columns": ["v"], "ref_schema": "main", "ref_table": "none", "ref_columns": ["id"]}]
        ),
        create_table(partition_by=[{"column": "id", "transform": "century"}]),
    ],
)
def test_create_table_when_it_cannot_be_then_invalid(log: DecidedLog, request_: dict) -> None:
    log.refused("INVALID", request_)


def test_odd_names_then_they_commit_as_written(log: DecidedLog) -> None:
    log.commit(create_table('odd "name", with; everything 🦆'))
    assert log.state.tables[1].name == 'odd "name", with; everything 🦆'


def test_ids_then_in_order_of_the_changes_and_nested_depth_first(log: DecidedLog) -> None:
    partitioned = create_table("b", partition_by=[{"column": "id", "transform": "bucket(4)"}])
    nested = create_table("c")
    nested["columns"] = [
        {"name": "s", "type": "struct(a int64, l list(varchar))"},
        {"name": "z", "type": "map(varchar, int8)"},
    ]
    outcome = log.propose(schema("s"), partitioned, view("CREATE_VIEW", "v"), nested)
    assigned = outcome.assigned
    assert (assigned.schema_ids, assigned.table_ids, assigned.partition_ids, assigned.view_ids) == (
        (1,),
        (2, 5),
        (3,),
        (4,),
    )
    assert assigned.column_ids == ((1, 2), (1, 2, 3, 4, 5, 6, 7))
    assert assigned.schema_version == 1
    outcome = log.propose(alter("ADD_COLUMN", "c", column={"name": "n", "type": "int64"}))
    assert outcome.assigned.column_ids == ((8,),)
    assert outcome.assigned.schema_version == 2
    both = alter("ADD_COLUMN", "c", column={"name": "o", "type": "struct(a int64)"})
    both["alterations"] += alter("ADD_COLUMN", "c", column={"name": "p", "type": "int64"})["alterations"]
    outcome = log.propose(both, alter("ADD_COLUMN", "c", column={"name": "q", "type": "int64"}))
    assert outcome.assigned.column_ids == ((9, 10, 11), (12,))


def test_schema_version_then_rises_with_comments_but_not_with_our_properties_or_data(log: DecidedLog) -> None:
    log.commit(create_table())
    versions = [
        log.propose(step).assigned.schema_version
        for step in (
            alter("SET_COMMENT", name="v", comment="c"),
            alter("SET_PROPERTY", key="on_conflict", value="KEEP_EXISTING"),
            append(),
            alter("SET_DEFAULT", name="v", default="x"),
        )
    ]
    assert versions == [2, 2, 2, 3]


def test_a_changeset_that_uses_what_it_dropped_or_changes_what_it_made_then_invalid(log: DecidedLog) -> None:
    log.commit(create_table())
    log.refused("INVALID", change("DROP_TABLE"), append())
    log.refused("INVALID", rename("t", "u"), append())
    log.refused("INVALID", create_table("n"), change("DROP_TABLE", "n"))
    log.refused("INVALID", create_table("n"), rename("n", "m"))
    log.refused("INVALID", create_table("n"), alter("SET_COMMENT", "n", name=None, comment="x"))
    log.refused("INVALID", view("CREATE_VIEW", "n"), view("DROP_VIEW", "n"))
    log.refused("INVALID", schema("s"), drop_schema("s"))
    log.commit(change("DROP_TABLE"), create_table(), append())
    log.commit(rename("t", "u"), append(table="u"))
    log.commit(create_table("n"), append(table="n"))


def test_maintenance_beside_other_changes_then_invalid(log: DecidedLog) -> None:
    log.commit(create_table(), append())
    log.refused("INVALID", append(), change("COMPACT", replaced=[0], files=[]))
    log.refused("INVALID", append(), {"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 0})
    log.refused("INVALID", append(), {"kind": "CONFIGURE", "settings": {"on_conflict": "ABORT"}})
    log.refused("INVALID")


def test_views_then_replace_and_drop_conflict_with_each_other(log: DecidedLog) -> None:
    log.commit(view("CREATE_VIEW", "v"))
    log.commit(view("REPLACE_VIEW", "v"))
    log.conflict("VIEW_REPLACED@2", on=view("DROP_VIEW", "v"), base=1)
    log.conflict("VIEW_REPLACED@2", on=view("REPLACE_VIEW", "v"), base=1)
    log.commit(view("DROP_VIEW", "v"))
    log.conflict("VIEW_DROPPED@3", on=view("REPLACE_VIEW", "v"), base=2)
    log.refused("INVALID", view("REPLACE_VIEW", "v"))
    log.refused("INVALID", view("DROP_VIEW", "v"))


def test_a_view_named_as_a_table_and_the_other_way_then_invalid(log: DecidedLog) -> None:
    log.commit(view("CREATE_VIEW", "v"), create_table())
    log.refused("INVALID", change("DROP_TABLE", "v"))
    log.refused("INVALID", append(table="v"))
    log.refused("INVALID", rename("v", "w"))
    log.refused("INVALID", view("DROP_VIEW", "t"))


def test_if_not_exists_then_sixteen_writers_create_and_append_at_once(log: DecidedLog) -> None:
    for number in range(16):
        outcome = log.propose(create_table(if_not_exists=True), append(), base=0)
        assert outcome.snapshot_id == number + 1
        assert outcome.effects[0].skipped == (number > 0)
    assert len(log.state.tables[1].live_files) == 16


def test_if_not_exists_when_a_view_has_the_name_then_judged_as_without(log: DecidedLog) -> None:
    log.commit(view("CREATE_VIEW", "t"))
    log.conflict("VIEW_CREATED@1", on=create_table(if_not_exists=True), base=0)


def test_if_exists_when_gone_then_skipped_and_visible_to_later_changes(log: DecidedLog) -> None:
    log.commit(create_table())
    log.commit(change("DROP_TABLE"))
    outcome = log.propose(change("DROP_TABLE", if_exists=True), create_table(), base=1)
    assert outcome.snapshot_id == 3
    assert outcome.effects[0].skipped
    log.commit(drop_schema("never", if_exists=True))
    log.commit({**change("DROP_TABLE", if_exists=True), "schema": "never"})


def test_compact_when_the_old_name_means_another_table_then_conflict(log: DecidedLog) -> None:
    files = [{"path": "n", "record_count": 10, "file_size_bytes": 1}]
    log.commit(create_table(), append())
    log.commit(rename("t", "u"))
    log.commit(change("COMPACT", replaced=[0], files=files), base=1)
    log.commit(create_table())
    log.conflict("TABLE_CREATED@4", "TABLE_COMPACTED@3", on=change("COMPACT", replaced=[0], files=files), base=1)


def test_drop_of_a_referenced_table_then_invalid_or_conflict_by_age(log: DecidedLog) -> None:
    key = [{"columns": ["v"], "ref_schema": "main", "ref_table": "p", "ref_columns": ["id"]}]
    log.commit(keyed_table("p", "id int64, w varchar"))
    log.commit(keyed_table("c", "id int64, v int64", foreign_keys=key))
    log.conflict("TABLE_REFERENCED@2", on=change("DROP_TABLE", "p"), base=1)
    log.refused("INVALID", change("DROP_TABLE", "p"))
    log.commit(change("DROP_TABLE", "c"), change("DROP_TABLE", "p"))


def test_conflicts_then_listed_by_change_and_the_latest_snapshot_each(log: DecidedLog) -> None:
    log.commit(create_table("a"), create_table("b"))
    log.commit(alter("SET_COMMENT", "b", name=None, comment="1"))
    log.commit(alter("ADD_COLUMN", "b", column={"name": "x", "type": "int8"}))
    log.commit(rename("b", "c"))
    log.commit(change("DROP_TABLE", "a"))
    outcome = log.conflict(
        "TABLE_DROPPED@5",
        "TABLE_ALTERED@3",
        "TABLE_RENAMED@4",
        on=[append(table="a"), append(table="b")],
        base=1,
        writer_id="w2",
    )
    assert [c.proposed_change for c in outcome.conflicts] == [0, 1, 1]
    assert outcome.conflict_count == 3
    assert outcome.conflicts[0].committed_writer_id == "w1"
    text = (
        "append to table main.a - but snapshot 5 by writer w1 dropped table main.a since base 1 (and 2 more conflicts)"
    )
    assert outcome.detail == text


def test_conflicts_max_then_listed_up_to_it_and_counted(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"conflicts_max": 1}})
    log.commit(create_table("a"), create_table("b"))
    log.commit(change("DROP_TABLE", "a"), change("DROP_TABLE", "b"))
    outcome = log.refused("CONFLICT", append(table="a"), append(table="b"), base=2)
    assert (len(outcome.conflicts), outcome.conflict_count) == (1, 2)


def test_rows_of_a_keyless_table_then_plain_appends(log: DecidedLog) -> None:
    log.commit(create_table())
    outcome = log.propose(insert("t", id=1), insert("t", id=1))
    assert outcome.assigned.row_id_starts == (0, 1)
    assert outcome.next_file_id == 1
    refused = log.refused("INVALID", change("DELETE_ROW", key={"id": 1}))
    assert refused.detail == "cannot run UPDATE or DELETE on table t because it does not have a primary key"


def test_a_name_dropped_here_whose_table_was_renamed_meanwhile_then_using_it_is_invalid_all_the_same(
    log: DecidedLog,
) -> None:
    log.commit(create_table())
    log.commit(rename("t", "u"))
    log.refused("INVALID", change("DROP_TABLE"), alter("SET_COMMENT", name=None, comment="x"), base=1)
    log.conflict("TABLE_RENAMED@2", on=[change("DROP_TABLE"), create_table()], base=1)


@pytest.mark.parametrize("kind", ["CREATE_VIEW", "REPLACE_VIEW"])
def test_a_view_without_sql_then_invalid(log: DecidedLog, kind: str) -> None:
    log.commit(view("CREATE_VIEW", "v"))
    name = "v" if kind == "REPLACE_VIEW" else "w"
    log.refused("INVALID", {**view(kind, name), "sql": " \n"})
