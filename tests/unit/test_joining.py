"""Sites that join late, told by another one as of a snapshot while all go on, that leave, and that were away (rules.md 6)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from logs_of_sites import site

from commitlog.client.ids import id_at
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.state.index import SequencerState
from commitlog.domain.state.row_keys import given_key, shown_key
from commitlog.errors import (
    ConfigurationError,
    FencedError,
    LinkStoppedError,
    ProposalRejectedError,
    ResultsTrimmedError,
    SiteAwayTooLongError,
    SiteWentBackError,
    TableNotBroughtError,
)
from commitlog.sites import displaced, link
from commitlog.sites.join import Join
from commitlog.sites.joining import JOIN
from commitlog.sites.link import Link, LinkProgress
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
    Link(a, log).run(follow=False)
    return log


def row(key: int, v: str, w: str | None = None) -> dict[str, Any]:
    return {"id": key, "v": v, "w": w}


def put(log: InMemoryCommitLog, *rows: dict[str, Any]) -> None:
    with log.transaction() as tx:
        for each in rows:
            tx.insert_row("main.k", each)


def change(log: InMemoryCommitLog, image: dict[str, Any]) -> None:
    with log.transaction() as tx:
        tx.update_row("main.k", {"id": image["id"]}, image)


def converge(logs: Sequence[InMemoryCommitLog]) -> None:
    """Links between all of them, until nothing is new."""
    for _ in range(len(logs)):
        for source, target in itertools.permutations(logs, 2):
            Link(source, target).run(follow=False)


def state(log: InMemoryCommitLog) -> SequencerState:
    return log._memory._state


def held(log: InMemoryCommitLog) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in state(log).tables.values():
        if table.rows is not None and table.dropped_at is None:
            found |= {f"{table.name} {key}": version.image for key, version in table.rows.held.items()}
    return found


def rows(log: InMemoryCommitLog, table: str = "main.k") -> list[dict[str, Any]]:
    found = log.table(table).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda each: str(each["id"]))


def test_join_when_others_go_on_then_holds_what_they_hold_and_all_meet_later(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    put(a, row(1, "a"), row(2, "a"))
    Link(a, b).run(follow=False)
    change(b, row(2, "b"))
    put(b, row(3, "b", "same"))
    Link(b, a).run(follow=False)
    late = site("c", 3)
    join = Join(a, late)
    change(a, row(1, "after the join has begun"))
    change(b, row(3, "b again", "same"))
    progress = join.run()
    assert (progress.source, progress.target, progress.told) == ("a", "c", 3)
    assert rows(late) == [row(1, "a"), row(2, "b"), row(3, "b", "same")]
    assert [each.resolutions for each in late.outcomes] == [()] * len(late.outcomes)
    change(late, row(2, "c"))
    put(late, row(4, "c"))
    converge([a, b, late])
    expected = [row(1, "after the join has begun"), row(2, "c"), row(3, "b again", "same"), row(4, "c")]
    assert rows(a) == rows(b) == rows(late) == expected
    assert state(a).digest.keys() == {"b", "c"}


def test_join_when_what_a_row_was_has_left_the_window_then_its_image_is_what_readers_see(
    b: InMemoryCommitLog,
) -> None:
    source = InMemoryCommitLog(window_snapshots=2)
    with source.transaction() as tx:
        tx.configure(node_name="d", node_priority=4)
    with source.transaction() as tx:
        tx.create_schema("s")
        tx.create_table("s.e", {"id": "timestamp", "d": "decimal(9,2)", "n": "int64"}, primary_key=["id", "n"])
        tx.insert_row("s.e", {"id": "2024-02-01 10:00:00", "d": "1.50", "n": 7})
        tx.insert_row("s.e", {"id": "2024-02-01 11:00:00", "d": None, "n": 8})
    with source.transaction() as tx:
        tx.delete_row("s.e", {"id": "2024-02-01 11:00:00", "n": 8})
        tx.alter("s.e").set_comment("those who came early")
    for _ in range(5):
        with source.transaction() as tx:
            tx.create_schema(f"x{source.head_snapshot_id()}")
    [table] = [each for each in state(source).tables.values() if each.rows is not None]
    assert table.rows is not None
    assert [version.image for version in table.rows.live.values()] == [None]
    late = site("c", 3)
    Join(source, late).run()
    assert rows(late, "s.e") == rows(source, "s.e")
    [told] = [each for each in state(late).tables.values() if each.rows is not None]
    assert told.rows is not None
    assert told.rows.sites == {**table.rows.sites, **{key: told.rows.sites[key] for key in told.rows.live}}
    assert told.definition.comment == "those who came early"


def test_rows_with_maps_when_they_have_left_the_window_then_are_told_and_displaced_as_any() -> None:
    source, late = site("a", 1, window_snapshots=2), site("c", 3, window_snapshots=2)

    def put_map(log: InMemoryCommitLog, value: int) -> None:
        with log.transaction() as tx:
            image = {"id": 1, "m": {"x": value}}
            if value:
                tx.update_row("main.k", {"id": 1}, image)
            else:
                tx.insert_row("main.k", image)
        for number in range(3):
            with log.transaction() as tx:
                tx.create_view(f"main.v{value}{number}", "SELECT 1")

    with source.transaction() as tx:
        tx.create_table("main.k", {"id": "int64", "m": "map(varchar, int64)"}, primary_key=["id"])
    put_map(source, 0)
    Join(source, late).run()
    assert rows(late) == rows(source) == [{"id": 1, "m": [("x", 0)]}]
    put_map(source, 1)
    put_map(late, 2)
    converge([source, late])
    assert rows(late) == rows(source) == [{"id": 1, "m": [("x", 1)]}]


def test_join_when_columns_were_added_then_rows_that_know_nothing_of_them_are_the_same_at_all_sites(
    tmp_path: Path,
) -> None:
    logs = [site(name, 0, data_path=tmp_path / name) for name in "abc"]
    a, b, late = logs
    with a.transaction() as tx:
        tx.create_table("main.k", {"id": "int64", "gone": "varchar"}, primary_key=["id"])
        tx.create_table("main.t", {"id": "int64", "gone": "varchar"})
        tx.insert_row("main.k", {"id": 1})
    converge([a, b])
    with b.transaction() as tx:
        tx.insert_row("main.k", {"id": 2})
        tx.append("main.t", [{"id": 2}])
    for table in ("main.k", "main.t"):
        with a.transaction() as tx:
            tx.alter(table).set_default("gone", "x").add_column("n", "int64", nullable=False, default=5)
            tx.alter(table).add_column("w", "varchar")
        with a.transaction() as tx:
            tx.alter(table).drop_column("gone").set_default("n", 6).set_default("w", "y").set_partition_by(["n"])
    Join(a, late).run()
    definitions = [log.table(table).definition for table in ("main.k", "main.t") for log in (a, late)]
    assert [each.columns for each in definitions[::2]] == [each.columns for each in definitions[1::2]]
    assert all(each.partition_by for each in definitions)
    with late.transaction() as tx:
        tx.insert_row("main.k", {"id": 3})
    converge(logs)
    assert (
        rows(a)
        == rows(b)
        == rows(late)
        == [
            {"id": 1, "n": 5, "w": None},
            {"id": 2, "n": 5, "w": None},
            {"id": 3, "n": 6, "w": "y"},
        ]
    )
    assert rows(a, "main.t") == rows(b, "main.t") == rows(late, "main.t") == [{"id": 2, "n": 5, "w": None}]


def test_join_when_more_than_the_window_lies_between_two_rivals_then_is_told_both() -> None:
    logs = [site(name, priority, window_snapshots=3) for priority, name in enumerate("abc", start=1)]
    a, b, late = logs
    with a.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"])
    converge([a, b])
    put(a, row(0, "a"))
    put(b, row(0, "b"))
    converge([a, b])
    for number in range(1, 6):
        put(b, row(number, "b"))
    assert Join(b, late).run().told == 7
    assert rows(late) == rows(b)
    assert rivals_of(late, "0") == rivals_of(b, "0") == {("b", 5)}
    change(late, row(0, "c"))
    converge(logs)
    assert rows(a) == rows(b) == rows(late)


def test_join_when_it_dies_in_between_then_goes_on_as_of_the_same_snapshot(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    put(a, row(1, "a"))
    put(b, row(2, "b"))
    Link(b, a).run(follow=False)
    late = site("c", 3)
    begin_and_die(a, late, when=lambda _: bool(rows_or_none(late)))
    change(a, row(2, "a knows b's"))
    with pytest.raises(ConfigurationError, match="begin the join from a again"):
        Link(b, late)
    again = Join(a, late)
    assert again.progress.snapshot_id < a.head_snapshot_id()
    again.run()
    assert rows(late) == [row(1, "a"), row(2, "b")]
    assert late.outcomes[-1].resolutions == ()
    converge([a, b, late])
    assert rows(late) == rows(a) == [row(1, "a"), row(2, "a knows b's")]


def test_join_when_it_dies_before_any_row_was_told_then_no_other_site_goes_on_with_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    late = site("c", 3)
    begin_and_die(a, late)
    with pytest.raises(ConfigurationError, match="begin the join from a again"):
        Join(b, late)
    put(a, row(1, "a"))
    Join(a, late).run()
    assert rows(late) == []
    converge([a, b, late])
    assert rows(late) == [row(1, "a")]


def test_join_when_a_link_of_a_node_that_had_made_nothing_ran_before_then_it_brings_nothing_meanwhile(
    tmp_path: Path,
) -> None:
    source = site("d", 4, data_path=tmp_path / "d")
    with source.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"])
        tx.create_table("main.files", {"n": "int64"})
    with source.transaction() as tx:
        tx.append("main.files", [{"n": 1}])
    put(source, row(1, "d"))
    third, late = site("b", 2, data_path=tmp_path / "b"), site("c", 3, data_path=tmp_path / "c")
    Link(source, third).run(follow=False)
    ran_before = Link(third, late)
    refused: list[FencedError] = []

    def told(_: Any) -> None:
        if not refused and rows_or_none(late):
            with third.transaction() as tx:
                tx.rename_table("main.files", "renamed")
            with pytest.raises(FencedError) as caught:
                ran_before.run(follow=False)
            refused.append(caught.value)

    Join(source, late).run(told=told)
    assert len(refused) == 1
    Link(third, late).run(follow=False)
    assert late.table("main.renamed").scan().to_arrow().to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("begun_from", ["a", "b"])
def test_join_when_a_link_begins_between_its_beginning_and_what_it_tells_first_then_that_link_ends(
    a: InMemoryCommitLog, b: InMemoryCommitLog, begun_from: str
) -> None:
    source, late = {"a": a, "b": b}[begun_from], site("c", 3)
    join = Join(a, late)
    begun = Link(source, late)
    refused: list[FencedError] = []

    def told(_: Any) -> None:
        if not refused:
            with pytest.raises(FencedError) as caught:
                begun.run(follow=False)
            refused.append(caught.value)

    join.run(told=told)
    assert len(refused) == 1
    put(source, row(1, "after it has joined"))
    converge([a, b, late])
    assert rows(late) == rows(a) == rows(b) == [row(1, "after it has joined")]


def test_join_when_a_link_has_brought_something_between_then_says_so_and_tells_nothing_more(
    a: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = site("c", 3)
    join = Join(a, late)
    Link(a, late).run(follow=False)
    with pytest.raises(ConfigurationError, match="link:a has brought something to site c since this join began"):
        join.run()
    assert late.access.last_by(JOIN) is None

    third, late = site("d", 4), site("c", 3)
    with third.transaction() as tx:
        tx.create_table("main.other", KEYED, primary_key=["id"])
    join = Join(a, late)
    publish_many = late.publish_many

    def overtaken(*given: Any, **more: Any) -> Any:
        monkeypatch.undo()
        Link(third, late).run(follow=False)
        return publish_many(*given, **more)

    monkeypatch.setattr(late, "publish_many", overtaken)
    with pytest.raises(ConfigurationError, match="link:d has brought something to site c since this join began"):
        join.run()


def test_link_when_a_join_begins_while_it_begins_itself_then_sees_that_the_site_joins(
    a: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a, row(1, "a"))
    late = site("c", 3)
    opened = link.open_writer

    def late_opened(target: InMemoryCommitLog, writer_id: str) -> int:
        begin_and_die(a, late)
        return opened(target, writer_id)

    monkeypatch.setattr(link, "open_writer", late_opened)
    with pytest.raises(ConfigurationError, match="begin the join from a again"):
        Link(a, late)
    monkeypatch.undo()
    Join(a, late).run()
    assert rows(late) == [row(1, "a")]


def test_join_when_it_died_and_what_it_told_was_archived_then_no_link_takes_the_site_for_one_that_has_all(
    a: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a, row(1, "a"))
    late = site("c", 3)
    begin_and_die(a, late)
    Trimmed(late, late.last_seq(), monkeypatch)
    for begun in (Link, Join):
        with pytest.raises(ConfigurationError, match="site c has begun to join and was not told everything"):
            begun(a, late)


def begin_and_die(
    source: InMemoryCommitLog, target: InMemoryCommitLog, *, when: Callable[[Any], bool] = lambda _: True
) -> None:
    """A join that ends by an error the first time that it tells of its progress and the condition holds."""

    class DiedError(Exception):
        pass

    def die(progress: Any) -> None:
        if when(progress):
            raise DiedError

    with pytest.raises(DiedError):
        Join(source, target).run(told=die)


def rows_or_none(log: InMemoryCommitLog) -> list[dict[str, Any]]:
    return rows(log) if "main.k" in log.tables() else []


def test_join_when_the_site_has_taken_over_something_then_says_that_a_link_does_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with pytest.raises(ConfigurationError, match="only a site with an empty log joins"):
        Join(a, b)
    late = site("c", 3)
    Join(a, late).run()
    with pytest.raises(ConfigurationError, match="only a site with an empty log joins"):
        Join(a, late)
    with pytest.raises(ConfigurationError, match="both logs are node 'a'"):
        Join(a, site("a", 1))


def test_join_when_a_second_one_begins_then_the_first_is_refused(a: InMemoryCommitLog) -> None:
    late = site("c", 3)
    first, _ = Join(a, late), Join(a, late)
    with pytest.raises(FencedError, match="another join of c, or a link to it, has begun"):
        first.run()


def test_site_when_it_leaves_then_its_rows_stay_and_the_others_go_on(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    gone = site("c", 3)
    Link(a, gone).run(follow=False)
    put(gone, row(1, "c"), row(2, "c"))
    Link(gone, a).run(follow=False)
    del gone
    Link(a, b).run(follow=False)
    change(b, row(1, "b"))
    converge([a, b])
    assert rows(a) == rows(b) == [row(1, "b"), row(2, "c")]
    late = site("d", 4)
    Join(b, late).run()
    assert rows(late) == rows(b)
    assert state(late).digest["c"] == state(b).digest["c"]


def test_site_when_it_was_away_longer_than_the_window_then_catches_up() -> None:
    logs = [site(name, priority, window_snapshots=3) for priority, name in enumerate("ab", start=1)]
    a, b = logs
    with a.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"])
    put(a, row(1, "both have it"))
    converge(logs)
    for number in range(10):
        put(a, row(10 + number, "a"))
        put(b, row(20 + number, "b"))
    converge(logs)
    assert rows(a) == rows(b)
    assert len(rows(a)) == 21


def test_site_when_it_was_away_and_a_row_that_both_changed_has_left_the_window_then_what_it_was_is_told_all_the_same() -> (
    None
):
    logs = [site(name, priority, window_snapshots=3) for priority, name in enumerate("ab", start=1)]
    a, b = logs
    with a.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"])
    put(a, row(1, "both have it"))
    converge(logs)
    change(a, row(1, "a"))
    change(b, row(1, "b"))
    for number in range(10):
        put(b, row(20 + number, "b"))
    Link(a, b).run(follow=False)
    refused, taken = b.outcomes[-2:]
    assert refused.reason == "CONFLICT"
    assert "whose values have left the window" in str(refused.conflicts[0].detail)
    [told] = taken.resolutions
    assert (told.kind, told.committed_row, told.proposed_row) == ("UPDATE_UPDATE", row(1, "b"), row(1, "a"))
    converge(logs)
    assert rows(a) == rows(b)
    assert rows(a)[0] == row(1, "a")
    # A third site settles for itself which one stands: it is told nothing of what was displaced here.
    c = site("c", 3)
    Link(b, c).run(follow=False)
    assert rows(c) == rows(b)
    assert all(
        each.proposal is None or each.proposal.replicated is None or not each.proposal.replicated.displaced
        for each in c.outcomes
    )


def test_site_when_it_was_away_and_another_row_takes_a_value_of_one_beyond_the_window_then_that_is_held_back() -> None:
    logs = [site(name, priority, window_snapshots=3) for priority, name in enumerate("ab", start=1)]
    a, b = logs
    with a.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"], unique=[["w"], ["v"]])
    converge(logs)
    put(a, row(1, "a", "same"))
    put(b, row(2, "b", "same"))
    for number in range(10):
        put(b, row(20 + number, f"b{number}"))
    converge(logs)
    assert rows(a) == rows(b)
    assert held(a) == held(b) == {"k 2": row(2, "b", "same")}
    with a.transaction() as tx:
        tx.delete_row("main.k", {"id": 1})
    converge(logs)
    assert rows(a) == rows(b)
    assert row(2, "b", "same") in rows(a)


@pytest.mark.parametrize("seed", range(12))
def test_join_at_any_moment_then_all_sites_hold_the_same_rows_and_the_same_held_ones(seed: int) -> None:
    chance = random.Random(seed)
    names = "abcd"
    logs = {name: site(name, chance.randint(1, 3)) for name in names[:3]}
    with logs["a"].transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"], unique=[["w"]])
    converge(list(logs.values()))
    for step in range(40):
        if step == 20:
            late = site("d", chance.randint(1, 3))
            Join(logs[chance.choice("abc")], late).run()
            logs["d"] = late
        edit(chance, logs[chance.choice(sorted(logs))], step)
        if chance.random() < 0.3:
            source, target = chance.sample(sorted(logs), 2)
            try_to_bring(logs[source], logs[target])
    converge(list(logs.values()))
    first, *others = logs.values()
    assert [rows(each) for each in others] == [rows(first)] * 3
    assert [held(each) for each in others] == [held(first)] * 3
    rivals = [{key: rivals_of(log, key) for key in all_keys(logs.values())} for log in logs.values()]
    assert rivals == [rivals[0]] * 4


def rivals_of(log: InMemoryCommitLog, key: str) -> set[tuple[str, int]]:
    [table] = [each for each in state(log).tables.values() if each.name == "k"]
    assert table.rows is not None
    known = table.rows.sites.get(key)
    return set() if known is None else {(each.origin.node, each.origin.tick) for each in known.rivals}


def all_keys(logs: Iterable[InMemoryCommitLog]) -> set[str]:
    return {
        key
        for log in logs
        for table in state(log).tables.values()
        if table.rows is not None
        for key in table.rows.sites
    }


def try_to_bring(source: InMemoryCommitLog, target: InMemoryCommitLog) -> None:
    try:
        Link(source, target).run(follow=False)
    except LinkStoppedError as stopped:
        # What the source has of third ones, the target may have to be told first.
        if "made with all of node" not in str(stopped):
            raise


def edit(chance: random.Random, log: InMemoryCommitLog, step: int) -> None:
    key = chance.randint(1, 5)
    there = {each["id"] for each in rows(log)}
    try:
        with log.transaction() as tx:
            if key not in there:
                tx.insert_row("main.k", row(key, str(step), chance.choice([None, "x", "y"])))
            elif chance.random() < 0.3:
                tx.delete_row("main.k", {"id": key})
            else:
                tx.update_row("main.k", {"id": key}, row(key, str(step), chance.choice([None, "x", "y"])))
    except ProposalRejectedError:
        pass


class Trimmed:
    """A log whose results up to an outcome are in the archive alone."""

    def __init__(self, log: InMemoryCommitLog, upto_seq: int, patch: pytest.MonkeyPatch) -> None:
        memory = log._memory
        self._outcome_at, self._subscribe, self._upto = memory.outcome_at, memory.subscribe, upto_seq
        patch.setattr(memory, "outcome_at", self.outcome_at)
        patch.setattr(memory, "subscribe", self.subscribe)

    def outcome_at(self, seq: int) -> Any:
        self._check(seq, asked=seq - 1)
        return self._outcome_at(seq)

    def subscribe(self, after_seq: int, *, follow: bool) -> Any:
        self._check(after_seq + 1, asked=after_seq)
        return self._subscribe(after_seq, follow=follow)

    def _check(self, seq: int, *, asked: int) -> None:
        if seq <= self._upto:
            raise ResultsTrimmedError("a", seq=self._upto + 1, archive="/archive", asked_seq=asked)


def test_link_when_what_it_brought_was_archived_on_both_sides_then_goes_on_after_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a, row(1, "a"))
    Link(a, b).run(follow=False)
    for log in (a, b):
        Trimmed(log, log.last_seq(), monkeypatch)
    change(a, row(1, "later"))
    assert Link(a, b).run(follow=False).brought == 1
    assert rows(b) == [row(1, "later")]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("archived", ["at the source", "at the target", "nowhere"])
def test_link_when_the_source_was_restored_then_is_refused_whatever_was_archived_or_told(
    a: InMemoryCommitLog, archived: str, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = site("a", 1)
    with restored.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"], unique=[["w"]])
    put(a, row(1, "lost"))
    late = site("late", 2)
    Join(a, late).run() if joined else Link(a, late).run(follow=False)
    put(restored, row(2, "since"))
    put(restored, row(3, "since"))
    if archived != "nowhere":
        log = restored if archived == "at the source" else late
        Trimmed(log, log.last_seq() - 1 if log is restored else log.last_seq(), monkeypatch)
    with pytest.raises(SiteWentBackError, match="snapshot 3 of a is not what it was"):
        Link(restored, late).run(follow=False)
    assert rows(late) == [row(1, "lost")]


def test_link_when_a_site_was_restored_of_which_another_one_had_told_as_the_target_joined_then_is_refused(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    restored = site("b", 2)
    Link(a, restored).run(follow=False)
    put(b, row(1, "b"))
    put(b, row(2, "lost"))
    Link(b, a).run(follow=False)
    late = site("late", 3)
    Join(a, late).run()
    for key in range(3, 9):
        put(restored, row(key, "since"))
    for pair in ((restored, late), (late, restored)):
        with pytest.raises(SiteWentBackError, match="of b is not what it was"):
            Link(*pair)
    put(b, row(3, "b"))
    assert Link(b, late).run(follow=False).brought == 1
    assert rows(late) == [row(1, "b"), row(2, "lost"), row(3, "b")]


def test_link_when_what_was_archived_had_nothing_to_bring_then_goes_on_after_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = site("c", 3)
    for key in (1, 2, 3):
        put(a, row(key, "a"))
        Link(a, b).run(follow=False)
        put(b, row(10 + key, "b"))
        with b.transaction() as tx:
            tx.create_view(f"main.v{key}", "SELECT 1")
        converge([a, b])
    Link(a, b).run(follow=False)
    put(a, row(4, "a"))
    Link(a, b).run(follow=False)
    with b.transaction() as tx:
        tx.create_view("main.last", "SELECT 1")
    Trimmed(b, b.last_seq() - 1, monkeypatch)
    assert Link(b, a).run(follow=False).brought == 0
    with pytest.raises(SiteAwayTooLongError):
        Link(b, late).run(follow=False)
    put(b, row(5, "b"))
    change(b, row(1, "b"))
    Link(b, a).run(follow=False)
    assert rows(a) == rows(b)
    assert Link(b, a).run(follow=False).brought == 0


def test_link_when_a_site_that_made_nothing_was_archived_then_begins_after_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in (1, 2, 3):
        put(a, row(key, "a"))
        Link(a, b).run(follow=False)
    with b.transaction() as tx:
        tx.create_table("main.own", {"id": "int64"}, properties={"replicated": "false"})
        tx.insert_row("main.own", {"id": 1})
    with b.transaction() as tx:
        tx.insert_row("main.own", {"id": 2})
    Trimmed(b, b.last_seq() - 1, monkeypatch)
    change(b, row(1, "b"))
    assert Link(b, a).run(follow=False).brought == 1
    assert rows(a) == rows(b)


def of_a_schema(tx: Any) -> None:
    tx.create_schema("s")
    tx.create_table("s.own", {"id": "int64"}, properties={"replicated": "false"})


def of_a_property(tx: Any) -> None:
    tx.insert_row("main.own", {"id": 1})
    tx.alter("main.k").set_property("on_conflict", "KEEP_EXISTING")


@pytest.mark.parametrize("change", [of_a_schema, of_a_property])
def test_link_when_what_was_archived_told_something_beside_a_table_that_is_left_then_the_site_is_told_to_join_anew(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]
) -> None:
    with b.transaction() as tx:
        tx.create_table("main.own", {"id": "int64"}, properties={"replicated": "false"})
    with b.transaction() as tx:
        change(tx)
    with b.transaction() as tx:
        tx.insert_row("main.own", {"id": 2})
    Trimmed(b, b.last_seq() - 1, monkeypatch)
    with pytest.raises(SiteAwayTooLongError):
        Link(b, a).run(follow=False)


def test_link_when_what_was_archived_had_a_table_left_where_it_is_then_the_site_is_told_to_join_anew(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with b.transaction() as tx:
        tx.insert_row("main.k", row(1, "b"))
        tx.alter("main.k").set_property("replicated", "false")
    put(b, row(2, "b"))
    Trimmed(b, b.last_seq() - 1, monkeypatch)
    with pytest.raises(SiteAwayTooLongError):
        Link(b, a).run(follow=False)


def test_link_when_what_it_has_to_bring_was_archived_then_the_site_is_told_to_join_anew(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a, row(1, "a"))
    Link(a, b).run(follow=False)
    put(a, row(2, "a"))
    put(a, row(3, "a"))
    Trimmed(a, a.last_seq() - 1, monkeypatch)
    with pytest.raises(SiteAwayTooLongError, match=r"after its snapshot 3 was archived.*replicate --join"):
        Link(a, b).run(follow=False)
    with pytest.raises(SiteAwayTooLongError, match=r"committed first was archived"):
        Link(a, site("c", 3)).run(follow=False)
    anew = site("b2", 2)
    Join(a, anew).run()
    put(a, row(4, "a"))
    Link(a, anew).run(follow=False)
    assert rows(anew) == rows(a)


@pytest.mark.parametrize("made_by_another", [False, True])
def test_link_when_one_snapshot_that_it_has_to_bring_was_archived_then_the_site_is_told_to_join_anew(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, made_by_another: bool
) -> None:
    put(a, row(1, "a"))
    Link(a, b).run(follow=False)
    if made_by_another:
        third = site("c", 3)
        Link(a, third).run(follow=False)
        put(third, row(2, "c"))
        Link(third, a).run(follow=False)
    else:
        put(a, row(2, "a"))
    with a.transaction() as tx:
        tx.create_view("main.v", "SELECT 1")
    Trimmed(a, a.last_seq() - 1, monkeypatch)
    with pytest.raises(SiteAwayTooLongError):
        Link(a, b).run(follow=False)


def test_link_to_a_site_that_joined_when_what_it_was_told_was_archived_then_begins_after_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(b, row(1, "b"))
    Link(b, a).run(follow=False)
    Trimmed(b, b.last_seq(), monkeypatch)
    late = site("c", 3)
    Join(a, late).run()
    put(b, row(2, "b"))
    put(late, row(3, "c"))
    converge([a, b, late])
    assert rows(a) == rows(b) == rows(late) == [row(1, "b"), row(2, "b"), row(3, "c")]


def test_link_to_a_site_that_joined_when_that_was_archived_there_then_goes_on(
    a: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a, row(1, "a"))
    late = site("c", 3)
    Join(a, late).run()
    Trimmed(late, late.last_seq(), monkeypatch)
    put(a, row(2, "a"))
    assert Link(a, late).run(follow=False).brought == 1
    assert rows(late) == rows(a)


def test_join_when_what_the_teller_made_was_archived_then_others_take_what_the_new_site_makes(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(b, row(1, "b"))
    with b.transaction() as tx:
        tx.create_view("main.v", "SELECT 1")
    with b.transaction() as tx:
        tx.configure(expire_keep_snapshots=1_000)
    converge([a, b])
    Trimmed(b, b.last_seq(), monkeypatch)
    late = site("c", 3)
    Join(b, late).run()
    put(late, row(2, "c"))
    Link(late, a).run(follow=False)
    assert rows(a) == rows(late) == [row(1, "b"), row(2, "c")]


@pytest.mark.parametrize("how", ["made anew", "of another table"])
def test_link_to_a_site_that_joined_when_a_name_was_given_anew_before_that_then_stops_as_elsewhere(
    a: InMemoryCommitLog, b: InMemoryCommitLog, how: str
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.l", KEYED, primary_key=["id"])
    Link(a, b).run(follow=False)
    with a.transaction() as tx:
        tx.drop_table("main.k")
    with a.transaction() as tx:
        if how == "made anew":
            tx.create_table("main.k", KEYED, primary_key=["id"])
        else:
            tx.rename_table("main.l", "k")
    with b.transaction() as tx:
        tx.insert_row("main.k", row(1, "for the table before"))
    late, later = site("c", 3), site("d", 4)
    Join(a, late).run()
    Join(late, later).run()
    for log in (a, late, later):
        with pytest.raises(TableNotBroughtError, match=r"main\.k, or a column of it, is another one"):
            Link(b, log).run(follow=False)
        assert rows(log) == []


def test_link_to_a_site_that_joined_when_who_made_a_row_knew_nothing_of_who_told_of_its_table_then_brings_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    late, later = site("c", 3), site("d", 4)
    Join(a, late).run()
    Join(late, later).run()
    put(b, row(1, "b"))
    assert Link(b, later).run(follow=False).brought == 1
    assert rows(later) == rows(b)


def test_link_from_a_site_that_joined_when_the_other_one_has_not_yet_what_that_was_told_then_says_so_and_goes_on_later(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    put(a, row(1, "a"))
    late = site("c", 3)
    Join(a, late).run()
    change(late, row(1, "c"))
    with pytest.raises(
        LinkStoppedError, match="at b another link may have yet to bring that, as where a site has joined"
    ):
        Link(late, b).run(follow=False)
    Link(a, b).run(follow=False)
    Link(late, b).run(follow=False)
    assert rows(b) == rows(late) == [row(1, "c")]


def test_site_when_it_is_linked_only_to_one_that_joined_then_has_to_join_that_one_too(a: InMemoryCommitLog) -> None:
    put(a, row(1, "a"))
    late, later = site("c", 3), site("d", 4)
    Join(a, late).run()
    progress = Link(late, later).run(follow=False)
    assert (progress.brought, progress.lacks) == (0, ("a",))
    assert "site d does not have what site c was told of a when it joined" in str(progress.problem)
    put(late, row(2, "c"))
    with pytest.raises(LinkStoppedError, match="was made with all of node a before"):
        Link(late, later).run(follow=False)
    Join(late, later).run()
    put(late, row(3, "c"))
    progress = Link(late, later).run(follow=False)
    assert (progress.brought, progress.problem) == (1, None)
    assert rows(later) == rows(late) == [row(1, "a"), row(2, "c"), row(3, "c")]


def test_link_when_it_passes_by_what_its_source_was_told_then_that_is_lacking_until_another_link_brings_it(
    a: InMemoryCommitLog,
) -> None:
    put(a, row(1, "a"))
    late, later = site("c", 3), site("d", 4)
    Join(a, late).run()
    lacking: list[tuple[str, ...]] = []

    def told(progress: LinkProgress) -> None:
        lacking.append(progress.lacks)
        if len(lacking) == 1:
            Link(a, later).run(follow=False)
            put(late, row(2, "c"))
        elif not progress.lacks:
            raise StopIteration

    with pytest.raises(StopIteration):
        Link(late, later).run(told=told)
    assert set(lacking[:-1]) == {("a",)}
    assert Link(late, a).run(follow=False).lacks == ()


def test_site_that_joins_when_the_one_that_tells_it_made_nothing_itself_then_others_take_what_it_makes() -> None:
    maker, teller, late = site("a", 1), site("b", 2), site("c", 3)
    with maker.transaction() as tx:
        tx.create_table("main.k", KEYED, primary_key=["id"], unique=[["w"]])
    put(maker, row(1, "a"))
    Link(maker, teller).run(follow=False)
    Join(teller, late).run()
    put(late, row(2, "c"))
    Link(late, maker).run(follow=False)
    put(teller, row(3, "b"))
    converge([maker, teller, late])
    assert rows(maker) == rows(teller) == rows(late) == [row(1, "a"), row(2, "c"), row(3, "b")]


def test_join_when_tables_have_no_primary_key_then_their_rows_are_told_and_links_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.sites.join.ROWS_AT_ONCE", 2)
    logs = [site(name, 0, data_path=tmp_path / name) for name in "abc"]
    a, b, late = logs
    with a.transaction() as tx:
        tx.create_table(
            "main.t", {"id": "int64", "gone": "struct(a int64)", "v": "varchar", "gone_2": "varchar", "w": "varchar"}
        )
        tx.create_table("main.mine", {"id": "int64"}, properties={"replicated": "false"})
    converge([a, b])
    a.table("main.t").append([{"id": 1, "v": "a"}, {"id": 2, "v": "a"}, {"id": 3, "v": "a"}])
    b.table("main.t").append([{"id": 4, "v": "b"}])
    with b.transaction() as tx:
        tx.insert_row("main.t", {"id": 5, "v": "b"})
    converge([a, b])
    with a.transaction() as tx:
        tx.alter("main.t").drop_column("gone").drop_column("w")
    a.table("main.t").delete("id = 2")
    begin_and_die(a, late, when=lambda progress: bool(progress.told))
    a.table("main.t").append([{"id": 6, "v": "too late"}])
    told = Join(a, late).run().told
    expected = [{"id": each, "v": "a" if each < 4 else "b", "gone_2": None} for each in (1, 3, 4, 5)]
    assert rows(late, "main.t") == expected
    assert 0 < told < 4
    assert late.tables() == ["main.t"]
    # What it was told is nobody else's.
    assert Link(late, b).run(follow=False).brought == 0
    with a.transaction() as tx:
        tx.alter("main.t").add_column("x", "varchar")
        tx.append("main.t", [{"id": 7, "v": "a", "x": "new"}])
    Link(a, late).run(follow=False)
    assert rows(a, "main.t") == rows(late, "main.t")
    assert [(each["id"], each["x"]) for each in rows(late, "main.t")][-2:] == [(6, None), (7, "new")]


def test_join_when_arrow_does_not_hold_what_rows_have_then_nothing_is_told_and_a_link_brings_them() -> None:
    a, late = site("a", 0, window_snapshots=1), site("c", 3)
    with a.transaction() as tx:
        tx.create_table("main.t", {"id": "int64", "at": "timetz"})
        tx.create_table("main.empty", {"id": "int64", "at": "timetz"})
    with a.transaction() as tx:
        tx.insert_row("main.t", {"id": 1, "at": "12:00:00+02"})
    for number in range(2):
        with a.transaction() as tx:
            tx.create_view(f"main.v{number}", "SELECT 1")
    with pytest.raises(ConfigurationError, match=r"rows of table main\.t cannot be told.*column at, which is timetz"):
        Join(a, late).run()
    assert late.tables() == []
    Link(a, late).run(follow=False)
    [row] = [each.row for outcome in late.outcomes for each in changes_of(outcome) if isinstance(each, m.InsertRow)]
    assert row == {"id": 1, "at": "12:00:00+02"}


def test_rows_that_arrow_does_not_hold_when_they_have_left_the_window_then_are_told_and_displaced_as_they_are() -> None:
    a, late = site("a", 1, window_snapshots=1), site("c", 3, window_snapshots=1)
    first, second = ({"id": 1, "at": at, "n": str(2**128 - 1)} for at in ("12:00:00+02:00", "12:00:00-05:00"))

    def go_by(log: InMemoryCommitLog) -> None:
        for _ in range(3):
            with log.transaction() as tx:
                tx.create_view(f"main.v{len(log.outcomes)}", "SELECT 1")

    with a.transaction() as tx:
        tx.create_table("main.t", {"id": "int64", "at": "timetz", "n": "uint128"}, primary_key=["id"])
        tx.insert_row("main.t", first)
    go_by(a)
    Join(a, late).run()
    assert [each.row for each in changes_of_all(late) if isinstance(each, m.InsertRow)] == [first]
    for log, image in ((a, {**first, "n": 1}), (late, second)):
        with log.transaction() as tx:
            tx.update_row("main.t", {"id": 1}, image)
    go_by(late)
    Link(a, late).run(follow=False)
    [outcome] = [each for each in late.outcomes if each.proposal and each.proposal.replicated and displaced_by(each)]
    assert [each.row for each in displaced_by(outcome)] == [second]


def displaced_by(outcome: m.Outcome) -> Sequence[m.DisplacedRow]:
    return (
        () if outcome.proposal is None or outcome.proposal.replicated is None else outcome.proposal.replicated.displaced
    )


def changes_of_all(log: InMemoryCommitLog) -> list[m.Change]:
    return [change for outcome in log.outcomes for change in changes_of(outcome)]


def changes_of(outcome: m.Outcome) -> Sequence[m.Change]:
    return () if outcome.proposal is None else outcome.proposal.changes


def test_join_when_the_new_sites_clock_is_behind_then_rows_of_tables_without_a_primary_key_are_told_too(
    tmp_path: Path,
) -> None:
    a = site("a", 0, data_path=tmp_path / "a")
    a.table("main.t").append([{"id": 1}], create=True)
    behind_ms = 1_732_201_315_328
    late = InMemoryCommitLog(data_path=tmp_path / "b", clock_ms=lambda: behind_ms)
    with late.transaction(proposal_id=id_at(behind_ms, 0, 0)) as tx:
        tx.configure(node_name="b", node_priority=0)
    Join(a, late).run()
    assert rows(late, "main.t") == [{"id": 1}]


@pytest.mark.parametrize(
    ("types", "keys", "read"),
    [
        ({"id": "int64"}, [(1,), (2,), (-3,)], 1),
        ({"id": "uint64"}, [(1,), (2**64 - 1,)], 1),
        ({"id": "int128"}, [(1,), (-(2**100),)], 1),
        ({"id": "varchar"}, [("a, b",), ("a",), ("b",), ("",)], 1),
        ({"id": "uuid"}, [(f"01934f3e-7c00-7000-8000-00000000000{at}",) for at in range(3)], 1),
        ({"id": "varchar", "n": "int32"}, [("a", 1), ("a", 2), ("b", 2), ("a, b", 2)], 1),
        ({"id": "varchar", "n": "int32"}, [("a, b", 2), ("a", 1)], 2),
        ({"id": "varchar", "n": "varchar"}, [('a"', "b"), ("a", "b")], 2),
        ({"id": "varchar", "n": "varchar"}, [("a", "b"), ("a, b", "")], 1),
        ({"id": "decimal(9,2)"}, [("1.50",), ("2.00",)], 2),
        ({"id": "timestamptz"}, [("2024-02-01 10:00:00+02",), ("2024-02-01 11:00:00+00",)], 2),
    ],
)
def test_row_that_a_log_does_not_remember_when_it_is_asked_for_then_is_found_by_its_key_and_few_others_are_read(
    monkeypatch: pytest.MonkeyPatch, types: dict[str, str], keys: list[tuple[Any, ...]], read: int
) -> None:
    log = InMemoryCommitLog()
    with log.transaction() as tx:
        tx.create_table("main.r", {**types, "v": "int64"}, primary_key=list(types))
        for at, key in enumerate(keys):
            tx.insert_row("main.r", {**dict(zip(types, key, strict=True)), "v": at})
    wanted = dict(zip(types, keys[0], strict=True))
    taken: list[m.Row] = []

    def counted(row: dict[str, Any]) -> m.Row:
        taken.append(row_of(row))
        return taken[-1]

    monkeypatch.setattr(displaced, "row_of", counted)
    definition = log.table("main.r").definition
    met = m.ConflictObject(schema="main", table="r", row_key=shown_key(given_key(definition, row_of(wanted))))
    conflict = m.Conflict(m.ConflictKind.ROW_CHANGED, 0, None, met, 1)
    [found] = displaced.displaced_rows(log, [conflict], log.head_snapshot_id())
    assert (found.table_id, found.row["v"]) == (definition.table_id, 0)
    assert len(taken) == read
