"""What a link brings from another site: whether it fits this log, and how its rows meet those that are here (rules.md 6).

Detection and choice are in ``state.sites``, for ``replay`` needs them too. Here is what may speak against it, and what is told:
a conflict that was settled is a Resolution by BDR's names. That a row cannot stand beside others, for a UNIQUE value or a
foreign key, is for ``standing_rows``.
"""

from __future__ import annotations

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Hit, object_of
from commitlog.domain.deciding.plan import Arriving, Plan
from commitlog.domain.deciding.row_overlay import OWN
from commitlog.domain.model.definitions import TableDefinition, quoted
from commitlog.domain.model.row_images import altered_row, complete_row
from commitlog.domain.model.row_width import check_row_width
from commitlog.domain.model.settings import sender_length_max
from commitlog.domain.model.texts import check_name
from commitlog.domain.state.claims import Claim
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.row_keys import (
    RowChange,
    given_key,
    key_of,
    make_version,
    origin_of,
    shown_key,
    time_us_of,
)
from commitlog.domain.state.rows import RowVersion
from commitlog.domain.state.sites import SITES, Arrival, Settled, is_row_change, standing_change
from commitlog.errors import InvalidChangeError


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
    _check_digest(replicated, sender_length_max(state.settings))
    arrival = Arrival.of(state, proposal)
    assert arrival is not None
    if not arrival.is_known:
        _check_contained(state, replicated)
    for change in proposal.changes:
        if is_row_change(change):
            _check_origin(replicated, change)
    return arrival


def _check_digest(replicated: m.Replicated, name_length_max: int) -> None:
    names = [known.node for known in replicated.digest]
    for name in names:
        check_name(name, "node", name_length_max)
    if replicated.node not in names or len(set(names)) < len(names):
        raise InvalidChangeError(
            m.InvalidCode.DIGEST_INVALID,
            f"the digest of a snapshot of node {quoted(replicated.node)} names each node once, and that one too",
        )
    if replicated.tick < 0 or any(known.tick < 0 or known.priority < 0 for known in replicated.digest):
        raise InvalidChangeError(m.InvalidCode.DIGEST_INVALID, "a digest has a negative tick or priority")
    if replicated.tick == m.BIGINT_MAX:
        raise InvalidChangeError(
            m.InvalidCode.DIGEST_INVALID,
            f"tick {replicated.tick} of node {quoted(replicated.node)} has none after it, as a digest needs one",
        )


def _check_contained(state: SequencerState, replicated: m.Replicated) -> None:
    """All that the node knew when it made the snapshot must be here: links leave nothing out, and no log forgets."""
    if state.node is not None and replicated.node == state.node.name:
        raise InvalidChangeError(
            m.InvalidCode.DIGEST_AHEAD,
            f"snapshot {replicated.tick} of node {quoted(replicated.node)} came, which is this log, and whose next one is "
            f"{state.head_snapshot_id + 1}: another log has its name, or it is older than it was",
        )
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
        """Find out which version of the row would stand; whether it does, ``standing_rows`` says of all rows together."""
        rows = self.table.rows
        assert rows is not None
        if isinstance(self.change, m.UpdateRow):
            self._check_key_stays(self.change)
        key, settled = self.arrival.settle(self.plan.state, self.definition, rows, self.change)
        standing, before_changeset = settled.standing, self.table.definition
        if self.definition is not before_changeset and standing.image and standing.origin != self.change.origin:
            image = altered_row(before_changeset, self.definition, standing.image)
            settled = settled._replace(standing=standing._replace(image=image))
        self.plan.bounds.name_key(self.table, key)
        before = rows.live.get(key) or rows.held.get(key)
        if any(not rival.gone and rival.image is None for rival in settled.rivals):
            assert before is not None
            where = object_of(self.table, row_key=shown_key(key))
            hit = Hit(m.ConflictKind.UPDATE_UPDATE, before.snapshot_id, where, "whose values have left the window")
            self.plan.row_hits.append((self.index, hit))
        if settled.met:
            self._tell(key, before, settled)
        if not settled.stays:
            place, claim = (self.table.table_id, key), self._claim(settled)
            self.plan.arriving.append(Arriving(place, self.index, claim, self.plan.ids.row_later()))
        return m.Effect(self.table.table_id, skipped=settled.stays)

    def _image_before(self, key: str, before: RowVersion) -> m.Row | None:
        assert self.table.rows is not None
        return before.image or self.arrival.displaced(self.definition, self.table.rows, key)

    def _check_key_stays(self, change: m.UpdateRow) -> None:
        image = complete_row(self.definition, change.row, made_before=True)
        if key_of(self.definition, image) != given_key(self.definition, change.key):
            raise InvalidChangeError(
                m.InvalidCode.VALUE_INVALID,
                f"a row of table {quoted(self.table.name)} gets another key: a link says that as a delete and an insert",
            )

    def _claim(self, settled: Settled) -> Claim | None:
        image = settled.standing.image
        if image is None:
            return None
        check_row_width(self.definition, image, self.plan.state.settings.inlined_row_bytes_max)
        change = standing_change(self.change, settled)
        time_us, origin = time_us_of(change, self.plan.decided_at_ms), origin_of(change)
        version = make_version(
            self.definition,
            image,
            row_id=OWN,
            snapshot_id=OWN,
            time_us=time_us,
            origin=origin,
            identity=settled.standing.identity,
        )
        return Claim(version, settled.standing.origin)

    def _tell(self, key: str, before: RowVersion | None, settled: Settled) -> None:
        """Write down which conflict it was, and how it was settled."""
        assert self.table.rows is not None
        action, row = m.ResolutionAction.APPLIED, None
        if settled.stays:
            action = m.ResolutionAction.SKIPPED
        elif settled.standing.origin != self.change.origin:
            action, row = m.ResolutionAction.HANDLED, settled.standing.image
        at = max(0, self.table.rows.last_change(key)) if before is None else before.snapshot_id
        commit = self.plan.state.commits.get(at)
        self.plan.resolutions.append(
            m.Resolution(
                change=self.index,
                kind=self._kind(before, settled),
                action=action,
                policy=SITES,
                object=object_of(self.table, row_key=shown_key(key)),
                committed_snapshot_id=at,
                committed_proposal_id=None if commit is None else commit.proposal_id,
                committed_writer_id=None if commit is None else commit.writer_id,
                committed_row=None if before is None else self._image_before(key, before),
                proposed_row=None if isinstance(self.change, m.DeleteRow) else self.change.row,
                row=row,
            )
        )

    def _kind(self, before: RowVersion | None, settled: Settled) -> m.ConflictKind:
        moves = isinstance(self.change, m.DeleteRow) and self.change.moves
        if moves or any(version.moves for version in settled.met):
            return m.ConflictKind.UPDATE_KEY
        if isinstance(self.change, m.DeleteRow):
            return m.ConflictKind.DELETE_DELETE if before is None else m.ConflictKind.UPDATE_DELETE
        if before is None:
            return m.ConflictKind.UPDATE_DELETE
        is_insert = isinstance(self.change, m.InsertRow)
        return m.ConflictKind.INSERT_INSERT if is_insert else m.ConflictKind.UPDATE_UPDATE
