"""What `up` says, and when: on services that are processes, and servers that are not there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from commitlog.config import Settings
from commitlog.ops.service import runtime
from commitlog.ops.service.supervisor import GATEWAY, PAGE, Service

LISTENS = """
import sys, time
from commitlog.config import Settings
from commitlog.ops.service.listening import listening, noted

settings = Settings.load()
with listening("127.0.0.1", 0) as taken, noted(settings, sys.argv[1], "127.0.0.1", taken):
    time.sleep(3600)
"""
LATE = f"""
import sys, time
from pathlib import Path
from commitlog.config import Settings

while not (Settings.load().home / "ready").exists():
    time.sleep(0.05)
{LISTENS}"""
ENDS, STAYS = "raise SystemExit(1)", "import time; time.sleep(3600)"


def as_it_says(
    monkeypatch: pytest.MonkeyPatch, home: Path, *, until: Sequence[str] = ("ready",), **programs: str
) -> list[str]:
    """What `up` says until it has said all that is waited for, the address of a service without its port."""
    monkeypatch.setattr(runtime, "find_genesis", lambda settings: None)
    settings = replace(
        Settings.load(environment={}, home=home),
        bootstrap_servers="127.0.0.1:1",
        database_url="postgresql://postgres:secret@127.0.0.1:1/commitlog",
    )

    def services(_: Settings) -> Sequence[Service]:
        return [Service(name, (program, name), program=(sys.executable, "-c")) for name, program in programs.items()]

    said: list[str] = []

    def watched() -> None:
        assert runtime.status(settings).bootstrap_servers, "other programs know the servers meanwhile"
        begun = {line.split()[0] for line in said}
        if "ready" in begun:
            (home / "ready").touch()
        if begun.issuperset(until):
            raise KeyboardInterrupt

    stub = SimpleNamespace(
        start=lambda: settings,
        postgres=SimpleNamespace(log_file=home / "postgres.log"),
        check_kept=watched,
        revive=lambda: ["Kafka was started again"],
        leave=lambda: None,
    )
    with pytest.raises(KeyboardInterrupt):
        runtime._serve(stub, settings, services, said.append)  # type: ignore[arg-type]
    return [line.split("127.0.0.1")[0].split(" after")[0].strip() for line in said]


def test_up_when_page_and_gateway_only_begin_then_says_ready_when_they_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = as_it_says(monkeypatch, tmp_path, **{PAGE.name: LISTENS, GATEWAY.name: LISTENS})
    assert [line for line in said if line.startswith(("page", "gateway", "ready"))] == [
        "page       http://",
        "gateway",
        "ready",
    ]


def test_up_when_page_and_gateway_end_then_waits_for_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LISTENING_TIMEOUT_S", float("inf"))
    assert "ready" in as_it_says(monkeypatch, tmp_path, **{PAGE.name: ENDS, GATEWAY.name: ENDS})


def test_up_when_the_page_does_not_listen_for_long_then_is_ready_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LISTENING_TIMEOUT_S", 0.5)
    said = as_it_says(monkeypatch, tmp_path, **{PAGE.name: STAYS})
    assert said.index("Kafka was started again") < said.index("ready"), "its servers are watched meanwhile"


def test_up_when_page_and_gateway_listen_late_then_says_so_when_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LISTENING_TIMEOUT_S", 0.5)
    waited_for = ("ready", "page", "gateway")
    said = as_it_says(monkeypatch, tmp_path, until=waited_for, **{PAGE.name: LATE, GATEWAY.name: LATE})
    assert sorted(line for line in said[said.index("ready") :] if line.startswith(waited_for)) == [
        "gateway",
        "page       http://",
        "ready",
    ]


def test_up_when_a_service_that_nobody_connects_to_does_not_listen_then_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LISTENING_TIMEOUT_S", float("inf"))
    assert "ready" in as_it_says(monkeypatch, tmp_path, steady=STAYS)
