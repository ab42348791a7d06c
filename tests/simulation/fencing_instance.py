"""A sequencer for `fencing_world`: the real `Chain`, `Heard`, `TakeoverAttempt`, `Serving` and `Telling`, one step at a time.

It does what `commitlog.log.sequencer` does between them, and nothing twice as clever: follow, take over, decide, judge, tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fencing_world import LOG_ID, Session, World, require

from commitlog.errors import FencedError
from commitlog.log.chain import Accepted, Chain, LogPosition
from commitlog.log.codec import Heartbeat, OutcomeHead, hash_record
from commitlog.log.heartbeats import Heard
from commitlog.log.reports import Report
from commitlog.log.sequencer import TAKEOVER_AFTER_S
from commitlog.log.serving import DoubtError, SentBatch, Serving, TakeoverAttempt, Telling
from commitlog.simulation.choices import Choices

BATCH_MAX = 3


class Phase(StrEnum):
    """Where it is on its way."""

    STANDBY = "STANDBY"
    ATTEMPT = "ATTEMPT"
    SERVING = "SERVING"


@dataclass(eq=False, slots=True)
class Letter:
    """Answers on their way to their writers: by seq, the record's hash."""

    answers: dict[int, bytes]
    noted: object


class Instance:
    """One sequencer process after another, in the same place."""

    def __init__(self, world: World, name: str, *, standby: bool) -> None:
        self.world = world
        self.name = name
        self._start()
        if not standby:
            self._become(Phase.ATTEMPT)

    @property
    def is_serving(self) -> bool:
        return self.phase is Phase.SERVING

    # --- what chance does to it ---------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Ends at once; another process begins in its place."""
        self._say("crashes")
        self._drop()
        self._start()

    def letters(self, choices: Choices | None) -> None:
        """One letter arrives and is acknowledged, or one of both, or none; without choices all of both."""
        while self.pending:
            what = choices.below(8) if choices else 0
            letter = self.pending[choices.below(len(self.pending)) if choices else 0]
            if what < 7:
                self.world.arrived(letter.answers)
            if what < 6:
                self.pending.remove(letter)
                self.telling.acknowledged(letter.noted)  # type: ignore[arg-type]
            else:
                self.world.sending(letter.answers)
            if choices:
                return

    # --- its steps ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """A little of what it would do now."""
        choices = self.world.choices
        try:
            if self.phase is Phase.STANDBY:
                self._follow(min(len(self.world.log), self.chain.next_offset + choices.below(4)))
                self._listen()
            elif self.phase is Phase.ATTEMPT:
                self._attempt()
            else:
                what = choices.below(6)
                if what < 3:
                    self._decide(1 + choices.below(BATCH_MAX))
                elif what < 5:
                    self._judge()
                elif choices.below(2):
                    self._beat()
                else:
                    self.serving.must_read_to(len(self.world.log))
                    self._judge()
        except DoubtError as doubt:
            self._doubt(doubt)
        except FencedError as fenced:
            self._fenced(fenced)

    def step_well(self) -> None:
        """All of what it would do now."""
        try:
            if self.phase is Phase.STANDBY:
                self._follow(len(self.world.log))
                self._listen()
            elif self.phase is Phase.ATTEMPT:
                self._attempt()
            else:
                self._judge()
                self.serving.must_read_to(len(self.world.log))
                self._judge()
                self._decide(BATCH_MAX)
                self._beat()
        except DoubtError as doubt:
            self._doubt(doubt)
        except FencedError as fenced:
            self._fenced(fenced)

    # --- standby ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.phase = Phase.STANDBY
        self.pending: list[Letter] = []
        self.session: Session | None = None
        self.attempt: TakeoverAttempt | None = None
        self._heard = Heard(self.world.now_s)
        self._next_beat = len(self.world.control)
        self._load()

    def _load(self) -> None:
        """From the genesis, or from an accepted outcome whose receipts and those before are told."""
        accepted = self.world.accepted
        self.answers: dict[int, bytes] = {}
        self.told = accepted[-1][0].told if accepted else 0
        start = self.world.choices.below(self.told + 1)
        self.chain = Chain()
        self._next_source = 0
        if start:
            head, digest, raw, offset = accepted[start - 1]
            self.chain = Chain.after(LogPosition(LOG_ID, head.seq, head.epoch, digest, offset))
            self._next_source = self.world.source_of[raw] + 1
            self.told = head.told

    def _follow(self, end: int) -> None:
        for offset in range(self.chain.next_offset, end):
            raw = self.world.log[offset]
            step = self.chain.take(raw, offset)
            if isinstance(step, Accepted) and isinstance(step.head, OutcomeHead):
                assert raw is not None
                self._next_source = self.world.source_of[raw] + 1
                self.answers[step.head.seq] = step.hash
                self.told = step.head.told

    def _listen(self) -> None:
        for beat in self.world.control[self._next_beat :]:
            self._heard.hear(beat, self.world.now_s)
        self._next_beat = len(self.world.control)
        state = self.chain.state
        if state is not None and self._heard.silent_s(state, self.world.now_s) > TAKEOVER_AFTER_S:
            self._become(Phase.ATTEMPT)

    # --- takeover -----------------------------------------------------------------------------------------------------

    def _attempt(self) -> None:
        if self.attempt is not None:
            return
        self._follow(len(self.world.log))
        assert self.chain.state is not None
        self.attempt = TakeoverAttempt(self.chain.state, instance=self.world.unique(), now_ms=0)
        self.session = self.world.session()
        self.session.send(self.attempt.record, self._attempted)

    def _attempted(self, report: Report) -> None:
        attempt = self.attempt
        assert attempt is not None
        try:
            offset = attempt.offset_of(report)
        except DoubtError as doubt:
            self._doubt(doubt)
            return
        self._follow(offset + 1)
        assert self.chain.state is not None
        if not attempt.has_won(self.chain.state):
            self._say("has lost")
            self._drop()
            self._become(Phase.STANDBY)
            return
        self._serve(offset + 1)

    # --- serve --------------------------------------------------------------------------------------------------------

    def _serve(self, next_offset: int) -> None:
        state = self.chain.state
        assert state is not None
        self._become(Phase.SERVING)
        self.serving = Serving(state, next_offset)
        self.telling = Telling(self.told)
        self._seq, self._hash = state.seq, state.hash
        self._tell({seq: self.answers[seq] for seq in range(self.told + 1, state.seq + 1)})

    def _decide(self, count: int) -> None:
        serving, world = self.serving, self.world
        count = min(count, world.published - self._next_source)
        if count <= 0 or not serving.may_send or not self.telling.has_room:
            return
        outcomes = []
        answers = {}
        for _ in range(count):
            epoch, now_ms = serving.accepted.epoch, int(world.now_s * 1000)
            raw = world.outcome(
                self._seq + 1,
                self._next_source,
                epoch=epoch,
                prev_hash=self._hash,
                told=self.telling.told,
                now_ms=now_ms,
            )
            outcomes.append(raw)
            self._seq, self._hash, self._next_source = self._seq + 1, hash_record(raw), self._next_source + 1
            answers[self._seq] = self._hash
        batch = serving.sent(outcomes, seq=self._seq, hash=self._hash, letters=[], now_s=world.now_s)
        self._say(f"decides up to {self._seq} in epoch {serving.accepted.epoch}, told {self.telling.told}")
        self.answers.update(answers)
        assert self.session is not None
        for index, raw in enumerate(outcomes):
            self.session.send(raw, lambda report, index=index: serving.reported(batch, index, report))  # type: ignore[misc]

    def _judge(self) -> None:
        self._accept(self.serving.judge())
        while self.serving.unread is not None:
            start, end = self.serving.unread
            self._accept(self.serving.read((offset, self.world.log[offset]) for offset in range(start, end)))
            self._accept(self.serving.judge())

    def _accept(self, batches: list[SentBatch]) -> None:
        for batch in batches:
            first = batch.seq - len(batch.outcomes) + 1
            self._tell({seq: self.answers[seq] for seq in range(first, batch.seq + 1)})

    def _tell(self, answers: dict[int, bytes]) -> None:
        if answers:
            self._say(f"tells {list(answers)}")
            self.world.sending(answers)
            self.pending.append(Letter(answers, self.telling.begin(max(answers), 1)))

    def _beat(self) -> None:
        state = self.serving.accepted
        assert state.instance is not None
        if self.serving.may_beat(self.world.now_s):
            self.world.control.append(Heartbeat(LOG_ID, state.epoch, state.instance, state.seq, 0))

    # --- ways out -----------------------------------------------------------------------------------------------------

    def _doubt(self, doubt: DoubtError) -> None:
        self._say(f"is in doubt: {doubt}")
        self._drop()
        self._load()
        self._become(Phase.ATTEMPT)

    def _fenced(self, fenced: FencedError) -> None:
        self._say(f"is fenced: {fenced}")
        self._drop()
        self._start()

    def _drop(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session = self.attempt = None
        for letter in self.pending:
            self.world.lost_letters.append(letter.answers)
        self.pending = []

    def _become(self, phase: Phase) -> None:
        require(phase is not self.phase or phase is Phase.ATTEMPT, "no move", phase)
        self._say(f"-> {phase}")
        self.phase = phase
        self._heard.took_over(self.world.now_s)

    def _say(self, what: str) -> None:
        self.world.trace(f"{self.world.now_s:6.2f} {self.name} {what}")
