"""In which order proposals are sent and answers waited for, what is answered, and how often an append is tried."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from commitlog.client.access.log_access import LogAccess, OutcomeState
from commitlog.client.attempts import Appended, AttemptedLog, append_at_known
from commitlog.client.ids import new_proposal_id
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.submitting import Submissions
from commitlog.client.tables.table_at import KnownTable, TableAt
from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    KeyReusedError,
    OutcomeUnknownError,
    ProposalRejectedError,
    WriterBusyError,
)

KNOWN = KnownTable(4, TableAt(TableDefinition(7, 1, "t", (), 1), "/lake/main/t/"))


def numbered(writer_id: str, seq: int | None) -> m.Proposal:
    return m.Proposal(new_proposal_id(), writer_id, 0, (), writer_seq=seq)


class PlayedAnswer:
    """A proposal on its way, answered as soon as somebody waits for it, or only when it is told to be."""

    def __init__(self, access: PlayedAccess, proposal: m.Proposal) -> None:
        self._access = access
        self._proposal = proposal
        self._tell: Callable[[Any], None] | None = None

    def wait(self, timeout_s: float | None = None) -> m.Receipt:
        if not self._access.answers:
            raise OutcomeUnknownError(UUID(bytes=self._proposal.proposal_id))
        self._access.seen.append(f"answered {_name(self._proposal)}")
        place, own_id, reason = m.Position(0, 0), self._proposal.proposal_id, self._access.reason
        verdict = m.Verdict.COMMITTED if reason is None else m.Verdict.REJECTED
        return m.Receipt(place, 1, own_id, verdict, None, 9, reason, None, m.Assigned(), 0)

    def on_answer(self, tell: Callable[[Any], None], timeout_s: float | None = None) -> None:
        self._tell = tell

    def come(self) -> None:
        self._access.answers = True
        assert self._tell is not None
        self._tell(self)

    def forget(self) -> None: ...


class PlayedAccess:
    """Notes what is sent."""

    settings = m.LogSettings()

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.reason: m.Reason | None = None
        self.found: m.Outcome | CommitLogError | None = None
        self.seen: list[str] = []
        self.sent: list[PlayedAnswer] = []

    def send(self, proposal: m.Proposal, *_: object, **__: object) -> PlayedAnswer:
        self.seen.append(f"sent {_name(proposal)}")
        self.sent.append(PlayedAnswer(self, proposal))
        return self.sent[-1]

    def hear(self, _: m.Receipt) -> None: ...

    def find(self, _: bytes) -> SimpleNamespace:
        if isinstance(self.found, CommitLogError):
            raise self.found
        return SimpleNamespace(state=OutcomeState.UNDECIDED, outcome=self.found)


def _name(proposal: m.Proposal) -> str:
    return f"{proposal.writer_id}{'' if proposal.writer_seq is None else proposal.writer_seq}"


def submissions(access: PlayedAccess) -> Submissions:
    return Submissions(cast(LogAccess, access), lambda _: None)


def test_submit_when_the_writers_number_before_is_unanswered_then_the_next_is_not_sent() -> None:
    access = PlayedAccess(answers=False)
    made = submissions(access)
    first = made.submit_async(numbered("w", 1), 60)
    for submit in (made.submit, made.submit_async):
        with pytest.raises(WriterBusyError):
            submit(numbered("w", 2), 0)
    assert access.seen == ["sent w1"]
    access.sent[0].come()
    assert first.result(0).committed
    assert made.submit(numbered("w", 2), 0).committed
    assert access.seen[2:] == ["sent w2", "answered w2"]


def test_publish_many_when_a_writer_has_numbers_then_each_waits_for_the_one_before_and_others_go_on() -> None:
    access = PlayedAccess(answers=True)
    proposals = [numbered(*each) for each in (("w", 1), ("v", 1), ("w", None), ("u", None), ("w", 2), ("v", 2))]
    assert len(list(submissions(access).publish_many(proposals, 10, 60))) == len(proposals)
    assert access.seen == [
        *("sent w1", "sent v1", "sent w", "sent u"),
        *("answered w1", "sent w2", "answered v1", "sent v2"),
        *("answered w", "answered u", "answered w2", "answered v2"),
    ]


def test_publish_many_when_so_many_are_on_their_way_then_one_is_answered_before_the_next_is_sent() -> None:
    access = PlayedAccess(answers=True)
    list(submissions(access).publish_many([numbered(name, None) for name in "abc"], 2, 60))
    assert access.seen == ["sent a", "sent b", "answered a", "sent c", "answered b", "answered c"]


def decided(proposal: m.Proposal, reason: m.Reason | None) -> m.Outcome:
    """What the catalog has of a proposal."""
    verdict, snapshot_id = (m.Verdict.COMMITTED, 7) if reason is None else (m.Verdict.REJECTED, None)
    outcome = m.Outcome(8, 1, m.Position(0, 0), 1, verdict, 7, proposal.proposal_id, proposal.writer_id)
    return outcome.replace(snapshot_id=snapshot_id, reason=reason, proposal=proposal)


def test_submit_when_the_log_has_forgotten_what_it_decided_of_an_id_then_the_answer_is_the_catalogs() -> None:
    access = PlayedAccess(answers=True)
    access.reason = m.Reason.PROPOSAL_EXPIRED
    made, proposal = submissions(access), numbered("w", None)
    for found in (None, decided(proposal, m.Reason.PROPOSAL_EXPIRED)):
        access.found = found
        answer = made.submit(proposal, 60)
        assert (answer.reason, answer.is_repeat) == (m.Reason.PROPOSAL_EXPIRED, False)
    access.found = decided(proposal, None)
    answer = made.submit(proposal, 60)
    assert (answer.committed, answer.snapshot_id, answer.is_repeat) == (True, 7, True)
    access.found = decided(proposal, m.Reason.CONFLICT)
    answer = made.submit(proposal, 60)
    assert (answer.reason, answer.is_repeat) == (m.Reason.CONFLICT, True)
    another = proposal.replace(changes=(m.DropTable("main", "t"),))
    access.found = decided(another, None)
    with pytest.raises(KeyReusedError, match="only the first has drop table"):
        made.submit(proposal, 60)
    access.found = CatalogUnavailableError("postgresql://here")
    with pytest.raises(OutcomeUnknownError):
        made.submit(proposal, 60)


class PlayedLog:
    """Answers commits in turn: with a reason to refuse them, or None."""

    def __init__(self, *reasons: m.Reason | None) -> None:
        self._reasons = list(reasons)
        self.bases: list[int | None] = []

    def transaction(self, base_snapshot_id: int | None = None, **_: object) -> SimpleNamespace:
        self.bases.append(base_snapshot_id)
        return SimpleNamespace(changes=(1,), commit=self._commit, discard=lambda: None)

    def _commit(self) -> SubmittedOutcome:
        reason = self._reasons.pop(0)
        verdict = m.Verdict.COMMITTED if reason is None else m.Verdict.REJECTED
        answer = SubmittedOutcome(UUID(int=1), verdict, None, 9, reason, "", (), m.Assigned(), 1, 1)
        if reason is not None:
            raise ProposalRejectedError(answer)
        return answer

    def see(self, snapshot_id: int | None) -> None:
        assert snapshot_id == 9


@pytest.mark.parametrize(
    ("attempts", "reasons"),
    [
        (1, [m.Reason.CONFLICT]),
        (2, [m.Reason.CONFLICT, None]),
        (2, [m.Reason.BASE_EXPIRED, m.Reason.CONFLICT]),
        (3, [m.Reason.CONFLICT, m.Reason.CONFLICT, None]),
        (3, [m.Reason.INVALID]),
        (3, [m.Reason.CONFLICT, m.Reason.INVALID]),
    ],
)
def test_append_when_the_known_table_has_changed_then_is_tried_as_often_as_is_said(
    attempts: int, reasons: list[m.Reason | None]
) -> None:
    log = PlayedLog(*reasons)
    appended = cast(Appended, SimpleNamespace(put=lambda _: None, is_written=False))

    def append() -> SubmittedOutcome | None:
        return append_at_known(cast(AttemptedLog, log), KNOWN, appended, attempts, {})

    if reasons[-1] is None:
        assert append() is not None
    else:
        with pytest.raises(ProposalRejectedError, match=reasons[-1]):
            append()
    assert log.bases == [KNOWN.snapshot_id, *[None] * (len(reasons) - 1)]
