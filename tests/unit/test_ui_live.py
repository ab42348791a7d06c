"""What the page measures each second, how it is drawn, and how it comes to whoever looks."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from looked_at import busy_log

from commitlog.catalog.history import HistoryEntry, HistoryFilter
from commitlog.client.access.contents import Contents
from commitlog.client.subscribing import Subscription
from commitlog.domain import model as m
from commitlog.errors import CatalogUnavailableError, ResultsTrimmedError
from commitlog.testing import InMemoryCommitLog
from commitlog.ui import pulse as pulse_module
from commitlog.ui.drawing.lanes import NARROW, WIDE, LaneShape, draw_lanes
from commitlog.ui.drawing.plots import draw_plot, nice_above
from commitlog.ui.drawing.times import draw_times
from commitlog.ui.live import Live, event
from commitlog.ui.overview import ROWS_TOLD_MAX
from commitlog.ui.pulse import Beat, Pulse
from commitlog.ui.site import Site
from commitlog.ui.words import NOT_KNOWN, age, make_environment, noun, number, printable, shorten, size


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InMemoryCommitLog]:
    with busy_log(tmp_path_factory.mktemp("lake")) as made:
        yield made


# --- the pulse --------------------------------------------------------------------------------------------------------


def test_beat_when_outcomes_came_then_counts_them_and_begins_anew(log: InMemoryCommitLog) -> None:
    pulse = Pulse(log)
    pulse.beat(0)
    for outcome in log.outcomes:
        pulse.take(outcome)
    committed = sum(each.verdict is m.Verdict.COMMITTED for each in log.outcomes)
    beat = pulse.beat(committed)
    assert (beat.decided, beat.committed, beat.visible) == (len(log.outcomes), committed, committed)
    assert (beat.lag, beat.head) == (0, committed)
    assert beat.latency_p50_ms is not None
    assert pulse.beat(committed) == Beat(head=committed)
    assert pulse.verdicts() == {"COMMITTED": committed, "REJECTED": len(log.outcomes) - committed}
    assert pulse.conflicts()["TABLE_DELETED_FROM"] == 2


def test_beat_when_readers_are_behind_then_says_how_far_and_for_how_long(log: InMemoryCommitLog) -> None:
    commits = [each for each in log.outcomes if each.snapshot_id is not None]
    pulse = Pulse(log, clock_s=lambda: commits[2].decided_at_ms / 1000 + 7)
    for outcome in log.outcomes:
        pulse.take(outcome)
    beat = pulse.beat(commits[1].snapshot_id)
    assert (beat.lag, beat.lag_s) == (len(commits) - 2, pytest.approx(7))


def test_beat_when_proposals_wait_then_says_how_many_and_for_how_long(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, sent = 1_000.0, 4
    monkeypatch.setattr(log.access, "sent_offsets", lambda: {0: sent})
    pulse = Pulse(log, clock_s=lambda: now_s)

    def waiting() -> tuple[int, float]:
        pulse.look()
        beat = pulse.beat(0)
        return beat.undecided, beat.undecided_s

    assert waiting() == (0, 0), "it does not know yet what was decided"
    pulse.take(log.outcomes[0])
    assert (waiting(), pulse.beat(0).undecided) == ((3, 0), 3)
    now_s, sent = now_s + 5, 5
    assert waiting() == (4, 5)
    pulse.take(log.outcomes[3])
    assert waiting() == (1, 0)
    pulse.take(log.outcomes[4])
    assert waiting() == (0, 0)


def test_beat_when_readers_were_behind_as_it_began_then_what_they_do_not_know_to_be_decided_does_not_wait(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log.access, "decided_offsets", lambda: {0: 2})
    pulse = Pulse(log)
    pulse.begin()
    pulse.look()
    assert pulse.beat(0).undecided == 0
    monkeypatch.setattr(log.access, "sent_offsets", lambda: {0: len(log.outcomes) + 1})
    pulse.look()
    assert pulse.beat(0).undecided == 1


def test_beat_when_a_kafka_transaction_has_ended_then_its_end_is_no_proposal_that_waits(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, sent = 1_000.0, 5
    monkeypatch.setattr(log.access, "sent_offsets", lambda: {0: sent})
    pulse = Pulse(log, clock_s=lambda: now_s)
    pulse.take(log.outcomes[3])
    for seconds in (0.0, 11.0):
        now_s += seconds
        pulse.look()
    assert pulse.beat(0).undecided == 0
    # What comes after it in its partition is decided at an offset of its own, as is all else.
    sent = 6
    pulse.look()
    assert pulse.beat(0).undecided == 1
    pulse.take(log.outcomes[5])
    pulse.look()
    assert pulse.beat(0).undecided == 0


def test_beat_when_nobody_answers_then_the_head_stays_and_the_lag_grows(log: InMemoryCommitLog) -> None:
    pulse = Pulse(log)
    pulse.beat(3)
    pulse.take(log.outcomes[-3])
    beat = pulse.beat(None)
    assert (beat.head, beat.visible, beat.lag) == (3, 0, 1)
    pulse.beat(len(log.outcomes))
    pulse.take(log.outcomes[-3])
    assert pulse.beat(None).lag == 0


def test_beat_when_readers_are_away_for_long_then_those_of_a_second_are_noted_together(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_module, "UNSEEN_APART_MAX", 2)
    commits = [each for each in log.outcomes if each.snapshot_id is not None]
    first = commits[0].snapshot_id or 0
    pulse = Pulse(log, clock_s=lambda: commits[0].decided_at_ms / 1000 + 9)
    for outcome in commits[:3]:
        pulse.take(outcome)
    assert pulse.beat(None).lag == 3
    for outcome in commits[3:7]:
        pulse.take(outcome)
    beat = pulse.beat(None)
    assert (beat.lag, beat.lag_s) == (7, pytest.approx(9))
    assert len(pulse._unseen) == 3
    assert [pulse.beat(first + seen).lag for seen in range(8)] == [6, 5, 4, 3, 2, 1, 0, 0]


def test_pulse_when_it_begins_then_knows_what_was_decided_before(log: InMemoryCommitLog) -> None:
    pulse = Pulse(log)
    assert pulse.begin() == len(log.outcomes)
    assert sum(pulse.verdicts().values()) == len(log.outcomes)


@pytest.mark.parametrize("seen", [0, 3, 8])
def test_pulse_when_it_begins_while_readers_are_behind_then_knows_how_far(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    contents = log.contents()

    class Behind:
        def history(self, asked: HistoryFilter) -> list[HistoryEntry]:
            return [each for each in contents.history(asked) if each.seq <= seen]

    monkeypatch.setattr(log, "contents", Behind)
    first = log.outcomes[seen]
    pulse = Pulse(log, clock_s=lambda: first.decided_at_ms / 1000 + 9)
    assert pulse.begin() == len(log.outcomes)
    commits = [each.snapshot_id for each in log.outcomes if each.snapshot_id is not None]
    waiting = [each.snapshot_id for each in log.outcomes[seen:] if each.snapshot_id is not None]
    beat = pulse.beat(len(commits) - len(waiting))
    assert (beat.lag, beat.lag_s) == (len(waiting), pytest.approx(9))
    assert pulse.beat(len(commits)).lag == 0


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pulse beats, and tries again, as often as a test looks."""
    monkeypatch.setattr(pulse_module, "BEAT_S", 0.02)
    monkeypatch.setattr(pulse_module, "RETRY_S", 0.02)


@pytest.mark.usefixtures("_quick")
def test_pulse_when_readers_cannot_be_asked_then_says_so_and_beats_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        pulse, beats = Pulse(own), queue.Queue[Beat]()
        contents, answers = own.contents(), threading.Event()

        def asked() -> Contents:
            if not answers.is_set():
                raise CatalogUnavailableError("postgresql://lake")
            return contents

        monkeypatch.setattr(own, "contents", asked)
        pulse.on_beat = beats.put
        pulse.start()
        try:
            assert beats.get(timeout=60).head is None
            assert "postgresql://lake" in str(pulse.problem)
            answers.set()
            while beats.get(timeout=60).head is None or pulse.problem is not None:
                pass
        finally:
            pulse.stop()


@pytest.mark.usefixtures("_quick")
def test_pulse_when_started_then_beats_with_what_comes(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        pulse, beats = Pulse(own), queue.Queue[Beat]()
        pulse.on_beat = beats.put
        pulse.start()
        try:
            # What is decided before it has begun is not of its beats.
            while beats.get(timeout=60).decided == 0:
                own.append("main.t", [{"id": 1}], create=True)
        finally:
            pulse.stop()


@pytest.mark.usefixtures("_quick")
def test_pulse_when_the_log_was_trimmed_beyond_where_it_was_then_follows_it_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        pulse, beats = Pulse(own), queue.Queue[Beat]()
        subscribe, asked = own.subscribe, list[int]()

        def trimmed_meanwhile(after_seq: int) -> Subscription:
            asked.append(after_seq)
            if after_seq < 2:
                own.append("main.t", [{"id": 1}], create=True)
                raise ResultsTrimmedError("main", seq=2, archive="s3://kept", asked_seq=after_seq)
            return subscribe(after_seq)

        monkeypatch.setattr(own, "subscribe", trimmed_meanwhile)
        pulse.on_beat = beats.put
        pulse.start()
        try:
            while len(asked) < 3:
                beats.get(timeout=60)
            own.append("main.t", [{"id": 2}])
            while (beat := beats.get(timeout=60)).decided == 0 or pulse.problem is not None:
                assert len(asked) < 5, pulse.problem
            assert (beat.decided, asked) == (1, [0, 1, 2])
        finally:
            pulse.stop()
    assert sum(pulse.verdicts().values()) == 3


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_live_when_a_beat_comes_then_whoever_looks_is_sent_it_drawn(log: InMemoryCommitLog) -> None:
    pulse = Pulse(log)
    site = Site(log, make_environment(log_name="main", pages=()), pulse)
    live = Live(site)

    async def looked() -> list[str]:
        stream = live.events(quiet_s=0.05)
        sent = [await anext(stream)]
        pulse.take(log.outcomes[-1])
        beat = pulse.beat(9)
        await asyncio.to_thread(live.tell, beat)
        sent += [await anext(stream), await anext(stream)]
        await stream.aclose()  # type: ignore[attr-defined]
        return sent

    first, beat, quiet = asyncio.run(looked())
    assert first.startswith("retry:")
    assert beat.startswith("event: overview\ndata: ")
    assert "\nevent: outcome\ndata: " in beat
    assert f"/outcome/{len(log.outcomes)}" in beat
    assert "<script>" not in beat
    assert quiet.startswith(":")
    assert not live._listeners


class _Behind:
    """What readers see who are behind."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.applied_seq = 0

    def history(self, asked: HistoryFilter) -> list[HistoryEntry]:
        seen = [each for each in self._contents.history(replace(asked, limit=None)) if each.seq <= self.applied_seq]
        return seen[: asked.limit]


def test_live_when_readers_are_behind_then_rows_are_sent_when_they_see_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        behind = _Behind(own.contents())
        monkeypatch.setattr(own, "contents", lambda: behind)
        live = Live(Site(own, make_environment(log_name="main", pages=()), Pulse(own)))

        async def sent_by_a_beat(stream: AsyncIterator[str]) -> list[int]:
            await asyncio.to_thread(live.tell, Beat())
            return [int(seq) for seq in re.findall(r'"row" href="/outcome/(\d+)"', await anext(stream))]

        async def looked() -> list[list[int]]:
            stream = live.events()
            await anext(stream)
            sent = [await sent_by_a_beat(stream)]
            for number in range(ROWS_TOLD_MAX + 5):
                with own.transaction() as tx:
                    tx.create_schema(f"s{number}")
            sent.append(await sent_by_a_beat(stream))
            for seq in (2, 2, ROWS_TOLD_MAX + 5):
                behind.applied_seq = seq
                sent.append(await sent_by_a_beat(stream))
            later = live.events()
            await anext(later)
            sent.append(await sent_by_a_beat(later))
            for each in (stream, later):
                await each.aclose()  # type: ignore[attr-defined]
            return sent

        newest = list(range(ROWS_TOLD_MAX + 5, 5, -1))
        assert asyncio.run(looked()) == [[], [], [2, 1], [], newest, newest]


def test_live_when_readers_are_away_then_the_overview_goes_on(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Contents:
        raise CatalogUnavailableError("postgresql://lake")

    monkeypatch.setattr(log, "contents", away)
    live = Live(Site(log, make_environment(log_name="main", pages=()), Pulse(log)))

    async def looked() -> str:
        stream = live.events()
        await anext(stream)
        await asyncio.to_thread(live.tell, Beat())
        sent = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return sent

    sent = asyncio.run(asyncio.wait_for(looked(), 60))
    assert sent.startswith("event: overview\ndata: ")
    assert "event: outcome" not in sent


def test_live_when_somebody_does_not_keep_up_then_beats_are_left_out(log: InMemoryCommitLog) -> None:
    pulse = Pulse(log)
    live = Live(Site(log, make_environment(log_name="main", pages=()), pulse))

    async def looked() -> int:
        stream = live.events(quiet_s=0.05)
        await anext(stream)
        for _ in range(50):
            await asyncio.to_thread(live.tell, Beat())
        await asyncio.sleep(0)
        sent = 0
        while not (await anext(stream)).startswith(":"):
            sent += 1
        await stream.aclose()  # type: ignore[attr-defined]
        return sent

    assert 1 <= asyncio.run(looked()) <= 4


def test_event_when_it_has_several_lines_then_each_is_data() -> None:
    assert event("overview", "<p>\r\nevent: x\n</p>") == "event: overview\ndata: <p>\ndata: event: x\ndata: </p>\n\n"


# --- drawings and words -----------------------------------------------------------------------------------------------


def test_plot_when_a_value_is_missing_then_the_curve_has_a_gap() -> None:
    plot = draw_plot([[0.0, 5.0, None, 10.0], [1.0, 1.0, 1.0, 1.0]], 4)
    assert [value for _, value in plot.grid] == ["0", "5", "10"]
    assert plot.curves[0].count("M") == 2
    assert plot.curves[1].count("M") == 1
    assert draw_plot([[]], 4).curves == ("",)


@pytest.mark.parametrize(("value", "above"), [(0, 1), (0.3, 0.5), (1, 1), (3, 5), (7, 10), (10, 10), (101, 200)])
def test_nice_above_when_given_a_value_then_1_2_or_5(value: float, above: float) -> None:
    assert nice_above(value) == pytest.approx(above)


@pytest.mark.parametrize("shape", [WIDE, NARROW], ids=["wide", "narrow"])
def test_lanes_when_transactions_overlapped_then_their_bars_do(log: InMemoryCommitLog, shape: LaneShape) -> None:
    table_id = log.table("main.flights").definition.table_id
    drawing = draw_lanes(log.contents().history(HistoryFilter(table_id=table_id)), shape)
    assert drawing is not None
    assert all(0 < each.x < each.end <= shape.width - shape.right for each in drawing.lanes)
    assert all(0 < each.name_y < each.y + 5 < drawing.axis_y < drawing.height for each in drawing.lanes)
    by_writer = {each.writer: each for each in drawing.lanes}
    refused, met, after = by_writer["reporting"], by_writer["gdpr-erasure"], by_writer["schema-owner"]
    assert not refused.is_committed
    assert refused.x < met.x < met.end == refused.end
    assert after.x == met.end
    assert draw_lanes([]) is None


def test_times_when_drawn_then_refusals_are_below_the_line(log: InMemoryCommitLog) -> None:
    table_id = log.table("main.flights").definition.table_id
    entries = log.contents().history(HistoryFilter(table_id=table_id))
    drawing = draw_times(entries)
    assert drawing is not None
    assert sum(each.committed for each in drawing.stretches) == 8
    assert sum(each.refused for each in drawing.stretches) == 2
    assert [each.refused for each in drawing.stretches if each.down] == [
        each.refused for each in drawing.stretches if each.refused
    ]
    assert drawing.stretches[-1].committed >= 1
    assert draw_times(entries[:1]) is None
    assert draw_times([]) is None


def test_words_when_shown_then_short_and_printable() -> None:
    assert (size(512), size(1536), size(None)) == ("512 bytes", "1.5 KiB", NOT_KNOWN)
    assert (number(1234567), number(None), number(0.5)) == ("1,234,567", NOT_KNOWN, "0.5")
    assert shorten("a\n b\u202e" * 40, 20) == "a b\\u202ea b\\u202ea…"
    assert printable("x" * 2_000).endswith("x…")
    assert (noun(0, "row"), noun(1, "row"), noun(2, "row")) == ("rows", "row", "rows")
    assert age(None) == NOT_KNOWN
