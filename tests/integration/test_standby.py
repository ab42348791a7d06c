"""Two machines: one serves, one stands by with all that it runs; and an upgrade of both, as docs/running.md has it."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from log_running import Ids, create_table, proposal, seed_of, wait_until
from test_projector import Writer, applied_head, check_complete, running, sequencing
from writing_on import Writers, check

from commitlog.catalog import projector as projectors
from commitlog.catalog.projector import Projector
from commitlog.catalog.queries import Catalog
from commitlog.config import Settings
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.log.publisher import Publisher
from commitlog.log.sequencer import EXIT_FENCED
from commitlog.ops.service.health import log_health
from commitlog.ops.service.listening import measures_note, running_at
from commitlog.ops.service.measures import Measures
from commitlog.ops.service.serve import prepare
from commitlog.ops.service.watched import WatchedProjector

PAGE = Path(__file__).resolve().parents[2] / "docs" / "running.md"
COMMITLOG = (sys.executable, "-c", "from commitlog.ops.cli import main; main()")


def made(settings: Settings) -> Projector:
    return Projector(settings, decode_statistics=decode_statistics)


@pytest.fixture
def writer(settings: Settings) -> Iterator[Writer]:
    """Of a log that is served and has a catalog."""
    prepare(settings)
    with running(sequencing(settings)), Publisher(settings) as publisher:
        yield Writer(publisher)


def test_projector_when_another_one_projects_then_it_stands_by_and_goes_on_when_that_one_ends(
    settings: Settings, writer: Writer
) -> None:
    first, second = made(settings), made(settings)
    with running(second.run):
        with running(first.run):
            wait_until(lambda: first.status.is_standby != second.status.is_standby, "one of them to stand by")
            standby = first if first.status.is_standby else second
            writer.append(5)
            wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
            told = WatchedProjector(settings, standby)
            assert told.problem() is None
            samples = [sample for metric in told.measures(Measures("main")) for sample in metric.samples]
            assert {sample.value for sample in samples if sample.name == "commitlog_projector_standby"} == {1}
            with closing(Catalog(settings.database_url)) as catalog:
                assert (catalog.has_projector(), catalog.standbys()) == (True, 1)
            assert standby.status.batches == 0
        writer.append(5)
        wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
        assert not second.status.is_standby
    check_complete(settings.database_url, writer.head)


def test_projector_when_whose_turn_it_is_says_nothing_then_it_loses_its_turn_once_there_is_something_to_do(
    settings: Settings, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projectors, "TURN_SILENT_S", 0.3)
    frozen, second = made(settings), made(settings)
    frozen.project_to_end()
    with frozen.connect() as turn:
        assert turn.take_turn()
        with running(second.run):
            # It has left nothing alone: it may be silent for as long as it likes.
            wait_until(lambda: second.status.is_standby, "the second one to stand by")
            assert not threading.Event().wait(1.0)
            assert second.status.is_standby
            writer.append(3)
            wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
            with pytest.raises(psycopg.OperationalError):
                turn.heeded()
    check_complete(settings.database_url, writer.head)


def test_turn_when_the_database_has_another_one_then_both_project(settings: Settings, other_database_url: str) -> None:
    init_log(settings)
    other = dataclasses.replace(settings, database_url=other_database_url)
    with made(settings).connect() as one, made(other).connect() as another:
        assert (one.take_turn(), another.take_turn()) == (True, True)


def test_turn_when_whose_it_is_has_a_statement_that_takes_long_then_it_keeps_it(settings: Settings) -> None:
    init_log(settings)
    with made(settings).connect() as slow, made(settings).connect() as other:
        assert slow.take_turn()
        conn = cast(Any, slow).conn

        def work() -> None:
            with suppress(psycopg.errors.QueryCanceled):
                conn.execute("SELECT pg_sleep(600)")

        working = threading.Thread(target=work)
        working.start()
        try:
            state = "SELECT state FROM pg_stat_activity WHERE pid = %s AND query LIKE '%%pg_sleep%%'"
            with psycopg.connect(settings.database_url, autocommit=True) as looking:
                pid = conn.info.backend_pid
                wait_until(lambda: looking.execute(state, (pid,)).fetchone() == ("active",), "it to work")
                other.end_turn(0.0)
                assert looking.execute(state, (pid,)).fetchone() == ("active",)
            assert not other.take_turn()
        finally:
            conn.cancel()
            working.join()


# --- machines ---------------------------------------------------------------------------------------------------------


class Machine:
    """`commitlog serve`, on a machine of its own."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings = dataclasses.replace(settings, home=home, checkpoint_dir=home / "checkpoints")
        self._log_file = home / "serve.log"
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir()

    def do(self, command: str) -> None:
        """A line of the page."""
        if command.startswith("commitlog serve"):
            with self._log_file.open("ab") as output:
                self._process = subprocess.Popen(
                    [*COMMITLOG, *command.split()[1:]], env=self.settings.environment(), stderr=output
                )
        elif command.startswith("curl --fail") and command.endswith("/readyz"):
            wait_until(self.is_ready, f"{command}: {self.settings.home.name} is ready", deadline_s=120)
        else:
            assert command.startswith("systemctl stop commitlog"), command
            self.stop()

    def is_ready(self) -> bool:
        try:
            address = running_at(self.settings, measures_note("serve"))
            with urllib.request.urlopen(f"{address}readyz", timeout=60):
                return True
        except (urllib.error.URLError, ValueError):
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(60) == 0
            self._process = None

    def told(self) -> str:
        return self._log_file.read_text()


def steps() -> list[tuple[str, str]]:
    """What the page says to do, by machine."""
    return re.findall(r"^(a|b)\$ (.+?)(?: +#.*)?$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_rolling_upgrade_when_done_as_the_page_says_then_writers_are_answered_and_nothing_is_lost(
    settings: Settings, tmp_path: Path
) -> None:
    machines = {name: Machine(settings, tmp_path / name) for name in ("a", "b")}
    a, b = machines.values()
    writers = Writers(settings, seed_of("upgrade"), pause_s=0.05)
    try:
        a.do("commitlog serve")
        a.do("curl --fail http://127.0.0.1:9468/readyz")
        with Publisher(settings) as publisher:
            assert publisher.submit(proposal(Ids(1), 0, create_table()), timeout_s=60).snapshot_id == 1
        with writers:
            for machine, command in steps():
                machines[machine].do(command)
                writers.wait_until_answered()
                if command.startswith("curl"):
                    assert log_health(settings).standbys == 1
                if command.startswith("systemctl"):
                    wait_until(lambda: log_health(settings).is_well, "the other one to serve")
        assert len(steps()) == 6
        assert b.is_ready()
        head = max(receipt.snapshot_id or 0 for receipt in writers.receipts)
        wait_until(lambda: applied_head(settings.database_url) >= head, "the catalog's head")
        assert a.is_ready()
    finally:
        for machine in machines.values():
            machine.stop()
    check(settings, writers)
    # Nothing ended by itself; only on a machine that stood still for longer than a sequencer may be silent is one thrown out.
    ended = [line for machine in machines.values() for line in machine.told().splitlines() if "exit code" in line]
    assert [line for line in ended if f"exit code {EXIT_FENCED}" not in line] == []
