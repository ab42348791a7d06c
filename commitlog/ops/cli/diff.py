"""The commands that show what changed: between two snapshots, or by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from commitlog.catalog.snapshot_diff import Named, ObjectDifference, TableDifference
from commitlog.client.outcomes.describing import describe_change, one_line
from commitlog.client.reading.moments import snapshot_named, snapshot_of
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.names import TableName, quote_part
from commitlog.config import Settings
from commitlog.errors import InvalidRequestError
from commitlog.ops.cli.ages import read_snapshot
from commitlog.ops.cli.options import json_option, print_json, print_table, reading_log, settings_options

if TYPE_CHECKING:
    import pyarrow as pa

    from commitlog.client import CommitLog
    from commitlog.client.outcomes.snapshot_story import SnapshotStory

_SIGNS = {"insert": "+", "delete": "-", "update_preimage": "-", "update_postimage": "+"}


@click.command("diff")
@click.argument("first", type=read_snapshot, metavar="A")
@click.argument("last", type=read_snapshot, metavar="[B]", required=False)
@click.option(
    "--rows", "with_rows", is_flag=True, help="Also list the rows that differ; A must be the earlier snapshot."
)
@click.option(
    "--limit", "-n", type=click.IntRange(1), default=100, show_default=True, help="At most this many rows per table."
)
@json_option
@settings_options
def diff_command(
    settings: Settings,
    first: int | datetime,
    last: int | datetime | None,
    with_rows: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show what changed between snapshots A and B (default: the newest): tables, their columns and properties, and
    how many files and rows.

    A snapshot is given by its id, or by a time at which it was the newest: 2026-03-02T04:05 (UTC unless it has an
    offset), 12h, 7d, yesterday.

    With --rows, also list each row that A lacks (+) and each that B lacks (-), whatever happened in between; a
    row that has changed is listed as both.
    """
    with reading_log(settings) as log:
        first, upto = snapshot_named(log, "A", first), snapshot_of(log, last, what="B")
        if with_rows and first > upto:
            raise InvalidRequestError(f"--rows needs the earlier snapshot first: diff {upto} {first} --rows")
        found = log.diff(first, upto)
        if as_json:
            for each in found:
                print_json(_plain(each))
        else:
            _print_differences(found)
        if with_rows:
            for name, rows in _rows(log, found, first, upto):
                _print_rows(name, rows, limit, as_json)


def _print_differences(found: list[ObjectDifference]) -> None:
    if found:
        print_table(["what", "name", "change", "files", "rows"], [_row(each) for each in found])
    else:
        click.echo("nothing has changed (the log's own settings are not compared)")


def _rows(log: CommitLog, found: Iterable[ObjectDifference], first: int, upto: int) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each table that are not the same."""
    for each in found:
        if not isinstance(each, TableDifference):
            continue
        if each.after is not None:
            yield _name(each.after), log.table(_name(each.after)).diff(first, upto)
        elif each.before is not None:
            name = _name(each.before)
            rows = log.table(name).scan(snapshot=first).to_arrow()
            yield name, rows.add_column(0, "change_type", [["delete"] * rows.num_rows])


def _print_rows(name: str, rows: pa.Table, limit: int, as_json: bool) -> None:
    shown = to_rows(rows.slice(0, limit))
    if as_json:
        for row in shown:
            kind, row_id = row.pop("change_type"), row.pop("rowid", None)
            print_json({"kind": "row", "table": name, "change_type": kind, "rowid": row_id, "row": row})
        return
    if not shown:
        return
    columns = [each for each in rows.schema.names if each not in ("change_type", "rowid")]
    click.secho(f"\n{name}", bold=True)
    print_table(["", *columns], [(_SIGNS[row["change_type"]], *(row[each] for each in columns)) for row in shown])
    if rows.num_rows > limit:
        click.echo(f"and {rows.num_rows - limit:,} more; --limit sets how many are shown")


@click.command("show")
@click.argument("snapshot", type=click.IntRange(0))
@json_option
@settings_options
def show_command(settings: Settings, snapshot: int, as_json: bool) -> None:
    """Show a snapshot: who made it, what was asked for, and what it changed."""
    with reading_log(settings) as log:
        story = log.show(snapshot)
    if as_json:
        print_json(_story_to_json(story))
        return
    for name, value in _story_lines(story):
        click.echo(f"{name:<10} {value}")
    if story.differences is None:
        click.echo("\nwhat it changed is no longer known: the snapshot before it has expired")
    else:
        click.echo()
        _print_differences(story.differences)


def _story_lines(story: SnapshotStory) -> Iterator[tuple[str, str]]:
    entry = story.entry
    yield "snapshot", f"{entry.snapshot_id}, outcome {entry.seq}, on snapshot {entry.base_snapshot_id}"
    yield "decided", entry.decided_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    for name, text in (("writer", entry.writer_id), ("author", entry.author), ("message", entry.message)):
        if text:
            yield name, one_line(text)
    yield "proposal", str(entry.proposal_id)
    for change in story.outcome.proposal.changes if story.outcome.proposal is not None else ():
        yield "change", describe_change(change)
    for each in story.outcome.resolutions:
        yield (
            "settled",
            f"{each.kind} in {each.object.schema}.{each.object.table}, row {each.object.row_key}: {each.action}",
        )


def _story_to_json(story: SnapshotStory) -> dict[str, Any]:
    from commitlog.ops.cli.outcomes import entry_to_json

    asked = story.outcome.proposal
    return {
        **entry_to_json(story.entry),
        "described": [] if asked is None else [describe_change(change) for change in asked.changes],
        "differences": None if story.differences is None else [_plain(each) for each in story.differences],
    }


def _plain(each: ObjectDifference) -> dict[str, Any]:
    names = {side: _shown(getattr(each, side)) for side in ("before", "after")}
    return {**asdict(each), **names, "what": list(each.what)}


def _shown(name: Named | None) -> str | None:
    return None if name is None else _name(name)


def _name(name: Named) -> str:
    return str(TableName(*name)) if name.schema else quote_part(name.name)


def _row(each: ObjectDifference) -> tuple[object, ...]:
    before, after = _shown(each.before), _shown(each.after)
    changes = list(each.what)
    if before is None or after is None:
        changes.insert(0, "created" if before is None else "dropped")
    elif before != after:
        changes.insert(0, f"was {before}")
    return each.kind, after or before, "; ".join(changes), *_counts(each)


def _counts(each: ObjectDifference) -> tuple[str, str]:
    if not isinstance(each, TableDifference):
        return "", ""
    files = f"+{each.files_added:,} -{each.files_removed:,}"
    return files, f"{each.rows_before:,} -> {each.rows_after:,} ({each.rows_after - each.rows_before:+,})"
