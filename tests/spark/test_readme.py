"""The examples of README, docs/python.md and docs/spark.md are run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from commitlog.client import CommitLog

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def example(page: str) -> str:
    """The whole program that a page of docs/ shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    section = text.split("\n## A whole program\n")[1].split("\n## ")[0]
    [block] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert isinstance(block, str)
    return block


def run(code: str, **given: object) -> None:
    names: dict[str, object] = dict(given)
    try:
        exec(compile(code, README.name, "exec"), names)
    finally:
        if isinstance(connected := names.get("log"), CommitLog):
            connected.close()


@pytest.mark.usefixtures("environment", "log")
def test_readme_when_its_python_example_is_run_then_shows_a_commit_and_a_refusal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(example("python.md"))
    shown = capsys.readouterr().out
    assert "committed as snapshot 1\n" in shown
    assert "CONFLICT: append to table main.trips - but snapshot 2 by writer" in shown
    assert "\n4 COMMITTED 3 \n" in shown
    assert "\n4 of 6\n3 rows came since\n" in shown
    assert "│ BOS     │     2 │" in shown
    assert "trips again: 3\n" in shown
    run(example("python.md"))
    shown = capsys.readouterr().out
    assert "\n0 rows came since\n" in shown  # load:1 was committed before
    assert "trips again: 6\n" in shown


@pytest.mark.usefixtures("environment", "log")
def test_readme_when_its_spark_example_is_run_then_counts_as_it_should(
    capfd: pytest.CaptureFixture[str], spark: SparkSession, tmp_path: Path
) -> None:
    run(example("spark.md").replace('"incoming"', f'"{tmp_path}/in"').replace('"checkpoint"', f'"{tmp_path}/check"'))
    shown = capfd.readouterr().out
    assert "repeated: True" in shown
    assert "rides now and then: 857 1000" in shown
    assert "with the stream: 867" in shown


@pytest.mark.usefixtures("environment", "log")
def test_readme_when_its_lines_are_run_then_each_of_three_ways_sees_the_same_rows(
    capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    run("".join(blocks), spark=spark)
    shown = capsys.readouterr().out
    assert "│ LAX     │     1 │" in shown
    assert "│ SFO     │     1 │" in shown


def test_readme_when_it_is_read_elsewhere_then_names_nothing_of_this_machine() -> None:
    text = README.read_text(encoding="utf-8")
    assert not re.search(r"/(?:work|home|root)/|localhost|https?://(?!ducklake\.select)", text)
