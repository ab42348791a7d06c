"""Which files of a write stay, whatever the answer to its proposal is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.domain import model as m
from commitlog.errors import (
    CommitLogError,
    KeyReusedError,
    LogUnavailableError,
    OutcomeUnknownError,
    ProposalRejectedError,
    ProposalTooLargeError,
    WriterBusyError,
)
from commitlog.spark.writing.publish import commit

FIRST = m.Proposal(bytes(16), "w", 0, (m.Append("MAIN", "T", (m.DataFile("a.parquet", 1, 1),)),))


def answer(reason: m.Reason | None = None, **more: Any) -> SubmittedOutcome:
    verdict = m.Verdict.COMMITTED if reason is None else m.Verdict.REJECTED
    return SubmittedOutcome(UUID(int=1), verdict, None, 1, reason, "", (), m.Assigned(), 1, 1, **more)


@pytest.mark.parametrize(
    ("answered", "is_proposed_again", "staying"),
    [
        (answer(), False, "ab"),
        (answer(is_repeat=True, first=FIRST), False, "a"),
        (answer(is_repeat=True), False, "ab"),
        (OutcomeUnknownError(UUID(int=1)), False, "ab"),
        (ProposalTooLargeError(2, 1), True, ""),
        (WriterBusyError("load", UUID(int=1)), True, ""),
        (LogUnavailableError("kafka:9092"), False, ""),
        (ProposalRejectedError(answer(m.Reason.CONFLICT)), False, ""),
        (ProposalRejectedError(answer(m.Reason.CONFLICT)), True, "ab"),
        (ProposalRejectedError(answer(m.Reason.WRITER_FENCED)), False, ""),
        (KeyReusedError(bytes(16), "k", ["rows"], first=FIRST), False, "a"),
        (KeyReusedError(bytes(16), "k", ["rows"]), False, "ab"),
    ],
)
def test_files_when_a_proposal_is_answered_then_those_stay_that_may_be_committed(
    tmp_path: Path, answered: SubmittedOutcome | Exception, is_proposed_again: bool, staying: str
) -> None:
    files = [tmp_path / f"{name}.parquet" for name in "ab"]
    for file in files:
        file.touch()

    def committing() -> SubmittedOutcome:
        if isinstance(answered, Exception):
            raise answered
        return answered

    tables = {"main.t": f"{tmp_path}/"}
    with suppress(CommitLogError):
        commit(SimpleNamespace(commit=committing), [*map(str, files)], tables, stay_when=lambda _: is_proposed_again)
    assert "".join(file.stem for file in files if file.exists()) == staying
