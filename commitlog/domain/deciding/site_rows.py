"""What a link brings from another site: whether it fits this log, and how its rows meet those that are here (rules.md 6).

Detection and choice are in ``state.sites``, for ``replay`` needs them too. Here is what may speak against it, and what is told:
a conflict that was settled is a Resolution by BDR's names. A row that cannot stand here, for a UNIQUE value or a foreign key,
refuses the whole: the link stops, and an operator mends one of the two sides.
"""

from __future__ import annotations

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Hit, object_of
from commitlog.domain.deciding.plan import Plan
from commitlog.domain.deciding.row_overlay import OWN
from commitlog.domain.model.definitions import InvalidChangeError, TableDefinition, complete_row, quoted
from commitlog.domain.model.row_width import check_row_width
from commitlog.domain.state.index import ROW_CHANGES, SequencerState, TableState
from commitlog.domain.state.row_keys import (
    RowChange,
    given_key,
    key_of,
    make_version,
    origin_of,
    provided_value,
    referenced_values,
    shown_key,
    time_us_of,
    unique_values,
)
from commitlog.domain.state.rows import RowVersion
from commitlog.domain.state.sites import Arrival, Settled, is_row_change, standing_change

POLICY = "SITES"
"""What a resolution names as its policy where the sites' own rule settled it."""


def arriving(state: SequencerState, proposal: m.Proposal) -> Arrival | None:
    """What a proposal brings from another node; None when it is made here, InvalidChangeError when it does not fit."""
    replicated = proposal.replicated
    if replicated is None:
        return None
    if state.node is None:
        raise InvalidChangeError(
            m.InvalidCode.NODE_UNNAMED,
            f"a change of node {quoted(replicated.node)} came to a log that is no node: `commitlog node NAME` makes it one",
        )
    _check_digest(replicated)
    arrival = Arrival.of(state, proposal)
    assert arrival is not None
    if not arrival.is_known:
        _check_contained(state, replicated)
    for change in proposal.changes:
        if is_row_change(change):
            _check_origin(replicated, change)
    return arrival


def _check_digest(replicated: m.Replicated) -> None:
    names = [known.node for known in replicated.digest]
    if replicated.node not in names or len(set(names)) < len(names):
        raise InvalidChangeError(
            m.InvalidCode.DIGEST_INVALID,
            f"the digest of a snapshot of node {quoted(replicated.node)} names each node once, and that one too",
        )
    if replicated.tick < 0 or any(known.tick < 0 or known.priority < 0 for known in replicated.digest):
        raise InvalidChangeError(m.InvalidCode.DIGEST_INVALID, "a digest has a negative tick or priority")


def _check_contained(state: SequencerState, replicated: m.Replicated) -> None:
    """All that the node knew when it made the snapshot must be here: links leave nothing out, and no log forgets."""
    for known in replicated.digest:
        here = state.next_tick(known.node)
        if known.tick > here:
            raise InvalidChangeError(
                m.InvalidCode.DIGEST_AHEAD,
                f"snapshot {replicated.tick} of node {quoted(replicated.node)} was made with all of node {quoted(known.node)} "
                f"before {known.tick}, of which this log has what lies before {here}: the link left something out, or one of "
                "the two logs is older than it was",
            )


def _check_origin(replicated: m.Replicated, change: RowChange) -> None:
    origin = change.origin
    if origin is None or (origin.node, origin.tick) != (replicated.node, replicated.tick):
        raise InvalidChangeError(
            m.InvalidCode.ORIGIN_INVALID,
            f"a row's origin is not snapshot {replicated.tick} of node {quoted(replicated.node)}, which its proposal names",
        )


class ArrivingRow:
    """One row change that a link brings to a keyed table."""

    def __init__(
        self,
        plan: Plan,
        arrival: Arrival,
        table: TableState,
        definition: TableDefinition,
        change: RowChange,
        index: int,
    ) -> None:
        self.plan = plan
        self.arrival = arrival
        self.table = table
        self.definition = definition
        self.change = change
        self.index = index

    def run(self) -> m.Effect:
        """Find out what becomes of the row, and what of that has to be done here."""
        assert self.table.rows is not None
        if isinstance(self.change, m.UpdateRow):
            self._check_key_stays(self.change)
        key, settled = self.arrival.settle(self.plan.state, self.definition, self.table.rows, self.change)
        self.plan.bounds.name_key(self.table, key)
        live = self.plan.rows.live(self.table, key)
        if any(not rival.gone and rival.image is None for rival in settled.rivals):
            assert live is not None
            self._refuse(m.ConflictKind.UPDATE_UPDATE, live, self.table, key, "whose values have left the window")
        if settled.met:
            self._tell(key, live, settled)
        if settled.stays:
            return m.Effect(self.table.table_id, skipped=True)
        if settled.standing.image is not None:
            return self._put(key, live, settled, settled.standing.image)
        return m.Effect(self.table.table_id) if live is None else self._remove(key, live)

    def _check_key_stays(self, change: m.UpdateRow) -> None:
        image = complete_row(self.definition, change.row)
        if key_of(self.definition, image) != given_key(self.definition, change.key):
            raise InvalidChangeError(
                m.InvalidCode.VALUE_INVALID,
                f"a row of table {quoted(self.table.name)} gets another key: a link says that as a delete and an insert",
            )

    def _tell(self, key: str, live: RowVersion | None, settled: Settled) -> None:
        """Write down which conflict it was, and how it was settled."""
        assert self.table.rows is not None
        action, row = m.ResolutionAction.APPLIED, None
        if settled.stays:
            action = m.ResolutionAction.SKIPPED
        elif settled.standing.origin != self.change.origin:
            action, row = m.ResolutionAction.HANDLED, settled.standing.image
        at = max(0, self.table.rows.last_change(key)) if live is None else live.snapshot_id
        commit = self.plan.state.commits.get(at)
        self.plan.resolutions.append(
            m.Resolution(
                change=self.index,
                kind=self._kind(live),
                action=action,
                policy=POLICY,
                object=object_of(self.table, row_key=shown_key(key)),
                committed_snapshot_id=at,
                committed_proposal_id=None if commit is None else commit.proposal_id,
                committed_writer_id=None if commit is None else commit.writer_id,
                committed_row=None if live is None else live.image,
                proposed_row=None if isinstance(self.change, m.DeleteRow) else self.change.row,
                row=row,
            )
        )

    def _kind(self, live: RowVersion | None) -> m.ConflictKind:
        if isinstance(self.change, m.DeleteRow):
            return m.ConflictKind.DELETE_DELETE if live is None else m.ConflictKind.UPDATE_DELETE
        if live is None:
            return m.ConflictKind.UPDATE_DELETE
        is_insert = isinstance(self.change, m.InsertRow)
        return m.ConflictKind.INSERT_INSERT if is_insert else m.ConflictKind.UPDATE_UPDATE

    # --- doing --------------------------------------------------------------------------------------------------------

    def _put(self, key: str, live: RowVersion | None, settled: Settled, image: m.Row) -> m.Effect:
        plan, definition = self.plan, self.definition
        check_row_width(definition, image, plan.state.settings.inlined_row_bytes_max)
        self._refuse_holders(key, image)
        self._refuse_orphan(key, image)
        row_id = plan.ids.row(self.table) if live is None else live.row_id
        change = standing_change(self.change, settled)
        time_us, origin = time_us_of(change, plan.decided_at_ms), origin_of(change)
        version = make_version(definition, image, row_id=row_id, snapshot_id=OWN, time_us=time_us, origin=origin)
        plan.rows.put(self.table, key, version)
        if live is not None:
            self._refuse_children(key, live)
        plan.ids.inlined_rows(self.table)
        return m.Effect(self.table.table_id, ended_row_id=None if live is None else live.row_id, row_id=row_id)

    def _remove(self, key: str, live: RowVersion) -> m.Effect:
        self.plan.rows.put(self.table, key, None)
        self._refuse_children(key, live)
        return m.Effect(self.table.table_id, ended_row_id=live.row_id)

    # --- what cannot stand here ---------------------------------------------------------------------------------------

    def _refuse_holders(self, key: str, image: m.Row) -> None:
        """Another row may hold none of the image's UNIQUE values."""
        for number, value in enumerate(unique_values(self.definition, image)):
            holder = None if value is None else self.plan.rows.holder(self.table, number, value)
            if holder is not None and holder != key:
                version = self.plan.rows.live(self.table, holder)
                assert version is not None
                self._refuse(m.ConflictKind.UNIQUE, version, self.table, holder)

    def _refuse_orphan(self, key: str, image: m.Row) -> None:
        """What the image refers to must be there."""
        definition = self.definition
        for foreign, value in zip(definition.foreign_keys, referenced_values(definition, image), strict=True):
            parent = self.plan.names.table_of_id(foreign.ref_table_id)
            if value is None or self.plan.rows.provider(parent, foreign.ref_column_ids, value) is not None:
                continue
            if parent is self.table:
                own = provided_value(definition, foreign.ref_column_ids, key, unique_values(definition, image))
                if own == value:
                    continue
            self._refuse(m.ConflictKind.FOREIGN_KEY, None, parent, value, "which it refers to, is not here")

    def _refuse_children(self, key: str, gone: RowVersion) -> None:
        """Nobody may refer to what goes."""
        for child, number in self.plan.names.referrers(self.table):
            columns = child.definition.foreign_keys[number].ref_column_ids
            value = provided_value(self.definition, columns, key, gone.unique)
            if value is None or self.plan.rows.provider(self.table, columns, value) is not None:
                continue
            for child_key in sorted(self.plan.rows.referring(child, number, value)):
                version = self.plan.rows.live(child, child_key)
                self._refuse(m.ConflictKind.FOREIGN_KEY, version, child, child_key)

    def _refuse(
        self, kind: m.ConflictKind, version: RowVersion | None, table: TableState, key: str, detail: str = ""
    ) -> None:
        at = table.last_of(ROW_CHANGES) if version is None else version.snapshot_id
        where = object_of(table, row_key=shown_key(key))
        self.plan.row_hits.append((self.index, Hit(kind, max(0, at), where, detail)))
