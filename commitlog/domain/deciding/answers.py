"""The outcome in the making, the answers that are repeated, and what a writer is told.

How an outcome comes about is in ``decide``; here is what every kind of answer has in common.
"""

from __future__ import annotations

from commitlog.domain import model as m
from commitlog.domain.deciding.plan import Plan
from commitlog.domain.model.contents import content_of, is_same_content
from commitlog.domain.state.duplicates import Answer
from commitlog.domain.state.index import SequencerState

START = m.Position(0, 0)
_DETAIL_LENGTH_MAX = 2_000
_DECIDED_AT_MS_MAX = 253_402_300_799_000
"""The end of the year 9999, beyond which neither Python nor stock readers can show a time."""


class Decision:
    """The outcome in the making: what every kind of answer has in common."""

    def __init__(
        self, state: SequencerState, decided_at_ms: int, source: m.Position, epoch: int, proposal_bytes: bytes | None
    ) -> None:
        self.state = state
        self.decided_at_ms = min(decided_at_ms, _DECIDED_AT_MS_MAX)
        self.source = source
        self.epoch = epoch
        self.proposal_bytes = proposal_bytes

    def malformed(self, proposal: m.MalformedProposal) -> m.Outcome:
        """The bytes do not decode."""
        return self.refused(proposal.proposal_id, proposal.writer_id, m.Reason.MALFORMED, proposal.detail, None)

    def rejected(
        self, proposal: m.Proposal, reason: m.Reason, detail: str, invalid_code: m.InvalidCode | None = None
    ) -> m.Outcome:
        """A refusal for one reason; ``invalid_code`` of an INVALID."""
        return self.refused(
            proposal.proposal_id, proposal.writer_id, reason, detail, proposal, invalid_code=invalid_code
        )

    def conflicting(self, proposal: m.Proposal, conflicts: list[m.Conflict]) -> m.Outcome:
        """A refusal for what was committed since the base; as many are listed as the log's settings say."""
        others = len(conflicts) - 1
        more = f" (and {others} more conflict{'s' if others > 1 else ''})" if others else ""
        listed = tuple(conflicts[: self.state.settings.conflicts_max])
        return self.refused(
            proposal.proposal_id,
            proposal.writer_id,
            m.Reason.CONFLICT,
            conflicts[0].detail + more,
            proposal,
            conflicts=listed,
            conflict_count=len(conflicts),
        )

    def refused(
        self,
        proposal_id: m.ProposalId | None,
        writer_id: str | None,
        reason: m.Reason,
        detail: str,
        proposal: m.Proposal | None,
        conflicts: tuple[m.Conflict, ...] = (),
        conflict_count: int = 0,
        invalid_code: m.InvalidCode | None = None,
    ) -> m.Outcome:
        """A refusal; ``proposal`` is None where nothing of it but its ids may be told."""
        state = self.state
        return m.Outcome(
            seq=state.next_seq,
            epoch=self.epoch,
            source=self.source,
            decided_at_ms=self.decided_at_ms,
            verdict=m.Verdict.REJECTED,
            head_snapshot_id=state.head_snapshot_id,
            proposal_id=proposal_id,
            writer_id=writer_id,
            reason=reason,
            invalid_code=invalid_code,
            detail=detail if len(detail) <= _DETAIL_LENGTH_MAX else detail[: _DETAIL_LENGTH_MAX - 3] + "...",
            conflicts=conflicts,
            conflict_count=conflict_count,
            assigned=m.Assigned(schema_version=state.schema_version),
            next_catalog_id=state.next_catalog_id,
            next_file_id=state.next_file_id,
            content_hash=None if proposal is None or reason is m.Reason.PROPOSAL_EXPIRED else content_of(proposal),
            proposal=proposal,
            proposal_bytes=self.proposal_bytes,
        )

    def duplicate(self, proposal: m.Proposal, first: Answer) -> m.Outcome:
        """The answer was given before."""
        state = self.state
        return m.Outcome(
            seq=state.next_seq,
            epoch=self.epoch,
            source=self.source,
            decided_at_ms=self.decided_at_ms,
            verdict=m.Verdict.DUPLICATE,
            head_snapshot_id=state.head_snapshot_id,
            proposal_id=proposal.proposal_id,
            writer_id=proposal.writer_id,
            assigned=m.Assigned(schema_version=state.schema_version),
            next_catalog_id=state.next_catalog_id,
            next_file_id=state.next_file_id,
            original_seq=first.seq if first is not FORGOTTEN else None,
            same_content=None
            if first.content_hash is None
            else is_same_content(first.content_hash, content_of(proposal)),
            proposal=proposal,
            proposal_bytes=self.proposal_bytes,
        )

    def committed(self, proposal: m.Proposal, plan: Plan) -> m.Outcome:
        """A new snapshot."""
        state, ids = self.state, plan.ids
        snapshot_id = state.head_snapshot_id + 1
        return m.Outcome(
            seq=state.next_seq,
            epoch=self.epoch,
            source=self.source,
            decided_at_ms=self.decided_at_ms,
            verdict=m.Verdict.COMMITTED,
            head_snapshot_id=snapshot_id,
            proposal_id=proposal.proposal_id,
            writer_id=proposal.writer_id,
            snapshot_id=snapshot_id,
            snapshot_time_us=max(self.decided_at_ms * 1000, state.snapshot_time_us + 1),
            resolutions=tuple(plan.resolutions),
            assigned=ids.assigned(
                schema_version=state.schema_version + plan.changes_schema,
                writer_epoch=self._opened_epoch(proposal) if proposal.open_writer else None,
            ),
            effects=tuple(plan.effects),
            next_catalog_id=ids.next_catalog_id,
            next_file_id=ids.next_file_id,
            content_hash=content_of(proposal),
            proposal=proposal,
            proposal_bytes=self.proposal_bytes,
        )

    def _opened_epoch(self, proposal: m.Proposal) -> int:
        writer = self.state.writer(proposal.writer_id)
        return 1 if writer is None or writer.epoch is None else writer.epoch + 1


def refuse_internal(
    state: SequencerState,
    proposal: m.Proposal | m.MalformedProposal,
    error: BaseException,
    *,
    now_ms: int,
    source: m.Position,
    epoch: int = 0,
) -> m.Outcome:
    """Answer what ``decide``, the encoder or ``replay`` could not take: a defect here that must not stop the log.

    Nothing of the proposal but its ids is in the outcome, so that whoever reads the log need not take it either, and its
    answer is not remembered.
    """
    decision = Decision(state, max(now_ms, state.decided_at_ms), source, epoch, None)
    detail = (
        f"an unexpected error ({type(error).__name__}) while this proposal was decided: a defect of commitlog, told in full "
        "in the sequencer's log; the proposal is in the dead letters"
    )
    return decision.refused(proposal.proposal_id, proposal.writer_id, m.Reason.INTERNAL, detail, None)


# --- answers that were given before -----------------------------------------------------------------------------------


def first_answer(state: SequencerState, proposal: m.Proposal, partition: int) -> Answer | None:
    """The answer that this proposal has been given already: to its id, or to its writer's seq; None when it is new."""
    window = state.duplicates.get(partition)
    if window is not None and (answer := window.answer(proposal.proposal_id)) is not None:
        return answer
    if proposal.writer_seq is None:
        return None
    writer = state.writer(proposal.writer_id)
    if writer is None or writer.committed_seqs is None or not proposal.writer_seq >= 0:
        return None
    if proposal.writer_seq not in writer.committed_seqs:
        return None
    return writer.answers.get(proposal.writer_seq, FORGOTTEN)


FORGOTTEN = Answer(-1, m.Verdict.COMMITTED, None, None, None, None)
"""A writer_seq that has committed, longer ago than the duplicate window remembers the details."""


def receipt_for(state: SequencerState, outcome: m.Outcome) -> m.Receipt:
    """The receipt of an outcome that ``state`` has replayed; for a DUPLICATE with the first answer, if it is remembered."""
    first: Answer | None = None
    if outcome.verdict is m.Verdict.DUPLICATE and outcome.proposal is not None:
        first = first_answer(state, outcome.proposal, outcome.source.partition)
    return m.Receipt(
        seq=outcome.seq,
        source=outcome.source,
        proposal_id=outcome.proposal_id,
        verdict=outcome.verdict,
        snapshot_id=outcome.snapshot_id,
        head_snapshot_id=outcome.head_snapshot_id,
        reason=outcome.reason,
        detail=outcome.detail,
        invalid_code=outcome.invalid_code,
        assigned=outcome.assigned,
        decided_at_ms=outcome.decided_at_ms,
        original_seq=outcome.original_seq,
        same_content=outcome.same_content,
        answered_verdict=None if first is None else first.verdict,
        answered_snapshot_id=None if first is None else first.snapshot_id,
        answered_reason=None if first is None else first.reason,
        answered_detail=None if first is None else first.detail,
    )
