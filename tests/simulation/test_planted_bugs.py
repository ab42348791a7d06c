"""Planted bugs: each of these mistakes in the core must be caught by the comparison with the oracle."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from oracle.histories import run_seed

from commitlog.domain import conflicts, files, planners, reads, replaying, row_conflicts, rows, sequencing
from commitlog.domain.model import AlterOp, ChangeKind, Granularity
from commitlog.domain.state import KeyedRows, SequencerState

HISTORIES = 2_000
K = ChangeKind


def caught() -> bool:
    """Whether some history shows a difference, or stops the core."""
    for seed in range(HISTORIES):
        try:
            if run_seed(seed).difference is not None:
                return True
        except (AssertionError, KeyError, IndexError):
            return True
    return False


def without(proposed: ChangeKind, *committed: ChangeKind) -> dict[ChangeKind, Any]:
    """The rules of one kind without some cells of the matrix."""
    kept = tuple((kind, check) for kind, check in conflicts.RULES_OF[proposed] if kind not in committed)
    return {**conflicts.RULES_OF, proposed: kept}


def skip_the_read_set(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sequencing, "find_read_hits", lambda *args: ())


def skip_renamed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "RULES_OF", without(K.APPEND, K.RENAME_TABLE))


def drop_does_not_mind_renames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "RULES_OF", without(K.DROP_TABLE, K.RENAME_TABLE))


def off_by_one_at_the_base(patch: pytest.MonkeyPatch) -> None:
    real = conflicts.check_footprint
    patch.setattr(sequencing, "check_footprint", lambda state, footprint, base: real(state, footprint, base - 1))


def forget_the_windows_edge(patch: pytest.MonkeyPatch) -> None:
    real = replaying.advance_window

    def advance(state: SequencerState) -> None:
        floor = state.index_floor
        real(state)
        state.index_floor = max(floor, state.index_floor - 1)

    patch.setattr(replaying, "advance_window", advance)


def comments_count_as_altered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replaying, "BENIGN_OPS", frozenset())


def additions_do_not_count_as_altered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replaying, "BENIGN_OPS", replaying.BENIGN_OPS | {AlterOp.ADD_COLUMN})


def compactions_are_not_seen_by_deletes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "RULES_OF", without(K.DELETE, K.COMPACT))


def deletes_are_not_seen_by_compactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "RULES_OF", without(K.COMPACT, K.DELETE))


def rows_of_a_file_never_overlap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "_rows_text", lambda rows: "")
    patch.setattr(conflicts, "granularity_of", lambda state, table, base: Granularity.ROW)


def every_delete_is_judged_by_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflicts, "granularity_of", lambda state, table, base: Granularity.FILE)


def ended_files_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "_gone_since", lambda plan, table, data_file_id: False)


def positions_may_be_deleted_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "_deleted_since", lambda *args: None)


def statistics_prove_too_much(patch: pytest.MonkeyPatch) -> None:
    real = reads._below
    patch.setattr(reads, "_below", lambda literal, low: real(literal, low) or (literal is not None and literal == low))


def unique_values_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows.RowPlanner, "holder", lambda *args: None)


def parents_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_conflicts.RowCheck, "_check_references", lambda *args: None)


def children_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_conflicts.RowCheck, "_check_children", lambda *args: None)


def the_earlier_update_wins(patch: pytest.MonkeyPatch) -> None:
    real = row_conflicts.RowCheck._proposed_wins
    patch.setattr(row_conflicts.RowCheck, "_proposed_wins", lambda *args: not real(*args))


def a_gone_row_was_never_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyedRows, "at", lambda *args: None)


def references_do_not_stop_a_drop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planners, "_referring", lambda *args: [])


def created_and_dropped_again_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def name(state: Any, footprint: Any, base: int, committed: ChangeKind) -> Any:
        if footprint.name is None or footprint.schema is None:
            return
        entry = state.entry_at(footprint.schema, footprint.name, state.head_snapshot_id)
        if entry is not None and entry.created_at > base and committed is K.CREATE_TABLE:
            yield conflicts.Hit(conflicts.hit_kind(entry, committed), entry.created_at, conflicts.object_of(entry))

    rules = {
        kind: tuple((c, name if check is conflicts._name else check) for c, check in found)
        for kind, found in conflicts.RULES_OF.items()
    }
    patch.setattr(conflicts, "RULES_OF", rules)


BUGS: list[Callable[[pytest.MonkeyPatch], None]] = [
    skip_the_read_set,
    skip_renamed,
    drop_does_not_mind_renames,
    off_by_one_at_the_base,
    forget_the_windows_edge,
    comments_count_as_altered,
    additions_do_not_count_as_altered,
    compactions_are_not_seen_by_deletes,
    deletes_are_not_seen_by_compactions,
    rows_of_a_file_never_overlap,
    every_delete_is_judged_by_file,
    ended_files_are_forgotten,
    positions_may_be_deleted_twice,
    statistics_prove_too_much,
    unique_values_are_not_checked,
    parents_are_not_checked,
    children_are_not_checked,
    the_earlier_update_wins,
    a_gone_row_was_never_there,
    references_do_not_stop_a_drop,
    created_and_dropped_again_is_forgotten,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bug_then_the_oracle_catches_it(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert caught(), f"{HISTORIES} histories did not notice: {plant.__name__}"
