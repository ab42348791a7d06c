"""Each code of an INVALID refusal comes of a proposal (rules.md 2)."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
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
    delete_file,
    delete_row,
    delete_whole,
    insert,
    keyed_table,
    make_id,
    read_table,
    update,
)

from commitlog.client.outcomes.submitted import answered
from commitlog.client.tables.views import checked_view
from commitlog.domain.deciding.answers import receipt_for
from commitlog.domain.model import InvalidCode
from commitlog.domain.model.invalid_codes import MEANINGS
from commitlog.domain.model.records.outcome_json import outcome_to_json
from commitlog.errors import InvalidChangeError, ProposalRejectedError
from commitlog.log.codec import (
    OutcomeRecord,
    decode_receipts,
    decode_record,
    encode_outcome,
    encode_receipts,
)

Changes = list[dict[str, Any]]
KEY_ON_V = {"columns": ["v"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}
KEY_ON_ID = {"columns": ["pid"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}
ORIGIN = {"node": "", "tick": 0, "stamp_ms": 0, "priority": 0}


def column(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **fields}


def table_of(*columns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"kind": "CREATE_TABLE", "schema": "main", "table": "n", "columns": list(columns), **fields}


def named(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "schema": "main", **fields}


def flush(*row_ids: int, table: str = "k", rows: int | None = None) -> dict[str, Any]:
    count = len(row_ids) if rows is None else rows
    return change("FLUSH", table, files=[data_file(count, row_ids=list(row_ids))])


CASES: dict[str, Changes] = {
    "NOTHING_TO_COMMIT": [],
    "CHANGE_NOT_ALONE": [append(), compact([0], 10)],
    "SNAPSHOT_BEYOND_HEAD": [{"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 99}],
    "TABLE_TOO_LARGE": [append(data_file(2**63 - 1))],
    "NUMBER_NEGATIVE": [append(data_file(-1))],
    "TIME_OUT_OF_RANGE": [insert(id=9, time=-(2**63))],
    "TEXT_UNSTORABLE": [insert(id=9, v="\0")],
    "NAME_EMPTY": [create_table("")],
    "NAME_TOO_LONG": [create_table("n" * 256)],
    "VALUE_INVALID": [insert(id="x")],
    "VALUE_TOO_NESTED": [insert(id=9, v=json.loads("[" * 70 + "]" * 70))],
    "SCHEMA_MISSING": [named("DROP_SCHEMA") | {"schema": "gone"}],
    "TABLE_MISSING": [append(table="gone")],
    "VIEW_MISSING": [named("DROP_VIEW", view="gone")],
    "NOT_A_TABLE": [append(table="w")],
    "NOT_A_VIEW": [named("DROP_VIEW", view="t")],
    "SCHEMA_EXISTS": [{"kind": "CREATE_SCHEMA", "schema": "S"}],
    "NAME_TAKEN": [create_table("W")],
    "DROPPED_IN_CHANGESET": [change("DROP_TABLE"), append()],
    "CREATED_IN_CHANGESET": [create_table("n"), change("DROP_TABLE", "n")],
    "MAIN_SCHEMA_STAYS": [named("DROP_SCHEMA")],
    "SCHEMA_NOT_EMPTY": [named("DROP_SCHEMA") | {"schema": "s"}],
    "TABLE_REFERENCED": [change("DROP_TABLE", "k")],
    "VIEW_SQL_INVALID": [named("CREATE_VIEW", view="n", sql="")],
    "COLUMN_UNKNOWN": [alter("DROP_COLUMN", name="x")],
    "COLUMN_EXISTS": [alter("ADD_COLUMN", column=column("ID", "int64"))],
    "COLUMN_IN_USE": [alter("DROP_COLUMN", "k", name="id")],
    "COLUMNS_MISSING": [table_of()],
    "TYPE_UNKNOWN": [table_of(column("a", "number"))],
    "TYPE_NOT_WIDENED": [alter("SET_TYPE", name="id", type="int8")],
    "DEFAULT_INVALID": [table_of(column("a", "int64", default="x"))],
    "KEY_INVALID": [table_of(column("a", "float64"), primary_key=["a"])],
    "PRIMARY_KEY_MISSING": [update(1, table="t", v="x")],
    "FOREIGN_KEY_INVALID": [keyed_table("n", foreign_keys=[KEY_ON_V])],
    "EXCLUSION_UNSUPPORTED": [table_of(column("a", "int64"), exclusion_constraints=["a"])],
    "PARTITION_KEY_INVALID": [create_table("n", partition_by=[{"column": "v", "transform": "year"}])],
    "PROPERTY_UNKNOWN": [alter("SET_PROPERTY", key="x", value="1")],
    "PROPERTY_VALUE_INVALID": [alter("SET_PROPERTY", key="conflict_granularity", value="x")],
    "POLICY_UNKNOWN": [alter("SET_PROPERTY", "k", key="on_conflict", value="x")],
    "HANDLER_MISSING": [alter("SET_PROPERTY", "k", key="on_conflict", value="handler:none")],
    "SETTING_UNKNOWN": [{"kind": "CONFIGURE", "settings": {"x": 1}}],
    "SETTING_VALUE_INVALID": [{"kind": "CONFIGURE", "settings": {"files_max": -1}}],
    "TABLE_KEYED": [append(table="k")],
    "FILE_UNKNOWN": [delete_whole(99)],
    "FILE_NAMED_TWICE": [delete_whole(0, 0)],
    "PATH_INVALID": [append(data_file(path="../a"))],
    "PATH_OUTSIDE_TABLE": [append(data_file(path="/a", path_is_relative=False))],
    "PATH_GIVEN_TWICE": [append(data_file(path="a"), data_file(path="a"))],
    "PARTITION_VALUES_INVALID": [append(data_file(partition_values=[1]))],
    "POSITION_INVALID": [delete({0: [10]})],
    "POSITION_DELETED": [delete({1: [1]})],
    "DELETE_FILE_INVALID": [delete_file(1, [1, 2])],
    "ROW_COUNT_DIFFERS": [compact([0], 9)],
    "ROWS_NOT_INLINABLE": [create_table("n", "xmin int64"), insert("n", xmin=1)],
    "COLUMN_GIVEN_TWICE": [insert(id=9, ID=9)],
    "NULL_NOT_ALLOWED": [insert(v="x")],
    "KEY_INCOMPLETE": [change("DELETE_ROW", "k", key={"v": "x"})],
    "ROW_CHANGED_TWICE": [update(1, v="x"), delete_row(1)],
    "ROW_EXISTS": [insert(id=1)],
    "ROW_MISSING": [delete_row(99)],
    "PARENT_MISSING": [insert("c", id=9, pid=99)],
    "ROW_REFERENCED": [delete_row(1)],
    "ROW_NOT_INLINED": [flush(99)],
    "ROW_FLUSHED_TWICE": [flush(0, 0)],
    "ORIGIN_INVALID": [insert(id=9, origin=ORIGIN)],
}
# What takes more than changes at the head, under the settings of a log as it comes.
FIELDS: dict[str, tuple[Changes, dict[str, Any]]] = {
    "OPEN_WRITER_NOT_ALONE": ([append()], {"open_writer": True}),
    "EPOCH_NOT_GIVEN": ([append()], {"writer_epoch": 1}),
    "ID_FROM_FUTURE": ([append()], {"id": make_id(1, START_MS + 10**9)}),
    "PARTITION_WRONG": ([append()], {"source_partition": 1}),
    "NOT_SEEN_AT_BASE": ([append()], {"base": 0}),
    "NODE_UNNAMED": ([append()], {"replicated": {"node": "b", "tick": 1, "digest": []}}),
}
LIMITS: dict[str, tuple[dict[str, int], Changes, dict[str, Any]]] = {
    "TOO_MANY_CHANGES": ({"changes_max": 1}, [append(), append()], {}),
    "TOO_MANY_OBJECTS": ({"changeset_objects_max": 1}, [create_table("n"), create_table("o")], {}),
    "TOO_MANY_FILES": ({"files_max": 1}, [append(data_file(), data_file())], {}),
    "TOO_MANY_POSITIONS": ({"inlined_positions_max": 1}, [delete({0: [1, 2]})], {}),
    "TOO_MANY_BUCKET_VALUES": (
        {"changeset_bucket_values_max": 1},
        [create_table("n", partition_by=[{"column": "id", "transform": "bucket(4)"}]), append(table="n")],
        {},
    ),
    "TOO_MANY_READS": ({"reads_max": 1}, [append()], {"reads": [read_table(), read_table()]}),
    "TOO_MANY_READ_KEYS": (
        {"read_keys_max": 1},
        [append()],
        {"reads": [{"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": 1}, {"id": 2}]}]},
    ),
    "TOO_MANY_KEYED_ROWS": ({"keyed_rows_max": 2}, [insert(id=8), insert(id=9)], {}),
    "ROW_TOO_WIDE": ({"inlined_row_bytes_max": 10}, [insert(id=9)], {}),
}
# Whose limit is no setting.
MADE_ELSEWHERE = {"TOO_MANY_ALTERED_COLUMNS": "test_decide_changesets.py"}
# What takes a log that is a node.
OF_NODES = {"NODE_FIXED", "DIGEST_INVALID", "DIGEST_AHEAD"}


@pytest.fixture
def log() -> DecidedLog:
    """Tables t (files 0 to 2, position 1 of file 1 deleted), k keyed with row 1, c that refers to it, view w, schema s."""
    log = DecidedLog()
    log.commit(create_table())
    log.commit(append(data_file(), data_file(), data_file()))
    log.commit(delete({1: [1]}))
    log.commit(keyed_table("k", "id int64 not null, v varchar"))
    log.commit(keyed_table("c", "id int64 not null, pid int64", foreign_keys=[KEY_ON_ID]))
    log.commit(insert(id=1), insert("c", id=1, pid=1))
    log.commit(named("CREATE_VIEW", view="w", sql="SELECT 1"))
    log.commit({"kind": "CREATE_SCHEMA", "schema": "s"})
    log.commit(create_table("t", schema="s"))
    return log


@pytest.mark.parametrize("code", [*CASES, *FIELDS, *LIMITS])
def test_decide_when_a_change_can_never_be_then_says_by_a_code_why(log: DecidedLog, code: str) -> None:
    if code in CASES:
        outcome = log.refused("INVALID", *CASES[code])
    elif code in FIELDS:
        changes, fields = FIELDS[code]
        outcome = log.refused("INVALID", *changes, **fields)
    else:
        settings, changes, fields = LIMITS[code]
        log.commit({"kind": "CONFIGURE", "settings": settings})
        outcome = log.refused("INVALID", *changes, **fields)
        assert [setting for setting in settings if setting not in str(outcome.detail)] == []
    assert outcome.invalid_code is InvalidCode(code), outcome.detail


@pytest.mark.parametrize(("of_type", "default"), [("varchar", "NULL"), ("blob", "NULL"), ("blob", "\\x4EULL")])
def test_default_when_the_catalog_would_have_none_then_invalid(log: DecidedLog, of_type: str, default: str) -> None:
    outcome = log.refused("INVALID", table_of(column("a", of_type, default=default)))
    assert outcome.invalid_code is InvalidCode.DEFAULT_INVALID


def test_outcome_when_a_proposal_is_invalid_then_bytes_json_receipt_and_error_carry_the_code(log: DecidedLog) -> None:
    outcome = log.refused("INVALID", alter("DROP_COLUMN", name="x"))
    record = decode_record(encode_outcome(outcome, log_id=b"L" * 16, prev_hash=b"H" * 32))
    assert isinstance(record, OutcomeRecord)
    assert record.outcome.invalid_code == InvalidCode.COLUMN_UNKNOWN
    assert outcome_to_json(outcome)["invalid_code"] == "COLUMN_UNKNOWN"
    receipt = receipt_for(log.state, outcome)
    told = decode_receipts(encode_receipts([receipt], log_id=b"L" * 16, partition=0)).receipts[0]
    assert told.invalid_code == "COLUMN_UNKNOWN"
    assert outcome.proposal is not None
    assert ProposalRejectedError(answered(outcome.proposal, told)).invalid_code == "COLUMN_UNKNOWN"


def test_codes_when_all_are_counted_then_each_is_made_by_a_test() -> None:
    assert {*CASES, *FIELDS, *LIMITS, *MADE_ELSEWHERE, *OF_NODES} == set(InvalidCode)
    of_nodes = Path(__file__).with_name("test_decide_sites.py").read_text(encoding="utf-8")
    assert [code for code in OF_NODES if f'"{code}"' not in of_nodes] == []
    for code, name in MADE_ELSEWHERE.items():
        assert f"invalid_code is InvalidCode.{code}" in Path(__file__).with_name(name).read_text(encoding="utf-8")


def test_decide_when_refused_for_another_reason_then_there_is_no_code(log: DecidedLog) -> None:
    assert log.refused("BASE_UNKNOWN", append(), base=99).invalid_code is None
    log.commit(delete_whole(0))
    assert log.refused("CONFLICT", delete_whole(0), base=log.head - 1).invalid_code is None


def test_views_when_duckdb_cannot_read_the_sql_then_a_code_says_so_before_it_is_sent() -> None:
    for sql in ("SELEC 1", "DELETE FROM t"):
        with pytest.raises(InvalidChangeError) as caught:
            checked_view(sql, "duckdb")
        assert caught.value.code is InvalidCode.VIEW_SQL_INVALID


def test_error_when_it_goes_to_another_process_then_keeps_code_and_text() -> None:
    error = InvalidChangeError(InvalidCode.ROW_MISSING, "table t has no row 1")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code) == ("table t has no row 1", InvalidCode.ROW_MISSING)


def test_meanings_when_read_then_each_code_has_one() -> None:
    listed = [code for codes in MEANINGS.values() for code in codes]
    assert sorted(listed) == sorted(InvalidCode)
    assert all(meaning.endswith(".") for codes in MEANINGS.values() for meaning in codes.values())
