"""Commands that show the log: its history, and what comes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from textwrap import fill
from typing import Any, TypeVar

import click

from commitlog.catalog.history import HistoryEntry, HistoryFilter
from commitlog.catalog.snapshot_diff import Named
from commitlog.client import CommitLog
from commitlog.client.access.history_entries import entry_of, is_asked
from commitlog.client.outcomes.describing import describe_entry, describe_outcome, one_line
from commitlog.client.outcomes.graph import GraphRow, graph_rows
from commitlog.client.tables.names import parse_table_name
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.errors import CommitLogError
from commitlog.ops.cli.ages import read_moment
from commitlog.ops.cli.options import COLOURS, json_option, print_json, reading_log, settings_options, shown_width
from commitlog.ops.cli.outcomes import entry_to_json, shown_outcome

F = TypeVar("F", bound=Callable[..., Any])
WRITER_WIDTH_MAX = 24
WHAT_WIDTH_MIN = 14
_NO_GRAPH = GraphRow("", "")
_HEAD = f"{'seq':>6}  {'snapshot':<9}  {'time (UTC)':<19}  "


def filter_options(command: F) -> F:
    """Give a command the options that say which outcomes are shown."""
    verdicts = click.Choice([each.value for each in Verdict], case_sensitive=False)
    since_help = (
        "Only outcomes decided since a time, such as 2026-03-02T04:05 (UTC unless it has an offset), or an age, "
        "such as 90m, 7d or yesterday."
    )
    for option in (
        click.option("--verdict", type=verdicts, help="Only these."),
        click.option("--since", type=read_moment, metavar="TIME", help=since_help),
        click.option("--writer", metavar="WRITER", help="Only proposals of this writer."),
        click.option(
            "--table", metavar="TABLE", help="Only outcomes that changed this table, or were refused a change to it."
        ),
    ):
        command = option(command)
    return command


@click.command("log")
@click.option("--limit", "-n", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@click.option("--before", "before_seq", type=click.IntRange(0), metavar="SEQ", help="Only outcomes before this seq.")
@click.option("--graph", is_flag=True, help="Draw which proposals overtook which.")
@click.option(
    "--head-hash",
    is_flag=True,
    help="Print only the last outcome's seq and hash, to keep for `verify --chain --expect`.",
)
@filter_options
@json_option
@settings_options
def log_command(
    settings: Settings,
    limit: int,
    before_seq: int | None,
    graph: bool,
    head_hash: bool,
    table: str | None,
    writer: str | None,
    since: datetime | None,
    verdict: str | None,
    as_json: bool,
) -> None:
    """Show the newest outcomes: who asked for what, when, and what became of it.

    With --graph, the snapshots form a line. A lane beside it is a proposal that others overtook: it runs from its
    base, below, up to the snapshot that it made, or to an x where it was refused.
    """
    if graph and (as_json or table or writer or verdict):
        raise click.UsageError(
            "--graph draws all outcomes: it cannot be combined with --json, --table, --writer or --verdict"
        )
    if head_hash and (graph or before_seq is not None or table or writer or since or verdict):
        raise click.UsageError("--head-hash is about the whole log: it can be combined only with --json")
    if head_hash:
        _print_head_hash(settings, as_json)
        return
    with reading_log(settings) as log:
        entries = log.history(limit, before=before_seq, table=table, writer=writer, since=since, verdict=verdict)
        if table and not entries and not log.history(1, table=table):
            # No outcome has ever named it: it is there, and young, or a mistake.
            log.table(table).at()
    if as_json:
        for entry in entries:
            print_json(entry_to_json(entry))
    elif not entries:
        click.echo(
            "no outcome matches"
            if table or writer or since or verdict or before_seq is not None
            else "nothing has been decided yet"
        )
    else:
        _print_entries(entries, graph=graph)


def _print_head_hash(settings: Settings, as_json: bool) -> None:
    from commitlog.ops.maintenance.verify_chain import head, noted

    found = head(settings)
    if as_json:
        print_json({"seq": found.seq, "head_snapshot_id": found.head_snapshot_id, "noted": noted(found.position)})
    else:
        click.echo(noted(found.position))


def _print_entries(entries: list[HistoryEntry], *, graph: bool) -> None:
    rows = list(graph_rows(entries)) if graph else [_NO_GRAPH] * len(entries)
    if not _shows("│╮╯"):
        rows = [row.in_ascii() for row in rows]
    beside = max(len(row.drawn) for row in rows) + graph
    writers = max(len(each) for each in ("writer", *map(_writer, entries)))
    click.secho(f"{'':{beside}}{_HEAD}{'writer':<{writers}}  what", bold=True)
    for entry, row in zip(entries, rows, strict=True):
        padded = GraphRow(f"{row.drawn:<{beside}}", f"{row.below:<{beside}}")
        click.echo(entry_lines(entry, describe_entry(entry), padded, writers))


def _shows(letters: str) -> bool:
    try:
        letters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def entry_lines(entry: HistoryEntry, what: str, graph: GraphRow = _NO_GRAPH, writer_width: int = 0) -> str:
    """An entry for people: one line, or as many as the terminal takes."""
    place = str(entry.snapshot_id) if entry.verdict is Verdict.COMMITTED and entry.snapshot_id else str(entry.verdict)
    time = entry.decided_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    seq = f"{graph.drawn}{entry.seq:>6}  "
    rest = f"{'':{9 - len(place)}}  {time}  {_writer(entry):<{writer_width}}"
    head = seq + click.style(place, fg=COLOURS[entry.verdict]) + rest
    taken, below = len(seq) + len(place) + len(rest) + 2, f"{graph.below}{'':8}"
    width = max(shown_width(), len(below) + WHAT_WIDTH_MIN)
    if width - taken < WHAT_WIDTH_MIN:
        return head.rstrip() + "\n" + fill(what, width, initial_indent=below, subsequent_indent=below)
    return f"{head}  " + fill(what, width, initial_indent=" " * taken, subsequent_indent=below)[taken:]


def _writer(entry: HistoryEntry) -> str:
    writer = one_line(entry.writer_id or "?")
    return writer if len(writer) <= WRITER_WIDTH_MAX else f"{writer[: WRITER_WIDTH_MAX - 1]}…"


@click.command("tail")
@click.option(
    "--after",
    "after_seq",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Begin after this outcome (0: at the beginning). Default: only new outcomes.",
)
@click.option("--no-follow", is_flag=True, help="Exit at the current end of the log.")
@filter_options
@json_option
@settings_options
def tail_command(
    settings: Settings,
    after_seq: int | None,
    no_follow: bool,
    table: str | None,
    writer: str | None,
    since: datetime | None,
    verdict: str | None,
    as_json: bool,
) -> None:
    """Follow outcomes as they are decided, until Ctrl-C."""
    if after_seq is not None and since is not None:
        raise click.UsageError("--after and --since both say where to begin: give only one of them")
    asked = HistoryFilter(writer_id=writer, verdict=None if verdict is None else Verdict(verdict.upper()))
    with CommitLog.connect(settings=settings) as log:
        start = log.last_seq() if after_seq is None else after_seq
        if since is not None:
            start = log.seq_before(since)
        tables = None if table is None else [table]
        if table is not None:
            _tell_if_unknown(log, table)
        outcomes = log.subscribe(start, follow=not no_follow, tables=tables, missing_ok=True)
        for outcome in outcomes:
            entry = entry_of(outcome)
            if not is_asked(entry, asked):
                continue
            if as_json:
                print_json(shown_outcome(outcome))
            else:
                click.echo(entry_lines(entry, describe_outcome(outcome)))


def _tell_if_unknown(log: CommitLog, table: str) -> None:
    """Say that no outcome was ever about a table: it may be created yet, or it is a mistake. Without the catalog nothing is
    known of it, and nothing is said."""
    name = parse_table_name(table)
    with suppress(CommitLogError):
        contents = log.contents()
        newest = contents.snapshots(limit=1)[0].snapshot_id
        asked = HistoryFilter(limit=1, table=Named(name.schema, name.name))
        # The table first: of a name that is there, nobody need look through the history.
        if contents.table_at(name.schema, name.name, newest) is None and not contents.history(asked):
            meant = log.missing_table(name, newest).meant
            click.echo(f"there is no table {name} yet{f' - {meant}' if meant else ''}", err=True)
