"""Links between logs in memory: what they bring, how they say it, and when they stop (rules.md 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from logs_of_sites import site

from commitlog.domain import model as m
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.errors import ConfigurationError, FencedError, LinkStoppedError, SiteWentBackError
from commitlog.sites.forwarding import Forwarded
from commitlog.sites.join import Join
from commitlog.sites.link import Link, LinkProgress, names_before
from commitlog.sites.proposing import in_runs, propose_ahead
from commitlog.testing import InMemoryCommitLog

KEYED = {"id": "int64", "v": "varchar", "w": "varchar"}


@pytest.fixture
def a() -> InMemoryCommitLog:
    log = site("a", 1)
    with log.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"], unique=[["w"]])
    return log


@pytest.fixture
def b(a: InMemoryCommitLog) -> InMemoryCommitLog:
    log = site("b", 2)
    bring(a, log)
    return log


def bring(source: InMemoryCommitLog, target: InMemoryCommitLog) -> LinkProgress:
    return Link(source, target).run(follow=False)


def change(log: InMemoryCommitLog, *changes: tuple[str, Any], base: int | None = None) -> None:
    """Insert, update or delete rows, each (kind, row or key)."""
    with log.transaction(base_snapshot_id=base) as tx:
        for kind, row in changes:
            if kind == "insert":
                tx.insert_row("main.k", row)
            elif kind == "update":
                tx.update_row("main.k", {"id": row["id"]}, row)
            else:
                tx.delete_row("main.k", {"id": row})


def rows(log: InMemoryCommitLog) -> dict[str, Any]:
    [table] = [each for each in log._memory._state.tables.values() if each.name == "k"]
    assert table.rows is not None
    return {key: version.image and version.image["v"] for key, version in table.rows.live.items()}


def as_it_was(log: InMemoryCommitLog, seq: int) -> InMemoryCommitLog:
    """Another log of the same site, which holds what it had decided up to an outcome."""
    kept = log.outcomes[:seq]
    times = iter([kept[0].decided_at_ms, *(outcome.decided_at_ms for outcome in kept)])
    restored = InMemoryCommitLog(clock_ms=lambda: next(times, kept[-1].decided_at_ms))
    for outcome in kept:
        assert outcome.proposal is not None
        restored.submit(outcome.proposal)
    return restored


def last_changes(log: InMemoryCommitLog) -> tuple[m.Change, ...]:
    proposal = log.outcomes[-1].proposal
    assert proposal is not None
    return proposal.changes


def row(key: int, v: str, w: str | None = None) -> dict[str, Any]:
    return {"id": key, "v": v, "w": w}


def test_link_when_rows_change_then_brings_each_with_where_and_when_it_was_made(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    change(a, ("insert", row(1, "x")), ("insert", row(2, "y")))
    change(a, ("update", row(1, "z")), ("delete", 2))
    progress = bring(a, b)
    assert (progress.brought, progress.row_changes, progress.left_out) == (2, 4, 0)
    assert rows(b) == {"1": "z"}
    made = a.outcomes[-1]
    origin = m.RowOrigin("a", 4, made.decided_at_ms, 1)
    assert last_changes(b) == (
        m.UpdateRow("main", "k", {"id": 1}, row(1, "z"), made.decided_at_ms * 1000, origin),
        m.DeleteRow("main", "k", {"id": 2}, made.decided_at_ms * 1000, origin),
    )
    proposal = b.outcomes[-1].proposal
    assert proposal is not None
    assert (proposal.writer_id, proposal.writer_seq) == ("link:a", 4)


def test_link_when_begun_again_then_goes_on_where_it_was(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    change(a, ("insert", row(1, "x")))
    assert bring(a, b).brought == 1
    assert bring(a, b).brought == 0
    change(a, ("update", row(1, "y")))
    assert bring(a, b).brought == 1


def test_link_when_it_came_by_another_way_then_is_passed_by(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    c = site("c", 3)
    change(a, ("insert", row(1, "x")))
    assert (bring(a, b).brought, bring(a, c).brought) == (1, 2)
    change(c, ("update", row(1, "y")))
    progress = bring(c, b)
    assert (progress.brought, progress.own) == (1, 2)
    assert rows(b) == {"1": "y"}


def test_link_in_a_mesh_when_the_makers_own_link_was_first_then_proposes_nothing(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    c = site("c", 3)
    bring(a, c)
    around = Link(b, c)
    change(a, ("insert", row(1, "x")))
    change(a, ("insert", row(2, "x")))
    bring(a, b)
    bring(a, c)
    before = len(c.outcomes)
    assert around.run(follow=False).brought == 0
    assert len(c.outcomes) == before


def test_link_when_a_second_one_begins_then_the_first_is_fenced(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    first = Link(a, b)
    second = Link(a, b)
    change(a, ("insert", row(1, "x")))
    with pytest.raises(FencedError, match="another link from a to b"):
        first.run(follow=False)
    assert second.run(follow=False).brought == 1


def test_links_when_both_sites_write_the_same_row_then_one_stands_and_each_side_tells(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    change(a, ("insert", row(1, "from a")))
    change(b, ("insert", row(1, "from b")))
    assert bring(a, b).brought == 1
    back = bring(b, a)
    # What b took over from a is not sent back.
    assert (back.brought, back.own) == (1, 2)
    assert rows(a) == rows(b) == {"1": "from a"}
    told = [(str(r.kind), str(r.action), r.committed_row, r.proposed_row) for r in b.outcomes[-1].resolutions]
    assert told == [("INSERT_INSERT", "APPLIED", row(1, "from b"), row(1, "from a"))]
    assert [str(each.action) for each in a.outcomes[-1].resolutions] == ["SKIPPED"]


def test_link_when_what_is_changed_is_a_view_then_leaves_it_out_and_counts(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_view("main.w", "SELECT 1")
    with a.transaction() as tx:
        tx.replace_view("main.w", "SELECT 2")
    before = b.head_snapshot_id()
    progress = bring(a, b)
    assert (progress.brought, progress.left_out) == (0, 2)
    assert b.head_snapshot_id() == before + 1, "the link's epoch alone"


def test_link_when_definitions_change_then_brings_them(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    with a.transaction() as tx:
        tx.create_schema("s")
        tx.create_table("s.n", KEYED, primary_key=["id"])
    with a.transaction() as tx:
        tx.rename_table("s.n", "o")
    with a.transaction() as tx:
        tx.insert_row("s.o", row(1, "x"))
    with a.transaction() as tx:
        tx.drop_table("s.o")
        tx.drop_schema("s")
    assert bring(a, b).brought == 4
    assert not any(each.name == "s" and each.dropped_at is None for each in b._memory._state.schemas.values())


def test_link_when_a_schema_ends_in_which_the_target_has_a_view_then_stops_until_that_is_dropped(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_schema("s")
        tx.create_view("s.of_a", "SELECT 1")
    bring(a, b)
    with b.transaction() as tx:
        tx.create_view("s.of_b", "SELECT 1")
    with a.transaction() as tx:
        tx.drop_schema("s", cascade=True)
    with pytest.raises(LinkStoppedError, match="not empty"):
        bring(a, b)
    with b.transaction() as tx:
        tx.drop_view("s.of_b")
    assert bring(a, b).brought == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_links_when_a_default_changes_at_one_site_then_rows_have_that_of_the_site_that_made_them(keyed: bool) -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.d", {"id": "int64", "v": "varchar"}, primary_key=["id"] if keyed else [])
    with a.transaction() as tx:
        tx.alter("main.d").set_default("v", "first")
    bring(a, b)
    with b.transaction() as tx:
        tx.alter("main.d").set_default("v", "second").add_column("w", "varchar", default="of older rows")
    with b.transaction() as tx:
        tx.alter("main.d").set_default("w", None)
        tx.insert_row("main.d", {"id": 3})
    with a.transaction() as tx:
        tx.insert_row("main.d", {"id": 1})
    with a.transaction() as tx:
        tx.insert_row("main.d", {"ID": 2, "V": None})
    for source, target in ((a, b), (b, a), (a, b)):
        bring(source, target)
    expected = [("first", "of older rows"), (None, "of older rows"), ("second", None)]
    for log in (a, b):
        found = sorted(log.table("main.d").scan().to_arrow().to_pylist(), key=lambda each: each["id"])
        assert [(each["v"], each["w"]) for each in found] == expected


def test_link_when_a_default_is_no_number_that_json_holds_then_says_it_as_text() -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.d", {"id": "int64", "f": "float64", "u": "uint64"}, primary_key=["id"])
    with a.transaction() as tx:
        tx.alter("main.d").set_default("f", "nan").set_default("u", str(2**64 - 1))
        tx.insert_row("main.d", {"id": 1})
    bring(a, b)
    [told] = last_changes(b)[1:]
    assert isinstance(told, m.InsertRow)
    assert told.row == {"id": 1, "f": "nan", "u": "18446744073709551615"}
    assert bring(a, b).brought == 0


def test_link_when_a_key_column_is_widened_then_brings_keys_of_the_new_type() -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.k", {"id": "int32", "v": "varchar"}, primary_key=["id"], partition_by=["v"])
    with a.transaction() as tx:
        tx.alter("main.k").set_type("id", "int64")
        tx.insert_row("main.k", {"id": 5_000_000_000})
    with a.transaction() as tx:
        tx.update_row("main.k", {"id": 5_000_000_000}, {"id": 5_000_000_000, "v": "x"})
    bring(a, b)
    assert rows(b) == {"5000000000": "x"}
    with a.transaction() as tx:
        tx.alter("main.k").set_partition_by(["id"]).drop_column("v").add_column("v", "varchar")
        tx.update_row("main.k", {"id": 5_000_000_000}, {"id": 5_000_000_000, "v": "y"})
    bring(a, b)
    assert rows(b) == {"5000000000": "y"}


def test_links_when_both_sites_widen_a_column_then_both_go_on(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    with a.transaction() as tx:
        tx.create_table("main.n", {"id": "int64", "n": "int16"}, primary_key=["id"])
    bring(a, b)
    for log, steps in ((a, ["int32"]), (b, ["int32", "int64"])):
        for step in steps:
            with log.transaction() as tx:
                tx.alter("main.n").set_type("n", step)
    bring(a, b)
    bring(b, a)
    for log in (a, b):
        assert str(log.table("main.n").scan().to_arrow().schema.field("n").type) == "int64"


def test_link_when_a_key_changes_then_says_the_end_of_the_old_row_and_a_new_one(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    change(a, ("insert", row(1, "x")))
    with a.transaction() as tx:
        tx.update_row("main.k", {"id": 1}, row(2, "y"))
    bring(a, b)
    assert [str(each.kind) for each in last_changes(b)] == ["DELETE_ROW", "INSERT_ROW"]
    assert rows(b) == {"2": "y"}


@pytest.mark.parametrize("kind", ["update", "delete", "another key"])
def test_links_when_a_row_gets_another_key_while_another_site_changes_it_then_both_tell_update_key(
    a: InMemoryCommitLog, b: InMemoryCommitLog, kind: str
) -> None:
    change(a, ("insert", row(1, "x")))
    bring(a, b)
    with a.transaction() as tx:
        tx.update_row("main.k", {"id": 1}, row(2, "moved"))
    if kind == "update":
        change(b, ("update", row(1, "changed")))
    elif kind == "delete":
        change(b, ("delete", 1))
    else:
        with b.transaction() as tx:
            tx.update_row("main.k", {"id": 1}, row(3, "moved elsewhere"))
    bring(a, b)
    bring(b, a)
    assert rows(a) == rows(b) == {"2": "moved"}
    told = ["UPDATE_KEY 1", "UPDATE_KEY 3"] if kind == "another key" else ["UPDATE_KEY 1"]
    for log in (a, b):
        assert sorted(f"{each.kind} {each.object.row_key}" for each in log.outcomes[-1].resolutions) == told
    restarted = load_state(dump_state(a._memory._state))
    assert state_hash(restarted) == state_hash(a._memory._state)
    # Whoever gives the old key to a new row knew of both.
    change(a, ("insert", row(1, "anew")))
    bring(a, b)
    assert b.outcomes[-1].resolutions == ()
    assert rows(b) == {"1": "anew", "2": "moved"}


def test_link_when_a_row_was_moved_and_deleted_under_both_keys_then_an_end_that_is_a_move_is_remembered_as_one(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    c, d = site("c", 3), site("d", 4)
    change(a, ("insert", row(1, "x")))
    for other in (b, c, d):
        bring(a, other)
    change(b, ("update", row(1, "from b")))
    with c.transaction() as tx:
        tx.update_row("main.k", {"id": 1}, row(2, "moved"))
    change(d, ("delete", 1))
    bring(d, a)
    bring(c, a)
    bring(b, a)
    assert [str(each.kind) for each in a.outcomes[-1].resolutions] == ["UPDATE_KEY"]
    late = site("e", 5)
    Join(a, late).run()
    bring(b, late)
    change(b, ("update", row(1, "again")))
    bring(b, late)
    assert [str(each.kind) for each in late.outcomes[-1].resolutions] == ["UPDATE_KEY"]


def test_link_when_an_insert_displaced_another_row_then_brings_the_end_of_that_too(b: InMemoryCommitLog) -> None:
    source = site("c", on_conflict="LAST_UPDATE_WINS")
    with source.transaction() as tx:
        tx.create_table("main.l", KEYED, primary_key=["id"], unique=[["w"]])
    base = source.head_snapshot_id()
    with source.transaction() as tx:
        tx.insert_row("main.l", row(1, "x", "same"), row_time_us=1)
    with source.transaction(base_snapshot_id=base) as tx:
        tx.insert_row("main.l", row(2, "y", "same"), row_time_us=2)
    with source.transaction(base_snapshot_id=base) as tx:
        tx.insert_row("main.l", row(3, "z", "same"), row_time_us=1)
    bring(source, b)
    # The third was skipped: it is not brought at all.
    assert [str(each.kind) for each in last_changes(b)] == ["DELETE_ROW", "INSERT_ROW"]


def test_link_when_the_key_of_a_displaced_row_is_used_again_in_the_same_snapshot_then_brings_that_row_alone(
    b: InMemoryCommitLog,
) -> None:
    source = site("c")
    with source.transaction() as tx:
        tx.create_table("main.n", KEYED)
        tx.create_table(
            "main.l", KEYED, primary_key=["id"], unique=[["w"]], properties={"on_conflict": "LAST_UPDATE_WINS"}
        )
    late = source.transaction()
    for each in (row(1, "x", "same"), row(4, "x", "another")):
        with source.transaction() as tx:
            tx.insert_row("main.l", each)
    late.insert_row("main.l", row(2, "y", "same"))
    late.insert_row("main.l", row(3, "y", "another"))
    late.insert_row("main.l", row(1, "z"))
    late.insert_row("main.n", row(1, "n"))
    late.commit()
    bring(source, b)
    assert [str(each.kind) for each in last_changes(b)] == ["INSERT_ROW", "DELETE_ROW"] + ["INSERT_ROW"] * 3
    assert b.table("main.n").scan().to_arrow().to_pylist() == [row(1, "n")]
    expected = [row(1, "z"), row(2, "y", "same"), row(3, "y", "another")]
    for log in (source, b):
        assert sorted(log.table("main.l").scan().to_arrow().to_pylist(), key=lambda each: each["id"]) == expected


def test_link_when_the_outcome_was_shortened_then_brings_which_rows_were_ended_all_the_same() -> None:
    a, b = site("a", 1, proposal_bytes_max=100_000), site("b", 2)
    with a.transaction() as tx:
        tx.create_table(
            "main.k", KEYED, primary_key=["id"], unique=[["w"]], properties={"on_conflict": "LAST_UPDATE_WINS"}
        )
    bring(a, b)
    base = a.head_snapshot_id()
    for number in range(4):
        change(a, ("insert", row(number, "x" * 90_000, str(number))))
    change(a, *(("insert", row(number, "late")) for number in (0, 1)), ("insert", row(9, "late", "2")), base=base)
    told = a.outcomes[-1].resolutions
    assert [each.committed_row for each in told] == [None, None, {"id": 2}]
    bring(a, b)
    assert rows(b) == rows(a) == {"0": "late", "1": "late", "3": "x" * 90_000, "9": "late"}


def test_link_when_a_handler_settled_a_row_then_brings_what_it_said(b: InMemoryCommitLog) -> None:
    source = site("c", handlers={"join": lambda _, mine, theirs: {**mine, "v": mine["v"] + theirs["v"]}})
    with source.transaction() as tx:
        tx.create_table("main.k2", KEYED, primary_key=["id"], properties={"on_conflict": "handler:join"})
    base = source.head_snapshot_id()
    for value in "xy":
        with source.transaction(base_snapshot_id=base) as tx:
            tx.insert_row("main.k2", row(1, value))
    with pytest.raises(LinkStoppedError, match="not installed"):
        bring(source, b)
    other = site("d", handlers={"join": lambda *_: None})
    bring(source, other)
    [change] = last_changes(other)
    assert isinstance(change, m.UpdateRow)
    assert change.row["v"] == "xy"


def test_link_when_rows_get_other_keys_then_the_count_of_changes_is_not_limited() -> None:
    source, target = site("c", changes_max=2), site("d", changes_max=2)
    with source.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"])
        tx.insert_row("main.k", row(1, "x"))
    with source.transaction() as tx:
        tx.insert_row("main.k", row(2, "y"))
    with source.transaction() as tx:
        tx.update_row("main.k", {"id": 1}, row(3, "x"))
        tx.update_row("main.k", {"id": 2}, row(4, "y"))
    bring(source, target)
    assert len(last_changes(target)) == 4
    late = site("e", changes_max=2)
    Join(source, late).run()
    assert rows(target) == rows(late) == {"3": "x", "4": "y"}


@pytest.mark.parametrize("by", ["link", "join"])
def test_link_when_a_snapshot_is_too_large_there_then_names_the_setting_and_goes_on_once_it_is_raised(by: str) -> None:
    source, target = site("c"), site("d", proposal_bytes_max=2_000)
    with source.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"])
    for each in (row(1, "x"), row(2, "x" * 3_000), row(3, "x")):
        with source.transaction() as tx:
            tx.insert_row("main.k", each)
    stops_at = 4 if by == "link" else source.head_snapshot_id()
    for _ in range(2):
        with pytest.raises(
            LinkStoppedError, match=rf"{stops_at} of c: .* limit of d is 2,000. Raise proposal_bytes_max"
        ):
            bring(source, target) if by == "link" else Join(source, target).run()
        assert list(rows(target)) == ["1"]
    with target.transaction() as tx:
        tx.configure(proposal_bytes_max=10_000)
    bring(source, target) if by == "link" else Join(source, target).run()
    assert list(rows(target)) == ["1", "2", "3"]


def test_link_when_the_other_site_has_another_table_of_that_name_then_stops_and_goes_on_once_that_is_mended(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    for log in (a, b):
        with log.transaction() as tx:
            tx.create_table("main.both", KEYED, primary_key=["id"])
    change(a, ("insert", row(1, "x")))
    met = r"stops at snapshot 3 of a: INVALID.*both.*; at b main\.both was changed last by its snapshot 4 \(CREATE_TABLE\) of"
    with pytest.raises(LinkStoppedError, match=met) as stopped:
        bring(a, b)
    assert stopped.value.snapshot_id == 3
    assert rows(b) == {}
    with b.transaction() as tx:
        tx.rename_table("main.both", "mine")
    with a.transaction() as tx:
        tx.create_table("main.other", KEYED, primary_key=["id"])
        tx.drop_table("main.both")
    with b.transaction() as tx:
        tx.create_table("main.third", KEYED, primary_key=["id"])
    with a.transaction() as tx:
        tx.rename_table("main.other", "third")
    with pytest.raises(LinkStoppedError, match=r"third was changed last by its snapshot"):
        bring(a, b)
    with b.transaction() as tx:
        tx.drop_table("main.third")
    assert bring(a, b).brought == 1
    assert rows(b) == {"1": "x"}


def test_link_when_both_sites_made_a_table_if_it_was_not_there_then_stops_for_they_are_two(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    for log, key in ((a, "id"), (b, "v")):
        with log.transaction() as tx:
            tx.create_table("main.two", {"id": "int64", "v": "varchar"}, primary_key=[key], if_not_exists=True)
    with pytest.raises(LinkStoppedError, match=r"table main\.two already exists"):
        bring(a, b)


def test_link_when_another_row_holds_a_unique_value_then_one_is_held_back_at_both_and_the_rest_goes_on(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    change(a, ("insert", row(1, "x", "w")))
    change(b, ("insert", row(2, "y", "w")), ("insert", row(3, "z")))
    bring(a, b)
    bring(b, a)
    assert rows(a) == rows(b) == {"1": "x", "3": "z"}
    change(b, ("delete", 2))
    bring(b, a)
    change(a, ("delete", 1))
    bring(a, b)
    assert rows(a) == rows(b) == {"3": "z"}


def test_link_when_one_of_many_is_refused_then_none_after_it_is_taken_and_the_next_link_sends_one_alone(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.l", KEYED, primary_key=["id"])
    bring(a, b)
    with b.transaction() as tx:
        tx.drop_table("main.l")
    change(a, ("insert", row(1, "x")))
    with a.transaction() as tx:
        tx.insert_row("main.l", row(2, "x"))
    change(a, ("insert", row(3, "x")))
    change(a, ("insert", row(4, "x")))
    no_table, too_early = m.InvalidCode.TABLE_MISSING, m.InvalidCode.DIGEST_AHEAD
    for brought, refused in ((1, [no_table, too_early, too_early, no_table]), (0, [no_table])):
        before = len(b.outcomes)
        with pytest.raises(LinkStoppedError, match="stops at snapshot 5 of a"):
            bring(a, b)
        opened, *answers = b.outcomes[before:]
        assert opened.writer_id == "link:a"
        assert [each.invalid_code for each in answers] == [None] * brought + refused
        assert list(rows(b)) == ["1"]
    with b.transaction() as tx:
        tx.create_table("main.l", KEYED, primary_key=["id"], properties={"replicated": "false"})
    assert bring(a, b).brought == 3
    assert rows(b) == dict.fromkeys("134", "x")


def test_runs_when_a_digest_names_the_one_before_then_go_together_and_definitions_alone() -> None:
    def forwarded(text: str) -> Forwarded:
        node, tick = text[0], int(text[1:].rstrip("!"))
        change = m.CreateSchema("s") if text.endswith("!") else m.DeleteRow("main", "k", {"id": 1})
        made = m.Replicated(node, tick, ())
        return Forwarded(tick, 0, made, (change,), m.Proposal(bytes(16), "w", 0, ()), 0, made)

    news = ["a1", "a2", "c3", "c4", "a5", "d6", "a7!", "a8", "a9"]
    runs = in_runs(map(forwarded, news), partial(names_before, "a"))
    found = [[f"{each.replicated.node}{each.snapshot_id}" for each in run] for run in runs]
    # What c made is not named by what a had made before it took that over.
    assert found == [["a1", "a2"], ["c3", "c4", "a5"], ["d6"], ["a7"], ["a8", "a9"]]


def test_propose_ahead_when_one_is_refused_then_it_is_left_and_all_that_were_not_sent() -> None:
    class Target:
        def publish_many(self, sent: Iterable[int], *, in_flight_max: int) -> Iterator[SimpleNamespace]:
            return (SimpleNamespace(committed=each != 2) for each in sent)

    taken: list[int] = []
    left = propose_ahead(
        cast(Any, Target()), [1, 2, 3, 4], cast(Any, lambda each: each), lambda each, _: taken.append(each)
    )
    assert (taken, left) == ([1], [2, 3, 4])


def test_link_when_a_log_is_no_node_or_the_same_one_then_says_what_to_do(a: InMemoryCommitLog) -> None:
    for source, target in ((a, InMemoryCommitLog()), (InMemoryCommitLog(), a)):
        with pytest.raises(ConfigurationError, match="commitlog node NAME"):
            Link(source, target)
    with pytest.raises(ConfigurationError, match="both logs are node 'a'"):
        Link(a, site("a"))


def test_link_when_the_source_went_back_then_the_target_refuses_its_new_snapshots(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    link = Link(a, site("b", 2))
    change(b, ("insert", row(5, "b")))
    bring(b, a)
    change(a, ("update", row(5, "a")))
    with pytest.raises(LinkStoppedError, match="one of the two logs is older than it was"):
        link.run(follow=False)


@pytest.mark.parametrize("since", [0, 4])
def test_link_when_the_target_was_restored_then_is_refused_and_what_that_has_written_since_stays(
    a: InMemoryCommitLog, b: InMemoryCommitLog, since: int
) -> None:
    for key in (1, 2, 3):
        change(b, ("insert", row(key, "b")))
    bring(b, a)
    change(a, ("update", row(1, "a")))
    restored = as_it_was(b, 3)
    for key in range(1, 1 + since):
        change(restored, ("insert", row(key, "since")))
    with pytest.raises(SiteWentBackError, match=r"snapshot 6 of b is not what it was.*the log of b is older"):
        bring(a, restored)
    assert rows(restored) == {str(key): "since" for key in range(1, 1 + since)}
    assert bring(a, b).brought == 1


@pytest.mark.parametrize("since", [0, 1, 5])
def test_link_when_the_source_was_restored_then_is_refused_however_much_it_has_written_since(
    b: InMemoryCommitLog, a: InMemoryCommitLog, since: int
) -> None:
    for key in (1, 2, 3):
        change(a, ("insert", row(key, "x")))
    bring(a, b)
    restored = as_it_was(a, 3)
    for key in range(2, 2 + since):
        change(restored, ("insert", row(key, "y")))
    before = rows(b)
    with pytest.raises(
        SiteWentBackError, match=r"snapshot 5 of a is not what it was.*Start that site anew.*another name"
    ):
        bring(restored, b)
    assert rows(b) == before
    other = site("a2", 1)
    assert Link(b, other).run(follow=False).brought == 4
    assert rows(other) == before


def test_link_when_the_source_was_restored_and_others_brought_what_the_target_has_of_it_then_is_refused_too(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    restored = site("b", 2)
    bring(a, restored)
    change(b, ("insert", row(1, "x")))
    bring(b, a)
    c = site("c", 3)
    bring(a, c)
    for key in range(10, 15):
        change(restored, ("insert", row(key, "of another history")))
    with pytest.raises(SiteWentBackError):
        Link(restored, c)
    change(b, ("insert", row(2, "y")))
    assert bring(b, c).brought == 1


@pytest.mark.parametrize("is_target", [False, True])
def test_link_when_a_site_was_restored_without_what_another_link_brought_last_then_is_refused_and_else_goes_on(
    a: InMemoryCommitLog, b: InMemoryCommitLog, is_target: bool
) -> None:
    c = site("c", 3)
    bring(a, c)
    change(b, ("insert", row(1, "b")))
    bring(b, c)
    restored = as_it_was(b, len(b.outcomes))
    pair = (c, restored) if is_target else (restored, c)
    Link(*pair)
    change(b, ("insert", row(2, "lost")))
    bring(b, a)
    bring(a, c)
    for key in (3, 4):
        change(restored, ("insert", row(key, "since")))
    with pytest.raises(SiteWentBackError, match=r"snapshot 5 of b is not what it was.*the log of b is older"):
        Link(*pair)
    Link(b, c)
    Link(c, b)


def test_link_when_the_target_forgot_the_details_of_what_it_took_over_then_goes_on_all_the_same(
    a: InMemoryCommitLog,
) -> None:
    target = site("b", 2)
    change(a, ("insert", row(1, "x")))
    bring(a, target)
    writer = target._memory._state.writer("link:a")
    assert writer is not None
    writer.answers.clear()
    change(a, ("insert", row(2, "x")))
    assert bring(a, target).brought == 1


@pytest.mark.parametrize("last", ["its own rows", "its own definition", "what a third site made"])
def test_link_when_it_is_begun_again_then_replays_no_log(
    a: InMemoryCommitLog, b: InMemoryCommitLog, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(b, ("insert", row(7, "b")))
    bring(b, a)
    change(a, ("insert", row(1, "x")))
    if last == "its own definition":
        with a.transaction() as tx:
            tx.create_table("main.l", KEYED, primary_key=["id"])
    elif last == "what a third site made":
        third = site("c", 3)
        bring(a, third)
        change(third, ("insert", row(3, "c")))
        bring(third, a)
    bring(a, b)

    def replayed(seq: int) -> None:
        raise AssertionError(f"a log is replayed to {seq}")

    for log in (a, b):
        monkeypatch.setattr(log._memory, "state_before", replayed)
    change(a, ("update", row(1, "y")), ("delete", 7))
    assert bring(a, b).brought == 1
    assert "1" in rows(b)
    assert "7" not in rows(b)
    assert b.outcomes[-1].resolutions == ()


def test_link_when_the_source_has_let_its_last_snapshot_expire_then_knows_what_was_dropped_since(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.l", KEYED, primary_key=["id"])
    change(a, ("insert", row(1, "x")))
    bring(a, b)
    with a.transaction() as tx:
        tx.drop_table("main.l")
    with a.transaction() as tx:
        tx.expire_snapshots(a.head_snapshot_id())
    assert bring(a, b).brought == 1
    assert b.tables() == ["main.k"]


def test_link_from_another_log_that_made_the_same_definition_then_is_not_taken_for_the_first(
    b: InMemoryCommitLog,
) -> None:
    other = site("c", 3)
    with other.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"], unique=[["w"]])
    with pytest.raises(LinkStoppedError, match="stops at snapshot 2 of c"):
        bring(other, b)


def test_row_when_it_changes_again_while_its_link_says_what_it_was_then_is_kept_as_it_is(
    a: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = site("late", 2, window_snapshots=1)
    change(a, ("insert", row(1, "first")))
    bring(a, late)

    def write(v: str) -> None:
        change(late, ("update", row(1, v)))
        for key in (7, 8):
            change(late, ("insert", row(key, "other")) if key not in map(int, rows(late)) else ("delete", key))

    write("old")
    change(a, ("update", row(1, "a's")))
    submit, sent = late.submit, list[m.Proposal]()

    def submitted(proposal: m.Proposal, **options: Any) -> Any:
        if proposal.replicated is not None and proposal.replicated.displaced and not sent:
            sent.append(proposal)
            write("new")
        return submit(proposal, **options)

    monkeypatch.setattr(late, "submit", submitted)
    bring(a, late)
    assert len(sent) == 1
    [told] = late.outcomes[-1].resolutions
    assert (told.kind, told.committed_row) == (m.ConflictKind.UPDATE_UPDATE, row(1, "new"))
