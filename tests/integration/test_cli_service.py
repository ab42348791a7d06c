"""The service as it is operated: created, served, asked, and stopped through the command line."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    NewPartitions,
)
from log_running import alter_topic, serving, wait_until, write_raw
from psycopg import sql
from replicas import replica_of

from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain.model.ids import format_id
from commitlog.errors import CatalogMismatchError, LocalRuntimeError
from commitlog.local.home import write_run_file
from commitlog.local.postgres import EmbeddedPostgres
from commitlog.local.processes import DirectoryLock, free_port
from commitlog.local.proxy import KafkaProxy
from commitlog.log.batches import Incoming
from commitlog.log.connection import make_admin
from commitlog.log.durability import weaknesses
from commitlog.log.genesis import find_genesis, init_log, require_genesis
from commitlog.log.proposals import ProposalSource
from commitlog.log.sequencer import Phase
from commitlog.log.topic_settings import create_trims_topic
from commitlog.log.topics import topics_of
from commitlog.log.undecided import has_proposal, sent_before
from commitlog.ops.bench.sequencer_fleet import Member
from commitlog.ops.service import health
from commitlog.ops.service.health import LogHealth, log_health, may_wait
from commitlog.ops.service.listening import listening, measures_note, noted, running_at
from commitlog.ops.service.notes import Notes
from commitlog.ops.service.runtime import prepared_services
from commitlog.ops.service.serve import prepare

MAIN = [sys.executable, "-c", "from commitlog.ops.cli import main; main()"]
DEADLINE_S = 60.0


def run(settings: Settings, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MAIN, *arguments], input=given, capture_output=True, text=True, env=settings.environment(), timeout=DEADLINE_S
    )


def run_json(settings: Settings, *arguments: str, given: str = "", code: int = 0) -> list[dict[str, Any]]:
    done = run(settings, *arguments, "--json", given=given)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def line(*changes: dict[str, Any], base: int = 0, **fields: Any) -> str:
    made = {"proposal_id": format_id(new_proposal_id()), "writer_id": "cli", "base_snapshot_id": base}
    return json.dumps({**made, "changes": changes, **fields}) + "\n"


def create(table: str) -> dict[str, Any]:
    columns = [{"name": "id", "type": "int64"}]
    return {"kind": "CREATE_TABLE", "schema": "main", "table": table, "columns": columns}


@contextmanager
def served(settings: Settings, log_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`commitlog serve`, from when its sequencer is heard."""
    with log_file.open("wb") as output:
        process = subprocess.Popen([*MAIN, "serve"], env=settings.environment(), stderr=output)
    try:
        wait_until_well(settings, process, log_file)
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def wait_until_well(settings: Settings, process: subprocess.Popen[bytes], log_file: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while run(settings, "status").returncode != 0:
        assert process.poll() is None, log_file.read_text()
        assert time.monotonic() < deadline, log_file.read_text()


def is_ready(settings: Settings) -> bool:
    try:
        with urllib.request.urlopen(f"{running_at(settings, measures_note('serve'))}readyz", timeout=DEADLINE_S):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False


def children_of(process: subprocess.Popen[bytes]) -> dict[str, psutil.Process]:
    """The service's processes by their commands."""
    return {child.cmdline()[3]: child for child in psutil.Process(process.pid).children()}


def test_serve_when_a_process_dies_then_it_runs_again_and_nothing_is_lost(settings: Settings, tmp_path: Path) -> None:
    log_file = tmp_path / "serve.log"
    with served(settings, log_file) as process:
        (first,) = run_json(settings, "submit", "-", given=line(create("t")))
        before = children_of(process)
        assert set(before) == {"sequencer", "projector", "checkpointer", "gateway", "carrier", "ui"}
        for child in before.values():
            os.kill(child.pid, signal.SIGKILL)
        for child in before.values():
            child.wait(DEADLINE_S)
        wait_until_well(settings, process, log_file)
        wait_until(lambda: is_ready(settings), "serve to say that all of it is ready")
        (second,) = run_json(settings, "submit", "-", given=line(create("u"), base=1))
        assert (first["snapshot_id"], second["snapshot_id"]) == (1, 2)
        assert ["READ_ONLY" in run(settings, "duckdb", *how).stdout for how in ((), ("--read-only",))] == [False, True]
        running = list(children_of(process).values())
    assert process.returncode == 0
    assert not any(child.is_running() for child in running)
    assert all(json.loads(each)["process"] for each in log_file.read_text().splitlines())


@contextmanager
def service(settings: Settings, folder: Path) -> Iterator[Member]:
    """`commitlog serve` on a machine of its own, which fails at the end; its phase is its sequencer's."""
    folder.mkdir()
    member = Member(dataclasses.replace(settings, home=folder), folder / "log", [*MAIN, "serve"])
    try:
        yield member
    finally:
        children = psutil.Process(member.pid).children()
        member.kill()
        for child in children:
            child.wait(DEADLINE_S)


def test_serve_when_run_twice_then_the_fenced_one_stands_by_and_alone_it_is_active_again(
    settings: Settings, tmp_path: Path
) -> None:
    answers = (json.loads(line(create(f"t{number}"), base=number)) for number in itertools.count())

    def answered() -> bool:
        (answer,) = run_json(settings, "submit", "-", given=json.dumps(next(answers)) + "\n")
        return bool(answer["verdict"] == "COMMITTED")

    with service(settings, tmp_path / "left") as left:
        with service(settings, tmp_path / "right") as right:
            both = {Phase.SERVING, Phase.STANDBY}
            wait_until(lambda: {left.phase, right.phase} == both, "one to serve and one to stand by")
            assert answered()
        wait_until(lambda: left.phase is Phase.SERVING, "the one that is left to serve")
        assert answered()
        with service(settings, tmp_path / "new") as new:
            wait_until(lambda: (left.phase, new.phase) == (Phase.STANDBY, Phase.SERVING), "the new one to serve")
            assert (
                "sequencer ended with exit code 75 and is restarted as: sequencer --standby"
                in left.log_file.read_text()
            )
            assert answered()
        wait_until(lambda: left.phase is Phase.SERVING, "the fenced one to be active again")
        assert answered()


def test_serve_when_it_is_killed_then_nothing_of_it_is_left_to_be_in_the_way_of_the_next(
    settings: Settings, tmp_path: Path
) -> None:
    with served(settings, tmp_path / "killed.log") as process:
        left = children_of(process)
        process.kill()
        for child in left.values():
            child.wait(DEADLINE_S)
    with served(settings, tmp_path / "next.log") as process:
        wait_until(lambda: is_ready(settings), "serve to say that all of it is ready")
        assert "another projector writes the catalog" not in (tmp_path / "next.log").read_text()


def test_commands_when_proposals_were_sent_then_tell_what_became_of_them(settings: Settings, tmp_path: Path) -> None:
    with served(settings, tmp_path / "serve.log"):
        # Of two writers whose proposals are on their way together, either may be first.
        answers = run_json(settings, "submit", "-", given=line(create("t"), message="the first") + "\n")
        answers += run_json(settings, "submit", "-", given=line(create("t"), writer_id="late"), code=3)
        assert [each["verdict"] for each in answers] == ["COMMITTED", "REJECTED"]
        assert answers[1]["conflicts"][0]["committed_writer_id"] == "cli"

        done = run(settings, "submit", "-", given=line(create("v"), base=1) + "no proposal\n")
        assert done.returncode == 1
        assert "COMMITTED  snapshot 2" in done.stdout
        assert "line 2: not JSON" in done.stderr

        refused = answers[1]["proposal_id"]
        (status,) = run_json(settings, "outcome", refused, code=3)
        assert (status["state"], status["outcome"]["reason"]) == ("DECIDED", "CONFLICT")
        assert status["proposal"]["writer_id"] == "late"
        assert run(settings, "outcome", answers[0]["proposal_id"]).returncode == 0
        (unseen,) = run_json(settings, "outcome", format_id(new_proposal_id()), code=4)
        assert unseen["state"] == "NEVER_SEEN"
        assert "by writer cli" in run(settings, "explain", refused).stdout

        history = run_json(settings, "log", "--limit", "2")
        assert [each["seq"] for each in history] == [3, 2]
        assert "the first" in run(settings, "log").stdout
        differing = run_json(settings, "diff", "0")
        assert [(each["kind"], each["after"]) for each in differing] == [("table", "main.t"), ("table", "main.v")]
        assert "created" in run(settings, "diff", "0", "1").stdout
        assert run_json(settings, "sql", "SELECT count(*) AS n FROM t") == [{"n": 0}]
        assert run(settings, "sql", "SELECT 1 AS a, 'x,y' AS b", "--csv").stdout == 'a,b\n1,"x,y"\n'
        gone = run(settings, "sql", "FROM v", "--at", "1")
        assert "v does not exist" in gone.stderr
        assert "choose one from 0 to 2" in run(settings, "sql", "FROM t", "--at", "9").stderr
        before = run(settings, "sql", "FROM t", "--at", "0").stderr
        assert "Table with name t does not exist! (snapshot 0 has no tables)" in before
        assert "give only one of them" in run(settings, "sql", "FROM t", "--json", "--csv").stderr
        assert "--at must be a moment that has passed" in run(settings, "sql", "FROM t", "--at", "2999-01-01").stderr
        assert run(settings, "sql", "SELECT '\udcff'").stderr.startswith("error: QUERY holds the character U+DCFF")
        told = run(settings, "duckdb")
        assert told.stdout.startswith("ATTACH 'ducklake:postgres:")
        assert "password" not in told.stdout
        assert "COMMITLOG_READER_URL" in told.stderr
        unread = run(settings, "sql", "SELECT nothing FROM t")
        assert unread.returncode == 1
        assert "DuckDB says" in unread.stderr
        unwritten = run(settings, "sql", "DELETE FROM t").stderr
        assert 'of type "DELETE"' in unwritten
        assert "To write, attach the lake with what `commitlog duckdb` prints" in unwritten
        followed = run_json(settings, "tail", "--after", "1", "--no-follow")
        assert [each["seq"] for each in followed] == [2, 3]
        assert "create table main.v" in run(settings, "tail", "--after", "1", "--no-follow").stdout
    unasked = run(settings, "duckdb")
    assert "READ_ONLY" in unasked.stdout
    assert "no gateway runs on this machine, so this attaches the lake for reading only" in unasked.stderr
    assert "no gateway" not in run(settings, "duckdb", "--read-only").stderr


def test_submit_when_no_sequencer_answers_then_unknown_until_one_does(settings: Settings, tmp_path: Path) -> None:
    run_json(settings, "init")
    given = line(create("t"))
    proposal_id = json.loads(given)["proposal_id"]
    (answer,) = run_json(settings, "submit", "-", "--timeout", "0.2", given=given, code=4)
    assert (answer["proposal_id"], answer["verdict"]) == (proposal_id, None)
    (status,) = run_json(settings, "outcome", proposal_id, code=4)
    assert status["state"] == "UNDECIDED"
    with served(settings, tmp_path / "serve.log"):
        (again,) = run_json(settings, "submit", "-", given=given)
    assert (again["verdict"], again["snapshot_id"], again["is_repeat"]) == ("COMMITTED", 1, True)


def test_commands_when_the_broker_is_away_then_name_its_address_and_how_long(tmp_path: Path) -> None:
    settings = Settings.load(environment={}, bootstrap_servers=f"127.0.0.1:{free_port()}", home=tmp_path)
    commands = [["submit", "-"], ["init"], ["replay", "--from-log", "x"]]
    # Each waits ten seconds for an answer, so all of them wait at the same time.
    with ThreadPoolExecutor(len(commands)) as pool:
        all_done = list(pool.map(lambda arguments: run(settings, *arguments), commands))
    for done in all_done:
        assert done.returncode == 5
        said = done.stderr.strip().splitlines()[-1]
        assert said.startswith(f"error: Kafka at {settings.bootstrap_servers} does not answer after ")
        assert "commitlog up" in said
        assert "Traceback" not in done.stderr


def test_init_when_called_again_then_the_same_log(settings: Settings) -> None:
    assert run_json(settings, "init") == run_json(settings, "init")


def test_init_when_the_database_holds_another_logs_catalog_then_says_so_and_creates_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    prepare(settings)
    second = dataclasses.replace(settings, log=f"{settings.log}-two", data_path=str(tmp_path / "two"))
    with pytest.raises(CatalogMismatchError, match=f"the catalog of another log.*: give log {second.log} an empty"):
        prepare(second)
    assert find_genesis(second) is None
    assert not (tmp_path / "two").exists()
    prepare(settings)


def test_init_when_a_log_is_given_another_logs_database_then_says_so_and_leaves_that_alone(
    settings: Settings, other_database_url: str, tmp_path: Path
) -> None:
    prepare(settings)
    second = dataclasses.replace(
        settings, log=f"{settings.log}-two", data_path=str(tmp_path / "two"), database_url=other_database_url
    )
    prepare(second)
    with pytest.raises(CatalogMismatchError, match=f"the catalog of another log.*: give log {second.log} an empty"):
        prepare(dataclasses.replace(second, database_url=settings.database_url))
    prepare(settings)


def test_up_when_the_lake_is_not_where_the_log_has_it_then_says_so_and_begins_no_other_there(
    settings: Settings, tmp_path: Path
) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    prepare(dataclasses.replace(settings, data_path=str(before)))
    before.rename(now)
    moved = dataclasses.replace(settings, data_path=str(now))
    with pytest.raises(LocalRuntimeError, match=f"below {before}, which does not exist.* link to .*{now}"):
        prepared_services(moved)
    assert not before.exists()
    before.symlink_to(now)
    assert prepared_services(moved)


def test_status_when_the_log_is_missing_then_says_what_to_do(settings: Settings) -> None:
    (found,) = run_json(settings, "status", code=1)
    assert "commitlog init" in found["health"]["problems"][0]


def test_status_when_nobody_decides_then_says_so(settings: Settings) -> None:
    run_json(settings, "init")
    (found,) = run_json(settings, "status", code=1)
    assert found["health"]["problems"][0] == "no sequencer is active: run `commitlog serve` or `commitlog up`"
    assert "no projector is connected" in found["health"]["problems"][1]
    assert (found["health"]["decided_seq"], found["health"]["applied_seq"]) == (0, 0)


def test_status_when_nobody_decides_and_somebody_starts_it_again_then_says_who(settings: Settings) -> None:
    run_json(settings, "init")
    with listening("127.0.0.1", 0) as taken, noted(settings, measures_note("serve"), "127.0.0.1", taken):
        assert "`commitlog serve` restarts it" in log_health(settings).problems[0]
    lock = DirectoryLock(settings.home)
    assert lock.acquire()
    write_run_file(settings, {"services": []})
    assert log_health(settings).problems[0].endswith("run `commitlog serve` or `commitlog up`"), "only servers run"
    write_run_file(settings, {"services": [{"name": "sequencer", "pid": 1, "starts": 1}]})
    assert "`commitlog up` restarts it" in log_health(settings).problems[0]
    lock.release()


def test_status_when_a_signal_has_stopped_who_decides_then_says_by_what_it_goes_on(settings: Settings) -> None:
    run_json(settings, "init")
    lock = DirectoryLock(settings.home)
    assert lock.acquire()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as frozen:
        write_run_file(settings, {"services": [{"name": "sequencer", "pid": frozen.pid}]})
        frozen.send_signal(signal.SIGSTOP)
        os.waitpid(frozen.pid, os.WUNTRACED)
        problem = log_health(settings).problems[0]
        frozen.kill()
    lock.release()
    assert problem == (
        f"no sequencer is active: a signal has stopped the process of sequencer: `kill -CONT {frozen.pid}` lets it go on"
    )


def seen(settings: Settings, problem: str) -> LogHealth:
    """The first look at a log in which this alone is wrong: where processors are short, a sequencer may not be heard once."""
    looks: list[LogHealth] = []

    def is_seen() -> bool:
        looks.append(log_health(settings))
        told = looks[-1].problems
        return looks[-1].sequencer_alive and len(told) == 1 and told[0].startswith(problem)

    wait_until(is_seen, problem)
    return looks[-1]


@pytest.mark.parametrize(
    ("topic", "name", "value"),
    [
        ("receipts", "cleanup.policy", "compact"),
        ("trims", "cleanup.policy", "compact"),
        ("proposals", "max.message.bytes", "1000000"),
    ],
)
def test_status_when_a_topic_is_set_otherwise_than_a_log_needs_then_names_it_and_what_mends_it(
    settings: Settings, topic: str, name: str, value: str
) -> None:
    run_json(settings, "init")
    create_trims_topic(settings)
    topic = getattr(topics_of(settings.log), topic)
    alter_topic(settings, topic, name, value)
    wait_until(
        lambda: any(f"{topic} has {name}={value}" in each for each in log_health(settings).problems),
        "it is seen",
    )


def test_status_when_postgres_is_a_replica_then_says_so_and_not_that_no_projector_runs(
    settings: Settings, tmp_path: Path
) -> None:
    with EmbeddedPostgres(tmp_path / "primary") as primary:
        run_json(dataclasses.replace(settings, database_url=primary.create_database("lake")), "init")
    with replica_of(tmp_path / "primary") as replica:
        problems = log_health(dataclasses.replace(settings, database_url=replica.database_url("lake"))).problems
    assert any("is a replica, which no projector can write" in each for each in problems), problems
    assert not any("no projector is connected" in each or "clpw_" in each for each in problems), problems


def test_status_when_a_topic_is_gone_then_names_it_until_init_has_made_it_anew(settings: Settings) -> None:
    run_json(settings, "init")
    topics = topics_of(settings.log)
    gone = [topics.receipts, topics.dead_letters, topics.control]
    told = [f"there is no topic {each}: `commitlog init`" for each in gone]

    def named() -> list[bool]:
        problems = log_health(settings).problems
        return [any(each in problem for problem in problems) for each in told]

    assert named() == [False] * 3
    for answer in make_admin(settings).delete_topics(gone).values():
        answer.result()
    wait_until(lambda: named() == [True] * 3, "it is seen")
    run_json(settings, "init")
    wait_until(lambda: named() == [False] * 3, "it is seen that they are there again")


def test_status_when_a_topic_has_more_partitions_than_the_log_then_says_what_that_ends(settings: Settings) -> None:
    prepare(settings)
    results = topics_of(settings.log).results
    told = f"the topic {results} has 2 partitions, the log 1: its service is not started again once it has ended: docs/"
    assert not any(results in problem for problem in log_health(settings).problems)
    for answer in make_admin(settings).create_partitions([NewPartitions(results, 2)]).values():
        answer.result()
    wait_until(lambda: any(each.startswith(told) for each in log_health(settings).problems), "it is seen")
    assert [each.is_note for each in weaknesses(settings, require_genesis(settings)) if each.what in told] == [False]


def test_status_when_the_projector_is_dead_stuck_or_failing_then_never_well(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROJECTOR_TIMEOUT_S", 0.1)
    monkeypatch.setattr(health, "LAG_S_MAX", 0.5)
    run_json(settings, "init")
    with serving(settings), process_of(settings, "projector", tmp_path) as projector:
        wait_until(lambda: log_health(settings).is_well, "well")
        projector.send_signal(signal.SIGSTOP)
        run_json(settings, "submit", "-", given=line(create("t")))
        stuck = seen(settings, "readers have not seen decided outcomes")
        assert str(stuck.problems[0]).endswith(f"`kill -CONT {projector.pid}` lets it go on")
        assert (stuck.projector_alive, stuck.lag) == (True, 1)
        hasty = dataclasses.replace(settings, catalog_timeout_ms=100)
        export = ["catalog", "export", "--to", str(tmp_path / "out")]
        for command in (["log"], ["diff", "0"], export, [*export, "--snapshot", "1"]):
            behind = run(hasty, *command)
            assert behind.returncode == 1, command
            assert "still behind the log" in behind.stderr, command
            assert "The projector made no progress" in behind.stderr, command
        projector.send_signal(signal.SIGCONT)
        assert [each["seq"] for each in run_json(settings, "log")] == [1]
        wait_until(lambda: log_health(settings).is_well, "well again")
        projector.kill()
        projector.wait()
        assert not seen(settings, "no projector is connected").projector_alive
        Notes(settings).leave("projector", "outcome 7 cannot be written")
        assert "projector: outcome 7 cannot be written" in log_health(settings).problems
        assert log_health(settings).as_dict()["well"] is False


def test_status_when_the_catalog_takes_no_writes_then_says_what_postgresql_says_until_it_does(
    settings: Settings, tmp_path: Path
) -> None:
    def read_only(value: str) -> None:
        with psycopg.connect(settings.database_url, autocommit=True) as conn:
            conn.execute("SET default_transaction_read_only = off")
            name = sql.Identifier(conn.info.dbname)
            conn.execute(
                sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(name, sql.SQL(value))
            )
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def is_told() -> bool:
        told = "cannot serve the request now: cannot execute"
        return any(each.startswith("projector: ") and told in each for each in log_health(settings).problems)

    run_json(settings, "init")
    with serving(settings), process_of(settings, "projector", tmp_path):
        wait_until(lambda: log_health(settings).is_well, "well")
        read_only("on")
        run_json(settings, "submit", "-", given=line(create("t")))
        wait_until(is_told, "what the projector waits for is told")
        read_only("off")
        wait_until(lambda: log_health(settings).is_well, "well again")
        assert [each["seq"] for each in run_json(settings, "log")] == [1]


def test_status_when_the_sequencer_beats_and_does_not_decide_then_not_well(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "UNDECIDED_S_MAX", 0.5)
    reads = threading.Event()
    poll = ProposalSource.poll

    def poll_when_it_reads(source: ProposalSource, records_max: int, timeout_s: float) -> list[Incoming]:
        return poll(source, records_max, timeout_s) if reads.wait(timeout_s) else []

    monkeypatch.setattr(ProposalSource, "poll", poll_when_it_reads)
    run_json(settings, "init")
    with serving(settings), process_of(settings, "projector", tmp_path):
        wait_until(lambda: log_health(settings).is_well, "well")
        run(settings, "submit", "-", "--timeout", "0.2", given=line(create("t")))
        stuck = seen(settings, "proposals have waited for more than")
        assert (stuck.decided_seq, stuck.lag) == (0, 0)
        reads.set()
        wait_until(lambda: log_health(settings).decided_seq == 1 and log_health(settings).is_well, "well again")


def test_waiting_when_proposals_were_sent_then_up_to_the_time_and_from_the_decided_on(settings: Settings) -> None:
    init_log(settings)
    before_ms = int(time.time() * 1000)
    write_raw(settings, topics_of(settings.log).proposals, b"one", b"two", partition=1)
    assert sum(sent_before(settings, settings.partitions, before_ms).values()) == 0
    sent = sent_before(settings, settings.partitions, int(time.time() * 1000) + 1)
    assert (sent[1], sum(sent.values())) == (2, 2)
    assert (may_wait(sent, 1), may_wait(sent, 2)) == (True, False)
    assert has_proposal(settings, {1: 1}, sent)
    assert not has_proposal(settings, {1: 2}, sent)


def test_standby_when_there_is_no_broker_for_long_then_waits_and_says_so_once(
    settings: Settings, tmp_path: Path
) -> None:
    run_json(settings, "init")
    with KafkaProxy(settings.bootstrap_servers) as proxy:
        proxy.refuse()
        remote = dataclasses.replace(settings, bootstrap_servers=proxy.address)
        with process_of(remote, "sequencer", tmp_path, "--standby") as standby:
            wait_until(lambda: any(Notes(remote).read()), "word of the outage")
            log = tmp_path / "sequencer.log"
            proxy.heal()
            wait_until(lambda: "SERVING" in log.read_text(), "it serves")
            assert standby.poll() is None
            said = [json.loads(each) for each in log.read_text().splitlines()]
            assert sum("is waiting and will try again" in each["message"] for each in said) == 1
            assert sum(each["logger"] == "commitlog.kafka" for each in said) <= 1


@contextmanager
def process_of(settings: Settings, command: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One process of the service, killed at the end."""
    with (folder / f"{command}.log").open("wb") as output:
        process = subprocess.Popen([*MAIN, command, *arguments], env=settings.environment(), stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", ["sequencer", "projector", "checkpointer", "carrier"])
def test_process_when_asked_to_end_then_ends_well(settings: Settings, command: str, tmp_path: Path) -> None:
    run_json(settings, "init")
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen([*MAIN, command], env=settings.environment(), stderr=output)
    wait_until(lambda: handles_sigterm(process), "it to heed SIGTERM")
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def handles_sigterm(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has come as far as to install its own handler."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(each for each in status.splitlines() if each.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
