"""What the pages of docs/ tell to run is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from page_blocks import DOCS, blocks_of, run_page

from commitlog.client import CommitLog

BEGINS = "quickstart.md"
"""Makes a log, to which the pages after it come unless they ask for an empty one."""
ON_A_LOG = (BEGINS, "tutorial-analyst.md", "tutorial-service.md", "other-readers.md")
WITHOUT_A_LOG = ("resolving-conflicts.md", "sites.md", "testing-your-code.md")
RUN_ELSEWHERE = {
    "commands.md": "what a shell's own files say",
    "python.md": "tests/spark/test_readme.py",
    "spark.md": "tests/spark/test_spark_page.py, test_readme.py",
    "tutorial-spark.md": "tests/spark/test_spark_page.py",
}


def run(page: str, environment: dict[str, str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        assert [block for block, _ in run_page(page, names, environment)]
    finally:
        if isinstance(connected := names.get("log"), CommitLog):
            connected.close()


@pytest.mark.usefixtures("deciding")
@pytest.mark.parametrize("page", ON_A_LOG)
def test_page_when_it_is_followed_on_a_log_then_does_what_it_says(page: str, environment: dict[str, str]) -> None:
    if page != BEGINS and "an empty log" not in (DOCS / page).read_text(encoding="utf-8"):
        run(BEGINS, environment)
    run(page, environment)


@pytest.mark.parametrize("page", WITHOUT_A_LOG)
def test_page_when_it_is_followed_without_servers_then_does_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, {})


def test_pages_when_they_tell_to_run_something_then_it_is_run_or_they_say_why_not() -> None:
    run_here = {*ON_A_LOG, *WITHOUT_A_LOG, *RUN_ELSEWHERE}
    pages = [path.name for path in sorted(DOCS.glob("*.md"))]
    assert sorted({page for page in pages if any(block.is_run for block in blocks_of(page))} - run_here) == []
    assert run_here <= set(pages)
    refused = [block for page in pages for block in blocks_of(page) if block.title.startswith("not run")]
    assert [block.title for block in refused if len(block.title) < len("not run: why")] == []


@pytest.mark.parametrize("page", ["tutorial-analyst.md", "other-readers.md", "which-command.md"])
def test_page_when_it_is_for_readers_then_they_attach_the_lake_by_a_login_that_only_reads(page: str) -> None:
    said = re.findall(r"commitlog duckdb(?: --[a-z-]+)?", (DOCS / page).read_text(encoding="utf-8"))
    assert set(said) == {"commitlog duckdb --read-only"}


def test_views_when_a_page_lists_them_then_all_that_their_own_page_has() -> None:
    described = re.findall(
        r"^## commitlog\.(\w+)$", (DOCS / "catalog-views.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    [listed] = re.findall(
        r"Our own views \((.+?)\)", (DOCS / "which-command.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert [name.removeprefix("commitlog.") for name in re.findall(r"`([\w.]+)`", listed)] == described


def test_alerts_when_they_are_listed_then_as_prometheus_is_told_them() -> None:
    groups = yaml.safe_load((DOCS.parent / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    told = [(rule["alert"], rule["labels"]["severity"]) for group in groups for rule in group["rules"]]
    listed = re.findall(
        r"^\| (Commitlog\w+) \| (\w+) \|", (DOCS / "alerts.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == told
