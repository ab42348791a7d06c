"""The demo's verdict, without its servers: `make demo` is the whole of it."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from commitlog.client.reading import duckdb_client as duck
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, ProposalRejectedError
from commitlog.local.processes import DirectoryLock
from commitlog.ops.demo import story as demo
from commitlog.ops.demo.flights import Facts, unpack
from commitlog.ops.demo.picture import draw
from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def console() -> Console:
    return Console(record=True, width=120)


def test_demo_when_the_manual_tells_of_it_then_with_all_its_acts() -> None:
    acts = re.findall(r'stage\.title\(\s*f?"([^"{]+)', Path(demo.__file__).read_text(encoding="utf-8"))
    told = (Path(__file__).parents[2] / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    assert len(acts) >= 6
    assert [act for act in acts if act not in told] == []


@pytest.mark.parametrize(("spark_rows", "wrong"), [(10, []), (9, ["Spark at snapshot 7: "])])
def test_compare_when_an_engine_counts_other_rows_then_names_it(
    monkeypatch: pytest.MonkeyPatch, console: Console, spark_rows: int, wrong: list[str]
) -> None:
    monkeypatch.setattr(demo, "_count_with_duckdb", lambda stage, snapshot: Facts(10, 100))
    monkeypatch.setattr(demo, "_count_with_spark", lambda stage, snapshot: Facts(spark_rows, 100))
    stage = demo._Stage(console, *cast("Any", [None] * 4))
    found = demo._compare(stage, {7: ("head", Facts(10, 100))})
    assert [line[: len(start)] for line, start in zip(found, wrong, strict=True)] == wrong
    assert ("WRONG" in console.export_text()) == bool(wrong)


@pytest.mark.parametrize("name", ["my lakes", "[/a]", "[bold]"])
def test_farewell_when_the_home_has_an_odd_name_then_what_to_try_can_be_tried(console: Console, name: str) -> None:
    settings = Settings.load(environment={}, home=Path("/srv") / name)
    demo._say_farewell(console, settings, [], 1.0)
    [command] = re.findall(r"export COMMITLOG_HOME=.*?(?=   )", console.export_text())
    assert shlex.split(command) == ["export", f"COMMITLOG_HOME=/srv/{name}"]


def test_flights_when_unpacked_then_are_those_of_the_package(tmp_path: Path) -> None:
    flights = unpack(tmp_path)
    assert flights.facts() == Facts(336_776, 350_217_607)
    assert flights.facts(months=[1]) + flights.facts(months=range(2, 13)) == flights.facts()
    flights.write_days(tmp_path / "days", month=12, files=3)
    assert len(list((tmp_path / "days").iterdir())) == 3


def test_clear_when_no_demo_made_the_folder_then_leaves_it(tmp_path: Path) -> None:
    own = Settings.load(environment={}, home=tmp_path).at_home(tmp_path / "demo")
    letter = own.home / "letter"
    own.home.mkdir()
    letter.touch()
    with pytest.raises(ConfigurationError, match="no demo made it"):
        demo._clear(own)
    assert letter.exists()
    letter.rename(tmp_path / "letter")
    own.home.rmdir()
    demo._clear(own)
    (own.home / "of-an-earlier-demo").touch()
    demo._clear(own)
    assert [each.name for each in own.home.iterdir()] == ["made-by-commitlog-demo"]


def test_clear_when_somebody_stops_what_a_killed_demo_left_then_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Settings.load(environment={}, home=tmp_path).at_home(tmp_path / "demo")
    demo._clear(own)
    for name in (".lock", "of-a-killed-demo"):
        (own.home / name).touch()
    stopping, there = ExitStack(), []

    def sleep(_: float) -> None:
        there.append((own.home / "of-a-killed-demo").exists())
        stopping.close()

    monkeypatch.setattr(demo.time, "sleep", sleep)
    stopping.enter_context(DirectoryLock(own.home).borrowed())
    demo._clear(own)
    assert there == [True]
    assert [each.name for each in own.home.iterdir()] == ["made-by-commitlog-demo"]


def test_extension_file_when_it_is_not_installed_then_says_what_brings_it() -> None:
    with pytest.raises(ConfigurationError, match="extension nothing is not installed"):
        duck.extension_file("nothing")


def test_connection_text_when_a_password_has_odd_letters_then_quotes_it() -> None:
    text = duck.connection_text("postgresql://me:a%20b%27c@db.example:5433/lake?sslmode=require&application_name=x")
    assert r"password='a b\'c'" in text
    assert {"host=db.example", "port=5433", "user=me", "dbname=lake", "sslmode=require", "application_name=x"} <= {
        *text.split()
    }


@pytest.mark.parametrize(("encoding", "refused"), [("utf-8", "│ x REJECTED"), ("ascii", "| x REJECTED")])
def test_picture_when_a_proposal_was_overtaken_then_its_lane_is_drawn(
    encoding: str, refused: str, tmp_path: Path
) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with InMemoryCommitLog(data_path=tmp_path, writer_id="ann") as log:
        late = log.transaction(base_snapshot_id=0)
        late.create_schema("seen")
        with log.transaction() as tx:
            tx.create_schema("seen")
        with pytest.raises(ProposalRejectedError):
            late.commit()
        draw(Console(file=shown, width=120), log)
    shown.flush()
    lines = shown.buffer.getvalue().decode(encoding).splitlines()  # type: ignore[attr-defined]
    assert [line.split("ann")[0].split() for line in lines] == [refused.split(), ["*", refused[0], "COMMITTED"]]
