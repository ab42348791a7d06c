"""Where a link begins: which node the source is, what it brought last, and whether the source still says the same.

All that is asked of the catalogs, which know what each log had taken over from others and when: no log is replayed, unless
the source's catalog has expired the snapshot that was brought last.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from commitlog.client import CommitLog
from commitlog.client.ids import id_at
from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.nodes import LastBrought, Node
from commitlog.errors import ConfigurationError, SiteWentBackError, SnapshotNotFoundError
from commitlog.sites.contents_there import same_but_for_files
from commitlog.sites.forwarding import OWN_KINDS, Source
from commitlog.sites.joining import HAS_ALL, JOIN
from commitlog.sites.kept import outcome_if_kept
from commitlog.sites.proposing import may_bring

_LINK = "link:"
_LOOKED_AT = 500
_WRITERS_MAX = 1_000_000
_OF_SCHEMAS = frozenset({m.ChangeKind.CREATE_SCHEMA, m.ChangeKind.DROP_SCHEMA})


def writer_id_of(source: str) -> str:
    """By which writer the link from a node proposes."""
    return _LINK + source


def link_writers(target: CommitLog) -> set[str]:
    """By which writers links have been begun that propose to a log, also those that have brought nothing yet."""
    writers = target.contents().writers(_WRITERS_MAX)
    return {each.writer_id for each in writers if each.writer_id.startswith(_LINK)}


def node_of(log: CommitLog, what: str) -> Node:
    """What a log is among the sites; ConfigurationError when it is none."""
    node = log.access.node()
    if node is None:
        raise ConfigurationError(f"{what} is not a node: `commitlog node NAME --priority N` gives its log a name")
    return node


def nodes_of(source: CommitLog, target: CommitLog) -> tuple[Node, Node]:
    """What two logs are among the sites; ConfigurationError when one is none, or both are the same one."""
    nodes = node_of(source, "the source"), node_of(target, "the target")
    if nodes[0].name == nodes[1].name:
        raise ConfigurationError(
            f"both logs are node {nodes[0].name!r}: each site has a name of its own (`commitlog node NAME`)"
        )
    return nodes


def next_ticks(log: CommitLog) -> dict[str, int]:
    """Of each other node the tick before which a log has taken over its snapshots."""
    return {name: known.tick for name, known in log.access.digest().items()}


def open_writer(target: CommitLog, writer_id: str) -> int:
    """By which epoch a writer brings something to a target from now on; whoever was that writer before is fenced."""
    # The clock of the target's log may be hours from this one, and does not take an id from the future.
    [newest] = target.history(1)
    own_id = id_at(int(newest.decided_at.timestamp() * 1000), 0, secrets.randbits(62))
    return target.open_writer(writer_id, proposal_id=own_id)


@dataclass(slots=True)
class JoinProgress:
    """How far a site is that joins.

    Attributes:
        source: the site that tells it what there is.
        target: the new one.
        snapshot_id: as of which snapshot of the source.
        told: rows, and versions of rows, that it was told since this began.
    """

    source: str
    target: str
    snapshot_id: int
    told: int = 0


def begun_join(target: CommitLog) -> JoinProgress | None:
    """The join of a site that was begun and not ended; None when there is none.

    Raises:
        ConfigurationError: it was not ended, and what says by whom was archived.
    """
    last = target.access.last_by(JOIN)
    if last is None:
        return None
    outcome = outcome_if_kept(target, last.seq)
    if outcome is None:
        if _has_brought_since(target, last.seq):
            return None
        raise ConfigurationError(
            f"site {node_of(target, 'the target').name} has begun to join and was not told everything, and what says by whom "
            "was archived: let it join again, with an empty log and another name"
        )
    assert outcome.proposal is not None
    begun = json.loads(outcome.proposal.extra or "{}")
    source = str(begun["site"])
    if target.access.last_by(writer_id_of(source)) is not None:
        return None
    return JoinProgress(source, node_of(target, "the target").name, int(begun["snapshot_id"]))


def _has_brought_since(target: CommitLog, seq: int) -> bool:
    """Whether a link has brought something after an outcome; what ends a join comes as the link's that goes on."""
    before: int | None = None
    while True:
        entries = target.history(_LOOKED_AT, before=before, verdict=m.Verdict.COMMITTED)
        for entry in entries:
            if entry.seq <= seq:
                return False
            if entry.change_kinds and entry.writer_id is not None and entry.writer_id.startswith(_LINK):
                return True
        if len(entries) < _LOOKED_AT:
            return False
        before = entries[-1].seq


def check_joined(target: CommitLog) -> None:
    """Raise ConfigurationError while a site that joins has not been told everything."""
    begun = begun_join(target)
    if begun is not None:
        raise ConfigurationError(
            f"site {begun.target} joins and has not been told everything: begin the join from {begun.source} again "
            "(`commitlog replicate --join`), then the links"
        )


class MadeAt(NamedTuple):
    """The outcome that made a snapshot, and when that was."""

    seq: int
    decided_at_ms: int


class Last(NamedTuple):
    """The last snapshot of a source that a link brought, and the proposal by which the target took it over, None if that was
    trimmed, or told when the target joined.

    taken_by: the id of that proposal by the snapshot; before it, where others have brought a later one, likewise of that.
    """

    source: str
    target: str
    snapshot_id: int
    proposal: m.Proposal | None
    taken_by: Mapping[int, bytes]

    @classmethod
    def of(cls, target: CommitLog, target_node: str, source: str, next_tick: int) -> Last | None:
        """What a target has of a source, whose snapshots before ``next_tick`` it has; None when that is nothing."""
        last = target.access.last_by(writer_id_of(source))
        taken_by: dict[int, bytes] = {}
        if last is None or last.snapshot_id < next_tick - 1:
            # Links from others have brought of what it made what no link from the source has.
            seq = target.access.taken_over_by(source, next_tick - 1)
            if seq is not None:
                taken_by[next_tick - 1] = _proposal_at(target, seq)
                last = last or LastBrought(next_tick - 1, seq)
        if last is None:
            return None
        taken_by[last.snapshot_id] = _proposal_at(target, last.seq)
        outcome = outcome_if_kept(target, last.seq)
        proposal = None if outcome is None else outcome.proposal
        if proposal is not None and proposal.writer_id == JOIN:
            proposal = None  # Of what the source said it tells what was left.
        return cls(source, target_node, last.snapshot_id, proposal, taken_by)

    def taken_again(self, source: CommitLog, node: Node, next_tick: int) -> tuple[Source, MadeAt]:
        """What forwards the source's outcomes after the snapshot, and where that was made.

        Raises:
            SiteWentBackError: the source does not hold it, or holds another one under its number.
        """
        at = self.made_at(source)
        outcome = outcome_if_kept(source, at.seq)
        if outcome is None or self.proposal is None or self.proposal.changes == HAS_ALL:
            definitions = _definitions(source, self.snapshot_id, at.seq)
            return Source(node, source.access.digest(at.seq + 1), definitions, next_tick), at
        definitions = _definitions(source, self.snapshot_id - 1, at.seq - 1)
        forwarding = Source(node, source.access.digest(at.seq), definitions, next_tick)
        again = forwarding.take(outcome)
        if again is None or not same_but_for_files(again.changes, self.proposal.changes):
            raise SiteWentBackError(self.source, self.target, self.snapshot_id)
        return forwarding, at

    def made_at(self, source: CommitLog) -> MadeAt:
        """Where the source has made the snapshot; which one that is its catalog says, also of what was archived.

        Raises:
            SiteWentBackError: the source does not hold it, or holds one of another proposal under its number; or so it is of
                what others have brought since.
        """
        head = source.wait_for_snapshot()
        for snapshot_id, taken_by in self.taken_by.items():
            found = source.history(1, snapshot=snapshot_id) if snapshot_id <= head else []
            made_by = found[0].proposal_id if found else None
            if made_by is None or not may_bring(taken_by, made_by.bytes):
                raise SiteWentBackError(self.source, self.target, snapshot_id)
        return MadeAt(found[0].seq, int(found[0].decided_at.timestamp() * 1000))


def _proposal_at(log: CommitLog, seq: int) -> bytes:
    """The id of the proposal of which an outcome tells; the catalog knows it also when that was archived."""
    [entry] = log.history(1, before=seq + 1)
    assert entry.proposal_id is not None
    return entry.proposal_id.bytes


def brought_by(log: CommitLog, node: str, tick: int) -> bytes | None:
    """The id of the proposal by which a link brought a snapshot of another node to a log; None where it was told by a join, or
    may have been."""
    seq = log.access.taken_over_by(node, tick)
    for entry in () if seq is None else log.history(1, before=seq + 1):
        is_of_link = entry.writer_id is not None and entry.writer_id.startswith(_LINK)
        # The last that a join tells comes as a link's, and is called as that snapshot as of which it told.
        if is_of_link and entry.proposal_id is not None and not _OF_SCHEMAS.issuperset(entry.change_kinds):
            return entry.proposal_id.bytes
    return None


class Passed(NamedTuple):
    """Where a link goes on after outcomes that were archived and had nothing to bring."""

    forwarding: Source
    seq: int
    snapshot_id: int
    decided_at_ms: int


def passed_by(
    source: CommitLog, node: Node, known: Mapping[str, int], target_node: str, seqs: tuple[int, int]
) -> Passed | None:
    """What goes on behind the last one of some outcomes, given the first's and its ``seq``; None when there may be something in
    them that a target lacks which has other nodes before the ticks of ``known``."""
    first, last = seqs
    taken_over = source.access.digest(last + 1)
    next_tick = known.get(node.name, 0)
    if any(each.tick > known.get(name, 0) for name, each in taken_over.items() if name != target_node):
        return None
    changed: dict[tuple[str, str], list[int]] = {}
    for own in _own(source, first, last):
        if own.snapshot_id >= next_tick:
            if not own.tables:
                return None
            for name in own.tables:
                changed.setdefault(name, []).append(own.snapshot_id)
    if not all(_is_left(source, name, snapshots) for name, snapshots in changed.items()):
        return None
    [end] = source.history(1, before=last + 1)
    definitions = _definitions(source, end.head_snapshot_id, last)
    forwarding = Source(node, taken_over, definitions, next_tick)
    return Passed(forwarding, last, end.head_snapshot_id, int(end.decided_at.timestamp() * 1000))


class _Own(NamedTuple):
    """An outcome by which a log has itself made something that others may be told, and the tables that it changed; none where
    these may not be all that it changed."""

    seq: int
    snapshot_id: int
    tables: tuple[tuple[str, str], ...]


def _is_left(log: CommitLog, name: tuple[str, str], snapshots: Sequence[int]) -> bool:
    """Whether the table of a name was one and the same at some snapshots, the newest first, and links left it where it is: what
    it says of itself counts from the next snapshot on, but for the one that made it."""
    newest, oldest = snapshots[0], snapshots[-1]
    at_first = log.access.table_at(*name, oldest - 1) or log.access.table_at(*name, oldest)
    at_last = log.access.table_at(*name, newest)
    if at_first is None or at_last is None or at_first.definition.table_id != at_last.definition.table_id:
        return False
    return not at_first.definition.is_replicated and not at_last.definition.is_replicated


def _own(log: CommitLog, first: int, last: int) -> Iterator[_Own]:
    """Those of the outcomes from one to another, the newest first."""
    before: int | None = last + 1
    while before is not None:
        entries = log.history(_LOOKED_AT, before=before, verdict=m.Verdict.COMMITTED)
        for entry in entries:
            if entry.seq < first:
                return
            is_brought = entry.writer_id is None or entry.writer_id == JOIN or entry.writer_id.startswith(_LINK)
            if not is_brought and not OWN_KINDS.issuperset(entry.change_kinds):
                assert entry.snapshot_id is not None
                tables = tuple((each.schema, each.name) for each in entry.tables)
                yield _Own(entry.seq, entry.snapshot_id, tables if _names_all(entry.change_kinds) else ())
        before = entries[-1].seq if len(entries) == _LOOKED_AT else None


def _names_all(kinds: Sequence[str]) -> bool:
    """Whether the history names all that changes of these kinds were about: it names no schema, nor a table of which only a
    property was set."""
    return _OF_SCHEMAS.isdisjoint(kinds) and (m.ChangeKind.ALTER_TABLE not in kinds or len(kinds) == 1)


def next_tick_after(log: CommitLog, node: Node, seq: int) -> int:
    """The tick after the last snapshot, up to an outcome, that a log made itself and has to forward; 0 when there is none."""
    for own_seq, snapshot_id, _ in _own(log, 1, seq):
        outcome = outcome_if_kept(log, own_seq)
        if outcome is None:
            return snapshot_id + 1  # It was archived: which tables it changed is not looked at.
        definitions = _definitions(log, snapshot_id - 1, own_seq - 1)
        told = Source(node, {}, definitions, 0).take(outcome)
        if told is not None and told.changes:
            return told.snapshot_id + 1
    return 0


def _definitions(log: CommitLog, snapshot_id: int, seq: int) -> Iterator[TableDefinition]:
    """The tables at a snapshot, after an outcome; a catalog that let it expire lacks those that were dropped since."""
    contents = log.contents()
    try:
        with contents.at_once():
            contents.check_snapshot(snapshot_id)
            tables = contents.tables_at(snapshot_id)
    except SnapshotNotFoundError:
        yield from [each.definition for each in log.access.state_before(seq + 1).tables.values()]
        return
    yield from [each.definition for each in tables]
