"""What a log is among several sites, and what it has taken over from the others, as its catalog knows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from psycopg import sql

from commitlog.catalog.reader import CatalogReader, of_one_moment
from commitlog.domain.model import KnownNode
from commitlog.domain.model.nodes import LastBrought, Node

_EVER = 2**63 - 1

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


class SitesReader(CatalogReader):
    """Asks a catalog what its log is among several sites."""

    @of_one_moment
    def own_node(self) -> Node | None:
        """What the log is among several sites; None when it is no node."""
        rows = self._select(_OWN_NODE)
        return Node(*rows[0]) if rows else None

    @of_one_moment
    def digest(self, before_seq: int | None = None) -> dict[str, KnownNode]:
        """How far the log had taken over other nodes before an outcome; None: by now."""
        rows = self._select(_DIGEST, (_EVER if before_seq is None else before_seq,))
        return {name: KnownNode(name, next_tick, priority) for name, priority, next_tick in rows}

    @of_one_moment
    def last_by(self, link: str) -> LastBrought | None:
        """The newest snapshot that a link, a writer, has brought; None when there is none."""
        rows = self._select(_LAST_BY, (link,))
        return LastBrought(*rows[0]) if rows else None

    @of_one_moment
    def taken_over_by(self, node: str, tick: int) -> int | None:
        """The seq of the outcome that took over a snapshot of another node; None when there is none."""
        [(seq,)] = self._select(_TAKEN_OVER_BY, (node, tick))
        return None if seq is None else int(seq)

    @of_one_moment
    def held_rows(self, limit: int) -> list[HeldRow]:
        """The rows that are held back, since other sites' rows do not let them stand; the latest first."""
        return [HeldRow(*row) for row in self._select(_HELD, (limit,))]
