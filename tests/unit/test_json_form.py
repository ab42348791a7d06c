"""Proposals and outcomes as JSON: what is MALFORMED names its field, what is written is read (rules.md 11, 12.8, 12.26)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deciding import (
    DecidedLog,
    append,
    change,
    compact,
    create_table,
    data_file,
    delete,
    insert,
    keyed_table,
    make_id,
    read_table,
    update,
)

from commitlog.domain.model import MalformedProposal, Proposal
from commitlog.domain.model.json_lines import is_blank, parse_proposal
from commitlog.domain.model.json_values import to_json
from commitlog.domain.model.records.outcome_json import outcome_to_json
from commitlog.domain.model.records.proposal_json import proposal_from_json, proposal_to_json
from commitlog.errors import MalformedRecordError

BEYOND = 2**63


def proposal(*changes: Any, **fields: Any) -> dict[str, Any]:
    return {"proposal_id": make_id(1), "writer_id": "w1", "base_snapshot_id": 0, "changes": list(changes), **fields}


def read(**fields: Any) -> dict[str, Any]:
    return proposal(reads=[{"kind": "TABLE", "schema": "main", "table": "t", **fields}])


def filtered(**predicate: Any) -> dict[str, Any]:
    return read(filter=[{"column": "c", **predicate}])


def statistic(**fields: Any) -> dict[str, Any]:
    return proposal(append(data_file(statistics=[{"column": "c", **fields}])))


def row_of(fields: str) -> str:
    return f'"base_snapshot_id": 0, "changes": [{{"kind": "INSERT_ROW", "schema": "s", "table": "t", "row": {{{fields}}}}}]'


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (proposal(writer_seq=BEYOND), "proposal.writer_seq"),
        (proposal(writer_seq=True), "proposal.writer_seq"),
        (proposal(open_writer=1), "proposal.open_writer"),
        (proposal(author=5), "proposal.author"),
        (proposal(reads={}), "proposal.reads"),
        (proposal(isolation="CHAOS"), "proposal.isolation"),
        ({**proposal(), "changes": "none"}, "proposal.changes"),
        (proposal(5), r"proposal.changes\[0\]"),
        (proposal({"schema": "s"}), r"proposal.changes\[0\]"),
        (proposal({"kind": "EXPLODE"}), r"proposal.changes\[0\].kind"),
        (proposal(change("ALTER_TABLE", alterations=[5])), r"changes\[0\].alterations\[0\]"),
        (proposal(change("ALTER_TABLE", alterations=[{"name": "x"}])), r"changes\[0\].alterations\[0\]"),
        (proposal(create_table(properties=[])), r"changes\[0\].properties"),
        (proposal(insert(id=BEYOND)), r"changes\[0\].row.id"),
        (proposal(insert(id=float("inf"))), r"changes\[0\].row.id"),
        (proposal(insert(id={1: "x"})), r"changes\[0\].row.id"),
        (proposal({**insert(), "row": [1]}), r"changes\[0\].row"),
        (statistic(min=[1]), r"statistics\[0\].min"),
        (statistic(min={}), r"statistics\[0\].min"),
        (proposal(reads=[5]), r"proposal.reads\[0\]"),
        (proposal(reads=[{"schema": "main"}]), r"proposal.reads\[0\]"),
        (proposal(reads=[{"kind": "GUESS"}]), r"proposal.reads\[0\].kind"),
        (filtered(op="~", value=1), r"filter\[0\].op"),
        (filtered(op="="), r"filter\[0\]"),
        (filtered(op="=", value=[1]), r"filter\[0\].value"),
        (filtered(op="in", value=1), r"filter\[0\].value"),
        (filtered(op="between", value=[1]), r"filter\[0\].value"),
        (filtered(op="is_null", value=1), r"filter\[0\].value"),
        (filtered(op="is_not_null", value=False), r"filter\[0\].value"),
        (proposal(author=object()), "proposal.author: expected text, not <object"),
    ],
)
def test_what_has_not_the_form_then_malformed_and_the_field_is_named(value: Any, field: str) -> None:
    with pytest.raises(MalformedRecordError, match=field):
        proposal_from_json(value)


@pytest.mark.parametrize(("given", "text"), [(True, "true"), (False, "false"), (1, "1"), (1.5, "1.5"), ("x", "x")])
def test_a_default_then_its_text_as_the_catalog_keeps_it(given: Any, text: str) -> None:
    columns = [{"name": "c", "type": "varchar", "default": given}]
    read_back = proposal_from_json(proposal({**create_table(), "columns": columns}))
    assert read_back.changes[0].columns[0].default == text


@pytest.mark.parametrize("number", ["1234567890123456.78", "1.50", "-0.0", "1e2"])
def test_a_default_that_is_a_number_then_it_keeps_the_digits_that_the_line_has(number: str) -> None:
    line = json.dumps(proposal(create_table("t", "id int64"))).replace(
        '"int64"', f'"decimal(18,2)", "default": {number}'
    )
    read = parse_proposal(line)
    assert isinstance(read, Proposal)
    assert read.changes[0].columns[0].default == number


def test_a_number_in_a_row_then_a_plain_float() -> None:
    line = json.dumps(proposal(insert(id=1.5, v=[{"a": 2.5}])))
    read = parse_proposal(line)
    assert isinstance(read, Proposal)
    row = read.changes[0].row
    assert [type(row["id"]), type(row["v"][0]["a"])] == [float, float]


MAPPING = [{"source_name": "a", "column": "id", "children": [{"source_name": "b", "column": "c"}]}]
CHANGESET = [
    create_table("p", "id int64, d date", partition_by=[{"column": "d", "transform": "month"}]),
    keyed_table("k", "id int64, c int64 not null", unique=[["c"]], on_conflict="KEEP_EXISTING"),
    append(data_file(2, statistics=[{"column": "id", "min": 1, "max": 2.5}], partition_values=["2024-01-01"])),
    append(data_file(2, name_mapping=MAPPING)),
    delete({0: [3, 4]}),
    delete({0: [4, 4], 1: [-1]}),
    compact([0, 1], 18),
    insert(time=5, origin={"node": "n", "tick": 1, "stamp_ms": 2, "priority": 3}, id=1, v={"a": [1, None, "x"]}),
    update(1, v=True),
    change("FLUSH", "k", files=[{**data_file(2), "row_ids": [0, 1]}]),
    change(
        "ALTER_TABLE",
        alterations=[
            {"op": "ADD_COLUMN", "column": {"name": "x", "type": "varchar", "nullable": False, "default": "y"}},
            {"op": "SET_COMMENT", "name": None, "comment": "two\nlines"},
        ],
    ),
    {"kind": "CONFIGURE", "settings": {"window_snapshots": 5, "expire_keep_snapshots": None}},
]


def test_a_proposal_written_as_json_then_read_back_as_it_was() -> None:
    reads = [
        read_table("t", ("id", "between", [1, 2]), ("d", "is_null"), files=[0]),
        {"kind": "NAME", "schema": "main"},
        {"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": 1}]},
    ]
    first = proposal_from_json(proposal(*CHANGESET, reads=reads, writer_seq=7, isolation="SERIALIZABLE"))
    written = json.dumps(proposal_to_json(first))
    assert parse_proposal(written) == first
    assert parse_proposal(written.encode()) == first


def test_a_line_of_a_number_that_is_too_long_then_malformed_with_the_ids_that_it_gives() -> None:
    for writer_id in ("w1", 5):
        line = json.dumps(proposal(writer_id=writer_id, colour="red"))
        parsed = parse_proposal(line)
        assert isinstance(parsed, MalformedProposal)
        assert parsed.writer_id == ("w1" if writer_id == "w1" else None)
    assert isinstance(parse_proposal(json.dumps(proposal(base_snapshot_id=10**30))), MalformedProposal)
    assert isinstance(parse_proposal(json.dumps(proposal())), Proposal)


def test_an_id_whose_variant_is_another_then_malformed_unless_a_writer_seq_stands_for_it() -> None:
    value = {
        "proposal_id": "01934f3e-7c00-7000-{}000-000000000001",
        "writer_id": "w",
        "base_snapshot_id": 0,
        "changes": [],
    }
    for variant in "89abAB":
        assert isinstance(parse_proposal(json.dumps(value).replace("{}", variant)), Proposal)
    for variant in "01234567cdefCDEF":
        text = json.dumps(value).replace("{}", variant)
        refused = parse_proposal(text)
        assert isinstance(refused, MalformedProposal)
        assert "is not a UUID version 7" in refused.detail
        assert isinstance(parse_proposal(text.replace("{", '{"writer_seq": 1, ', 1)), Proposal)


def test_an_outcome_as_json_then_the_fields_of_the_design() -> None:
    log = DecidedLog()
    log.commit(create_table("t"), keyed_table("k", on_conflict="KEEP_EXISTING"))
    log.commit(append(), insert(id=1, v="a"))
    log.commit(delete({0: [1]}), update(1, v="b"), writer_id="w2")
    kept = outcome_to_json(log.propose(update(1, v="c"), base=2))
    assert kept["resolutions"][0]["kind"] == "UPDATE_UPDATE"
    assert kept["resolutions"][0]["committed_row"] == {"id": 1, "v": "b"}
    assert kept["resolutions"][0]["committed_proposal_id"] == make_id(3)
    plain = outcome_to_json(log.propose(delete({0: [1]}), base=2, writer_seq=1))
    assert json.loads(json.dumps(plain)) == {
        "seq": 5,
        "epoch": 0,
        "source": {"partition": 0, "offset": 4},
        "proposal_id": make_id(5),
        "writer_id": "w1",
        "decided_at_ms": plain["decided_at_ms"],
        "verdict": "REJECTED",
        "snapshot_id": None,
        "head_snapshot_id": 4,
        "reason": "CONFLICT",
        "detail": plain["conflicts"][0]["detail"],
        "invalid_code": None,
        "conflicts": [
            {
                "kind": "TABLE_DELETED_FROM",
                "proposed": {"change": 0, "read": None},
                "object": {"schema": "main", "table": "t", "table_id": 1, "data_file_id": 0, "row_key": None},
                "committed_snapshot_id": 3,
                "committed_proposal_id": make_id(3),
                "committed_writer_id": "w2",
                "detail": "delete from table main.t - but snapshot 3 by writer w2 deleted from file 0 since base 2",
            }
        ],
        "conflict_count": 1,
        "resolutions": [],
        "assigned": {
            "schema_ids": [],
            "table_ids": [],
            "view_ids": [],
            "partition_ids": [],
            "column_ids": [],
            "mapping_ids": [],
            "data_file_ids": [],
            "delete_file_ids": [],
            "row_id_starts": [],
            "schema_version": 1,
            "writer_epoch": None,
        },
        "original_seq": None,
        "same_content": None,
    }
    committed = outcome_to_json(log.outcomes[0])
    assert committed["assigned"]["column_ids"] == [[1, 2], [1, 2]]
    assert committed["reason"] is None
    assert to_json(b"\x01\xff") == "01ff"


def test_proposal_when_fields_are_missing_then_all_of_them_are_named_at_once() -> None:
    with pytest.raises(MalformedRecordError) as raised:
        proposal_from_json(
            {
                "writer_id": "w",
                "changes": [{"kind": "DROP_TABLE"}, {"kind": "CREATE_SCHEMA", "schema": "s"}, append(data_file(), {})],
                "reads": [{"kind": "TABLE", "schema": "s", "table": "t", "filter": [{"column": "c", "op": "="}]}],
            }
        )
    assert str(raised.value) == (
        "these fields are missing: proposal.proposal_id, proposal.base_snapshot_id, proposal.reads[0].filter[0].value, "
        "proposal.changes[0].schema, proposal.changes[0].table, proposal.changes[2].files[1].path, "
        "proposal.changes[2].files[1].record_count, proposal.changes[2].files[1].file_size_bytes"
    )


def test_proposal_when_one_field_is_missing_then_it_is_named() -> None:
    with pytest.raises(MalformedRecordError, match=r"^proposal\.changes\[0\]: the field 'table' is missing$"):
        proposal_from_json(proposal({"kind": "DROP_TABLE", "schema": "s"}))


def test_line_when_it_lacks_what_stands_in_for_it_then_it_is_filled_in() -> None:
    line = json.dumps({"writer_id": "w", "base_snapshot_id": 7, "changes": []})
    found = parse_proposal(line, {"proposal_id": make_id(3), "base_snapshot_id": 1})
    assert isinstance(found, Proposal)
    assert (to_json(found.proposal_id), found.base_snapshot_id) == (make_id(3), 7)
    assert isinstance(parse_proposal("[]", {"writer_id": "w"}), MalformedProposal)


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        (
            '"base_snapshot_id": 9223372036854775808, "changes": []',
            "proposal.base_snapshot_id: 9223372036854775808 is beyond a 64-bit integer",
        ),
        (
            f'"base_snapshot_id": {"9" * 5000}, "changes": []',
            f"proposal.base_snapshot_id: {'9' * 57}... is beyond a 64-bit integer",
        ),
        ('"base_snapshot_id": NaN, "changes": []', "proposal.base_snapshot_id: expected an integer, not NaN"),
        ('"base_snapshot_id": 0, "base_snapshot_id": 1, "changes": []', "proposal.base_snapshot_id is given twice"),
        (
            '"base_snapshot_id": 0, "isolation": "SNAPSHOT", "isolation": "SNAPSHOT", "changes": []',
            "proposal.isolation is given twice",
        ),
        (
            '"base_snapshot_id": 0, "changes": [{"kind": "CREATE_SCHEMA", "schema": "a", "schema": "b"}]',
            "proposal.changes[0].schema is given twice",
        ),
        (
            '"base_snapshot_id": 0, "changes": [{"kind": "DROP_VIEW", "kind": "DROP_TABLE", "schema": "a", "table": "b"}]',
            "proposal.changes[0].kind is given twice",
        ),
        (row_of('"id": 1, "id": 1'), "proposal.changes[0].row.id is given twice"),
        (row_of('"v": [{"a": 1, "a": 1}]'), "proposal.changes[0].row.v[0].a is given twice"),
        (
            row_of('"v": {"a": [1, 18446744073709551616]}'),
            "proposal.changes[0].row.v.a[1]: 18446744073709551616 is beyond a 64-bit integer: as a column's value it is "
            "written as text",
        ),
        (
            row_of('"v": -Infinity'),
            "proposal.changes[0].row.v: -Infinity is beyond a 64-bit float: as a column's value it is written as text",
        ),
    ],
)
def test_line_when_it_holds_what_no_reader_may_take_then_malformed_with_its_place_and_the_ids_beside_it(
    wrong: str, detail: str
) -> None:
    found = parse_proposal(f'{{"proposal_id": "{make_id(3)}", "writer_id": "w", {wrong}}}')
    assert isinstance(found, MalformedProposal)
    assert (to_json(found.proposal_id), found.writer_id) == (make_id(3), "w")
    assert found.detail == detail


@pytest.mark.parametrize(
    ("constraint", "detail"),
    [
        ('{"a": 1, "a": 2}', "a is given twice"),
        ('{"a": 18446744073709551616}', "a: 18446744073709551616 is beyond a 64-bit integer"),
        ('{"a": NaN}', "a: NaN is beyond a 64-bit float"),
    ],
)
def test_line_when_what_is_kept_as_json_holds_what_no_reader_may_take_then_malformed(
    constraint: str, detail: str
) -> None:
    table = '"kind": "CREATE_TABLE", "schema": "s", "table": "t", "columns": [{"name": "a", "type": "int64"}]'
    changes = f'"changes": [{{{table}, "exclusion_constraints": [{constraint}]}}]'
    found = parse_proposal(f'{{"proposal_id": "{make_id(3)}", "writer_id": "w", "base_snapshot_id": 0, {changes}}}')
    assert isinstance(found, MalformedProposal)
    assert found.detail.startswith(f"proposal.changes[0].exclusion_constraints[0].{detail}")


def test_line_when_it_is_refused_and_no_json_behind_that_then_malformed_without_ids() -> None:
    found = parse_proposal(f'{{"proposal_id": "{make_id(3)}", "base_snapshot_id": NaN, "changes": [}}')
    assert isinstance(found, MalformedProposal)
    assert found.proposal_id is None


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"writer_id": "w"\r\n', "not JSON: Expecting ',' delimiter at column 18"),
        (f"{json.dumps(proposal())} {json.dumps(proposal())}", "not JSON: Extra data at column 114"),
        ('{"writer_id": "\t"}', "not JSON: Invalid control character at column 16"),
    ],
)
def test_line_when_it_is_no_object_of_json_then_malformed_with_what_a_line_is(line: str, detail: str) -> None:
    found = parse_proposal(line)
    assert isinstance(found, MalformedProposal)
    assert found.detail == f"{detail}; a proposal is one object on one line"


@pytest.mark.parametrize("text", ["01934f3e7c0070008000000000000001", "{01934f3e-7c00-7000-8000-000000000001}", "1"])
def test_an_id_that_is_written_in_another_way_then_malformed_with_the_way(text: str) -> None:
    found = parse_proposal(json.dumps({**proposal(), "proposal_id": text}))
    assert isinstance(found, MalformedProposal)
    form = "01934f3e-7c00-7000-8000-000000000001"
    assert found.detail == f'proposal_id: "{text}" is no UUID as text, such as {form}'


@pytest.mark.parametrize(
    ("line", "says_nothing"), [("", True), (" \n", True), ("\ufeff\r\n", True), ("\ufeff{}\n", False)]
)
def test_a_line_when_it_holds_no_more_than_blanks_or_a_byte_order_mark_then_says_nothing(
    line: str, says_nothing: bool
) -> None:
    assert is_blank(line) is is_blank(line.encode()) is says_nothing
