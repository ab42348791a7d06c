"""What keeps services going while servers are away, and what they leave for `status`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from commitlog.catalog.connecting import catalog_url
from commitlog.config import PORTS_FILE, Settings
from commitlog.errors import CatalogUnavailableError, ConfigurationError, LocalRuntimeError, LogUnavailableError
from commitlog.local import home as home_module
from commitlog.local.home import EmbeddedHome
from commitlog.log.connection import make_consumer
from commitlog.ops.cli import cli, ui
from commitlog.ops.cli.options import current_catalog, reading_log
from commitlog.ops.service import keep_trying as keep_trying_module
from commitlog.ops.service import notes as notes_module
from commitlog.ops.service.keep_trying import keep_trying, stopped_by_signal
from commitlog.ops.service.notes import Notes
from commitlog.ops.service.supervisor import EXIT_CANNOT_PROJECT, Restarts, because


def settings_of(home: Path, **given: Any) -> Settings:
    return Settings.load(environment={"HOME": str(home)}, home=home, **given)


def test_keep_trying_when_a_server_is_away_then_says_so_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_trying_module, "PAUSE_S_MAX", 0.001)
    away = [LogUnavailableError("here:1")] * 50
    said: list[str] = []
    notes = Notes(settings_of(tmp_path))

    def act() -> str:
        if away:
            raise away.pop()
        return "done"

    assert keep_trying("projector", act, stop=threading.Event(), say=said.append, notes=notes) == "done"
    assert len(said) == 1
    assert said[0].startswith("projector is waiting and will try again: Kafka at here:1 does not answer")
    assert [(note.service, note.error[:15]) for note in notes.read()] == [("projector", "Kafka at here:1")]
    notes.clear("projector")
    assert list(notes.read()) == []


def test_keep_trying_when_it_is_stopped_or_the_error_is_another_then_ends() -> None:
    stop = threading.Event()
    calls: list[int] = []

    def away() -> None:
        calls.append(1)
        stop.set()
        raise LogUnavailableError("here:1")

    assert keep_trying("serve", away, stop=stop, say=lambda line: None) is None
    assert calls == [1]

    def wrong() -> None:
        raise ConfigurationError("wrong")

    with pytest.raises(ConfigurationError):
        keep_trying("serve", wrong, stop=threading.Event(), say=lambda line: None)


def test_notes_when_old_or_broken_then_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes(settings_of(tmp_path))
    notes.leave("projector", "an error")
    (tmp_path / "services" / "main" / "other.json").write_text("{")
    assert [note.error for note in notes.read()] == ["an error"]
    monkeypatch.setattr(notes_module, "NOTE_MS_MAX", -1)
    assert list(notes.read()) == []


def test_notes_when_their_folder_can_be_neither_made_nor_changed_then_the_service_goes_on(tmp_path: Path) -> None:
    (tmp_path / "services").write_text("in its place")
    notes = Notes(settings_of(tmp_path))
    notes.leave("projector", "an error")
    notes.clear("projector")
    assert list(notes.read()) == []


def test_restarts_when_it_ends_again_and_again_then_wait_longer_until_it_ran_steadily() -> None:
    restarts = Restarts()
    assert [restarts.delay_s(1, 0) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
    assert restarts.delay_s(EXIT_CANNOT_PROJECT, 0) == 60
    assert restarts.delay_s(1, 31) == 0.2
    assert "cannot be written into the catalog" in because("projector", EXIT_CANNOT_PROJECT)


class Server:
    """A server that cannot be started until it is told so."""

    def __init__(self) -> None:
        self.pid: int | None = 1
        self.port = 0
        self.works = False

    def start(self) -> None:
        if not self.works:
            raise LocalRuntimeError("Kafka was not ready")
        self.pid = 2

    def stop(self) -> None:
        self.pid = None


def test_home_when_a_server_cannot_be_started_again_then_says_so_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_module, "REVIVE_DELAY_S_MIN", 0.01)
    home, server = EmbeddedHome(settings_of(tmp_path)), Server()
    home._revivals = [home_module._Revival("kafka", server)]  # type: ignore[arg-type]
    assert home.revive() == []
    server.pid = None
    lines: list[str] = []

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        assert [*home.revive(), *home.revive()] == [
            "kafka had ended and cannot be started; trying again: can't start new thread"
        ]
    monkeypatch.setattr(home_module, "SAID_EVERY_S", 0.0)

    def watch(expected: int) -> None:
        deadline = time.monotonic() + 20
        while len(lines) < expected and time.monotonic() < deadline:
            lines.extend(home.revive())

    watch(1)
    server.works = True
    watch(2)
    assert lines == [
        "kafka had ended and cannot be started; trying again: Kafka was not ready",
        "kafka had ended and was restarted",
    ]


def test_home_when_it_ran_before_then_begins_with_its_ports_unless_others_are_chosen(tmp_path: Path) -> None:
    (tmp_path / PORTS_FILE).write_text(json.dumps({"kafka": 20_001, "postgres": 20_002}))
    home = EmbeddedHome(settings_of(tmp_path))
    assert (home.broker._port_wanted, home.postgres._port_wanted) == (20_001, 20_002)
    chosen = EmbeddedHome(settings_of(tmp_path, kafka_port=30_001))
    assert (chosen.broker._port_wanted, chosen.postgres._port_wanted) == (30_001, 20_002)


def test_client_when_its_home_does_not_run_then_does_not_ask_who_listens_at_the_default_address(tmp_path: Path) -> None:
    (tmp_path / PORTS_FILE).write_text("{}")
    with pytest.raises(LogUnavailableError, match=f"nothing is running in {tmp_path}. Start it .`commitlog up`"):
        make_consumer(settings_of(tmp_path))
    make_consumer(settings_of(tmp_path, bootstrap_servers="127.0.0.1:9")).close()


def test_catalog_when_its_home_does_not_run_then_does_not_ask_who_listens_at_the_default_address(
    tmp_path: Path,
) -> None:
    assert catalog_url(settings_of(tmp_path)).endswith("127.0.0.1:5432/commitlog")
    (tmp_path / PORTS_FILE).write_text("{}")
    with pytest.raises(CatalogUnavailableError, match=f"nothing is running in {tmp_path}. Start it .`commitlog up`"):
        catalog_url(settings_of(tmp_path))
    with pytest.raises(CatalogUnavailableError, match="nothing is running"), current_catalog(settings_of(tmp_path)):
        pass
    with pytest.raises(CatalogUnavailableError, match="nothing is running"), reading_log(settings_of(tmp_path)):
        pass
    assert catalog_url(settings_of(tmp_path, database_url="postgresql://me@here/c")) == "postgresql://me@here/c"


@pytest.mark.parametrize(
    "detail", ['FATAL:  password authentication failed for user "postgres"', "fe_sendauth: no password supplied"]
)
def test_catalog_when_it_refuses_the_connection_then_does_not_say_that_it_does_not_answer(detail: str) -> None:
    refused = CatalogUnavailableError("here/c", detail=f"connection failed: {detail}")
    assert str(refused).startswith("PostgreSQL at here/c refused the connection")
    assert "Start it" not in str(refused)
    assert str(CatalogUnavailableError("here/c", detail="Connection refused")).startswith(
        "PostgreSQL at here/c does not answer"
    )


def test_ui_when_kafka_does_not_answer_then_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(settings: Settings, **_: Any) -> None:
        monkeypatch.setattr(ui, "run_page", lambda settings, **_: pytest.fail("trying again"))
        raise LogUnavailableError(settings.bootstrap_servers)

    monkeypatch.setattr(ui, "run_page", away)
    monkeypatch.setattr(ui, "running_page", lambda settings: None)
    result = CliRunner().invoke(ui.ui_command, ["--home", str(tmp_path)], **cli.context_settings)
    assert isinstance(result.exception, LogUnavailableError)


def test_load_when_the_home_says_which_log_it_runs_then_that_one_is_meant(tmp_path: Path) -> None:
    log_id = "0193a000-0000-7000-8000-000000000001"
    told = {"log": "main", "log_id": log_id, "bootstrap_servers": "run:1"}
    (tmp_path / "run.json").write_text(json.dumps(told))
    assert settings_of(tmp_path).log_id == log_id
    assert settings_of(tmp_path, log="other").log_id is None
    assert settings_of(tmp_path, bootstrap_servers="else:1").log_id is None
    with pytest.raises(ConfigurationError, match="must be a UUID"):
        settings_of(tmp_path, log_id="main")


@contextmanager
def hangup_is(handler: signal.Handlers) -> Iterator[None]:
    """What the end of the terminal does; tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_by_signal_when_asked_to_end_or_its_terminal_ends_then_the_service_is_told(
    number: signal.Signals,
) -> None:
    with hangup_is(signal.SIG_DFL), stopped_by_signal() as stop:
        signal.raise_signal(number)
        assert stop.wait(10)


def test_stopped_by_signal_when_the_end_of_the_terminal_is_ignored_then_it_stays_so() -> None:
    with hangup_is(signal.SIG_IGN), stopped_by_signal() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set()


LOOKED_AT = """
import signal
from commitlog.ops.service.keep_trying import stopped_by_signal

with stopped_by_signal() as stop:
    with stop._cond:
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(60)
"""


def test_stopped_by_signal_when_the_event_is_looked_at_just_then_it_is_set() -> None:
    subprocess.run([sys.executable, "-c", LOOKED_AT], check=True, timeout=120)
