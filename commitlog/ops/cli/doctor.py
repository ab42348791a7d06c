"""Commands that look after a lake: doctor compares and tells, clean removes what nobody needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.ops.cli.ages import AGE_MS, read_age_ms
from commitlog.ops.cli.options import (
    json_option,
    obeyed_by_none,
    print_json,
    print_table,
    settings_options,
    shown_progress,
)

if TYPE_CHECKING:
    from commitlog.ops.maintenance.doctor import CheckResult

SHOWN_LETTERS = 70


AGE_MS_MIN = AGE_MS["h"]
"""Younger files may be those of a writer that is at work."""


def age_ms(_: click.Context, __: click.Parameter, text: str) -> int:
    """An age in words, in milliseconds."""
    age = read_age_ms(text)
    if age < AGE_MS_MIN:
        raise click.BadParameter(
            f"{text} is too short: writers may be about to propose files that young; give at least 1h"
        )
    return age


@click.command("doctor")
@click.option("--no-storage", is_flag=True, help="Do not check the data files.")
@click.option(
    "--footers", type=click.IntRange(0), default=200, show_default=True, help="Check the footers of this many files."
)
@json_option
@settings_options
def doctor_command(settings: Settings, no_storage: bool, footers: int, as_json: bool) -> None:
    """Check the catalog against the log and the data files, and say what to do about each problem.

    Exits with 0 when no problem is found, and with 1 otherwise.
    """
    from commitlog.ops.maintenance.doctor import checks_of, examine

    results: list[CheckResult] = []
    count = len(checks_of(storage=not no_storage))
    try:
        with shown_progress("examining", hidden=as_json) as show:

            def reading(seq: int, applied_seq: int) -> None:
                show(f"reading the log, outcome {seq:,} of {applied_seq:,}", 0, count)

            for result in examine(settings, footers=footers, storage=not no_storage, on_progress=reading):
                results.append(result)
                show(f"examined {result.check}", len(results), count)
                if as_json:
                    print_json(result.as_dict())
    finally:
        # What was found before a server went away may be why.
        if results and not as_json:
            _print_results(results)
    sys.exit(0 if all(result.is_well for result in results) else 1)


def _print_results(results: Sequence[CheckResult]) -> None:
    print_table(["check", "", "found"], [(result.check, _state(result), _first(result)) for result in results])
    for result in results:
        for finding in result.findings:
            click.echo(obeyed_by_none(f"\n{result.check}: {finding.what}\n  -> {finding.advice}"))


@click.command("clean")
@click.option(
    "--older-than",
    default="7d",
    show_default=True,
    metavar="AGE",
    callback=age_ms,
    help="Remove only files older than this, such as 90m, 12h, 7d or 2w.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed, and why.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--include-foreign",
    is_flag=True,
    help="Also remove files that commitlog's writers did not make, if a refused proposal named them or their "
    "snapshots have expired.",
)
@json_option
@settings_options
def clean_command(
    settings: Settings, older_than: int, dry_run: bool, yes: bool, include_foreign: bool, as_json: bool
) -> None:
    """Remove data files that are no longer needed: of refused proposals, of expired snapshots, or never proposed.

    Removes only files that commitlog's writers made, and no file that is outside the data path or is named by a
    snapshot or an undecided proposal. The age, at least 1h, must be longer than any writer takes from writing a file
    to proposing it.
    """
    from commitlog.catalog.connecting import told_plainly
    from commitlog.ops.maintenance.clean import Cleaning

    if as_json and not (dry_run or yes):
        raise click.UsageError("with --json nobody can be asked for confirmation: add --dry-run or --yes")
    with told_plainly(settings.database_url), ExitStack() as held:
        with shown_progress("looking", hidden=as_json) as show:
            cleaning = held.enter_context(
                Cleaning(settings, older_than_ms=older_than, include_foreign=include_foreign, on_progress=show)
            )
        found = cleaning.removable()
        if not as_json:
            if found:
                print_table(["bytes", "file", "why"], [(each.size_bytes, each.place, each.why) for each in found])
            click.echo(
                f"{counted(len(found), 'file')}, {sum(each.size_bytes or 0 for each in found):,} bytes below {cleaning.root}"
            )
            for why, count in cleaning.kept().items():
                click.echo(f"{counted(count, 'more old file')} kept: {why}")
        foreign = [each for each in found if each.is_foreign]
        ours = [each for each in found if not each.is_foreign]
        chosen = []
        for files, question in (
            (ours, "Remove those made by commitlog's writers?" if foreign else "Remove them?"),
            (foreign, f"Remove the {counted(len(foreign), 'file')} that others made?"),
        ):
            if files and not dry_run and (yes or click.confirm(question)):
                chosen += files
        if dry_run:
            for each in found if as_json else ():
                print_json({**each.as_dict(), "removed": False})
            return
        removed = 0
        try:
            with shown_progress("removing", hidden=as_json or not chosen) as show:
                for removed, each in enumerate(cleaning.remove(chosen) if chosen else (), start=1):
                    show("removing files", removed, len(chosen))
                    if as_json:
                        print_json({**each.as_dict(), "removed": True})
        finally:
            # Also of a run that is interrupted: the next one goes on.
            if not as_json:
                click.echo(f"{removed} removed")


def _state(result: CheckResult) -> str:
    if result.not_checked is not None:
        return "not checked"
    if not result.is_well:
        return "finding"
    return "note" if result.findings else "ok"


def _first(result: CheckResult) -> str:
    """The beginning of what was found; all of it comes below the table."""
    text = result.not_checked or "; ".join(finding.what for finding in result.findings)
    return text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 3] + "..."
