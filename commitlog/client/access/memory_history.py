"""Which outcomes a log in memory has had: what ``catalog.history`` tells of others."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from uuid import UUID

from commitlog.catalog.history import HistoryEntry, HistorySearch, WriterTotals
from commitlog.domain import model as m


class MemoryHistory:
    """The outcomes so far, each with the ids of the tables that it was about."""

    def __init__(self) -> None:
        self._known: list[tuple[HistoryEntry, frozenset[int]]] = []

    def take(self, outcome: m.Outcome) -> None:
        """Add an outcome."""
        met = {each.object.table_id for each in outcome.conflicts}
        changed = {each.object_id for each in outcome.effects}
        self._known.append((_entry(outcome), frozenset(each for each in met | changed if each is not None)))

    def search(self, asked: HistorySearch) -> list[HistoryEntry]:
        """The outcomes that are asked for, the newest first."""
        return [entry for entry, tables in reversed(self._known) if _is_asked(entry, tables, asked)][: asked.limit]

    def writers(self, limit: int) -> list[WriterTotals]:
        """The writers whose proposals were decided last."""
        by_writer: defaultdict[str, list[HistoryEntry]] = defaultdict(list)
        for entry, _ in self._known:
            if entry.writer_id is not None:
                by_writer[entry.writer_id].append(entry)
        found = [_totals(writer_id, entries) for writer_id, entries in by_writer.items()]
        return sorted(found, key=lambda each: each.last_decided_at, reverse=True)[:limit]


def _entry(outcome: m.Outcome) -> HistoryEntry:
    asked, committed = outcome.proposal, outcome.verdict is m.Verdict.COMMITTED
    return HistoryEntry(
        seq=outcome.seq,
        proposal_id=None if outcome.proposal_id is None else UUID(bytes=outcome.proposal_id),
        writer_id=outcome.writer_id,
        writer_epoch=None if asked is None else asked.writer_epoch,
        base_snapshot_id=None if asked is None else asked.base_snapshot_id,
        change_kinds=() if asked is None else tuple(dict.fromkeys(each.kind.value for each in asked.changes)),
        verdict=outcome.verdict.value,
        snapshot_id=outcome.snapshot_id,
        head_snapshot_id=outcome.head_snapshot_id,
        reason=None if outcome.reason is None else outcome.reason.value,
        detail=outcome.detail,
        conflict_kinds=tuple(sorted({each.kind.value for each in outcome.conflicts})),
        decided_at=datetime.fromtimestamp(outcome.decided_at_ms / 1000, UTC),
        author=asked.author if asked is not None and committed else None,
        message=asked.message if asked is not None and committed else None,
    )


def _is_asked(entry: HistoryEntry, tables: frozenset[int], asked: HistorySearch) -> bool:
    return (
        (asked.proposal_id is None or (entry.proposal_id is not None and entry.proposal_id.bytes == asked.proposal_id))
        and asked.writer_id in (None, entry.writer_id)
        and (asked.table_id is None or asked.table_id in tables)
        and asked.snapshot_id in (None, entry.snapshot_id)
        and asked.verdict in (None, entry.verdict)
        and (asked.before_seq is None or entry.seq < asked.before_seq)
    )


def _totals(writer_id: str, entries: list[HistoryEntry]) -> WriterTotals:
    verdicts = [each.verdict for each in entries]
    return WriterTotals(
        writer_id,
        committed=verdicts.count("COMMITTED"),
        rejected=verdicts.count("REJECTED"),
        duplicates=verdicts.count("DUPLICATE"),
        writer_epoch=max((each.writer_epoch for each in entries if each.writer_epoch is not None), default=None),
        last_decided_at=entries[-1].decided_at,
        last_snapshot_id=max((each.snapshot_id for each in entries if each.snapshot_id is not None), default=None),
    )
