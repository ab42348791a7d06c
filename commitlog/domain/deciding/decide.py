"""decide and replay: the two functions that everything else is plumbing around.

``decide`` looks at the state and makes an outcome; it is pure, changes nothing and never raises for bad input.
``replay`` changes the state by an outcome; it is total: it asserts and never refuses, live and at start alike. The order
of the checks in ``decide`` is the precedence of the reasons (rules.md 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import attempt_text, make_conflict, sorted_conflicts
from commitlog.domain.deciding.matrix import check_footprint
from commitlog.domain.deciding.planners import plan_changes
from commitlog.domain.deciding.planning import Plan
from commitlog.domain.deciding.reads import StatisticsDecoder, check_read_text, find_read_hits
from commitlog.domain.deciding.row_conflicts import RowHandler
from commitlog.domain.model import Outcome, Position, Proposal, Reason, Verdict
from commitlog.domain.model.contents import content_of, is_same_content
from commitlog.domain.model.definitions import InvalidChangeError, quoted
from commitlog.domain.model.ids import id_time_ms, partition_for
from commitlog.domain.model.texts import check_name, check_text, check_time_ms
from commitlog.domain.state.index import Answer, SequencerState

_NO_HANDLERS: Mapping[str, RowHandler] = {}
_START = Position(0, 0)
_DETAIL_LENGTH_MAX = 2_000
_DECIDED_AT_MS_MAX = 253_402_300_799_000
"""The end of the year 9999, beyond which neither Python nor stock readers can show a time."""


def decide(
    state: SequencerState,
    proposal: Proposal | m.MalformedProposal,
    *,
    now_ms: int,
    source: Position = _START,
    epoch: int = 0,
    proposal_bytes: bytes | None = None,
    decode_statistics: StatisticsDecoder | None = None,
    handlers: Mapping[str, RowHandler] = _NO_HANDLERS,
) -> Outcome:
    """Give the one answer to a proposal.

    now_ms: the clock, which the outcome keeps as ``decided_at_ms`` (never falling). source: where the proposal came from.
    epoch: of this sequencer. decode_statistics: expands opaque column statistics, for filters of reads. handlers: the row
    handlers by name, for tables with ``on_conflict`` handler:NAME.
    """
    decision = _Decision(state, max(now_ms, state.decided_at_ms), source, epoch, proposal_bytes)
    if isinstance(proposal, m.MalformedProposal):
        return decision.malformed(proposal)
    if (first := first_answer(state, proposal, source.partition)) is not None:
        return decision.duplicate(proposal, first)
    refusal = _refused_unseen(state, proposal, source, decision.decided_at_ms)
    if refusal is not None:
        return decision.rejected(proposal, *refusal)
    plan = Plan(state, proposal, decided_at_ms=decision.decided_at_ms, handlers=handlers)
    try:
        _check_form(state, proposal, source, decision.decided_at_ms)
        plan_changes(plan)
        conflicts = _collect_conflicts(plan, decode_statistics)
    except InvalidChangeError as error:
        return decision.rejected(proposal, Reason.INVALID, str(error), error.code)
    if conflicts:
        return decision.conflicting(proposal, conflicts)
    return decision.committed(proposal, plan)


def refuse_internal(
    state: SequencerState,
    proposal: Proposal | m.MalformedProposal,
    error: BaseException,
    *,
    now_ms: int,
    source: Position = _START,
    epoch: int = 0,
) -> Outcome:
    """Answer what ``decide``, the encoder or ``replay`` could not take: a defect here that must not stop the log.

    Nothing of the proposal but its ids is in the outcome, so that whoever reads the log need not take it either, and its
    answer is not remembered.
    """
    decision = _Decision(state, max(now_ms, state.decided_at_ms), source, epoch, None)
    detail = (
        f"an unexpected error ({type(error).__name__}) while this proposal was decided: a defect of commitlog, told in full "
        "in the sequencer's log; the proposal is in the dead letters"
    )
    return decision.refused(proposal.proposal_id, proposal.writer_id, Reason.INTERNAL, detail, None)


def find_conflicts(
    state: SequencerState,
    proposal: Proposal,
    *,
    decode_statistics: StatisticsDecoder | None = None,
    handlers: Mapping[str, RowHandler] = _NO_HANDLERS,
) -> tuple[m.Conflict, ...]:
    """Everything committed since the base that the proposal cannot live with, sorted; InvalidChangeError if it never could."""
    plan = Plan(state, proposal, decided_at_ms=state.decided_at_ms, handlers=handlers)
    plan_changes(plan)
    return tuple(_collect_conflicts(plan, decode_statistics))


def first_answer(state: SequencerState, proposal: Proposal, partition: int) -> Answer | None:
    """The answer that this proposal has been given already: to its id, or to its writer's seq; None when it is new."""
    window = state.duplicates.get(partition)
    if window is not None and (answer := window.answers.get(proposal.proposal_id)) is not None:
        return answer
    if proposal.writer_seq is None or proposal.open_writer:
        return None
    writer = state.writer(proposal.writer_id)
    if writer is None or writer.committed_seqs is None or not proposal.writer_seq >= 0:
        return None
    if proposal.writer_seq not in writer.committed_seqs:
        return None
    return writer.answers.get(proposal.writer_seq, _FORGOTTEN)


_FORGOTTEN = Answer(-1, Verdict.COMMITTED, None, None, None, None)
"""A writer_seq that has committed, longer ago than the duplicate window remembers the details."""


def _refused_unseen(
    state: SequencerState, proposal: Proposal, source: Position, decided_at_ms: int
) -> tuple[Reason, str] | None:
    """The refusals that do not look at the changes, in their precedence."""
    window = state.duplicates.get(source.partition)
    if window is not None and proposal.writer_seq is None:
        made_at_ms = id_time_ms(proposal.proposal_id)
        if made_at_ms is not None and made_at_ms <= window.expired_time_ms:
            return Reason.PROPOSAL_EXPIRED, (
                "the id is older than the duplicate window, so it cannot be told from a repeat: look its outcome up, and "
                "send a new id if there is none"
            )
    writer = state.writer(proposal.writer_id)
    fenced_below = None if writer is None or proposal.open_writer else writer.epoch
    if fenced_below is not None and (proposal.writer_epoch is None or proposal.writer_epoch < fenced_below):
        return Reason.WRITER_FENCED, (
            f"writer epoch {proposal.writer_epoch} is below {fenced_below}: a newer writer has taken over"
        )
    if proposal.decide_before_ms is not None and decided_at_ms > proposal.decide_before_ms:
        return Reason.TOO_LATE, f"decided at {decided_at_ms} ms, after decide_before_ms {proposal.decide_before_ms}"
    if proposal.base_snapshot_id > state.head_snapshot_id:
        return (
            Reason.BASE_UNKNOWN,
            f"base snapshot {proposal.base_snapshot_id} is beyond the head {state.head_snapshot_id}",
        )
    if 0 <= proposal.base_snapshot_id < state.floor_snapshot_id:
        return Reason.BASE_EXPIRED, (
            f"base snapshot {proposal.base_snapshot_id} is older than {state.floor_snapshot_id}, the oldest one kept: "
            "read again and propose from there"
        )
    return None


def _check_form(state: SequencerState, proposal: Proposal, source: Position, decided_at_ms: int) -> None:
    """Check what a proposal says of itself and its limits."""
    settings = state.settings
    check_name(proposal.writer_id, "writer", settings.name_length_max)
    check_text(proposal.author, "the author")
    check_text(proposal.message, "the message", multiline=True)
    check_text(proposal.extra, "the extra text")
    _not_negative("base_snapshot_id", proposal.base_snapshot_id)
    _check_epoch(state, proposal)
    _not_negative("writer_seq", proposal.writer_seq)
    check_time_ms("created_at_ms", proposal.created_at_ms)
    check_time_ms("decide_before_ms", proposal.decide_before_ms)
    made_at_ms = id_time_ms(proposal.proposal_id)
    if made_at_ms is not None and made_at_ms > decided_at_ms + settings.clock_skew_ms_max:
        raise InvalidChangeError(
            m.InvalidCode.ID_FROM_FUTURE,
            f"the id was made at {made_at_ms} ms, later than the sequencer's {decided_at_ms} ms allows",
        )
    expected = partition_for(proposal.writer_id, state.partitions)
    if source.partition != expected:
        raise InvalidChangeError(
            m.InvalidCode.PARTITION_WRONG,
            f"writer {proposal.writer_id!r} belongs to partition {expected}, not {source.partition}",
        )
    if len(proposal.changes) > settings.changes_max:
        raise InvalidChangeError(
            m.InvalidCode.TOO_MANY_CHANGES, f"{len(proposal.changes)} changes are more than {settings.changes_max}"
        )
    _check_read_form(settings, proposal)


def _not_negative(name: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise InvalidChangeError(m.InvalidCode.NUMBER_NEGATIVE, f"{name} {value} is negative")


def _check_epoch(state: SequencerState, proposal: Proposal) -> None:
    """An epoch is only ever given by the log, to a writer that asked for one with open_writer."""
    _not_negative("writer_epoch", proposal.writer_epoch)
    if proposal.writer_epoch is None:
        return
    writer = state.writer(proposal.writer_id)
    if writer is None or writer.epoch is None or proposal.writer_epoch > writer.epoch:
        raise InvalidChangeError(
            m.InvalidCode.EPOCH_NOT_GIVEN,
            f"writer epoch {proposal.writer_epoch} was never given to writer {quoted(proposal.writer_id)}: ask for one with "
            "open_writer",
        )


def _check_read_form(settings: m.LogSettings, proposal: Proposal) -> None:
    if not proposal.reads:
        return
    if len(proposal.reads) > settings.reads_max:
        raise InvalidChangeError(
            m.InvalidCode.TOO_MANY_READS, f"{len(proposal.reads)} reads are more than {settings.reads_max}"
        )
    for read in proposal.reads:
        check_read_text(read)
        if isinstance(read, m.RowsRead) and len(read.keys) > settings.read_keys_max:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_READ_KEYS,
                f"a read of {len(read.keys)} keys is more than {settings.read_keys_max}",
            )


def _collect_conflicts(plan: Plan, decode_statistics: StatisticsDecoder | None) -> list[m.Conflict]:
    state, base, changes = plan.state, plan.base, plan.proposal.changes
    found: list[m.Conflict] = []
    for footprint in plan.footprints:
        for hit in check_footprint(state, footprint, base):
            attempt = attempt_text(changes[footprint.change])
            found.append(make_conflict(state, hit, attempt=attempt, base_snapshot_id=base, change=footprint.change))
    for index, hit in plan.row_hits:
        attempt = attempt_text(changes[index])
        found.append(make_conflict(state, hit, attempt=attempt, base_snapshot_id=base, change=index))
    if plan.proposal.isolation is m.Isolation.SERIALIZABLE:
        for index, read in enumerate(plan.proposal.reads):
            for hit in find_read_hits(state, read, base, decode_statistics):
                attempt = _read_text(read)
                found.append(make_conflict(state, hit, attempt=attempt, base_snapshot_id=base, read=index))
    return sorted_conflicts(found) if found else found


def _read_text(read: m.Read) -> str:
    match read:
        case m.TableRead():
            return f"commit what was read from table {read.schema}.{read.table}"
        case m.NameRead():
            return f"commit what relied on the name {read.schema}" + (f".{read.name}" if read.name is not None else "")
        case m.RowsRead():
            return f"commit what was read from rows of table {read.schema}.{read.table}"
        case _:
            assert_never(read)


class _Decision:
    """The outcome in the making: what every kind of answer has in common."""

    def __init__(
        self, state: SequencerState, decided_at_ms: int, source: Position, epoch: int, proposal_bytes: bytes | None
    ) -> None:
        self.state = state
        self.decided_at_ms = min(decided_at_ms, _DECIDED_AT_MS_MAX)
        self.source = source
        self.epoch = epoch
        self.proposal_bytes = proposal_bytes

    def malformed(self, proposal: m.MalformedProposal) -> Outcome:
        return self.refused(proposal.proposal_id, proposal.writer_id, Reason.MALFORMED, proposal.detail, None)

    def rejected(
        self, proposal: Proposal, reason: Reason, detail: str, invalid_code: m.InvalidCode | None = None
    ) -> Outcome:
        return self.refused(
            proposal.proposal_id, proposal.writer_id, reason, detail, proposal, invalid_code=invalid_code
        )

    def conflicting(self, proposal: Proposal, conflicts: list[m.Conflict]) -> Outcome:
        others = len(conflicts) - 1
        more = f" (and {others} more conflict{'s' if others > 1 else ''})" if others else ""
        listed = tuple(conflicts[: self.state.settings.conflicts_max])
        return self.refused(
            proposal.proposal_id,
            proposal.writer_id,
            Reason.CONFLICT,
            conflicts[0].detail + more,
            proposal,
            conflicts=listed,
            conflict_count=len(conflicts),
        )

    def refused(
        self,
        proposal_id: m.ProposalId | None,
        writer_id: str | None,
        reason: Reason,
        detail: str,
        proposal: Proposal | None,
        conflicts: tuple[m.Conflict, ...] = (),
        conflict_count: int = 0,
        invalid_code: m.InvalidCode | None = None,
    ) -> Outcome:
        state = self.state
        return Outcome(
            seq=state.next_seq,
            epoch=self.epoch,
            source=self.source,
            decided_at_ms=self.decided_at_ms,
            verdict=Verdict.REJECTED,
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
            content_hash=None if proposal is None or reason is Reason.PROPOSAL_EXPIRED else content_of(proposal),
            proposal=proposal,
            proposal_bytes=self.proposal_bytes,
        )

    def duplicate(self, proposal: Proposal, first: Answer) -> Outcome:
        state = self.state
        return Outcome(
            seq=state.next_seq,
            epoch=self.epoch,
            source=self.source,
            decided_at_ms=self.decided_at_ms,
            verdict=Verdict.DUPLICATE,
            head_snapshot_id=state.head_snapshot_id,
            proposal_id=proposal.proposal_id,
            writer_id=proposal.writer_id,
            assigned=m.Assigned(schema_version=state.schema_version),
            next_catalog_id=state.next_catalog_id,
            next_file_id=state.next_file_id,
            original_seq=first.seq if first is not _FORGOTTEN else None,
            same_content=None
            if first.content_hash is None
            else is_same_content(first.content_hash, content_of(proposal)),
            proposal=proposal,
            proposal_bytes=self.proposal_bytes,
        )

    def committed(self, proposal: Proposal, plan: Plan) -> Outcome:
        state, ids = self.state, plan.ids
        snapshot_id = state.head_snapshot_id + 1
        return Outcome(
            seq=state.next_seq,
            epoch=self.epoch,
            source=self.source,
            decided_at_ms=self.decided_at_ms,
            verdict=Verdict.COMMITTED,
            head_snapshot_id=snapshot_id,
            proposal_id=proposal.proposal_id,
            writer_id=proposal.writer_id,
            snapshot_id=snapshot_id,
            snapshot_time_us=max(self.decided_at_ms * 1000, state.snapshot_time_us + 1),
            resolutions=tuple(plan.resolutions),
            assigned=m.Assigned(
                schema_ids=tuple(ids.schema_ids),
                table_ids=tuple(ids.table_ids),
                view_ids=tuple(ids.view_ids),
                partition_ids=tuple(ids.partition_ids),
                column_ids=tuple(ids.column_ids),
                mapping_ids=tuple(ids.mapping_ids),
                data_file_ids=tuple(ids.data_file_ids),
                delete_file_ids=tuple(ids.delete_file_ids),
                row_id_starts=tuple(ids.row_id_starts),
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

    def _opened_epoch(self, proposal: Proposal) -> int:
        writer = self.state.writer(proposal.writer_id)
        return 1 if writer is None or writer.epoch is None else writer.epoch + 1


def receipt_for(state: SequencerState, outcome: Outcome) -> m.Receipt:
    """The receipt of an outcome that ``state`` has replayed; for a DUPLICATE with the first answer, if it is remembered."""
    first: Answer | None = None
    if outcome.verdict is Verdict.DUPLICATE and outcome.proposal is not None:
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
        assigned=outcome.assigned,
        decided_at_ms=outcome.decided_at_ms,
        original_seq=outcome.original_seq,
        same_content=outcome.same_content,
        answered_verdict=None if first is None else first.verdict,
        answered_snapshot_id=None if first is None else first.snapshot_id,
        answered_reason=None if first is None else first.reason,
        answered_detail=None if first is None else first.detail,
    )
