"""Generated from schemas/receipts.avsc by `make records`: the values."""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record
from commitlog.domain.model.records.outcome import Assigned, Position, Reason, Verdict
from commitlog.domain.model.values import ProposalId


@mypyc_attr(acyclic=True)
class Receipt(Record):
    """The verdict without the proposal.

    Of a DUPLICATE ``answered_*`` repeat the first answer, where it is known.

    source: Where the proposal lies in the proposals topic.
    seq: Of the outcome.
    proposal_id: Null where it cannot be read.
    verdict: The answer.
    snapshot_id: The snapshot that it made; null unless COMMITTED.
    head_snapshot_id: The newest snapshot after it.
    reason: Why it was refused; null unless REJECTED.
    detail: The reason in words.
    invalid_code: The outcome's.
    assigned: The ids that were given.
    decided_at_ms: The sequencer's clock, ms since 1970.
    original_seq: Of a DUPLICATE: the seq of the first answer.
    same_content: Of a DUPLICATE: whether the first proposal asked for the same; null when that is forgotten.
    answered_verdict: The first answer.
    answered_snapshot_id: Its snapshot.
    answered_reason: Its reason.
    answered_detail: Its reason in words.
    """

    __slots__ = (
        "answered_detail",
        "answered_reason",
        "answered_snapshot_id",
        "answered_verdict",
        "assigned",
        "decided_at_ms",
        "detail",
        "head_snapshot_id",
        "invalid_code",
        "original_seq",
        "proposal_id",
        "reason",
        "same_content",
        "seq",
        "snapshot_id",
        "source",
        "verdict",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "source",
        "seq",
        "proposal_id",
        "verdict",
        "snapshot_id",
        "head_snapshot_id",
        "reason",
        "detail",
        "invalid_code",
        "assigned",
        "decided_at_ms",
        "original_seq",
        "same_content",
        "answered_verdict",
        "answered_snapshot_id",
        "answered_reason",
        "answered_detail",
    )

    def __init__(
        self,
        source: Position,
        seq: int,
        proposal_id: ProposalId | None,
        verdict: Verdict,
        snapshot_id: int | None,
        head_snapshot_id: int,
        reason: Reason | None,
        detail: str | None,
        assigned: Assigned,
        decided_at_ms: int,
        invalid_code: str | None = None,
        original_seq: int | None = None,
        same_content: bool | None = None,
        answered_verdict: Verdict | None = None,
        answered_snapshot_id: int | None = None,
        answered_reason: Reason | None = None,
        answered_detail: str | None = None,
    ) -> None:
        self.source: Final = source
        self.seq: Final = seq
        self.proposal_id: Final = proposal_id
        self.verdict: Final = verdict
        self.snapshot_id: Final = snapshot_id
        self.head_snapshot_id: Final = head_snapshot_id
        self.reason: Final = reason
        self.detail: Final = detail
        self.invalid_code: Final = invalid_code
        self.assigned: Final = assigned
        self.decided_at_ms: Final = decided_at_ms
        self.original_seq: Final = original_seq
        self.same_content: Final = same_content
        self.answered_verdict: Final = answered_verdict
        self.answered_snapshot_id: Final = answered_snapshot_id
        self.answered_reason: Final = answered_reason
        self.answered_detail: Final = answered_detail


@mypyc_attr(acyclic=True)
class Receipts(Record):
    """The receipts of one batch and partition: a record for each proposal would cost more than deciding it.

    log_id: Of the log.
    partition: Of proposals and of receipts: the same.
    receipts: In the order of their offsets.
    """

    __slots__ = ("log_id", "partition", "receipts")

    FIELDS: ClassVar[tuple[str, ...]] = ("log_id", "partition", "receipts")

    def __init__(self, log_id: bytes, partition: int, receipts: tuple[Receipt, ...]) -> None:
        self.log_id: Final = log_id
        self.partition: Final = partition
        self.receipts: Final = receipts
