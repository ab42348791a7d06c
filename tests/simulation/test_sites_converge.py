"""Sites that take writes to the same rows: once it is quiet all hold the same, and each conflict was told (rules.md 6)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sites_world
from sites_world import Sites

from commitlog import compiled
from commitlog.domain.deciding import changeset, row_conflicts, standing_rows
from commitlog.domain.deciding.row_overlay import OWN
from commitlog.domain.model import ChangeKind, DataFile, Effect, KnownNode, Outcome, RowOrigin
from commitlog.domain.state import claims, index, replaying, sites
from commitlog.domain.state.dumping import load_state
from commitlog.domain.state.row_keys import RowChange
from commitlog.domain.state.rows import KeyedRows
from commitlog.errors import CommitLogError
from commitlog.sites import contents_there, forwarding, link

SEEDS = int(os.environ.get("COMMITLOG_TEST_SITES", "1000"))
"""The first half is for the interpreted core, the second one for the compiled one."""
NIGHTLY_SEEDS = 100_000
BLOCKS = 4
STEPS = 24


def run_seed(seed: int) -> Sites:
    """What happened for a seed; `run_seed(SEED)` shows it again."""
    world = Sites(seed)
    world.run(STEPS)
    world.check()
    return world


@pytest.mark.parametrize("block", range(BLOCKS))
def test_sites_when_they_take_writes_to_the_same_rows_then_converge_and_tell_each_conflict(block: int) -> None:
    half = SEEDS // 2
    first = half if compiled.form == compiled.COMPILED else 0
    seeds = range(first + block, first + half, BLOCKS)
    assert conflicts_in(seeds) > len(seeds), "the seeds do not meet each other"


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(BLOCKS))
def test_sites_when_many_histories_are_run_then_converge_in_each(block: int) -> None:
    conflicts_in(range(SEEDS + block, NIGHTLY_SEEDS, BLOCKS))


def test_wires_when_histories_are_run_then_proposals_are_lost_come_late_overtake_each_other_and_are_sent_ahead() -> (
    None
):
    wires = [wire for seed in range(20) for wire in run_seed(seed).wires.values()]
    assert all(any(found) for found in zip(*((each.lost, each.late, each.swapped) for each in wires), strict=True))
    assert max(each.together_max for each in wires) > 1


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
    give_up = replaying._Replay.give_up

    def keep(it: replaying._Replay, rows: KeyedRows, key: str, change: RowChange) -> None:
        known = rows.sites.get(key)
        give_up(it, rows, key, change)
        if known is not None:
            rows.sites[key] = known

    patch.setattr(replaying._Replay, "give_up", keep)


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

    def ignorant(it: forwarding.Source, *given: object) -> None:
        init(it, *given)  # type: ignore[arg-type]
        it._digest = {}

    patch.setattr(forwarding.Source, "__init__", ignorant)


def all_are_sent_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(link, "in_runs", lambda news, follows: [list(news)])


def which_snapshot_one_follows_is_not_said(patch: pytest.MonkeyPatch) -> None:
    tell = forwarding.Source._tell

    def unconnected(it: forwarding.Source, *given: object) -> object:
        it._next_tick = 0
        return tell(it, *given)  # type: ignore[arg-type]

    patch.setattr(forwarding.Source, "_tell", unconnected)


def who_came_first_keeps_a_unique_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "_rank", lambda claimed: (claimed[1].version.snapshot_id == OWN, claimed[0]))


def what_is_held_back_is_not_tried_again_by_own_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changeset, "settle_own", lambda _: None)


def children_stay_when_their_parent_is_held_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(standing_rows._Standing, "_fall", lambda *_: set())


def children_are_not_released_with_their_parent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(standing_rows._Standing, "_offers", lambda *_: iter(()))


def a_checkpoint_forgets_what_is_held_back(patch: pytest.MonkeyPatch) -> None:
    def forget(plain: Any) -> index.SequencerState:
        state = load_state(plain)
        for table in state.tables.values():
            if table.rows is not None:
                for key in list(table.rows.held):
                    table.rows.release(key)
        return state

    patch.setattr(sites_world, "load_state", forget)


def the_end_of_a_held_row_is_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    rows = forwarding.Source._rows

    def silent(
        it: forwarding.Source, outcome: Outcome, definition: object, change: object, effect: Effect, *more: Any
    ) -> Any:
        if effect.ended_row_id is None and effect.row_id is None:
            return ()
        return rows(it, outcome, definition, change, effect, *more)  # type: ignore[arg-type]

    patch.setattr(forwarding.Source, "_rows", silent)


def two_keys_of_one_row_stand_beside_each_other(patch: pytest.MonkeyPatch) -> None:
    asked = claims.Claims._asked
    patch.setattr(claims.Claims, "_asked", lambda *given: (each for each in asked(*given) if each[1] >= 0))


def a_row_that_is_written_forgets_which_it_was(patch: pytest.MonkeyPatch) -> None:
    identity = row_conflicts.RowCheck._identity

    def forgetful(it: row_conflicts.RowCheck, key: str, old_key: str | None, old: object) -> str | None:
        return None if key == old_key else identity(it, key, old_key, old)  # type: ignore[arg-type]

    patch.setattr(row_conflicts.RowCheck, "_identity", forgetful)


def which_row_it_is_is_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    rows = forwarding.Source._rows

    def anonymous(*given: Any) -> Any:
        return [each if each.kind == ChangeKind.DELETE_ROW else each.replace(identity=None) for each in rows(*given)]

    patch.setattr(forwarding.Source, "_rows", anonymous)


def who_uses_a_key_again_is_the_row_that_had_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_conflicts, "new_identity", lambda key, node, snapshot_id: key)


def appended_files_are_not_brought(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(forwarding, "_MAINTENANCE", forwarding._MAINTENANCE | {ChangeKind.APPEND})


def a_path_is_passed_on_as_it_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(contents_there.ContentsThere, "said_there", lambda it, forwarded, base: forwarded.changes)


def who_passes_files_on_names_them_as_its_own(patch: pytest.MonkeyPatch) -> None:
    relative = DataFile.replace

    def wrong(it: DataFile, **given: Any) -> DataFile:
        path = given["path"].rpartition("/")[2]
        return relative(it, **given | {"path": f"/elsewhere/{path}"} if not it.path_is_relative else given)

    patch.setattr(DataFile, "replace", wrong)


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
        who_came_first_keeps_a_unique_value,
        what_is_held_back_is_not_tried_again_by_own_writes,
        children_stay_when_their_parent_is_held_back,
        children_are_not_released_with_their_parent,
        a_checkpoint_forgets_what_is_held_back,
        the_end_of_a_held_row_is_not_passed_on,
        two_keys_of_one_row_stand_beside_each_other,
        a_row_that_is_written_forgets_which_it_was,
        which_row_it_is_is_not_passed_on,
        who_uses_a_key_again_is_the_row_that_had_it,
        appended_files_are_not_brought,
        a_path_is_passed_on_as_it_came,
        who_passes_files_on_names_them_as_its_own,
    ],
)
def test_mistake_when_planted_then_a_seed_finds_it(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(is_broken(seed) for seed in range(400))


def is_broken(seed: int) -> bool:
    """Whether a mistake shows, as whatever it may: a site that differs, a conflict not told, a link that stops."""
    try:
        run_seed(seed)
    except (AssertionError, CommitLogError):
        return True
    return False
