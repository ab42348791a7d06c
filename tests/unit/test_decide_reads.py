"""Read sets: what SERIALIZABLE refuses and SNAPSHOT allows (rules.md 4, 12.13-14, 12.20, 12.24)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import localcontext
from typing import Any

import pytest
from deciding import (
    START_MS,
    DecidedLog,
    alter,
    append,
    change,
    compact,
    create_table,
    data_file,
    delete,
    delete_row,
    delete_whole,
    insert,
    keyed_table,
    make_id,
    read_table,
    update,
)

from commitlog.domain.deciding.decide import decide, find_conflicts
from commitlog.domain.deciding.proofs import excludes
from commitlog.domain.deciding.rules import Rules
from commitlog.domain.model import Append, ColumnStatistics, DataFile, FilterOp, Predicate
from commitlog.domain.model.records.proposal_json import proposal_from_json
from commitlog.domain.state.dumping import dump_state, load_state
from commitlog.domain.state.replaying import replay

COLUMNS = "i int64, f float64, s varchar, d date, c decimal(9,2), b boolean, ts timestamp, l blob"


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """Tables t (read) and u (written), files 0 and 1 in t; head 2."""
    log = DecidedLog()
    log.commit(create_table("t", COLUMNS), create_table("u"))
    log.commit(append(data_file(), data_file()))
    yield log
    log.check_replay()


def serializable(log: DecidedLog, *reads: dict[str, Any], base: int = 2, isolation: str = "SERIALIZABLE") -> list[str]:
    outcome = log.propose(append(table="u"), base=base, isolation=isolation, reads=list(reads))
    if outcome.snapshot_id is not None:
        return []
    assert outcome.reason == "CONFLICT", outcome.detail
    return [f"{c.kind}@{c.committed_snapshot_id}" for c in outcome.conflicts]


def test_write_skew_over_two_tables_then_caught_only_under_serializable() -> None:
    log = DecidedLog()
    log.commit(create_table("a"), create_table("b"))
    for isolation in ("SNAPSHOT", "SERIALIZABLE"):
        base = log.head
        log.commit(append(table="a"), base=base, isolation=isolation, reads=[read_table("b")])
        second = log.propose(append(table="b"), base=base, isolation=isolation, reads=[read_table("a")])
        assert (second.reason == "CONFLICT") == (isolation == "SERIALIZABLE")


def test_trinitylakes_example_then_other_tables_do_not_matter_but_the_read_one_does(log: DecidedLog) -> None:
    log.commit(append(table="u"))
    assert serializable(log, read_table("t")) == []
    log.commit(append())
    assert serializable(log, read_table("t")) == ["TABLE_APPENDED@5"]
    assert serializable(log, read_table("t"), isolation="SNAPSHOT") == []


def test_a_table_read_when_rows_were_deleted_then_files_listed_help(log: DecidedLog) -> None:
    log.commit(delete({0: [1]}))
    assert serializable(log, read_table("t")) == ["TABLE_DELETED_FROM@3"]
    assert serializable(log, read_table("t", files=[0, 1])) == ["TABLE_DELETED_FROM@3"]
    assert serializable(log, read_table("t", files=[1])) == []
    log.commit(delete_whole(1))
    assert serializable(log, read_table("t", files=[1])) == ["TABLE_DELETED_FROM@5"]


def test_maintenance_and_comments_then_no_conflict(log: DecidedLog) -> None:
    log.commit(compact([0, 1], 20))
    log.commit(alter("SET_COMMENT", name="i", comment="x"))
    log.commit(alter("SET_DEFAULT", name="i", default="1"))
    log.commit(alter("SET_PROPERTY", key="conflict_granularity", value="ROW"))
    log.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 1})
    assert serializable(log, read_table("t", files=[0])) == []


def test_ddl_on_a_read_table_then_conflict(log: DecidedLog) -> None:
    log.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int8"}))
    assert serializable(log, read_table("t", ("i", "=", 5))) == ["TABLE_ALTERED@3"]
    log.commit(change("RENAME_TABLE", new_table="w"))
    assert serializable(log, read_table("t"), base=3) == ["TABLE_RENAMED@4"]
    log.commit(change("DROP_TABLE", "w"))
    assert serializable(log, read_table("w"), base=4) == ["TABLE_DROPPED@5"]


def test_reads_that_never_could_be_then_invalid_under_serializable_only(log: DecidedLog) -> None:
    log.commit({"kind": "CREATE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 1"})
    rows = {"kind": "ROWS", "schema": "main", "table": "t", "keys": [{"i": 1}]}
    for read in (
        read_table("none"),
        read_table("v"),
        read_table("t", ("x", "=", 1)),
        read_table("t", files=[9]),
        read_table("t", files=[-1]),
        rows,
    ):
        log.refused("INVALID", append(table="u"), isolation="SERIALIZABLE", reads=[read])
        log.commit(append(table="u"), reads=[read])


def test_listed_files_when_compacted_and_deleted_from_after_that_then_conflict(log: DecidedLog) -> None:
    base = log.head
    log.commit(compact([0], 10))
    assert serializable(log, read_table(files=[0]), base=base) == []
    log.commit(delete({1: [3]}))
    assert serializable(log, read_table(files=[0]), base=base) == []
    moved = log.head
    log.commit(compact([2], 10))
    newest = log.state.next_file_id - 1
    log.commit(delete({newest: [3]}))
    read = {"isolation": "SERIALIZABLE", "reads": [read_table(files=[0])]}
    refused = log.refused("CONFLICT", append(table="u"), base=base, **read)
    assert [(str(each.kind), each.object.data_file_id) for each in refused.conflicts] == [
        ("TABLE_DELETED_FROM", newest)
    ]
    assert serializable(log, read_table(files=[2]), base=moved) == [f"TABLE_DELETED_FROM@{log.head}"]
    assert serializable(log, read_table(files=[2, newest]), base=moved) == [f"TABLE_DELETED_FROM@{log.head}"]
    log.commit(delete_whole(newest))
    assert serializable(log, read_table(files=[0]), base=base) == [f"TABLE_DELETED_FROM@{log.head}"]


@pytest.mark.parametrize(
    ("kind", "bound", "op", "literal", "is_proof"),
    [
        ("float32", 0.10000000149011612, "=", 0.1, False),
        ("float32", 0.10000000149011612, "<=", 0.1, False),
        ("float32", 0.10000000149011612, "<", 0.1, True),
        ("float32", 0.10000000149011612, ">", 0.1, False),
        ("float32", 0.10000000149011612, "in", [0.1], False),
        ("float32", 0.10000000149011612, "between", [0.1, 0.1], False),
        ("float32", 0.1, "=", 0.10000000149011612, False),
        ("float32", 0.1, "=", 0.100000002, False),
        ("float32", 0.1, "=", 0.1001, True),
        ("float32", 5.0, ">", 5, True),
        ("float32", 3.0e38, "<", 1e300, False),
        ("float64", 0.10000000149011612, "=", 0.1, True),
        ("float64", 2**53, ">=", 2**53 + 1, False),
        ("int64", 2**53 + 1, "=", float(2**53), False),
        ("int64", 2**53 + 1, ">", float(2**53 + 2), False),
        ("int64", 2**53 + 1, "in", [float(2**53)], False),
        ("int64", 2**53 + 1, "=", float(2**53 + 6), True),
        ("int64", 2**53 + 1, "=", 2**53, True),
        ("int64", 10, ">", 10.0, True),
        ("int64", 2**53, "in", [2**53 + 1, 0.5], False),
        ("int64", 2**53, "in", [2**53 + 1, 1], True),
        ("int64", 2**53, "between", [2**53 + 1, 1e19], False),
        ("int64", 2**53, "between", [2**53 + 6, 1e19], True),
        ("decimal(18,2)", "9007199254740992.00", "in", ["9007199254740992.50", 0.5], False),
        ("decimal(18,2)", 1234567890123456.62, "=", "1234567890123456.62", False),
        ("decimal(18,2)", 12345678901234.56, ">", "12345678901234.56", True),
        ("decimal(38,20)", 0.1, ">", "0.1", False),
        ("decimal(9,2)", "1.10", "in", ["1.104", "few", 0.5], False),
        ("decimal(9,2)", "1.10", "between", ["1.12", 0.5], True),
        ("timestamp", "2024-01-31 00:00:00", "between", ["2024-02-01 00:00:00", 1.5], True),
        ("decimal(38,20)", "0.10000000000000000001", "=", 0.1, False),
        ("decimal(38,20)", "0.10000000000000000001", "=", 0.11, True),
        ("decimal(38,20)", "0.00009007199254741001", "=", 9.007199254741e-05, False),
        ("decimal(9,2)", "1.10", ">", 1.1, True),
        ("decimal(9,2)", "1.10", "=", "1.104", False),
        ("decimal(9,2)", "1.11", "=", "1.104", False),
        ("decimal(9,2)", "1.12", "=", "1.104", True),
        ("decimal(9,2)", "1.10", ">", "1.1000", True),
        ("decimal(9,2)", "1.10", "<", "1." + "0" * 300 + "1", True),
        ("decimal(9,2)", "1.10", ">", "1" * 300, False),
        ("timestamp_s", "2024-01-31 00:00:01", "=", "2024-01-31 00:00:00.5", False),
        ("timestamp_s", "2024-01-31 00:00:00", "in", ["2024-01-31 00:00:00.5"], False),
        ("timestamp_s", "2024-01-31 00:00:02", "=", "2024-01-31 00:00:00.5", True),
        ("timestamp", "2024-01-31 00:00:01", ">", "2024-01-31 00:00:01.000000", True),
        ("timestamp", "2024-01-31 00:00:00.5", "=", "2024-01-31 00:00:00.5000004", False),
        ("time", "10:00:00", ">=", "10:00:00.0000004", False),
        ("timestamptz", "2024-01-31 10:00:00+00", ">", "2024-01-31 10:30:00", False),
        ("timestamptz", "2024-01-31 10:00:00+00", ">", "2024-01-31 10:30:00+00", True),
    ],
)
def test_filter_when_readers_may_read_its_literal_in_two_ways_then_both_have_to_prove(
    log: DecidedLog, kind: str, bound: Any, op: str, literal: Any, is_proof: bool
) -> None:
    log.commit(create_table("x", f"c {kind}"))
    base = log.head
    told = {"column": "c", "min": bound, "max": bound, "null_count": 0, "contains_nan": False}
    log.commit(append(data_file(statistics=[told]), table="x"))
    found = serializable(log, read_table("x", ("c", op, literal)), base=base)
    assert found == ([] if is_proof else [f"TABLE_APPENDED@{base + 1}"])


def test_filter_when_the_program_computes_decimals_with_few_digits_then_its_literals_are_read_with_all(
    log: DecidedLog,
) -> None:
    log.commit(create_table("x", "c int64"))
    base = log.head
    told = {"column": "c", "min": 2**53 + 3, "max": 2**53 + 3, "null_count": 0}
    log.commit(append(data_file(statistics=[told]), table="x"))
    with localcontext() as context:
        context.prec = 6
        found = serializable(log, read_table("x", ("c", "=", float(2**53 + 2))), base=base)
    assert found == [f"TABLE_APPENDED@{base + 1}"]


def test_names_then_creation_and_drop_are_caught(log: DecidedLog) -> None:
    def name(schema: str, name: str | None) -> dict[str, Any]:
        return {"kind": "NAME", "schema": schema, "name": name}

    log.commit(create_table("n"))
    assert serializable(log, name("main", "n")) == ["TABLE_CREATED@3"]
    assert serializable(log, name("main", "other")) == []
    base = log.head
    log.commit(change("RENAME_TABLE", "n", new_table="m"))
    assert serializable(log, name("main", "n"), base=base) == ["TABLE_RENAMED@5"]
    assert serializable(log, name("main", "m"), base=base) == ["TABLE_RENAMED@5"]
    assert serializable(log, name("main", None), base=base) == ["TABLE_RENAMED@5"]
    log.commit(change("RENAME_TABLE", "m", new_table="l"))
    assert serializable(log, name("main", None), base=base) == ["TABLE_RENAMED@6"]
    read = {"isolation": "SERIALIZABLE", "reads": [name("main", "n")]}
    renamed = log.refused("CONFLICT", append(table="u"), base=base, **read)
    assert [each.object.table for each in renamed.conflicts] == ["m"]
    assert "snapshot 5 by writer w1 renamed it to main.m" in renamed.conflicts[0].detail
    log.commit(change("RENAME_TABLE", "l", new_table="m"))
    base = log.head
    log.commit(alter("ADD_COLUMN", "m", column={"name": "x", "type": "int8"}))
    assert serializable(log, name("main", None), base=base) == []
    base = log.head
    log.commit({"kind": "CREATE_SCHEMA", "schema": "s"})
    assert serializable(log, name("s", "t"), base=base) == [f"SCHEMA_CREATED@{base + 1}"]
    base = log.head
    log.commit({"kind": "DROP_SCHEMA", "schema": "s"})
    assert serializable(log, name("s", "t"), base=base) == [f"SCHEMA_DROPPED@{base + 1}"]


def test_rows_read_then_only_changes_of_those_keys_conflict(log: DecidedLog) -> None:
    def rows(*keys: int) -> dict[str, Any]:
        return {"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": key} for key in keys]}

    log.commit(keyed_table("k", on_conflict="KEEP_EXISTING"))
    log.commit(insert(id=1), insert(id=2))
    base = log.head
    log.commit(update(1, v="x"))
    assert serializable(log, rows(2, 3), base=base) == []
    assert serializable(log, rows(1, 2), base=base) == ["ROW_CHANGED@5"]
    assert serializable(log, read_table("k"), base=base) == ["TABLE_ROWS_CHANGED@5"]
    middle = log.head
    log.commit(insert(id=3))
    log.commit(delete_row(2))
    assert serializable(log, rows(2, 3), base=middle) == [f"ROW_CHANGED@{middle + 2}", f"ROW_CHANGED@{middle + 1}"]
    late = log.head
    assert log.propose(update(1, v="late"), base=base).effects[0].skipped
    assert serializable(log, rows(1), base=late) == []
    assert serializable(log, read_table("k"), base=late) == []
    log.refused("INVALID", append(table="u"), isolation="SERIALIZABLE", reads=[{**rows(), "keys": [{"v": "x"}]}])


def bounds(column: str, low: Any, high: Any, **more: Any) -> dict[str, Any]:
    return {"column": column, "min": low, "max": high, **more}


@pytest.mark.parametrize(
    ("statistics", "conjunct", "excluded"),
    [
        (bounds("i", 10, 20), ("i", "=", 9), True),
        (bounds("i", 10, 20), ("i", "=", 10), False),
        (bounds("i", 10, 20), ("i", "=", 20.5), True),
        (bounds("i", 10, 20), ("i", "<", 10), True),
        (bounds("i", 10, 20), ("i", "<=", 10), False),
        (bounds("i", 10, 20), ("i", ">", 20), True),
        (bounds("i", 10, 20), ("i", ">=", 20), False),
        (bounds("i", 10, 20), ("i", "in", [1, 2, 30]), True),
        (bounds("i", 10, 20), ("i", "in", [1, 15]), False),
        (bounds("i", 10, 20), ("i", "in", []), True),
        (bounds("i", 10, 20), ("i", "between", [1, 9]), True),
        (bounds("i", 10, 20), ("i", "between", [9, 10]), False),
        (bounds("i", 10, 20), ("i", "between", [18, 11]), True),
        (bounds("i", 10, 20), ("i", "=", "9"), False),
        (bounds("i", 10, 20), ("i", "=", None), False),
        (bounds("i", None, 20), ("i", "=", 9), False),
        (bounds("i", None, 20), ("i", "=", 21), True),
        (bounds("i", 10, 20), ("i", "is_null"), False),
        (bounds("i", 10, 20, null_count=0), ("i", "is_null"), True),
        (bounds("i", None, None, null_count=10), ("i", "=", 5), True),
        (bounds("i", None, None, null_count=10), ("i", "is_not_null"), True),
        (bounds("i", None, None, null_count=10), ("i", "is_null"), False),
        (bounds("i", None, None, value_count=0), ("i", ">", 5), True),
        (bounds("f", 1.5, 2.5), ("f", ">", 3), False),
        (bounds("f", 1.5, 2.5, contains_nan=True), ("f", ">", 3), False),
        (bounds("f", 1.5, 2.5, contains_nan=False), ("f", ">", 3), True),
        (bounds("f", 1.5, 2.5), ("f", "<", 1), True),
        (bounds("s", "b", "d"), ("s", "=", "a"), True),
        (bounds("s", "b", "d"), ("s", ">", "da"), True),
        (bounds("s", "b", "delta-one-and-tw"), ("s", "=", "delta-one-and-two"), False),
        (bounds("s", "b", "delta-one-and-tw"), ("s", "=", "delta-three"), True),
        (bounds("s", "Z", "Z"), ("s", "=", "a"), True),
        (bounds("d", "2024-01-01", "2024-01-31"), ("d", ">=", "2024-02-01"), True),
        (bounds("d", "2024-01-01", "2024-01-31"), ("d", ">=", "2024-01-31"), False),
        (bounds("d", "2024-01-01", "2024-01-31"), ("d", ">=", "soon"), False),
        (bounds("c", "1.50", "10.00"), ("c", "<", "1.5"), True),
        (bounds("c", "1.50", "10.00"), ("c", "=", "9"), False),
        (bounds("b", False, False), ("b", "=", True), True),
        (bounds("b", False, True), ("b", "=", True), False),
        (bounds("ts", "2024-01-01 03:00:00", "2024-01-01 04:00:00"), ("ts", "<", "2024-01-01T03:00:00"), True),
        (bounds("i", 10, 20), ("f", "=", 1), False),
        (bounds("i", 10, 20), ("i", "is_not_null"), False),
        (bounds("c", "1.50", "10.00"), ("c", "=", "cheap"), False),
        (bounds("c", "1.50", "10.00"), ("c", "=", True), False),
        (bounds("c", 1.5, 10), ("c", ">", 10), True),
        (bounds("l", "a", "b"), ("l", "=", "c"), False),
    ],
)
def test_filter_against_statistics_then_a_proof_lets_the_append_pass(
    log: DecidedLog, statistics: dict, conjunct: tuple, excluded: bool
) -> None:
    log.commit(append(data_file(10, statistics=[statistics])))
    read = {"column": conjunct[0], "op": conjunct[1]} | ({"value": conjunct[2]} if len(conjunct) == 3 else {})
    reads = [{"kind": "TABLE", "schema": "main", "table": "t", "filter": [read]}]
    assert serializable(log, *reads) == ([] if excluded else ["TABLE_APPENDED@3"])


BEYOND_64_BITS = 2**63 + 1


@pytest.mark.parametrize(
    ("kind", "conjunct", "excluded"),
    [
        ("uint64", ("=", 7), True),
        ("uint64", ("=", str(BEYOND_64_BITS - 1)), True),
        ("uint64", ("=", str(BEYOND_64_BITS)), False),
        ("uint64", ("in", [7, str(BEYOND_64_BITS + 2)]), True),
        ("uint64", (">", str(BEYOND_64_BITS + 1)), True),
        ("uint64", (">=", str(BEYOND_64_BITS + 1)), False),
        ("uint64", ("between", ["8", "7"]), True),
        ("uint64", ("=", "-1"), False),
        ("uint64", ("=", "7.5"), False),
        ("uint128", ("=", str(2**127)), True),
        ("int128", ("<", str(-(2**100))), True),
        ("int64", ("=", "7"), False),
    ],
)
def test_integers_beyond_64_bits_then_their_texts_prove_as_numbers_do(
    kind: str, conjunct: tuple[str, Any], excluded: bool
) -> None:
    log = DecidedLog()
    log.commit(create_table("t", f"h {kind}"), create_table("u"))
    low, high = (10, 20) if kind == "int64" else (str(BEYOND_64_BITS), str(BEYOND_64_BITS + 1))
    log.commit(append(data_file(10, statistics=[bounds("h", low, high)])))
    assert serializable(log, read_table("t", ("h", *conjunct)), base=1) == ([] if excluded else ["TABLE_APPENDED@2"])


@pytest.mark.parametrize(("kind", "found"), [("struct(y int64)", []), ("struct(x int64)", ["TABLE_APPENDED@2"])])
def test_statistics_when_their_name_is_also_that_of_a_field_then_they_prove_nothing(
    kind: str, found: list[str]
) -> None:
    log = DecidedLog()
    columns = [{"name": "s.x", "type": "int64"}, {"name": "s", "type": kind}]
    log.commit({**create_table(), "columns": columns}, create_table("u"))
    log.commit(append(data_file(10, statistics=[bounds("s.x", 10, 20)])))
    assert serializable(log, read_table("t", ("s.x", "=", 9)), base=1) == found


def test_a_conjunction_then_one_proof_is_enough(log: DecidedLog) -> None:
    log.commit(append(data_file(10, statistics=[bounds("i", 10, 20)])))
    assert serializable(log, read_table("t", ("f", ">", 0), ("i", ">", 20))) == []


def test_an_append_of_no_rows_then_it_matches_nothing(log: DecidedLog) -> None:
    log.commit(append(data_file(0)))
    assert serializable(log, read_table("t", ("i", "=", 1))) == []


def test_partition_values_then_identity_only_proves() -> None:
    log = DecidedLog()
    keys = [{"column": "d", "transform": "identity"}, {"column": "ts", "transform": "year"}]
    log.commit(create_table("t", COLUMNS, partition_by=keys), create_table("u"))
    log.commit(append())
    log.commit(append(data_file(5, partition_values=["2024-01-02", 54])))
    assert serializable(log, read_table("t", ("d", "=", "2024-01-01"))) == []
    assert serializable(log, read_table("t", ("d", "=", "2024-01-02"))) == ["TABLE_APPENDED@3"]
    assert serializable(log, read_table("t", ("d", "is_null"))) == []
    assert serializable(log, read_table("t", ("d", "is_not_null"))) == ["TABLE_APPENDED@3"]
    assert serializable(log, read_table("t", ("ts", "<", "1999-01-01 00:00:00"))) == ["TABLE_APPENDED@3"]
    base = log.head
    log.commit(append(data_file(5, partition_values=[None, 54])))
    assert serializable(log, read_table("t", ("d", "=", "2024-01-02")), base=base) == []
    assert serializable(log, {**read_table("t"), "filter": [{"column": "d", "op": "is_null"}]}, base=base) != []


def test_a_read_beyond_the_window_then_judged_per_table(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(append(data_file(10, statistics=[bounds("i", 10, 20)])))
    log.commit(append(table="u"))
    assert serializable(log, read_table("t", ("i", "=", 9)), base=3) == ["TABLE_APPENDED@4"]
    assert serializable(log, read_table("t", ("i", "=", 9)), base=4) == []


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        ("int64", "5", 6), ("boolean", "true", False), ("decimal(9,2)", "1.50", "2"), ("float64", "1.5", 2),
        ("date", "2024-01-01", "2024-01-02"),
    ],
)  # fmt: skip
def test_a_partition_value_as_text_then_a_proof_like_any_other(kind: str, value: str, other: Any) -> None:
    log = DecidedLog()
    log.commit(
        create_table("t", f"p {kind}", partition_by=[{"column": "p", "transform": "identity"}]), create_table("u")
    )
    base = log.head
    log.commit(append(data_file(partition_values=[value])))
    log.commit(append(table="u"), base=base, isolation="SERIALIZABLE", reads=[read_table("t", ("p", "=", other))])
    log.commit(append(table="u"), base=base, isolation="SERIALIZABLE", reads=[read_table("t", ("p", "is_null"))])
    log.check_replay()


def test_files_read_beyond_the_window_then_gone_ones_count_as_raced_only_if_the_table_was_deleted_from(
    log: DecidedLog,
) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(compact([0], 10))
    log.commit(append(table="u"))
    log.commit(append(table="u"))
    assert serializable(log, read_table("t", files=[0, 1])) == []
    log.refused("INVALID", append(table="u"), base=4, isolation="SERIALIZABLE", reads=[read_table("t", files=[0])])
    deleted = log.commit(delete({1: [1]}))
    log.commit(append(table="u"))
    log.commit(append(table="u"))
    assert serializable(log, read_table("t", files=[1])) == [f"TABLE_DELETED_FROM@{deleted}"]


def test_a_file_read_that_was_gone_at_the_base_then_invalid(log: DecidedLog) -> None:
    log.commit(compact([0], 10))
    reads = [read_table("t", files=[0])]
    assert serializable(log, *reads) == []
    log.refused("INVALID", append(table="u"), base=3, isolation="SERIALIZABLE", reads=reads)


def test_a_table_first_filled_since_the_base_then_every_file_needs_its_proof(log: DecidedLog) -> None:
    low, high = bounds("id", 1, 5), bounds("id", 6, 9)
    log.commit(append(data_file(5, statistics=[low]), data_file(4, statistics=[high]), table="u"))
    reads = [read_table("u", ("id", ">", 20))]
    log.commit(append(), base=2, isolation="SERIALIZABLE", reads=reads)
    log.refused("CONFLICT", append(), base=2, isolation="SERIALIZABLE", reads=[read_table("u", ("id", ">", 8))])


def test_statistics_that_travel_opaque_then_decoded_where_a_filter_looks_and_kept_in_a_checkpoint(
    log: DecidedLog,
) -> None:
    text = json.dumps({**bounds("i", 10, 20), "null_count": 0})
    proposal = proposal_from_json(
        {"proposal_id": make_id(90), "writer_id": "w1", "base_snapshot_id": 2, "changes": [append()]}
    )
    (change_,) = proposal.changes
    assert isinstance(change_, Append)
    opaque = change_.replace(files=(change_.files[0].replace(statistics=text.encode()),))
    outcome = decide(log.state, proposal.replace(changes=(opaque,)), now_ms=START_MS + 90)
    replay(log.state, outcome)
    log.outcomes.append(outcome)

    def decoded(data: bytes) -> tuple[ColumnStatistics, ...]:
        return (ColumnStatistics(**json.loads(data)),)

    rules = Rules(decode_statistics=decoded)
    reading = {"proposal_id": make_id(91), "writer_id": "w1", "base_snapshot_id": 2, "isolation": "SERIALIZABLE"}
    state = load_state(dump_state(log.state))
    for value, conflicts in ((9, 0), (10, 1)):
        reads = [read_table("t", ("i", "=", value))]
        proposal = proposal_from_json({**reading, "reads": reads, "changes": [append(table="u")]})
        assert len(find_conflicts(state, proposal, rules=rules)) == conflicts
        assert len(find_conflicts(state, proposal)) == 1
        judged = decide(state, proposal, now_ms=START_MS + 91, rules=rules)
        assert judged.conflicts == find_conflicts(state, proposal, rules=rules)
        assert len(judged.conflicts) == conflicts


def view(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "schema": "main",
        "view": "v",
        **({} if kind == "DROP_VIEW" else {"sql": "SELECT 1"}),
        **fields,
    }


def test_a_view_that_a_name_read_relied_on_then_its_replacement_and_drop_are_caught(log: DecidedLog) -> None:
    read = {"kind": "NAME", "schema": "main", "name": "v"}
    base = log.commit(view("CREATE_VIEW"))
    log.commit(view("REPLACE_VIEW"))
    assert serializable(log, read, base=base) == ["VIEW_REPLACED@4"]
    assert serializable(log, read, base=log.head) == []
    log.commit(view("DROP_VIEW"))
    assert serializable(log, read, base=base) == ["VIEW_DROPPED@6", "VIEW_REPLACED@4"]
    assert serializable(log, read, base=log.head) == []


def test_a_schema_dropped_with_all_that_was_in_it_then_a_name_read_says_so_once(log: DecidedLog) -> None:
    log.commit({"kind": "CREATE_SCHEMA", "schema": "s"}, create_table(schema="s"))
    base = log.head
    log.commit({"kind": "DROP_SCHEMA", "schema": "s", "cascade": True})
    for name in ("t", None):
        assert serializable(log, {"kind": "NAME", "schema": "s", "name": name}, base=base) == ["SCHEMA_DROPPED@4"]


def test_rows_read_when_their_table_was_altered_or_the_base_is_beyond_the_window_then_judged_per_table(
    log: DecidedLog,
) -> None:
    rows = {"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": 9}]}
    log.commit(keyed_table("k"))
    base = log.commit(insert(id=1))
    log.commit(alter("ADD_COLUMN", "k", column={"name": "x", "type": "int8"}))
    assert serializable(log, rows, base=base) == [f"TABLE_ALTERED@{base + 1}"]
    base = log.head
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(append())
    log.commit(append())
    assert serializable(log, rows, base=base) == []
    changed = log.commit(insert(id=2))
    log.commit(append())
    log.commit(append())
    assert serializable(log, rows, base=base) == [f"TABLE_ROWS_CHANGED@{changed}"]
    log.refused("INVALID", append(), isolation="SERIALIZABLE", reads=[{**rows, "keys": [{"id": None}]}])


def test_a_partition_value_that_is_none_of_its_type_then_it_proves_nothing() -> None:
    log = DecidedLog()
    log.commit(create_table("t", "p int64", partition_by=[{"column": "p", "transform": "identity"}]))
    definition = log.state.tables[1].definition
    conjunction = (Predicate("p", FilterOp.EQ, 5),)
    for value, excluded in (("6", True), ("5", False), ("soon", False)):
        assert excludes(definition, DataFile("f", 1, 1, partition_values=(value,)), conjunction, None) is excluded
