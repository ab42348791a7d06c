"""What a relay gives of a log to programs that use a schema registry, and takes from them, on clients that say anything."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from deciding import DecidedLog
from deliveries import Said, SayingProducer

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Proposal
from commitlog.errors import LogIntegrityError, LogRefusedError, LogUnavailableError
from commitlog.log.codec import encode_genesis, encode_proposal, encode_receipts
from commitlog.log.codec.confluent import framed, schema_text
from commitlog.log.codec.framing import HEADER_SIZE_BYTES, MARKER
from commitlog.log.topics import border_topics_of, topics_of
from commitlog.relay.inward import Inward
from commitlog.relay.outward import Outward
from commitlog.relay.progress import RelayProgress

GENESIS = Genesis(b"L" * 16)
PROPOSAL = framed(encode_proposal(Proposal(b"p" * 16, "w", 0, (), created_at_ms=1)), 5)
RECEIPTS = encode_receipts([], log_id=b"L" * 16, partition=0)


def given(value: bytes | None) -> list[bytes]:
    """What is sent to the border of a message among the receipts."""
    sent: list[bytes] = []
    producer = SimpleNamespace(produce=lambda _, **record: sent.append(record["value"]))
    of_message = {"value": value, "key": None, "headers": None, "topic": "l.receipts", "partition": 0, "offset": 7}
    message = SimpleNamespace(**{name: partial(lambda told: told, each) for name, each in of_message.items()})
    unused: Any = None
    inward = Inward(Settings.load(log="l"), GENESIS, border_topics_of("l"), unused, unused, receipts_id=5)
    inward._give_receipts(producer, message)  # type: ignore[arg-type]
    return sent


def test_receipts_when_others_wrote_among_them_then_only_these_are_given() -> None:
    assert given(RECEIPTS) == [b"\0\0\0\0\x05" + RECEIPTS[HEADER_SIZE_BYTES:]]
    for value in (b"somebody's", b"", None, encode_genesis(GENESIS), RECEIPTS + b"!"):
        assert given(value) == []


def test_receipts_when_they_are_of_a_newer_version_then_none_is_left_out() -> None:
    with pytest.raises(LogIntegrityError, match="what this version does not know"):
        given(MARKER + b"\xff" * HEADER_SIZE_BYTES)


def test_border_when_a_batch_there_cannot_be_unpacked_then_the_relay_goes_on_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought: list[tuple[str, int, int]] = []

    class Stuck:
        def consume(self, records_max: int, timeout_s: float) -> list[Any]:
            told = {"error": KafkaError(KafkaError._BAD_COMPRESSION), "topic": "l.border", "partition": 3, "offset": 7}
            return [SimpleNamespace(**{name: partial(lambda each: each, value) for name, value in told.items()})] * 2

        def seek(self, to: TopicPartition) -> None:
            sought.append((to.topic, to.partition, to.offset))

    monkeypatch.setattr("commitlog.relay.inward.end_of_batch", lambda *_: 9)
    unused: Any = None
    inward = Inward(Settings.load(log="l"), GENESIS, border_topics_of("l"), unused, unused, receipts_id=5)
    inward._take_over(Stuck(), unused)  # type: ignore[arg-type]
    assert sought == [("l.border", 3, 9)]


@pytest.mark.parametrize("is_former", [True, False])
def test_receipts_when_they_are_another_logs_then_left_out_unless_that_has_taken_the_place(
    is_former: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = GENESIS if is_former else Genesis(b"M" * 16)
    monkeypatch.setattr("commitlog.relay.inward.require_genesis", lambda _: there)
    of_another = encode_receipts([], log_id=b"M" * 16, partition=0)
    if is_former:
        assert given(of_another) == []
    else:
        with pytest.raises(LogIntegrityError, match="receipts of another log"):
            given(of_another)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((None, None), "acknowledged without an offset"),
        ((None, -1001), "acknowledged without an offset"),
        ((KafkaError(KafkaError._MSG_TIMED_OUT), None), "timed out"),
        ((None, 0), ""),
    ],
)
@pytest.mark.parametrize(
    ("value", "counted"),
    [(PROPOSAL, "proposals"), (b"no proposal", "dead_letters"), (RECEIPTS, "receipts")],
    ids=["a proposal", "a dead letter", "receipts"],
)
def test_record_when_it_may_not_be_there_then_it_does_not_count_as_given(
    value: bytes, counted: str, said: Said, why: str
) -> None:
    topic = topics_of("l").receipts if value is RECEIPTS else border_topics_of("l").proposals
    of_message = {
        "value": value,
        "key": None,
        "headers": None,
        "topic": topic,
        "partition": 0,
        "offset": 7,
        "error": None,
    }
    message = SimpleNamespace(**{name: partial(lambda told: told, each) for name, each in of_message.items()})
    committed: list[Any] = []
    come = [[message]]
    consumer = SimpleNamespace(
        consume=lambda *_: come.pop() if come else [], commit=lambda **it: committed.append(it["offsets"])
    )
    progress = RelayProgress()
    registry: Any = SimpleNamespace(schema_of=lambda _: schema_text("proposal.avsc"))
    inward = Inward(Settings.load(log="l"), GENESIS, border_topics_of("l"), registry, progress, receipts_id=5)
    if why:
        with pytest.raises(LogUnavailableError, match=why):
            inward._take_over(consumer, SayingProducer(said))  # type: ignore[arg-type]
        assert (committed, progress) == ([], RelayProgress())
    else:
        inward._take_over(consumer, SayingProducer(said))  # type: ignore[arg-type]
        assert (len(committed), progress) == (1, RelayProgress(**{counted: 1}))


def test_relay_when_its_border_may_not_take_larger_outcomes_then_gives_those_that_it_takes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(settings: Settings, partitions: int, bytes_max: int) -> None:
        raise LogRefusedError(settings.bootstrap_servers, "POLICY_VIOLATION", detail=f"{bytes_max} is too much")

    monkeypatch.setattr("commitlog.relay.outward.ensure_border_topics", refuse)
    log, sent = DecidedLog(), []
    outcome = log.propose({"kind": "CONFIGURE", "settings": {"proposal_bytes_max": 60_000_000}})
    record: Any = SimpleNamespace(outcome=outcome, raw=RECEIPTS, offset=7)
    producer: Any = SimpleNamespace(
        begin_transaction=lambda: None,
        produce=lambda topic, **_: sent.append(topic),
        commit_transaction=lambda _: None,
    )
    border, progress = border_topics_of("l"), RelayProgress()
    Outward(Settings.load(log="l"), GENESIS, border, progress, outcomes_id=5)._give([record], producer)
    assert (sent, progress.outcomes) == ([border.results], 1)
    assert "60000000 is too much" in caplog.text
