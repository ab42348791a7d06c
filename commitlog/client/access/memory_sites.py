"""Which rows of a log in memory are held back, as its outcomes have told it: the rule of ``commitlog.divergent_rows``."""

from __future__ import annotations

from datetime import UTC, datetime

from commitlog.catalog.taken_over import HeldRow
from commitlog.domain import model as m

_MOVED = frozenset({m.ResolutionAction.HELD, m.ResolutionAction.RELEASED})


class HeldRows:
    """The rows of which it was told last that they are held back."""

    def __init__(self) -> None:
        self._told: dict[tuple[int | None, str | None], HeldRow] = {}

    def take(self, outcome: m.Outcome) -> None:
        """Add what an outcome tells of rows."""
        for told in outcome.resolutions:
            if told.action in _MOVED:
                self._told.pop((told.object.table_id, told.object.row_key), None)
            if told.action is m.ResolutionAction.HELD:
                self._told[told.object.table_id, told.object.row_key] = HeldRow(
                    datetime.fromtimestamp(outcome.decided_at_ms / 1000, UTC),
                    outcome.seq,
                    told.kind.value,
                    told.object.schema or "",
                    told.object.table or "",
                    told.object.row_key or "",
                    told.proposed_row,
                    told.committed_row,
                )

    def latest(self, limit: int, live: set[int]) -> list[HeldRow]:
        """Those of tables that are still there, the latest first."""
        rows = [row for (table_id, _), row in self._told.items() if table_id in live]
        return sorted(rows, key=lambda row: (-row.seq, row.schema_name, row.table_name, row.row_key))[:limit]
