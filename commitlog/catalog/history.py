"""The history of a log as its catalog knows it: every outcome, the newest first, with what it changed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.reader import CatalogReader, of_one_moment
from commitlog.catalog.snapshot_diff import Named
from commitlog.domain.model import Verdict

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_BY_ID = re.compile(r"[a-z_]+:(\d+)")

_NAMED: LiteralString = """
    (SELECT t.table_id, t.table_name AS name, t.schema_id, t.begin_snapshot, t.end_snapshot FROM ducklake_table t
     UNION ALL SELECT v.view_id, v.view_name, v.schema_id, v.begin_snapshot, v.end_snapshot FROM ducklake_view v)"""
# What had the name, at whichever time, is found once, and not for each outcome.
_ENTRIES = sql.SQL(
    """
    WITH called AS MATERIALIZED (
        SELECT n.table_id, n.begin_snapshot, n.end_snapshot FROM """
    + _NAMED
    + """ AS n JOIN ducklake_schema s USING (schema_id)
        WHERE lower(n.name) = lower(%(name)s) AND lower(s.schema_name) = lower(%(schema)s))
    SELECT o.seq, o.decided_at, o.verdict, o.snapshot_id, o.writer_id, o.proposal_id, o.base_snapshot_id,
        o.head_snapshot_id, o.reason, o.detail, o.change_kinds, c.author, c.commit_message, o.conflicts, c.changes_made,
        CASE WHEN o.verdict = 'REJECTED' THEN (
            SELECT array_agg(ARRAY[r.schema_name, r.table_name]) FROM commitlog.refused_tables r WHERE r.seq = o.seq) END
    FROM commitlog.outcomes o LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id)
    WHERE {conditions} ORDER BY o.seq DESC LIMIT %(limit)s"""
)
_OF_TABLE: LiteralString = """
    (EXISTS (
        SELECT FROM called n
        WHERE n.begin_snapshot <= o.snapshot_id AND coalesce(n.end_snapshot, o.snapshot_id) >= o.snapshot_id
        AND (o.snapshot_id IN (n.begin_snapshot, n.end_snapshot)
            OR c.changes_made ~ ('(^|,)[a-z_]+:' || n.table_id || '(,|$)')))
    OR o.seq IN (
        SELECT r.seq FROM commitlog.refused_tables r
        WHERE lower(r.table_name) = lower(%(name)s) AND lower(r.schema_name) = lower(%(schema)s))
    OR EXISTS (
        SELECT FROM jsonb_array_elements(o.conflicts) AS met
        WHERE lower(met -> 'object' ->> 'table') = lower(%(name)s)
        AND lower(met -> 'object' ->> 'schema') = lower(%(schema)s)))"""
_CONDITIONS = {
    "before_seq": sql.SQL("o.seq < %(before_seq)s"),
    "table": sql.SQL(_OF_TABLE),
    "table_id": sql.SQL("""
        (c.changes_made ~ ('(^|,)[a-z_]+:' || %(table_id)s::bigint || '(,|$)')
        OR o.snapshot_id IN (SELECT begin_snapshot FROM ducklake_table WHERE table_id = %(table_id)s)
        OR o.verdict = 'REJECTED' AND EXISTS (
            SELECT FROM commitlog.refused_tables r
            JOIN ducklake_table t ON lower(t.table_name) = lower(r.table_name)
            JOIN ducklake_schema s ON s.schema_id = t.schema_id AND lower(s.schema_name) = lower(r.schema_name)
            WHERE r.seq = o.seq AND t.table_id = %(table_id)s AND t.begin_snapshot <= o.head_snapshot_id
            AND (t.end_snapshot IS NULL OR t.end_snapshot > o.head_snapshot_id))
        OR o.conflicts IS NOT NULL AND o.conflicts @> jsonb_build_array(
            jsonb_build_object('object', jsonb_build_object('table_id', %(table_id)s::bigint))))"""),
    "proposal_id": sql.SQL("o.proposal_id = %(proposal_id)s"),
    "writer_id": sql.SQL("o.writer_id = %(writer_id)s"),
    "since": sql.SQL("o.decided_at >= %(since)s"),
    "verdict": sql.SQL("o.verdict = %(verdict)s"),
    "snapshot_id": sql.SQL("o.snapshot_id = %(snapshot_id)s"),
}
_NAMES: LiteralString = (
    """
    SELECT n.table_id, n.begin_snapshot, n.end_snapshot, s.schema_name, n.name FROM """
    + _NAMED
    + """ AS n JOIN ducklake_schema s USING (schema_id)
    WHERE n.table_id = ANY(%(ids)s) OR n.begin_snapshot = ANY(%(snapshots)s) OR n.end_snapshot = ANY(%(snapshots)s)"""
)
_WRITERS: LiteralString = """
    SELECT writer_id, committed, rejected, duplicates, writer_epoch, last_decided_at, last_snapshot_id
    FROM commitlog.writers ORDER BY last_decided_at DESC, writer_id LIMIT %s"""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An outcome in the history of a log.

    decided_at: when it was decided. snapshot_id: the snapshot that it made, None when it made none. change_kinds: which kinds
    of changes it asked for, such as ``("APPEND",)``. conflict_kinds: which kinds of conflicts it met. tables: the tables and
    views that it changed, by the names that they had before and after; of a refusal those that its conflicts
    name, or without any its changes. author, message: of what was committed.
    """

    seq: int
    decided_at: datetime
    verdict: Verdict
    snapshot_id: int | None
    writer_id: str | None
    proposal_id: UUID | None
    base_snapshot_id: int | None
    head_snapshot_id: int
    reason: str | None
    detail: str | None
    change_kinds: tuple[str, ...]
    conflict_kinds: tuple[str, ...]
    tables: tuple[Named, ...]
    author: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which outcomes are asked for; None is no condition.

    limit: how many at most. before_seq: only those before it. table: that changed it, or that were refused for a conflict
    about it, or for another reason when they were to change it. table_id: the same, whatever it was called. proposal_id: of
    this proposal. writer_id: of this writer. since: decided at this moment or later. snapshot_id: what made this one.
    """

    limit: int | None = None
    before_seq: int | None = None
    table: Named | None = None
    table_id: int | None = None
    proposal_id: UUID | None = None
    writer_id: str | None = None
    since: datetime | None = None
    verdict: Verdict | None = None
    snapshot_id: int | None = None


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


class HistoryReader(CatalogReader):
    """Asks a catalog what was decided."""

    def history(self, asked: HistoryFilter) -> list[HistoryEntry]:
        """The outcomes that are asked for, the newest first, with what they changed."""
        parameters = asdict(asked) | {"schema": None, "name": None}
        if asked.table is not None:
            parameters |= asked.table._asdict()
        conditions = [condition for name, condition in _CONDITIONS.items() if getattr(asked, name) is not None]
        query = _ENTRIES.format(conditions=sql.SQL(" AND ").join([sql.SQL("true"), *conditions]))
        with self.at_once() as conn:
            rows = conn.execute(query, parameters).fetchall()
            named = _Names(conn, rows)
        return [_entry(row, named) for row in rows]

    @of_one_moment
    def writers(self, limit: int) -> list[WriterTotals]:
        """The writers whose proposals were decided last."""
        return [WriterTotals(*row) for row in self._select(_WRITERS, (limit,))]


def _entry(row: tuple[Any, ...], named: _Names) -> HistoryEntry:
    seq, decided_at, verdict, snapshot_id, *asked, kinds, author, message, conflicts, changes_made, refused = row
    writer_id, proposal_id, base_snapshot_id, head_snapshot_id, reason, detail = asked
    tables = _met(conflicts, refused) if snapshot_id is None else named.changed(snapshot_id, changes_made)
    return HistoryEntry(
        seq=seq,
        decided_at=decided_at,
        verdict=Verdict(verdict),
        snapshot_id=snapshot_id,
        writer_id=writer_id,
        proposal_id=proposal_id,
        base_snapshot_id=base_snapshot_id,
        head_snapshot_id=head_snapshot_id,
        reason=reason,
        detail=detail,
        change_kinds=tuple(kinds.split(",")) if kinds else (),
        conflict_kinds=tuple(sorted({each["kind"] for each in conflicts or ()})),
        tables=tuple(sorted(tables)),
        author=author,
        message=message,
    )


class _Names:
    """What the tables and views that some snapshots changed were called then."""

    def __init__(self, conn: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        ids = {each for *_, changes_made, _ in rows for each in _ids(changes_made)}
        asked = {"ids": list(ids), "snapshots": [row[3] for row in rows if row[3] is not None]}
        self._names: defaultdict[int, list[tuple[int, int | None, Named]]] = defaultdict(list)
        self._named_at: defaultdict[int | None, set[int]] = defaultdict(set)
        for table_id, begin, end, schema, name in conn.execute(_NAMES, asked):
            self._names[table_id].append((begin, end, Named(schema, name)))
            self._named_at[begin].add(table_id)
            self._named_at[end].add(table_id)

    def changed(self, snapshot_id: int, changes_made: str | None) -> set[Named]:
        # What a snapshot drops or renames ends in it.
        return {
            named
            for table_id in self._named_at[snapshot_id] | _ids(changes_made)
            for begin, end, named in self._names[table_id]
            if begin <= snapshot_id and (end is None or end >= snapshot_id)
        }


def _ids(changes_made: str | None) -> set[int]:
    return {int(each) for each in _BY_ID.findall(_QUOTED.sub("", changes_made or ""))}


def _met(conflicts: Iterable[Any] | None, refused: Iterable[Sequence[str]] | None) -> set[Named]:
    objects = [each["object"] for each in conflicts or ()]
    met = {Named(each["schema"], each["table"]) for each in objects if each["schema"] and each["table"]}
    return met | {Named(*each) for each in refused or ()}
