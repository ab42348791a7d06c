"""Proposals that people have written into a file, one a line of JSON, on their way into a log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from commitlog.client.ids import new_proposal_id
from commitlog.domain.model import MalformedProposal, Proposal
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.json_lines import is_blank, parse_proposal
from commitlog.domain.model.malformed import too_large
from commitlog.domain.model.values import BIGINT_MIN
from commitlog.errors import InvalidRequestError, MalformedRecordError, ProposalTooLargeError

if TYPE_CHECKING:
    from commitlog.client.commit_log import CommitLog
    from commitlog.client.submitting import Answer

_UNBASED = BIGINT_MIN
"""What stands for the base of a line that names none."""


class ProposalLines:
    """The proposals of a file up to the first line that cannot be sent, which must not cost the answers to those before.

    A line without ``proposal_id`` gets a new one, so that the same line sent again is another proposal. A line without
    ``base_snapshot_id`` is sent when all before it are answered, with the newest snapshot as its base.
    """

    def __init__(self, lines: Iterable[bytes | str]) -> None:
        self._lines = lines
        self._unanswered: deque[int] = deque()
        """The numbers of the lines that were read."""
        self.problem: MalformedRecordError | None = None
        """What is wrong with the line at which sending has ended."""

    def submitted_to(self, log: CommitLog, *, timeout_ms: int | None) -> Iterator[Answer]:
        """Send them and yield their answers, in order."""
        try:
            for answer in self._answers(log, timeout_ms):
                self._unanswered.popleft()
                yield answer
        except ProposalTooLargeError as error:
            self._end_at(self._unanswered[0], too_large(error.size_bytes, error.limit_bytes))
        except (MalformedRecordError, InvalidRequestError) as error:
            self._end_at(self._unanswered[0], str(error))

    def _answers(self, log: CommitLog, timeout_ms: int | None) -> Iterator[Answer]:
        for is_based, proposals in groupby(self._read(), key=lambda each: each.base_snapshot_id != _UNBASED):
            if is_based:
                yield from log.publish_many(proposals, timeout_ms=timeout_ms)
                continue
            for proposal in proposals:
                based = proposal.replace(base_snapshot_id=log.head_snapshot_id())
                yield from log.publish_many([based], timeout_ms=timeout_ms)

    def _read(self) -> Iterator[Proposal]:
        for number, line in enumerate(self._lines, 1):
            if is_blank(line):
                continue
            missing = {"proposal_id": format_id(new_proposal_id()), "base_snapshot_id": _UNBASED}
            proposal = parse_proposal(line, missing)
            if isinstance(proposal, MalformedProposal):
                self._end_at(number, proposal.detail)
                return
            self._unanswered.append(number)
            yield proposal

    def _end_at(self, number: int, detail: str) -> None:
        self.problem = MalformedRecordError(f"line {number}: {detail}; it and the lines after it were not sent")
