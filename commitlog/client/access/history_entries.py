"""Outcomes as entries of the history, as the catalog tells them: for a log in memory, and for one that is followed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from commitlog.catalog.history import HistoryEntry, HistoryFilter
from commitlog.catalog.snapshot_diff import Named
from commitlog.client.tables.names import folded
from commitlog.domain import model as m
from commitlog.domain.model.named import named_by
from commitlog.domain.model.types import fold

_EPOCH = datetime.fromtimestamp(0, UTC)


def is_asked(entry: HistoryEntry, asked: HistoryFilter) -> bool:
    """Whether a filter lets an entry through, whatever ``table_id`` it asks for."""
    return (
        (asked.before_seq is None or entry.seq < asked.before_seq)
        and (asked.proposal_id is None or entry.proposal_id == asked.proposal_id)
        and (asked.writer_id is None or entry.writer_id == asked.writer_id)
        and (asked.since is None or entry.decided_at >= asked.since)
        and (asked.verdict is None or entry.verdict == asked.verdict)
        and (asked.snapshot_id is None or entry.snapshot_id == asked.snapshot_id)
        and (asked.table is None or folded(asked.table) in map(folded, entry.tables))
    )


def entry_of(outcome: m.Outcome) -> HistoryEntry:
    """The entry of an outcome."""
    asked = outcome.proposal
    committed = asked if outcome.verdict is m.Verdict.COMMITTED else None
    return HistoryEntry(
        seq=outcome.seq,
        decided_at=_EPOCH + timedelta(milliseconds=outcome.decided_at_ms),
        verdict=outcome.verdict,
        snapshot_id=outcome.snapshot_id,
        writer_id=outcome.writer_id,
        proposal_id=None if outcome.proposal_id is None else UUID(bytes=outcome.proposal_id),
        base_snapshot_id=None if asked is None else asked.base_snapshot_id,
        head_snapshot_id=outcome.head_snapshot_id,
        reason=None if outcome.reason is None else outcome.reason.value,
        detail=outcome.detail,
        change_kinds=() if asked is None else tuple(dict.fromkeys(each.kind.value for each in asked.changes)),
        conflict_kinds=tuple(sorted({each.kind.value for each in outcome.conflicts})),
        tables=tables_of(outcome),
        author=None if committed is None else committed.author,
        message=None if committed is None else committed.message,
    )


def tables_of(outcome: m.Outcome) -> tuple[Named, ...]:
    """The tables and views that an outcome changed; of a refusal those that its conflicts name, or without any its changes."""
    committed = outcome.proposal if outcome.verdict is m.Verdict.COMMITTED else None
    if committed is not None:
        return tuple(sorted(set(_changed(committed, outcome))))
    return tuple(sorted(set(_refused(outcome)))) if outcome.verdict is m.Verdict.REJECTED else ()


def schemas_dropped(outcome: m.Outcome) -> set[str]:
    """The folded names of the schemas that went with what they held, of which an outcome names nothing."""
    committed = outcome.proposal if outcome.verdict is m.Verdict.COMMITTED else None
    changes = () if committed is None else zip(committed.changes, outcome.effects, strict=True)
    return {fold(each.schema) for each, effect in changes if isinstance(each, m.DropSchema) and not effect.skipped}


def _changed(proposal: m.Proposal, outcome: m.Outcome) -> Iterator[Named]:
    for change, effect in zip(proposal.changes, outcome.effects, strict=True):
        if not effect.skipped:
            yield from itertools.starmap(Named, named_by(change))


def _refused(outcome: m.Outcome) -> Iterator[Named]:
    if outcome.proposal is not None and not outcome.conflicts:
        for change in outcome.proposal.changes:
            yield from itertools.starmap(Named, named_by(change))
    for conflict in outcome.conflicts:
        if conflict.object.schema and conflict.object.table:
            yield Named(conflict.object.schema, conflict.object.table)
