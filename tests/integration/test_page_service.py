"""The web page as a service on a real log: found by its address, and saying what is wrong when nobody decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from log_running import projecting, serving

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.log.topics import topics_of
from commitlog.observing import lag
from commitlog.ops.service.listening import listening, noted
from commitlog.ops.service.page import run_page, running_page
from commitlog.ops.service.serve import prepare
from commitlog.ops.service.supervisor import PAGE
from commitlog.ui.pulse import Pulse

DEADLINE_S = 60
TOKEN = "a-token-of-sixteen-characters"
MAIN = [sys.executable, "-c", "from commitlog.ops.cli import main; main()", "ui"]


@pytest.fixture
def settings(kafka: str, database_url: str, log_name: str, tmp_path: Path) -> Settings:
    """A log with a catalog that nobody serves."""
    made = Settings.load(
        environment={},
        log=log_name,
        bootstrap_servers=kafka,
        database_url=database_url,
        data_path=tmp_path / "lake",
        home=tmp_path / "home",
        ui_port=0,
    )
    prepare(made)
    return made


@contextmanager
def page_of(settings: Settings) -> Iterator[str]:
    """The page while it runs; its address."""
    stop, told = threading.Event(), threading.Event()
    addresses: list[str] = []

    def on_address(address: str) -> None:
        addresses.append(address)
        told.set()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run_page, settings, stop=stop, on_address=on_address)
        done.add_done_callback(lambda _: told.set())
        assert told.wait(DEADLINE_S)
        if not addresses:
            done.result()
        try:
            yield addresses[0]
        finally:
            stop.set()
            done.result(DEADLINE_S)


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=DEADLINE_S) as answer:
        return str(answer.read(), "utf-8")


def test_page_when_nobody_decides_then_it_answers_and_says_what_to_do(settings: Settings) -> None:
    with page_of(settings) as address:
        assert "Nothing has been decided yet" in read(f"{address}log")
        health = read(f"{address}health")
        assert "Not well" in health
        assert "No sequencer is active: nothing is decided." in health
        assert "run `commitlog serve` or `commitlog up`" in health
        assert running_page(settings) == address
        shown = subprocess.run(MAIN, capture_output=True, text=True, env=settings.environment(), timeout=DEADLINE_S)
        assert (shown.returncode, shown.stdout.split()) == (0, [address])
    assert running_page(settings) is None


def test_page_when_it_has_a_token_then_only_its_address_opens_it(settings: Settings) -> None:
    with page_of(replace(settings, ui_token=TOKEN)) as address:
        assert address.endswith(f"?token={TOKEN}")
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            read(address.partition("?")[0])
        refused.value.close()


def test_page_when_it_listens_at_another_address_of_this_machine_alone_then_the_printed_one_opens_it(
    settings: Settings,
) -> None:
    with page_of(replace(settings, ui_host="127.0.0.2")) as address:
        assert address.startswith("http://127.0.0.2:")
        assert "Nothing has been decided yet" in read(f"{address}log")
        rebound = urllib.request.Request(address, headers={"Host": "rebound.example"})
        with pytest.raises(urllib.error.HTTPError, match="421") as refused:
            urllib.request.urlopen(rebound, timeout=DEADLINE_S)
        refused.value.close()


def test_page_when_others_could_look_without_a_token_then_does_not_begin(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="COMMITLOG_UI_TOKEN"), page_of(replace(settings, ui_host="0.0.0.0")):
        pass


def test_page_when_its_port_is_taken_then_takes_another_unless_it_was_chosen(settings: Settings) -> None:
    with listening("127.0.0.1", 0) as taken:
        busy = replace(settings, ui_port=taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="cannot listen"), page_of(busy):
            pass
        unchosen = replace(busy, sources={**busy.sources, "ui_port": "default of ui_port"})
        with page_of(unchosen) as address:
            assert "Overview" in read(address)


def test_running_page_when_its_note_is_torn_then_there_is_none(tmp_path: Path) -> None:
    settings = Settings.load(environment={}, home=tmp_path)
    note = tmp_path / "services" / settings.log / "page.8642.port"
    note.parent.mkdir(parents=True)
    for text in ("", "{", "[]", '{"port": "x"}', json.dumps({"port": 1}), json.dumps({"host": 1, "port": 1})):
        note.write_text(text)
        assert running_page(settings) is None


def test_running_page_when_several_run_then_the_youngest_that_does(tmp_path: Path) -> None:
    settings = Settings.load(environment={}, home=tmp_path)
    with (
        listening("127.0.0.1", 0) as first,
        noted(settings, PAGE.name, "127.0.0.1", first) as address,
        listening("127.0.0.1", 0) as second,
    ):
        with noted(settings, PAGE.name, "127.0.0.1", second) as younger:
            os.utime(tmp_path / "services" / settings.log / f"page.{first.getsockname()[1]}.port", (0, 0))
            assert running_page(settings) == younger
        assert running_page(settings) == address
    assert running_page(settings) is None


def test_pulse_when_somebody_has_sent_by_a_kafka_transaction_then_its_end_waits_for_no_decision(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "LAG_S_MAX", 1.0)
    stranger = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": settings.log})
    stranger.init_transactions(DEADLINE_S)
    stranger.begin_transaction()
    stranger.produce(topics_of(settings.log).proposals, b"no proposal", partition=0)
    stranger.commit_transaction(DEADLINE_S)
    with serving(settings), projecting(settings), CommitLog.connect(settings=settings) as log:
        pulse = Pulse(log)
        pulse.start()
        deadline = time.monotonic() + DEADLINE_S
        while not any(beat.undecided == 1 for beat in pulse.beats()):
            assert time.monotonic() < deadline, pulse.problem
            time.sleep(0.1)
        while pulse.beats()[-1].undecided:
            assert time.monotonic() < deadline, pulse.beats()[-1]
            time.sleep(0.1)
        pulse.stop()
