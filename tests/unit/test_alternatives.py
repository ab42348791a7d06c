"""What would have let a refused proposal through: each answer is the core's own, in the state the proposal met."""

from __future__ import annotations

from typing import Any

import pytest
from deciding import (
    DecidedLog,
    alter,
    append,
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

from commitlog.domain.again.alternatives import (
    Alternative,
    ListedFiles,
    NarrowerReads,
    Rebase,
    SnapshotIsolation,
    TableRule,
    Without,
    alternatives_to,
)
from commitlog.domain.again.noting_handlers import NotingHandlers
from commitlog.domain.deciding.decide import find_conflicts
from commitlog.domain.deciding.rules import AS_SET, OtherRules, Rules
from commitlog.domain.model import ColumnStatistics, Granularity, Isolation, Outcome
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import SequencerState, new_state
from commitlog.domain.state.replaying import replay

COLUMNS = "id int64, d date, v varchar"
SERIALIZABLE: dict[str, Any] = {"isolation": "SERIALIZABLE"}


def dated(first: str, last: str, **more: Any) -> dict[str, Any]:
    """A file whose statistics say from which day to which it goes."""
    column = {"column": "d", "min": first, "max": last, "null_count": 0, "value_count": 10, **more}
    return data_file(statistics=[column])


def state_before(log: DecidedLog, outcome: Outcome) -> SequencerState:
    state = new_state(log.genesis)
    for each in log.outcomes[: outcome.seq - 1]:
        replay(state, each)
    return state


def tried(log: DecidedLog, outcome: Outcome) -> tuple[Alternative, ...]:
    """The alternatives, after a check that asking changes nothing and gives the same answer twice."""
    state = state_before(log, outcome)
    before = state_hash(state)
    found = alternatives_to(state, outcome)
    assert alternatives_to(state, outcome) == found
    assert state_hash(state) == before
    return found


def passing(log: DecidedLog, outcome: Outcome) -> dict[str, bool | None]:
    """Whether each alternative passes, by a short name."""
    return {" + ".join(_short(each) for each in a.variations): a.passes for a in tried(log, outcome)}


def _short(variation: object) -> str:
    match variation:
        case Rebase(base_snapshot_id=base):
            return f"rebase {base}"
        case NarrowerReads(narrowings=found):
            return "narrower " + ", ".join(f"{n.predicate.column} {n.predicate.op} {n.predicate.value}" for n in found)
        case ListedFiles(deleted_from=files):
            return f"files without {', '.join(map(str, files))}"
        case TableRule(names=names, rules=rules):
            return f"{rules.granularity or rules.on_conflict} {', '.join('.'.join(name) for name in names)}"
        case SnapshotIsolation():
            return "snapshot"
        case Without(changes=changes, reads=reads):
            return f"without {list(changes)} {list(reads)}"
    raise AssertionError(variation)


def log_with_files(**settings: Any) -> DecidedLog:
    """Table t with file 0 of early and file 1 of late January."""
    log = DecidedLog(**settings)
    log.commit(create_table(columns=COLUMNS))
    log.commit(append(dated("2024-01-01", "2024-01-15"), dated("2024-01-16", "2024-01-31")))
    return log


# --- files ------------------------------------------------------------------------------------------------------------


def test_alternatives_when_other_rows_of_the_file_were_deleted_then_row_granularity_passes() -> None:
    log = log_with_files()
    log.commit(delete({0: [1]}), base=2)
    refused = log.conflict("TABLE_DELETED_FROM@3", on=delete({0: [2]}), base=2)
    assert passing(log, refused) == {"rebase 3": True, "ROW main.t": True}


def test_alternatives_when_the_same_rows_were_deleted_then_only_leaving_the_change_out_passes() -> None:
    log = log_with_files()
    log.commit(delete({0: [1, 2]}), base=2)
    refused = log.conflict("TABLE_DELETED_FROM@3", on=[delete({0: [2]}), append(table="t")], base=2)
    assert passing(log, refused) == {"rebase 3": False, "ROW main.t": False, "without [0] []": True}
    because = {alternative.because for alternative in tried(log, refused) if alternative.passes is False}
    assert any("(row 2)" in str(text) for text in because)
    assert any("deleted already" in str(text) for text in because)


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [(1, {"FILE main.t": True}), (0, {"FILE main.t": False, "ROW main.t": True})],
)
def test_alternatives_when_a_whole_table_is_compared_then_as_fine_as_is_needed(
    deleted: int, expected: dict[str, bool]
) -> None:
    log = log_with_files(conflict_granularity=Granularity.TABLE)
    log.commit(delete({deleted: [1]}), base=2)
    refused = log.conflict("TABLE_DELETED_FROM@3", on=delete({0: [2]}), base=2)
    assert passing(log, refused) == {"rebase 3": True, **expected}


def test_alternatives_when_the_table_has_its_own_granularity_then_it_is_the_one_that_is_varied() -> None:
    log = log_with_files(conflict_granularity=Granularity.ROW)
    log.commit(alter("SET_PROPERTY", key="conflict_granularity", value="FILE"))
    log.commit(delete({0: [1]}), base=3)
    refused = log.conflict("TABLE_DELETED_FROM@4", on=delete({0: [2]}), base=3)
    assert passing(log, refused) == {"rebase 4": True, "ROW main.t": True}


def test_alternatives_when_a_delete_file_touches_every_row_then_no_granularity_passes() -> None:
    log = log_with_files()
    log.commit(delete({0: [1]}), base=2)
    refused = log.conflict("TABLE_DELETED_FROM@3", on=delete_file(0, [2]), base=2)
    assert passing(log, refused)["ROW main.t"] is False


def test_alternatives_when_the_table_was_altered_then_there_is_only_the_rebase() -> None:
    log = log_with_files()
    log.commit(alter("DROP_COLUMN", name="v"))
    refused = log.conflict("TABLE_ALTERED@3", on=append(), base=2)
    assert passing(log, refused) == {"rebase 3": True}


def test_alternatives_when_the_base_is_older_than_the_window_then_they_say_so() -> None:
    log = log_with_files(window_snapshots=2)
    for row in range(4):
        log.commit(delete({1: [row]}))
    refused = log.conflict("TABLE_DELETED_FROM@6", on=delete({0: [2]}), base=2)
    by_granularity = tried(log, refused)[-1]
    assert by_granularity.passes is False
    assert "older than snapshot 4" in str(by_granularity.because)


def test_alternatives_when_more_conflicts_were_found_than_listed_then_all_count() -> None:
    log = DecidedLog(conflicts_max=1)
    log.commit(create_table(columns=COLUMNS))
    log.commit(create_table("u", COLUMNS))
    log.commit(append(), append(table="u"))
    log.commit(delete({0: [1]}), delete({1: [1]}, table="u"))
    refused = log.refused("CONFLICT", delete({0: [2]}), delete({1: [2]}, table="u"), base=3)
    assert (len(refused.conflicts), refused.conflict_count) == (1, 2)
    assert passing(log, refused)["ROW main.t, main.u"] is True


# --- reads ------------------------------------------------------------------------------------------------------------


def read_after(log: DecidedLog, *files: dict[str, Any], read: dict[str, Any]) -> Outcome:
    """A proposal that read table t at the head, refused after files were appended."""
    base = log.head
    log.commit(append(*files))
    change = {"kind": "CREATE_SCHEMA", "schema": "s"}
    return log.refused("CONFLICT", change, base=base, reads=[read], **SERIALIZABLE)


@pytest.mark.parametrize(
    ("conjuncts", "narrower"),
    [
        ([], "d < 2024-02-01"),
        ([("d", ">=", "2024-01-20")], "d < 2024-02-01"),
        ([("d", ">", "2024-02-08")], "d > 2024-02-29"),
        ([("d", "<=", "2024-02-10")], "d < 2024-02-01"),
        ([("d", "between", ["2024-02-10", "2024-03-10"])], "d > 2024-02-29"),
        ([("d", "in", ["2024-01-02", "2024-02-10"])], "d < 2024-02-01"),
        ([("d", "=", "2024-02-10")], ""),
        ([("d", "is_not_null")], "d < 2024-02-01"),
        ([("v", "=", "x")], "d < 2024-02-01"),
    ],
)
def test_alternatives_when_files_were_appended_then_the_column_that_tells_them_apart(
    conjuncts: list[tuple[Any, ...]], narrower: str
) -> None:
    log = log_with_files()
    files = dated("2024-02-01", "2024-02-10"), dated("2024-02-05", "2024-02-29")
    refused = read_after(log, *files, read=read_table("t", *conjuncts))
    assert passing(log, refused) == {"rebase 3": True, f"narrower {narrower}": bool(narrower), "snapshot": True}
    if narrower:
        (narrowing,) = tried(log, refused)[1].variations[0].narrowings  # type: ignore[union-attr]
        assert (narrowing.low, narrowing.high) == ("2024-02-01", "2024-02-29")


def test_alternatives_when_older_files_were_appended_then_the_other_side() -> None:
    log = log_with_files()
    refused = read_after(log, dated("2023-12-01", "2023-12-31"), read=read_table())
    assert passing(log, refused)["narrower d > 2023-12-31"] is True


def test_alternatives_when_no_statistics_are_known_then_no_filter_would_have_helped() -> None:
    log = log_with_files()
    refused = read_after(log, dated("2024-02-01", "2024-02-10"), data_file(), read=read_table())
    assert passing(log, refused)["narrower "] is False


def test_alternatives_when_the_appended_files_overlap_what_was_read_then_no_other_column_is_named() -> None:
    log = log_with_files()
    refused = read_after(log, dated("2024-01-10", "2024-02-10"), read=read_table("t", ("id", "=", 1)))
    assert passing(log, refused)["narrower "] is False


def test_alternatives_when_the_appended_files_hold_only_null_then_is_not_null() -> None:
    log = log_with_files()
    refused = read_after(
        log,
        data_file(statistics=[{"column": "d", "null_count": 10, "value_count": 0}]),
        read=read_table("t", ("id", "=", 1)),
    )
    assert passing(log, refused)["narrower d is_not_null None"] is True


def test_alternatives_when_partition_values_tell_then_by_them() -> None:
    log = DecidedLog()
    log.commit(create_table(columns=COLUMNS, partition_by=[{"column": "v", "transform": "identity"}]))
    log.commit(append(data_file(partition_values=["a"])))
    refused = read_after(log, data_file(partition_values=["b"]), data_file(partition_values=["c"]), read=read_table())
    assert passing(log, refused)["narrower v < b"] is True


def test_alternatives_when_a_maximum_may_be_cut_then_nothing_above_it_is_promised() -> None:
    log = log_with_files()
    column = {"column": "v", "min": "aaaaaaaaaa", "max": "mmmmmmmmmm", "null_count": 0, "value_count": 10}
    refused = read_after(log, data_file(statistics=[column]), read=read_table("t", ("v", ">=", "b")))
    assert passing(log, refused)["narrower "] is False


def test_alternatives_when_numbers_may_hold_nan_then_nothing_above_them_is_promised() -> None:
    log = DecidedLog()
    log.commit(create_table(columns="id int64, x float64"))
    log.commit(append())
    column = {"column": "x", "min": 1.5, "max": 2.5, "null_count": 0, "value_count": 10}
    above = read_after(log, data_file(statistics=[column]), read=read_table("t", ("x", ">", 2.0)))
    assert passing(log, above)["narrower "] is False
    exact = {**column, "contains_nan": False}
    above = read_after(log, data_file(statistics=[exact]), read=read_table("t", ("x", ">", 2.0)))
    assert passing(log, above)["narrower x > 2.5"] is True


def test_alternatives_when_a_read_asks_for_null_then_no_range_is_offered() -> None:
    log = log_with_files()
    file = dated("2024-02-01", "2024-02-10", null_count=1, value_count=9)
    refused = read_after(log, file, read=read_table("t", ("d", "is_null")))
    assert passing(log, refused)["narrower "] is False
    only_null = data_file(statistics=[{"column": "d", "null_count": 10, "value_count": 0}])
    refused = read_after(log, only_null, read=read_table("t", ("d", "is_null")))
    assert passing(log, refused)["narrower "] is False


def test_alternatives_when_statistics_are_opaque_then_the_decoder_is_asked() -> None:
    log = log_with_files()
    refused = read_after(log, data_file(), read=read_table())
    assert refused.proposal is not None
    state = state_before(log, refused)
    (table,) = state.tables.values()
    table.appended.files[-1].file = table.appended.files[-1].file.replace(statistics=b"opaque")
    column = ColumnStatistics("d", "2024-02-01", "2024-02-10", 0, 10)
    found = alternatives_to(state, refused, decode_statistics=lambda _: (column,))
    assert _short(found[1].variations[0]) == "narrower d < 2024-02-01"
    assert alternatives_to(state, refused)[1].passes is False


def test_alternatives_when_a_read_lists_its_files_then_only_those_tell_where_it_was() -> None:
    log = DecidedLog()
    log.commit(create_table(columns=COLUMNS))
    log.commit(append(dated("2024-01-01", "2024-01-31"), dated("2024-03-01", "2024-03-31")))
    appended = dated("2024-02-01", "2024-02-10")
    assert passing(log, read_after(log, appended, read=read_table()))["narrower "] is False
    refused = read_after(log, appended, read=read_table(files=[1]))
    assert passing(log, refused)["narrower d > 2024-02-10"] is True


def test_alternatives_when_a_listed_file_was_deleted_from_then_listing_is_no_way_out() -> None:
    log = log_with_files()
    log.commit(delete({1: [1]}))
    change = {"kind": "CREATE_SCHEMA", "schema": "s"}
    refused = log.refused("CONFLICT", change, base=2, reads=[read_table(files=[1])], **SERIALIZABLE)
    assert passing(log, refused) == {"rebase 3": True, "snapshot": True}


def test_alternatives_when_what_was_read_was_altered_as_well_then_no_filter_is_offered() -> None:
    log = log_with_files()
    log.commit(alter("DROP_COLUMN", name="v"))
    log.commit(append(dated("2024-02-01", "2024-02-10")))
    change = {"kind": "CREATE_SCHEMA", "schema": "s"}
    refused = log.refused("CONFLICT", change, base=2, reads=[read_table()], **SERIALIZABLE)
    assert passing(log, refused) == {"rebase 4": True, "narrower ": False, "snapshot": True}


def test_alternatives_when_partition_values_are_null_or_cannot_be_compared_then_only_what_is_certain() -> None:
    log = DecidedLog()
    by = [{"column": name, "transform": kind} for name, kind in (("d", "month"), ("v", "identity"), ("b", "identity"))]
    log.commit(create_table(columns=f"{COLUMNS}, b blob", partition_by=by))
    log.commit(append(data_file(partition_values=[1, "a", "00"])))
    file = data_file(partition_values=[2, None, "01"])
    refused = read_after(log, file, read=read_table("t", ("id", "=", 1)))
    assert passing(log, refused) == {"rebase 3": True, "narrower v is_not_null None": True, "snapshot": True}


def test_alternatives_when_only_the_maximum_is_known_then_only_above_it() -> None:
    log = log_with_files()
    column = {"column": "d", "max": "2024-02-10", "null_count": 0, "value_count": 10}
    refused = read_after(log, data_file(statistics=[column]), read=read_table("t", ("d", ">=", "2024-01-20")))
    assert passing(log, refused)["narrower d > 2024-02-10"] is True


def test_alternatives_when_two_reads_met_files_then_both_are_narrowed() -> None:
    log = log_with_files()
    log.commit(create_table("u", COLUMNS))
    log.commit(append(dated("2024-02-01", "2024-02-10")), append(dated("2024-03-01", "2024-03-10"), table="u"), base=3)
    reads = [read_table(), read_table("u")]
    refused = log.refused("CONFLICT", {"kind": "CREATE_SCHEMA", "schema": "s"}, base=3, reads=reads, **SERIALIZABLE)
    assert passing(log, refused)["narrower d < 2024-02-01, d < 2024-03-01"] is True


def test_alternatives_when_what_was_read_was_deleted_from_then_listing_the_files_passes() -> None:
    log = log_with_files()
    log.commit(delete({1: [1]}))
    refused = log.refused(
        "CONFLICT", {"kind": "CREATE_SCHEMA", "schema": "s"}, base=2, reads=[read_table()], **SERIALIZABLE
    )
    assert passing(log, refused) == {"rebase 3": True, "files without 1": True, "snapshot": True}


def test_alternatives_when_nothing_alone_passes_then_the_smallest_combination_that_does() -> None:
    log = log_with_files(conflict_granularity=Granularity.TABLE)
    log.commit(append(dated("2024-02-01", "2024-02-10")), delete({1: [1]}))
    refused = log.refused("CONFLICT", delete({0: [1]}), base=2, reads=[read_table()], **SERIALIZABLE)
    found = passing(log, refused)
    assert [name for name, passes in found.items() if passes] == [
        "rebase 3",
        "narrower d < 2024-02-01 + files without 1 + FILE main.t",
    ]
    assert found["snapshot"] is False


def test_alternatives_when_a_combination_keeps_the_isolation_then_it_is_told_before_snapshot() -> None:
    log = log_with_files()
    log.commit(append(dated("2024-02-01", "2024-02-10")), delete({1: [1]}))
    change = {"kind": "CREATE_SCHEMA", "schema": "s"}
    refused = log.refused("CONFLICT", change, base=2, reads=[read_table()], **SERIALIZABLE)
    assert [name for name, passes in passing(log, refused).items() if passes] == [
        "rebase 3",
        "narrower d < 2024-02-01 + files without 1",
        "snapshot",
    ]


def test_alternatives_when_one_of_two_reads_met_something_then_leaving_it_out_is_one() -> None:
    log = log_with_files()
    log.commit(create_table("u", COLUMNS))
    log.commit(append(dated("2024-02-01", "2024-02-10")))
    reads = [read_table("u"), read_table()]
    refused = log.refused("CONFLICT", {"kind": "CREATE_SCHEMA", "schema": "s"}, base=3, reads=reads, **SERIALIZABLE)
    assert passing(log, refused)["without [] [1]"] is True


# --- rows -------------------------------------------------------------------------------------------------------------


def log_with_row(handlers: dict[str, Any] | None = None, **table: Any) -> DecidedLog:
    log = DecidedLog(handlers)
    log.commit(keyed_table(columns="id int64, v varchar, u varchar", unique=[["u"]], **table))
    log.commit(insert(id=1, v="a", u="x"))
    return log


def test_alternatives_when_rows_met_then_the_policies_that_settle_it() -> None:
    log = log_with_row()
    log.commit(update(1, v="b", u="x"))
    refused = log.conflict("UPDATE_UPDATE@3", on=update(1, v="c", u="x"), base=2)
    expected = {"rebase 3": True, "LAST_UPDATE_WINS main.k": True, "KEEP_EXISTING main.k": True}
    assert passing(log, refused) == expected


def test_alternatives_when_a_key_was_changed_then_no_policy_settles_it() -> None:
    log = log_with_row()
    log.commit(update(1, v="b", u="x"))
    change = {**update(1), "row": {"id": 2, "v": "a", "u": "x"}}
    refused = log.conflict("UPDATE_KEY@3", on=change, base=2)
    found = passing(log, refused)
    assert found["LAST_UPDATE_WINS main.k"] is False
    assert found["KEEP_EXISTING main.k"] is False


def test_alternatives_when_a_parent_row_went_then_no_policy_is_tried() -> None:
    log = log_with_row()
    reference = {"columns": ["p"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}
    log.commit(keyed_table("c", "id int64, p int64", foreign_keys=[reference]))
    log.commit(delete_row(1))
    refused = log.conflict("FOREIGN_KEY@4", on=insert("c", id=1, p=1), base=3)
    assert passing(log, refused) == {"rebase 4": False}


def test_alternatives_when_the_base_of_a_row_is_older_than_the_window_then_the_policies_say_so() -> None:
    log = DecidedLog(window_snapshots=2)
    log.commit(keyed_table())
    for number in range(4):
        log.commit(insert(id=number, v="a"))
    refused = log.conflict("TABLE_ROWS_CHANGED@5", on=insert(id=9, v="a"), base=1)
    found = tried(log, refused)
    assert [each.passes for each in found] == [True, False, False]
    assert "older than snapshot 3" in str(found[1].because)


def test_alternatives_when_a_handler_failed_then_it_is_not_asked_and_other_policies_pass() -> None:
    asked: list[str] = []

    def fail(kind: str, *_: object) -> None:
        asked.append(kind)
        raise ValueError("no")

    log = log_with_row({"f": fail}, on_conflict="handler:f")
    log.commit(update(1, v="b", u="x"))
    refused = log.conflict("UPDATE_UPDATE@3", on=update(1, v="c", u="x"), base=2)
    assert passing(log, refused)["LAST_UPDATE_WINS main.k"] is True
    assert len(asked) == 1


def test_alternatives_when_a_handler_would_decide_then_it_is_not_known() -> None:
    log = log_with_row({"f": lambda _, __, proposed: proposed}, on_conflict="handler:f")
    log.commit(create_table(columns=COLUMNS))
    (file,) = log.propose(append()).assigned.data_file_ids
    log.commit(update(1, v="b", u="x"), delete({file: [1]}))
    refused = log.conflict("TABLE_DELETED_FROM@5", on=[update(1, v="c", u="x"), delete({file: [2]})], base=4)
    by_granularity = next(each for each in tried(log, refused) if isinstance(each.variations[0], TableRule))
    assert (by_granularity.passes, by_granularity.handlers) == (None, ("f",))


# --- other rules ------------------------------------------------------------------------------------------------------


def test_rules_when_others_are_given_for_tables_then_the_rest_keep_their_own() -> None:
    log = DecidedLog(on_conflict="KEEP_EXISTING")
    log.commit(create_table())
    log.commit(keyed_table("k", on_conflict="LAST_UPDATE_WINS"))
    first, second = log.state.tables.values()
    other = OtherRules(granularity=Granularity.ROW, on_conflict="ABORT", tables=frozenset({first.table_id}))
    rules = Rules(others=(other,))
    assert [rules.granularity_since(log.state, table, 1) for table in (first, second)] == [
        Granularity.ROW,
        Granularity.FILE,
    ]
    assert [rules.policy_of(log.state, table) for table in (first, second)] == ["ABORT", "LAST_UPDATE_WINS"]
    assert AS_SET.policy_of(log.state, first) == "KEEP_EXISTING"


def test_rules_when_several_others_are_given_then_the_last_one_counts() -> None:
    log = DecidedLog()
    log.commit(create_table())
    (table,) = log.state.tables.values()
    others = tuple(
        OtherRules(granularity=each, on_conflict=policy)
        for each, policy in ((Granularity.TABLE, "ABORT"), (Granularity.ROW, "KEEP_EXISTING"), (None, None))
    )
    rules = Rules(others=others)
    assert (rules.granularity_since(log.state, table, 1), rules.policy_of(log.state, table)) == ("ROW", "KEEP_EXISTING")


def test_rules_when_the_base_is_beyond_the_window_then_only_whole_tables_are_told_apart() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(create_table())
    log.commit(append())
    log.commit(append())
    (table,) = log.state.tables.values()
    rules = Rules(others=(OtherRules(granularity=Granularity.ROW),))
    assert [rules.granularity_since(log.state, table, base) for base in (1, 2)] == [Granularity.TABLE, Granularity.ROW]


def test_rules_when_another_isolation_is_given_then_reads_are_judged_by_it() -> None:
    log = DecidedLog()
    log.commit(create_table())
    log.commit(append())
    read = {"kind": "TABLE", "schema": "main", "table": "t", "filter": []}
    proposal = log.propose(append(), base=1, reads=[read]).proposal
    assert proposal is not None
    assert not OtherRules()
    assert find_conflicts(log.state, proposal) == ()
    assert find_conflicts(log.state, proposal, rules=Rules(others=(OtherRules(),))) == ()
    serializable = Rules(others=(OtherRules(isolation=Isolation.SERIALIZABLE), OtherRules()))
    assert [each.kind for each in find_conflicts(log.state, proposal, rules=serializable)] == ["TABLE_APPENDED"]


def test_noting_handlers_when_asked_in_vain_then_names_are_kept() -> None:
    handlers = NotingHandlers({"a": lambda *_: None})
    assert handlers.handler("a", 0) is not None
    assert [handlers.handler(name, 0) for name in ("z", "b", "z")] == [None] * 3
    assert handlers.missing == ("b", "z")
    assert handlers.may_be_named("c"), "whether a table may ask for it is known only where the log is decided"
    assert handlers.missing == ("b", "z")
