"""Rows that sites hold back: how they are told, and what settles each at all sites (rules.md 6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner
from logs_of_sites import site

from commitlog import ForeignKeySpec
from commitlog.domain import model as m
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.errors import InvalidRequestError, ProposalRejectedError
from commitlog.ops.cli import cli, divergent
from commitlog.sites.divergence import DivergentRow, divergent_row, divergent_rows, take_local, take_remote, write
from commitlog.sites.join import Join
from commitlog.sites.link import Link
from commitlog.testing import InMemoryCommitLog

Pair = tuple[InMemoryCommitLog, InMemoryCommitLog]


def settle(*logs: InMemoryCommitLog) -> None:
    """Bring everything everywhere."""
    while sum(Link(a, b).run(follow=False).brought for a in logs for b in logs if a is not b):
        pass


def users(log: InMemoryCommitLog) -> dict[int, str]:
    return {row["id"]: row["mail"] for row in log.table("main.users").scan().to_arrow().to_pylist()}


@pytest.fixture
def sites() -> Pair:
    """Two sites: user 1 of the first stands, user 2 of the second asks for the same mail, user 3 for a city that has gone."""
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.cities", {"name": "varchar"}, primary_key=["name"])
        tx.create_table(
            "main.users",
            {"id": "int64", "mail": "varchar", "city": "varchar"},
            primary_key=["id"],
            unique=[["mail"]],
            foreign_keys=[ForeignKeySpec(("city",), "main", "cities", ("name",))],
        )
        tx.insert_row("main.cities", {"name": "Nara"})
    settle(a, b)
    with a.transaction() as tx:
        tx.insert_row("main.users", {"id": 1, "mail": "ann"})
        tx.delete_row("main.cities", {"name": "Nara"})
    with b.transaction() as tx:
        tx.insert_row("main.users", {"id": 2, "mail": "ann"})
        tx.insert_row("main.users", {"id": 3, "mail": "bob", "city": "Nara"})
    settle(a, b)
    return a, b


def told(log: InMemoryCommitLog) -> list[tuple[Any, ...]]:
    return [
        (row.key, str(row.kind), row.node, [met.row for met in row.met], row.missing) for row in divergent_rows(log)
    ]


def held(log: InMemoryCommitLog, key: int) -> DivergentRow:
    return divergent_row(log, "main.users", {"id": key})


def test_divergent_rows_when_asked_at_any_site_then_the_same_with_what_they_met(sites: Pair) -> None:
    a, b = sites
    first = {"id": 1, "mail": "ann", "city": None}
    assert told(a) == told(b)
    assert told(a) == [({"id": 2}, "UNIQUE", "b", [first], ()), ({"id": 3}, "FOREIGN_KEY", "b", [], ("main.cities",))]
    assert divergent_rows(InMemoryCommitLog()) == []


def test_rows_held_back_whose_keys_differ_by_where_a_comma_stands_then_views_have_each() -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table(
            "main.t", {"x": "varchar", "y": "varchar", "v": "int64"}, primary_key=["x", "y"], unique=[["v"]]
        )
    settle(a, b)
    for log, keys in ((a, [("o", "p"), ("q", "r")]), (b, [("x, y", "z"), ("x", "y, z")])):
        with log.transaction() as tx:
            for v, (x, y) in enumerate(keys):
                tx.insert_row("main.t", {"x": x, "y": y, "v": v})
    settle(a, b)
    for log in (a, b):
        assert {row.row_key for row in log.access.contents().held_rows(9)} == {'"x, y", z', 'x, "y, z"'}


@pytest.mark.parametrize("by", [0, 1])
def test_take_local_when_done_at_any_site_then_what_stood_stays_everywhere(sites: Pair, by: int) -> None:
    take_local(sites[by], held(sites[by], 2))
    take_local(sites[by], held(sites[by], 3))
    settle(*sites)
    assert [(users(log), told(log)) for log in sites] == [({1: "ann"}, [])] * 2


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("again", [False, True])
def test_table_when_it_is_dropped_together_with_what_held_a_row_back_then_is_gone_everywhere(
    sites: Pair, by: int, again: bool
) -> None:
    with sites[by].transaction() as tx:
        tx.delete_row("main.users", {"id": 1})
        tx.drop_table("main.users")
        if again:
            tx.create_table("main.users", {"id": "int64", "mail": "varchar"}, primary_key=["id"])
            tx.insert_row("main.users", {"id": 2, "mail": "new"})
    settle(*sites)
    for log in sites:
        assert divergent_rows(log) == []
        assert log.access.contents().held_rows(9) == []
        assert "main.users" in log.tables() if again else log.tables() == ["main.cities"]
        assert state_hash(load_state(dump_state(log._memory._state))) == state_hash(log._memory._new_decider().state)


ALTERED = pytest.mark.parametrize(
    ("alter", "left"),
    [
        (lambda steps: steps.rename_column("note", "remark"), {"remark": "kept"}),
        (lambda steps: steps.rename_column("note", "x").add_column("note", "varchar"), {"x": "kept", "note": None}),
        (lambda steps: steps.drop_column("note"), {}),
        (lambda steps: steps.add_column("n", "int64", default=5), {"note": "kept", "n": 5}),
    ],
)


@ALTERED
@pytest.mark.parametrize("is_first", [False, True])
def test_a_row_when_it_stands_in_the_snapshot_that_alters_its_table_then_is_as_the_table_is(
    alter: Callable[[Any], Any], left: dict[str, Any], is_first: bool
) -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table(
            "main.users", {"id": "int64", "mail": "varchar", "note": "varchar"}, primary_key=["id"], unique=[["mail"]]
        )
    settle(a, b)
    for key, log in enumerate((a, b)):
        with log.transaction() as tx:
            tx.insert_row("main.users", {"id": key, "mail": "ann", "note": "kept"})
    settle(a, b)
    with a.transaction() as tx:
        if is_first:
            alter(tx.alter("main.users"))
        tx.delete_row("main.users", {"id": 0})
        if not is_first:
            alter(tx.alter("main.users"))
    settle(a, b)
    for log in (a, b):
        assert log.table("main.users").scan().to_arrow().to_pylist() == [{"id": 1, "mail": "ann"} | left]
        [table] = [each for each in log._memory._state.tables.values() if each.name == "users"]
        assert table.rows is not None
        assert table.rows.live["1"].image == {"id": 1, "mail": "ann"} | left
        assert state_hash(load_state(dump_state(log._memory._state))) == state_hash(log._memory._new_decider().state)


@ALTERED
def test_a_rival_when_it_stands_in_the_snapshot_that_alters_its_table_then_is_as_the_table_is(
    alter: Callable[[Any], Any], left: dict[str, Any]
) -> None:
    a, b, c = site("a", 1), site("b", 2), site("c", 3)
    with a.transaction() as tx:
        tx.create_table("main.users", {"id": "int64", "mail": "varchar", "note": "varchar"}, primary_key=["id"])
    settle(a, b, c)
    for log, other in ((a, c), (b, a)):
        with log.transaction() as tx:
            tx.insert_row("main.users", {"id": 1, "mail": "of the first", "note": "kept"})
        Link(log, other).run(follow=False)
    with c.transaction() as tx:
        alter(tx.alter("main.users"))
        tx.update_row("main.users", {"id": 1}, {"id": 1, "mail": "of one who did not know the second"})
    Link(c, a).run(follow=False)
    assert a.table("main.users").scan().to_arrow().to_pylist() == [{"id": 1, "mail": "of the first"} | left]
    assert state_hash(load_state(dump_state(a._memory._state))) == state_hash(a._memory._new_decider().state)


@pytest.mark.parametrize("by", [0, 1])
def test_take_remote_when_done_at_any_site_then_the_other_row_stands_everywhere(sites: Pair, by: int) -> None:
    take_remote(sites[by], held(sites[by], 2))
    settle(*sites)
    assert [users(log) for log in sites] == [{2: "ann"}] * 2


@pytest.mark.parametrize("by", [0, 1])
def test_write_when_done_at_any_site_then_the_row_given_stands_everywhere(sites: Pair, by: int) -> None:
    write(sites[by], held(sites[by], 2), {"id": 2, "mail": "ann2"})
    write(sites[by], held(sites[by], 3), {"id": 4, "mail": "bob"})
    settle(*sites)
    assert [(users(log), told(log)) for log in sites] == [({1: "ann", 2: "ann2", 4: "bob"}, [])] * 2


@pytest.mark.parametrize("way", [take_local, take_remote, lambda log, row: write(log, row, {**row.row, "mail": "bob"})])
def test_a_row_when_its_tables_name_has_dots_or_quotes_then_is_settled(way: Callable[..., int]) -> None:
    a, b = site("A", 1), site("B", 2)
    name = '"s.1"."a ""quoted"" name"'
    with a.transaction() as tx:
        tx.create_schema("s.1")
        tx.create_table(name, {"id": "int64", "mail": "varchar"}, primary_key=["id"], unique=[["mail"]])
    Link(a, b).run(follow=False)
    for key, log in enumerate((a, b)):
        with log.transaction() as tx:
            tx.insert_row(name, {"id": key, "mail": "ann"})
    settle(a, b)
    [row] = divergent_rows(a)
    assert row.name == name
    way(a, divergent_row(a, row.name, row.key))
    settle(a, b)
    assert divergent_rows(a) == divergent_rows(b) == []


def test_write_when_the_row_has_the_key_of_the_one_that_it_met_then_stands_for_both(sites: Pair) -> None:
    write(sites[1], held(sites[1], 2), {"ID": 1, "mail": "both"})
    settle(*sites)
    assert [users(log) for log in sites] == [{1: "both"}] * 2


@pytest.mark.parametrize(
    ("kind", "first", "second", "forms"),
    [
        ("uuid", "550e8400-e29b-41d4-a716-44665544000a", "550e8400-e29b-41d4-a716-44665544000B", str.swapcase),
        ("decimal(5,2)", "1.50", "2.5", lambda text: Decimal(text).normalize()),
        ("timestamptz", "2024-01-01 00:00:00+00", "2024-01-02T02:00:00+02:00", datetime.fromisoformat),
    ],
)
def test_a_row_when_its_key_is_given_in_another_form_then_is_found_and_written(
    kind: str, first: str, second: str, forms: Callable[[str], Any]
) -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.users", {"id": kind, "mail": "varchar"}, primary_key=["id"], unique=[["mail"]])
    settle(a, b)
    for log, key in ((a, first), (b, second)):
        with log.transaction() as tx:
            tx.insert_row("main.users", {"id": key, "mail": "ann"})
    settle(a, b)
    row = divergent_row(a, "main.users", {"id": forms(second)})
    write(a, row, {"id": forms(second), "mail": "bob"})
    with b.transaction() as tx:
        tx.update_row("main.users", {"id": first}, {"id": first, "mail": "bob"})
    settle(a, b)
    [row] = divergent_rows(b)
    [met] = row.met
    assert met.key is not None
    write(b, row, {"id": forms(str(met.key["id"])), "mail": "both"})
    settle(a, b)
    assert [list(users(log).values()) for log in (a, b)] == [["both"]] * 2


def test_divergent_rows_when_one_has_null_where_none_may_be_then_listed_and_settled_all_the_same() -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.k", {"id": "int64", "x": "int64", "v": "varchar"}, primary_key=["id"], unique=[["x"]])
    settle(a, b)
    with b.transaction() as tx:
        tx.insert_row("main.k", {"id": 2, "x": 7})
    with b.transaction() as tx:
        tx.alter("main.k").set_nullable("v", False)
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "x": 7, "v": "y"})
    Link(a, b).run(follow=False)
    [row] = divergent_rows(b)
    assert (row.row, [met.key for met in row.met]) == ({"id": 2, "x": 7, "v": None}, [{"id": 1}])
    take_local(b, row)
    assert divergent_rows(b) == []


def test_divergent_rows_when_a_row_has_a_time_beyond_pythons_years_then_listed_without_it(sites: Pair) -> None:
    a, b = sites
    for log, key in ((a, 4), (b, 5)):
        with log.transaction() as tx:
            tx.insert_row("main.users", {"id": key, "mail": "cy"}, row_time_us=m.TIME_US_MAX)
    settle(a, b)
    for log in sites:
        assert {row.key["id"]: row.made_at is None for row in divergent_rows(log)} == {2: False, 3: False, 5: True}


def test_take_remote_when_the_row_waits_for_its_parent_then_says_what_to_insert(sites: Pair) -> None:
    a, _ = sites
    with pytest.raises(InvalidRequestError, match=r"insert that into main\.cities, and it stands"):
        take_remote(a, held(a, 3))
    with a.transaction() as tx:
        tx.insert_row("main.cities", {"name": "Nara"})
    settle(*sites)
    assert [users(log) for log in sites] == [{1: "ann", 3: "bob"}] * 2


def test_settling_when_the_row_has_changed_since_then_refused(sites: Pair) -> None:
    a, _ = sites
    seen = held(a, 2)
    with a.transaction() as tx:
        tx.update_row("main.users", {"id": 1}, {"id": 1, "mail": "other"})
    for settling in (take_local, take_remote):
        with pytest.raises(ProposalRejectedError):
            settling(a, seen)
    assert users(a) == {1: "other", 2: "ann"}


def test_take_remote_when_what_is_in_the_way_has_left_the_window_then_says_what_to_do() -> None:
    a, b = site("a", 1, window_snapshots=3), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.users", {"id": "int64", "mail": "varchar"}, primary_key=["id"], unique=[["mail"]])
    settle(a, b)
    for log, key in ((a, 1), (b, 2)):
        with log.transaction() as tx:
            tx.insert_row("main.users", {"id": key, "mail": "ann"})
    Link(b, a).run(follow=False)
    for key in range(10, 15):
        with a.transaction() as tx:
            tx.insert_row("main.users", {"id": key})
    assert told(a) == [({"id": 2}, "UNIQUE", "b", [None], ())]
    with pytest.raises(InvalidRequestError, match="before the log's window: delete it by its key"):
        take_remote(a, held(a, 2))


# --- rows that get another key ----------------------------------------------------------------------------------------


@pytest.fixture
def moved() -> Pair:
    """Two sites: each has given user 1 another key; 2 of the first stands, 3 of the second is held back."""
    a, b = site("a", 1), site("b", 2)
    begin(a, b)
    move(a, 1, 2)
    move(b, 1, 3)
    settle(a, b)
    return a, b


def begin(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    """Both have user 1."""
    with a.transaction() as tx:
        tx.create_table("main.users", {"id": "int64", "mail": "varchar"}, primary_key=["id"])
        tx.insert_row("main.users", {"id": 1, "mail": "ann"})
    settle(a, b)


def move(log: InMemoryCommitLog, key: int, to: int, mail: str = "ann") -> None:
    with log.transaction() as tx:
        tx.update_row("main.users", {"id": key}, {"id": to, "mail": mail})


def insert(log: InMemoryCommitLog, key: int, mail: str) -> None:
    with log.transaction() as tx:
        tx.insert_row("main.users", {"id": key, "mail": mail})


def seen(*logs: InMemoryCommitLog) -> tuple[dict[int, str], list[tuple[int, str]]]:
    """What stands and what is held back, the same at all sites; each of them has the same state when it is loaded again."""
    settle(*logs)
    found = [(users(log), [(row.key["id"], str(row.kind)) for row in divergent_rows(log)]) for log in logs]
    assert all(each == found[0] for each in found)
    for log in logs:
        state = log._memory._state
        assert state_hash(load_state(dump_state(state))) == state_hash(state)
    return found[0]  # type: ignore[return-value]


def test_row_when_two_sites_give_it_other_keys_then_one_is_held_back_at_both(moved: Pair) -> None:
    assert seen(*moved) == ({2: "ann"}, [(3, "UPDATE_KEY")])
    [row] = divergent_rows(moved[1])
    assert [(met.key, met.node) for met in row.met] == [({"id": 2}, "a")]


@pytest.mark.parametrize("by", [0, 1])
def test_moved_row_when_settled_by_each_way_then_that_stands_everywhere_and_keys_are_free_again(
    moved: Pair, by: int
) -> None:
    take_local(moved[by], held(moved[by], 3))
    assert seen(*moved) == ({2: "ann"}, [])
    insert(moved[1 - by], 3, "another")
    assert seen(*moved) == ({2: "ann", 3: "another"}, [])
    move(moved[0], 2, 4)
    move(moved[1], 2, 5)
    assert seen(*moved) == ({3: "another", 4: "ann"}, [(5, "UPDATE_KEY")])
    take_remote(moved[by], held(moved[by], 5))
    assert seen(*moved) == ({3: "another", 5: "ann"}, [])
    insert(moved[1 - by], 4, "new")
    move(moved[0], 5, 6)
    move(moved[1], 5, 7)
    assert seen(*moved)[1] == [(7, "UPDATE_KEY")]
    write(moved[by], held(moved[by], 7), {"id": 7, "mail": "both"})
    assert seen(*moved) == ({3: "another", 4: "new", 6: "ann", 7: "both"}, [])


def test_moved_row_when_the_other_one_is_written_or_the_old_key_used_again_then_stays_held_back(moved: Pair) -> None:
    a, b = moved
    insert(b, 1, "another")
    with a.transaction() as tx:
        tx.update_row("main.users", {"id": 2}, {"id": 2, "mail": "ann2"})
    assert seen(a, b) == ({1: "another", 2: "ann2"}, [(3, "UPDATE_KEY")])
    move(a, 2, 4)
    assert seen(a, b) == ({1: "another", 4: "ann"}, [(3, "UPDATE_KEY")])
    with b.transaction() as tx:
        tx.delete_row("main.users", {"id": 4})
    assert seen(a, b) == ({1: "another", 3: "ann"}, [])


def test_row_when_its_key_is_used_again_and_both_are_moved_then_they_are_two() -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.users", {"id": "int64", "mail": "varchar"}, primary_key=["id"])
    insert(a, 1, "ann")
    move(a, 1, 2)
    insert(a, 1, "bob")
    move(a, 1, 3, "bob")
    assert seen(a, b) == ({2: "ann", 3: "bob"}, [])


def test_row_when_moved_twice_or_back_while_another_site_moves_it_then_one_stands() -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.users", {"id": "int64", "mail": "varchar"}, primary_key=["id"])
        for key in (1, 10):
            tx.insert_row("main.users", {"id": key, "mail": "ann"})
    settle(a, b)
    move(a, 1, 2)
    move(a, 2, 4)
    move(b, 1, 3)
    move(a, 10, 11)
    move(a, 11, 10)
    move(b, 10, 12)
    # An end stands before any row: what came back to key 10 is gone.
    assert seen(a, b) == ({4: "ann", 12: "ann"}, [(3, "UPDATE_KEY")])


def test_row_when_moved_onto_a_key_that_another_site_inserts_then_the_one_that_lost_there_claims_nothing() -> None:
    a, b = site("a", 1), site("b", 0)
    begin(a, b)
    move(a, 1, 2)
    insert(b, 2, "bob")
    move(b, 1, 3)
    assert seen(a, b) == ({2: "bob", 3: "ann"}, [])


def test_row_when_an_update_of_it_stands_under_the_old_key_after_all_then_what_was_moved_is_held_back() -> None:
    a, b = site("a", 1), site("b", 0)
    begin(a, b)
    move(a, 1, 2)
    move(b, 1, 1, "ann of b")
    insert(a, 1, "another")  # It supersedes the end, and knows nothing of the update, which comes first.
    assert seen(a, b) == ({1: "ann of b"}, [(2, "UPDATE_KEY")])


def test_site_when_it_joins_then_knows_which_row_was_moved_and_refuses_what_would_come_after_it(moved: Pair) -> None:
    a, b = moved
    c = site("c", 3)
    Join(a, c).run()
    assert seen(a, b, c) == ({2: "ann"}, [(3, "UPDATE_KEY")])
    with pytest.raises(ProposalRejectedError, match=r"changed row 3 of .* \(which is held back, and comes first\)"):
        move(c, 2, 5)
    take_remote(c, held(c, 3))
    assert seen(a, b, c) == ({3: "ann"}, [])


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(sites: Pair, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `commitlog replicate ...` prints at the second site."""

    @contextmanager
    def opened(_: object) -> Iterator[InMemoryCommitLog]:
        yield sites[1]

    monkeypatch.setattr(divergent, "reading_log", opened)

    def run(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["replicate", *arguments], catch_exceptions=False).output

    return run


def test_divergent_command_when_asked_then_lists_the_rows_in_words_and_as_json(command: Any) -> None:
    text = command("divergent")
    stands = '{"id": 1, "mail": "ann", "city": null}'
    assert all(each in text for each in ('{"id": 2}', "UNIQUE", stands, "what it refers to in main.cities"))
    first, second = [json.loads(line) for line in command("divergent", "--json").splitlines()]
    assert (first["table"], first["key"], first["node"], first["met"][0]["key"]) == ("users", {"id": 2}, "b", {"id": 1})
    assert (second["kind"], second["missing"]) == ("FOREIGN_KEY", ["main.cities"])


def test_settle_command_when_each_way_is_taken_then_none_is_left(command: Any, sites: Pair) -> None:
    assert "settled by snapshot" in command("settle", "main.users", '{"id": 2}', "write", '{"id": 2, "mail": "ann2"}')
    assert json.loads(command("settle", "main.users", '{"id": 3}', "take-local", "--json"))["snapshot_id"]
    assert command("divergent") == "no row is held back\n"
    settle(*sites)
    with sites[0].transaction() as tx:
        tx.insert_row("main.users", {"id": 7, "mail": "eve"})
    with sites[1].transaction() as tx:
        tx.insert_row("main.users", {"id": 8, "mail": "eve"})
    settle(*sites)
    command("settle", "main.users", '{"id": 8}', "take-remote")
    assert users(sites[1]) == {1: "ann", 2: "ann2", 8: "eve"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ('{"id": 9}', "take-local"),
            r"no row \{'id': 9\} of table main\.users is held back; of all tables: main\.users",
        ),
        (("2", "take-local"), "KEY must be a JSON object"),
        (('{"id": 2}', "write", "{"), "ROW must be a JSON object"),
        (('{"id": 2}', "write"), "`write` needs a ROW"),
        (('{"id": 2}', "take-local", "{}"), "`write` needs a ROW"),
    ],
)
def test_settle_command_when_it_cannot_be_meant_so_then_says_what_to_do(
    command: Any, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        command("settle", "main.users", *arguments)


@pytest.mark.parametrize("option", ["--join", "--once"])
def test_replicate_when_called_as_a_service_with_what_ends_then_refused_not_ignored(command: Any, option: str) -> None:
    assert "neither --join nor --once" in command("--from", "paris", "--service", option)


def test_replicate_when_called_without_its_options_then_asks_for_them_and_names_what_is_below(command: Any) -> None:
    assert "--from" in command()
    assert "divergent" in command("--help")
    assert "No such command 'nothing'" in command("--from", "a", "--to", "b", "nothing")
