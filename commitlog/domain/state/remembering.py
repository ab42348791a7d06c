"""What the state keeps of answers, so that they can be repeated, and of writers (rules.md 2, 12.8, 12.9, 12.35)."""

from __future__ import annotations

from pyroaring import BitMap64

from commitlog.domain.model import Outcome, Proposal, Reason, Verdict
from commitlog.domain.model.ids import id_time_ms
from commitlog.domain.state.duplicates import Answer, DuplicateWindow
from commitlog.domain.state.index import SequencerState, WriterState

_UNANSWERED = frozenset({Reason.MALFORMED, Reason.PROPOSAL_EXPIRED})


def give_epoch(state: SequencerState, outcome: Outcome, proposal: Proposal) -> None:
    """An epoch is only ever given by the log."""
    if outcome.assigned.writer_epoch is not None:
        state.writers.setdefault(proposal.writer_id, WriterState()).epoch = outcome.assigned.writer_epoch


def remember_answer(state: SequencerState, outcome: Outcome) -> None:
    """Keep the answer for repeats, and let ids leave the window when enough outcomes *and* time have passed."""
    partition = outcome.source.partition
    window = state.duplicates.get(partition)
    if window is None:
        window = state.duplicates[partition] = DuplicateWindow()
    proposal = outcome.proposal
    window.outcomes += 1
    window.newest_id = None if proposal is None else proposal.proposal_id
    if proposal is not None and outcome.verdict is not Verdict.DUPLICATE and outcome.reason not in _UNANSWERED:
        answer = Answer(
            outcome.seq, outcome.verdict, outcome.snapshot_id, outcome.reason, outcome.detail, outcome.content_hash
        )
        writer_seq = proposal.writer_seq if outcome.verdict is Verdict.COMMITTED else None
        at_ms = outcome.decided_at_ms
        # By what is taken now: the setting may be another one when the id leaves the window.
        latest_ms = at_ms + state.settings.clock_skew_ms_max
        is_from_future = outcome.verdict is Verdict.REJECTED and (id_time_ms(proposal.proposal_id) or 0) > latest_ms
        window.remember(proposal.proposal_id, proposal.writer_id, writer_seq, at_ms, answer, is_from_future)
        if writer_seq is not None:
            writer = state.writers.setdefault(proposal.writer_id, WriterState())
            if writer.committed_seqs is None:
                writer.committed_seqs = BitMap64()
            writer.committed_seqs.add(writer_seq)
            writer.answers[writer_seq] = answer
    _expire_answers(state, window, outcome.decided_at_ms)


def _expire_answers(state: SequencerState, window: DuplicateWindow, now_ms: int) -> None:
    settings = state.settings
    outcomes, before_ms = settings.duplicate_window_outcomes, now_ms - settings.duplicate_window_ms
    while (oldest := window.forget_oldest(outcomes, before_ms)) is not None:
        if oldest.writer_seq is not None:
            state.writers[oldest.writer_id].answers.pop(oldest.writer_seq, None)
        # The time of one from the future must not shut out the honest ids before it.
        made_at_ms = id_time_ms(oldest.proposal_id)
        if made_at_ms is not None and not oldest.is_from_future:
            window.expired_time_ms = max(window.expired_time_ms, made_at_ms)
