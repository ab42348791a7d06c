"""The story of two sites: in memory, and with real servers by night (`make demo-sites` is the whole of it)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from rich.console import Console

from commitlog.config import Settings
from commitlog.ops.demo.sites import PEOPLE, SITES, Rows, Stage, run_sites_demo, tell
from commitlog.sites.link import Link
from commitlog.testing import InMemoryCommitLog


class LinksAtCall:
    """Links that bring everything when it is waited for, unless they are cut."""

    def __init__(self, logs: Mapping[str, InMemoryCommitLog]) -> None:
        self._logs = logs
        self._is_cut = True

    def mend(self) -> None:
        self._is_cut = False

    def cut(self) -> None:
        self._is_cut = True

    def wait(self) -> None:
        assert not self._is_cut
        for source, target in (SITES, SITES[::-1]):
            Link(self._logs[source], self._logs[target]).run(follow=False)


def check_told(text: str) -> None:
    for words in ("UPDATE_UPDATE", "UPDATE_DELETE", "UNIQUE", "Ann, Marseille", "HELD", "eve.two@example.org"):
        assert words in text, text
    assert text.count("5 Eve eve.two@example.org Nara") == 2, "both sites have it in the end"


def test_story_when_told_then_every_conflict_is_seen_and_both_sites_hold_the_same() -> None:
    logs = {name: InMemoryCommitLog(writer_id=name) for name in SITES}

    def read(name: str) -> Rows:
        found = logs[name].table(PEOPLE).scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    console = Console(record=True, width=120)
    assert tell(Stage(console, logs, LinksAtCall(logs), read))
    check_told(console.export_text())


@pytest.mark.nightly
def test_demo_sites_when_run_with_real_servers_then_tells_the_same(settings: Settings) -> None:
    console = Console(record=True, width=120)
    assert run_sites_demo(settings, console=console) == 0
    check_told(console.export_text())
