"""Which outcomes there were, by who asked, what for and what became of it: for people who look for one.

What `commitlog.outcomes` holds of each, with what its snapshot says. A table's outcomes are those whose snapshot changed it,
as far as snapshots are kept, and those that were refused for something in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import sql

if TYPE_CHECKING:
    from commitlog.catalog.queries import Catalog

LIMIT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class HistorySearch:
    """Which outcomes are asked for, the newest first; None is any.

    Attributes:
        proposal_id: of the proposal, 16 bytes.
        writer_id: of its writer.
        table_id: of a table that it changed, or in which it met something.
        snapshot_id: which snapshot it made.
        verdict: COMMITTED, REJECTED or DUPLICATE.
        before_seq: only outcomes before this one.
        limit: how many at most.
    """

    proposal_id: bytes | None = None
    writer_id: str | None = None
    table_id: int | None = None
    snapshot_id: int | None = None
    verdict: str | None = None
    before_seq: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One outcome on one line: see ``Outcome`` for the fields; ``author`` and ``message`` are of the snapshot it made."""

    seq: int
    proposal_id: UUID | None
    writer_id: str | None
    writer_epoch: int | None
    base_snapshot_id: int | None
    change_kinds: tuple[str, ...]
    verdict: str
    snapshot_id: int | None
    head_snapshot_id: int
    reason: str | None
    detail: str | None
    conflict_kinds: tuple[str, ...]
    decided_at: datetime
    author: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WriterTotals:
    """What one writer has proposed so far, and the last of it."""

    writer_id: str
    committed: int
    rejected: int
    duplicates: int
    writer_epoch: int | None
    last_decided_at: datetime
    last_snapshot_id: int | None


_HISTORY = sql.SQL("""
    SELECT o.seq, o.proposal_id, o.writer_id, o.writer_epoch, o.base_snapshot_id, o.change_kinds, o.verdict, o.snapshot_id,
        o.head_snapshot_id, o.reason, o.detail,
        ARRAY(SELECT DISTINCT x.entry ->> 'kind' FROM jsonb_array_elements(coalesce(o.conflicts, '[]')) AS x(entry) ORDER BY 1),
        o.decided_at, c.author, c.commit_message
    FROM commitlog.outcomes o LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id)
    WHERE {conditions} ORDER BY o.seq DESC LIMIT %(limit)s""")
_CONDITIONS = {
    "proposal_id": sql.SQL("o.proposal_id = %(proposal_id)s"),
    "writer_id": sql.SQL("o.writer_id = %(writer_id)s"),
    "table_id": sql.SQL("""(o.snapshot_id IN (
        SELECT snapshot_id FROM ducklake_snapshot_changes WHERE changes_made ~ %(entry)s
        UNION SELECT begin_snapshot FROM ducklake_table WHERE table_id = %(table_id)s)
        OR o.conflicts @> jsonb_build_array(
            jsonb_build_object('object', jsonb_build_object('table_id', %(table_id)s::bigint))))"""),
    "snapshot_id": sql.SQL("o.snapshot_id = %(snapshot_id)s"),
    "verdict": sql.SQL("o.verdict = %(verdict)s"),
    "before_seq": sql.SQL("o.seq < %(before_seq)s"),
}
_WRITERS = sql.SQL("""
    SELECT writer_id, committed, rejected, duplicates, writer_epoch, last_decided_at, last_snapshot_id
    FROM commitlog.writers ORDER BY last_decided_at DESC, writer_id LIMIT %s""")


def decided(catalog: Catalog, asked: HistorySearch) -> list[HistoryEntry]:
    """The outcomes that are asked for, the newest first."""
    given = {name: getattr(asked, name) for name in _CONDITIONS}
    conditions = [_CONDITIONS[name] for name, value in given.items() if value is not None]
    parameters: dict[str, Any] = {**given, "limit": asked.limit, "entry": f"(^|,)[a-z_]+:{asked.table_id}(,|$)"}
    if asked.proposal_id is not None:
        parameters["proposal_id"] = UUID(bytes=asked.proposal_id)
    query = _HISTORY.format(conditions=sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true"))
    with catalog.connected() as conn:
        return [_entry(row) for row in conn.execute(query, parameters).fetchall()]


def _entry(row: tuple[Any, ...]) -> HistoryEntry:
    values = list(row)
    values[5] = tuple(row[5].split(",")) if row[5] else ()
    values[11] = tuple(row[11])
    return HistoryEntry(*values)


def writers(catalog: Catalog, limit: int) -> list[WriterTotals]:
    """The writers whose proposals were decided last."""
    with catalog.connected() as conn:
        return [WriterTotals(*row) for row in conn.execute(_WRITERS, (limit,)).fetchall()]
