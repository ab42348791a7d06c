"""The embedded runtime as a person meets it: `up` in a process of its own, killed and started again.

Real processes, real ports, real signals. Each test has a home of its own.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from log_running import wait_until

from commitlog.catalog.guard import READER_ROLE
from commitlog.config import RUN_FILE, Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local import EmbeddedBroker, EmbeddedPostgres, broker, server
from commitlog.local.home import SERVICE_MARKER, stop_orphans, write_run_file
from commitlog.local.processes import HOST, DirectoryLock, find_processes, free_port
from commitlog.ops.service import runtime
from commitlog.ops.service.runtime import RuntimeStatus, down, status, up
from commitlog.ops.service.supervisor import Service

StartUp = Callable[..., subprocess.Popen[bytes]]
DEADLINE_S = 90.0

UP = """\
import signal
import sys
from commitlog.config import Settings
from commitlog.ops.service.runtime import up
from commitlog.ops.service.supervisor import Service

def services(settings):
    python, wait = (sys.executable, "-c"), ("import time; time.sleep(3600)",)
    return [
        Service("steady", wait, program=python),
        Service("fenced", ("raise SystemExit(3)",), {3: wait}, program=python),
    ]

# Tests that run in the background of a shell ignore Ctrl-C, and what they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
up(Settings.load(), service_factory=services, say=lambda line: print(line, flush=True))
"""


def with_servers(home: Settings) -> Settings:
    """As of a run that has started servers, where nobody listens."""
    return replace(
        home, bootstrap_servers="127.0.0.1:1", database_url="postgresql://postgres:secret@127.0.0.1:1/commitlog"
    )


BENCH = """\
import sys

from commitlog.config import Settings
from commitlog.ops.bench.servers import own_servers, service_process

with own_servers(Settings.load(), lambda line: None) as own, service_process(own, "checkpointer"):
    print(own.home, flush=True)
    sys.stdin.read()
"""

KEPT = """\
import os, subprocess, sys
from pathlib import Path

from commitlog.local.home import mark_of
from commitlog.ops.service.ending import ended_with_us

home = Path(sys.argv[1])
with ended_with_us(home):
    print(subprocess.Popen(["sleep", "600"], env={**os.environ, **mark_of(home)}).pid, flush=True)
    sys.stdin.read()
"""

MAKING = """\
import sys
from pathlib import Path
from commitlog import local

getattr(local, sys.argv[1])(Path(sys.argv[2])).start()
"""


@pytest.fixture
def home(servers_dir: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Settings of a home in a directory that PostgreSQL's user may pass through."""
    directory = servers_dir / f"home-{request.node.name}"
    settings = Settings.load(environment={"HOME": os.environ["HOME"]}, home=directory)
    yield settings
    down(settings, say=lambda line: None)


@pytest.fixture
def start_up(home: Settings) -> Iterator[StartUp]:
    """Runs `up` in a process of its own and returns when it is ready and its services stay; it is stopped after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(reached: Settings = home) -> subprocess.Popen[bytes]:
        log_file = home.home.with_suffix(f".{len(started)}.out")
        with log_file.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", UP], env=reached.environment(), stdout=output, stderr=subprocess.STDOUT
            )
        started.append(process)
        wait_until(lambda: "ready after" in log_file.read_text() or process.poll() is not None, "it to begin")
        assert process.poll() is None, log_file.read_text()
        # Until its second run one of the services comes and goes.
        wait_until(lambda: [each["starts"] for each in status(reached).services] == [1, 2], "its services to stay")
        return process

    yield start
    down(home, say=lambda line: None)
    for process in started:
        process.wait(DEADLINE_S)


def service_pids(home: Settings) -> dict[str, int]:
    return {str(each["name"]): int(str(each["pid"])) for each in status(home).services if each["pid"]}


def kafka_options(running: RuntimeStatus) -> dict[str, str]:
    found = Settings.load(environment={}, home=running.home)
    return {"bootstrap.servers": found.bootstrap_servers, **found.kafka}


def leave_traces(running: RuntimeStatus) -> None:
    client = AdminClient(kafka_options(running))
    client.create_topics([NewTopic("trace", 1)])["trace"].result(timeout=DEADLINE_S)
    producer = Producer(kafka_options(running))
    producer.produce("trace", b"kept")
    assert producer.flush(DEADLINE_S) == 0
    with psycopg.connect(str(running.database_url)) as connection:
        connection.execute("CREATE TABLE trace AS SELECT 7 AS kept")


def has_traces(running: RuntimeStatus) -> bool:
    client = AdminClient(kafka_options(running))
    with psycopg.connect(str(running.database_url)) as connection:
        row = connection.execute("SELECT kept FROM trace").fetchone()
    return "trace" in client.list_topics(timeout=DEADLINE_S).topics and row == (7,)


def test_up_when_sigterm_then_stops_all_and_keeps_the_data(home: Settings, start_up: StartUp) -> None:
    process = start_up()
    running = status(home)
    assert running.pid == process.pid
    assert running.kafka_answers
    assert running.postgres_answers
    pids = service_pids(home)
    leave_traces(running)

    process.send_signal(signal.SIGTERM)

    assert process.wait(DEADLINE_S) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids.values())
    assert status(home) == RuntimeStatus(home.home, None)
    again = start_up()
    assert has_traces(status(home))
    again.send_signal(signal.SIGINT)
    assert again.wait(DEADLINE_S) == 0


def test_up_when_everything_was_killed_then_starts_from_what_is_left(home: Settings, start_up: StartUp) -> None:
    process = start_up()
    leave_traces(status(home))
    family = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
    for pid in family:
        # PostgreSQL's own children come and go.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()

    start_up()

    assert has_traces(status(home))


@pytest.mark.parametrize("is_linked", [False, True], ids=["", "by-a-link"])
def test_up_when_only_the_supervisor_was_killed_then_takes_over_from_its_orphans(
    home: Settings, start_up: StartUp, is_linked: bool
) -> None:
    process = start_up()
    leave_traces(status(home))
    orphans = [child.pid for child in psutil.Process(process.pid).children()]
    assert len(orphans) == 4
    process.kill()
    process.wait()
    left = status(home)
    assert not left.running
    assert left.kafka_answers
    assert left.services == ()
    reached = home
    if is_linked:
        reached = replace(home, home=home.home.with_name(f"{home.home.name}-link"))
        reached.home.symlink_to(home.home)

    start_up(reached)

    assert not any(psutil.pid_exists(pid) for pid in orphans)
    assert has_traces(status(home))


def test_up_when_a_server_or_service_dies_then_starts_it_again_at_the_same_address(
    home: Settings, start_up: StartUp
) -> None:
    process = start_up()
    before = status(home)
    leave_traces(before)
    services = service_pids(home)
    dead = set(services.values())
    for child in psutil.Process(process.pid).children():
        child.kill()

    wait_until(lambda: not (status(home).kafka_answers and status(home).postgres_answers), "its servers to be gone")
    wait_until(lambda: bool(status(home).kafka_answers and status(home).postgres_answers), "them to be back")
    wait_until(
        lambda: service_pids(home).keys() == services.keys() and not dead & set(service_pids(home).values()),
        "its services to be back",
    )

    after = status(home)
    assert (after.bootstrap_servers, after.database_url) == (before.bootstrap_servers, before.database_url)
    assert has_traces(after)


def test_up_when_its_disk_takes_nothing_more_then_goes_on_and_tells_what_runs_as_soon_as_it_does(
    home: Settings, start_up: StartUp
) -> None:
    process = start_up()
    before = service_pids(home)
    in_the_way = home.home / f"{RUN_FILE}.unfinished"
    in_the_way.mkdir()
    os.kill(before["steady"], signal.SIGKILL)
    wait_until(
        lambda: len(find_processes(lambda each: each.ppid() == process.pid)) == 4 and not is_alive(before["steady"]),
        "another one in its place",
    )
    assert service_pids(home) == before
    in_the_way.rmdir()
    wait_until(lambda: service_pids(home)["steady"] != before["steady"], "it to be told of")

    def full(line: str) -> None:
        raise OSError(errno.ENOSPC, line)

    assert up(home, say=full).pid == process.pid


@pytest.mark.parametrize("is_moved", [True, False], ids=["moved", "removed"])
def test_up_when_its_home_is_moved_or_removed_then_stops_all_and_begins_nothing_in_its_place(
    home: Settings, start_up: StartUp, is_moved: bool
) -> None:
    process = start_up()
    leave_traces(status(home))
    children = [child.pid for child in psutil.Process(process.pid).children()]
    elsewhere = replace(home, home=home.home.with_name(f"{home.home.name}-elsewhere"))
    home.home.rename(elsewhere.home)
    if not is_moved:
        shutil.rmtree(elsewhere.home, ignore_errors=True)
    assert process.wait(60) == 1
    assert not any(map(is_alive, children))
    assert "was removed or moved while `commitlog up` ran in it" in home.home.with_suffix(".0.out").read_text()
    assert not (home.home / "kafka" / "server.properties").exists()
    if is_moved:
        start_up(elsewhere)
        assert has_traces(status(elsewhere))
        down(elsewhere, say=lambda line: None)


def test_up_when_a_signal_meets_it_while_services_are_started_then_none_of_them_is_left(home: Settings) -> None:
    up_of_many = UP.replace(
        'Service("steady", wait',
        '*(Service(str(each), wait, program=python) for each in range(60)), Service("steady", wait',
    )
    process = subprocess.Popen([sys.executable, "-c", up_of_many], env=home.environment(), stdout=subprocess.DEVNULL)

    def services() -> list[psutil.Process]:
        return find_processes(lambda each: each.environ().get(SERVICE_MARKER) == str(home.home.resolve()))

    wait_until(lambda: process.poll() is not None or bool(services()), "a first service")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert services() == []


def test_stop_orphans_when_somebody_runs_the_home_again_then_leaves_it_alone(home: Settings, start_up: StartUp) -> None:
    start_up()
    before = status(home)
    assert not stop_orphans(home.home)
    assert status(home) == before
    assert (before.kafka_answers, before.postgres_answers, len(service_pids(home))) == (True, True, 2)


def is_alive(pid: int) -> bool:
    return bool(find_processes(lambda each: each.pid == pid))


def test_up_when_postgres_loses_its_data_then_makes_the_databases_and_the_reader_anew(
    home: Settings, start_up: StartUp
) -> None:
    process = start_up()
    url = str(status(home).database_url)
    (server,) = [each for each in psutil.Process(process.pid).children() if each.name() == "postgres"]
    shutil.rmtree(home.home / "postgres" / "data")
    server.kill()
    wait_until(lambda: answers(url) and answers(reader_url(home)), "PostgreSQL to be back")
    assert reader_of(home) == ("reader", True, False)


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_up_when_a_service_ends_with_a_code_of_its_own_then_goes_on_with_the_other_command(
    home: Settings, start_up: StartUp
) -> None:
    start_up()
    assert service_pids(home).keys() == {"steady", "fenced"}


def test_up_when_only_the_servers_are_asked_for_then_nobody_makes_a_log_there(home: Settings) -> None:
    command = (sys.executable, "-c", "from commitlog.ops.cli import main; main()", "up", "--servers-only", "--detach")
    subprocess.run(command, env=home.environment(), check=True, capture_output=True)
    running = status(home)
    assert (running.kafka_answers, running.postgres_answers, running.services) == (True, True, ())
    assert list(AdminClient(kafka_options(running)).list_topics(timeout=DEADLINE_S).topics) == []


def test_up_when_already_running_then_says_so_and_does_nothing(home: Settings, start_up: StartUp) -> None:
    process = start_up()
    before = status(home)
    said: list[str] = []

    up(home, service_factory=lambda settings: [], say=said.append)

    assert said[0] == "already running; nothing was started"
    with pytest.raises(
        LocalRuntimeError, match="runs the log main, and a home runs only one: give the log orders a home"
    ):
        up(replace(home, log="orders"), service_factory=lambda settings: [], say=said.append)
    assert status(home) == before
    assert process.poll() is None


def test_up_when_detached_then_returns_and_down_stops_it(home: Settings, start_up: StartUp) -> None:
    said: list[str] = []
    running = up(
        home,
        service_factory=lambda settings: [],
        detach=True,
        detached_command=[sys.executable, "-c", UP],
        say=said.append,
    )
    assert running.running
    assert any(line.startswith("running in the background") for line in said)
    assert not any("is ignored" in line for line in said)
    assert oct((home.home / "run.json").stat().st_mode & 0o777) == "0o600"
    found = Settings.load(environment={}, home=home.home)
    assert (found.bootstrap_servers, found.database_url) == (running.bootstrap_servers, running.database_url)
    shown = json.dumps(list(found.shown()))
    assert found.kafka["sasl.password"] not in shown
    assert (home.home / "postgres" / "password").read_text() not in shown

    assert down(home, say=said.append)
    assert not status(home).running
    assert not down(home, say=said.append)


def test_up_when_detached_and_another_one_is_faster_then_says_so(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    faster = DirectoryLock(home.home)
    assert faster.acquire()
    write_run_file(with_servers(home), {"pid": os.getpid()})
    said: list[str] = []
    seen = iter([RuntimeStatus(home.home, None)])
    monkeypatch.setattr(runtime, "status", lambda settings: next(seen, None) or status(settings))
    try:
        running = up(home, detach=True, detached_command=[sys.executable, "-c", UP], say=said.append)
    finally:
        faster.release()
    assert running.pid == os.getpid()
    assert "already running; nothing was started" in said


def test_up_when_detached_while_another_one_is_starting_then_returns_when_that_is_ready(home: Settings) -> None:
    other = DirectoryLock(home.home)
    assert other.acquire()
    write_run_file(with_servers(home), {"pid": os.getpid() + 1})  # of a run that was killed
    said: list[str] = []

    def becomes_ready(line: str) -> None:
        said.append(line)
        if "waiting" in line:
            write_run_file(with_servers(home), {"pid": os.getpid()})

    def ends(line: str) -> None:
        if "waiting" in line:
            other.release()

    try:
        assert up(home, detach=True, say=becomes_ready).pid == os.getpid()
        assert said[:2] == [
            "another `up` or `down` is running here; waiting for it to finish",
            "already running; nothing was started",
        ]
        (home.home / RUN_FILE).unlink()
        with pytest.raises(LocalRuntimeError, match=f"already runs the log {home.log}, and a home runs only one"):
            up(replace(home, log="another"), detach=True, say=becomes_ready)
        write_run_file(with_servers(home), {"pid": os.getpid() + 1})
        running = up(home, detach=True, detached_command=[sys.executable, "-c", UP], say=ends)
        assert running.pid not in (None, os.getpid())
    finally:
        other.release()


def test_up_when_another_one_is_being_stopped_then_waits_for_that_and_starts(
    home: Settings, start_up: StartUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignores = 'Service("steady", ("import signal; signal.signal(15, signal.SIG_IGN); " + wait[0],)'
    monkeypatch.setitem(globals(), "UP", UP.replace('Service("steady", wait', ignores))
    process = start_up()
    pids = service_pids(home)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_alive(pids["fenced"]), "it to stop the first of its services")

    running = up(home, detach=True, detached_command=[sys.executable, "-c", UP], say=lambda line: None)

    assert running.running
    assert process.wait(DEADLINE_S) == 0
    assert status(home).pid == running.pid


def test_up_when_somebody_only_looks_at_the_lock_or_stops_what_was_left_then_waits_until_it_is_free(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, said = DirectoryLock(home.home), list[str]()
    assert lock.acquire()
    lock.release()
    held = contextlib.ExitStack()
    assert held.enter_context(lock.borrowed())

    def stops(settings: Settings) -> Sequence[Service]:
        raise KeyboardInterrupt

    waits = SimpleNamespace(sleep=lambda seconds: held.close(), monotonic=time.monotonic)
    monkeypatch.setattr(runtime, "time", waits)
    with held:
        up(home, service_factory=stops, say=said.append)
    assert (said[0], said[-1]) == (f"starting Kafka and PostgreSQL in {home.home}", "stopped")


def test_up_when_somebody_keeps_the_lock_and_runs_nothing_then_does_not_wait_for_ever(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "DETACHED_START_TIMEOUT_S", 0.2)
    lock = DirectoryLock(home.home)
    assert lock.acquire()
    lock.release()
    with lock.borrowed(), pytest.raises(LocalRuntimeError, match=r"another command holds the lock on"):
        up(home, say=lambda line: None)


def test_up_when_detached_and_interrupted_while_it_starts_then_says_that_it_goes_on(home: Settings) -> None:
    starting = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"]
    said: list[str] = []

    def interrupted(line: str) -> None:
        said.append(line)
        if line.isdigit():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up(home, detach=True, detached_command=starting, say=interrupted)
    pid = int(said[0])
    assert psutil.pid_exists(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert said[1:] == [
        f"it continues to start in the background (pid {pid}); `commitlog down` stops it; its log is "
        f"{home.home / 'logs' / 'up.log'}"
    ]


def test_up_when_detached_and_failing_then_says_why_once_and_nothing_of_an_earlier_run(home: Settings) -> None:
    for reason in ("the earlier reason", "the reason"):
        failing = [sys.executable, "-c", f"raise SystemExit({reason!r})"]
        said: list[str] = []
        with pytest.raises(LocalRuntimeError, match="could not start in the background") as raised:
            up(home, service_factory=lambda settings: [], detach=True, detached_command=failing, say=said.append)
        assert said == [reason]
        assert "reason" not in str(raised.value)
        assert str(home.home / "logs" / "up.log") in str(raised.value)


def test_up_when_detached_then_it_finds_the_profiles_of_its_links(servers_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text('links_from = "west"\n[profile.west]\nlog = "far"')
    home = Settings.load(environment={}, config_file=file, home=servers_dir / "home-linked")
    finding = [
        sys.executable,
        "-c",
        "from commitlog.config import Settings; raise SystemExit(Settings.load().of_profile('west').log)",
    ]
    said: list[str] = []
    with pytest.raises(LocalRuntimeError, match="could not start in the background"):
        up(home, detach=True, detached_command=finding, say=said.append)
    assert said == ["far"]


def test_status_when_it_is_started_again_after_a_kill_then_tells_no_services_of_the_killed_run(home: Settings) -> None:
    told = with_servers(home)
    services = [{"name": "sequencer", "pid": 1, "starts": 1}]
    starting = DirectoryLock(home.home)
    assert starting.acquire()
    try:
        write_run_file(told, {"pid": os.getpid() + 1, "services": services})
        assert status(home).pid == os.getpid()
        assert status(home).services == ()
        write_run_file(told, {"pid": os.getpid(), "services": services})
        assert status(home).services == tuple(services)
    finally:
        starting.release()


def test_status_when_another_home_has_the_ports_of_a_killed_run_then_it_is_not_taken_for_its_servers(
    home: Settings,
) -> None:
    home.home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        database_url = f"postgresql://postgres:secret@{address}/commitlog"
        write_run_file(replace(home, bootstrap_servers=address, database_url=database_url), {"pid": os.getpid() + 1})
        left = status(home)
    assert (left.running, left.kafka_answers, left.postgres_answers) == (False, False, False)
    assert not any("still running" in line for line in left.lines())


def test_up_when_the_default_ports_are_taken_then_takes_free_ones(
    home: Settings, start_up: StartUp, servers_dir: Path
) -> None:
    with EmbeddedPostgres(servers_dir / "taken", port=home.postgres_port) as first:
        start_up()
        assert status(home).database_url is not None
        assert str(status(home).database_url).rpartition("/")[0] != first.url.rpartition("/")[0]


@pytest.mark.parametrize("kind", [EmbeddedBroker, EmbeddedPostgres])
def test_server_when_its_port_is_taken_before_it_listens_then_takes_another(
    kind: type[EmbeddedBroker | EmbeddedPostgres], servers_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen(1)
        ports = iter([taken.getsockname()[1]])
        monkeypatch.setattr(server, "free_port", lambda *preferred: next(ports, None) or free_port(*preferred))
        with kind(servers_dir / f"late-{kind.__name__}") as late:
            assert late.port != taken.getsockname()[1]


def test_broker_when_its_controllers_port_is_taken_before_it_listens_then_takes_another(
    servers_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen(1)
        # Once for Kafka's tool, which does not listen, and once for the broker.
        ports = iter([taken.getsockname()[1]] * 2)
        monkeypatch.setattr(broker, "free_port", lambda: next(ports, None) or free_port())
        with EmbeddedBroker(servers_dir / "late-controller") as late:
            assert late.pid is not None
            assert next(ports, None) is None


def test_server_when_it_has_ended_and_its_port_is_taken_then_comes_back_there_and_nowhere_else(
    servers_dir: Path,
) -> None:
    with EmbeddedPostgres(servers_dir / "ended") as ended, socket.socket() as taking:
        port = ended.port
        ended.stop()
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taking.bind((HOST, port))
        taking.listen(1)
        with pytest.raises(LocalRuntimeError, match=f"port {port} of {HOST}.* is another process's by now"):
            ended.start()
        assert (ended.pid, ended.port) == (None, port)
        taking.close()
        ended.start()
        assert ended.port == port


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_broker_when_its_path_has_commas_and_other_letters_then_keeps_all_in_it(
    locale: str, servers_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    directory = servers_dir / f"{locale} a, b & \u00fc \u96ea <$1> 100%20" / "kafka"
    with EmbeddedBroker(directory) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **broker.client_options})
        client.create_topics([NewTopic("trace", 1)])["trace"].result(timeout=DEADLINE_S)
    assert (directory / "data" / "trace-0").is_dir()
    assert "trace" in broker.log_file.read_text()
    with EmbeddedBroker(directory) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **broker.client_options})
        assert "trace" in client.list_topics(timeout=DEADLINE_S).topics


def test_broker_when_its_directory_is_in_use_then_refuses(servers_dir: Path, kafka: str) -> None:
    with pytest.raises(LocalRuntimeError, match="another process runs a broker"):
        EmbeddedBroker(servers_dir / "kafka", is_open=True).start()


def test_broker_when_asked_without_its_password_then_tells_nothing_at_either_port(servers_dir: Path) -> None:
    directory = servers_dir / "asking"
    with EmbeddedBroker(directory) as broker:
        known = {"bootstrap.servers": broker.bootstrap_servers, **broker.client_options}
        assert AdminClient(known).list_topics(timeout=DEADLINE_S).brokers
        for options in (
            {"bootstrap.servers": broker.bootstrap_servers},
            {**known, "sasl.password": "guessed"},
            {**known, "sasl.mechanism": "PLAIN"},
            {**known, "bootstrap.servers": f"127.0.0.1:{controller_port(directory)}", "sasl.mechanism": "PLAIN"}
            | {"sasl.password": "guessed"},
        ):
            with pytest.raises(KafkaException):
                AdminClient({**options, "log_level": 0}).list_topics(timeout=2)
        password = known["sasl.password"]
        assert not find_processes(lambda process: password in " ".join(process.cmdline()))
        for file in directory.iterdir():
            if file.is_file() and password in file.read_text(errors="replace"):
                assert file.stat().st_mode & 0o077 == 0, file
        assert password not in broker.log_file.read_text()


def controller_port(directory: Path) -> int:
    properties = (directory / "server.properties").read_text()
    return int(properties.partition("CONTROLLER://127.0.0.1:")[2].partition("\n")[0])


def test_postgres_when_initdb_was_killed_then_starts_over(servers_dir: Path) -> None:
    directory = servers_dir / "half-made"
    (directory / "data.unfinished").mkdir(parents=True)
    (directory / "data.unfinished" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(directory) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("kind", "folder", "maker"),
    [(EmbeddedBroker, "kafka", "kafka.tools.StorageTool"), (EmbeddedPostgres, "postgres", "--pgdata=")],
    ids=["kafka", "postgres"],
)
def test_server_when_it_is_killed_while_its_data_are_made_then_what_makes_them_is_stopped(
    kind: type[EmbeddedBroker | EmbeddedPostgres], folder: str, maker: str, servers_dir: Path
) -> None:
    directory = servers_dir / f"making-{folder}" / folder
    starting = subprocess.Popen([sys.executable, "-c", MAKING, kind.__name__, str(directory)])

    def is_maker(process: psutil.Process) -> bool:
        line = " ".join(process.cmdline())
        return maker in line and str(directory) in line

    wait_until(lambda: bool(find_processes(is_maker)), "who makes it")
    starting.kill()
    starting.wait()
    assert stop_orphans(directory.parent)
    assert find_processes(is_maker) == []
    with kind(directory) as server:
        assert server.pid is not None


def test_postgres_when_its_data_was_lost_then_starts_empty_with_the_password_that_others_know(
    servers_dir: Path,
) -> None:
    directory = servers_dir / "lost-data"
    with EmbeddedPostgres(directory) as server:
        known = server.url
    shutil.rmtree(directory / "data")
    with EmbeddedPostgres(directory) as server, psycopg.connect(server.url) as connection:
        assert server.url.partition("@")[0] == known.partition("@")[0]
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_postgres_when_its_pid_file_names_another_process_then_starts(servers_dir: Path) -> None:
    directory = servers_dir / "stale-pid"
    with EmbeddedPostgres(directory):
        pass
    (directory / "data" / "postmaster.pid").write_text(
        f"{os.getpid()}\n{directory}\n1\n5432\n\n127.0.0.1\n1 1\nready\n"
    )
    with EmbeddedPostgres(directory) as server:
        assert server.pid is not None


def test_postgres_when_the_password_is_wrong_then_refuses(postgres: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.replace("postgres:", "postgres:x", 2))


def test_own_servers_when_their_process_is_killed_then_nothing_of_them_is_left(servers_dir: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(servers_dir)}
    with subprocess.Popen(
        [sys.executable, "-c", BENCH], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stdout is not None
        home = Path(bench.stdout.readline().strip())
        assert home.parent == servers_dir
        left = psutil.Process(bench.pid).children(recursive=True)
        assert {"java", "postgres"} <= {each.name() for each in left}
        bench.kill()
    wait_until(lambda: not home.exists(), "its home to be removed")
    wait_until(lambda: not any(each.is_running() for each in left), "its processes to end")


def test_ended_with_us_when_the_folder_has_wrong_settings_then_what_runs_in_the_home_ends(tmp_path: Path) -> None:
    (tmp_path / "commitlog.toml").write_text("home = [", encoding="utf-8")
    environment = {**os.environ, "COMMITLOG_PROFILE": "of-another-file"}
    (home := tmp_path / "home").mkdir()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", KEPT, str(home)], cwd=tmp_path, env=environment, stdin=pipe, stdout=pipe, text=True
    ) as bench:
        assert bench.stdout is not None
        left = psutil.Process(int(bench.stdout.readline()))
        bench.kill()
    wait_until(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE, "the service to end")
    assert home.is_dir()


def test_stop_orphans_when_there_are_none_then_says_no(tmp_path: Path) -> None:
    assert not stop_orphans(tmp_path)


def test_up_when_it_runs_then_readers_have_a_login_that_only_reads_and_keep_it(
    home: Settings, start_up: StartUp
) -> None:
    start_up()
    password_file = home.home / "reader.pgpass"
    assert password_file.stat().st_mode & 0o077 == 0
    kept = password_file.read_text()
    assert reader_of(home) == ("reader", True, False)
    down(home, say=lambda line: None)
    start_up()
    assert password_file.read_text() == kept
    assert reader_of(home) == ("reader", True, False)


def test_up_when_postgres_is_an_older_one_then_readers_come_in_by_the_password_that_they_know(
    servers_dir: Path,
) -> None:
    directory, password_file = servers_dir / "put-back", servers_dir / "put-back.pgpass"
    older = servers_dir / "older"

    def reader_comes_in() -> bool:
        server.create_database("lake")
        return answers(server.create_reader("lake", login="reader", role="readers", password_file=password_file))

    with EmbeddedPostgres(directory) as server:
        assert reader_comes_in()
    (directory / "data").rename(older)
    password_file.unlink()
    with EmbeddedPostgres(directory) as server:
        assert reader_comes_in()
    shutil.rmtree(directory / "data")
    with EmbeddedPostgres(directory) as server:
        known = password_file.read_text()
        assert reader_comes_in()
        assert password_file.read_text() == known, "readers have it"
    shutil.rmtree(directory / "data")
    older.rename(directory / "data")
    with EmbeddedPostgres(directory) as server:
        assert reader_comes_in()


def test_reader_when_he_comes_in_by_another_address_then_his_password_is_known_there(servers_dir: Path) -> None:
    with EmbeddedPostgres(servers_dir / "named") as server:
        server.create_database("lake")
        url = server.create_reader("lake", login="reader", role="readers", password_file=servers_dir / "named.pgpass")
        assert answers(url.replace("127.0.0.1", "localhost"))


def reader_url(home: Settings) -> str:
    url = Settings.load(environment={"HOME": os.environ["HOME"]}, home=home.home).reader_url
    assert url is not None
    return url


def reader_of(home: Settings) -> object:
    """Who those are that only read, in their own words: name, whether a member of the catalog's role, whether a superuser."""
    with psycopg.connect(reader_url(home)) as connection:
        role = f"SELECT rolname, pg_has_role('{READER_ROLE}', 'USAGE'), rolsuper FROM pg_roles WHERE rolname = current_user"
        return connection.execute(role.encode()).fetchone()
