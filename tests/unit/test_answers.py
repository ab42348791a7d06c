"""Who waits for which answer, and whose turn it is to read, without Kafka."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

import pytest

from commitlog.domain import model as m
from commitlog.errors import LogUnavailableError, OutcomeUnknownError
from commitlog.log.answers import EARLY_MAX, Answers, PendingProposal, _is_open
from commitlog.machine import Lock

PATIENCE_S = 30.0
GONE = LogUnavailableError("k:1")


def an_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def receipt(number: int, *, offset: int = 0, reason: m.Reason | None = None) -> m.Receipt:
    verdict = m.Verdict.COMMITTED if reason is None else m.Verdict.REJECTED
    return m.Receipt(
        source=m.Position(0, offset), seq=number, proposal_id=an_id(number), verdict=verdict, snapshot_id=None,
        head_snapshot_id=0, reason=reason, detail=None, assigned=m.Assigned(), decided_at_ms=0,
    )  # fmt: skip


class Reading:
    """What Kafka gives out, put in by the test; an exception is raised where it comes. ``readers``: who has read."""

    def __init__(self) -> None:
        self.coming: SimpleQueue[list[m.Receipt] | BaseException] = SimpleQueue()
        self.deliveries: list[Callable[[], None]] = []
        self.readers: list[threading.Thread] = []
        self.inside = threading.Semaphore(1)
        self.began = threading.Event()
        self.woken = threading.Event()
        self.waiting: list[int] = []
        self.answers = Answers(self.read, self.woken.set, on_wait=self.waiting.append)

    def read(self, timeout_s: float) -> bool:
        assert self.inside.acquire(blocking=False), "two read at once"
        self.readers.append(threading.current_thread())
        self.began.set()
        try:
            came = self.coming.get(timeout=min(timeout_s, 0.05)) if timeout_s else self.coming.get_nowait()
        except Empty:
            return False
        finally:
            self.inside.release()
        if isinstance(came, BaseException):
            raise came
        self.answers.take(came, self.hear_deliveries)
        return True

    def hear_deliveries(self) -> None:
        while self.deliveries:
            self.deliveries.pop()()

    def sent(self, number: int, *, partition: int = 0) -> PendingProposal:
        pending = PendingProposal(self.answers, an_id(number), partition, PATIENCE_S)
        self.answers.expect(pending)
        return pending


@pytest.fixture
def reading() -> Reading:
    return Reading()


class Waiting(threading.Thread):
    """A thread that waits for an answer. ``found``: the answer, or what was raised."""

    def __init__(self, pending: PendingProposal, timeout_s: float = PATIENCE_S) -> None:
        super().__init__(daemon=True)
        self._pending, self._timeout_s = pending, timeout_s
        self.found: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self._pending.wait(self._timeout_s)
        except BaseException as error:
            self.found = error

    def ended(self) -> Any:
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self.found


def waits_at_gate(reading: Reading, count: int) -> None:
    """Returns when so many wait while another reads."""
    end = threading.Event()
    while len(reading.answers._gates) < count:
        assert not end.wait(0.001)


def test_wait_when_nobody_reads_then_the_one_who_waits_does(reading: Reading) -> None:
    pending = reading.sent(1)
    reading.coming.put([receipt(2), receipt(1)])
    assert pending.wait().seq == 1
    assert reading.readers == [threading.current_thread()]
    assert pending.done


def test_wait_when_another_reads_then_it_is_told(reading: Reading) -> None:
    first = Waiting(reading.sent(1))
    assert reading.began.wait(PATIENCE_S)
    second = Waiting(reading.sent(2))
    waits_at_gate(reading, 1)
    reading.coming.put([receipt(2)])
    assert second.ended().seq == 2
    reading.coming.put([receipt(1)])
    assert first.ended().seq == 1
    assert set(reading.readers) == {first}


def test_wait_when_the_reader_has_its_answer_then_another_reads_on(reading: Reading) -> None:
    first = Waiting(reading.sent(1))
    assert reading.began.wait(PATIENCE_S)
    others = [Waiting(reading.sent(number)) for number in range(2, 10)]
    waits_at_gate(reading, 8)
    for number in range(1, 10):
        reading.coming.put([receipt(number)])
    assert [each.ended().seq for each in (first, *others)] == list(range(1, 10))


def test_wait_when_the_reader_gives_up_then_another_reads_on(reading: Reading) -> None:
    hasty = Waiting(reading.sent(1), timeout_s=0.2)
    assert reading.began.wait(PATIENCE_S)
    patient = Waiting(reading.sent(2))
    assert isinstance(hasty.ended(), OutcomeUnknownError)
    reading.coming.put([receipt(2)])
    assert patient.ended().seq == 2


def test_wait_when_the_reader_is_interrupted_then_another_reads_on(reading: Reading) -> None:
    first = Waiting(reading.sent(1))
    assert reading.began.wait(PATIENCE_S)
    second = Waiting(reading.sent(2))
    waits_at_gate(reading, 1)
    reading.coming.put(KeyboardInterrupt())
    assert isinstance(first.ended(), KeyboardInterrupt)
    reading.coming.put([receipt(2)])
    assert second.ended().seq == 2


class Interrupting:
    """Interrupts this thread where the handler of a signal may: as a function begins, or after a call of C's, the nth time."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    @property
    def has_interrupted(self) -> bool:
        return self._left == 0

    def __enter__(self) -> None:
        sys.setprofile(self._look)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return") and frame.f_globals.get("__name__") == PendingProposal.__module__:
            self._left -= 1
            if self._left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


def test_wait_when_it_is_interrupted_anywhere_then_the_next_one_reads(reading: Reading) -> None:
    for nth in count(1):
        pending, interrupting = reading.sent(nth), Interrupting(nth)
        reading.coming.put([receipt(nth)])
        with suppress(KeyboardInterrupt), interrupting:
            assert pending.wait().seq == nth
        # What it had read by then, whoever reads goes back to.
        reading.coming.put([receipt(nth)])
        assert pending.wait(1).seq == nth
        if not interrupting.has_interrupted:
            break
    reading.answers.stop_reading()


def test_gate_when_the_reader_is_interrupted_anywhere_as_it_tells_then_it_opens(reading: Reading) -> None:
    for nth in count(1):
        assert reading.answers._gate_before_turn(reading.sent(0), 0) is None
        gate, interrupting = reading.answers._gate_before_turn(reading.sent(nth), nth), Interrupting(nth)
        with suppress(KeyboardInterrupt), interrupting:
            reading.answers.take([receipt(nth)], lambda: None)
        reading.answers._pass_on()
        assert gate is not None
        assert gate.acquire(blocking=False)
        if not interrupting.has_interrupted:
            break


def test_gate_when_the_one_before_is_interrupted_anywhere_then_it_opens() -> None:
    for nth in count(1):
        reading, interrupting, has_ended = Reading(), Interrupting(nth), threading.Event()
        answers = reading.answers
        first, second = reading.sent(1), reading.sent(2)
        assert answers._gate_before_turn(reading.sent(0), 0) is None
        gate = answers._gate_before_turn(second, 2)

        def tell(answers: Answers = answers, has_ended: threading.Event = has_ended) -> None:
            while len(answers._gates) < 2 and not has_ended.wait(0.001):
                pass
            answers.take([receipt(1), receipt(2)], lambda: None)

        telling = threading.Thread(target=tell)
        telling.start()
        with suppress(KeyboardInterrupt), interrupting:
            assert first.wait().seq == 1
        has_ended.set()
        telling.join()
        assert gate is not None
        assert gate.acquire(blocking=False)
        if not interrupting.has_interrupted:
            break


def test_gate_when_the_reader_is_interrupted_as_it_looks_at_it_then_it_stays_open(reading: Reading) -> None:
    gate = reading.answers.machine.lock()
    for nth in count(1):
        interrupting = Interrupting(nth)
        with suppress(KeyboardInterrupt), interrupting:
            _is_open(gate)
        assert gate.acquire(blocking=False)
        gate.release()
        if not interrupting.has_interrupted:
            break


def test_wait_when_one_at_the_gate_gives_up_then_nobody_is_left_behind(reading: Reading) -> None:
    first = Waiting(reading.sent(1))
    assert reading.began.wait(PATIENCE_S)
    patient = Waiting(reading.sent(2))
    waits_at_gate(reading, 1)
    hasty = Waiting(reading.sent(3), timeout_s=0.1)
    assert isinstance(hasty.ended(), OutcomeUnknownError)
    reading.coming.put([receipt(1)])
    assert first.ended().seq == 1
    reading.coming.put([receipt(2)])
    assert patient.ended().seq == 2


def test_gate_when_the_answer_came_just_before_it_was_put_up_then_open(reading: Reading) -> None:
    pending = reading.sent(1)
    assert reading.answers._gate_before_turn(reading.sent(2), 2) is None
    reading.answers.take([receipt(1)], lambda: None)
    gate = reading.answers._gate_before_turn(pending, 1)
    assert gate is not None
    assert gate.acquire(blocking=False)


def test_gate_when_opened_for_one_who_has_just_given_up_then_another_is_opened(reading: Reading) -> None:
    assert reading.answers._gate_before_turn(reading.sent(1), 1) is None
    patient, hasty = reading.sent(2), reading.sent(3)
    first, last = (reading.answers._gate_before_turn(each, each) for each in (patient, hasty))
    assert first is not None
    assert last is not None
    reading.answers._pass_on()
    reading.answers._leave(last, hasty)
    assert first.acquire(blocking=False)


@pytest.fixture
def three(reading: Reading) -> list[tuple[Lock, PendingProposal]]:
    """Gates of three who wait while another reads."""
    assert reading.answers._gate_before_turn(reading.sent(9), 9) is None
    sent = [reading.sent(number) for number in range(3)]
    gates = [reading.answers._gate_before_turn(pending, pending) for pending in sent]
    return [(gate, pending) for gate, pending in zip(gates, sent, strict=True) if gate is not None]


def opened(three: list[tuple[Lock, PendingProposal]]) -> list[bool]:
    return [_is_open(gate) for gate, _ in three]


def test_gates_when_three_are_answered_together_then_each_lets_the_next_one_through(
    reading: Reading, three: list[tuple[Lock, PendingProposal]]
) -> None:
    reading.answers.take([receipt(number) for number in range(3)], lambda: None)
    assert opened(three) == [True, False, False]
    assert reading.answers._goes_through(*three[0], 0)
    assert opened(three) == [False, True, False]
    assert reading.answers._goes_through(*three[1], 0)
    assert opened(three) == [False, False, True]
    assert reading.answers._goes_through(*three[2], 0)
    reading.answers.take([receipt(9)], lambda: None)
    assert not reading.answers._gates
    assert 0 < reading.answers.going_on_s < PATIENCE_S


def test_gates_when_those_whose_turn_it_is_have_given_up_then_the_last_one_is_opened(
    reading: Reading, three: list[tuple[Lock, PendingProposal]]
) -> None:
    reading.answers.take([receipt(number) for number in range(3)], lambda: None)
    reading.answers._leave(*three[1])
    assert opened(three) == [True, False, False]
    reading.answers._leave(*three[0])
    assert opened(three)[2]


def test_gates_when_one_was_interrupted_as_it_went_through_then_the_next_answer_opens_another(
    reading: Reading, three: list[tuple[Lock, PendingProposal]]
) -> None:
    reading.answers.take([receipt(0), receipt(1)], lambda: None)
    assert three[0][0].acquire(blocking=False)
    assert opened(three) == [False, False, False]
    reading.answers.take([receipt(2)], lambda: None)
    assert opened(three) == [False, True, False]


def test_wait_when_others_wait_too_then_it_is_told_how_many_do(reading: Reading) -> None:
    first = Waiting(reading.sent(1))
    assert reading.began.wait(PATIENCE_S)
    second = Waiting(reading.sent(2))
    waits_at_gate(reading, 1)
    third = Waiting(reading.sent(3))
    waits_at_gate(reading, 2)
    assert reading.waiting == [1, 2, 3]
    reading.coming.put([receipt(number) for number in (1, 2, 3)])
    assert [each.ended().seq for each in (first, second, third)] == [1, 2, 3]
    reading.coming.put([receipt(4)])
    assert reading.sent(4).wait().seq == 4
    assert reading.waiting == [1, 2, 3, 1]


def test_wait_when_two_wait_for_the_same_then_both_are_told(reading: Reading) -> None:
    pending = reading.sent(1)
    both = [Waiting(pending), Waiting(pending)]
    waits_at_gate(reading, 1)
    reading.coming.put([receipt(1)])
    assert [each.ended().seq for each in both] == [1, 1]


def test_wait_when_the_time_is_over_already_then_what_is_there_is_read(reading: Reading) -> None:
    pending = reading.sent(1)
    reading.coming.put([receipt(1)])
    assert pending.wait(0).seq == 1
    with pytest.raises(OutcomeUnknownError):
        reading.sent(2).wait(0)


def test_wait_when_many_threads_commit_in_loops_then_each_gets_its_own_answers(reading: Reading) -> None:
    found: list[bool] = []

    def loop(base: int) -> None:
        for number in range(base, base + 50):
            pending = reading.sent(number)
            reading.coming.put([receipt(number)])
            found.append(pending.wait().seq == number)

    threads = [threading.Thread(target=loop, args=(1000 * writer,)) for writer in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [True] * 800


def test_on_answer_when_it_comes_then_called_once_and_at_once_afterwards(reading: Reading) -> None:
    pending, called = reading.sent(1), []
    pending.on_answer(called.append)
    assert reading.woken.is_set()
    reading.coming.put([receipt(1)])
    reading.answers.read_for_others(0.05)
    pending.on_answer(called.append)
    assert called == [pending, pending]


def test_on_answer_when_the_time_is_over_then_called_with_what_is_unknown(reading: Reading) -> None:
    pending, called = reading.sent(1), []
    pending.on_answer(called.append, 0)
    reading.answers.read_for_others(0.05)
    assert called == [pending]
    with pytest.raises(OutcomeUnknownError):
        pending.wait(PATIENCE_S)


def test_on_answer_when_what_is_called_waits_for_another_then_it_reads_itself(reading: Reading) -> None:
    other = reading.sent(2)
    found: list[int] = []

    def wait(_: PendingProposal) -> None:
        reading.coming.put([receipt(2)])
        found.append(other.wait().seq)

    reading.sent(1).on_answer(wait)
    reading.coming.put([receipt(1)])
    reading.answers.read_for_others(0.05)
    assert found == [2]


def test_on_answer_when_another_thread_hears_it_then_who_calls_back_is_woken_at_once(reading: Reading) -> None:
    called: list[threading.Thread] = []
    reading.sent(1).on_answer(lambda _: called.append(threading.current_thread()))
    waiting = Waiting(reading.sent(2))
    assert reading.began.wait(PATIENCE_S)
    reading.woken.clear()
    reading.coming.put([receipt(1)])
    assert reading.woken.wait(PATIENCE_S)
    assert not called
    reading.answers.read_for_others(0.05)
    assert called == [threading.current_thread()]
    reading.coming.put([receipt(2)])
    assert waiting.ended().seq == 2


def test_take_when_who_takes_tells_then_called_back_from_there_and_nobody_is_woken(reading: Reading) -> None:
    told: list[tuple[PendingProposal, threading.Thread]] = []
    pending = [reading.sent(1), reading.sent(2)]
    for each in pending:
        each.on_answer(lambda each: told.append((each, threading.current_thread())))
    reading.woken.clear()
    reading.answers.take([receipt(1), receipt(2)], reading.hear_deliveries, tells=True)
    assert told == [(each, threading.current_thread()) for each in pending]
    assert not reading.woken.is_set()
    reading.answers.tell()
    assert len(told) == 2


def test_wait_for_room_when_too_many_are_unanswered_then_reads_until_they_are_fewer(reading: Reading) -> None:
    pending = [reading.sent(number) for number in range(4)]
    assert not reading.answers.wait_for_room(3, 0)
    reading.coming.put([receipt(3)])
    assert reading.answers.wait_for_room(3, threading.TIMEOUT_MAX)
    assert [each.done for each in pending] == [False, False, False, True]
    pending[0].forget()
    assert reading.answers.wait_for_room(2, 0)


def test_on_answer_when_the_reader_has_its_own_then_somebody_is_woken_to_read(reading: Reading) -> None:
    called: list[PendingProposal] = []
    reading.sent(1).on_answer(called.append)
    reading.woken.clear()
    reading.coming.put([receipt(2)])
    reading.sent(2).wait()
    assert reading.woken.is_set()
    assert not called


def test_on_answer_when_it_comes_later_then_the_one_reader_reads_until_it_is_there(reading: Reading) -> None:
    answered = threading.Event()
    reading.sent(1).on_answer(lambda pending: answered.set())
    reader = threading.Thread(target=reading.answers.read_for_others, args=(PATIENCE_S,), daemon=True)
    reader.start()
    assert reading.began.wait(PATIENCE_S)
    reading.coming.put([receipt(2)])
    reading.coming.put([receipt(1)])
    assert answered.wait(PATIENCE_S)
    reader.join(PATIENCE_S)
    assert not reader.is_alive()


def test_receipt_when_one_id_was_sent_twice_then_answers_both(reading: Reading) -> None:
    first, second = reading.sent(1), reading.sent(1)
    reading.answers.place(second, 4)
    reading.coming.put([receipt(1, offset=4)])
    assert (second.wait(0).seq, first.wait(0).seq) == (1, 1)


def test_receipt_when_another_comes_after_it_then_the_first_stays(reading: Reading) -> None:
    pending = reading.sent(1)
    called: list[PendingProposal] = []
    pending.on_answer(called.append)
    reading.coming.put([receipt(1)])
    reading.answers.read_for_others(0.05)
    reading.answers.settle(pending, GONE)
    assert pending.wait(0).seq == 1
    assert called == [pending]


def test_receipt_when_it_comes_before_the_report_then_nothing_is_kept_of_either(reading: Reading) -> None:
    pending = reading.sent(1)
    reading.coming.put([receipt(1, offset=4)])
    pending.wait(0)
    reading.answers.place(pending, 4)
    assert not reading.answers._by_position
    assert not reading.answers._by_id


def test_receipt_when_malformed_ones_of_others_come_then_only_the_newest_are_kept(reading: Reading) -> None:
    reading.answers.take(
        (receipt(1, offset=offset, reason=m.Reason.MALFORMED) for offset in range(EARLY_MAX + 10)), lambda: None
    )
    assert len(reading.answers._early) == EARLY_MAX
    forgotten, kept = reading.sent(1), reading.sent(1)
    reading.answers.place(forgotten, 9)
    reading.answers.place(kept, 10)
    assert (forgotten.done, kept.done) == (False, True)


def test_lose_when_receipts_of_a_partition_are_gone_then_unknown_there_only(reading: Reading) -> None:
    lost, other = reading.sent(1, partition=3), reading.sent(2)
    reading.answers.lose(3)
    with pytest.raises(OutcomeUnknownError):
        lost.wait()
    assert not other.done


def test_receipt_when_malformed_then_only_the_offset_tells(reading: Reading) -> None:
    pending = reading.sent(1)
    reading.coming.put([receipt(1, offset=7, reason=m.Reason.MALFORMED)])
    with pytest.raises(OutcomeUnknownError):
        pending.wait(0)
    reading.answers.place(pending, 7)
    assert pending.wait(0).reason is m.Reason.MALFORMED


def test_receipt_when_malformed_and_delivered_meanwhile_then_the_report_is_heard_first(reading: Reading) -> None:
    pending = reading.sent(1)
    reading.deliveries.append(lambda: reading.answers.place(pending, 7))
    reading.coming.put([receipt(1, offset=7, reason=m.Reason.MALFORMED)])
    assert pending.wait(0).reason is m.Reason.MALFORMED
    assert not reading.answers._early


def test_end_when_something_is_awaited_then_unknown_and_nothing_new(reading: Reading) -> None:
    waiting = Waiting(reading.sent(1))
    assert reading.began.wait(PATIENCE_S)
    reading.answers.end(GONE)
    assert isinstance(waiting.ended(), OutcomeUnknownError)
    reading.answers.stop_reading()
    with pytest.raises(LogUnavailableError):
        reading.sent(2)
