"""What a log is among several sites, and what it has taken over from the others, as its catalog knows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.domain.model import KnownNode
from commitlog.domain.model.nodes import LastBrought, Node

EVER = 2**63 - 1

DIGEST: LiteralString = """
    WITH RECURSIVE names AS (
        (SELECT node FROM {own}.taken_over ORDER BY node LIMIT 1)
        UNION ALL
        SELECT (SELECT t.node FROM {own}.taken_over t WHERE t.node > n.node ORDER BY t.node LIMIT 1)
        FROM names n WHERE n.node IS NOT NULL)
    SELECT n.node, t.priority, t.tick + 1 AS next_tick FROM names n
    CROSS JOIN LATERAL (
        SELECT tick, priority FROM {own}.taken_over t WHERE t.node = n.node AND t.seq < {before}
        ORDER BY t.tick DESC LIMIT 1) t"""
"""How far each other node was taken over before an outcome; a few looks into indexes, whatever has come."""

_OWN_NODE = sql.SQL("SELECT name, priority FROM commitlog.own_node")
_DIGEST = sql.SQL(DIGEST).format(own=sql.Identifier("commitlog"), before=sql.Placeholder())
_LAST_BY = sql.SQL("""
    SELECT writer_seq, seq FROM commitlog.outcomes
    WHERE writer_id = %s AND verdict = 'COMMITTED' AND writer_seq IS NOT NULL ORDER BY writer_seq DESC LIMIT 1""")
_TAKEN_OVER_BY = sql.SQL("SELECT min(seq) FROM commitlog.taken_over WHERE node = %s AND tick = %s")
_HELD = sql.SQL("""
    SELECT held_since, seq, kind, schema_name, table_name, row_key, row, met_row FROM commitlog.divergent_rows
    ORDER BY seq DESC, schema_name, table_name, row_key LIMIT %s""")


class HeldRow(NamedTuple):
    """A row that is held back since an outcome, as it would stand, and the one that was in its way, if there was one."""

    held_since: datetime
    seq: int
    kind: str
    schema_name: str
    table_name: str
    row_key: str
    row: Mapping[str, Any] | None
    met_row: Mapping[str, Any] | None


def own_node(conn: Connection) -> Node | None:
    """The log's own name and priority; None when it is no node."""
    row = conn.execute(_OWN_NODE).fetchone()
    return None if row is None else Node(*row)


def digest(conn: Connection, before_seq: int) -> dict[str, KnownNode]:
    """How far the log had taken over other nodes before an outcome."""
    rows = conn.execute(_DIGEST, (before_seq,)).fetchall()
    return {name: KnownNode(name, next_tick, priority) for name, priority, next_tick in rows}


def last_by(conn: Connection, link: str) -> LastBrought | None:
    """The newest snapshot that a link, a writer, has brought; None when there is none."""
    row = conn.execute(_LAST_BY, (link,)).fetchone()
    return None if row is None else LastBrought(*row)


def taken_over_by(conn: Connection, node: str, tick: int) -> int | None:
    """The seq of the outcome that took over a snapshot of another node; None when there is none."""
    row = conn.execute(_TAKEN_OVER_BY, (node, tick)).fetchone()
    return None if row is None else row[0]


def held_rows(conn: Connection, limit: int) -> list[HeldRow]:
    """The rows that are held back, the latest first."""
    return [HeldRow(*row) for row in conn.execute(_HELD, (limit,)).fetchall()]
