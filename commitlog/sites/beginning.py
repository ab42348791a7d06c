"""Where a link begins: which node the source is, what it brought last, and whether the source still says the same.

All that is asked of the catalogs, which know what each log had taken over from others and when: no log is replayed, unless
the source's catalog has expired the snapshot that was brought last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.state.index import SequencerState
from commitlog.errors import ConfigurationError, SiteWentBackError, SnapshotNotFoundError
from commitlog.sites.forwarding import Source
from commitlog.sites.joining import HAS_ALL, JOIN

_LINK = "link:"
_LOOKED_AT = 500


def writer_id_of(source: str) -> str:
    """By which writer the link from a node proposes."""
    return _LINK + source


def head_state(log: CommitLog) -> SequencerState:
    """The state of a log after its last outcome; by replaying it, from a checkpoint where this machine has one."""
    return log.access.state_before(log.last_seq() + 1)


def node_of(log: CommitLog, what: str) -> Node:
    """What a log is among the sites; ConfigurationError when it is none."""
    node = log.access.node()
    if node is None:
        raise ConfigurationError(f"{what} is no node: `commitlog node NAME --priority N` gives its log a name")
    return node


def decided_at_ms(log: CommitLog) -> int:
    """When a log decided last, by its own clock."""
    [newest] = log.history(1)
    return int(newest.decided_at.timestamp() * 1000)


@dataclass(slots=True)
class JoinProgress:
    """How far a site is that joins.

    Attributes:
        source: the site that tells it what there is.
        target: the new one.
        snapshot_id: as of which snapshot of the source.
        told: versions of rows that it was told since this began.
    """

    source: str
    target: str
    snapshot_id: int
    told: int = 0


def begun_join(target: CommitLog) -> JoinProgress | None:
    """The join of a site that was begun and not ended; None when there is none."""
    outcome = target.access.last_by(JOIN)
    if outcome is None or outcome.proposal is None:
        return None
    begun = json.loads(outcome.proposal.extra or "{}")
    source = str(begun["site"])
    if target.access.last_by(writer_id_of(source)) is not None:
        return None
    return JoinProgress(source, node_of(target, "the target").name, int(begun["snapshot_id"]))


def check_joined(target: CommitLog) -> None:
    """Raise ConfigurationError while a site that joins has not been told everything."""
    begun = begun_join(target)
    if begun is not None:
        raise ConfigurationError(
            f"site {begun.target} joins and has not been told everything: begin the join from {begun.source} again "
            "(`commitlog replicate --join`), then the links"
        )


class Last(NamedTuple):
    """The last snapshot of a source that a link brought, and the proposal by which the target took it over."""

    source: str
    target: str
    snapshot_id: int
    proposal: m.Proposal

    @classmethod
    def of(cls, target: CommitLog, target_node: str, source: str) -> Last | None:
        """What a target has of a source; None when that is nothing."""
        outcome = target.access.last_by(writer_id_of(source))
        if outcome is None:
            return None
        assert outcome.proposal is not None
        assert outcome.proposal.writer_seq is not None
        return cls(source, target_node, outcome.proposal.writer_seq, outcome.proposal)

    def taken_again(self, source: CommitLog, node: Node, next_tick: int) -> tuple[Source, m.Outcome]:
        """What forwards the source's outcomes after the snapshot, and the outcome that made it.

        Raises:
            SiteWentBackError: the source does not hold it, or holds another one under its number.
        """
        outcome = self._made(source)
        if outcome is not None:
            digest = source.access.digest(outcome.seq)
            forwarding = Source(node, digest, _definitions_before(source, outcome), next_tick)
            again = forwarding.take(outcome)
            has_joined = self.proposal.changes == HAS_ALL
            if has_joined or (again is not None and again.changes == self.proposal.changes):
                return forwarding, outcome
        raise SiteWentBackError(self.source, self.target, self.snapshot_id)

    def _made(self, source: CommitLog) -> m.Outcome | None:
        newest = source.access.outcome_at(source.last_seq())
        if newest is None or newest.head_snapshot_id < self.snapshot_id:
            return None
        source.wait_for_snapshot(self.snapshot_id)
        found = source.history(1, snapshot=self.snapshot_id)
        if not found:
            raise SnapshotNotFoundError(self.snapshot_id, head_snapshot_id=newest.head_snapshot_id)
        return source.access.outcome_at(found[0].seq)


def next_tick_after(log: CommitLog, node: Node, seq: int) -> int:
    """The tick after the last snapshot, up to an outcome, that a log made itself and has to forward; 0 when there is none."""
    before: int | None = seq + 1
    while before is not None:
        entries = log.history(_LOOKED_AT, before=before, verdict=m.Verdict.COMMITTED)
        for entry in entries:
            if entry.writer_id is None or entry.writer_id == JOIN or entry.writer_id.startswith(_LINK):
                continue
            outcome = log.access.outcome_at(entry.seq)
            assert outcome is not None
            told = Source(node, {}, _definitions_before(log, outcome), 0).take(outcome)
            if told is not None and told.changes:
                return told.snapshot_id + 1
        before = entries[-1].seq if len(entries) == _LOOKED_AT else None
    return 0


def _definitions_before(log: CommitLog, outcome: m.Outcome) -> Iterator[TableDefinition]:
    """The tables before a snapshot was made; where the catalog has let it expire, it lacks those that were dropped since."""
    assert outcome.snapshot_id is not None
    contents, snapshot_id = log.contents(), outcome.snapshot_id - 1
    try:
        contents.check_snapshot(snapshot_id)
    except SnapshotNotFoundError:
        yield from [each.definition for each in log.access.state_before(outcome.seq).tables.values()]
        return
    for schema, table, _ in contents.tables(snapshot_id):
        found = contents.table_at(schema, table, snapshot_id)
        assert found is not None
        yield found.definition
