"""What a writer is told of its proposal: the receipt, and what stands behind it when the proposal was refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from commitlog.domain.model import Assigned, Conflict, Outcome, Proposal, Reason, Receipt, Verdict


@dataclass(frozen=True, slots=True, repr=False)
class SubmittedOutcome:
    """The answer to a proposal that was sent.

    Attributes:
        proposal_id: the id it was sent with.
        verdict: COMMITTED or REJECTED; for a repeat the first answer.
        snapshot_id: the snapshot that it made; None when refused, or when a repeat's first answer is too long ago.
        head_snapshot_id: the head after this decision.
        reason: why it was refused.
        detail: the same in words.
        conflicts: what it met; a refused one's whole list as far as it could be had in time.
        assigned: the ids that it was given; for a repeat those of the first.
        seq: the place of this answer in the log.
        decided_at_ms: when it was decided.
        is_repeat: whether the same id, or the writer's same writer_seq, had been answered before.
        first: of a repeat, the proposal that was answered first.
        invalid_code: of INVALID, which of the cases in docs/invalid-codes.md.
    """

    proposal_id: UUID
    verdict: Verdict
    snapshot_id: int | None
    head_snapshot_id: int
    reason: Reason | None
    detail: str | None
    conflicts: tuple[Conflict, ...]
    assigned: Assigned
    seq: int
    decided_at_ms: int
    invalid_code: str | None = None
    is_repeat: bool = False
    first: Proposal | None = None

    def __repr__(self) -> str:
        made = "" if self.snapshot_id is None else f", snapshot {self.snapshot_id}"
        why = "" if self.reason is None else f", {self.reason}: {self.detail}"
        return (
            f"{type(self).__name__}({self.verdict}{made}{why}, seq {self.seq}{', a repeat' if self.is_repeat else ''})"
        )

    @property
    def committed(self) -> bool:
        """Whether the proposal's changes are in the log."""
        return self.verdict is Verdict.COMMITTED


def answered(proposal: Proposal, receipt: Receipt, decided: Outcome | None = None) -> SubmittedOutcome:
    """The answer from a receipt; with the outcome behind it, where that has been looked up for its conflicts."""
    return _answer(receipt, proposal.proposal_id, () if decided is None else decided.conflicts)


def answered_before(proposal: Proposal, receipt: Receipt, first: Outcome | None) -> SubmittedOutcome:
    """The answer to a repeat: the first one's, from the receipt where its outcome cannot be had."""
    answer = answered(proposal, receipt)
    if first is None:
        return replace(
            answer,
            verdict=receipt.answered_verdict or Verdict.COMMITTED,
            snapshot_id=receipt.answered_snapshot_id,
            reason=receipt.answered_reason,
            detail=receipt.answered_detail,
            is_repeat=True,
        )
    return replace(
        answered_first(first),
        proposal_id=answer.proposal_id,
        head_snapshot_id=answer.head_snapshot_id,
        seq=answer.seq,
        decided_at_ms=answer.decided_at_ms,
    )


def answered_first(first: Outcome) -> SubmittedOutcome:
    """The answer to a write that is not sent, since what it repeats is known."""
    return replace(_answer(first, first.proposal_id, first.conflicts), is_repeat=True, first=first.proposal)


def _answer(told: Receipt | Outcome, proposal_id: bytes | None, conflicts: tuple[Conflict, ...]) -> SubmittedOutcome:
    return SubmittedOutcome(
        proposal_id=UUID(bytes=proposal_id),
        verdict=told.verdict,
        snapshot_id=told.snapshot_id,
        head_snapshot_id=told.head_snapshot_id,
        reason=told.reason,
        detail=told.detail,
        conflicts=conflicts,
        assigned=told.assigned,
        seq=told.seq,
        decided_at_ms=told.decided_at_ms,
        invalid_code=told.invalid_code,
    )
