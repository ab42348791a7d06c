"""Who is the active sequencer on a real broker: fenced ones, standbys, and those that want to be it at the same time."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from log_running import (
    Ids,
    all_outcomes,
    append,
    create_table,
    make_log,
    proposal,
    sequencer_process,
    serving,
    wait_until,
    write_raw,
)

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import FencedError
from commitlog.log.chain import Skip
from commitlog.log.codec import Takeover, decode_record, encode_takeover
from commitlog.log.codec.records.headers import HEADERS
from commitlog.log.heartbeats import HeartbeatListener
from commitlog.log.producing import KafkaResults
from commitlog.log.publisher import Publisher
from commitlog.log.reports import Report
from commitlog.log.sequencer import EXIT_FENCED, Phase
from commitlog.log.topics import topics_of

OnReport = Callable[[int, Report], None]


@pytest.fixture
def settings(kafka: str, log_name: str, tmp_path: Path) -> Settings:
    return make_log(kafka, log_name, tmp_path, receipts_timeout_ms=60_000)


def test_sequencer_when_another_one_starts_then_it_is_fenced_and_exits_with_its_code(
    settings: Settings, ids: Ids
) -> None:
    with sequencer_process(settings) as first, Publisher(settings) as publisher:
        assert publisher.submit(proposal(ids, 0, create_table())).snapshot_id == 1
        with sequencer_process(settings) as second:
            # Nothing is proposed: an idle one finds out by its heartbeat.
            assert first.wait(60) == EXIT_FENCED
            assert publisher.submit(proposal(ids, 1, append("f"))).snapshot_id == 2
            assert second.poll() is None
    assert [outcome.epoch for outcome in all_outcomes(settings)] == [1, 2]


def test_standby_when_the_active_one_is_killed_then_takes_over_and_not_before(settings: Settings, ids: Ids) -> None:
    with sequencer_process(settings) as active, Publisher(settings) as publisher:
        publisher.submit(proposal(ids, 0, create_table()))
        with serving(settings, standby=True) as standby:
            for base in range(1, 4):
                assert publisher.submit(proposal(ids, base, append(f"f{base}"))).snapshot_id == base + 1
            wait_until(lambda: standby.status.seq == 4, "the standby to follow")
            assert standby.status.phase is Phase.STANDBY
            assert active.poll() is None
            active.kill()
            assert publisher.submit(proposal(ids, 4, append("after"))).snapshot_id == 5
            assert standby.status.phase is Phase.SERVING
    assert [outcome.epoch for outcome in all_outcomes(settings)] == [1, 1, 1, 1, 2]


def test_heartbeats_when_it_serves_then_nobody_asks_for_its_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners: list[HeartbeatListener] = []

    def made(settings: Settings) -> HeartbeatListener:
        listeners.append(HeartbeatListener(settings))
        return listeners[-1]

    monkeypatch.setattr("commitlog.log.sequencer.HeartbeatListener", made)
    with serving(settings), serving(settings, standby=True):
        assert [len(each._consumer.assignment()) for each in listeners] == [0, 1]


def test_fenced_when_it_comes_back_as_standby_then_the_new_one_goes_on(settings: Settings, ids: Ids) -> None:
    with Publisher(settings) as publisher, sequencer_process(settings) as first:
        publisher.submit(proposal(ids, 0, create_table()))
        with serving(settings) as second:
            assert first.wait(60) == EXIT_FENCED
            with serving(settings, standby=True) as back:
                publisher.submit(proposal(ids, 1, append("f")))
                wait_until(lambda: back.status.seq == 2, "the standby to follow")
                assert (back.status.phase, second.status.phase) == (Phase.STANDBY, Phase.SERVING)


def test_fenced_when_it_is_alone_then_active_again_by_itself(settings: Settings, ids: Ids) -> None:
    with Publisher(settings) as publisher, sequencer_process(settings) as first:
        publisher.submit(proposal(ids, 0, create_table()))
        with sequencer_process(settings) as second:
            assert first.wait(60) == EXIT_FENCED
            second.kill()
        with serving(settings, standby=True) as back:
            wait_until(lambda: back.status.phase is Phase.SERVING, "the standby to take over")
            assert publisher.submit(proposal(ids, 1, append("f"))).snapshot_id == 2


def test_active_when_it_is_stopped_then_a_standby_takes_over_at_once_and_no_writer_notices(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A time without a heartbeat is nothing that the standby could wait for.
    monkeypatch.setattr("commitlog.log.sequencer.TAKEOVER_AFTER_S", math.inf)
    stop = threading.Event()
    with Publisher(settings) as publisher, sequencer_process(settings) as active:
        publisher.submit(proposal(ids, 0, create_table()))
        with serving(settings, standby=True) as standby:
            writing = threading.Thread(target=lambda: [publisher.submit(each) for each in many(ids, stop)])
            writing.start()
            wait_until(lambda: standby.status.seq > 20, "the standby to follow")
            active.terminate()
            wait_until(lambda: standby.status.phase is Phase.SERVING, "the standby to serve")
            seq = standby.status.seq
            wait_until(lambda: standby.status.seq > seq + 20, "the standby to decide")
            stop.set()
            writing.join()
            assert active.wait(60) == 0
    assert {outcome.verdict for outcome in all_outcomes(settings)} == {m.Verdict.COMMITTED}


def many(ids: Ids, stop: threading.Event) -> Iterator[m.Proposal]:
    while not stop.is_set():
        yield proposal(ids, 1, append(ids.next().hex()))


def takes_over(values: Sequence[bytes]) -> bool:
    return values[0][:10] == HEADERS["Takeover"]


def test_standbys_when_two_notice_at_the_same_moment_then_one_serves_and_the_other_stands_by_again(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_now, both = KafkaResults.append, threading.Barrier(2, timeout=60)

    def append_together(self: KafkaResults, values: Sequence[bytes], on_report: OnReport) -> None:
        if takes_over(values) and not both.broken:
            both.wait()
        append_now(self, values, on_report)

    with Publisher(settings) as publisher, sequencer_process(settings) as active:
        publisher.submit(proposal(ids, 0, create_table()))
        with serving(settings, standby=True) as one, serving(settings, standby=True) as other:
            monkeypatch.setattr(KafkaResults, "append", append_together)
            active.kill()
            assert publisher.submit(proposal(ids, 1, append("f"))).snapshot_id == 2
            both.abort()
            wait_until(lambda: {one.status.phase, other.status.phase} == {Phase.SERVING, Phase.STANDBY}, "one of each")
            assert (one.status.doubts, other.status.doubts) == (0, 0)
            loser = one if one.status.phase is Phase.STANDBY else other
            wait_until(lambda: loser.status.seq == 2, "the loser to follow")
            assert loser.status.skipped == {Skip.TAKEOVER: 1}
            assert (loser.status.epoch, loser.status.phase) == (2, Phase.STANDBY)
    assert [outcome.epoch for outcome in all_outcomes(settings)] == [1, 2]


def test_active_when_in_doubt_and_another_is_faster_then_fenced(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, append_now = topics_of(settings.log), KafkaResults.append

    def append_late(self: KafkaResults, values: Sequence[bytes], on_report: OnReport) -> None:
        if not takes_over(values):
            on_report(0, Report(None, "planted"))
            return
        own = decode_record(values[0])
        assert isinstance(own, Takeover)
        write_raw(settings, topics.results, encode_takeover(own._replace(instance=b"J" * 16)))
        append_now(self, values, on_report)

    def serve_until_stopped() -> None:
        with serving(settings) as sequencer, Publisher(settings) as publisher:
            monkeypatch.setattr(KafkaResults, "append", append_late)
            publisher.publish(proposal(ids, 0, create_table()))
            wait_until(lambda: sequencer.status.phase is Phase.STOPPED, "it has noticed")
            assert (sequencer.status.doubts, sequencer.status.skipped) == (1, {Skip.TAKEOVER: 1})

    with pytest.raises(FencedError, match="while this one was in doubt"):
        serve_until_stopped()
    assert all_outcomes(settings) == []


def test_takeover_when_its_report_is_lost_and_it_comes_late_then_the_next_one_is_built_on_it(
    settings: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, append_now = topics_of(settings.log), KafkaResults.append
    attempts: list[bytes] = []

    def append_late(self: KafkaResults, values: Sequence[bytes], on_report: OnReport) -> None:
        if takes_over(values):
            attempts.append(values[0])
            if len(attempts) == 1:
                on_report(0, Report(None, "planted"))
                return
            if len(attempts) == 2:
                write_raw(settings, topics.results, attempts[0])
        append_now(self, values, on_report)

    monkeypatch.setattr(KafkaResults, "append", append_late)
    with serving(settings) as sequencer, Publisher(settings) as publisher:
        assert publisher.submit(proposal(ids, 0, create_table())).snapshot_id == 1
        assert (sequencer.status.doubts, sequencer.status.epoch, len(attempts)) == (2, 2, 3)
        assert sequencer.status.skipped == {Skip.TAKEOVER: 1}
