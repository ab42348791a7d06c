"""Two logs on a real broker, each with its sequencer and catalog, and the links between them, which are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from log_running import wait_until
from test_projector import running, sequencing

from commitlog.catalog.projector import Projector
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.errors import ConfigurationError
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.ops.cli import cli
from commitlog.ops.service.links import link_healths
from commitlog.sites.beginning import JoinProgress
from commitlog.sites.join import Join
from commitlog.sites.link import Link

COMMITLOG = (sys.executable, "-c", "from commitlog.ops.cli import main; main()")
SITES = ("paris", "tokyo")


@pytest.fixture
def profiles(kafka: str, log_name: str, database_url: str, other_database_url: str, tmp_path: Path) -> Path:
    """A file with a profile for each site."""
    path = tmp_path / "sites.toml"
    texts = []
    for name, url in zip(SITES, (database_url, other_database_url), strict=True):
        values = {
            "log": f"{log_name}-{name}",
            "bootstrap_servers": kafka,
            "database_url": url,
            "data_path": str(tmp_path / name / "lake"),
            "home": str(tmp_path / name),
            "links_from": next(other for other in SITES if other != name),
        }
        texts.append(f"[profile.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


@pytest.fixture
def sites(profiles: Path) -> Iterator[dict[str, CommitLog]]:
    """Both logs, each a node that decides and projects; paris has made a keyed table."""
    with ExitStack() as served:
        logs = {}
        for priority, name in enumerate(SITES, start=1):
            settings = Settings.load(config_file=profiles, environment={}, profile=name)
            init_log(settings)
            served.enter_context(running(sequencing(settings)))
            served.enter_context(running(Projector(settings, decode_statistics=decode_statistics).run))
            logs[name] = served.enter_context(CommitLog.connect(settings=settings, writer_id="test"))
            assert "this log is not a node" in node(profiles, name)
            assert node(profiles, name, name, "--priority", str(priority)) == f"node {name}, priority {priority}\n"
        with logs["paris"].transaction() as tx:
            tx.create_table("main.k", {"id": "int64", "v": "varchar"}, primary_key=["id"])
        yield logs


def node(profiles: Path, profile: str, *arguments: str) -> str:
    environment = {"COMMITLOG_CONFIG": str(profiles), "COMMITLOG_PROFILE": profile}
    done = CliRunner(env=environment).invoke(cli, ["node", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def link(profiles: Path, source: str, target: str | None, *more: str) -> tuple[str, ...]:
    to = () if target is None else ("--to", target)
    return (*COMMITLOG, "replicate", "--from", source, *to, "--config", str(profiles), *more)


def brought(profiles: Path, source: str, target: str) -> dict[str, Any]:
    done = subprocess.run(link(profiles, source, target, "--once", "--json"), stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def put(log: CommitLog, *keys: int, by: str) -> None:
    for key in keys:
        with log.transaction() as tx:
            tx.insert_row("main.k", {"id": key, "v": f"{by} {key}"})


def rows(log: CommitLog) -> list[dict[str, Any]]:
    log.wait_for_snapshot()
    found = log.table("main.k").scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_replicate_when_a_link_is_killed_and_begun_again_then_nothing_is_lost_and_nothing_comes_twice(
    profiles: Path, sites: dict[str, CommitLog]
) -> None:
    paris, tokyo = sites["paris"], sites["tokyo"]
    own = {**os.environ, "COMMITLOG_PROFILE": "tokyo"}
    following = subprocess.Popen((*link(profiles, "paris", None), "--service"), env=own)
    try:
        put(paris, 1, 2, 3, by="paris")
        wait_until(lambda: bool(tokyo.tables()), "the table at the other site")
        wait_until(lambda: len(rows(tokyo)) == 3, "the first rows there")
        settings = Settings.load(config_file=profiles, environment={}, profile="tokyo")
        wait_until(lambda: any(each.lag == 0 for each in link_healths(settings)), "the link tells how far it is")
        [told] = link_healths(settings)
        assert (told.profile, told.progress.source, told.progress.target) == ("paris", "paris", "tokyo")
        put(paris, *range(4, 12), by="paris")
    finally:
        following.kill()
        following.wait()
    put(paris, 20, by="paris")
    put(tokyo, 20, 21, by="tokyo")
    assert brought(profiles, "paris", "tokyo")["brought"] > 0
    back = brought(profiles, "tokyo", "paris")
    assert (back["brought"], back["left_out"]) == (2, 0)
    assert brought(profiles, "paris", "tokyo")["brought"] == 0
    assert rows(paris) == rows(tokyo)
    assert rows(paris)[-2:] == [{"id": 20, "v": "paris 20"}, {"id": 21, "v": "tokyo 21"}]
    proposals = [each.proposal for each in tokyo.subscribe(follow=False) if each.verdict is Verdict.COMMITTED]
    came = [each.replicated.tick for each in proposals if each is not None and each.replicated is not None]
    assert came == sorted(set(came))
    assert len(came) == 1 + 3 + 8 + 1
    has = node(profiles, "tokyo").splitlines()[1]
    assert has == f"has everything of paris (priority 1) before its snapshot {came[-1] + 1}"
    known = {"node": "paris", "tick": came[-1] + 1, "priority": 1}
    assert json.loads(node(profiles, "tokyo", "--json")) == {"node": "tokyo", "priority": 2, "digest": [known]}


def test_replicate_when_tables_have_no_primary_key_then_both_sites_read_the_same_rows_from_files_of_their_own(
    profiles: Path, sites: dict[str, CommitLog], tmp_path: Path
) -> None:
    paris, tokyo = sites["paris"], sites["tokyo"]
    with paris.transaction() as tx:
        tx.create_table("main.f", {"id": "int64", "v": "varchar"})
        tx.append("main.f", [{"id": 1, "v": "paris"}])
        tx.create_table("main.shared", {"id": "int64"}, properties={"foreign_paths": "true"})
    paris.table("main.shared").append([{"id": 7}])
    with paris.transaction() as tx:
        tx.insert_row("main.f", {"id": 2, "v": "in no file"})
    for key in (3, 4):
        paris.table("main.f").append([{"id": key, "v": "paris"}])
    following = subprocess.Popen(
        (*link(profiles, "paris", None), "--service"), env={**os.environ, "COMMITLOG_PROFILE": "tokyo"}
    )
    try:
        wait_until(lambda: "main.f" in tokyo.tables() and bool(found(tokyo, "main.f")), "some of it is there")
    finally:
        following.kill()
        following.wait()
    tokyo.table("main.f").append([{"id": 5, "v": "tokyo"}])
    brought(profiles, "paris", "tokyo")
    assert brought(profiles, "tokyo", "paris")["files"] == 1
    assert brought(profiles, "paris", "tokyo")["brought"] == 0
    assert [row["id"] for row in found(paris, "main.f")] == [1, 2, 3, 4, 5]
    assert found(tokyo, "main.f") == found(paris, "main.f")
    assert found(tokyo, "main.shared") == found(paris, "main.shared") == [{"id": 7}]
    read = tokyo.duckdb().sql("SELECT id FROM main.f UNION ALL SELECT id FROM main.shared ORDER BY id").fetchall()
    assert read == [(1,), (2,), (3,), (4,), (5,), (7,)]
    files = {name: list((tmp_path / name / "lake").rglob("*.parquet")) for name in SITES}
    assert len(files["paris"]) == 5
    assert len(files["tokyo"]) in (4, 5), "besides what it reads, at most what the killed link was copying"
    paris.table("main.f").delete("id = 3")
    put(paris, 1, by="paris")
    stopped = subprocess.run(link(profiles, "paris", "tokyo", "--once"), stderr=subprocess.PIPE, check=False, text=True)
    assert stopped.returncode == 71
    assert "takes rows out of table main.f" in stopped.stderr
    with tokyo.transaction() as tx:
        tx.alter("main.f").set_property("replicated", "false")
    assert brought(profiles, "paris", "tokyo")["row_changes"] == 1
    assert rows(tokyo) == rows(paris)
    assert len(found(tokyo, "main.f")) == 5


def test_replicate_when_a_site_joins_then_is_told_what_there_is_and_goes_on(
    profiles: Path, sites: dict[str, CommitLog]
) -> None:
    paris, tokyo = sites["paris"], sites["tokyo"]
    with paris.transaction() as tx:
        tx.create_table("main.f", {"id": "int64", "gone": "varchar", "v": "varchar"})
        tx.append("main.f", [{"id": 1, "v": "file"}, {"id": 2, "v": "file"}])
    with paris.transaction() as tx:
        tx.insert_row("main.f", {"id": 3, "v": "in no file"})
        tx.alter("main.f").drop_column("gone")
    paris.table("main.f").delete("id = 2")
    put(paris, 1, 2, by="paris")
    told = subprocess.run(
        link(profiles, "paris", "tokyo", "--join", "--once"), stderr=subprocess.PIPE, check=True, text=True
    )
    assert "tokyo has joined, with what paris held at snapshot" in told.stderr
    assert found(tokyo, "main.f") == found(paris, "main.f") == [{"id": 1, "v": "file"}, {"id": 3, "v": "in no file"}]
    assert rows(tokyo) == rows(paris)
    paris.table("main.f").append([{"id": 4, "v": "later"}])
    tokyo.table("main.f").append([{"id": 5, "v": "tokyo's"}])
    assert brought(profiles, "paris", "tokyo")["files"] == 1
    assert brought(profiles, "tokyo", "paris")["brought"] == 1
    assert found(tokyo, "main.f") == found(paris, "main.f")
    assert len(found(paris, "main.f")) == 4
    with tokyo.duckdb() as lake:
        assert lake.execute("SELECT id, v FROM main.f ORDER BY id").fetchall() == [
            (1, "file"),
            (3, "in no file"),
            (4, "later"),
            (5, "tokyo's"),
        ]


def test_replicate_when_a_join_dies_among_rows_of_files_then_goes_on_as_of_the_same_snapshot(
    sites: dict[str, CommitLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.sites.join.ROWS_AT_ONCE", 1)
    paris, tokyo = sites["paris"], sites["tokyo"]
    paris.append("main.f", [{"id": 1}], create=True)
    paris.append("main.f", [{"id": 2}])

    class DiedError(Exception):
        pass

    def die(progress: JoinProgress) -> None:
        if progress.told:
            raise DiedError

    with pytest.raises(DiedError):
        Join(paris, tokyo).run(told=die)
    paris.table("main.f").delete("id = 1")
    with pytest.raises(ConfigurationError, match="has not been told everything"):
        Link(paris, tokyo)
    assert Join(paris, tokyo).run().told == 1
    assert found(tokyo, "main.f") == [{"id": 1}, {"id": 2}]


def test_replicate_when_a_table_is_left_where_it_is_after_what_was_brought_last_then_what_is_before_that_comes(
    profiles: Path, sites: dict[str, CommitLog]
) -> None:
    paris, tokyo = sites["paris"], sites["tokyo"]
    put(paris, 1, by="paris")
    brought(profiles, "paris", "tokyo")
    put(paris, 2, by="paris")
    with paris.transaction() as tx:
        tx.alter("main.k").set_property("replicated", "false")
    put(paris, 3, by="paris")
    assert brought(profiles, "paris", "tokyo")["left_out"] == 1
    assert [row["id"] for row in rows(paris)] == [1, 2, 3]
    assert [row["id"] for row in rows(tokyo)] == [1, 2]


def test_replicate_when_a_column_was_dropped_there_and_that_snapshot_expired_then_rows_come_without_it(
    profiles: Path, sites: dict[str, CommitLog]
) -> None:
    paris, tokyo = sites["paris"], sites["tokyo"]
    brought(profiles, "paris", "tokyo")
    put(paris, 1, by="paris")
    with tokyo.transaction() as tx:
        tx.alter("main.k").add_column("w", "varchar").drop_column("v")
    with tokyo.transaction() as tx:
        tx.expire_snapshots(tokyo.head_snapshot_id())
    assert brought(profiles, "paris", "tokyo")["brought"] == 1
    assert rows(tokyo) == [{"id": 1, "w": None}]
    brought(profiles, "tokyo", "paris")
    assert rows(paris) == rows(tokyo)


@pytest.mark.parametrize("is_expired", [False, True])
def test_replicate_when_a_table_and_its_column_were_renamed_there_then_rows_come_by_the_new_names(
    profiles: Path, sites: dict[str, CommitLog], is_expired: bool
) -> None:
    paris, tokyo = sites["paris"], sites["tokyo"]
    brought(profiles, "paris", "tokyo")
    put(paris, 1, by="paris")
    with tokyo.transaction() as tx:
        tx.rename_table("main.k", "people")
    with tokyo.transaction() as tx:
        tx.alter("main.people").rename_column("v", "by")
    if is_expired:
        with tokyo.transaction() as tx:
            tx.expire_snapshots(tokyo.head_snapshot_id())
    assert brought(profiles, "paris", "tokyo")["brought"] == 1
    assert found(tokyo, "main.people") == [{"id": 1, "by": "paris 1"}]
    brought(profiles, "tokyo", "paris")
    assert found(paris, "main.people") == found(tokyo, "main.people")


def found(log: CommitLog, table: str) -> list[dict[str, Any]]:
    log.wait_for_snapshot()
    return sorted(log.table(table).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
