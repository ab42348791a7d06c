"""A log decided again: what is right passes, whole or in shares, and whatever was tampered with is found (rules.md 1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import (
    START_MS,
    DecidedLog,
    alter,
    append,
    change,
    create_table,
    delete,
    delete_row,
    insert,
    keyed_table,
    make_id,
    read_table,
    update,
)

from commitlog.domain.again.verifying import (
    Entities,
    TableTotals,
    Verifier,
    is_data_only,
    keyed_rows_added,
    thin,
    touched,
)
from commitlog.domain.deciding.decide import decide
from commitlog.domain.model import MalformedProposal, Outcome, Reason, Verdict
from commitlog.domain.model.records.proposal_json import proposal_from_json
from commitlog.domain.state.replaying import replay


def handler(kind: str, committed: Any, proposed: Any) -> Any:
    return {**proposed, "v": committed["v"] + proposed["v"]}


@pytest.fixture
def log() -> DecidedLog:
    """Tables t (files), k (rows, a handler decides), a table that is dropped again; commits, refusals, a repeat."""
    log = DecidedLog(handlers={"join": handler})
    log.commit(create_table(), create_table("gone"), append(table="gone"))
    log.commit(keyed_table(on_conflict="handler:join"))
    log.commit(append(), append())
    log.commit(insert(id=1, v="a"), insert(id=2, v="b"))
    log.commit(delete({1: [1, 2]}), base=3)
    log.conflict("TABLE_DELETED_FROM@5", on=delete({1: [3]}), base=4)
    log.commit(update(1, v="x"), base=4)
    log.commit(update(1, v="y"), delete_row(2), base=4)
    log.refused("INVALID", append(table="none"))
    log.propose(append(), id=make_id(3))
    log.commit(change("DROP_TABLE", "gone"))
    return log


def found(log: DecidedLog, at: int, **forged: Any) -> list[tuple[int, str]]:
    """What a verifier says of the log when the outcome with this seq is replaced by a forged one."""
    verifier = Verifier(log.genesis, decode_statistics=None)
    outcomes = (o.replace(**forged) if o.seq == at else o for o in log.outcomes)
    findings = (verifier.check(outcome) for outcome in outcomes)
    return [tuple(finding) for finding in findings if finding is not None]


def test_a_log_as_it_was_decided_then_nothing_is_found_and_its_tables_are_counted(log: DecidedLog) -> None:
    verifier = Verifier(log.genesis, decode_statistics=None)
    assert [verifier.check(outcome) for outcome in log.outcomes] == [None] * 11
    assert verifier.judged == 11
    assert sorted(verifier.totals()) == [
        TableTotals(1, "main.t", files=2, file_ids=3, rows=18, keyed_rows=0),
        TableTotals(3, "main.k", files=0, file_ids=0, rows=0, keyed_rows=1),
    ]


@pytest.mark.parametrize(
    ("seq", "forged", "what"),
    [
        (6, {"reason": Reason.INVALID}, "is REJECTED (INVALID), but the rules give REJECTED (CONFLICT)"),
        (10, {"verdict": Verdict.REJECTED}, "is REJECTED, but the rules give DUPLICATE"),
        (10, {"original_seq": 2}, "has original_seq 2, but the rules give 3"),
        (6, {"conflict_count": 2}, "has conflict_count 2, but the rules give 1"),
        (6, {"next_file_id": 9}, "leaves other counters of ids than the rules do"),
        (6, {"conflicts": ()}, "names other conflicts than the rules do"),
    ],
)
def test_an_outcome_that_was_tampered_with_then_found_by_its_seq(
    log: DecidedLog, seq: int, forged: dict, what: str
) -> None:
    assert found(log, seq, **forged) == [(seq, what)]


def test_a_resolution_that_was_tampered_with_then_found(log: DecidedLog) -> None:
    outcome = log.outcomes[7]
    (resolution,) = outcome.resolutions
    forged = (resolution.replace(committed_writer_id="other"),)
    assert found(log, 8, resolutions=forged) == [(8, "settles other conflicts than the rules do")]


def test_a_handlers_answer_that_is_lost_then_as_if_it_were_not_installed(log: DecidedLog) -> None:
    assert found(log, 8, resolutions=())[0] == (8, "is COMMITTED, but the rules give REJECTED (CONFLICT)")


def refused_though_a_handler_settled_some(*others: dict[str, Any]) -> DecidedLog:
    """The log's last outcome is the refusal of an update that a handler settles, and of these."""

    def settles_some(kind: str, committed: Any, proposed: Any) -> Any:
        if proposed["v"] == "bad":
            raise ValueError("what it is given")
        return handler(kind, committed, proposed)

    log = DecidedLog(handlers={"some": settles_some})
    log.commit(keyed_table(on_conflict="handler:some"), create_table())
    base = log.commit(*[insert(id=each, v="a") for each in range(4)])
    log.commit(*[update(each, v="b") for each in range(4)], alter("ADD_COLUMN", column={"name": "n", "type": "int64"}))
    log.refused("CONFLICT", update(1, v="c"), *others, base=base)
    return log


@pytest.mark.parametrize(
    "others", [(update(2, v="bad"),), (append(),), (update(2, v="d"), update(3, v="bad"), append())]
)
def test_a_refusal_though_a_handler_settled_some_of_it_then_nothing_is_found(
    others: tuple[dict[str, Any], ...],
) -> None:
    assert found(refused_though_a_handler_settled_some(*others), 0) == []


@pytest.mark.parametrize(
    ("answer", "changes", "kind"),
    [
        ({"id": 1, "v": "taken"}, (update(1, v="c"),), "UNIQUE"),
        ({"id": 1, "v": "a"}, (delete_row(1), insert(id=9, v="a")), "INSERT_INSERT"),
        ({"id": 1, "v": "a"}, (update(1, v="c"), update(3, v="a")), "UNIQUE"),
    ],
)
def test_a_refusal_for_what_a_handler_has_let_stand_then_nothing_is_found(
    answer: dict[str, Any], changes: tuple[dict[str, Any], ...], kind: str
) -> None:
    log = DecidedLog(handlers={"h": lambda _, committed, proposed: answer})
    log.commit(keyed_table(columns="id int64, v varchar, w int64", unique=[["v"]], on_conflict="handler:h"))
    base = log.commit(insert(id=1, v="a"), insert(id=2, v="b"), insert(id=3, v="c"))
    log.commit(update(3, v="d"))
    base = log.commit(update(3, v="e"))
    raced = log.commit(update(1, v="a", w=1), update(2, v="taken"))
    log.conflict(f"{kind}@{raced}", on=list(changes), base=base)
    assert found(log, 0) == []


def test_a_refusal_though_a_handler_settled_some_of_it_when_it_was_tampered_with_then_found() -> None:
    log = refused_though_a_handler_settled_some(update(2, v="bad"))
    [conflict] = log.outcomes[-1].conflicts
    seq = log.outcomes[-1].seq
    elsewhere = conflict.replace(object=conflict.object.replace(table_id=99))
    unraced = conflict.replace(object=conflict.object.replace(row_key="7"), committed_snapshot_id=1)
    for forged in (
        {"conflicts": ()},
        {"conflicts": (elsewhere,)},
        {"conflicts": (unraced,)},
        {"next_file_id": 99},
        {"reason": Reason.INVALID},
    ):
        assert [at for at, _ in found(log, seq, **forged)] == [seq]


def test_an_outcome_that_cannot_follow_then_found_and_the_state_is_left(log: DecidedLog) -> None:
    ((seq, what),) = found(log, 11, seq=12)
    assert seq == 12
    assert "cannot be applied to what was committed before it: outcome 12 does not follow 10" in what


def test_an_outcome_of_other_rules_or_of_no_proposal_then_applied_and_not_judged(log: DecidedLog) -> None:
    assert found(log, 6, rules_version=log.outcomes[5].rules_version + 1, reason=Reason.INVALID) == []
    malformed = decide(log.state, MalformedProposal("no JSON"), now_ms=START_MS + 50)
    replay(log.state, malformed)
    log.outcomes.append(malformed)
    assert thin(malformed) is malformed
    assert found(log, 0) == []


# --- shares -----------------------------------------------------------------------------------------------------------


def names_of(*changes: dict[str, Any], **fields: Any) -> list[str]:
    value = {"proposal_id": make_id(1), "writer_id": "w1", "base_snapshot_id": 0, "changes": list(changes), **fields}
    return list(touched(proposal_from_json(value)))


def view(kind: str) -> dict[str, Any]:
    return {"kind": kind, "schema": "S", "view": "V", **({} if kind == "DROP_VIEW" else {"sql": "SELECT 1"})}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{"kind": "DROP_SCHEMA", "schema": "S"}], ["s.*"]),
        ([change("RENAME_TABLE", "T", new_table="U")], ["main.t", "main.u"]),
        ([create_table("T")], ["main.t"]),
        (
            [keyed_table("c", foreign_keys=[{"columns": ["v"], "ref_schema": "S", "ref_table": "P", "ref_columns": ["x"]}])],
            ["main.c", "s.p"],
        ),
        ([view("CREATE_VIEW"), view("REPLACE_VIEW"), view("DROP_VIEW")], ["s.v"] * 3),
        ([{"kind": "CREATE_SCHEMA", "schema": "s"}], []),
        ([{"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 1}, {"kind": "CONFIGURE", "settings": {}}], []),
        ([append(table="T"), insert("K", id=1)], ["main.t", "main.k"]),
    ],
)  # fmt: skip
def test_the_names_that_a_proposal_looks_at(changes: list, names: list[str]) -> None:
    assert names_of(*changes) == names


def test_the_names_that_a_proposals_reads_look_at() -> None:
    reads = [
        read_table("T"),
        {"kind": "NAME", "schema": "S"},
        {"kind": "NAME", "schema": "S", "name": "X"},
        {"kind": "ROWS", "schema": "main", "table": "k", "keys": []},
    ]
    assert names_of(append(), reads=reads) == ["main.t", "main.t", "s.*", "s.x", "main.k"]


def test_names_that_were_looked_at_together_then_one_group_and_a_whole_schema_too() -> None:
    entities = Entities()
    for names in (["m.a", "m.b"], ["m.c"], ["m.d", "m.e"], ["m.b", "m.d"], ["s.x"], ["s.y", "s.*"], [], ["z.z"]):
        entities.add(names)
    assert entities.groups() == [["m.a", "m.b", "m.d", "m.e"], ["s.*", "s.x", "s.y"], ["m.c"], ["z.z"]]


def share(log: DecidedLog, judged: str) -> Iterator[Any]:
    """The findings of a share that judges one table and takes the others' outcomes thin."""
    verifier = Verifier(log.genesis, decode_statistics=None)
    for outcome in log.outcomes:
        assert outcome.proposal is not None
        if judged in touched(outcome.proposal):
            yield verifier.check(outcome)
        else:
            yield verifier.apply(thin(outcome), keyed_rows_added=keyed_rows_added(outcome))


@pytest.mark.parametrize("judged", ["main.t", "main.k", "main.none"])
def test_a_share_that_takes_the_others_thin_then_nothing_is_found(log: DecidedLog, judged: str) -> None:
    assert [finding for finding in share(log, judged) if finding is not None] == []


def test_an_outcome_of_contents_only_then_thin_it_changes_nothing_but_the_count(log: DecidedLog) -> None:
    def data_only(outcome: Outcome) -> bool:
        return is_data_only(outcome) and not thin(outcome).effects

    assert [o.seq for o in log.outcomes if data_only(o)] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [keyed_rows_added(outcome) for outcome in log.outcomes[3:8]] == [2, 0, 0, 0, -1]


@pytest.mark.parametrize("judged", ["main.t", "main.k"])
def test_definitions_and_contents_changed_together_then_a_share_takes_the_definitions_only(judged: str) -> None:
    log = DecidedLog()
    partition_by = [{"column": "x", "transform": "identity"}]
    log.commit(create_table(), keyed_table())
    log.commit(insert(id=1, v="a"))
    log.commit(append())
    log.commit(alter("ADD_COLUMN", "k", column={"name": "x", "type": "int8"}), update(1, v="b"))
    log.commit(
        alter("ADD_COLUMN", column={"name": "x", "type": "int8"}),
        delete({1: [1]}),
        alter("SET_PARTITION_BY", partition_by=partition_by),
    )
    log.commit(change("DELETE", whole_files=[1]), change("RENAME_TABLE", new_table="u"), create_table())
    assert [finding for finding in share(log, judged) if finding is not None] == []
