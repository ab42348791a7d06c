"""Programs that propose by the carrier of their machine, on a real broker."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from interrupting import each_interrupted
from log_running import Ids, append, create_table, make_log, messages_of, proposal, seed_of, serving, wait_until

from commitlog import compiled
from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.access.kafka_access import KafkaAccess
from commitlog.client.access.log_access import PendingAnswer
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.ids import partition_for
from commitlog.errors import ConfigurationError, LogUnavailableError, ProposalTooLargeError
from commitlog.log.carrier import Carrier
from commitlog.log.carrier_line import PROPOSAL, address_of, hello, message, new_socket
from commitlog.log.codec import decode_proposal, decode_receipts, encode_proposal, encode_receipts
from commitlog.log.genesis import require_genesis
from commitlog.log.publisher import Publisher
from commitlog.log.replies import Replier
from commitlog.log.sending import Sender
from commitlog.log.topics import topics_of
from commitlog.ops.service.supervisor import CARRIER, COMMITLOG

ANSWER_S = 60.0
HELLO = b"what a program of this log says first"


@pytest.fixture
def settings(kafka: str, log_name: str, tmp_path: Path) -> Settings:
    return make_log(kafka, log_name, tmp_path, proposal_bytes_max=20_000)


@contextmanager
def carrying(settings: Settings) -> Iterator[Carrier]:
    """A carrier in a thread of this process, which it leaves as it was; what it raised is raised at the end."""
    stop = threading.Event()
    carrier = Carrier(settings)
    assert settings.carrier_socket is not None
    with ThreadPoolExecutor(1) as pool:
        policy = pool.submit(own_policy).result()
        running = pool.submit(carrier.run, stop)
        try:
            wait_until(lambda: settings.carrier_socket.exists() or running.done(), "a carrier")
            yield carrier
        finally:
            stop.set()
        running.result()
        assert pool.submit(own_policy).result() == policy


def own_policy() -> int:
    """How this thread gets a core; 0 where the system does not say."""
    return os.sched_getscheduler(0) if sys.platform == "linux" else 0


@contextmanager
def carrier_process(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """`commitlog carrier`, killed at the end."""
    assert settings.carrier_socket is not None
    process = subprocess.Popen([*COMMITLOG, *CARRIER.arguments], env=settings.environment())
    try:
        wait_until(settings.carrier_socket.exists, "a carrier")
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def programs(settings: Settings, count: int) -> Iterator[list[KafkaAccess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(KafkaAccess(settings))) for _ in range(count)]


def sent(access: KafkaAccess, made: m.Proposal, encoded: bytes | None = None) -> PendingAnswer:
    """By whoever waits for the answer."""
    return access.send(made, encode_proposal(made) if encoded is None else encoded, is_awaited=True)


def bulk(access: KafkaAccess, made: m.Proposal, timeout_s: float = ANSWER_S) -> PendingAnswer:
    """By whoever sends as many as can be."""
    return access.send(made, encode_proposal(made), timeout_s=timeout_s, is_bulk=True)


def line(carrier: Carrier, accesses: list[KafkaAccess], ids: Ids, *, before: int = 0) -> None:
    """Each program looks for the carrier with its first proposal, beside those that were there before."""
    for number, access in enumerate(accesses, before):
        sent(access, proposal(ids, 0, create_table(f"of-{number}"))).wait(ANSWER_S)
    wait_until(lambda: carrier.programs == before + len(accesses), "the programs to be connected")


def proposed(settings: Settings) -> Counter[bytes]:
    """How often each proposal is in the log."""
    found: Counter[bytes] = Counter()
    for partition in range(2):
        for value in messages_of(settings, topics_of(settings.log).proposals, partition):
            found[decode_proposal(value).proposal_id] += 1
    return found


def test_programs_when_a_carrier_runs_then_it_takes_what_they_propose_and_each_gets_its_own_answer(
    settings: Settings, ids: Ids
) -> None:
    with serving(settings), carrying(settings) as carrier, programs(settings, 3) as accesses:
        line(carrier, accesses, ids)
        before = carrier.carried
        for turn in range(20):
            made = [proposal(ids, 3, append(f"{turn}-{n}", f"of-{n}"), writer=f"w{n}") for n in range(3)]
            pending = [sent(access, each) for access, each in zip(accesses, made, strict=True)]
            receipts = [each.wait(ANSWER_S) for each in pending]
            assert [each.proposal_id for each in receipts] == [each.proposal_id for each in made]
            assert [each.verdict for each in receipts] == [m.Verdict.COMMITTED] * 3
        assert carrier.carried - before == 60
    assert set(proposed(settings).values()) == {1}
    assert settings.carrier_socket is not None
    assert not settings.carrier_socket.exists()


def test_programs_when_the_sequencer_is_on_their_machine_then_answered_before_kafka_is_told(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.carrier_socket is not None

    def told() -> list[int]:
        """How often Kafka was told of each."""
        found = Counter(
            receipt.proposal_id
            for partition in range(2)
            for value in messages_of(settings, topics_of(settings.log).receipts, partition)
            for receipt in decode_receipts(value).receipts
        )
        return [found[each.proposal_id] for each in made]

    with carrying(settings) as carrier, programs(settings, 2) as accesses:
        with serving(settings):
            line(carrier, accesses, ids)
        before = carrier.carried
        made = [proposal(ids, 2, append(f"{n}", f"of-{n}"), writer=f"w{n}") for n in range(2)]
        pending = [sent(access, each) for access, each in zip(accesses, made, strict=True)]
        wait_until(lambda: carrier.carried == before + 2, "the carrier to have them")
        say_what_is_no_reply(settings.carrier_socket, made)
        with monkeypatch.context() as never, serving(settings):
            never.setattr("commitlog.log.producing.LATER_S", 1e9)
            assert [each.wait(ANSWER_S).verdict for each in pending] == [m.Verdict.COMMITTED] * 2
            assert told() == [0, 0]
        # A sequencer that ends leaves nothing untold.
        assert told() == [1, 1]
    assert list(settings.carrier_socket.parent.iterdir()) == []


def say_what_is_no_reply(carrier_socket: Path, made: list[m.Proposal]) -> None:
    """Nothing, no receipts, and those of another log."""
    [replies] = carrier_socket.parent.glob(f"{carrier_socket.name}.*")
    refused = [
        m.Receipt(
            m.Position(0, 0), 1, each.proposal_id, m.Verdict.REJECTED, None, 0, m.Reason.INVALID, None, m.Assigned(), 0
        )
        for each in made
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger, address_of(replies) as address:
        for said in (b"", b"no receipts", encode_receipts(refused, log_id=bytes(16), partition=0)):
            stranger.sendto(said, address)


def test_programs_when_a_reply_is_lost_then_kafka_brings_the_answer(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[bytes] = []

    def lose(self: Replier, reply_to: str, receipts: bytes) -> bool:
        lost.append(receipts)
        return True

    monkeypatch.setattr(Replier, "reply", lose)
    with serving(settings), carrying(settings) as carrier, programs(settings, 2) as accesses:
        line(carrier, accesses, ids)
        before = carrier.carried
        made = proposal(ids, 2, append("a", "of-0"))
        assert sent(accesses[0], made).wait(ANSWER_S).verdict is m.Verdict.COMMITTED
        assert carrier.carried == before + 1
    assert [each.proposal_id for each in decode_receipts(lost[-1]).receipts] == [made.proposal_id]


@pytest.mark.parametrize(("busy_per_s", "lingers"), [(0, True), (1_000_000_000, False)])
def test_carrier_when_few_propose_in_a_second_then_nobody_waits_for_others(
    settings: Settings,
    ids: Ids,
    monkeypatch: pytest.MonkeyPatch,
    busy_per_s: int,
    lingers: bool,
) -> None:
    monkeypatch.setattr("commitlog.log.carrier.BUSY_PER_S", busy_per_s)
    lingered: list[int] = []
    send = Sender.send

    def noted(self: Sender, *args: Any, **more: Any) -> None:
        lingered.append(self.linger_ms)
        send(self, *args, **more)

    monkeypatch.setattr(Sender, "send", noted)
    with serving(settings), carrying(settings) as carrier, programs(settings, 2) as accesses:
        line(carrier, accesses, ids)

        def turn() -> bool:
            made = [proposal(ids, 2, append(f"{len(lingered)}-{n}", f"of-{n}"), writer=f"w{n}") for n in range(2)]
            for each in [sent(access, one) for access, one in zip(accesses, made, strict=True)]:
                each.wait(ANSWER_S)
            return any(lingered)

        if lingers:
            # Who sends what lingers is made beside it.
            wait_until(turn, "something to linger")
        else:
            assert not any(turn() for _ in range(50))


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux's scheduler")
def test_carrier_when_a_crowd_is_busy_then_leaves_the_cores_to_it(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.log.carrier.BUSY_PER_S", 0)
    # Each time that something comes.
    monkeypatch.setattr("commitlog.log.carrier.SPAN_S", 1e-6)
    with serving(settings), carrying(settings) as carrier, programs(settings, 2) as two:
        line(carrier, two, ids)
        assert not gives_way()
        with programs(settings, 1) as third:
            line(carrier, third, ids, before=2)
            wait_until(gives_way, "the carrier to give way")
        wait_until(lambda: not gives_way(), "it to do so no more")


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux's scheduler")
def test_carrier_when_it_ends_beside_a_busy_crowd_then_the_next_one_does_not_give_way_from_the_start(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.log.carrier.BUSY_PER_S", 0)
    with serving(settings), programs(settings, 3) as accesses, carrying(settings) as carrier:
        line(carrier, accesses, ids)
        wait_until(gives_way, "the carrier to give way")


def gives_way() -> bool:
    """Whether a thread of this process pushes nobody from a core."""
    policies = set()
    for each in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            policies.add(os.sched_getscheduler(int(each)))
    return os.SCHED_BATCH in policies


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_carrier_when_it_is_killed_or_stopped_then_each_proposal_is_decided_once_and_answered(
    settings: Settings, request: pytest.FixtureRequest, how: signal.Signals
) -> None:
    seed = seed_of(request.node.name)
    writers, over = 4, threading.Event()

    receipts: list[m.Receipt] = []

    def commits(number: int, access: KafkaAccess) -> None:
        ids, count = Ids(seed + number), 0
        while not over.is_set():
            made = proposal(ids, 4, append(f"{number}-{count}", f"of-{number}"), writer=f"w{number}")
            receipt = sent(access, made).wait(ANSWER_S)
            assert receipt.proposal_id == made.proposal_id
            receipts.append(receipt)
            count += 1

    with (
        serving(settings),
        carrier_process(settings) as process,
        programs(settings, writers) as accesses,
        ThreadPoolExecutor(writers) as pool,
    ):
        ids = Ids(seed)
        for number, access in enumerate(accesses):
            sent(access, proposal(ids, 0, create_table(f"of-{number}"))).wait(ANSWER_S)
        running = [pool.submit(commits, number, access) for number, access in enumerate(accesses)]
        try:
            wait_until(lambda: len(receipts) > 200, "commits by the carrier")
            process.send_signal(how)
            size = len(receipts)
            wait_until(lambda: len(receipts) > size + 200, "commits after it")
        finally:
            over.set()
        for each in running:
            each.result()
    first = [each for each in receipts if each.verdict is m.Verdict.COMMITTED]
    again = [each for each in receipts if each.verdict is m.Verdict.DUPLICATE]
    assert len(first) + len(again) == len(receipts)
    assert all(each.answered_verdict is m.Verdict.COMMITTED for each in again)
    # Each program had one on its way.
    assert len(again) <= writers
    assert {each.proposal_id for each in receipts} <= proposed(settings).keys()


def test_carrier_when_another_one_begins_then_programs_find_the_new_one_and_the_old_one_leaves_it_alone(
    settings: Settings, ids: Ids
) -> None:
    assert settings.carrier_socket is not None
    with serving(settings), carrying(settings) as newer, ExitStack() as older:
        # It listens at the same place from now on, where the first one did.
        older.enter_context(carrying(settings))
        with carrying(settings) as newest:
            older.close()
            assert settings.carrier_socket.exists()
            with programs(settings, 2) as accesses:
                line(newest, accesses, ids)
                assert newer.programs == 0
            assert S_IMODE(settings.carrier_socket.stat().st_mode) == 0o600


def test_carrier_when_a_proposal_cannot_be_read_then_its_program_is_told(settings: Settings, ids: Ids) -> None:
    with serving(settings), carrying(settings) as carrier, programs(settings, 2) as accesses:
        line(carrier, accesses, ids)
        before = carrier.carried
        receipt = sent(accesses[0], proposal(ids, 2, append("a", "of-0")), b"no proposal").wait(ANSWER_S)
        assert receipt.reason is m.Reason.MALFORMED
        assert carrier.carried == before + 1


def test_carrier_when_a_proposal_is_too_large_then_its_program_says_so_and_others_go_on(
    settings: Settings, ids: Ids
) -> None:
    with serving(settings), carrying(settings) as carrier, programs(settings, 3) as accesses:
        line(carrier, accesses, ids)
        large = proposal(ids, 3, append("x" * 40_000, "of-0"))
        pending = sent(accesses[0], large)
        with pytest.raises(ProposalTooLargeError):
            pending.wait(ANSWER_S)
        before = carrier.carried
        assert sent(accesses[1], proposal(ids, 3, append("b", "of-1"))).wait(ANSWER_S).verdict is m.Verdict.COMMITTED
        assert carrier.carried == before + 1


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        hello(bytes(16)),
        message(PROPOSAL, bytes(30)),
        HELLO + message(PROPOSAL, b"short"),
        HELLO + message(PROPOSAL, bytes(16) + b"\1\0\0\0\0\0\0\0\1\xff"),
    ],
    ids=["no carrier's", "of another log", "not welcomed", "no letter", "no text"],
)
def test_carrier_when_somebody_says_what_nobody_understands_then_hung_up_on_and_others_go_on(
    settings: Settings, ids: Ids, said: bytes
) -> None:
    with serving(settings), carrying(settings) as carrier, programs(settings, 2) as accesses:
        line(carrier, accesses, ids)
        assert settings.carrier_socket is not None
        with new_socket() as stranger:
            with address_of(settings.carrier_socket) as address:
                stranger.connect(address)
            stranger.sendall(said.replace(HELLO, hello(require_genesis(settings).log_id)))
            stranger.settimeout(ANSWER_S)
            while stranger.recv(100):
                pass
        before = carrier.carried
        assert sent(accesses[1], proposal(ids, 2, append("b", "of-1"))).wait(ANSWER_S).verdict is m.Verdict.COMMITTED
        assert carrier.carried == before + 1


def test_proposals_when_they_are_many_then_the_program_sends_them_and_nothing_overtakes_them(
    settings: Settings, ids: Ids
) -> None:
    with carrying(settings) as carrier, programs(settings, 2) as accesses:
        with serving(settings):
            line(carrier, accesses, ids)
        before = carrier.carried
        made = [proposal(ids, 2, append(str(number), "of-0")) for number in range(3)]
        pending: list[PendingAnswer] = [bulk(accesses[0], each) for each in made[:2]]
        # What the thread has sent before may still be on its way.
        pending.append(sent(accesses[0], made[2]))
        with serving(settings):
            receipts = [each.wait(ANSWER_S) for each in pending]
        assert carrier.carried == before
        assert [each.seq for each in receipts] == sorted(each.seq for each in receipts)


def test_proposals_when_they_are_called_back_then_the_carrier_takes_them_and_nothing_overtakes_them(
    settings: Settings, ids: Ids
) -> None:
    with carrying(settings) as carrier, programs(settings, 1) as [access], CommitLog(access) as log:
        with serving(settings):
            line(carrier, [access], ids)
        before = carrier.carried
        made = [proposal(ids, 1, append(str(number), "of-0")) for number in range(4)]
        futures = [log.submit_async(each) for each in made[:2]]
        # What goes from here could overtake what the carrier has.
        with pytest.raises(LogUnavailableError, match="by this machine's carrier, is unanswered"):
            bulk(access, made[2], timeout_s=0.01)
        with serving(settings):
            last = bulk(access, made[3]).wait(ANSWER_S)
            seqs = [future.result(ANSWER_S).seq for future in futures]
        assert carrier.carried == before + 2
        assert [*seqs, last.seq] == sorted({*seqs, last.seq})
    assert made[2].proposal_id not in proposed(settings)


def test_proposal_when_a_signal_ends_it_anywhere_then_the_next_one_is_called_back(settings: Settings, ids: Ids) -> None:
    with serving(settings), carrying(settings) as carrier, programs(settings, 1) as [access], CommitLog(access) as log:
        line(carrier, [access], ids)
        numbers = count()

        def submit() -> Future[SubmittedOutcome]:
            # A signal may end the line, and another one is found later.
            access._connections._carried._looks_again_at_s = 0.0
            return log.submit_async(proposal(ids, 1, append(str(next(numbers)), "of-0")))

        def submit_and_wait() -> None:
            assert submit().result(ANSWER_S).committed

        submit_and_wait()
        for place in each_interrupted(submit):
            another = threading.Thread(target=submit_and_wait, daemon=True)
            another.start()
            another.join(2 * ANSWER_S)
            assert not another.is_alive(), place
        before = carrier.carried
        wait_until(lambda: submit_and_wait() is None and carrier.carried > before, "the carrier to be found again")
    assert next(numbers) > 100 or compiled.form == compiled.COMPILED


def test_carrier_when_proposals_are_called_back_then_they_are_no_crowd(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.log.carrier.BUSY_PER_S", 0)
    # Each time that something comes.
    monkeypatch.setattr("commitlog.log.carrier.SPAN_S", 1e-6)
    waiting: list[int] = []
    monkeypatch.setattr(Publisher, "others_wait", lambda _, count: waiting.append(count))
    with serving(settings), carrying(settings) as carrier, programs(settings, 1) as [access], CommitLog(access) as log:
        line(carrier, [access], ids)
        waiting.clear()
        before = carrier.carried
        made = [proposal(ids, 1, append(str(number), "of-0")) for number in range(40)]
        for future in [log.submit_async(each) for each in made]:
            assert future.result(ANSWER_S).committed
        assert (max(waiting), carrier.carried) == (0, before + len(made))
        sent(access, proposal(ids, 1, append("waited for", "of-0"))).wait(ANSWER_S)
        assert max(waiting) == 1


def test_names_when_a_carrier_runs_then_all_of_a_machine_are_in_one_partition(settings: Settings) -> None:
    assert settings.carrier_socket is not None
    settings.carrier_socket.parent.mkdir(parents=True)
    settings.carrier_socket.touch()
    with closing(KafkaAccess(settings)) as access:
        names = {CommitLog(access).writer_id for _ in range(20)}
    assert len(names) == 20
    assert {partition_for(name, 2) for name in names} == {partition_for(socket.gethostname(), 2)}
    assert all(f"-{os.getpid()}-" in name for name in names)


def test_carrier_when_its_socket_cannot_be_there_then_says_so(settings: Settings) -> None:
    assert settings.carrier_socket is not None
    settings.carrier_socket.parent.parent.mkdir(parents=True)
    settings.carrier_socket.parent.touch()
    with pytest.raises(
        ConfigurationError, match=r"the carrier's socket cannot be at .*carrier\.sock \(carrier_socket\)"
    ):
        Carrier(settings).run(threading.Event())


def test_publisher_when_answers_of_others_come_long_after_its_own_then_it_hears_no_more_until_it_sends_again(
    settings: Settings, ids: Ids
) -> None:
    with serving(settings), Publisher(settings, listens_s=3_600.0) as publisher, Publisher(settings) as other:
        for number in range(3):
            made = proposal(ids, 2 * number, create_table(f"t{number}"))
            assert publisher.submit(made, timeout_s=ANSWER_S).proposal_id == made.proposal_id
            publisher._published_at_s = -math.inf
            looked_at_s = publisher._deliveries_heard_at
            wait_until(lambda: publisher._deliveries_heard_at > looked_at_s, "it to look, in vain")  # noqa: B023
            assert publisher._starts
            other.submit(proposal(ids, 2 * number + 1, create_table(f"o{number}")), timeout_s=ANSWER_S)
            wait_until(lambda: not publisher._starts, "it to stop listening")


def test_program_when_the_carrier_takes_what_it_proposes_then_it_hears_no_answers_of_others_until_that_is_gone(
    settings: Settings, ids: Ids
) -> None:
    with serving(settings), programs(settings, 1) as [access]:
        with carrying(settings) as carrier:
            line(carrier, [access], ids)
            made = proposal(ids, 1, append("a", "of-0"))
            bulk(access, made).wait(ANSWER_S)
            publisher = access._connections.publisher()
            assert publisher._starts
            before = carrier.carried
            sent(access, proposal(ids, 1, append("b", "of-0"))).wait(ANSWER_S)
            assert carrier.carried == before + 1
            wait_until(lambda: not publisher._starts, "it to stop listening")
        sent(access, proposal(ids, 1, append("c", "of-0"))).wait(ANSWER_S)
        sent(access, proposal(ids, 1, append("d", "of-0"))).wait(ANSWER_S)
        assert publisher._starts
        assert publisher.listens_s == math.inf
