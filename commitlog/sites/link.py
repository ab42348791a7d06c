"""A link brings what one log has committed to another one, snapshot after snapshot, each exactly once (rules.md 6).

Where it is, the target remembers: each snapshot is proposed under the link's own writer id, with the source's snapshot id as
``writer_seq``, and by an epoch that fences a link which ran before. So a link that dies is simply begun again. Many are on
their way at once: where one is lost, or refused, those after it are refused too, for their digests name it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from commitlog.client import CommitLog
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.names import TableName
from commitlog.domain import model as m
from commitlog.domain.model.named import named_by
from commitlog.domain.state.sites import is_row_change
from commitlog.errors import (
    FencedError,
    LinkStoppedError,
    ProposalTooLargeError,
    ResultsTrimmedError,
    SiteAwayTooLongError,
)
from commitlog.sites.beginning import Last, check_joined, next_ticks, nodes_of, open_writer, passed_by, writer_id_of
from commitlog.sites.contents_there import ContentsThere
from commitlog.sites.forwarding import Forwarded, Source
from commitlog.sites.proposing import id_for, in_runs, propose_ahead, propose_alone


@dataclass(slots=True)
class LinkProgress:
    """How far a link is, and what it has done since it began.

    Attributes:
        source: the node whose log is read.
        target: the node that it is brought to.
        seq: the last outcome of the source before which everything was looked at.
        snapshot_id: the last snapshot of the source that was looked at.
        decided_at_ms: when that was decided there; the lag is what has passed since.
        brought: snapshots that the target took over.
        row_changes: row changes in them.
        own: snapshots passed by, since the target made them, or had them already.
        left_out: changes of views, and of tables whose property ``replicated`` is false, which are not replicated.
        files: files that the target may name now.
        file_bytes: bytes in them.
        lacks: nodes of which the source was told, when it joined, what the target does not have; this link brings none of it.
    """

    source: str
    target: str
    seq: int = 0
    snapshot_id: int = 0
    decided_at_ms: int = 0
    brought: int = 0
    row_changes: int = 0
    own: int = 0
    left_out: int = 0
    files: int = 0
    file_bytes: int = 0
    lacks: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why it brings nothing of some nodes, and what to do about it; None while the target lacks nothing of them."""
        if not self.lacks:
            return None
        made_by = ", ".join(self.lacks)
        return (
            f"site {self.target} does not have what site {self.source} was told of {made_by} when it joined, and a link from "
            f"{self.source} does not bring that: let links from {made_by} bring it to {self.target}, or, while "
            f"{self.target} is empty, begin with `commitlog replicate --join` from {self.source}"
        )


class Link:
    """Brings what ``source`` has committed to ``target``. One at a time does: a second one that is begun fences the first.

    Args:
        source: the log that is read.
        target: the log that it is proposed to.

    Raises:
        ConfigurationError: one of them is no node, both are the same one, or the target joins and was not told everything.
        HistoryUnavailableError: the source's log is too long to be replayed here.
        SiteWentBackError: one of the two logs is older than it was.
    """

    def __init__(self, source: CommitLog, target: CommitLog) -> None:
        self._source = source
        self._target = target
        source_node, self._target_node = nodes_of(source, target)
        self._source_node = source_node
        check_joined(target)
        self.progress = LinkProgress(source_node.name, self._target_node.name)
        self._writer_id = writer_id_of(source_node.name)
        self._epoch = open_writer(target, self._writer_id)
        check_joined(target)  # A join that began meanwhile has ended the links that it saw.
        # What an earlier link still had on its way was decided before this one's epoch was given.
        self._known = next_ticks(target)
        self._base = target.wait_for_snapshot()
        next_tick = self._known.get(source_node.name, 0)
        last = Last.of(target, self._target_node.name, source_node.name, next_tick)
        known_there = next_ticks(source).get(self._target_node.name, 0)
        theirs = Last.of(source, source_node.name, self._target_node.name, known_there)
        if theirs is not None:
            # What the source knew of a target that went back would be newer than what that has written since.
            theirs.made_at(target)
        if last is None:
            self._forwarding = Source(source_node, {}, (), 0)
        else:
            self._forwarding, at = last.taken_again(source, source_node, next_tick)
            self.progress.seq, self.progress.decided_at_ms = at
            self.progress.snapshot_id = last.snapshot_id
        self._is_under_way = False
        self._proposed_id = self.progress.snapshot_id
        nodes = (source_node.name, self._target_node.name)
        self._told: Callable[[LinkProgress], None] = lambda _: None
        self._contents = ContentsThere(source, target, nodes, self._has_file, lambda: self._told(self.progress))

    def run(self, *, follow: bool = True, told: Callable[[LinkProgress], None] = lambda _: None) -> LinkProgress:
        """Bring everything, and with ``follow`` what is to come, for ever; ``told`` is called after each snapshot, and now and
        then.

        Raises:
            FencedError: another link of these two logs has begun.
            LinkStoppedError: the target refuses a change; its message names it, what it met, and the way on.
            OutcomeUnknownError: no answer in time; begun again, a link goes on where it was.
            SiteAwayTooLongError: the source's results were archived before they were brought.
            TableNotBroughtError: something of a table cannot be brought.
        """
        self._told = told
        for outcomes in self._outcomes(follow):
            for run in in_runs(self._news_of(outcomes), partial(names_before, self.progress.source)):
                try:
                    self._bring(run)
                except ProposalTooLargeError as error:
                    raise LinkStoppedError(
                        self.progress.source, self.progress.target, self._proposed_id, error
                    ) from error
            if outcomes:
                self.progress.seq, self.progress.decided_at_ms = outcomes[-1].seq, outcomes[-1].decided_at_ms
                self.progress.snapshot_id = outcomes[-1].head_snapshot_id
            self._look_for_what_it_lacks()
            told(self.progress)
        return self.progress

    def _outcomes(self, follow: bool) -> Iterator[Sequence[m.Outcome]]:
        while True:
            try:
                yield from self._source.access.subscribe(self.progress.seq, follow=follow)
                return
            except ResultsTrimmedError as error:
                self._pass_by(error)

    def _pass_by(self, trimmed: ResultsTrimmedError) -> None:
        """Go on behind the first outcome that is left, if up to there was nothing to bring: the target remembers only where
        there was something."""
        progress, passed = self.progress, None
        if progress.seq < trimmed.seq:
            seqs = progress.seq + 1, trimmed.seq
            passed = passed_by(self._source, self._source_node, next_ticks(self._target), progress.target, seqs)
        if passed is None:
            raise SiteAwayTooLongError(progress.source, progress.target, progress.snapshot_id) from trimmed
        self._forwarding = passed.forwarding
        progress.seq, progress.snapshot_id, progress.decided_at_ms = passed[1:]

    def _news_of(self, outcomes: Iterable[m.Outcome]) -> Iterator[Forwarded]:
        """What of some outcomes the target has not, as far as this link knows."""
        has_asked = False
        for outcome in outcomes:
            forwarded = self._forwarding.take(outcome)
            if forwarded is None:
                continue
            self.progress.left_out += forwarded.left_out
            if not forwarded.changes:
                continue
            made_by = forwarded.replicated.node
            if made_by != self.progress.source and not has_asked and not self._is_known(forwarded):
                # Another link may have brought it, the maker's own as a rule.
                has_asked = True
                self._ask_what_is_known()
            if self._is_known(forwarded):
                self.progress.own += 1
            else:
                yield forwarded

    def _ask_what_is_known(self) -> None:
        for name, known in self._target.access.digest(wait=False).items():
            self._known[name] = max(self._known.get(name, 0), known.tick)

    def _is_known(self, forwarded: Forwarded) -> bool:
        made_by, tick = forwarded.replicated.node, forwarded.replicated.tick
        return made_by == self._target_node.name or tick < self._known.get(made_by, 0)

    def _look_for_what_it_lacks(self) -> None:
        """Others may bring it meanwhile; once they have, the target does not lack it any more."""
        told = self._forwarding.told
        told.pop(self._target_node.name, None)
        if told:
            self._ask_what_is_known()
        for name in [name for name, tick in told.items() if tick <= self._known.get(name, 0)]:
            del told[name]
        self.progress.lacks = tuple(sorted(told))

    def _has_file(self, size_bytes: int) -> None:
        self.progress.files += 1
        self.progress.file_bytes += size_bytes
        self._told(self.progress)

    def _bring(self, run: Sequence[Forwarded]) -> None:
        """Bring what may be on its way together; what is refused is tried once more, from the first on."""
        self._contents.look_anew()
        left = list(run)
        while left:
            # A link that is stopped and begun again and again has one refused each time, not as many as it sends ahead.
            if not self._is_under_way:
                self._bring_alone(left.pop(0))
                self._is_under_way = True
            left = propose_ahead(self._target, left, lambda each: self._proposal(each, self._base), self._note)
            if left:
                self._bring_alone(left.pop(0))

    def _bring_alone(self, forwarded: Forwarded) -> None:
        def proposal(base_snapshot_id: int, displaced: tuple[m.DisplacedRow, ...]) -> m.Proposal:
            self._contents.look_anew()
            return self._proposal(forwarded.displacing(displaced), base_snapshot_id)

        answer = propose_alone(self._target, proposal, self._base)
        if answer.reason is m.Reason.WRITER_FENCED:
            raise FencedError(f"another link from {self.progress.source} to {self.progress.target} has begun")
        if not answer.committed:
            there: Sequence[str] = ()
            if answer.invalid_code == m.InvalidCode.DIGEST_AHEAD:
                there = ("another link may have yet to bring that, as where a site has joined that was told more",)
            elif not answer.conflicts:
                there = tuple(last_changes(self._target, forwarded.changes))
            raise LinkStoppedError(self.progress.source, self.progress.target, forwarded.snapshot_id, answer, there)
        self._note(forwarded, answer)

    def _note(self, forwarded: Forwarded, answer: SubmittedOutcome) -> None:
        """The target has taken it over."""
        progress = self.progress
        if answer.snapshot_id is not None:
            self._base = max(self._base, answer.snapshot_id)
        self._known[forwarded.replicated.node] = forwarded.replicated.tick + 1
        progress.snapshot_id, progress.decided_at_ms = forwarded.snapshot_id, forwarded.decided_at_ms
        progress.brought += 1
        progress.row_changes += sum(is_row_change(change) for change in forwarded.changes)
        self._told(progress)

    def _proposal(self, forwarded: Forwarded, base: int) -> m.Proposal:
        made = forwarded.proposal
        self._proposed_id = forwarded.snapshot_id
        return m.Proposal(
            proposal_id=id_for(made.proposal_id),
            writer_id=self._writer_id,
            writer_epoch=self._epoch,
            writer_seq=forwarded.snapshot_id,
            base_snapshot_id=base,
            changes=self._contents.said_there(forwarded, base),
            created_at_ms=time.time_ns() // 1_000_000,
            author=made.author,
            message=made.message,
            extra=made.extra,
            replicated=forwarded.replicated,
        )


def last_changes(log: CommitLog, changes: Iterable[m.Change]) -> Iterator[str]:
    """What a log did last to the tables that some changes name: where these cannot be, that is what they met."""
    names = dict.fromkeys(TableName(*named[-1]) for named in map(named_by, changes) if named)
    for name in names:
        for entry in log.history(1, table=str(name), verdict=m.Verdict.COMMITTED):
            kinds = ", ".join(dict.fromkeys(entry.change_kinds))
            yield f"{name} was changed last by its snapshot {entry.snapshot_id} ({kinds}) of writer {entry.writer_id}"


def names_before(source: str, each: Forwarded, before: Forwarded) -> bool:
    """Whether its digest names the one before: the source knew it, or it is the last one of the same node.

    So without one of a run the target takes none of those after it: what a link has brought has no gaps, and its last snapshot
    says where to go on. Definitions go alone, for what follows has them in its base.
    """
    made_by = each.replicated.node
    return each.is_contents and before.is_contents and made_by in (source, before.replicated.node)
