"""Links that the service runs: which there are, what they tell of themselves, and what their end means."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, LinkStoppedError, LogUnavailableError
from commitlog.ops.service import health
from commitlog.ops.service.health import log_health
from commitlog.ops.service.links import LinkHealth, RunningLink, link_healths, link_services
from commitlog.ops.service.notes import Notes, leave_word
from commitlog.ops.service.supervisor import EXIT_LINK_STOPPED, Restarts, Service, Supervisor, because
from commitlog.ops.service.watched import WatchedLink
from commitlog.ops.service.whole import WatchedWhole
from commitlog.sites.link import Link, LinkProgress
from commitlog.testing import InMemoryCommitLog

PROFILES = """
log = "people"
[profile.paris]
bootstrap_servers = "kafka.paris:9092"
links_from = "tokyo, rome"
[profile.tokyo]
bootstrap_servers = "kafka.tokyo:9092"
[profile.rome]
bootstrap_servers = "kafka.rome:9092"
[profile.lost]
links_from = "atlantis"
"""


def of_profile(folder: Path, name: str, **environment: str) -> Settings:
    file = folder / "sites.toml"
    file.write_text(PROFILES, encoding="utf-8")
    return Settings.load(config_file=file, environment=environment, profile=name, home=folder)


def test_links_when_the_settings_name_profiles_then_each_has_a_process_that_finds_the_file(tmp_path: Path) -> None:
    paris = of_profile(tmp_path, "paris")
    found = link_services(paris)
    assert [each.name for each in found] == ["link-tokyo", "link-rome"]
    assert found[1].arguments == ("replicate", "--from", "rome", "--config", str(tmp_path / "sites.toml"), "--service")
    assert link_services(of_profile(tmp_path, "tokyo")) == ()
    with pytest.raises(ConfigurationError, match=r"'atlantis'.*paris, tokyo, rome"):
        link_services(of_profile(tmp_path, "lost"))


def test_profile_of_another_log_when_read_then_nothing_of_what_this_one_was_given_holds(tmp_path: Path) -> None:
    paris = of_profile(tmp_path, "paris", COMMITLOG_LOG_ID="01934f3e-7c00-7000-8000-000000000001", COMMITLOG_LOG="x")
    assert (paris.log, paris.of_profile("tokyo").log_id) == ("x", None)
    assert (paris.of_profile("tokyo").log, paris.of_profile("tokyo").bootstrap_servers) == (
        "people",
        "kafka.tokyo:9092",
    )


@pytest.mark.parametrize("wrong", ["", "a,,b", "a, a"])
def test_links_from_when_it_is_no_list_of_names_then_says_so(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="links_from"):
        Settings.load(environment={}, links_from=wrong)


@contextmanager
def node(name: str) -> Iterator[InMemoryCommitLog]:
    with InMemoryCommitLog() as log:
        with log.transaction() as tx:
            tx.configure(node_name=name, node_priority=1)
        yield log


def test_link_when_it_runs_then_tells_how_far_it_is_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris, tokyo = of_profile(tmp_path, "paris"), of_profile(tmp_path, "tokyo")
    with node("paris") as target, node("tokyo") as source:
        with source.transaction() as tx:
            tx.create_table("main.k", {"id": "int64"}, primary_key=["id"])
            tx.insert_row("main.k", {"id": 1})
        logs: dict[str, Any] = {"kafka.paris:9092": target, "kafka.tokyo:9092": source}
        monkeypatch.setattr(CommitLog, "connect", lambda *, settings: logs[settings.bootstrap_servers])
        running, stop = RunningLink("tokyo", tokyo, paris), threading.Event()
        watched = WatchedLink(running)
        assert watched.problem() == "it has not started yet"
        run = threading.Thread(target=running.run, args=(stop,))
        run.start()
        while len(target.tables()) == 0:
            target.wait_for_snapshot(target.head_snapshot_id())
        with source.transaction() as tx:
            tx.insert_row("main.k", {"id": 2})
        target.wait_for_snapshot(4)
        running.lag.look()
        stop.set()
        with source.transaction() as tx:
            tx.insert_row("main.k", {"id": 3})
        run.join()
    [told] = link_healths(paris)
    assert (told.profile, told.progress.source, told.progress.target) == ("tokyo", "tokyo", "paris")
    assert told.progress.row_changes >= 2
    assert str(told).startswith("tokyo to paris: at snapshot ")
    assert list(link_healths(tokyo)) == []


def test_link_when_what_it_brings_is_refused_then_it_tells_how_much_waits_and_not_that_all_is_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris, tokyo = of_profile(tmp_path, "paris"), of_profile(tmp_path, "tokyo")
    with node("paris") as target, node("tokyo") as source:
        logs: dict[str, Any] = {"kafka.paris:9092": target, "kafka.tokyo:9092": source}
        monkeypatch.setattr(CommitLog, "connect", lambda *, settings: logs[settings.bootstrap_servers])
        with source.transaction() as tx:
            tx.create_table("main.k", {"id": "int64"}, primary_key=["id"])
        Link(source, target).run(follow=False)
        with target.transaction() as tx:
            tx.drop_table("main.k")
        for number in range(3):
            with source.transaction() as tx:
                tx.insert_row("main.k", {"id": number})
        with pytest.raises(LinkStoppedError):
            RunningLink("tokyo", tokyo, paris).run(threading.Event())
    [told] = link_healths(paris)
    assert (told.lag, told.lag_s, told.is_well) == (3, None, False)
    assert str(told).startswith("tokyo to paris: at snapshot 2, 3 behind; ")


def test_link_when_it_has_lost_a_site_then_it_tells_no_lag_and_is_not_ready_until_it_has_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_away(*_: object, **__: object) -> None:
        raise LogUnavailableError("kafka.tokyo:9092", waited_ms=60_000)

    paris, tokyo = of_profile(tmp_path, "paris"), of_profile(tmp_path, "tokyo")
    with node("paris") as target, node("tokyo") as source:
        logs: dict[str, Any] = {"kafka.paris:9092": target, "kafka.tokyo:9092": source}
        monkeypatch.setattr(CommitLog, "connect", lambda *, settings: logs[settings.bootstrap_servers])
        monkeypatch.setattr(Link, "run", is_away)
        running = RunningLink("tokyo", tokyo, paris)
        with pytest.raises(LogUnavailableError):
            running.run(threading.Event())
        running.lag.look()
        assert (running.lag.records, running.lag.seconds) == (None, None)
        assert "one of its sites does not answer" in str(WatchedLink(running).problem())


def test_link_when_the_home_takes_no_word_of_it_then_brings_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris, tokyo = of_profile(tmp_path, "paris"), of_profile(tmp_path, "tokyo")
    (tmp_path / "services").touch()
    with node("paris") as target, node("tokyo") as source:
        logs: dict[str, Any] = {"kafka.paris:9092": target, "kafka.tokyo:9092": source}
        monkeypatch.setattr(CommitLog, "connect", lambda *, settings: logs[settings.bootstrap_servers])
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(RunningLink("tokyo", tokyo, paris).run, stop)
            try:
                for name in ("main.a", "main.b"):
                    with source.transaction() as tx:
                        tx.create_table(name, {"id": "int64"})
                    while (count := len(target.tables())) < len(source.tables()):
                        assert not run.done(), run.result()
                        target.wait_for_snapshot(target.head_snapshot_id())
                assert count == 2
            finally:
                stop.set()
                with source.transaction() as tx:
                    tx.create_table("main.c", {"id": "int64"})
            run.result()


def told_ago(age_s: float, *, lag_s: float | None = 0.0, lacks: tuple[str, ...] = ()) -> LinkHealth:
    """What a link to paris has told so long ago."""
    progress = LinkProgress("tokyo", "paris", seq=9, snapshot_id=7, lacks=lacks)
    lag = None if lag_s is None else 0
    return LinkHealth("tokyo", progress, lag=lag, lag_s=lag_s, at_ms=int((time.time() - age_s) * 1000))


def test_link_when_it_told_long_ago_how_far_it_is_then_that_is_shown_with_its_age() -> None:
    assert str(told_ago(5)).startswith("tokyo to paris: at snapshot 7, up to date;")
    assert str(told_ago(35)).startswith("tokyo to paris, as of 35 s ago: at snapshot 7, up to date;")
    assert [told_ago(age_s).is_well for age_s in (0, 61, 150)] == [True, True, False]
    assert [told_ago(0, lag_s=lag_s).is_well for lag_s in (9.0, 11.0, None)] == [True, False, False]


def test_status_when_a_link_has_told_nothing_for_two_minutes_then_not_well_unless_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(settings: Settings) -> None:
        raise LogUnavailableError("127.0.0.1:1", waited_ms=1, detail="nobody there")

    monkeypatch.setattr(health, "require_genesis", away)
    paris = of_profile(tmp_path, "paris")

    def problems(age_s: float) -> str:
        assert leave_word(tmp_path / "services" / "people" / "links" / "tokyo.json", asdict(told_ago(age_s)))
        return "\n".join(log_health(paris).problems)

    assert leave_word(tmp_path / "services" / "people" / "links" / "tokyo.json", asdict(told_ago(0, lacks=("rome",))))
    [_, problem] = log_health(paris).problems
    assert problem.startswith("link-tokyo: site paris does not have what site tokyo was told of rome when it joined")
    assert "link-tokyo" not in problems(61)
    assert "link-tokyo has not reported for 150 s: it is stuck, or no longer runs here" in problems(150)
    Notes(paris).leave("link-tokyo", "the other site is away")
    assert "link-tokyo: the other site is away" in problems(150)
    assert "has not reported" not in problems(150)


def test_link_when_what_it_brings_is_refused_then_is_begun_again_later_than_others() -> None:
    assert Restarts().delay_s(EXIT_LINK_STOPPED, 1) == 60
    assert "link-tokyo cannot go on: a commit of another site cannot be brought here" in because(
        "link-tokyo", EXIT_LINK_STOPPED
    )


def test_whole_when_a_link_is_not_ready_then_is_ready_all_the_same(tmp_path: Path) -> None:
    settings = of_profile(tmp_path, "paris")
    stays = (sys.executable, "-c", "import time; time.sleep(600)")
    for name, problem in (("link-tokyo", None), ("projector", "projector: not running; it is being restarted")):
        supervisor = Supervisor([Service(name, (), program=stays)], {}, say=lambda _: None)
        assert WatchedWhole(settings, supervisor).problem() == problem
