"""Where a link begins: which node the source is, what it brought last, and whether the source still says the same.

What a link brought last says what its source had taken over from others by then, so that the source's log need not be replayed,
unless that was somebody else's snapshot, which the source had passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.state.index import SequencerState
from commitlog.domain.state.sites import is_row_change
from commitlog.errors import ConfigurationError, SiteWentBackError, SnapshotNotFoundError
from commitlog.sites.forwarding import Source

_LINK = "link:"


def writer_id_of(source: str) -> str:
    """By which writer the link from a node proposes."""
    return _LINK + source


def head_state(log: CommitLog) -> SequencerState:
    """The state of a log after its last outcome; by replaying it, from a checkpoint where this machine has one."""
    return log.access.state_before(log.last_seq() + 1)


def node_of(state: SequencerState, what: str) -> Node:
    """What a log is among the sites; ConfigurationError when it is none."""
    if state.node is None:
        raise ConfigurationError(f"{what} is no node: `commitlog node NAME --priority N` gives its log a name")
    return state.node


def source_of(source: CommitLog, target: CommitLog, there: SequencerState) -> Node:
    """Which node a log is: the one whose last snapshot at the target it holds; only another one is replayed for it."""
    for writer_id in list(there.writers):
        last = Last.of(target, there, writer_id.removeprefix(_LINK)) if writer_id.startswith(_LINK) else None
        if last is not None and (node := last.maker) is not None and last.is_in(source, node):
            return node
    return node_of(head_state(source), "the source")


class Last(NamedTuple):
    """The last snapshot of a source that a link brought, and the proposal by which the target took it over."""

    source: str
    target: str
    snapshot_id: int
    proposal: m.Proposal
    replicated: m.Replicated

    @classmethod
    def of(cls, target: CommitLog, there: SequencerState, source: str) -> Last | None:
        """What a target has of a source; None when that is nothing."""
        writer_id = writer_id_of(source)
        writer = there.writer(writer_id)
        if writer is None or not writer.committed_seqs:
            return None
        snapshot_id = writer.committed_seqs.max()
        answer = writer.answers.get(snapshot_id)
        access = target.access
        outcome = access.outcome_at(answer.seq) if answer else access.committed_as(writer_id, snapshot_id)
        assert outcome is not None
        assert outcome.proposal is not None
        assert outcome.proposal.replicated is not None
        target_node = node_of(there, "the target").name
        return cls(source, target_node, snapshot_id, outcome.proposal, outcome.proposal.replicated)

    @property
    def maker(self) -> Node | None:
        """The source, where the snapshot is its own and changes rows, whose stamps no other log has."""
        if not any(is_row_change(change) for change in self.proposal.changes):
            return None
        own = [known for known in self.replicated.digest if known.node == self.source == self.replicated.node]
        return Node(own[0].node, own[0].priority) if own else None

    def is_in(self, log: CommitLog, node: Node) -> bool:
        """Whether a log has the snapshot, and it is the same."""
        try:
            self.taken_again(log, node, 0)
        except (SiteWentBackError, SnapshotNotFoundError):
            return False
        return True

    def taken_again(self, source: CommitLog, node: Node, next_tick: int) -> tuple[Source, m.Outcome]:
        """What forwards the source's outcomes after the snapshot, and the outcome that made it.

        Raises:
            SiteWentBackError: the source does not hold it, or holds another one under its number.
        """
        outcome = self._made(source)
        if outcome is not None:
            forwarding = self._before(source, node, outcome, next_tick)
            again = forwarding.take(outcome)
            if again is not None and again.changes == self.proposal.changes:
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

    def _before(self, source: CommitLog, node: Node, outcome: m.Outcome, next_tick: int) -> Source:
        if self.maker is None:
            return Source.of(node, source.access.state_before(outcome.seq), next_tick)
        digest = {known.node: known for known in self.replicated.digest if known.node != node.name}
        return Source(node, digest, _definitions(source, self.snapshot_id - 1), next_tick)


def _definitions(log: CommitLog, snapshot_id: int) -> Iterator[TableDefinition]:
    contents = log.contents()
    for schema, table, _ in contents.tables(snapshot_id):
        found = contents.table_at(schema, table, snapshot_id)
        assert found is not None
        yield found.definition
