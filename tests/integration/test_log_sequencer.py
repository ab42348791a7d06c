"""The sequencer on a real broker: answers, bad bytes, crashes, takeovers and losses."""

from __future__ import annotations

import random
import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
)
from log_running import (
    Ids,
    all_outcomes,
    alter_topic,
    append,
    create_table,
    make_log,
    messages_of,
    proposal,
    seed_of,
    sequencer_process,
    serving,
    wait_until,
    write_raw,
)

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.ids import partition_for
from commitlog.errors import (
    LogIntegrityError,
    LogLossError,
    OutcomeUnknownError,
    ProposalTooLargeError,
)
from commitlog.log import topic_settings
from commitlog.log.answers import PendingProposal
from commitlog.log.chain import Skip
from commitlog.log.codec import (
    OutcomeRecord,
    Receipts,
    Takeover,
    decode_dead_letter,
    decode_receipts,
    decode_record,
    encode_outcome,
    encode_proposal,
    encode_takeover,
    hash_record,
)
from commitlog.log.codec.records.headers import HEADERS
from commitlog.log.producing import KafkaResults, KafkaVoice
from commitlog.log.publisher import Publisher
from commitlog.log.reports import Report
from commitlog.log.results import ResultsReader
from commitlog.log.sending import Sender
from commitlog.log.sequencer import LEGAL_MOVES, Phase
from commitlog.log.topic_settings import described
from commitlog.log.topics import topics_of


@pytest.fixture
def settings(kafka: str, log_name: str, tmp_path: Path) -> Settings:
    return make_log(kafka, log_name, tmp_path, receipts_timeout_ms=60_000, proposal_bytes_max=100_000)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_proposals_when_published_then_each_gets_its_own_answer(settings: Settings, ids: Ids) -> None:
    with serving(settings) as sequencer, Publisher(settings) as publisher:
        created = publisher.submit(proposal(ids, 0, create_table()))
        assert (created.verdict, created.snapshot_id, created.assigned.table_ids) == (m.Verdict.COMMITTED, 1, (1,))
        sent = [proposal(ids, 1, append(f"f{i}"), writer=f"w{i % 5}") for i in range(300)]
        sent.append(proposal(ids, 1, append("x", table="none")))
        pending = [publisher.publish(each) for each in sent]
        receipts = [each.wait() for each in pending]
        assert [receipt.proposal_id for receipt in receipts] == [each.proposal_id for each in sent]
        assert sorted(receipt.snapshot_id or 0 for receipt in receipts[:-1]) == list(range(2, 302))
        assert (receipts[-1].reason, receipts[-1].snapshot_id) == (m.Reason.INVALID, None)
        wait_until(lambda: sequencer.status.seq == 302, "the status to tell")
        assert sequencer.status.decided[m.Verdict.COMMITTED] == 301
    outcomes = all_outcomes(settings)
    assert [outcome.seq for outcome in outcomes] == list(range(1, 303))
    assert {outcome.epoch for outcome in outcomes} == {1}
    by_id = {each.proposal_id: each for each in sent}
    assert all(outcome.proposal == by_id[outcome.proposal_id] for outcome in outcomes[1:])  # type: ignore[index]


def test_proposals_when_each_is_from_the_one_before_then_they_come_in_the_order_in_which_a_thread_sent_them(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_slow_sender(self: Publisher, *, linger_ms: int, timeout_s: float) -> Sender:
        return make_sender(self, linger_ms=linger_ms or 1_000, timeout_s=timeout_s)

    make_sender = Publisher._make_sender
    with serving(settings):
        # What is sent at once is slower than what is sent together, as a machine at work may make it.
        monkeypatch.setattr(Publisher, "_make_sender", make_slow_sender)
        with Publisher(settings) as publisher:
            sent = [proposal(ids, 0, create_table())] + [proposal(ids, n, append(f"f{n}")) for n in range(1, 40)]
            pending = [publisher.publish(each) for each in sent]
            assert [each.wait().snapshot_id for each in pending] == list(range(1, 41))


def test_proposal_when_sent_again_then_the_first_answer_is_repeated(settings: Settings, ids: Ids) -> None:
    with serving(settings), Publisher(settings) as publisher:
        sent = proposal(ids, 0, create_table())
        first = publisher.submit(sent)
        again = publisher.submit(sent)
    assert (again.verdict, again.original_seq) == (m.Verdict.DUPLICATE, first.seq)
    assert (again.answered_verdict, again.answered_snapshot_id) == (m.Verdict.COMMITTED, 1)


def test_proposal_when_nobody_decides_in_time_then_unknown_and_decided_later(settings: Settings, ids: Ids) -> None:
    sent = proposal(ids, 0, create_table())
    with Publisher(settings) as publisher:
        pending = publisher.publish(sent)
        with pytest.raises(OutcomeUnknownError, match="may still be committed") as unknown:
            pending.wait(0.2)
        assert unknown.value.proposal_id.bytes == sent.proposal_id
        with serving(settings):
            assert pending.wait().verdict is m.Verdict.COMMITTED


def test_publisher_when_interrupted_where_it_reads_then_no_answer_is_lost(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[bytes] = []

    def decode(data: bytes) -> Receipts:
        if not interrupted and threading.current_thread() is threading.main_thread():
            interrupted.append(data)
            raise KeyboardInterrupt
        return decode_receipts(data)

    monkeypatch.setattr("commitlog.log.receipts.decode_receipts", decode)
    with serving(settings), Publisher(settings) as publisher:
        while not interrupted:
            pending = publisher.publish(proposal(ids, 0, create_table()))
            with suppress(KeyboardInterrupt):
                pending.wait()
        assert pending.wait().source.offset >= 0
        assert publisher.submit(proposal(ids, 1, append("f"))).verdict is m.Verdict.COMMITTED


def test_outcomes_when_the_sequencer_starts_again_then_the_epoch_rises_and_the_chain_goes_on(
    settings: Settings, ids: Ids
) -> None:
    with Publisher(settings) as publisher:
        for base in range(3):
            with serving(settings):
                change = create_table() if base == 0 else append(f"f{base}")
                assert publisher.submit(proposal(ids, base, change)).snapshot_id == base + 1
    assert [(outcome.seq, outcome.epoch) for outcome in all_outcomes(settings)] == [(1, 1), (2, 2), (3, 3)]


# --- bad bytes --------------------------------------------------------------------------------------------------------


def test_bytes_when_no_proposal_then_refused_kept_and_the_rest_goes_on(settings: Settings, ids: Ids) -> None:
    topics = topics_of(settings.log)
    good = proposal(ids, 0, create_table(), writer="w1")
    partition = partition_for("w1", 2)
    cut = encode_proposal(good)[:-3]
    write_raw(settings, topics.proposals, b"\x00\xffjunk", None, cut, encode_proposal(good), partition=partition)
    with serving(settings) as sequencer:
        wait_until(lambda: sequencer.status.seq == 4, "four outcomes")
    outcomes = all_outcomes(settings)
    assert [outcome.reason for outcome in outcomes] == [m.Reason.MALFORMED] * 3 + [None]
    assert (outcomes[2].proposal_id, outcomes[2].writer_id) == (good.proposal_id, "w1")
    letters = [decode_dead_letter(each) for each in messages_of(settings, topics.dead_letters)]
    assert [letter.value for letter in letters] == [b"\x00\xffjunk", None, cut]
    assert [(letter.partition, letter.offset) for letter in letters] == [(partition, offset) for offset in range(3)]
    assert [letter.seq for letter in letters] == [1, 2, 3]
    assert letters[0].key == b"somebody"
    assert "not c301" in letters[0].detail


def test_proposal_when_larger_than_the_limit_then_refused_and_the_letter_is_whole(settings: Settings, ids: Ids) -> None:
    topics = topics_of(settings.log)
    large = encode_proposal(proposal(ids, 0, create_table(), message="x" * 102_000))
    write_raw(settings, topics.proposals, large, partition=partition_for("w1", 2))
    with serving(settings) as sequencer:
        wait_until(lambda: sequencer.status.seq == 1, "an outcome")
    [outcome] = all_outcomes(settings)
    assert outcome.reason is m.Reason.MALFORMED
    assert "the log's limit is 100,000" in (outcome.detail or "")
    [letter] = messages_of(settings, topics.dead_letters)
    assert decode_dead_letter(letter).value == large


def test_proposal_when_the_topic_does_not_take_it_then_the_publisher_says_so(settings: Settings, ids: Ids) -> None:
    with Publisher(settings) as publisher, pytest.raises(ProposalTooLargeError, match="limit is 100,000"):
        publisher.submit(proposal(ids, 0, create_table(), message="x" * 300_000))


def test_proposal_when_the_broker_takes_none_of_its_time_then_unknown_and_says_to_look_at_the_clock(
    settings: Settings, ids: Ids
) -> None:
    topic = topics_of(settings.log).proposals
    alter_topic(settings, topic, "message.timestamp.before.max.ms", "0")
    lingering = replace(settings, kafka={"linger.ms": "50"})
    with Publisher(lingering) as publisher, pytest.raises(OutcomeUnknownError, match="is this machine's clock right"):
        publisher.submit(proposal(ids, 0, create_table()))


def test_proposal_when_as_large_as_allowed_then_decided_and_larger_ones_after_configure(
    settings: Settings, ids: Ids
) -> None:
    def sized(base: int, change: m.Change, size: int) -> m.Proposal:
        plain = proposal(ids, base, change)
        return plain.replace(message="x" * (size - len(encode_proposal(plain)) - 4))

    with serving(settings), Publisher(settings) as publisher:
        assert publisher.submit(sized(0, create_table(), 100_000)).verdict is m.Verdict.COMMITTED
        raised = publisher.submit(proposal(ids, 1, m.Configure({"proposal_bytes_max": 3_000_000})))
        assert raised.verdict is m.Verdict.COMMITTED
        assert publisher.submit(sized(2, append("f"), 2_900_000)).verdict is m.Verdict.COMMITTED


def test_proposals_when_kafka_does_not_let_topics_take_larger_ones_then_the_log_goes_on_with_what_they_take(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused_for_answers(topic: str, bytes_max: int) -> ConfigResource:
        return raised_to(topic, bytes_max if topic == names.proposals else -1)

    def taken() -> dict[str, str | None]:
        found = described(settings, [names.proposals, names.results, names.receipts, names.dead_letters])
        return {topic: each["max.message.bytes"] for topic, each in found.items()}

    names, raised_to = topics_of(settings.log), topic_settings._raised
    monkeypatch.setattr(topic_settings, "_raised", refused_for_answers)
    before = taken()
    with serving(settings), Publisher(settings) as publisher:
        raised = publisher.submit(proposal(ids, 0, m.Configure({"proposal_bytes_max": 60_000_000})))
        assert raised.verdict is m.Verdict.COMMITTED
    with serving(settings), Publisher(settings) as publisher:
        assert publisher.submit(proposal(ids, 1, create_table())).verdict is m.Verdict.COMMITTED
    assert taken() == before
    assert caplog.text.count("topics do not take all that the log's settings allow") == 2


def test_answers_when_many_at_once_are_more_than_a_topic_takes_then_each_is_told(settings: Settings, ids: Ids) -> None:
    narrow = make_log(settings.bootstrap_servers, f"{settings.log}-narrow", settings.home, proposal_bytes_max=1024)
    with Publisher(narrow) as publisher:
        pending = [
            publisher.publish(proposal(ids, 0, append("f", table=secrets.token_hex(100)), writer=f"w{i}"))
            for i in range(1_000)
        ]
        with serving(narrow):
            assert {each.wait(60).reason for each in pending} == {m.Reason.INVALID}


# --- crashes ----------------------------------------------------------------------------------------------------------


def wait_for_answers(pending: list[PendingProposal], count: int) -> None:
    wait_until(lambda: sum(each.done for each in pending) >= count, f"{count} answers")


def test_sequencer_when_killed_again_and_again_then_nothing_is_lost_and_nothing_twice(
    settings: Settings, ids: Ids, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(seed_of(request.node.name))
    sent = [proposal(ids, 0, create_table())]
    with Publisher(settings) as publisher:
        pending = [publisher.publish(sent[0])]
        with sequencer_process(settings):
            pending[0].wait()
        for kill in range(4):
            batch = [proposal(ids, 1, append(f"f{kill}-{i}"), writer=f"w{i % 7}") for i in range(3_000)]
            sent += batch
            with sequencer_process(settings) as process:
                new = [publisher.publish(each) for each in batch]
                pending += new
                wait_for_answers(new, chance.randrange(1, 2_500))
                assert process.poll() is None
                process.kill()
        with sequencer_process(settings):
            receipts = [each.wait() for each in pending]
    outcomes = all_outcomes(settings)
    assert Counter(outcome.proposal_id for outcome in outcomes) == Counter(each.proposal_id for each in sent)
    assert len({outcome.source for outcome in outcomes}) == len(sent)
    assert [outcome.snapshot_id for outcome in outcomes] == list(range(1, len(sent) + 1))
    told = {outcome.proposal_id: outcome.snapshot_id for outcome in outcomes}
    assert all(told[receipt.proposal_id] == receipt.snapshot_id for receipt in receipts)


@pytest.mark.parametrize("fault", ["failed before", "failed after", "no offset"])
def test_append_when_in_doubt_then_the_sequencer_takes_over_from_itself_and_every_verdict_stands(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    whole = KafkaResults.append
    faults = iter([fault])

    def append_all(self: KafkaResults, values: Sequence[bytes], on_report: Callable[[int, Report], None]) -> None:
        planted = next(faults, None) if values[0][:10] == HEADERS["Outcome"] else None
        if planted is None:
            whole(self, values, on_report)
            return
        if planted != "failed before":
            whole(self, values, lambda index, report: None)
        for index in range(len(values)):
            on_report(index, Report(None, None if planted == "no offset" else "planted"))

    with serving(settings) as sequencer, Publisher(settings) as publisher:
        monkeypatch.setattr(KafkaResults, "append", append_all)
        assert publisher.submit(proposal(ids, 0, create_table())).snapshot_id == 1
        assert publisher.submit(proposal(ids, 1, append("f"))).snapshot_id == 2
        assert (sequencer.status.doubts, sequencer.status.epoch) == (1, 2)
    assert [outcome.seq for outcome in all_outcomes(settings)] == [1, 2]


# --- telling again ---------------------------------------------------------------------------------------------------


def test_answers_when_they_were_not_told_then_the_next_sequencer_tells_them(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = topics_of(settings.log)
    say = KafkaVoice.send
    cut = encode_proposal(proposal(ids, 0, create_table(), writer="w1"))[:-3]

    def mute(
        self: KafkaVoice, topic: str, partition: int, value: bytes, on_done: Callable[[str | None], None], **how: Any
    ) -> None:
        if topic == topics.control:
            say(self, topic, partition, value, on_done, **how)

    with Publisher(settings) as publisher:
        with monkeypatch.context() as muted, serving(settings) as sequencer:
            muted.setattr(KafkaVoice, "send", mute)
            muted.setattr("commitlog.log.sequencer.LEAVE_TIMEOUT_S", 0.0)
            pending = [publisher.publish(proposal(ids, 0, m.CreateSchema(f"s{i}"))) for i in range(5)]
            write_raw(settings, topics.proposals, cut, partition=partition_for("w1", 2))
            wait_until(lambda: sequencer.status.seq == 6, "six outcomes")
            assert not any(each.done for each in pending)
        assert messages_of(settings, topics.dead_letters) == []
        with serving(settings):
            assert [each.wait().snapshot_id for each in pending] == [1, 2, 3, 4, 5]
            wait_until(lambda: len(messages_of(settings, topics.dead_letters)) == 1, "the dead letter")
    [letter] = messages_of(settings, topics.dead_letters)
    assert decode_dead_letter(letter).value == cut


def test_phases_when_stopped_then_there_is_no_way_on() -> None:
    assert LEGAL_MOVES[Phase.STOPPED] == frozenset()
    assert set(LEGAL_MOVES) == set(Phase)
    assert all(Phase.STOPPED in moves for phase, moves in LEGAL_MOVES.items() if phase is not Phase.STOPPED)
    assert [phase for phase in Phase if Phase.SERVING in LEGAL_MOVES[phase]] == [Phase.TAKING_OVER]
    assert LEGAL_MOVES[Phase.FENCED] == {Phase.STOPPED}


# --- losses and tampering ---------------------------------------------------------------------------------------------


def test_proposals_when_gone_before_they_were_decided_then_the_sequencer_stops_and_says_which(
    settings: Settings, ids: Ids
) -> None:
    topics, partition = topics_of(settings.log), partition_for("w1", 2)
    encoded = [encode_proposal(proposal(ids, 0, m.CreateSchema(f"s{i}"))) for i in range(5)]
    write_raw(settings, topics.proposals, *encoded[:2], partition=partition)
    with serving(settings) as sequencer:
        wait_until(lambda: sequencer.status.seq == 2, "two outcomes")
    write_raw(settings, topics.proposals, *encoded[2:], partition=partition)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topics.proposals, partition, 4)]).values():
        future.result()
    told = r"starts at offset 4, but 2 is the next .* from 2 to 3 are gone"
    with pytest.raises(LogLossError, match=told), serving(settings):
        pass


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (0, "ends at offset 0, but proposals up to 0 were decided"),
        (2, "holds another proposal at offset 0 than the one that was decided there"),
    ],
)
def test_proposals_when_the_topic_was_made_anew_then_the_sequencer_stops(
    settings: Settings, ids: Ids, sent: int, told: str
) -> None:
    topics = topics_of(settings.log)
    with serving(settings), Publisher(settings) as publisher:
        publisher.submit(proposal(ids, 0, create_table()))
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([topics.proposals])[topics.proposals].result()
    wait_until(lambda: topics.proposals not in admin.list_topics(timeout=10).topics, "the topic to be gone")
    admin.create_topics([NewTopic(topics.proposals, 2, config={"retention.ms": "-1", "max.message.bytes": "200000"})])[
        topics.proposals
    ].result()
    later = [encode_proposal(proposal(ids, 0, m.CreateSchema(f"s{i}"))) for i in range(sent)]
    for partition in range(2):
        write_raw(settings, topics.proposals, *later, partition=partition)
    with pytest.raises(LogLossError, match=told), serving(settings):
        pass


def test_results_when_somebody_writes_another_history_then_readers_stop_after_the_last_good_one(
    settings: Settings, ids: Ids
) -> None:
    topics = topics_of(settings.log)
    with serving(settings), Publisher(settings) as publisher:
        publisher.submit(proposal(ids, 0, create_table()))
    last = messages_of(settings, topics.results)[-1]
    record = decode_record(last)
    assert isinstance(record, OutcomeRecord)
    forged = record.outcome.replace(seq=2)
    write_raw(settings, topics.results, encode_outcome(forged, log_id=record.log_id, prev_hash=b"?" * 32))
    with ResultsReader(settings) as reader:
        batches = reader.read_to_end()
        with pytest.raises(LogIntegrityError, match="another outcome 1"):
            deque(batches, maxlen=0)
        assert reader.position is not None
        assert reader.position.seq == 1
    with pytest.raises(LogIntegrityError, match="another outcome 1"), serving(settings):
        pass


def test_results_when_zombies_and_strangers_write_then_skipped_and_the_log_goes_on(
    settings: Settings, ids: Ids
) -> None:
    topics = topics_of(settings.log)
    with Publisher(settings) as publisher:
        for base, change in enumerate((create_table(), append("a"))):
            with serving(settings):
                publisher.submit(proposal(ids, base, change))
        last = messages_of(settings, topics.results)[-1]
        record = decode_record(last)
        assert isinstance(record, OutcomeRecord)
        zombie = record.outcome.replace(seq=3, epoch=1, snapshot_id=3)
        junk = [
            encode_outcome(zombie, log_id=record.log_id, prev_hash=hash_record(last)),
            b"somebody's own bytes",
            encode_takeover(Takeover(record.log_id, 2, b"Z" * 16, 5)),
        ]
        write_raw(settings, topics.results, *junk)
        with serving(settings) as sequencer:
            expected = {Skip.LOWER_EPOCH: 1, Skip.FOREIGN: 1, Skip.TAKEOVER: 1}
            assert sequencer.status.skipped == expected
            # The active one meets what comes while it serves, with and without anything to decide.
            write_raw(settings, topics.results, *junk)
            assert publisher.submit(proposal(ids, 2, append("b"))).snapshot_id == 3
            write_raw(settings, topics.results, *junk)
            assert publisher.submit(proposal(ids, 3, append("c"))).snapshot_id == 4
            assert (sequencer.status.doubts, sequencer.status.epoch) == (0, 3)
    with ResultsReader(settings) as reader:
        seqs = [each.outcome.seq for records in reader.read_to_end() for each in records if each.offset > 0]
        assert (seqs, reader.skipped) == ([1, 2, 3, 4], dict.fromkeys(expected, 3))


def test_results_when_their_end_is_gone_that_was_told_then_the_sequencer_stops_and_says_so(
    settings: Settings, ids: Ids, log_name: str
) -> None:
    topics = topics_of(settings.log)
    with serving(settings), Publisher(settings) as publisher:
        for base, change in enumerate((create_table(), append("a"))):
            publisher.submit(proposal(ids, base, change))
    records = messages_of(settings, topics.results)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([topics.results])[topics.results].result()
    large = {"max.message.bytes": "300000", "retention.ms": "-1", "retention.bytes": "-1"}

    def made_anew() -> bool:
        try:
            admin.create_topics([NewTopic(topics.results, 1, config=large)])[topics.results].result()
        except KafkaException:
            return False
        return True

    wait_until(made_anew, "the topic to be made anew")
    write_raw(settings, topics.results, *records[:-1])
    with (
        pytest.raises(LogLossError, match="ends with outcome 1, but the receipts tell of outcome 2"),
        serving(settings),
    ):
        pass


def test_reader_when_the_position_is_of_another_log_then_stops(settings: Settings, ids: Ids) -> None:
    with serving(settings), Publisher(settings) as publisher:
        publisher.submit(proposal(ids, 0, create_table()))
        publisher.submit(proposal(ids, 1, append("a")))
    with ResultsReader(settings) as reader:
        for _ in reader.read_to_end():
            pass
        position = reader.position
    assert position is not None
    with ResultsReader(settings, after=position) as reader:
        assert [records for records in reader.read_to_end() if records] == []
        assert reader.position == position
    with pytest.raises(LogIntegrityError, match="does not hold the outcome 2"):
        ResultsReader(settings, after=position.replace(hash=b"?" * 32))
    with pytest.raises(LogIntegrityError, match="ends at offset"):
        ResultsReader(settings, after=position.replace(results_offset=10_000))
