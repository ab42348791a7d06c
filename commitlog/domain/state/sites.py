"""Which versions of a row nobody has superseded, and which of them stands: the same at every site (rules.md 6).

A version of a row that comes from another site was made with knowledge of some others: of those that its node's digest
contains. These it supersedes. What was made at the same time, by somebody who knew nothing of it, stays beside it as a rival:
what stands is chosen from all of them, and the losers are kept until a later version supersedes them. So a site's versions
of a row are what it has taken over, less what that supersedes, in whatever order it came; and sites that have taken over the
same have the same row. A rule that forgot the losers would not do that: of three versions the first can beat the third, the
third the second, and the second supersede the first.

Links bring everything of a log, in its order, so what comes new to a site is superseded by nothing that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeGuard

from commitlog.domain.model import (
    Change,
    DeleteRow,
    Effect,
    InsertRow,
    KnownNode,
    Outcome,
    Proposal,
    Replicated,
    Row,
    RowOrigin,
    UpdateRow,
)
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.state.digest import DigestEntry, Side, Triplet, compare, precedence
from commitlog.domain.state.index import SequencerState
from commitlog.domain.state.row_keys import RowChange, given_key, key_of
from commitlog.domain.state.rows import KeyedRows, RowVersion, SiteRow, SiteVersion

SITES = "SITES"
"""What a resolution names as its policy where the sites' own rule settled it."""


class Settled(NamedTuple):
    """What becomes of a row when a version comes to it.

    standing: the version that stands. rivals: the others that nobody supersedes. met: those that the one that came was made at
    the same time as; without any there was no conflict. stays: whether what stood before still does.
    """

    standing: SiteVersion
    rivals: tuple[SiteVersion, ...]
    met: tuple[SiteVersion, ...]
    stays: bool


def settle(
    node: Node, rows: KeyedRows, key: str, coming: SiteVersion, digest: Mapping[str, DigestEntry], image: Row | None
) -> Settled:
    """What becomes of a row when ``coming`` comes, whose node had taken over what ``digest`` says; ``image``: the row that
    stands, if its values have left the window."""
    side = Side(coming.origin.node, _triplet(coming.origin), digest)
    versions = list(versions_of(node, rows, key, image))
    met = [version for version in versions if compare(side, _side(version)).conflict]
    standing = min([*met, coming], key=_rank)
    rivals = tuple([version for version in (*met, coming) if version is not standing])
    return Settled(standing, rivals, tuple(met), stays=standing in versions[:1])


def kept_row(settled: Settled) -> SiteRow:
    """What the state keeps of it beside the live row."""
    return SiteRow(settled.standing.origin, settled.rivals, settled.standing.moves)


def versions_of(node: Node, rows: KeyedRows, key: str, image: Row | None = None) -> Iterator[SiteVersion]:
    """The versions of a row that nobody supersedes, the one that stands first; none of a row that never was.

    image: the row that stands, if its values have left the window.
    """
    version, known = rows.live.get(key) or rows.held.get(key), rows.sites.get(key)
    identity = None if version is None else version.identity
    if version is None:
        image = None
    elif version.image is not None:
        image = version.image
    if known is not None:
        yield SiteVersion(known.standing, version is None, image, known.moves, identity)
        yield from known.rivals
    elif version is not None:
        yield SiteVersion(origin_at(node, rows, key, version), False, image, identity=identity)


def origin_at(node: Node, rows: KeyedRows, key: str, version: RowVersion) -> RowOrigin:
    """Where the version was made that stands under a key, or is held back."""
    known = rows.sites.get(key)
    return made_at(node, version.snapshot_id, version.time_us) if known is None else known.standing


def made_at(node: Node, snapshot_id: int, time_us: int) -> RowOrigin:
    """Where a row version of this log was made; its stamp is the row's own time."""
    return RowOrigin(node.name, snapshot_id, time_us // 1000, node.priority)


def _triplet(origin: RowOrigin) -> Triplet:
    return Triplet(origin.node, origin.tick, origin.stamp_ms)


def _side(version: SiteVersion) -> Side:
    """A version that is here already, with nothing but its node's priority: it cannot have known what comes new."""
    origin = version.origin
    return Side(origin.node, _triplet(origin), {origin.node: DigestEntry(0, origin.priority)})


def _rank(version: SiteVersion) -> tuple[bool, int, int, str]:
    """Of versions made at the same time the smallest stands: an end before any row, then by the rule of the digests."""
    origin = version.origin
    return not version.gone, *precedence(origin.priority, origin.stamp_ms, origin.node)


# --- what a link brings -----------------------------------------------------------------------------------------------


class Arrival:
    """A snapshot of another node, as a link brings it.

    base_snapshot_id: of this log, as of which the link has read the rows that it displaces. is_known: whether it came already,
    by another way or before; then nothing of it does anything.
    """

    __slots__ = ("_displaced", "base_snapshot_id", "digest", "is_known", "replicated")

    def __init__(self, replicated: Replicated, base_snapshot_id: int, is_known: bool) -> None:
        self.replicated = replicated
        self.base_snapshot_id = base_snapshot_id
        self.is_known = is_known
        self.digest = {each.node: DigestEntry(each.tick, each.priority) for each in replicated.digest}
        self._displaced: dict[int, tuple[TableDefinition, dict[str, Row]]] = {}

    @staticmethod
    def of(state: SequencerState, proposal: Proposal) -> Arrival | None:
        """What a proposal brings from another node; None when it was made here."""
        replicated = proposal.replicated
        if replicated is None:
            return None
        is_known = replicated.tick < state.next_tick(replicated.node)
        return Arrival(replicated, proposal.base_snapshot_id, is_known)

    def settle(
        self, state: SequencerState, definition: TableDefinition, rows: KeyedRows, change: RowChange
    ) -> tuple[str, Settled]:
        """The key of a row, and what becomes of it by a change that came."""
        assert state.node is not None
        assert change.origin is not None
        if isinstance(change, DeleteRow):
            key, coming = given_key(definition, change.key), SiteVersion(change.origin, True, None, change.moves)
        else:
            image = complete_row(definition, change.row, made_before=True)
            key, coming = key_of(definition, image), SiteVersion(change.origin, False, image, identity=change.identity)
        return key, settle(state.node, rows, key, coming, self.digest, self.displaced(definition, rows, key))

    def displaced(self, definition: TableDefinition, rows: KeyedRows, key: str) -> Row | None:
        """A live row whose values have left the window, as the link has read it; None where it says nothing of it, or of what
        the row was before."""
        version = rows.live.get(key)
        if version is None or version.snapshot_id > self.base_snapshot_id:
            return None
        known = self._displaced.get(definition.table_id)
        if known is None or known[0] is not definition:
            known = self._displaced[definition.table_id] = definition, self._displaced_of(definition)
        return known[1].get(key)

    def _displaced_of(self, definition: TableDefinition) -> dict[str, Row]:
        images: dict[str, Row] = {}
        for each in self.replicated.displaced:
            if each.table_id == definition.table_id:
                image = complete_row(definition, each.row, made_before=True)
                images.setdefault(key_of(definition, image), image)
        return images

    def note(self, state: SequencerState) -> None:
        """From now on this log contains it."""
        if not self.is_known:
            state.digest[self.replicated.node] = self.contained()

    def contained(self) -> KnownNode:
        """What a digest says of its node once it is taken over."""
        node = self.replicated.node
        return KnownNode(node, self.replicated.tick + 1, self.digest[node].priority)


def is_row_change(change: Change) -> TypeGuard[RowChange]:
    """Whether it is about one row."""
    return isinstance(change, (InsertRow, UpdateRow, DeleteRow))


def standing_change(change: RowChange, settled: Settled) -> RowChange:
    """The change that brings about what stands: the one that came, unless a rival of another site stands after all."""
    origin, image = settled.standing.origin, settled.standing.image
    if origin == change.origin or image is None or isinstance(change, DeleteRow):
        return change
    time_us, identity = origin.stamp_ms * 1000, settled.standing.identity
    return change.replace(row=image, row_time_us=time_us, origin=origin, identity=identity)


def moves(outcome: Outcome) -> Iterator[tuple[Effect, Row | None]]:
    """The rows that stand no longer, or after all, without a change of their own: what that does to each, and its image."""
    for told in outcome.resolutions:
        if told.ended_row_id is not None or told.row_id is not None:
            yield Effect(told.object.table_id, ended_row_id=told.ended_row_id, row_id=told.row_id), told.row
