"""What the state keeps of answers, so that they can be repeated, and of writers (rules.md 2, 12.8, 12.9, 12.35)."""

from __future__ import annotations

from pyroaring import BitMap64

from commitlog.domain.model import Outcome, Proposal, Reason, Verdict
from commitlog.domain.model.ids import id_time_ms
from commitlog.domain.state.index import Answer, DuplicateWindow, RecentId, SequencerState, WriterState

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
    window.outcomes += 1
    proposal = outcome.proposal
    if proposal is not None and outcome.verdict is not Verdict.DUPLICATE and outcome.reason not in _UNANSWERED:
        answer = Answer(
            outcome.seq, outcome.verdict, outcome.snapshot_id, outcome.reason, outcome.detail, outcome.content_hash
        )
        window.answers[proposal.proposal_id] = answer
        committed = outcome.verdict is Verdict.COMMITTED and proposal.writer_seq is not None
        writer_seq = proposal.writer_seq if committed else None
        window.recent.append(
            RecentId(proposal.proposal_id, proposal.writer_id, writer_seq, outcome.decided_at_ms, window.outcomes)
        )
        if writer_seq is not None:
            writer = state.writers.setdefault(proposal.writer_id, WriterState())
            if writer.committed_seqs is None:
                writer.committed_seqs = BitMap64()
            writer.committed_seqs.add(writer_seq)
            writer.answers[writer_seq] = answer
    _expire_answers(state, window, outcome.decided_at_ms)


def _expire_answers(state: SequencerState, window: DuplicateWindow, now_ms: int) -> None:
    settings = state.settings
    recent = window.recent
    while (
        recent
        and window.outcomes - recent[0].number > settings.duplicate_window_outcomes
        and now_ms - recent[0].decided_at_ms > settings.duplicate_window_ms
    ):
        oldest = recent.popleft()
        del window.answers[oldest.proposal_id]
        if oldest.writer_seq is not None:
            state.writers[oldest.writer_id].answers.pop(oldest.writer_seq, None)
        # An id from beyond the skew was refused for that; its time must not shut out the honest ids before it.
        made_at_ms = id_time_ms(oldest.proposal_id)
        if made_at_ms is not None and made_at_ms <= oldest.decided_at_ms + settings.clock_skew_ms_max:
            window.expired_time_ms = max(window.expired_time_ms, made_at_ms)
