"""A program that proposes by a carrier, which the test plays; what the program sends by itself is only noted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import CommitLogError, LogUnavailableError, OutcomeUnknownError
from commitlog.log import carried
from commitlog.log.answers import Answers, PendingProposal
from commitlog.log.carried import UNANSWERED_MAX, Carried
from commitlog.log.carrier_line import (
    HELLO,
    PING,
    PONG,
    PROPOSAL,
    RECEIPT,
    WELCOME,
    Letter,
    Messages,
    address_of,
    hello,
    message,
    new_socket,
)
from commitlog.log.codec import encode_receipts

LOG_ID = bytes(range(16))
DEADLINE_S = 60.0


def id_of(number: int) -> bytes:
    return number.to_bytes(6, "big") + b"\x70\0\x80" + bytes(7)


def receipt_of(proposal_id: bytes, seq: int = 1, detail: str | None = None) -> m.Receipt:
    return m.Receipt(m.Position(0, seq), seq, proposal_id, m.Verdict.COMMITTED, seq, seq, None, detail, m.Assigned(), 0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline


class PlayedCarrier:
    """Takes one program after another; the test says what it does."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = new_socket()
        with address_of(path) as address:
            self._listener.bind(address)
        self._listener.listen()
        self._listener.settimeout(DEADLINE_S)
        self._messages = Messages()
        self._came: list[tuple[int, bytes]] = []

    def take_in(self, answers: bytes) -> None:
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(DEADLINE_S)
        self._messages, self._came = Messages(), []
        assert self.heard() == (HELLO, hello(LOG_ID)[5:])
        self.say(answers)

    def heard(self) -> tuple[int, bytes]:
        while not self._came:
            data = self._connection.recv(1_000_000)
            assert data, "the program has hung up"
            self._came += self._messages.cut(data)
        return self._came.pop(0)

    def letter(self) -> Letter:
        kind, body = self.heard()
        assert kind == PROPOSAL
        return Letter.of(body)

    def say(self, told: bytes) -> None:
        self._connection.sendall(told)

    def answer(self, proposal_id: bytes, seq: int = 1, *, detail: str | None = None, blocks: bool = True) -> None:
        encoded = encode_receipts([receipt_of(proposal_id, seq, detail)], log_id=LOG_ID, partition=0)
        self._connection.settimeout(DEADLINE_S if blocks else 0)
        self.say(message(RECEIPT, proposal_id + encoded))

    def looks(self) -> int:
        """How often a program has looked for it that it has not taken in."""
        self._listener.settimeout(0)
        count = 0
        with suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()
                count += 1
        return count

    def hang_up(self) -> None:
        self._connection.close()

    def close(self) -> None:
        self._listener.close()
        with suppress(AttributeError):
            self._connection.close()


class OwnPublisher:
    """What the program sends by itself, and the test answers."""

    def __init__(self) -> None:
        self._answers = Answers(lambda timeout_s: False, lambda: None)
        self.sent: list[PendingProposal] = []
        self.is_away = False
        self.asked = 0
        self._came = threading.Condition()

    def publish_bytes(
        self, encoded: bytes, proposal_id: bytes, writer_id: str, *, traceparent: str | None
    ) -> PendingProposal:
        self.asked += 1
        if self.is_away:
            raise LogUnavailableError("k:1")
        own = PendingProposal(self._answers, proposal_id, 0, DEADLINE_S)
        self._answers.expect(own)
        with self._came:
            self.sent.append(own)
            self._came.notify_all()
        return own

    def wait_for(self, count: int) -> list[PendingProposal]:
        with self._came:
            assert self._came.wait_for(lambda: len(self.sent) >= count, DEADLINE_S)
        return self.sent

    def answer(self, own: PendingProposal, answer: m.Receipt | CommitLogError) -> None:
        """Once somebody is to be called back."""
        deadline = time.monotonic() + DEADLINE_S
        while own._tell is None:
            assert time.monotonic() < deadline
        self._answers.settle(own, answer)
        self._answers.tell()


class World:
    """The program, its own publisher, and the carrier."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings.load(environment={}, home=home, log="lake")
        assert self.settings.carrier_socket is not None
        self.publisher = OwnPublisher()
        genesis = m.Genesis(log_id=LOG_ID, partitions=1)
        self.carried = Carried(self.settings, genesis, lambda timeout_s: cast(Any, self.publisher))
        self.carrier = PlayedCarrier(self.settings.carrier_socket)

    def publish(self, number: int = 1, *, is_awaited: bool = True) -> PendingProposal | None:
        return self.carried.publish_bytes(b"bytes", id_of(number), "w", is_awaited=is_awaited)

    def called_back(self, number: int, timeout_s: float = DEADLINE_S) -> Queue[PendingProposal]:
        """Nobody waits for the answer; has the proposal once it is there."""
        pending = self.publish(number, is_awaited=False)
        assert pending is not None
        told: Queue[PendingProposal] = Queue()
        pending.on_answer(told.put, timeout_s)
        return told

    def line(self, answers: bytes = message(WELCOME)) -> PendingProposal | None:
        """The first proposal makes the line."""
        taking = threading.Thread(target=self.carrier.take_in, args=(answers,))
        taking.start()
        pending = self.publish()
        taking.join()
        return pending

    def connected(self) -> PendingProposal:
        pending = self.line()
        assert pending is not None
        assert self.carrier.letter() == Letter(id_of(1), "w", b"bytes")
        return pending

    def waiting(self, pending: PendingProposal, timeout_s: float = DEADLINE_S) -> Callable[[], Any]:
        """Somebody waits for the answer; gives what they get."""
        got: list[Any] = []

        def wait() -> None:
            try:
                got.append(pending.wait(timeout_s))
            except CommitLogError as error:
                got.append(error)

        thread = threading.Thread(target=wait)
        thread.start()

        def result() -> Any:
            thread.join(DEADLINE_S)
            assert got, "no answer"
            return got[0]

        return result


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    try:
        yield world
    finally:
        world.carried.close()
        world.carrier.close()


def test_proposal_when_there_is_no_carrier_then_it_is_the_programs_own(tmp_path: Path, world: World) -> None:
    world.carrier.close()
    assert world.publish() is None
    assert world.settings.carrier_socket is not None
    world.settings.carrier_socket.unlink()
    assert world.publish() is None


def test_proposal_when_there_is_a_carrier_then_that_takes_it_and_brings_the_answer(world: World) -> None:
    pending = world.connected()
    result = world.waiting(pending)
    world.carrier.answer(id_of(1), seq=7)
    assert result().seq == 7
    second = world.publish(2)
    assert second is not None
    result = world.waiting(second)
    assert world.carrier.letter().proposal_id == id_of(2)
    world.carrier.answer(id_of(2), seq=8)
    assert result().seq == 8
    assert world.publisher.sent == []


@pytest.mark.parametrize("answers", [b"", b"HTTP/1.1 400 Bad Request\r\n", message(PONG) + message(WELCOME)])
def test_link_when_who_listens_is_no_carrier_of_this_log_then_the_proposal_is_the_programs_own(
    world: World, answers: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "WELCOME_S", 0.1)
    assert world.line(answers=answers) is None


def test_link_when_who_listens_says_nothing_then_it_is_long_until_anybody_looks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "WELCOME_S", 0.1)
    monkeypatch.setattr(carried, "RETRY_S", 0.0)
    assert world.publish() is None
    assert world.publish(2) is None
    assert world.carrier.looks() == 1


def test_link_when_another_thread_has_just_looked_in_vain_then_not_looked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def after_the_other() -> Iterator[None]:
        world.carried._looks_again_at_s = float("inf")
        yield

    monkeypatch.setattr(world.carried, "_changing", after_the_other())
    assert world.publish() is None
    monkeypatch.undo()
    assert world.carrier.looks() == 0


def test_carrier_when_it_hangs_up_then_all_it_had_is_sent_from_here_in_order(world: World) -> None:
    first = world.connected()
    second = world.publish(2)
    assert second is not None
    results = [world.waiting(first), world.waiting(second)]
    world.carrier.hang_up()
    own = world.publisher.wait_for(2)
    assert [each.proposal_id for each in own] == [id_of(1), id_of(2)]
    world.publisher.answer(own[1], receipt_of(id_of(2), seq=5))
    world.publisher.answer(own[0], OutcomeUnknownError("1", waited_ms=1))
    assert isinstance(results[0](), OutcomeUnknownError)
    assert results[1]().seq == 5


def test_carrier_when_it_has_hung_up_then_another_is_found_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = world.connected()
    world.carrier.hang_up()
    result = world.waiting(pending)
    world.publisher.answer(world.publisher.wait_for(1)[0], receipt_of(id_of(1)))
    result()
    assert world.publish(2) is None
    monkeypatch.setattr(world.carried, "_looks_again_at_s", 0.0)
    assert world.line() is not None


def test_carrier_when_it_had_answered_then_that_is_not_sent_again(world: World) -> None:
    first = world.connected()
    second = world.publish(2)
    assert second is not None
    world.carrier.answer(id_of(1), seq=3)
    assert first.wait(DEADLINE_S).seq == 3
    world.carrier.hang_up()
    result = world.waiting(second)
    [own] = world.publisher.wait_for(1)
    assert own.proposal_id == id_of(2)
    world.publisher.answer(own, receipt_of(id_of(2)))
    assert result().proposal_id == id_of(2)


def test_carrier_when_it_answers_and_then_says_what_nobody_understands_then_the_answer_counts(world: World) -> None:
    first = world.connected()
    second = world.publish(2)
    assert second is not None
    encoded = encode_receipts([receipt_of(id_of(1), seq=3)], log_id=LOG_ID, partition=0)
    world.carrier.say(message(RECEIPT, id_of(1) + encoded) + b"HTTP/1.1 400")
    assert world.waiting(first)().seq == 3
    [own] = world.publisher.wait_for(1)
    assert own.proposal_id == id_of(2)


@pytest.mark.parametrize("left", [1, 2])
def test_carrier_when_it_is_lost_and_a_signal_ends_what_is_sent_from_here_then_the_rest_is_sent_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    first, second = world.connected(), world.publish(2)
    assert second is not None
    publish_bytes, count = world.publisher.publish_bytes, 0

    def interrupted(*args: Any, **more: Any) -> PendingProposal:
        nonlocal count
        count += 1
        if count == 3 - left:
            raise KeyboardInterrupt
        return publish_bytes(*args, **more)

    monkeypatch.setattr(world.publisher, "publish_bytes", interrupted)
    world.carrier.hang_up()
    with pytest.raises(KeyboardInterrupt):
        first.wait(DEADLINE_S)
    result = world.waiting(second)
    assert [each.proposal_id for each in world.publisher.wait_for(2)] == [id_of(1), id_of(2)]
    world.publisher.answer(world.publisher.sent[1], receipt_of(id_of(2), seq=6))
    assert result().seq == 6


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400\r\n", message(RECEIPT, id_of(1) + b"no receipt"), message(HELLO)])
def test_carrier_when_it_says_what_nobody_understands_then_it_is_given_up(world: World, garbage: bytes) -> None:
    pending = world.connected()
    result = world.waiting(pending)
    world.carrier.say(garbage)
    world.publisher.answer(world.publisher.wait_for(1)[0], receipt_of(id_of(1), seq=9))
    assert result().seq == 9


def test_carrier_when_it_is_silent_then_it_is_asked_and_given_up_if_it_stays_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "SILENT_S_MAX", 0.1)
    pending = world.connected()
    result = world.waiting(pending)
    for _ in range(3):
        assert world.carrier.heard()[0] == PING
        world.carrier.say(message(PONG))
    assert world.publisher.sent == []
    assert world.carrier.heard()[0] == PING
    world.publisher.answer(world.publisher.wait_for(1)[0], receipt_of(id_of(1), seq=4))
    assert result().seq == 4


def test_carrier_when_it_is_lost_and_nothing_can_be_sent_from_here_then_the_outcome_is_unknown(world: World) -> None:
    pending = world.connected()
    world.publisher.is_away = True
    result = world.waiting(pending)
    world.carrier.hang_up()
    assert isinstance(result(), OutcomeUnknownError)


def test_proposal_when_it_is_given_up_then_it_may_still_come_to_the_log_and_is_not_sent_again(world: World) -> None:
    pending = world.connected()
    with pytest.raises(OutcomeUnknownError):
        pending.wait(0.01)
    pending.forget()
    assert world.carried.is_sending(id_of(1))
    second = world.publish(2)
    assert second is not None
    result = world.waiting(second)
    world.carrier.hang_up()
    [own] = world.publisher.wait_for(1)
    assert own.proposal_id == id_of(2)
    world.publisher.answer(own, receipt_of(id_of(2)))
    result()
    assert not world.carried.is_sending(id_of(1))


def test_proposal_when_its_answer_comes_late_then_it_is_not_on_its_way_any_more(world: World) -> None:
    pending = world.connected()
    pending.forget()
    world.carrier.answer(id_of(1))
    until(lambda: not world.carried.is_sending(id_of(1)))


def test_program_when_many_of_its_threads_wait_then_it_sends_by_itself_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.connected()
    found = [world.publish(number) for number in range(2, UNANSWERED_MAX + 4)]
    assert [each is None for each in found] == [False] * UNANSWERED_MAX + [True] * 2
    for pending in found[:UNANSWERED_MAX]:
        assert pending is not None
        pending.forget()
    # What nobody waits for any more is answered, too, and needs room.
    for number in (4, 5):
        monkeypatch.setattr(world.carried, "_by_itself_until_s", 0.0)
        assert world.publish(UNANSWERED_MAX + number) is None
    world.carrier.answer(id_of(2))
    until(lambda: not world.carried.is_sending(id_of(2)))
    assert world.publish(UNANSWERED_MAX + 6) is None
    monkeypatch.setattr(world.carried, "_by_itself_until_s", 0.0)
    assert world.publish(UNANSWERED_MAX + 7) is not None


def test_carrier_when_as_many_threads_wait_as_may_and_none_reads_then_the_line_has_room_for_their_answers(
    world: World,
) -> None:
    pendings = [world.connected(), *(world.publish(number) for number in range(2, UNANSWERED_MAX + 2))]
    for number in range(1, UNANSWERED_MAX + 2):
        world.carrier.answer(id_of(number), detail="d" * 500, blocks=False)
    for pending in pendings:
        assert pending is not None
        assert pending.wait(DEADLINE_S).proposal_id == pending.proposal_id


def test_proposal_when_nobody_waits_for_it_then_called_back_once_its_answer_comes(world: World) -> None:
    world.connected().forget()
    first, second = world.called_back(2), world.called_back(3)
    assert [world.carrier.letter().is_awaited for _ in range(2)] == [False, False]
    for told, number in ((second, 3), (first, 2)):
        world.carrier.answer(id_of(number))
        pending = told.get(timeout=DEADLINE_S)
        assert (pending.proposal_id, pending.wait(0).proposal_id) == (id_of(number), id_of(number))


def test_proposal_when_nobody_waits_for_it_and_no_answer_comes_then_called_back_when_the_time_is_over(
    world: World,
) -> None:
    world.connected().forget()
    pending = world.called_back(2, 0.01).get(timeout=DEADLINE_S)
    with pytest.raises(OutcomeUnknownError):
        pending.wait(0)


def test_proposal_when_its_time_is_over_while_another_reads_then_called_back(world: World) -> None:
    result = world.waiting(world.connected())
    until(lambda: world.carried._answers._reader is not None)
    pending = world.called_back(2, 0.01).get(timeout=DEADLINE_S)
    with pytest.raises(OutcomeUnknownError):
        pending.wait(0)
    world.carrier.answer(id_of(1))
    assert result().proposal_id == id_of(1)


def test_carrier_when_it_is_lost_and_nothing_can_be_sent_from_here_then_not_tried_for_each(world: World) -> None:
    world.connected().forget()
    world.publisher.is_away = True
    told = [world.called_back(number) for number in range(2, 6)]
    world.carrier.hang_up()
    for each in told:
        with pytest.raises(OutcomeUnknownError):
            each.get(timeout=DEADLINE_S).wait(0)
    assert world.publisher.asked == 1


def test_carrier_when_it_hangs_up_and_nobody_waits_then_sent_from_here_and_called_back(world: World) -> None:
    world.connected().forget()
    told = world.called_back(2)
    world.carrier.hang_up()
    [own] = world.publisher.wait_for(1)
    world.publisher.answer(own, receipt_of(id_of(2)))
    assert told.get(timeout=DEADLINE_S).wait(0).proposal_id == id_of(2)


def test_log_when_it_is_closed_then_who_is_to_be_called_back_is_before(world: World) -> None:
    world.connected().forget()
    told = world.called_back(2)
    closing = threading.Thread(target=world.carried.close)
    closing.start()
    until(lambda: world.carried._is_closed)
    world.carrier.answer(id_of(2))
    closing.join(DEADLINE_S)
    assert told.get_nowait().wait(0).proposal_id == id_of(2)


def test_log_when_it_is_closed_while_another_reads_then_who_is_to_be_called_back_is_told_that_it_is_unknown(
    world: World,
) -> None:
    result = world.waiting(world.connected())
    until(lambda: world.carried._answers._reader is not None)
    told = world.called_back(2)
    world.carried.close()
    with pytest.raises(OutcomeUnknownError):
        told.get_nowait().wait(0)
    assert isinstance(result(), OutcomeUnknownError)


def test_log_when_it_is_closed_then_what_is_unanswered_is_unknown_and_nothing_is_taken_any_more(world: World) -> None:
    pending = world.connected()
    result = world.waiting(pending)
    world.carried.close()
    assert isinstance(result(), OutcomeUnknownError)
    assert world.publish(2) is None
