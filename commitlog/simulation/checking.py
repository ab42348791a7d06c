"""What must hold, on a model of its own that follows every record as it is written.

The model knows which outcomes count by the plain rule of docs/reading-results.md, not by `Chain`; what was proposed, told
and read it has seen itself. What breaks a promise is a `ViolationError`, in the moment in which it happens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from commitlog.catalog.written import AppliedPosition
from commitlog.domain import model as m
from commitlog.errors import MalformedRecordError
from commitlog.log import codec
from commitlog.log.topics import Topics
from commitlog.simulation.serializing import cycle_in

_ANSWERED_ONCE = frozenset({m.Reason.MALFORMED, m.Reason.INTERNAL, m.Reason.PROPOSAL_EXPIRED})
"""Refusals that decide nothing of an id: it may come again."""


class ViolationError(AssertionError):
    """What must never happen has happened."""


def require(holds: bool, what: str, *details: object) -> None:
    """Raises ViolationError unless it holds."""
    if not holds:
        raise ViolationError(f"{what}: {', '.join(str(each) for each in details)}" if details else what)


class Accepted(NamedTuple):
    """An outcome that counts."""

    outcome: m.Outcome
    hash: bytes
    offset: int
    told: int


@dataclass(slots=True)
class _Chain:
    epoch: int = 0
    hash: bytes = b""


@dataclass(slots=True)
class Model:
    """A log as it must be.

    Attributes:
        genesis: its first record.
        topics: its topics.
        accepted: the outcomes that count; seq 1 is the first of them.
        first_of: by proposal, the seq of the outcome that decided it.
        receipted: the outcomes that a receipt tells of.
        noted_seq: the first outcome that stays, by what was noted to be trimmed; 0 where nothing was.
    """

    genesis: m.Genesis
    topics: Topics
    accepted: list[Accepted] = field(default_factory=list)
    first_of: dict[m.ProposalId, int] = field(default_factory=dict)
    receipted: set[int] = field(default_factory=set)
    noted_seq: int = 0
    head: int = 0
    next_offsets: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _proposals: dict[m.Position, bytes | None] = field(default_factory=dict)
    _committed_seqs: dict[tuple[str, int], int] = field(default_factory=dict)
    _dead_letters: set[int] = field(default_factory=set)
    _learned: dict[m.ProposalId, tuple[object, ...]] = field(default_factory=dict)
    _places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    _furthest: list[int] = field(default_factory=list)
    _projected: int = 0
    _read: dict[str, int] = field(default_factory=dict)
    _trimmed: int = 0
    _chain: _Chain = field(default_factory=_Chain)

    # --- what is written ----------------------------------------------------------------------------------------------

    def written(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Follows a record."""
        if topic == self.topics.proposals:
            self._proposals[m.Position(partition, offset)] = value
            self._arrived(value or b"")
        elif topic == self.topics.results:
            self._result(offset, value or b"")
        elif topic == self.topics.receipts:
            for receipt in codec.decode_receipts(value or b"").receipts:
                self._receipt(partition, receipt)
        elif topic == self.topics.trims:
            self._noted(codec.decode_trim(value or b""))
        elif topic == self.topics.dead_letters:
            self._dead_letter(codec.decode_dead_letter(value or b""))
        else:
            self._heartbeat(codec.decode_heartbeat(value or b""))

    def sent_in_order(self, encoded: Sequence[bytes]) -> None:
        """A thread sends these proposals one after another."""
        self._places |= {each: (len(self._furthest), place) for place, each in enumerate(encoded)}
        self._furthest.append(-1)

    def has_no_order(self, encoded: bytes | None) -> None:
        """It is sent again, or something befell it: it may arrive whenever it does."""
        self._places.pop(encoded or b"", None)

    def _arrived(self, encoded: bytes) -> None:
        thread, place = self._places.pop(encoded, (-1, 0))
        if thread >= 0:
            require(place > self._furthest[thread], "proposals came in another order than a thread sent them", place)
            self._furthest[thread] = place

    def trimmed(self, topic: str, partition: int, first: int) -> None:
        """Proposals go only when their answers are told for good, results when that was noted."""
        if topic == self.topics.results:
            require(first <= self._trimmed, "results were trimmed beyond what was noted", first, self._trimmed)
        if topic == self.topics.proposals:
            told = self.accepted[-1].told if self.accepted else 0
            decided = [each.outcome.source for each in self.accepted[:told]]
            kept = max((source.offset + 1 for source in decided if source.partition == partition), default=0)
            require(first <= kept, "proposals were trimmed before they were told", partition, first, kept)

    def _result(self, offset: int, raw: bytes) -> None:
        if offset == 0:
            self._chain.hash = codec.hash_record(raw)
            return
        try:
            record = codec.decode_record(raw)
        except MalformedRecordError:
            return
        if isinstance(record, codec.Takeover):
            if record.epoch == self._chain.epoch + 1:
                self._chain = _Chain(record.epoch, codec.hash_record(self._chain.hash + raw))
        elif isinstance(record, codec.OutcomeRecord):
            outcome = record.outcome
            if (outcome.epoch, outcome.seq) == (self._chain.epoch, len(self.accepted) + 1):
                require(record.prev_hash == self._chain.hash, "two histories", outcome.seq)
                self._chain.hash = codec.hash_record(raw)
                self._accept(Accepted(outcome, self._chain.hash, offset, record.told))

    def _accept(self, accepted: Accepted) -> None:
        outcome, source = accepted.outcome, accepted.outcome.source
        require(source in self._proposals, "an outcome of what nobody proposed", outcome.seq, source)
        expected = self.next_offsets[source.partition]
        require(source.offset == expected, "not the next proposal of its partition", outcome.seq, source, expected)
        self.next_offsets[source.partition] += 1
        untold = [seq for seq in range(1, accepted.told + 1) if seq not in self.receipted]
        require(not untold, "said to be told, and it is not", outcome.seq, untold)
        if self.accepted:
            last = self.accepted[-1]
            require(outcome.decided_at_ms >= last.outcome.decided_at_ms, "the time of decisions goes back", outcome.seq)
            require(accepted.told >= last.told, "less is told than before", outcome.seq)
        self._check_verdict(outcome)
        self.accepted.append(accepted)

    def _check_verdict(self, outcome: m.Outcome) -> None:
        made = [outcome.snapshot_id] if outcome.verdict is m.Verdict.COMMITTED else []
        require(made in ([], [self.head + 1]), "snapshot ids are not dense", outcome.seq, made, self.head)
        require((outcome.snapshot_id is not None) == bool(made), "a snapshot of what did not commit", outcome.seq)
        self.head += len(made)
        require(outcome.head_snapshot_id == self.head, "another head", outcome.seq, outcome.head_snapshot_id, self.head)
        require(outcome.reason is not m.Reason.INTERNAL, "a defect", outcome.seq, outcome.detail)
        if outcome.verdict is m.Verdict.DUPLICATE or outcome.reason in _ANSWERED_ONCE or outcome.proposal_id is None:
            return
        before = self.first_of.setdefault(outcome.proposal_id, outcome.seq)
        require(before == outcome.seq, "a proposal was decided twice", before, outcome.seq)
        proposal = outcome.proposal
        assert proposal is not None
        if made and proposal.writer_seq is not None:
            key = proposal.writer_id, proposal.writer_seq
            require(key not in self._committed_seqs, "a writer's number has committed twice", outcome.seq, key)
            self._committed_seqs[key] = outcome.seq

    # --- what is told -------------------------------------------------------------------------------------------------

    def _receipt(self, partition: int, receipt: m.Receipt) -> None:
        require(receipt.seq <= len(self.accepted), "told before it was accepted", receipt.seq, len(self.accepted))
        told = self.accepted[receipt.seq - 1].outcome
        for name in ("source", "proposal_id", "verdict", "snapshot_id", "head_snapshot_id", "reason", "decided_at_ms"):
            found, expected = getattr(receipt, name), getattr(told, name)
            require(found == expected, "told otherwise than decided", receipt.seq, name, found, expected)
        require(partition == told.source.partition, "told in another partition", receipt.seq)
        self.receipted.add(receipt.seq)

    def _dead_letter(self, letter: codec.DeadLetter) -> None:
        require(letter.seq <= len(self.accepted), "a dead letter before it was accepted", letter.seq)
        source = self.accepted[letter.seq - 1].outcome.source
        require((letter.partition, letter.offset) == source, "a dead letter of another proposal", letter.seq)
        require(letter.value == self._proposals[source], "a dead letter with other bytes", letter.seq)
        self._dead_letters.add(letter.seq)

    def _noted(self, trim: codec.Trim) -> None:
        """What is trimmed is in the log, and needed by nobody."""
        kept = self.accepted[trim.seq - 1]
        require((trim.hash, trim.results_offset) == (kept.hash, kept.offset), "another place was noted", trim.seq)
        needed = min(self._projected, *self._read.values())
        require(trim.seq <= needed, "what somebody needs was trimmed", trim.seq, needed)
        self._trimmed = max(self._trimmed, trim.results_offset)
        self.noted_seq = max(self.noted_seq, trim.seq)

    def _heartbeat(self, heartbeat: codec.Heartbeat) -> None:
        require(heartbeat.seq <= len(self.accepted), "a heartbeat tells of what was not accepted", heartbeat.seq)

    def learned(self, proposal: m.Proposal, receipt: m.Receipt) -> None:
        """A writer has got this answer."""
        given: tuple[object, ...] = (receipt.verdict, receipt.snapshot_id, receipt.reason)
        seq = receipt.seq
        if receipt.verdict is m.Verdict.DUPLICATE:
            first = self._first_of(proposal)
            require(first is not None and first <= len(self.accepted), "a duplicate of nothing", seq)
            assert first is not None
            seq = first
            given = receipt.answered_verdict, receipt.answered_snapshot_id, receipt.answered_reason
        require(seq <= len(self.accepted), "a writer has learned what was not accepted", seq)
        decided = self.accepted[seq - 1].outcome
        is_own = decided.proposal_id == proposal.proposal_id or proposal.writer_seq is not None
        require(is_own and decided.writer_id == proposal.writer_id, "a writer has learned another's answer", seq)
        answer = (decided.verdict, decided.snapshot_id, decided.reason)
        require(given == answer, "a writer has learned another answer", seq, given, answer)
        known = self._learned.setdefault(proposal.proposal_id, answer)
        require(known == answer, "a writer has learned two answers", seq, known, answer)

    def _first_of(self, proposal: m.Proposal) -> int | None:
        """The outcome that a repeat is a repeat of."""
        seq = self.first_of.get(proposal.proposal_id)
        if seq is None and proposal.writer_seq is not None:
            seq = self._committed_seqs.get((proposal.writer_id, proposal.writer_seq))
        return seq

    def read(self, name: str, count: int, outcome: m.Outcome) -> None:
        """A subscriber that has read so many outcomes before is given this one."""
        require(outcome.seq == count + 1, "a subscriber has missed or repeated an outcome", name, count, outcome.seq)
        self._read[name] = outcome.seq
        require(outcome.seq <= len(self.accepted), "a subscriber has read what does not count", name, outcome.seq)
        require(outcome == self.accepted[count].outcome, "a subscriber has read another outcome", name, outcome.seq)

    def projected(self, outcomes: Sequence[m.Outcome], position: AppliedPosition, next_offset: int) -> None:
        """A catalog has these outcomes more, and is where it says."""
        for outcome in outcomes:
            require(outcome.seq == self._projected + 1, "the catalog misses or repeats", outcome.seq, self._projected)
            self._projected += 1
            accepted = _as_projected(self.accepted[outcome.seq - 1].outcome)
            require(outcome == accepted, "the catalog has another outcome", outcome.seq)
        require(position.seq == self._projected, "the catalog is not where it says", position.seq, self._projected)
        if position.seq:
            at = self.accepted[position.seq - 1]
            require((position.hash, position.results_offset) == (at.hash, at.offset), "a wrong position", position.seq)
        require(next_offset > position.results_offset, "the catalog has read less than it holds", position.seq)

    # --- when all is quiet --------------------------------------------------------------------------------------------

    def unanswered(self, ends: Mapping[int, int]) -> list[str]:
        """What is still to be decided or told, where partitions of proposals end."""
        undecided = [
            f"partition {at} from {self.next_offsets[at]}" for at, end in ends.items() if self.next_offsets[at] < end
        ]
        untold = [f"outcome {seq}" for seq in range(1, len(self.accepted) + 1) if seq not in self.receipted]
        letters = [f"dead letter {seq}" for seq in self._refused() if seq not in self._dead_letters]
        return undecided + untold + letters

    def check_serializable(self) -> None:
        """The SERIALIZABLE proposals that committed could have been alone, one after another."""
        committed = (each.outcome for each in self.accepted if each.outcome.verdict is m.Verdict.COMMITTED)
        cycle = cycle_in(committed)
        require(not cycle, "not serializable", *cycle)

    def _refused(self) -> Iterable[int]:
        for each in self.accepted:
            if each.outcome.reason is m.Reason.MALFORMED:
                yield each.outcome.seq


def _as_projected(outcome: m.Outcome) -> m.Outcome:
    """An outcome as a projector reads it, which wants the statistics of files."""
    if outcome.proposal is None:
        return outcome
    return outcome.replace(proposal=codec.with_statistics_expanded(outcome.proposal))
