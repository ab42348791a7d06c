"""Tables as they are defined and altered: keys, references, partitions, defaults, properties (rules.md 3, 12.5, 12.25)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import DecidedLog, alter, append, change, create_table, data_file, insert, keyed_table, update


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """Table t, and p with primary key id and unique (code) for others to refer to; head 1."""
    log = DecidedLog()
    log.commit(create_table(), keyed_table("p", "id int64, code int32, name varchar", unique=[["code"]]))
    yield log
    log.check_replay()


def refers(*columns: str, to: tuple[str, ...] = ("id",)) -> list[dict[str, Any]]:
    return [{"columns": list(columns), "ref_schema": "main", "ref_table": "p", "ref_columns": list(to)}]


def partitioned(column: str, *transforms: str) -> list[dict[str, Any]]:
    return [{"column": column, "transform": transform} for transform in transforms]


@pytest.mark.parametrize("unique", [[], [["c", "b"]]])
def test_a_foreign_key_whose_columns_stand_in_another_order_than_those_of_the_key_then_refers_by_its_pairs(
    unique: list[list[str]],
) -> None:
    log = DecidedLog()
    log.commit(create_table("q", "a int64, b varchar, c date", primary_key=["a", "b"], unique=unique))
    log.commit(insert("q", a=1, b="x", c="2024-01-01"))
    pairs = {"refers_b": "b", "refers_a": "a"} if not unique else {"refers_b": "b", "refers_c": "c"}
    refers_ = [{"columns": list(pairs), "ref_schema": "main", "ref_table": "q", "ref_columns": list(pairs.values())}]
    log.commit(keyed_table("k", "id int64, refers_a int64, refers_b varchar, refers_c date", foreign_keys=refers_))
    log.commit(insert(id=1, refers_a=1, refers_b="x", refers_c="2024-01-01"))
    log.refused("INVALID", insert(id=2, refers_a=2, refers_b="x", refers_c="2024-01-02"))
    log.refused("INVALID", change("DELETE_ROW", "q", key={"a": 1, "b": "x"}))
    log.check_replay()


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (keyed_table(unique=[[]]), "has no columns"),
        (create_table("k", primary_key=["id", "ID"]), "names a column twice"),
        (create_table("k", foreign_keys=refers("id")), "foreign keys need a primary key"),
        (keyed_table(foreign_keys=refers("id", "v")), "another number of columns"),
        (keyed_table(foreign_keys=refers("v", to=("name",))), "neither its primary key nor a UNIQUE constraint"),
        (keyed_table(foreign_keys=refers("v")), "has another type than id of p"),
        (create_table("k", "s list(int64)", partition_by=partitioned("s", "identity")), "cannot be a partition key"),
        (create_table("k", partition_by=partitioned("id", "bucket(4)", "bucket(4)")), "is given twice"),
        (create_table("k", partition_by=partitioned("id", "bucket(0)")), "there can be 1 to 4096 buckets"),
        (create_table("k", partition_by=partitioned("id", "bucket()")), "unknown partition transform"),
        (create_table("k", "d date", partition_by=partitioned("d", "hour")), "not a time"),
    ],
)
def test_a_definition_that_cannot_be_then_invalid_and_the_text_says_why(
    log: DecidedLog, request_: dict, why: str
) -> None:
    assert why in str(log.refused("INVALID", request_).detail)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (alter("RENAME_COLUMN", name="id", new_name="V"), "already has a column V"),
        (alter("RENAME_COLUMN", name="id", new_name="id"), "already has that name"),
        (alter("ADD_COLUMN", column={"name": "l", "type": "int64[]", "default": "[1]"}), "default of a nested type"),
        (alter("SET_DEFAULT", name="id", default="1.5"), "the default '1.5' is no integer"),
        (alter("ADD_COLUMN", column={"name": "l", "type": "json", "default": "nope"}), "is no JSON text"),
        (
            alter("ADD_COLUMN", column={"name": "l", "type": "timestamp", "default": "2024-01-01 00:00:00.1234567"}),
            "the default '2024-01-01 00:00:00.1234567' has more than the 6 digits of a second",
        ),
        (alter("SET_NULLABLE", "p", name="ID", nullable=True), "in the primary key and cannot be NULL"),
    ],
)
def test_an_alteration_that_cannot_be_then_invalid_and_the_text_says_why(log: DecidedLog, step: dict, why: str) -> None:
    assert why in str(log.refused("INVALID", step).detail)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ('struct("a\0" int64)', "TEXT_UNSTORABLE"),
        ('list(struct(a map(varchar, struct("\ud800" int64))))', "TEXT_UNSTORABLE"),
        ("int64\n", "TEXT_UNSTORABLE"),
        (f"struct({'n' * 256} int64)", "NAME_TOO_LONG"),
        (f"list(struct(a struct({'n' * 256} int64)))", "NAME_TOO_LONG"),
    ],
)
def test_a_type_then_its_fields_have_names_that_the_catalog_can_hold(log: DecidedLog, kind: str, code: str) -> None:
    column = {"name": "x", "type": kind}
    for new in ({**create_table("w"), "columns": [column]}, alter("ADD_COLUMN", column=column)):
        assert log.refused("INVALID", new).invalid_code == code


def test_a_type_then_its_text_is_one_that_the_catalog_can_hold(log: DecidedLog) -> None:
    assert log.refused("INVALID", alter("SET_TYPE", name="id", type="int64\0")).invalid_code == "TEXT_UNSTORABLE"
    base = log.commit(alter("DROP_COLUMN", name="v"))
    log.conflict(f"TABLE_ALTERED@{base}", on=alter("ADD_COLUMN", column={"name": "x", "type": "nope"}), base=base - 1)


@pytest.mark.parametrize(
    ("kind", "default", "kept"),
    [
        ("decimal(9,2)", "+1.5E1", "15.00"),
        ("decimal(38,10)", "1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"),
        ("timetz", "12:30:00.50 -0330", "12:30:00.5-03:30"),
        ("timetz", "12:30", "12:30:00+00:00"),
        ("timestamptz", "2024-01-01 12:30+0230", "2024-01-01 10:00:00+00"),
        ("uuid", "{00000000-0000-0000-0000-00000000000A}", "00000000-0000-0000-0000-00000000000a"),
        ("json", '{"a":  1}', '{"a":  1}'),
        ("varchar", " x", " x"),
    ],
)
def test_a_default_then_kept_in_a_form_that_every_reader_can_cast(
    log: DecidedLog, kind: str, default: str, kept: str
) -> None:
    log.commit(alter("ADD_COLUMN", column={"name": "x", "type": kind, "default": default}))
    added = log.state.tables[1].definition.columns[-1]
    assert (added.initial_default, added.default) == (kept, kept)
    log.commit(alter("SET_DEFAULT", name="x", default=None))
    log.commit(alter("SET_DEFAULT", name="x", default=default))
    assert log.state.tables[1].definition.columns[-1].default == kept


def test_a_column_renamed_in_case_only_then_it_is_the_same_column(log: DecidedLog) -> None:
    log.commit(alter("RENAME_COLUMN", name="id", new_name="ID"))
    assert [column.name for column in log.state.tables[1].definition.columns] == ["ID", "v"]


def test_a_foreign_key_then_its_columns_stay_and_it_may_refer_to_a_unique_constraint(log: DecidedLog) -> None:
    log.commit(keyed_table("c", "id int64, code int32, x varchar", foreign_keys=refers("code", to=("code",))))
    assert "in a foreign key" in str(log.refused("INVALID", alter("DROP_COLUMN", "c", name="code")).detail)
    log.refused("INVALID", alter("RENAME_COLUMN", "c", name="code", new_name="y"))
    log.commit(alter("DROP_COLUMN", "c", name="x"))


def test_two_alterations_of_a_table_then_the_second_sees_the_first(log: DecidedLog) -> None:
    log.commit(
        alter("ADD_COLUMN", column={"name": "x", "type": "date"}),
        alter("SET_PARTITION_BY", partition_by=partitioned("x", "month")),
        append(data_file(1, partition_values=[3])),
    )
    log.refused("INVALID", alter("DROP_COLUMN", name="v"), alter("SET_COMMENT", name="v", comment="gone"))


def test_a_property_when_reset_then_the_logs_own_holds_again(log: DecidedLog) -> None:
    log.commit(alter("SET_PROPERTY", "p", key="on_conflict", value="KEEP_EXISTING"))
    base = log.commit(insert("p", id=1, code=1))
    log.commit(update(1, "p", code=2))
    assert log.propose(update(1, "p", code=3), base=base).effects[0].skipped
    log.commit(alter("SET_PROPERTY", "p", key="on_conflict", value=None))
    log.conflict("UPDATE_UPDATE@4", on=update(1, "p", code=3), base=base)
    log.refused("INVALID", alter("SET_PROPERTY", "p", key="on_conflict", value="GUESS"))


@pytest.mark.parametrize("value", ["true", None])
def test_a_table_that_links_leave_out_then_is_never_brought_again(log: DecidedLog, value: str | None) -> None:
    log.commit(
        alter("SET_PROPERTY", key="replicated", value="true"), alter("SET_PROPERTY", key="replicated", value="false")
    )
    log.commit(alter("SET_PROPERTY", key="replicated", value="false"))
    refused = log.refused("INVALID", alter("SET_PROPERTY", key="replicated", value=value))
    assert "links have left out what was written to it since" in str(refused.detail)


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int64", "7", 7), ("float64", "1.5", 1.5), ("boolean", "true", True), ("boolean", "false", False),
        ("json", '{"a": 1}', '{"a": 1}'), ("variant", "x", "x"), ("date", "2024-01-31", "2024-01-31"), ("varchar", "", ""),
    ],
)  # fmt: skip
def test_a_column_left_out_of_a_row_then_its_default_stands(
    log: DecidedLog, kind: str, default: str, value: object
) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "x", "type": kind, "default": default}]
    log.commit({**keyed_table(), "columns": columns})
    log.commit(insert(id=1), insert(id=2, x=None))
    rows = log.state.tables[3].rows
    assert rows is not None
    assert [version.image for version in rows.live.values()] == [{"id": 1, "x": value}, {"id": 2, "x": None}]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([{"name": f"c{n}", "type": "int8"} for n in range(1_591)], "1591 columns"),
        ([{"name": "ü" * 32, "type": "int8"}], "longer than 63 bytes"),
        ([{"name": "XMIN", "type": "int8"}], "a name that PostgreSQL or DuckLake uses"),
    ],
)
def test_a_table_whose_rows_postgresql_cannot_hold_then_it_takes_files_only(
    log: DecidedLog, columns: list, why: str
) -> None:
    log.commit({**create_table("w"), "columns": columns})
    log.commit(append(table="w"))
    row = change("INSERT_ROW", "w", row={})
    assert why in str(log.refused("INVALID", row).detail)
