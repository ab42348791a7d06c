"""A link brings what one log has committed to another one, snapshot after snapshot, each exactly once (rules.md 6).

Where it is, the target remembers: each snapshot is proposed under the link's own writer id, with the source's snapshot id as
``writer_seq``, and by an epoch that fences a link which ran before. So a link that dies is simply begun again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import uuid4

from commitlog.client import CommitLog
from commitlog.client.ids import id_at
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.domain import model as m
from commitlog.domain.model.nodes import Node
from commitlog.domain.state.index import SequencerState
from commitlog.errors import ConfigurationError, FencedError, LinkStoppedError
from commitlog.sites.forwarding import Forwarded, Source


@dataclass(slots=True)
class LinkProgress:
    """How far a link is, and what it has done since it began.

    Attributes:
        source: the node whose log is read.
        target: the node that it is brought to.
        snapshot_id: the last snapshot of the source that was looked at.
        decided_at_ms: when that was decided there; the lag is what has passed since.
        brought: snapshots that the target took over.
        row_changes: row changes in them.
        own: snapshots passed by, since the target made them, or had them already.
        left_out: changes of tables without a primary key, and views, which are not replicated.
    """

    source: str
    target: str
    snapshot_id: int = 0
    decided_at_ms: int = 0
    brought: int = 0
    row_changes: int = 0
    own: int = 0
    left_out: int = 0


class Link:
    """Brings what ``source`` has committed to ``target``. One at a time does: a second one that is begun fences the first.

    Args:
        source: the log that is read.
        target: the log that it is proposed to.

    Raises:
        ConfigurationError: one of them is no node, or both are the same one.
        HistoryUnavailableError: the source's log is too long to be replayed here.
    """

    def __init__(self, source: CommitLog, target: CommitLog) -> None:
        self._source = source
        self._target = target
        before = head_state(target)
        source_node, self._target_node = _node_of(head_state(source), "the source"), _node_of(before, "the target")
        if source_node.name == self._target_node.name:
            raise ConfigurationError(
                f"both logs are node {source_node.name!r}: each site has a name of its own (`commitlog node NAME`)"
            )
        self.progress = LinkProgress(source_node.name, self._target_node.name)
        self._writer_id = f"link:{source_node.name}"
        # The clock of the target's log may be hours from this one, and does not take an id from the future.
        own_id = id_at(before.decided_at_ms, 0, secrets.randbits(62))
        self._epoch = target.open_writer(self._writer_id, proposal_id=own_id)
        # What an earlier link still had on its way was decided before this one's epoch was given.
        there = head_state(target)
        self._known = {name: known.tick for name, known in there.digest.items()}
        self._base = there.head_snapshot_id
        self._after_seq = _seq_of(source, _last_brought(there, self._writer_id))
        state = source._access.state_before(self._after_seq + 1)
        self.progress.snapshot_id, self.progress.decided_at_ms = state.head_snapshot_id, state.decided_at_ms
        self._forwarding = Source(source_node, state, self._known.get(source_node.name, 0))

    def run(self, *, follow: bool = True, told: Callable[[LinkProgress], None] = lambda _: None) -> LinkProgress:
        """Bring everything, and with ``follow`` what is to come, for ever; ``told`` is called after each snapshot.

        Raises:
            FencedError: another link of these two logs has begun.
            LinkStoppedError: the target refuses a change; its message names it, what it met, and the way on.
            OutcomeUnknownError: no answer in time; begun again, a link goes on where it was.
        """
        for forwarded in self._coming(follow):
            if self._is_news(forwarded):
                self._bring(forwarded)
            told(self.progress)
        return self.progress

    def _coming(self, follow: bool) -> Iterator[Forwarded]:
        for outcome in self._source.subscribe(self._after_seq, follow=follow):
            forwarded = self._forwarding.take(outcome)
            if outcome.snapshot_id is not None:
                self.progress.snapshot_id, self.progress.decided_at_ms = outcome.snapshot_id, outcome.decided_at_ms
            if forwarded is not None:
                self.progress.left_out += forwarded.left_out
                yield forwarded

    def _is_news(self, forwarded: Forwarded) -> bool:
        """Whether there is something in it that the target has not, as far as this link knows."""
        made_by, tick = forwarded.replicated.node, forwarded.replicated.tick
        if not forwarded.changes:
            return False
        if made_by == self._target_node.name or tick < self._known.get(made_by, 0):
            self.progress.own += 1
            return False
        return True

    def _bring(self, forwarded: Forwarded) -> None:
        answer = self._proposed(forwarded)
        if not answer.committed:
            # Only what the target changed since the base can have been in the way, if anything was.
            head = self._target.wait_for_snapshot()
            if head > self._base:
                self._base = head
                answer = self._proposed(forwarded)
        if answer.reason is m.Reason.WRITER_FENCED:
            raise FencedError(f"another link from {self.progress.source} to {self.progress.target} has begun")
        if not answer.committed:
            raise LinkStoppedError(self.progress.source, self.progress.target, forwarded.snapshot_id, answer)
        if answer.snapshot_id is not None:
            self._base = max(self._base, answer.snapshot_id)
        self._known[forwarded.replicated.node] = forwarded.replicated.tick + 1
        self.progress.brought += 1
        self.progress.row_changes += sum(change.kind in _ROW_CHANGES for change in forwarded.changes)

    def _proposed(self, forwarded: Forwarded) -> SubmittedOutcome:
        made = forwarded.proposal
        return self._target.submit(
            m.Proposal(
                proposal_id=uuid4().bytes,
                writer_id=self._writer_id,
                writer_epoch=self._epoch,
                writer_seq=forwarded.snapshot_id,
                base_snapshot_id=self._base,
                changes=forwarded.changes,
                created_at_ms=time.time_ns() // 1_000_000,
                author=made.author,
                message=made.message,
                extra=made.extra,
                replicated=forwarded.replicated,
            )
        )


_ROW_CHANGES = frozenset({m.ChangeKind.INSERT_ROW, m.ChangeKind.UPDATE_ROW, m.ChangeKind.DELETE_ROW})


def head_state(log: CommitLog) -> SequencerState:
    """The state of a log after its last outcome; by replaying it, from a checkpoint where this machine has one."""
    return log._access.state_before(log.last_seq() + 1)


def _node_of(state: SequencerState, what: str) -> Node:
    if state.node is None:
        raise ConfigurationError(f"{what} is no node: `commitlog node NAME --priority N` gives its log a name")
    return state.node


def _last_brought(there: SequencerState, writer_id: str) -> int:
    """The last snapshot of the source that the target took over by this link; 0 is none."""
    writer = there.writer(writer_id)
    return 0 if writer is None or writer.committed_seqs is None else writer.committed_seqs.max()


def _seq_of(log: CommitLog, snapshot_id: int) -> int:
    """The ``seq`` of the outcome that made a snapshot."""
    log.wait_for_snapshot(snapshot_id)
    return log._seq_of(snapshot_id)
