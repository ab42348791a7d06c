"""The story of one proposal in plain words: what it asked for, what it met, and the cheapest way out.

"Why was my commit refused?" is the question that this service exists to answer; everything here is drawn from the
outcome and the state in which it was decided, so that two people who ask get the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from commitlog.client.access.log_access import LogAccess, OutcomeState, ProposalStatus
from commitlog.client.outcomes.advising import advise
from commitlog.client.outcomes.describing import describe_change, describe_read, moment_of, one_line
from commitlog.domain import model as m
from commitlog.domain.again.alternatives import Alternative, alternatives_to
from commitlog.domain.model.definitions import counted, quoted
from commitlog.domain.model.ids import format_id
from commitlog.errors import HistoryUnavailableError
from commitlog.log.codec import decode_statistics

_SHOWN_MAX = 10
_ROW_KINDS = frozenset(
    {
        m.ConflictKind.INSERT_INSERT,
        m.ConflictKind.INSERT_UPDATE,
        m.ConflictKind.UPDATE_UPDATE,
        m.ConflictKind.UPDATE_DELETE,
    }
)
_FILE_KINDS = frozenset({m.ConflictKind.TABLE_DELETED_FROM, m.ConflictKind.TABLE_COMPACTED})
_ADVICE = {
    m.Reason.INTERNAL: "a defect of commitlog: report the traceback in the sequencer's log; after an upgrade send a new id",
    m.Reason.MALFORMED: "the bytes are not a proposal: write them with this package or the schemas in schemas/",
    m.Reason.PROPOSAL_EXPIRED: "if it never committed, send the same changes under a new id, made with a correct clock",
    m.Reason.WRITER_FENCED: "another process writes under this writer_id now: stop, or open the writer again",
    m.Reason.TOO_LATE: "send the same changes under a new id, with a later decide_before_ms",
    m.Reason.BASE_UNKNOWN: "the base is not in this log: read the table again here, and propose from what you read",
    m.Reason.BASE_EXPIRED: "rebase: read again at the head, and propose from there",
    m.Reason.INVALID: "change the request as the reason says: sent again unchanged, it is refused again",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of a proposal, and what would have become of it otherwise.

    Attributes:
        status: what became of it.
        tried: after a refusal for a conflict the variations under which it was decided again.
        unavailable: why it could not be.
    """

    status: ProposalStatus
    tried: tuple[Alternative, ...] = ()
    unavailable: str | None = None

    def __str__(self) -> str:
        """The story, some lines of text; where nothing was tried, the advice is general."""
        status = self.status
        if status.outcome is not None:
            return "\n".join(_decided(status.outcome, self.tried, self.unavailable))
        shown = format_id(status.proposal_id)
        if status.state is OutcomeState.UNDECIDED:
            return f"Proposal {shown} is in the log but not decided yet; it waits for the sequencer."
        searched = ", ".join(f"{at.offset} of partition {at.partition}" for at in status.positions)
        return (
            f"Proposal {shown} was never seen"
            + (f" (searched up to offset {searched})" if searched else "")
            + ". It was not sent to this log, or its bytes could not be read and are in the dead letters."
        )


def explain(access: LogAccess, proposal_id: m.ProposalId) -> Explanation:
    """The story of a proposal. After a refusal for a conflict it is decided again under variations of what it met."""
    status = access.find(proposal_id)
    outcome = status.outcome
    if outcome is None or outcome.reason is not m.Reason.CONFLICT or outcome.proposal is None:
        return Explanation(status)
    try:
        state = access.state_before(outcome.seq)
    except HistoryUnavailableError as error:
        return Explanation(status, unavailable=str(error))
    return Explanation(status, alternatives_to(state, outcome, decode_statistics=decode_statistics))


def _decided(outcome: m.Outcome, tried: Sequence[Alternative], unavailable: str | None) -> Iterator[str]:
    shown = "without an id" if outcome.proposal_id is None else format_id(outcome.proposal_id)
    yield f"Proposal {shown} by writer {quoted(outcome.writer_id or 'unknown')}"
    proposal = outcome.proposal
    if proposal is not None:
        yield from _asked(proposal)
    yield f"Decided {_time(outcome.decided_at_ms)} as outcome {outcome.seq}: {_verdict(outcome)}"
    if not outcome.conflicts and (detail := _detail(outcome)):
        yield f"  {detail}"
    for conflict in outcome.conflicts[:_SHOWN_MAX]:
        yield f"  - {_conflict(conflict)}"
    hidden = outcome.conflict_count - len(outcome.conflicts[:_SHOWN_MAX])
    if hidden > 0:
        yield f"  - and {hidden} more"
    for resolution in outcome.resolutions[:_SHOWN_MAX]:
        yield f"  - {_resolution(resolution)}"
    if tried:
        yield from advise(outcome, tried)
    elif advice := way_out(outcome):
        yield f"Way out: {advice}"
    if unavailable is not None:
        yield f"  (It could not be decided again to see what else would have helped: {unavailable}.)"


def _asked(proposal: m.Proposal) -> Iterator[str]:
    if proposal.message:
        yield f"  message: {one_line(proposal.message.splitlines()[0])}"
    changes = [describe_change(change) for change in proposal.changes]
    yield "Asked to " + ("open its writer" if proposal.open_writer else "; ".join(changes[:_SHOWN_MAX]) or "do nothing")
    if len(changes) > _SHOWN_MAX:
        yield f"  and {counted(len(changes) - _SHOWN_MAX, 'more change')}"
    yield f"computed from snapshot {proposal.base_snapshot_id} under {proposal.isolation.value} isolation"
    for read in proposal.reads[:_SHOWN_MAX]:
        yield f"  after reading {describe_read(read)}"


def _verdict(outcome: m.Outcome) -> str:
    if outcome.verdict is m.Verdict.COMMITTED:
        return f"COMMITTED as snapshot {outcome.snapshot_id}"
    if outcome.verdict is m.Verdict.DUPLICATE:
        first = "an earlier one" if outcome.original_seq is None else f"outcome {outcome.original_seq}"
        return f"DUPLICATE of {first}, whose answer holds"
    reason = outcome.reason.value if outcome.reason else "no reason"
    code = f" ({outcome.invalid_code})" if outcome.invalid_code else ""
    return f"REJECTED, {reason}{code}, at head {outcome.head_snapshot_id}"


def _detail(outcome: m.Outcome) -> str | None:
    """Why, with times as people read them."""
    proposal = outcome.proposal
    if outcome.reason is m.Reason.TOO_LATE and proposal is not None and proposal.decide_before_ms is not None:
        before = _time(proposal.decide_before_ms)
        return outcome.detail if before is None else f"it was to be decided before {before} (decide_before_ms)"
    if outcome.reason is m.Reason.WRITER_FENCED and proposal is not None and proposal.writer_epoch is None:
        return "it names no writer epoch, and since the writer id was opened only its newest epoch may write"
    return outcome.detail


def _conflict(conflict: m.Conflict) -> str:
    where = "change" if conflict.proposed_change is not None else "read"
    index = conflict.proposed_change if conflict.proposed_change is not None else conflict.proposed_read
    made_by = f", proposal {format_id(conflict.committed_proposal_id)}" if conflict.committed_proposal_id else ""
    forgotten = "" if conflict.committed_writer_id else ", by a writer no longer remembered"
    return f"{where} {index}: {conflict.detail} [{conflict.kind.value}{made_by}{forgotten}]"


def _resolution(resolution: m.Resolution) -> str:
    key = resolution.object.row_key or "?"
    met = f"{resolution.kind.value} with snapshot {resolution.committed_snapshot_id}"
    return f"row {key}: {met}, {resolution.action.value.lower()} ({resolution.policy})"


def way_out(outcome: m.Outcome) -> str | None:
    """The cheapest thing that would let the same request through; None when it needs nothing."""
    if outcome.verdict is not m.Verdict.REJECTED or outcome.reason is None:
        return None
    if outcome.reason is not m.Reason.CONFLICT:
        return _ADVICE[outcome.reason]
    rebase = f"rebase: read again at snapshot {outcome.head_snapshot_id}, and propose from there (log.run does so)"
    finer = _finer(outcome.conflicts)
    return rebase if finer is None else f"{rebase}; for fewer such conflicts, {finer}"


def _finer(conflicts: tuple[m.Conflict, ...]) -> str | None:
    """What would tell the two sides apart; None unless it would for every conflict of the outcome."""
    if all(c.proposed_read is not None and c.kind is m.ConflictKind.TABLE_APPENDED for c in conflicts):
        return "declare a narrower filter for what was read, so that statistics can tell the appended files apart"
    if all(c.kind in _ROW_KINDS for c in conflicts):
        return "let the table settle it: on_conflict LAST_UPDATE_WINS or KEEP_EXISTING"
    if all(c.kind in _FILE_KINDS and c.proposed_change is not None for c in conflicts):
        whole_table = any(c.object.data_file_id is None for c in conflicts)
        granularity = "FILE or ROW" if whole_table else "ROW"
        return f"set the table's conflict_granularity to {granularity}, if the rows were not the same"
    return None


def _time(time_ms: int) -> str | None:
    moment = moment_of(time_ms)
    return None if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")
