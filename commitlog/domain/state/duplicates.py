"""What is remembered of proposal ids for a while, packed: millions of them, at tens of thousands a second.

An id costs its 16 bytes and some 60 of its answer, as two values in a dict and a place in a queue; the answer is unpacked
for who repeats his proposal. What a refusal said is kept beside it.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate
from struct import Struct
from typing import Final

from commitlog.domain.model import ProposalId, Reason, Verdict

_PACKED = Struct("<qqqqqqBB")
"""The partition's outcomes with it, when it was decided, seq, snapshot, content hash, the writer's number, verdict, reason."""
_ID_SIZE: Final = 16
_VERDICTS = tuple(Verdict)
_REASONS = (None, *Reason)
_VERDICT_CODES = {verdict: code for code, verdict in enumerate(_VERDICTS)}
_REASON_CODES = {reason: code for code, reason in enumerate(_REASONS)}
_HASHED: Final = 0x80
"""Beside the verdict: there is a content hash."""
_FROM_FUTURE: Final = 0x80
"""Beside the reason: the id was made later than the log took any by then."""
_NONE: Final = -1


class Answer:
    """The first answer to a proposal id, to repeat; ``content_hash`` of what it asked for."""

    __slots__ = ("content_hash", "detail", "reason", "seq", "snapshot_id", "verdict")

    def __init__(
        self,
        seq: int,
        verdict: Verdict,
        snapshot_id: int | None,
        reason: Reason | None,
        detail: str | None,
        content_hash: int | None,
    ) -> None:
        self.seq = seq
        self.verdict = verdict
        self.snapshot_id = snapshot_id
        self.reason = reason
        self.detail = detail
        self.content_hash = content_hash


class RememberedId:
    """An id in the duplicate window of its partition, with its answer.

    writer_seq: None unless it committed by one. number: how many outcomes of the partition there were with its own.
    is_from_future: it was refused, and made later than the log took any by then.
    """

    __slots__ = ("answer", "decided_at_ms", "is_from_future", "number", "proposal_id", "writer_id", "writer_seq")

    def __init__(
        self,
        proposal_id: ProposalId,
        writer_id: str,
        writer_seq: int | None,
        decided_at_ms: int,
        number: int,
        answer: Answer,
        is_from_future: bool,
    ) -> None:
        self.proposal_id = proposal_id
        self.writer_id = writer_id
        self.writer_seq = writer_seq
        self.decided_at_ms = decided_at_ms
        self.number = number
        self.answer = answer
        self.is_from_future = is_from_future


class DuplicateWindow:
    """The ids of one proposals partition that can still be told from new ones.

    outcomes: how many the partition had. expired_time_ms: the newest time in an id that has left the window, -1 if none; an
    id that is not later cannot be told from a repeat. newest_id: of the partition's newest outcome, in the window or not; None
    if it was of something that is no proposal.
    """

    __slots__ = (
        "_details",
        "_ids",
        "_oldest_at_ms",
        "_oldest_number",
        "_packed",
        "expired_time_ms",
        "newest_id",
        "outcomes",
    )

    def __init__(self, outcomes: int = 0, expired_time_ms: int = -1, newest_id: ProposalId | None = None) -> None:
        self.outcomes = outcomes
        self.expired_time_ms = expired_time_ms
        self.newest_id = newest_id
        self._ids: deque[ProposalId] = deque()
        self._packed: dict[ProposalId, bytes] = {}
        self._details: dict[ProposalId, str] = {}
        self._oldest_number = self._oldest_at_ms = 0

    def remember(
        self,
        proposal_id: ProposalId,
        writer_id: str,
        writer_seq: int | None,
        decided_at_ms: int,
        answer: Answer,
        is_from_future: bool,
    ) -> None:
        """Keep the answer to the partition's newest outcome; see `RememberedId`."""
        verdict, content_hash = _VERDICT_CODES[answer.verdict], answer.content_hash
        packed = _PACKED.pack(
            self.outcomes,
            decided_at_ms,
            answer.seq,
            _NONE if answer.snapshot_id is None else answer.snapshot_id,
            0 if content_hash is None else content_hash,
            _NONE if writer_seq is None else writer_seq,
            verdict if content_hash is None else verdict | _HASHED,
            _REASON_CODES[answer.reason] | (_FROM_FUTURE if is_from_future else 0),
        )
        self._packed[proposal_id] = packed + writer_id.encode("utf-8", "surrogatepass")
        if answer.detail is not None:
            self._details[proposal_id] = answer.detail
        self._ids.append(proposal_id)
        if len(self._ids) == 1:
            self._find_oldest()

    def answer(self, proposal_id: ProposalId) -> Answer | None:
        """The first answer to an id, None when it is not in the window."""
        return self._unpacked(proposal_id).answer if proposal_id in self._packed else None

    def forget_oldest(self, outcomes: int, before_ms: int) -> RememberedId | None:
        """Let the oldest id go if more than so many outcomes came since and it was decided before a time; None if not."""
        if not self._ids or self.outcomes - self._oldest_number <= outcomes or self._oldest_at_ms >= before_ms:
            return None
        oldest = self._unpacked(self._ids.popleft())
        del self._packed[oldest.proposal_id]
        self._details.pop(oldest.proposal_id, None)
        self._find_oldest()
        return oldest

    def remembered(self) -> Iterator[RememberedId]:
        """All of them, oldest first."""
        for proposal_id in self._ids:
            yield self._unpacked(proposal_id)

    def dump(self) -> list[object]:
        """What it remembers as few plain values."""
        packed = [self._packed[each] for each in self._ids]
        lengths = array("I", [len(each) for each in packed])
        return [
            b"".join(self._ids),
            lengths.tobytes(),
            b"".join(packed),
            [list(each) for each in self._details.items()],
        ]

    def load(self, ids: bytes, lengths: bytes, packed: bytes, details: Iterable[tuple[bytes, str]]) -> None:
        """Take what ``dump`` gave into an empty window."""
        self._ids.extend([ids[at : at + _ID_SIZE] for at in range(0, len(ids), _ID_SIZE)])
        ends = list(accumulate(array("I", lengths), initial=0))
        self._packed = {each: packed[ends[at] : ends[at + 1]] for at, each in enumerate(self._ids)}
        self._details = dict(details)
        self._find_oldest()

    def _find_oldest(self) -> None:
        if self._ids:
            fields = _PACKED.unpack_from(self._packed[self._ids[0]])
            self._oldest_number, self._oldest_at_ms = fields[0], fields[1]

    def _unpacked(self, proposal_id: ProposalId) -> RememberedId:
        packed = self._packed[proposal_id]
        number, decided_at_ms, seq, snapshot_id, content_hash, writer_seq, verdict, reason = _PACKED.unpack_from(packed)
        answer = Answer(
            seq,
            _VERDICTS[verdict & ~_HASHED],
            None if snapshot_id == _NONE else snapshot_id,
            _REASONS[reason & ~_FROM_FUTURE],
            self._details.get(proposal_id),
            content_hash if verdict & _HASHED else None,
        )
        writer_id = packed[_PACKED.size :].decode("utf-8", "surrogatepass")
        given_seq = None if writer_seq == _NONE else writer_seq
        is_from_future = bool(reason & _FROM_FUTURE)
        return RememberedId(proposal_id, writer_id, given_seq, decided_at_ms, number, answer, is_from_future)
