"""The whole chain looked through: every place of the results where what lies there is not what was written.

`Chain` stops, or skips, where something does not follow; that is right for who serves, and says too little to who asks what
was changed. A walk goes on behind each such place where the next record tells how.

What it finds, and where: a record that was changed is named by the next one, whose prev_hash is of other bytes. One whose
head was changed so that it does not count any more leaves a gap: what was written after it does not count either. What is
after the last record, or in its place, shows by the *witnesses* alone: hashes of outcomes that somebody noted while they were
the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from commitlog.domain.model import Genesis
from commitlog.errors import LogIntegrityError, MalformedRecordError, RulesVersionError
from commitlog.log.chain import Accepted, Chain, ChainState, LogPosition, Skip
from commitlog.log.codec import OutcomeHead, Takeover, UnknownSchemaError, decode_head, hash_record

_LEAVE_A_GAP = frozenset({Skip.GAP, Skip.HIGHER_EPOCH})


class Witness(NamedTuple):
    """Who has noted the hash of an outcome (seq 0: the genesis)."""

    who: str
    seq: int
    hash: bytes


class Break(NamedTuple):
    """A place of the results that is not as it was written: between two offsets, both inclusive."""

    first_offset: int
    last_offset: int
    what: str


class _Left(NamedTuple):
    """An outcome that does not count, because something before it is missing: unless it is decided again, it was lost."""

    after_offset: int
    offset: int
    seq: int


class ChainWalk:
    """Takes the records of a results topic, in the order of their offsets.

    Args:
        witnesses: what is compared with the outcomes of their seqs.
        told_seq: the last outcome that anybody was told of.
    """

    def __init__(self, witnesses: Iterable[Witness] = (), *, told_seq: int = 0) -> None:
        self._told_seq = told_seq
        self.records = 0
        self.breaks: list[Break] = []
        self._chain = Chain()
        self._witnesses: defaultdict[int, list[Witness]] = defaultdict(list)
        for witness in witnesses:
            self._witnesses[witness.seq].append(witness)
        self._left: list[_Left] = []

    @property
    def position(self) -> LogPosition | None:
        """The last outcome that follows all before it, or follows what was named as a break; None before the genesis."""
        return self._chain.position

    @property
    def next_offset(self) -> int:
        """Of the record that comes next."""
        return self._chain.next_offset

    def take(self, raw: bytes | None, offset: int, *, has_more: bool = False) -> None:
        """One record of the topic. ``has_more``: it has a key or headers, which no record of a sequencer has.

        Raises:
            LogLossError: offsets are missing before it.
        """
        self._chain.check_offset(offset)
        if self._take(raw, offset) and has_more:
            self._found(offset, offset, "a key or headers were given to a record that was written without")

    def take_archived(self, raw: bytes, takeovers: Iterable[bytes], offset: int) -> None:
        """One record of an archive, which leaves out what did not count, and the takeovers right before it."""
        for each in (*takeovers, raw):
            self._chain.next_offset = offset
            self._take(each, offset)

    def end(self) -> list[Break]:
        """All that was found, once the last record was taken."""
        left = [each for each in self._left if each.seq > self._seq]
        if left:
            first = left[0]
            self._found(
                first.after_offset,
                first.offset,
                f"what was written as outcome {first.seq} follows an outcome that is not here, or does not count any more, and "
                f"{len(left)} records in all up to offset {left[-1].offset} count for nothing. If a sequencer has just failed, "
                "start it and look again",
            )
        beyond = [Witness("who was told of it", self._told_seq, b"")] if self._told_seq > self._seq else []
        for witness in (*beyond, *(each for known in self._witnesses.values() for each in known)):
            what = f"the chain ends with outcome {self._seq}, but {witness.who} knows outcome {witness.seq}"
            self._found(self._offset, self.next_offset, what)
        self._witnesses.clear()
        return self.breaks

    @property
    def _seq(self) -> int:
        return -1 if self.position is None else self.position.seq

    @property
    def _offset(self) -> int:
        return 0 if self.position is None else self.position.results_offset

    def _take(self, raw: bytes | None, offset: int) -> bool:
        """Whether the record counts."""
        self.records += 1
        try:
            step = self._chain.take(raw, offset)
        except (LogIntegrityError, RulesVersionError) as error:
            self._found(self._offset, offset, str(error))
            step = self._go_on_after(raw, offset)
        if isinstance(step, Skip):
            if step in _LEAVE_A_GAP:
                assert raw is not None
                head = decode_head(raw)
                assert isinstance(head, OutcomeHead)
                self._left.append(_Left(self._offset, offset, head.seq))
            return False
        if not isinstance(step.head, Takeover):
            self._compare(offset)
        return True

    def _go_on_after(self, raw: bytes | None, offset: int) -> Accepted | Skip:
        """What a record is when all before it is taken to be as it was when it was written."""
        chain, state = self._chain, self._chain.state
        chain.next_offset = offset + 1
        try:
            head = decode_head(raw or b"")
        except (UnknownSchemaError, MalformedRecordError):
            return Skip.FOREIGN
        assert raw is not None
        if isinstance(head, Genesis | Takeover) or (state is not None and head.log_id != state.log_id):
            return Skip.FOREIGN
        digest = hash_record(raw)
        chain.state = ChainState(head.log_id, head.epoch, None if state is None else state.instance, head.seq, digest)
        chain.position = LogPosition(head.log_id, head.seq, head.epoch, digest, offset)
        return Accepted(head, offset, digest)

    def _compare(self, offset: int) -> None:
        assert self.position is not None
        for witness in self._witnesses.pop(self.position.seq, ()):
            if witness.hash != self.position.hash:
                self._found(
                    offset,
                    offset,
                    f"outcome {witness.seq} has the hash {self.position.hash.hex()}, {witness.who} knows it with "
                    f"{witness.hash.hex()}",
                )

    def _found(self, first: int, last: int, what: str) -> None:
        self.breaks.append(Break(first, last, what))
