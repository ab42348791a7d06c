"""A log in memory and all that can go wrong on the way to it, for `test_fencing`: who writes what, when, and what is heard.

One `World` is one schedule. Everything that a real run leaves to chance is asked of `Choices`: which sequencer goes on, which
append arrives, late, twice or never, what its writer hears of it and when, who crashes, what strangers write. So pauses
need no word of their own: whoever is not chosen is paused. The reports may be wrong as the client library's are: a success
without an offset says nothing, an error may come for what was appended or will be. One thing holds: a success that
names an offset is true.

At the end everything becomes well (`settle`), and then every proposal must have been decided and told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from commitlog.domain import model as m
from commitlog.log import chain as chain_module
from commitlog.log import codec
from commitlog.log.chain import Accepted, Chain
from commitlog.log.codec import Heartbeat, OutcomeHead, Takeover, encode_genesis, encode_outcome, encode_takeover
from commitlog.log.reports import Report
from commitlog.simulation.choices import Choices

LOG_ID = b"L" * 16
GENESIS = encode_genesis(m.Genesis(LOG_ID))
OTHER_GENESIS = encode_genesis(m.Genesis(b"O" * 16))
STEPS_S = (0.005, 0.02, 0.1)
JUMP_S = 2.0

# Every reader decodes the same few records: what is checked here is what follows from them.
chain_module.decode_head = lru_cache(maxsize=4096)(codec.decode_head)


@dataclass(eq=False, slots=True)
class Flying:
    """A record on its way to the log, and who hears of it."""

    raw: bytes
    on_report: Callable[[Report], None]


@dataclass(eq=False, slots=True)
class Session:
    """A producer of the results topic: what it sends arrives in order, if at all."""

    flying: deque[Flying] = field(default_factory=deque)
    late: list[tuple[Flying, bool]] = field(default_factory=list)
    """What arrives after what was sent later, or never; and whether its writer is told so then, or was told before."""
    reports: list[tuple[Flying, Report]] = field(default_factory=list)
    is_heard: bool = True

    def send(self, raw: bytes, on_report: Callable[[Report], None]) -> None:
        self.flying.append(Flying(raw, on_report))

    def close(self) -> None:
        """What is on its way may still arrive; nobody hears of it."""
        self.is_heard = False
        self.reports.clear()


class ViolationError(AssertionError):
    """What must never happen has happened."""


def require(holds: bool, what: str, *details: object) -> None:
    if not holds:
        raise ViolationError(f"{what}: {details}")


class World:
    """One log, its proposals, whoever writes and reads it."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.now_s = 0.0
        self.log: list[bytes | None] = [GENESIS]
        self.sessions: list[Session] = []
        self.control: list[Heartbeat] = []
        self.published = 0
        self.source_of: dict[bytes, int] = {}
        self.told: dict[int, bytes] = {}
        self.lost_letters: list[dict[int, bytes]] = []
        self.accepted: list[tuple[OutcomeHead, bytes, bytes, int]] = []
        self.trace: Callable[[str], None] = lambda line: None
        self._reader = Chain()
        self._numbers = 0
        self._sources: set[int] = set()
        self._step_s = choices.pick(STEPS_S)
        self._faults = frozenset(fault for fault in FAULTS if not choices.one_in(3))
        self.read()

    # --- the log ------------------------------------------------------------------------------------------------------

    def session(self) -> Session:
        made = Session()
        self.sessions.append(made)
        return made

    def unique(self) -> bytes:
        """16 bytes that nobody else has."""
        self._numbers += 1
        return self._numbers.to_bytes(16, "big")

    def append(self, raw: bytes | None) -> int:
        self.log.append(raw)
        self.read()
        return len(self.log) - 1

    def read(self) -> None:
        """Follows the log as every reader does: what is accepted is dense, and answers each proposal once."""
        reader = self._reader
        for offset in range(reader.next_offset, len(self.log)):
            raw = self.log[offset]
            step = reader.take(raw, offset)
            if not isinstance(step, Accepted) or not isinstance(step.head, OutcomeHead):
                continue
            assert raw is not None
            head, source = step.head, self.source_of[raw]
            require(head.seq == len(self.accepted) + 1, "not dense", head.seq, len(self.accepted))
            require(source not in self._sources, "decided twice", source)
            require(source == len(self._sources), "out of order", source)
            require(all(each in self.told for each in range(head.told)), "said to be told", head.told)
            self._sources.add(source)
            self.accepted.append((head, step.hash, raw, offset))

    def outcome(self, seq: int, source: int, *, epoch: int, prev_hash: bytes, told: int, now_ms: int) -> bytes:
        """An answer to a proposal."""
        refused = m.Outcome(
            seq, epoch, m.Position(0, source), now_ms, m.Verdict.REJECTED, 0, b"I" * 16, "w", reason=m.Reason.INVALID
        )
        raw = encode_outcome(refused, log_id=LOG_ID, prev_hash=prev_hash, told=told)
        self.source_of[raw] = source
        return raw

    # --- answers ------------------------------------------------------------------------------------------------------

    def sending(self, answers: dict[int, bytes]) -> None:
        """An answer leaves a sequencer: from now on its writer may believe it. By seq: the record's hash."""
        for seq, digest in answers.items():
            require(seq <= len(self.accepted), "told before it was accepted", seq, len(self.accepted))
            require(self.accepted[seq - 1][1] == digest, "told what was not accepted", seq)

    def arrived(self, answers: dict[int, bytes]) -> None:
        for seq, digest in answers.items():
            self.told[self.source_of[self.accepted[seq - 1][2]]] = digest

    # --- chance -------------------------------------------------------------------------------------------------------

    def run(self, instances: Sequence[Any], steps: int) -> None:
        """So many steps of somebody, then until all is well."""
        choices = self.choices
        for _ in range(steps):
            self.now_s += self._step_s
            number = choices.below(24)
            if number < 10:
                choices.pick(instances).step()
            elif number < 15:
                self._network()
            elif number < 19:
                self._deliver()
            elif number < 21:
                self.published += 1
            elif number == 21:
                choices.pick(instances).letters(choices)
            else:
                self._fault(instances)
        self._settle(instances)
        self._check()

    def _network(self) -> None:
        self.sessions = [each for each in self.sessions if each.is_heard or each.flying or each.late]
        ready = [session for session in self.sessions if session.flying or session.late]
        if not ready:
            return
        session = self.choices.pick(ready)
        if not session.flying or (session.late and self.choices.one_in(4)):
            flying, is_reported = session.late.pop(self.choices.below(len(session.late)))
            offset = self.append(flying.raw)
            if is_reported:
                self._report(session, flying, Report(offset))
            return
        flying = session.flying.popleft()
        what = self.choices.below(16)
        if what < 9 or "network" not in self._faults:
            self._report(session, flying, Report(self.append(flying.raw)))
        elif what == 9:
            self.append(flying.raw)
            self._report(session, flying, Report(None))
        elif what == 10:
            self.append(flying.raw)
            self._report(session, flying, Report(None, "timed out"))
        elif what == 11:
            self._report(session, flying, Report(None, "timed out"))
        elif what == 12:
            self._report(session, flying, Report(None))
        elif what == 13:
            reported_now = self.choices.pick((Report(None, "timed out"), Report(None), None))
            session.late.append((flying, reported_now is None))
            if reported_now is not None:
                self._report(session, flying, reported_now)
        else:
            first, second = self.append(flying.raw), self.append(flying.raw)
            self._report(session, flying, Report(first if what == 14 else second))

    def _report(self, session: Session, flying: Flying, report: Report) -> None:
        self.trace(
            f"{'' if session.is_heard else 'unheard '}record {flying.raw[-3:].hex()} {report}, end {len(self.log)}"
        )
        if session.is_heard:
            session.reports.append((flying, report))

    def _deliver(self) -> None:
        """One report, whichever: they come in no order."""
        ready = [session for session in self.sessions if session.reports]
        if ready:
            session = self.choices.pick(ready)
            at = self.choices.below(len(session.reports)) if "order" in self._faults else 0
            flying, report = session.reports.pop(at)
            flying.on_report(report)

    def _fault(self, instances: Sequence[Any]) -> None:
        what = self.choices.below(10)
        if what < 2:
            if "crash" in self._faults:
                self.choices.pick(instances).crash()
        elif what < 4:
            if "time" in self._faults:
                self.now_s += JUMP_S
        elif what < 5:
            if self.lost_letters:
                self.arrived(self.lost_letters.pop(self.choices.below(len(self.lost_letters))))
        elif "strangers" in self._faults:
            junk = self._junk(what)
            self.trace(f"a stranger writes kind {what} at {len(self.log)}")
            self.append(junk)

    def _junk(self, what: int) -> bytes | None:
        """What anybody but the current sequencer may write."""
        state = self._reader.state
        assert state is not None
        if what == 5:
            return self.choices.pick((b"junk", None, b"\xc3\x01", GENESIS, OTHER_GENESIS))
        if what == 6:
            # Whoever has missed a takeover, and whoever believes in one that was lost.
            epoch = max(1, state.epoch + self.choices.pick((0, -1, 2, 3)))
            return encode_takeover(Takeover(LOG_ID, epoch, self.unique(), 0))
        if what == 7 and self.control:
            self.control.append(self.choices.pick(self.control))
        # Sent again, by whomever.
        return self.choices.pick(self.log)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self, instances: Sequence[Any]) -> None:
        """Everything is well from now on, but that heartbeats of the past still come."""
        self.trace("all is well")
        assert self._reader.state is not None
        stale = [beat for beat in self.control if beat.epoch < self._reader.state.epoch]
        for session in self.sessions:
            for flying, is_reported in session.late:
                offset = self.append(flying.raw) if self.choices.below(2) else None
                if is_reported:
                    self._report(session, flying, Report(offset, "timed out" if offset is None else None))
            session.late.clear()
            if not session.is_heard:
                for flying in session.flying:
                    if self.choices.below(2):
                        self.append(flying.raw)
        self.sessions = [session for session in self.sessions if session.is_heard]
        self.published += 1
        for _ in range(80):
            self.now_s += 0.3
            if stale:
                self.control.append(stale[-1])
            for instance in instances:
                instance.step_well()
                self._deliver_all()
                instance.letters(None)
            if len(self.accepted) == len(self.told) == self.published and any(each.is_serving for each in instances):
                return
        raise ViolationError(
            f"not all is well again: {self.published} published, {len(self.accepted)} accepted, {len(self.told)} told, "
            f"{[each.phase for each in instances]}"
        )

    def _deliver_all(self) -> None:
        for session in list(self.sessions):
            while session.is_heard and (session.flying or session.reports):
                while session.flying:
                    flying = session.flying.popleft()
                    session.reports.append((flying, Report(self.append(flying.raw))))
                flying, report = session.reports.pop(0)
                flying.on_report(report)
        self.sessions = [session for session in self.sessions if session.is_heard]

    def _check(self) -> None:
        require(self.told.keys() == set(range(self.published)), "not told", self.published)
        for head, digest, raw, _ in self.accepted:
            require(self.told[self.source_of[raw]] == digest, "told otherwise", head.seq)
        require(plain_reading(self.log) == [offset for *_, offset in self.accepted], "read otherwise by the plain rule")
        whole = [digest for _, digest, _, _ in self.accepted]
        starts = {self.choices.below(len(self.accepted)) for _ in range(2)}
        for start in starts:
            require(read_after(self.log, start, self.accepted) == whole[start + 1 :], "read otherwise from", start)


FAULTS = ("network", "order", "crash", "time", "strangers")


def read_after(
    log: Sequence[bytes | None], start: int, accepted: Sequence[tuple[OutcomeHead, bytes, bytes, int]]
) -> list[bytes]:
    """The hashes that a reader accepts who starts after the accepted outcome at an index."""
    head, digest, _, offset = accepted[start]
    chain = Chain.after(chain_module.LogPosition(LOG_ID, head.seq, head.epoch, digest, offset))
    steps = [chain.take(log[at], at) for at in range(offset + 1, len(log))]
    return [step.hash for step in steps if isinstance(step, Accepted) and isinstance(step.head, OutcomeHead)]


def plain_reading(log: Sequence[bytes | None]) -> list[int]:
    """The offsets of the outcomes that count: the rule of docs/reading-results.md once more, on its own."""
    epoch = seq = 0
    hash_so_far = b""
    found: list[int] = []
    for offset, raw in enumerate(log):
        try:
            head = chain_module.decode_head(raw or b"")
        except codec.MalformedRecordError:
            continue
        if isinstance(head, Takeover):
            if head.epoch == epoch + 1:
                epoch, hash_so_far = head.epoch, codec.hash_record(hash_so_far + (raw or b""))
        elif isinstance(head, OutcomeHead):
            if (head.epoch, head.seq) == (epoch, seq + 1):
                assert head.prev_hash == hash_so_far
                seq, hash_so_far = head.seq, codec.hash_record(raw or b"")
                found.append(offset)
        elif offset == 0:
            hash_so_far = codec.hash_record(raw or b"")
    return found
