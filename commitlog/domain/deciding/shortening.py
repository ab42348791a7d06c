"""What an outcome is that would be too large for its topic: without what is only there to be looked at."""

from __future__ import annotations

from collections.abc import Iterator

from commitlog.domain import model as m
from commitlog.domain.state.index import SequencerState

_IN_EFFECTS = (m.ResolutionAction.APPLIED, m.ResolutionAction.SKIPPED)
"""What is said of these is in the effects, too, but for the key of another row that was met."""


def shortenings(state: SequencerState, outcome: m.Outcome) -> Iterator[m.Outcome]:
    """The outcome ever shorter, before the state has taken it: first without row images, then with half of the conflicts at
    a time, and at last without those settled races that nobody goes by; ``conflict_count`` stays."""
    outcome = outcome.replace(resolutions=tuple([_without_images(state, each) for each in outcome.resolutions]))
    yield outcome
    while outcome.conflicts:
        outcome = outcome.replace(conflicts=outcome.conflicts[: len(outcome.conflicts) // 2])
        yield outcome
    kept = tuple([each for each in outcome.resolutions if each.action not in _IN_EFFECTS or each.committed_row])
    if len(kept) < len(outcome.resolutions):
        yield outcome.replace(resolutions=kept)


def _without_images(state: SequencerState, told: m.Resolution) -> m.Resolution:
    """Of a committed row its key stays where the proposed one has another: links say by it which row was ended."""
    committed, proposed = told.committed_row, told.proposed_row
    key: m.Row | None = None
    if committed is not None and proposed is not None:
        assert told.object.table_id is not None
        table = state.tables[told.object.table_id].definition
        names = table.names_of(table.primary_key)
        if any(committed[name] != proposed.get(name) for name in names):
            key = {name: committed[name] for name in names}
    return told.replace(committed_row=key, proposed_row=None)
