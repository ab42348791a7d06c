"""Which outcomes a log in memory has had: what ``catalog.history`` tells of others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from commitlog.catalog.history import HistoryEntry, HistoryFilter, WriterTotals
from commitlog.catalog.snapshot_diff import Named
from commitlog.client.access.history_entries import entry_of, is_asked
from commitlog.domain import model as m


class MemoryHistory:
    """The outcomes so far, each with the ids of the tables that it was about, and its writer's epoch."""

    def __init__(self) -> None:
        self._known: list[tuple[HistoryEntry, frozenset[int]]] = []
        self._epochs: dict[str, int] = {}

    def take(
        self, outcome: m.Outcome, table_id_of: Callable[[Named], int | None], dropped: Mapping[int, Named]
    ) -> None:
        """Add an outcome; the tables at its head are found by their names, and what it dropped is named by id."""
        entry = entry_of(outcome)
        if dropped:
            entry = replace(entry, tables=tuple(sorted({*entry.tables, *dropped.values()})))
        is_refused = entry.verdict is m.Verdict.REJECTED and not outcome.conflicts
        asked = {table_id_of(each) for each in entry.tables} if is_refused else set()
        met = {each.object.table_id for each in outcome.conflicts}
        changed = {each.object_id for each in outcome.effects}
        self._known.append(
            (entry, frozenset(each for each in met | changed | asked | dropped.keys() if each is not None))
        )
        if outcome.proposal is not None and outcome.proposal.writer_epoch is not None:
            writer_id = outcome.proposal.writer_id
            self._epochs[writer_id] = max(outcome.proposal.writer_epoch, self._epochs.get(writer_id, 0))

    def search(self, asked: HistoryFilter) -> list[HistoryEntry]:
        """The outcomes that are asked for, the newest first."""
        about = (
            entry for entry, table_ids in reversed(self._known) if asked.table_id is None or asked.table_id in table_ids
        )
        return [each for each in about if is_asked(each, asked)][: asked.limit]

    def writers(self, limit: int) -> list[WriterTotals]:
        """The writers whose proposals were decided last."""
        by_writer: defaultdict[str, list[HistoryEntry]] = defaultdict(list)
        for entry, _ in self._known:
            if entry.writer_id is not None:
                by_writer[entry.writer_id].append(entry)
        found = [_totals(writer_id, entries, self._epochs.get(writer_id)) for writer_id, entries in by_writer.items()]
        return sorted(found, key=lambda each: each.last_decided_at, reverse=True)[:limit]


def _totals(writer_id: str, entries: list[HistoryEntry], writer_epoch: int | None) -> WriterTotals:
    verdicts = [each.verdict for each in entries]
    return WriterTotals(
        writer_id,
        committed=verdicts.count(m.Verdict.COMMITTED),
        rejected=verdicts.count(m.Verdict.REJECTED),
        duplicates=verdicts.count(m.Verdict.DUPLICATE),
        writer_epoch=writer_epoch,
        last_decided_at=entries[-1].decided_at,
        last_snapshot_id=max((each.snapshot_id for each in entries if each.snapshot_id is not None), default=None),
    )
