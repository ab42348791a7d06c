"""Who may look at the page, under which name, and from where."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.ops.service.listening import address_of, last_port, listening, noted, running_place
from commitlog.ops.service.notes import folder_of, leave_word
from commitlog.ops.service.page import check_reach, running_page
from commitlog.testing import InMemoryCommitLog
from commitlog.ui import serving
from commitlog.ui.app import create_app
from commitlog.ui.guarding import COOKIE
from commitlog.ui.pulse import Pulse
from commitlog.ui.serving import LOCAL_HOSTS

TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture
def log() -> Iterator[InMemoryCommitLog]:
    with InMemoryCommitLog() as made:
        yield made


def client_of(log: InMemoryCommitLog, **options: object) -> TestClient:
    app = create_app(log, name="main", pulse=Pulse(log), **options)  # type: ignore[arg-type]
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


# --- the token --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/log", "/live", "/static/page.js", "/nowhere"])
def test_token_when_it_is_missing_or_wrong_then_nothing_is_shown(log: InMemoryCommitLog, path: str) -> None:
    client = client_of(log, token=TOKEN)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": "a;;=b"}):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 401
        assert "commitlog ui" in answer.text
        assert "content-security-policy" in answer.headers
    assert client.get(f"{path}?token=wrong").status_code == 401
    assert client.get(path, headers={"cookie": f"{COOKIE}=wrong"}).status_code == 401


def test_token_when_it_is_in_the_address_then_a_cookie_has_it_from_then_on(log: InMemoryCommitLog) -> None:
    client = client_of(log, token=TOKEN)
    answer = client.get(f"/log?writer=a%26b&token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/log?writer=a%26b")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/log").status_code == 200


def test_token_when_it_comes_by_a_path_of_two_slashes_then_leads_to_no_other_host(log: InMemoryCommitLog) -> None:
    answer = client_of(log, token=TOKEN).get(f"http://localhost//elsewhere.example/?token={TOKEN}")
    assert answer.headers["location"] == "/elsewhere.example/"


def test_token_when_it_is_a_bearers_then_pages_are_shown(log: InMemoryCommitLog) -> None:
    client = client_of(log, token=TOKEN)
    assert client.get("/log", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_token_when_its_letters_mean_something_in_an_address_then_the_one_that_is_printed_opens_the_page(
    log: InMemoryCommitLog, tmp_path: Path
) -> None:
    settings = Settings.load(environment={}, home=tmp_path, ui_token="as+Base64/writes it==&more#%41")
    with listening("127.0.0.1", 0) as taken, noted(settings, "page", "127.0.0.1", taken):
        printed = running_page(settings)
    assert printed is not None
    client = client_of(log, token=settings.ui_token)
    assert client.get("/?" + printed.partition("?")[2]).status_code == 303
    assert client.get("/log").status_code == 200


# --- the host ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("rebound.example", 421),
        ("localhost.example", 421),
        ("", 421),
    ],
)
def test_hosts_when_only_these_are_known_then_others_are_turned_away(
    log: InMemoryCommitLog, host: str, status: int
) -> None:
    client = client_of(log, hosts=LOCAL_HOSTS)
    assert client.get("/log", headers={"host": host}).status_code == status


# --- where it listens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "lake.example"])
def test_reach_when_others_could_look_then_asks_for_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="COMMITLOG_UI_TOKEN"):
        check_reach(host, None)
    check_reach(host, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.1.2.3"])
def test_reach_when_only_this_machine_can_then_needs_none(host: str) -> None:
    check_reach(host, None)


def test_reach_when_a_token_could_be_guessed_then_refuses_it() -> None:
    with pytest.raises(ConfigurationError, match="16 characters"):
        check_reach("127.0.0.1", "short")


def test_listening_when_the_port_is_taken_then_says_so() -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            listening("127.0.0.1", port)
        with listening("127.0.0.1", port, is_chosen=False) as other:
            assert other.getsockname()[1] != port


def test_listening_when_it_had_another_port_before_then_has_it_again(tmp_path: Path) -> None:
    settings = Settings.load(environment={}, home=tmp_path)
    assert last_port(settings, "gateway") == 0
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with (
            listening("127.0.0.1", port, is_chosen=False) as first,
            noted(settings, "gateway", "127.0.0.1", first),
        ):
            last = first.getsockname()[1]
        assert last_port(settings, "gateway") == last
        with listening("127.0.0.1", port, is_chosen=False, last=last) as second:
            assert second.getsockname()[1] == last
            with listening("127.0.0.1", port, is_chosen=False, last=last) as third:
                assert third.getsockname()[1] not in (port, last)


@pytest.mark.parametrize(
    ("host", "reached"), [("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")]
)
def test_running_when_it_listens_at_one_address_or_at_all_then_is_found_where_this_machine_reaches_it(
    tmp_path: Path, host: str, reached: str
) -> None:
    settings = Settings.load(environment={}, home=tmp_path)
    with listening(host, 0) as taken, noted(settings, "gateway", host, taken):
        assert running_place(settings, "gateway") == f"{reached}:{taken.getsockname()[1]}"
    assert running_place(settings, "gateway") is None


def test_running_when_its_process_was_killed_then_is_not_found_where_another_listens_by_now(tmp_path: Path) -> None:
    settings = Settings.load(environment={}, home=tmp_path)
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        pass
    with listening("127.0.0.1", 0) as another:
        port = another.getsockname()[1]
        note = {"host": "127.0.0.1", "port": port, "pid": killed.pid}
        assert leave_word(folder_of(settings) / f"gateway.{port}.port", note)
        assert running_place(settings, "gateway") is None


def test_address_when_shown_then_can_be_opened() -> None:
    assert address_of("127.0.0.1", 8080) == "http://127.0.0.1:8080/"
    assert address_of("::1", 8080) == address_of("[::1]", 8080) == "http://[::1]:8080/"


def test_connection_when_it_asks_for_nothing_then_it_is_closed_and_one_that_is_being_answered_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_answer = threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        while scope["type"] == "http" and not may_answer.is_set():
            await asyncio.sleep(0.01)
        await PlainTextResponse("done")(scope, receive, send)

    monkeypatch.setattr(serving, "SILENCE_S", 0.05)
    taken = socket.create_server(("127.0.0.1", 0))
    address = taken.getsockname()
    with (
        serving.served(slow, taken),
        socket.create_connection(address, 30) as asking,
        socket.create_connection(address, 30) as half,
        socket.create_connection(address, 30) as silent,
    ):
        asking.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        half.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert half.recv(1) == b""
        assert silent.recv(1) == b""
        may_answer.set()
        assert asking.recv(1_000).startswith(b"HTTP/1.1 200")


@asynccontextmanager
async def _failing(app: Starlette) -> AsyncIterator[None]:
    raise MemoryError("no thread can be started")
    yield


@pytest.mark.timeout(60)
def test_served_when_the_page_cannot_begin_then_ends_with_that(caplog: pytest.LogCaptureFixture) -> None:
    with (
        listening("127.0.0.1", 0) as taken,
        pytest.raises(RuntimeError, match="the page cannot begin"),
        serving.served(Starlette(lifespan=_failing), taken),
    ):
        threading.Event().wait(3)
    assert "no thread can be started" in caplog.text
