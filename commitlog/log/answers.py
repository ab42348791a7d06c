"""Who waits for which answer, and which of those who wait reads for all of them.

A receipt is recognised by the offset that the delivery report names, and by the proposal's id: an earlier sending of the same
id may have been answered in between, and that is the one verdict too.

There is no thread between what Kafka gives out and whoever waits for it: the first who waits reads, and tells all others what
came for them; once it has its own answer, another of them goes on. Those who were told go on one after the other, each letting
the next one through: all at once would wait for the interpreter's lock, and who waits for that wakes again and again to ask
for it. Callbacks are made by a thread that waits for nothing itself, and while nobody reads, for what is called may commit.
Nothing here knows of Kafka.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import TypeAlias
from uuid import UUID

from commitlog.domain.model import Position, ProposalId, Reason, Receipt
from commitlog.domain.model.record import new_named
from commitlog.errors import CommitLogError, OutcomeUnknownError
from commitlog.machine import THIS_MACHINE, Lock, Machine

EARLY_MAX = 1_000
ROOM_S = 0.05
GOING_ON_MEAN_OF = 64
LATE_S = 0.1
"""How often those whose time is over are looked for."""

Tell: TypeAlias = "Callable[[PendingProposal], None]"


class PendingProposal:
    """A proposal on its way. Made by `Publisher.publish`."""

    def __init__(self, answers: Answers, proposal_id: ProposalId, partition: int, default_timeout_s: float) -> None:
        self.proposal_id = proposal_id
        self.partition = partition
        self._answers = answers
        self._default_timeout_s = default_timeout_s
        self._published_at = answers.machine.now_s()
        self._position: Position | None = None
        self._answer: Receipt | CommitLogError | None = None
        self._tell: Tell | None = None
        self._gates: list[Lock] = []

    @property
    def done(self) -> bool:
        """Whether `wait` returns at once."""
        return self._answer is not None

    def wait(self, timeout_s: float | None = None) -> Receipt:
        """The receipt.

        Args:
            timeout_s: None is the setting `receipts_timeout_ms`.

        Raises:
            OutcomeUnknownError: no receipt in time; the proposal may still be decided.
            ProposalTooLargeError: the broker does not take it; nothing was sent.
        """
        limit_s = self._default_timeout_s if timeout_s is None else timeout_s
        if self._answer is None:
            self._answers.wait_for(self, self._answers.machine.now_s() + limit_s)
        match self._answer:
            case None:
                raise self.unknown()
            case CommitLogError() as error:
                raise error
            case receipt:
                return receipt

    def forget(self) -> None:
        """Nobody waits for it any more."""
        if self._answer is None:
            self._answers.forget(self)

    def unknown(self, detail: str | None = None) -> OutcomeUnknownError:
        """What is known when nothing comes any more, and perhaps why."""
        return OutcomeUnknownError(UUID(bytes=self.proposal_id), waited_ms=int(self.age_s() * 1000), detail=detail)

    def age_s(self) -> float:
        """How long ago it was made."""
        return self._answers.machine.now_s() - self._published_at

    def on_answer(self, tell: Tell, timeout_s: float | None = None) -> None:
        """Calls back once `wait` returns, or raises, at once: from the one thread that calls back, or now.

        Args:
            tell: is called once, must be quick and raise nothing. There is one of each proposal.
            timeout_s: then it is given up; None is the setting `receipts_timeout_ms`.
        """
        limit_s = self._default_timeout_s if timeout_s is None else timeout_s
        self._answers.call_back(self, tell, self._answers.machine.now_s() + limit_s)


class Answers:
    """The proposals that are unanswered, and the turn of reading. Thread-safe.

    Args:
        read: reads once, waiting so many seconds at most, gives what came to `take`, and says whether anything came; only
            one thread at a time is in it.
        wake: called when somebody is to be called back: then `read_for_others` is to be called, always by the same thread.
        machine: whose time it is, and whose locks.
        on_wait: told before somebody waits how many threads then do.

    Attributes:
        going_on_s: how long a thread that is let go on takes to be there, the mean of the last ones: the processors and the
            interpreter's lock are the scarcer the longer it is.
    """

    def __init__(
        self,
        read: Callable[[float], bool],
        wake: Callable[[], None],
        machine: Machine = THIS_MACHINE,
        on_wait: Callable[[int], None] = lambda waiting: None,
    ) -> None:
        self.machine = machine
        self._on_wait = on_wait
        self._read = read
        self._wake = wake
        self._guard = threading.Lock()
        self._by_id: defaultdict[ProposalId | None, list[PendingProposal]] = defaultdict(list)
        self._by_position: dict[Position, PendingProposal] = {}
        self._early: dict[Position, Receipt] = {}
        # Taken and let go under the guard, as the gates are put up and opened: nobody is left behind one.
        self._turn = machine.lock()
        self._reader: object = None
        self._gates: dict[Lock, None] = {}
        self._reads_for_itself = False
        # Gates of those who were answered, in turn, and the one that was opened last, until its thread has gone on.
        self._answered: dict[Lock, None] = {}
        self._going_on: Lock | None = None
        self._let_go_on_at = 0.0
        self.going_on_s = 0.0
        self._to_call_back: dict[PendingProposal, float] = {}
        self._looked_for_late_at = 0.0
        self._to_tell: deque[PendingProposal] = deque()
        self._end: CommitLogError | None = None

    # --- what is awaited ----------------------------------------------------------------------------------------------

    @property
    def awaited(self) -> int:
        """How many proposals are unanswered."""
        return len(self._by_id)

    @property
    def ended(self) -> CommitLogError | None:
        """Why nothing is read any more; None while something is."""
        return self._end

    def wait_for_room(self, awaited_max: int, deadline: float) -> bool:
        """Wait until no more than so many are unanswered, reading like any who waits; False when it was not in time."""
        while len(self._by_id) > awaited_max:
            oldest = self._oldest()
            if oldest is not None:
                self.wait_for(oldest, min(deadline, self.machine.now_s() + ROOM_S))
            if self.machine.now_s() >= deadline:
                return False
        return True

    def expect(self, pending: PendingProposal) -> None:
        """From now on an answer to the proposal is known as one."""
        with self._guard:
            if self._end is not None:
                raise self._end
            self._by_id[pending.proposal_id].append(pending)

    def place(self, pending: PendingProposal, offset: int) -> None:
        """The proposal lies at this offset."""
        position: Position = new_named(Position, (pending.partition, offset))
        with self._guard:
            early = self._early.pop(position, None)
            if early is None and pending._answer is None:
                pending._position = position
                self._by_position[position] = pending
        if early is not None:
            self._settle([pending], early)

    def forget(self, pending: PendingProposal) -> None:
        """Nobody waits for the proposal any more."""
        with self._guard:
            self._unlist(pending)

    def take(self, receipts: Iterable[Receipt], hear_deliveries: Callable[[], None], *, tells: bool = False) -> None:
        """Answers what these are the answers to.

        Args:
            receipts: as they came.
            hear_deliveries: has `place` called for what has been delivered; where only an offset can tell, it is called before.
            tells: call back from here, by a thread that waits for nothing itself; else `wake` has another do it.
        """
        for receipt in receipts:
            # Malformed bytes say nothing of the proposal whose id they seem to carry.
            has_id = receipt.reason is not Reason.MALFORMED and receipt.proposal_id is not None
            if not has_id:
                hear_deliveries()
            if found := self._of(receipt, has_id):
                self._settle(found, receipt, tells=tells)
                if tells:
                    # At once: the first of them goes on while the others are still looked for.
                    self.tell()

    def settle(self, pending: PendingProposal, answer: Receipt | CommitLogError) -> None:
        """This is the proposal's answer, or why it gets none."""
        self._settle([pending], answer)

    def awaits(self, pending: PendingProposal) -> bool:
        """Whether the proposal is unanswered, and nobody has forgotten it."""
        with self._guard:
            return pending in self._by_id.get(pending.proposal_id, ())

    def lose(self, partition: int) -> None:
        """Receipts of a partition are gone: what was awaited there stays unknown."""
        for pending in self._unanswered():
            if pending.partition == partition:
                self._settle([pending], pending.unknown())

    def end(self, error: CommitLogError) -> None:
        """Nothing is read any more: what is awaited stays unknown, and what is sent later fails with the error."""
        with self._guard:
            self._end = self._end or error
        self.give_up()

    def give_up(self, detail: str | None = None) -> None:
        """No answer comes to what is awaited now: it stays unknown, perhaps with the reason."""
        for pending in self._unanswered():
            self._settle([pending], pending.unknown(detail))

    def _of(self, receipt: Receipt, has_id: bool) -> list[PendingProposal]:
        with self._guard:
            at = self._by_position.get(receipt.source)
            found = [] if at is None else [at]
            if has_id:
                found += [each for each in self._by_id.get(receipt.proposal_id, ()) if each is not at]
            elif at is None:
                self._early[receipt.source] = receipt
                if len(self._early) > EARLY_MAX:
                    del self._early[next(iter(self._early))]
            return found

    def _oldest(self) -> PendingProposal | None:
        with self._guard:
            return next((each[0] for each in self._by_id.values()), None)

    def _unanswered(self) -> list[PendingProposal]:
        with self._guard:
            return [pending for each in self._by_id.values() for pending in each]

    def _settle(
        self, found: Iterable[PendingProposal], answer: Receipt | CommitLogError, *, tells: bool = False
    ) -> None:
        for pending in found:
            with self._guard:
                if pending._answer is None:
                    pending._answer = answer
                self._give(pending, tells)

    def _give(self, pending: PendingProposal, tells: bool) -> None:
        """Tells those who wait; whoever reads again after a signal has ended this in the middle does what is left of it."""
        for gate in pending._gates:
            if gate in self._gates:
                del self._gates[gate]
                self._answered[gate] = None
        self._see_that_one_goes_on()
        if pending in self._to_call_back:
            del self._to_call_back[pending]
            self._to_tell.append(pending)
            if len(self._to_tell) == 1 and not tells:
                self._wake()
        self._unlist(pending)

    def _unlist(self, pending: PendingProposal) -> None:
        waiting = self._by_id.get(pending.proposal_id)
        if waiting is not None and pending in waiting:
            waiting.remove(pending)
            if not waiting:
                del self._by_id[pending.proposal_id]
        if pending._position is not None:
            self._by_position.pop(pending._position, None)

    # --- whose turn it is to read -------------------------------------------------------------------------------------

    def wait_for(self, pending: PendingProposal, deadline: float) -> None:
        """Returns when the proposal is answered, or the deadline (of `Machine.now_s`) has come and what is there is read."""
        self._on_wait(len(self._gates) + self._reads_for_itself + 1)
        reader = object()
        try:
            while pending._answer is None:
                gate = self._gate_before_turn(pending, reader)
                if gate is None:
                    self._read_until(pending, deadline)
                elif self._goes_through(gate, pending, deadline):
                    continue
                if self.machine.now_s() >= deadline:
                    return
        except BaseException:
            self._open_all()
            raise
        finally:
            if self._reader is reader:
                # Interrupted as it took the turn, or as it let it go.
                self._pass_on()

    def call_back(self, pending: PendingProposal, tell: Tell, deadline: float) -> None:
        """Tells when the proposal is answered, or the deadline has come; at once if it is answered."""
        with self._guard:
            is_answered = pending._answer is not None
            if not is_answered:
                pending._tell = tell
                self._to_call_back[pending] = deadline
        if is_answered:
            tell(pending)
        else:
            self._wake()

    def read_for_others(self, timeout_s: float) -> None:
        """Reads what is there, and on as long as somebody is to be called back and nobody else reads; calls them back."""
        while True:
            came = self._read_in_turn(timeout_s)
            self._give_up_late()
            self.tell()
            if came is None or not (came or self._to_call_back):
                return

    def read_what_is_there(self) -> None:
        """Reads without waiting, unless somebody else reads."""
        while self._read_in_turn(0):
            pass

    def _read_in_turn(self, timeout_s: float) -> bool | None:
        """Whether anything came; None: it was another's turn, or all has ended."""
        with self._guard:
            if self._end is not None or not self._takes_turn(self):
                return None
        try:
            return self._read(timeout_s if self._to_call_back else 0)
        finally:
            self._pass_on()

    def _give_up_late(self) -> None:
        now = self.machine.now_s()
        if now - self._looked_for_late_at < LATE_S:
            return
        self._looked_for_late_at = now
        with self._guard:
            late = [pending for pending, deadline in self._to_call_back.items() if deadline <= now]
        for pending in late:
            self._settle([pending], pending.unknown())

    def tell(self) -> None:
        """Calls back who is to be, in this thread."""
        while True:
            try:
                pending = self._to_tell.popleft()
            except IndexError:
                return
            tell, pending._tell = pending._tell, None
            assert tell is not None
            tell(pending)

    def stop_reading(self) -> None:
        """Waits until nobody reads, and lets nobody read any more; to be called after `end`."""
        self._turn.acquire()

    def _gate_before_turn(self, pending: PendingProposal, reader: object) -> Lock | None:
        """None: it is the caller's turn to read; else what to wait at."""
        with self._guard:
            if self._takes_turn(reader):
                return None
            gate = self.machine.lock()
            gate.acquire()
            self._gates[gate] = None
            pending._gates.append(gate)
            if pending._answer is not None:
                self._open(gate)
            return gate

    def _takes_turn(self, reader: object) -> bool:
        """Whether nobody has the turn, and so this one does; under the guard."""
        if self._reader is not None:
            return False
        # Said before it is so: a signal may end this in between, and a turn that nobody lets go of ends all reading.
        self._reader = reader
        if self._turn.acquire(blocking=False):
            return True
        self._reader = None
        return False

    def _read_until(self, pending: PendingProposal, deadline: float) -> None:
        self._reads_for_itself = True
        try:
            while True:
                left_s = deadline - self.machine.now_s()
                self._read(max(left_s, 0.0))
                if pending._answer is not None or left_s <= 0:
                    return
        finally:
            self._reads_for_itself = False
            self._pass_on()

    def _goes_through(self, gate: Lock, pending: PendingProposal, deadline: float) -> bool:
        is_through = False
        try:
            is_through = gate.acquire(timeout=max(deadline - self.machine.now_s(), 0.0))
        finally:
            if not is_through:
                self._leave(gate, pending)
            elif gate is self._going_on:
                with self._guard:
                    took_s = self.machine.now_s() - self._let_go_on_at
                    self.going_on_s += (took_s - self.going_on_s) / GOING_ON_MEAN_OF
                    self._let_next_go_on()
        return is_through

    def _leave(self, gate: Lock, pending: PendingProposal) -> None:
        with self._guard:
            if gate in self._gates:
                del self._gates[gate]
            elif gate in self._answered:
                del self._answered[gate]
            elif gate is self._going_on:
                self._let_next_go_on()
            elif pending._answer is None:
                # It was opened just now, for this one to read.
                self._open_next()

    def _pass_on(self) -> None:
        with self._guard:
            if self._answered:
                # Who told them may have been interrupted before it let one go on.
                self._see_that_one_goes_on()
            self._open_next()
            self._reader = None
            self._turn.release()

    def _open_next(self) -> None:
        if self._gates:
            # The one who came last waits longest, and so passes on least often.
            self._open(next(reversed(self._gates)))
        elif self._to_call_back:
            self._wake()

    def _see_that_one_goes_on(self) -> None:
        if self._going_on is None or not _is_open(self._going_on):
            self._let_next_go_on()

    def _let_next_go_on(self) -> None:
        gate = next(iter(self._answered), None)
        if gate is None:
            self._going_on = None
            return
        # Before the gate is taken from the others: a signal may end this here.
        self._let_go_on_at = self.machine.now_s()
        self._going_on = gate
        del self._answered[gate]
        gate.release()

    def _open_all(self) -> None:
        """Each looks for itself: who was interrupted may have put up a gate that it does not go through, or let no other
        through after its own."""
        with self._guard:
            for gate in (*self._gates, *self._answered):
                gate.release()
            self._gates.clear()
            self._answered.clear()
            self._going_on = None

    def _open(self, gate: Lock) -> None:
        del self._gates[gate]
        gate.release()


def _is_open(gate: Lock) -> bool:
    """Whether nobody has gone through yet."""
    return not gate.locked()
