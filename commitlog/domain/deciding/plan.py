"""One proposal being looked at: the parts that know its names, ids, bounds and rows, and what has been found out so far.

The judges of each kind of change (``objects``, ``files``, ``rows``) are handed a plan; it knows none of them.
"""

from __future__ import annotations

from typing import NamedTuple

from commitlog.domain.deciding.bounds import Bounds
from commitlog.domain.deciding.conflicts import Footprint, Hit
from commitlog.domain.deciding.given_ids import GivenIds
from commitlog.domain.deciding.names import Names
from commitlog.domain.deciding.row_overlay import RowOverlay
from commitlog.domain.deciding.rules import Rules
from commitlog.domain.model import Effect, Granularity, Resolution
from commitlog.domain.state.claims import Claim, Place
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.sites import Arrival


class Arriving(NamedTuple):
    """A row whose version becomes another by what a link brings.

    change: the index of what brings it. claim: what it asks for from then on; None: it is gone. id_told_at: where its id is
    told if it is given one.
    """

    place: Place
    change: int
    claim: Claim | None
    id_told_at: int


class Plan:
    """What one proposal is judged against, and what it would do.

    effects: of its changes, in order. footprints: what they touch that was there before. row_hits: races on rows that
    nothing settles, by index of the change; resolutions: those that were settled. changes_schema: whether the catalog's
    schema version rises. arriving: the rows that become others by what a link brings, at most one for each key. settings,
    node: the log's, as earlier CONFIGUREs of the changeset leave them.
    """

    __slots__ = (
        "_rows",
        "arrival",
        "arriving",
        "base",
        "bounds",
        "changes_schema",
        "decided_at_ms",
        "effects",
        "footprints",
        "ids",
        "names",
        "node",
        "resolutions",
        "row_hits",
        "rules",
        "settings",
        "state",
    )

    def __init__(self, state: SequencerState, base_snapshot_id: int, rules: Rules, decided_at_ms: int) -> None:
        self.state = state
        self.base = base_snapshot_id
        self.rules = rules
        self.decided_at_ms = decided_at_ms
        self.names = Names(state, base_snapshot_id)
        self.ids = GivenIds(state)
        self.bounds = Bounds(state.settings)
        self._rows: RowOverlay | None = None
        self.effects: list[Effect] = []
        self.footprints: list[Footprint] = []
        self.row_hits: list[tuple[int, Hit]] = []
        self.resolutions: list[Resolution] = []
        self.changes_schema = False
        self.settings = state.settings
        self.node = state.node
        self.arrival: Arrival | None = None
        self.arriving: list[Arriving] = []

    @property
    def has_rows(self) -> bool:
        """Whether a change has asked for rows of keyed tables."""
        return self._rows is not None

    @property
    def rows(self) -> RowOverlay:
        """The rows of keyed tables; made when the first change asks for them."""
        if self._rows is None:
            self._rows = RowOverlay(self.state)
        return self._rows

    def granularity_since_base(self, table: TableState) -> Granularity:
        """How finely what happened to a table's files since the base is told apart."""
        return self.rules.granularity_since(self.state, table, self.base)


Planned = tuple[Effect, Footprint | None]
"""What a change does, and what it touches; None when no other proposal can meet it."""
