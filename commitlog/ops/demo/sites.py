"""`commitlog demo --sites`: two sites write the same rows while they are cut off, and hold the same ones in the end.

The servers are real: each site has its own Kafka, PostgreSQL, sequencer and projector. What DuckDB reads of both catalogs is
compared; a difference ends the demo with exit code 1.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import CommitLogError
from commitlog.ops.bench.servers import own_servers, service_process
from commitlog.ops.service.links import RunningLink
from commitlog.sites.divergence import divergent_rows, write

SITES = ("paris", "tokyo")
PEOPLE = "main.people"
SERVICES = ("sequencer", "projector")
BROUGHT_TIMEOUT_S = 60.0
_POLL_S = 0.05
_WAYS = (("paris", "tokyo"), ("tokyo", "paris"))

Rows = list[tuple[object, ...]]


def run_sites_demo(settings: Settings, *, console: Console | None = None) -> int:
    """Run the demo in homes of its own, which are removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        console: where it is shown.

    Returns:
        The exit code: 1 when DuckDB read other rows at one site than at the other.
    """
    shown = console or Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    started_at = time.monotonic()
    shown.print("[bold cyan]Two sites: each has its own Kafka, PostgreSQL, sequencer and projector[/] (real ones)")
    with ExitStack() as running, ThreadPoolExecutor(len(SITES)) as threads:
        made = threads.map(lambda _: running.enter_context(_served(settings)), SITES)
        sites = dict(zip(SITES, made, strict=True))
        logs = {
            name: running.enter_context(CommitLog.connect(settings=own, writer_id=name)) for name, own in sites.items()
        }
        links = _RunningLinks(sites, logs)
        running.callback(links.cut)
        is_same = tell(Stage(shown, logs, links, lambda name: _read_with_duckdb(sites[name])))
    seconds = time.monotonic() - started_at
    verdict = (
        "[bold green]DuckDB reads the same rows at both sites.[/]" if is_same else "[bold red]FAILED[/] they differ"
    )
    shown.print(f"\n{verdict} {seconds:.0f} s in all; nothing is left running. How it works: docs/sites.md")
    return 0 if is_same else 1


class Links(Protocol):
    """The links between the two sites."""

    def mend(self) -> None:
        """Have them run."""
        ...

    def cut(self) -> None:
        """End them."""
        ...

    def wait(self) -> None:
        """Wait until each site has what the other one had made when this was called."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """What every scene needs.

    Attributes:
        console: where it is shown.
        logs: of the sites, by their names.
        links: between them.
        read: what another engine reads of the table at a site, in the order of the keys.
    """

    console: Console
    logs: Mapping[str, CommitLog]
    links: Links
    read: Callable[[str], Rows]

    def title(self, text: str) -> None:
        """Begin a scene."""
        self.console.print(f"\n[bold cyan]{text}[/]")

    def line(self, text: str) -> None:
        """Say something."""
        self.console.print(f"  {text}")


def tell(stage: Stage) -> bool:
    """The whole story; whether both sites hold the same rows in the end."""
    paris, tokyo = (stage.logs[name] for name in SITES)
    _begin(stage, paris, tokyo)
    seen = {name: log.last_seq() for name, log in stage.logs.items()}
    _write_apart(stage, paris, tokyo)
    stage.title("The link is there again: each site settles what both have written, by the same rule")
    stage.links.mend()
    stage.links.wait()
    for name, log in stage.logs.items():
        _show_conflicts(stage, name, log, seen[name])
    is_same = _show_rows(stage)
    _settle(stage, tokyo)
    return _show_rows(stage) and is_same


# --- the scenes -------------------------------------------------------------------------------------------------------


def _begin(stage: Stage, paris: CommitLog, tokyo: CommitLog) -> None:
    stage.title("Both take writes to one table, and links bring each one's to the other")
    for priority, (name, log) in enumerate(stage.logs.items(), start=1):
        with log.transaction() as tx:
            tx.configure(node_name=name, node_priority=priority)
    with paris.transaction(message="the demo's table") as tx:
        columns = {"id": "int64", "name": "varchar", "mail": "varchar", "city": "varchar"}
        tx.create_table(PEOPLE, columns, primary_key=["id"], unique=[["mail"]])
        for key, name, city in ((1, "Ann", "Lyon"), (2, "Bob", "Nice")):
            tx.insert_row(PEOPLE, _person(key, name, city))
    stage.links.mend()
    stage.links.wait()
    with tokyo.transaction() as tx:
        tx.insert_row(PEOPLE, _person(3, "Chie", "Osaka"))
    stage.links.wait()
    _show_rows(stage)


def _write_apart(stage: Stage, paris: CommitLog, tokyo: CommitLog) -> None:
    stage.title("The link is cut, and both write the same rows")
    stage.links.cut()
    with paris.transaction() as tx:
        tx.update_row(PEOPLE, {"id": 1}, _person(1, "Ann", "Marseille"))
        tx.update_row(PEOPLE, {"id": 2}, _person(2, "Bob", "Toulon"))
        tx.insert_row(PEOPLE, _person(4, "Eve", "Brest"))
    stage.line("paris: Ann moves to Marseille, Bob to Toulon; Eve comes as number 4")
    with tokyo.transaction() as tx:
        tx.update_row(PEOPLE, {"id": 1}, _person(1, "Ann", "Kyoto"))
        tx.delete_row(PEOPLE, {"id": 2})
        tx.insert_row(PEOPLE, _person(5, "Eve", "Nara"))
    stage.line("tokyo: Ann moves to Kyoto, Bob goes; Eve, with the same mail address, comes as number 5")


def _settle(stage: Stage, tokyo: CommitLog) -> None:
    stage.title("One address cannot be two people's: at both sites the same row is held back, until somebody decides")
    for row in divergent_rows(tokyo):
        met = ", ".join(str(each.row) for each in row.met)
        stage.line(f"[yellow]{row.kind}[/] {escape(str(dict(row.row)))}, made at {row.node}")
        stage.line(f"       asks for what has {escape(met)}")
        snapshot = write(tokyo, row, {**row.row, "mail": "eve.two@example.org"})
        stage.line(f"tokyo gives it another address (snapshot {snapshot}), and it stands, at both sites:")
    stage.links.wait()


def _person(key: int, name: str, city: str) -> m.Row:
    return {"id": key, "name": name, "mail": f"{name.lower()}@example.org", "city": city}


# --- what is shown ----------------------------------------------------------------------------------------------------


def _show_conflicts(stage: Stage, name: str, log: CommitLog, after_seq: int) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 2))
    for heading in (f"at {name}", "of row", "here was", "came", "so it was"):
        shown.add_column(heading)
    for told in _resolutions(log.subscribe(after_seq, follow=False)):
        here, came = (_city(row) for row in (told.committed_row, told.proposed_row))
        shown.add_row(str(told.kind), str(told.object.row_key), here, came, str(told.action))
    stage.console.print(shown)


def _resolutions(outcomes: Iterable[m.Outcome]) -> Iterator[m.Resolution]:
    for outcome in outcomes:
        yield from outcome.resolutions


def _city(row: m.Row | None) -> str:
    return "[dim]no row[/]" if row is None else f"{row['name']}, {row['city']}"


def _show_rows(stage: Stage) -> bool:
    """What the other engine reads at both sites; whether that is the same."""
    read = {name: stage.read(name) for name in SITES}
    shown = Table(box=None, pad_edge=False, padding=(0, 2))
    for name in SITES:
        shown.add_column(f"DuckDB at {name}")
    texts = [[" ".join(map(str, row)) for row in rows] for rows in read.values()]
    for number in range(max(map(len, texts))):
        shown.add_row(*(escape(rows[number]) if number < len(rows) else "" for rows in texts))
    stage.console.print(shown)
    return read[SITES[0]] == read[SITES[1]]


# --- the real thing ---------------------------------------------------------------------------------------------------


@contextmanager
def _served(settings: Settings) -> Iterator[Settings]:
    with ExitStack() as running:
        own = running.enter_context(own_servers(settings, lambda line: None))
        for service in SERVICES:
            running.enter_context(service_process(own, service))
        yield own


def _read_with_duckdb(settings: Settings) -> Rows:
    with open_lake(settings.database_url) as connection:
        return connection.execute(f"SELECT id, name, mail, city FROM {PEOPLE} ORDER BY id").fetchall()


class _RunningLinks:
    """Both links, each in a thread; `serve` runs them as processes."""

    def __init__(self, sites: Mapping[str, Settings], logs: Mapping[str, CommitLog]) -> None:
        self._sites, self._logs = sites, logs
        self._links: dict[str, RunningLink] = {}
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def mend(self) -> None:
        self._stop = threading.Event()
        self._links = {name: RunningLink(name, self._sites[name], self._sites[other]) for name, other in _WAYS}
        self._threads = [threading.Thread(target=self._run, args=(link,), daemon=True) for link in self._links.values()]
        for thread in self._threads:
            thread.start()

    def cut(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(BROUGHT_TIMEOUT_S)
        self._threads = []

    def wait(self) -> None:
        ends = {name: log.last_seq() for name, log in self._logs.items()}
        deadline = time.monotonic() + BROUGHT_TIMEOUT_S
        for source, target in _WAYS:
            link = self._links[source]
            while link.progress is None or link.progress.seq < ends[source]:
                if self._errors or time.monotonic() > deadline:
                    raise CommitLogError(f"the link from {source} to {target} brings nothing: {self._errors[:1]}")
                time.sleep(_POLL_S)
            self._logs[target].wait_for_snapshot()

    def _run(self, link: RunningLink) -> None:
        try:
            link.run(self._stop)
        except BaseException as error:
            self._errors.append(error)
            raise
