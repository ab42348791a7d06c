"""Which records of the results topic count: the one rule by which every reader reads them, live and at load.

Theory of operation. The topic is one partition that anybody may append to: the active sequencer, one that was paused and
does not know that another has taken its place, a producer that sends again. Nothing keeps them out (that would take a
transaction for every batch); instead the order of the topic itself says, to everybody alike, which of its records count.

- The first record is the *genesis*. It makes the state (log_id, epoch 0, no instance, seq 0, hash of its bytes).
- A *takeover* begins an epoch. It counts iff its epoch is exactly the current one + 1: of two that want the same epoch
  the first in the topic wins, and both learn it by reading. The hash becomes SHA-256(hash + the takeover's bytes), so
  that nothing decided under the old epoch continues what is decided under the new one.
- An *outcome* counts iff its epoch is the current one, its seq the last + 1 and its prev_hash the hash so far. The hash
  becomes SHA-256 of its bytes.

All else is skipped and counted (`Skip`): what a fenced sequencer still writes, what was sent twice, what follows a record
that got lost, bytes of strangers. Skipping leaves the state as it is, and it depends on nothing but the state and the
record; so whatever is skipped by one reader is skipped by all, and what was accepted stays accepted whatever comes after.

A reader stops (an exception; nothing has changed) only where going on could mean reading another history than others do:
a record of the current epoch with the next seq and another prev_hash, a record of another log, a record of a schema that
this version does not know, newer rules, and offsets that are missing, for what was there may have counted.

Only the head of an outcome is looked at, never what was decided. A reader may start at the genesis or after any accepted
outcome, whose record alone gives the state (but for the instance, which nobody needs before the next takeover). It may
not start anywhere else: a record in the middle does not tell whether it was accepted.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias

from mypy_extensions import mypyc_attr

from commitlog.domain.model import RULES_VERSION, Genesis
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.record import Record
from commitlog.errors import LogIntegrityError, LogLossError, MalformedRecordError, RulesVersionError
from commitlog.log.codec import OutcomeHead, Takeover, UnknownSchemaError, decode_head, hash_record


@mypyc_attr(acyclic=True)
class LogPosition(Record):
    """An accepted outcome (seq 0: the genesis), where it is and how it is recognised: where reading can go on.

    `hash` is of the record's own bytes. Takeovers after it are read again by whoever goes on from here.
    """

    __slots__ = ("epoch", "hash", "log_id", "results_offset", "seq")

    FIELDS: ClassVar[tuple[str, ...]] = ("log_id", "seq", "epoch", "hash", "results_offset")

    def __init__(self, log_id: bytes, seq: int, epoch: int, hash: bytes, results_offset: int) -> None:
        self.log_id: Final = log_id
        self.seq: Final = seq
        self.epoch: Final = epoch
        self.hash: Final = hash
        self.results_offset: Final = results_offset


@mypyc_attr(acyclic=True)
class ChainState(Record):
    """What has been accepted so far. `instance` is None before the first takeover, and where reading began after it."""

    __slots__ = ("epoch", "hash", "instance", "log_id", "seq")

    FIELDS: ClassVar[tuple[str, ...]] = ("log_id", "epoch", "instance", "seq", "hash")

    def __init__(self, log_id: bytes, epoch: int, instance: bytes | None, seq: int, hash: bytes) -> None:
        self.log_id: Final = log_id
        self.epoch: Final = epoch
        self.instance: Final = instance
        self.seq: Final = seq
        self.hash: Final = hash


class Skip(StrEnum):
    """Why a record does not count."""

    FOREIGN = "FOREIGN"  # bytes of somebody else
    GENESIS = "GENESIS"  # of another `init` at the same moment
    TAKEOVER = "TAKEOVER"  # another one was faster
    LOWER_EPOCH = "LOWER_EPOCH"  # of a sequencer that was fenced
    HIGHER_EPOCH = "HIGHER_EPOCH"  # of one whose takeover was lost
    REPEATED = "REPEATED"  # sent twice
    GAP = "GAP"  # after one that was lost


@mypyc_attr(acyclic=True)
class Accepted(Record):
    """A record that counts."""

    __slots__ = ("hash", "head", "offset")

    FIELDS: ClassVar[tuple[str, ...]] = ("head", "offset", "hash")

    def __init__(self, head: Genesis | Takeover | OutcomeHead, offset: int, hash: bytes) -> None:
        self.head: Final = head
        self.offset: Final = offset
        self.hash: Final = hash


Step: TypeAlias = Accepted | Skip


class Chain:
    """Reads records in the order of their offsets.

    Args:
        state: what was accepted before; None reads from the genesis on.
        next_offset: of the record that comes next.
    """

    def __init__(self, state: ChainState | None = None, next_offset: int = 0) -> None:
        self.state = state
        self.next_offset = next_offset
        self.position: LogPosition | None = None
        self.skipped: Counter[Skip] = Counter()

    @classmethod
    def after(cls, position: LogPosition) -> Chain:
        """Goes on after an outcome that was accepted, or after the genesis."""
        state = ChainState(position.log_id, position.epoch, None, position.seq, position.hash)
        chain = cls(state, position.results_offset + 1)
        chain.position = position
        return chain

    def take(self, raw: bytes | None, offset: int) -> Step:
        """Accepts the record or says why it is skipped.

        Raises:
            LogIntegrityError: another history, another log, or a schema that this version does not know.
            LogLossError: offsets are missing before this one.
            RulesVersionError: it was decided under newer rules.
        """
        self.check_offset(offset)
        step = self._step(raw, offset)
        self.next_offset = offset + 1
        if isinstance(step, Skip):
            self.skipped[step] += 1
        return step

    def check_offset(self, offset: int) -> None:
        """Raises LogLossError when an offset is not the one that comes next."""
        if offset != self.next_offset:
            raise LogLossError(
                f"results offset {offset} comes where {self.next_offset} was expected: what was between is gone; restore it, "
                "or use another log"
            )

    def _step(self, raw: bytes | None, offset: int) -> Step:
        try:
            head = decode_head(raw or b"")
        except UnknownSchemaError as error:
            raise LogIntegrityError(
                f"results offset {offset} is no record that this version knows ({error}): the log was written by another "
                "version of commitlog; use that version, or another log"
            ) from None
        except MalformedRecordError:
            return Skip.FOREIGN
        assert raw is not None
        if isinstance(head, Genesis):
            return self._genesis(head, raw, offset)
        if self.state is None:
            raise LogIntegrityError(f"the log starts at results offset {offset} with another record than its genesis")
        if head.log_id != self.state.log_id:
            raise LogIntegrityError(
                f"results offset {offset} belongs to log {format_id(head.log_id)}, not to {format_id(self.state.log_id)}"
            )
        if isinstance(head, Takeover):
            return self._takeover(self.state, head, raw, offset)
        return self._outcome(self.state, head, raw, offset)

    def _genesis(self, genesis: Genesis, raw: bytes, offset: int) -> Step:
        if self.state is not None:
            return Skip.GENESIS
        _check_rules(genesis.rules_version)
        digest = hash_record(raw)
        self.state = ChainState(genesis.log_id, 0, None, 0, digest)
        self.position = LogPosition(genesis.log_id, 0, 0, digest, offset)
        return Accepted(genesis, offset, digest)

    def _takeover(self, state: ChainState, takeover: Takeover, raw: bytes, offset: int) -> Step:
        if takeover.epoch != state.epoch + 1:
            return Skip.TAKEOVER
        digest = hash_after_takeover(state.hash, raw)
        self.state = ChainState(state.log_id, takeover.epoch, takeover.instance, state.seq, digest)
        return Accepted(takeover, offset, digest)

    def _outcome(self, state: ChainState, outcome: OutcomeHead, raw: bytes, offset: int) -> Step:
        if outcome.epoch != state.epoch:
            return Skip.LOWER_EPOCH if outcome.epoch < state.epoch else Skip.HIGHER_EPOCH
        if outcome.seq != state.seq + 1:
            return Skip.REPEATED if outcome.seq <= state.seq else Skip.GAP
        if outcome.prev_hash != state.hash:
            raise LogIntegrityError(
                f"outcome {outcome.seq} at results offset {offset} was written after another outcome {state.seq} "
                f"(hash {outcome.prev_hash.hex()[:16]}) than the one here (hash {state.hash.hex()[:16]})"
            )
        _check_rules(outcome.rules_version)
        digest = hash_record(raw)
        self.state = ChainState(state.log_id, state.epoch, state.instance, outcome.seq, digest)
        self.position = LogPosition(state.log_id, outcome.seq, state.epoch, digest, offset)
        return Accepted(outcome, offset, digest)


def hash_after_takeover(before: bytes, takeover: bytes) -> bytes:
    """The hash so far once a takeover with these bytes was accepted."""
    return hash_record(before + takeover)


def _check_rules(rules_version: int) -> None:
    if rules_version > RULES_VERSION:
        raise RulesVersionError(rules_version, supported=RULES_VERSION)
