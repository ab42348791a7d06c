"""Sites that take writes to the same rows: once it is quiet all hold the same, and each conflict was told (rules.md 6)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from sites_world import Sites

from commitlog.domain.model import KnownNode, RowOrigin
from commitlog.domain.state import index, replaying, sites
from commitlog.domain.state.rows import KeyedRows
from commitlog.errors import CommitLogError
from commitlog.sites import forwarding, link

SEEDS = int(os.environ.get("COMMITLOG_TEST_SITES", "60"))
STEPS = 24


def run_seed(seed: int) -> Sites:
    """What happened for a seed; `run_seed(SEED)` shows it again."""
    world = Sites(seed)
    world.run(STEPS)
    world.check()
    return world


def test_sites_when_they_take_writes_to_the_same_rows_then_converge_and_tell_each_conflict() -> None:
    assert conflicts_in(range(SEEDS)) > SEEDS, "the seeds do not meet each other"


@pytest.mark.nightly
def test_sites_when_many_histories_are_run_then_converge_in_each() -> None:
    conflicts_in(range(SEEDS, 20_000))


def conflicts_in(seeds: range) -> int:
    """How many conflicts the histories of some seeds had; each is checked."""
    found = 0
    for seed in seeds:
        try:
            world = run_seed(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        found += sum(len(each.resolutions) for log in world.logs.values() for each in log.outcomes)
    return found


# --- mistakes that the seeds must find --------------------------------------------------------------------------------


def losers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replaying, "kept_row", lambda settled: sites.SiteRow(settled.standing.origin, ()))


def ends_are_not_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replaying, "made_at", lambda node, tick, time_us: RowOrigin(node.name, 0, 0, 9))


def an_own_write_leaves_the_losers(patch: pytest.MonkeyPatch) -> None:
    end_row = replaying._Replay.end_row

    def keep(it: replaying._Replay, table: object, rows: KeyedRows, key: str, change: object) -> None:
        known = rows.sites.get(key)
        end_row(it, table, rows, key, change)  # type: ignore[arg-type]
        if known is not None:
            rows.sites[key] = known

    patch.setattr(replaying._Replay, "end_row", keep)


def the_earlier_stamp_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sites, "precedence", lambda priority, stamp_ms, node: (priority, stamp_ms, node))


def the_holder_decides(patch: pytest.MonkeyPatch) -> None:
    versions_of = sites.versions_of

    def held(node: sites.Node, rows: KeyedRows, key: str) -> Iterator[sites.SiteVersion]:
        for each in versions_of(node, rows, key):
            yield each._replace(origin=each.origin.replace(priority=node.priority))

    patch.setattr(sites, "versions_of", held)


def a_digest_goes_too_far(patch: pytest.MonkeyPatch) -> None:
    contained = sites.Arrival.contained
    patch.setattr(
        sites.Arrival,
        "contained",
        lambda it: KnownNode(it.replicated.node, contained(it).tick + 2, contained(it).priority),
    )


def what_came_from_others_is_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(forwarding.Source, "_pass_on", lambda *_: None)


def what_was_known_is_done_again(patch: pytest.MonkeyPatch) -> None:
    next_tick = index.SequencerState.next_tick

    def forgetful(it: index.SequencerState, node: str) -> int:
        return 0 if it.node is not None and node != it.node.name else next_tick(it, node)

    patch.setattr(index.SequencerState, "next_tick", forgetful)


def what_the_source_knew_is_not_said(patch: pytest.MonkeyPatch) -> None:
    init = forwarding.Source.__init__

    def ignorant(it: forwarding.Source, node: object, state: object, next_tick: int) -> None:
        init(it, node, state, next_tick)  # type: ignore[arg-type]
        it._digest = {}

    patch.setattr(forwarding.Source, "__init__", ignorant)


def all_are_sent_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(link, "in_runs", lambda news, source: [list(news)])


def which_snapshot_one_follows_is_not_said(patch: pytest.MonkeyPatch) -> None:
    tell = forwarding.Source._tell

    def unconnected(it: forwarding.Source, *given: object) -> object:
        it._next_tick = 0
        return tell(it, *given)  # type: ignore[arg-type]

    patch.setattr(forwarding.Source, "_tell", unconnected)


@pytest.mark.interpreted("a mistake in the place of a function of the core does not reach compiled code")
@pytest.mark.parametrize(
    "plant",
    [
        losers_are_forgotten,
        ends_are_not_remembered,
        an_own_write_leaves_the_losers,
        the_earlier_stamp_wins,
        the_holder_decides,
        a_digest_goes_too_far,
        what_came_from_others_is_not_passed_on,
        what_was_known_is_done_again,
        what_the_source_knew_is_not_said,
        all_are_sent_at_once,
        which_snapshot_one_follows_is_not_said,
    ],
)
def test_mistake_when_planted_then_a_seed_finds_it(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(is_broken(seed) for seed in range(200))


def is_broken(seed: int) -> bool:
    """Whether a mistake shows, as whatever it may: a site that differs, a conflict not told, a link that stops."""
    try:
        run_seed(seed)
    except (AssertionError, CommitLogError):
        return True
    return False
