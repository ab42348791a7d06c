"""Messages of the proposals topic to the records of one batch: decode, decide, replay, encode, one by one.

Here is all of the sequencer that does no I/O, so that it can be tested and measured without a broker.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from commitlog.domain.deciding.answers import receipt_for, refuse_internal
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import HandlersByName, RowHandler, Rules
from commitlog.domain.deciding.shortening import shortenings
from commitlog.domain.model import MalformedProposal, Outcome, Position, Proposal, Reason, Receipt, Verdict
from commitlog.domain.model.malformed import too_large
from commitlog.domain.model.record import new_named
from commitlog.domain.state.index import SequencerState
from commitlog.domain.state.replaying import replay
from commitlog.errors import MalformedRecordError
from commitlog.log.codec import (
    DeadLetter,
    decode_proposal,
    decode_statistics,
    encode_dead_letter,
    encode_outcome,
    encode_receipts,
    hash_record,
    readable_ids,
)
from commitlog.log.connection import MESSAGE_BYTES_MAX
from commitlog.log.serving import DoubtError, Records
from commitlog.log.topic_settings import outcome_bytes_max
from commitlog.log.topics import Topics

RECEIPTS_BYTES_MAX = 512 * 1024
RECORD_OVERHEAD_BYTES = 4 * 1024
DETAIL_LENGTH_MAX = 16 * 1024
_FITTING_BYTES_MIN: Final = outcome_bytes_max(0) - RECORD_OVERHEAD_BYTES
"""What fits whatever the log's settings are."""

_logger = logging.getLogger("commitlog.sequencer")
_IN_DEAD_LETTERS = frozenset({Reason.MALFORMED, Reason.INTERNAL})


class Incoming:
    """A message of the proposals topic; ``reply_to`` is where its receipt goes besides Kafka (`replies`)."""

    __slots__ = ("key", "offset", "partition", "reply_to", "value")

    def __init__(
        self, partition: int, offset: int, key: bytes | None, value: bytes | None, reply_to: str | None = None
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.reply_to = reply_to


Addressee: TypeAlias = "tuple[int, str | None]"
"""Whom receipts are for: those who hear a partition, and who is replied to."""


@dataclass(slots=True)
class Batch:
    """What is appended together, and told together; ``internal`` counts the outcomes that are defects of this program, and the
    first proposal was made at ``made_at_ms``, by its writer's clock."""

    outcomes: list[bytes] = field(default_factory=list)
    receipts: dict[Addressee, list[Receipt]] = field(default_factory=lambda: defaultdict(list))
    dead_letters: list[bytes] = field(default_factory=list)
    verdicts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    internal: int = 0
    head_snapshot_id: int = 0
    made_at_ms: int | None = None
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def next_offsets(self) -> dict[int, int]:
        """The offset after the last proposal, by partition."""
        ends: dict[int, int] = {}
        for (partition, _), receipts in self.receipts.items():
            ends[partition] = max(ends.get(partition, 0), receipts[-1].source.offset + 1)
        return ends


class Decider:
    """Decides messages in order; the state moves ahead of what is written, and is thrown away if the writing fails.

    Args:
        state: at the end of the log.
        prev_hash: the chain's hash so far.
        epoch: of this sequencer, which the chain has accepted.
        topics: where the messages come from and the records go.
        handlers: row handlers by name.
        undecidable: where the proposals came from whose outcomes the state could not take; the owner keeps it when it
            throws the state away. They are refused as INTERNAL the next time.
        answer_bytes_max: what the topics of the answers take, where that may be less than the log's settings need.
    """

    def __init__(
        self,
        state: SequencerState,
        *,
        prev_hash: bytes,
        epoch: int,
        topics: Topics,
        handlers: Mapping[str, RowHandler],
        undecidable: dict[Position, Exception],
        answer_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        self.state = state
        self.prev_hash = prev_hash
        self.epoch = epoch
        self._topics = topics
        self._rules = Rules(HandlersByName(handlers), decode_statistics)
        self._undecidable = undecidable
        self.answer_bytes_max = answer_bytes_max

    def decide_all(self, messages: Iterable[Incoming], batch: Batch, *, now_ms: int | None, told: int) -> None:
        """Decides messages and adds the records to the batch; without ``now_ms`` each at the time it was made.

        Args:
            messages: in the order of their partitions.
            batch: what is added to.
            now_ms: the time.
            told: the seq up to which everything has been told.

        Raises:
            DoubtError: the state took an outcome half. Load it again and decide again, with the same ``undecidable``.
        """
        for message in messages:
            outcome, encoded = self.decide_one(message, now_ms=now_ms, told=told)
            batch.outcomes.append(encoded)
            batch.receipts[message.partition, message.reply_to].append(receipt_for(self.state, outcome))
            batch.verdicts[outcome.verdict] += 1
            batch.head_snapshot_id = outcome.head_snapshot_id
            batch.size_bytes += len(encoded)
            if batch.made_at_ms is None and outcome.proposal is not None:
                batch.made_at_ms = outcome.proposal.created_at_ms
            batch.internal += outcome.reason is Reason.INTERNAL
            if goes_to_dead_letters(outcome):
                batch.dead_letters.append(self.dead_letter(message, outcome))

    def decide_one(self, message: Incoming, *, now_ms: int | None, told: int) -> tuple[Outcome, bytes]:
        """Decides one message; the outcome and its bytes. See ``decide_all``."""
        source: Position = new_named(Position, (message.partition, message.offset))
        outcome, encoded = self._answered(message, source, now_ms, told)
        self._replay(outcome)
        self.prev_hash = hash_record(encoded)
        return outcome, encoded

    def letters(self, receipts: Mapping[Addressee, list[Receipt]], dead_letters: Sequence[bytes]) -> list[Records]:
        """What is told of outcomes: their receipts by whom they are for, and their dead letters."""
        log_id = self.state.log_id
        bytes_max = min(RECEIPTS_BYTES_MAX, self._outcome_bytes_max())
        records = [
            Records(
                self._topics.receipts,
                partition,
                packed_receipts(each, log_id, partition, bytes_max=bytes_max),
                reply_to,
            )
            for (partition, reply_to), each in receipts.items()
        ]
        if dead_letters:
            records.append(Records(self._topics.dead_letters, 0, dead_letters))
        return records

    def _answered(self, message: Incoming, source: Position, now_ms: int | None, told: int) -> tuple[Outcome, bytes]:
        """The outcome and its bytes; nothing that a proposal holds may end the process, whatever it makes go wrong."""
        error = self._undecidable.get(source) if self._undecidable else None
        if error is None:
            try:
                return self._fitting(self._decide(message, source, now_ms), told)
            except Exception as unexpected:
                error = unexpected
                _logger.exception(
                    "the proposal at partition %d, offset %d cannot be decided", message.partition, message.offset
                )
        return self._fitting(self._refused_internal(message, source, now_ms, error), told)

    def _refused_internal(self, message: Incoming, source: Position, now_ms: int | None, error: Exception) -> Outcome:
        return refuse_internal(
            self.state,
            MalformedProposal("", *readable_ids(message.value or b"")),
            error,
            now_ms=self.state.decided_at_ms if now_ms is None else now_ms,
            source=source,
            epoch=self.epoch,
        )

    def _fitting(self, outcome: Outcome, told: int) -> tuple[Outcome, bytes]:
        encoded = self._encoded(outcome, told)
        shorter = shortenings(self.state, outcome)
        while len(encoded) > _FITTING_BYTES_MIN and len(encoded) > self._outcome_bytes_max():
            fitting = next(shorter, None)
            assert fitting is not None, f"outcome {outcome.seq} does not fit its topic"
            outcome, encoded = fitting, self._encoded(fitting, told)
        return outcome, encoded

    def _replay(self, outcome: Outcome) -> None:
        try:
            replay(self.state, outcome)
        except Exception as error:
            _logger.exception("the outcome of the proposal at %s cannot be applied", outcome.source)
            self._undecidable[outcome.source] = error
            raise DoubtError(f"the state took the outcome of the proposal at {outcome.source} half") from error

    def _decide(self, message: Incoming, source: Position, now_ms: int | None) -> Outcome:
        proposal, raw = self._decoded(message.value)
        if now_ms is None:
            now_ms = proposal.created_at_ms if isinstance(proposal, Proposal) else self.state.decided_at_ms
        return decide(
            self.state,
            proposal,
            now_ms=now_ms,
            source=source,
            epoch=self.epoch,
            proposal_bytes=raw,
            rules=self._rules,
        )

    def _decoded(self, value: bytes | None) -> tuple[Proposal | MalformedProposal, bytes]:
        if value is None:
            return MalformedProposal("a message without a value"), b""
        limit = self.state.settings.proposal_bytes_max
        if len(value) > limit:
            return MalformedProposal(too_large(len(value), limit), *readable_ids(value)), value
        try:
            return decode_proposal(value), value
        except MalformedRecordError as error:
            return MalformedProposal(str(error), *readable_ids(value)), value

    def _encoded(self, outcome: Outcome, told: int) -> bytes:
        return encode_outcome(outcome, log_id=self.state.log_id, prev_hash=self.prev_hash, told=told)

    def _outcome_bytes_max(self) -> int:
        wanted = outcome_bytes_max(self.state.settings.proposal_bytes_max)
        return min(wanted, self.answer_bytes_max) - RECORD_OVERHEAD_BYTES

    def dead_letter(self, message: Incoming, outcome: Outcome) -> bytes:
        """A refused message as the dead-letters topic keeps it."""
        value, key = message.value, message.key
        room = self._outcome_bytes_max() - 2 * RECORD_OVERHEAD_BYTES - DETAIL_LENGTH_MAX
        return encode_dead_letter(
            DeadLetter(
                log_id=self.state.log_id,
                seq=outcome.seq,
                topic=self._topics.proposals,
                partition=outcome.source.partition,
                offset=outcome.source.offset,
                detail=(outcome.detail or "")[: DETAIL_LENGTH_MAX // 4],
                decided_at_ms=outcome.decided_at_ms,
                key=None if key is None else key[:RECORD_OVERHEAD_BYTES],
                value=None if value is None else value[:room],
                value_size_bytes=0 if value is None else len(value),
            )
        )


def goes_to_dead_letters(outcome: Outcome) -> bool:
    """Whether the proposal's bytes are kept in the dead letters, because the outcome does not hold them."""
    return outcome.reason in _IN_DEAD_LETTERS


def packed_receipts(receipts: list[Receipt], log_id: bytes, partition: int, *, bytes_max: int) -> list[bytes]:
    """The receipts in as few messages as their size allows."""
    packed = encode_receipts(receipts, log_id=log_id, partition=partition)
    if len(packed) <= bytes_max or len(receipts) == 1:
        return [packed]
    half = len(receipts) // 2
    return [
        *packed_receipts(receipts[:half], log_id, partition, bytes_max=bytes_max),
        *packed_receipts(receipts[half:], log_id, partition, bytes_max=bytes_max),
    ]
