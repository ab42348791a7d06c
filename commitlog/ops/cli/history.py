"""Commands that show the log: its history, and what comes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from commitlog.client import CommitLog
from commitlog.client.outcomes.describing import describe_changes
from commitlog.config import Settings
from commitlog.domain.model import Outcome
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.records.outcome_json import outcome_to_json
from commitlog.ops.cli.options import current_catalog, json_option, print_json, print_table, settings_options


@click.command("log")
@click.option("--limit", "-n", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@click.option("--before", "before_seq", type=int, metavar="SEQ", help="Only outcomes before this one.")
@json_option
@settings_options
def log_command(settings: Settings, limit: int, before_seq: int | None, as_json: bool) -> None:
    """Show the newest outcomes: who asked for what, when, and what became of it."""
    with current_catalog(settings) as catalog:
        rows = catalog.history(limit=limit, before_seq=before_seq)
    if as_json:
        for row in rows:
            print_json(row)
        return
    columns = ["seq", "snapshot", "time (UTC)", "writer", "verdict", "what"]
    print_table(columns, [_history_row(row) for row in rows])
    if not rows:
        click.echo("nothing has been decided yet")


def _history_row(row: dict[str, Any]) -> tuple[object, ...]:
    decided_at = row["decided_at"].astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    what = row["message"] or (row["change_kinds"] or "").replace("_", " ").lower()
    if row["reason"]:
        what = f"{row['reason']}: {row['detail']}"
    return row["seq"], row["snapshot_id"], decided_at, row["writer_id"], row["verdict"], what


@click.command("tail")
@click.option(
    "--after",
    "after_seq",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Begin after it (0: at the beginning); else with what comes.",
)
@click.option("--no-follow", is_flag=True, help="End where the log ends now.")
@json_option
@settings_options
def tail_command(settings: Settings, after_seq: int | None, no_follow: bool, as_json: bool) -> None:
    """Follow the outcomes as they are decided, until Ctrl-C."""
    with CommitLog.connect(settings=settings) as log:
        start = log.last_seq() if after_seq is None else after_seq
        for outcome in log.subscribe(start, follow=not no_follow):
            if as_json:
                print_json(outcome_to_json(outcome))
            else:
                click.echo(_tail_line(outcome))


def _tail_line(outcome: Outcome) -> str:
    time = datetime.fromtimestamp(outcome.decided_at_ms / 1000, UTC).strftime("%H:%M:%S")
    if outcome.reason is not None:
        end = f"{outcome.reason.value}: {outcome.detail}"
    elif outcome.proposal is not None:
        end = describe_changes(outcome.proposal.changes) if outcome.proposal.changes else "open writer"
    else:
        end = "" if outcome.proposal_id is None else format_id(outcome.proposal_id)
    place = "" if outcome.snapshot_id is None else f"snapshot {outcome.snapshot_id}"
    return f"{time}  {outcome.seq:>8}  {outcome.verdict.value:<9}  {place:<16}  {outcome.writer_id or '?'}  {end}"
