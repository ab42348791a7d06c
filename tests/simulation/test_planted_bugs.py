"""Planted bugs: each of these mistakes in the core must be caught by the comparison with the oracle."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from oracle.histories import run_seed

from commitlog.domain.deciding import (
    conflict_matrix,
    conflict_rules,
    conflicts,
    decide,
    files,
    objects,
    proofs,
    reads,
    row_conflicts,
    row_overlay,
    rows,
)
from commitlog.domain.deciding.rules import Rules
from commitlog.domain.model import AlterOp, ChangeKind, DeleteRow, Granularity, InvalidCode, ResolutionAction
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.state import replaying
from commitlog.domain.state.index import ROW_CHANGES, SequencerState
from commitlog.domain.state.rows import LOCAL, KeyedRows
from commitlog.errors import InvalidChangeError

pytestmark = pytest.mark.interpreted("compiled code calls functions directly: a mistake cannot be put in their place")

HISTORIES = 2_000
K = ChangeKind


def caught(first: int) -> bool:
    """Whether some history shows a difference, or stops the core; the first of them is tried before all others."""
    for seed in (first, *range(HISTORIES)):
        try:
            if run_seed(seed).difference is not None:
                return True
        except (AssertionError, KeyError, IndexError):
            return True
    return False


def without(proposed: ChangeKind, *committed: ChangeKind) -> dict[ChangeKind, Any]:
    """The rules of one kind without some cells of the matrix."""
    kept = tuple((kind, check) for kind, check in conflict_matrix.RULES_OF[proposed] if kind not in committed)
    return {**conflict_matrix.RULES_OF, proposed: kept}


def skip_the_read_set(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "find_read_hits", lambda *args: ())


def skip_renamed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_matrix, "RULES_OF", without(K.APPEND, K.RENAME_TABLE))


def drop_does_not_mind_renames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_matrix, "RULES_OF", without(K.DROP_TABLE, K.RENAME_TABLE))


def off_by_one_at_the_base(patch: pytest.MonkeyPatch) -> None:
    real = conflict_matrix.check_footprint
    patch.setattr(decide, "check_footprint", lambda state, footprint, base: real(state, footprint, base - 1))


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
    patch.setattr(conflict_matrix, "RULES_OF", without(K.DELETE, K.COMPACT))


def deletes_are_not_seen_by_compactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_matrix, "RULES_OF", without(K.COMPACT, K.DELETE))


def rows_of_a_file_never_overlap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_rules, "_rows_text", lambda rows: "")
    patch.setattr(Rules, "granularity_since", lambda *args: Granularity.ROW)


def every_delete_is_judged_by_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rules, "granularity_since", lambda *args: Granularity.FILE)


def ended_files_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "_gone_since", lambda plan, table, data_file_id: False)


def positions_may_be_deleted_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "_deleted_since", lambda *args: None)


def statistics_prove_too_much(patch: pytest.MonkeyPatch) -> None:
    real = proofs._below
    patch.setattr(
        proofs, "_below", lambda literal, low: real(literal, low) or (literal is not None and literal.greatest == low)
    )


def literals_are_not_rounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proofs, "nearest_float", lambda data_type, value: value)


def rows_that_a_compaction_moved_are_not_followed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reads, "_holding_since", lambda state, data_file_ids, base: list(data_file_ids))


def unique_values_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_overlay.RowOverlay, "holder", lambda *args: None)


def parents_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_conflicts, "check_references", lambda *args: None)


def children_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_conflicts, "check_children", lambda *args: None)


def the_earlier_update_wins(patch: pytest.MonkeyPatch) -> None:
    real = row_conflicts.RowCheck._proposed_wins
    patch.setattr(row_conflicts.RowCheck, "_proposed_wins", lambda *args: not real(*args))


def a_gone_row_was_never_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyedRows, "at", lambda *args: None)


def references_do_not_stop_a_drop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(objects, "_referring", lambda *args: [])


def created_and_dropped_again_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def name(state: Any, footprint: Any, base: int, committed: ChangeKind) -> Any:
        if footprint.name is None or footprint.schema is None:
            return
        entry = state.entry_at(footprint.schema, footprint.name, state.head_snapshot_id)
        if entry is not None and entry.created_at > base and committed is K.CREATE_TABLE:
            yield conflicts.Hit(conflicts.hit_kind(entry, committed), entry.created_at, conflicts.object_of(entry))

    rules = {
        kind: tuple((c, name if check is conflict_rules._name else check) for c, check in found)
        for kind, found in conflict_matrix.RULES_OF.items()
    }
    patch.setattr(conflict_matrix, "RULES_OF", rules)


def nan_is_ignored_in_filters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proofs, "FLOATS", frozenset())


def texts_are_never_cut_short(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proofs, "may_be_cut", lambda high: False)


def decimals_are_compared_as_text(patch: pytest.MonkeyPatch) -> None:
    real = proofs.comparable
    patch.setattr(
        proofs, "comparable", lambda kind, value: str(value) if kind.name == "decimal" and value else real(kind, value)
    )


def times_are_compared_as_written(patch: pytest.MonkeyPatch) -> None:
    real = proofs.comparable

    def comparable(kind: Any, value: Any) -> Any:
        return value if kind.name == "timestamp" and isinstance(value, str) else real(kind, value)

    patch.setattr(proofs, "comparable", comparable)


def a_literal_of_another_type_proves(patch: pytest.MonkeyPatch) -> None:
    real = proofs._below
    patch.setattr(proofs, "_below", lambda literal, low: literal is None or real(literal, low))


def missing_counts_count_as_zero(patch: pytest.MonkeyPatch) -> None:
    real = proofs.held_by_statistics

    def held(table: Any, file: Any, statistics: Any, column: Any) -> Any:
        counted = {name: known.replace(null_count=known.null_count or 0) for name, known in statistics.items()}
        return real(table, file, counted, column)

    patch.setattr(proofs, "held_by_statistics", held)


def a_partition_of_null_matches_nothing(patch: pytest.MonkeyPatch) -> None:
    real = proofs.held_by_partition

    def held(table: Any, file: Any, column: Any) -> Any:
        nothing = proofs.Held(may_be_null=False, may_be_value=False)
        return nothing if None in (file.partition_values or ()) else real(table, file, column)

    patch.setattr(proofs, "held_by_partition", held)


def every_transform_is_a_proof(patch: pytest.MonkeyPatch) -> None:
    real = proofs.held_by_partition

    def held(table: Any, *rest: Any) -> Any:
        keys = tuple(key.replace(transform="identity") for key in table.partition_by)
        return real(table.replace(partition_by=keys), *rest)

    patch.setattr(proofs, "held_by_partition", held)


def partitioning_does_not_constrain_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_matrix, "RULES_OF", without(K.ALTER_TABLE, K.APPEND, *ROW_CHANGES))


def the_handlers_answer_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def ask(check: Any, meetings: list[Any], proposed: Any) -> None:
        check._resolve(meetings[0], ResolutionAction.HANDLED, proposed, proposed)
        check._stand(meetings[0], proposed)

    patch.setattr(row_conflicts.RowCheck, "_ask_handler", ask)


def the_handlers_answer_is_not_replayed(patch: pytest.MonkeyPatch) -> None:
    real = replaying._Replay.image

    def image(replay: Any, table: Any, change: Any, index: int) -> Any:
        answer = real(replay, table, change, index)
        return answer if isinstance(change, DeleteRow) or answer is None else complete_row(table.definition, change.row)

    patch.setattr(replaying._Replay, "image", image)


def a_failing_handler_names_only_one_row(patch: pytest.MonkeyPatch) -> None:
    real = row_conflicts.RowCheck._abort
    patch.setattr(row_conflicts.RowCheck, "_abort", lambda check, meetings, *rest: real(check, meetings[:1], *rest))


def a_handler_may_answer_with_any_key(patch: pytest.MonkeyPatch) -> None:
    class Everything:
        def __contains__(self, _: object) -> bool:
            return True

    patch.setattr(row_conflicts.RowCheck, "_keys_allowed", lambda *args: Everything())


def a_flush_ignores_changed_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_matrix, "RULES_OF", without(K.FLUSH, *ROW_CHANGES))


def a_flush_ignores_flushes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict_matrix, "RULES_OF", without(K.FLUSH, K.FLUSH))


def a_flush_takes_rows_that_are_in_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows, "_check_flushed", lambda *args: None)


def a_flush_changes_rows_for_readers(patch: pytest.MonkeyPatch) -> None:
    real = replaying._Replay.flush

    def flush(replay: Any, change: Any, effect: Any, index: int) -> None:
        real(replay, change, effect, index)
        replay.touch(replay.table(effect), K.UPDATE_ROW)

    patch.setitem(replaying._APPLY, K.FLUSH, flush)


def the_node_of_a_replicated_row_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_conflicts, "origin_of", lambda change: LOCAL)


def replicated_updates_are_like_own_ones(patch: pytest.MonkeyPatch) -> None:
    def not_there(check: Any, key: str) -> Any:
        raise InvalidChangeError(InvalidCode.ROW_MISSING, key)

    patch.setattr(row_conflicts.RowCheck, "_not_there_yet", not_there)


def only_the_first_unique_constraint_counts(patch: pytest.MonkeyPatch) -> None:
    real = row_overlay.RowOverlay.holder
    patch.setattr(
        row_overlay.RowOverlay,
        "holder",
        lambda self, table, number, value: None if number else real(self, table, number, value),
    )


def references_to_unique_columns_always_hold(patch: pytest.MonkeyPatch) -> None:
    real = row_overlay.RowOverlay.provider

    def provider(self: Any, parent: Any, columns: Any, value: str) -> Any:
        return real(self, parent, columns, value) if columns == parent.definition.primary_key else value

    patch.setattr(row_overlay.RowOverlay, "provider", provider)


def a_table_is_touched_when_no_row_of_it_changed(patch: pytest.MonkeyPatch) -> None:
    real = replaying._Replay.row

    def row(replay: Any, change: Any, effect: Any, index: int) -> None:
        real(replay, change, effect, index)
        replay.touch(replay.table(effect), change.kind)

    for kind in ROW_CHANGES:
        patch.setitem(replaying._APPLY, kind, row)


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
    literals_are_not_rounded,
    rows_that_a_compaction_moved_are_not_followed,
    unique_values_are_not_checked,
    parents_are_not_checked,
    children_are_not_checked,
    the_earlier_update_wins,
    a_gone_row_was_never_there,
    references_do_not_stop_a_drop,
    created_and_dropped_again_is_forgotten,
    nan_is_ignored_in_filters,
    texts_are_never_cut_short,
    decimals_are_compared_as_text,
    times_are_compared_as_written,
    a_literal_of_another_type_proves,
    missing_counts_count_as_zero,
    a_partition_of_null_matches_nothing,
    every_transform_is_a_proof,
    partitioning_does_not_constrain_rows,
    the_handlers_answer_is_ignored,
    the_handlers_answer_is_not_replayed,
    a_failing_handler_names_only_one_row,
    a_handler_may_answer_with_any_key,
    a_flush_ignores_changed_rows,
    a_flush_ignores_flushes,
    a_flush_takes_rows_that_are_in_files,
    a_flush_changes_rows_for_readers,
    the_node_of_a_replicated_row_is_forgotten,
    replicated_updates_are_like_own_ones,
    only_the_first_unique_constraint_counts,
    references_to_unique_columns_always_hold,
    a_table_is_touched_when_no_row_of_it_changed,
]
FINDS = {
    skip_renamed: 146,
    created_and_dropped_again_is_forgotten: 74,
    texts_are_never_cut_short: 1138,
    every_transform_is_a_proof: 680,
    the_node_of_a_replicated_row_is_forgotten: 144,
    a_table_is_touched_when_no_row_of_it_changed: 169,
}
"""The histories that find what few find. Once histories are drawn otherwise they may be others; the test then takes longer."""


@pytest.mark.parametrize("plant", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bug_then_the_oracle_catches_it(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert caught(FINDS.get(plant, 0)), f"{HISTORIES} histories did not notice: {plant.__name__}"
