"""The command that appends files of rows to a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

import click

from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.errors import InvalidRequestError, TableNotFoundError
from commitlog.ops.cli.options import json_option, print_json, settings_options, shown_progress

_STDIN = Path("-")


@click.command("load")
@click.argument("table")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--format", "stdin_format", type=click.Choice(["csv", "tsv", "jsonl"]), default="csv", show_default=True,
    help="Format of standard input.",
)  # fmt: skip
@click.option(
    "--create", is_flag=True, help="Create the table, with the columns of the first file, if it does not exist."
)
@click.option(
    "--partition-by",
    multiple=True,
    metavar="KEY",
    help="With --create: partition by a column, or by a transform such as month(day).",
)
@click.option(
    "--key",
    metavar="TEXT",
    help="Name of this load, such as nightly:2026-03-02. Repeating a load with the same key commits nothing.",
)
@click.option("--message", metavar="TEXT", help="Message for the history.")
@click.option(
    "--null",
    "nulls",
    multiple=True,
    default=[""],
    metavar="TEXT",
    help="Text that means NULL in CSV, such as NA; can be repeated. Default: an empty field.",
)
@click.option("--delimiter", metavar="CHAR", help="Character between CSV columns. Default: a comma, or a tab in .tsv.")
@click.option(
    "--text", "texts", multiple=True, metavar="COLUMN",
    help="With --create: make this column text, such as codes with leading zeros; can be repeated.",
)  # fmt: skip
@json_option
@settings_options
def load_command(
    settings: Settings,
    table: str,
    files: tuple[Path, ...],
    stdin_format: str,
    create: bool,
    partition_by: tuple[str, ...],
    key: str | None,
    message: str | None,
    nulls: tuple[str, ...],
    delimiter: str | None,
    texts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Append the rows of each FILE (CSV with a header, Parquet or JSON lines) to TABLE, all in one commit.

    A FILE of - is standard input. It is copied to a temporary file first, as its columns are read before its
    rows.

    Exits with 3 when the load was refused, and with 4 when its outcome is unknown; with --key it can then be
    repeated safely.
    """
    from commitlog.client import CommitLog
    from commitlog.client.tables.schemas import columns_from
    from commitlog.ops.cli.proposals import submitted_to_json
    from commitlog.ops.row_files import RowFiles, TextForm

    if partition_by and not create:
        raise InvalidRequestError("--partition-by applies only to a new table: add --create")
    with (
        _without_stdin(files, stdin_format) as paths,
        CommitLog.connect(settings=settings) as log,
        shown_progress("load", hidden=as_json) as show,
    ):
        try:
            definition = log.table(table).definition
        except TableNotFoundError as error:
            if not create:
                raise TableNotFoundError(error.table, remedy="--create creates it", meant=error.meant) from None
            definition = None
        done = {path: number for number, path in enumerate(paths)}
        rows = RowFiles(
            paths,
            definition,
            TextForm(nulls, _delimiter(delimiter), texts),
            {path: "standard input" for path, given in zip(paths, files, strict=True) if given == _STDIN},
            lambda path, count: show(f"{path.name}: {counted(count, 'row')}", done[path], len(files)),
        )
        outcome = log.append(table, rows.reader(), create=create, partition_by=partition_by, key=key, message=message)
        show(counted(rows.row_count, "row"), len(files), len(files))
    if as_json:
        answer = None if outcome is None else submitted_to_json(outcome)
        print_json({"table": table, "rows": rows.row_count, "outcome": answer})
    elif outcome is None:
        click.echo("no rows: nothing to commit")
    elif outcome.is_repeat:
        click.echo(f"already loaded, as snapshot {outcome.snapshot_id}: nothing to do")
    else:
        click.echo(f"{counted(rows.row_count, 'row')} into {table}: snapshot {outcome.snapshot_id}")
        if definition is None:
            columns = ", ".join(f"{each.name} {each.type}" for each in columns_from(rows.schema))
            click.echo(f"created with the columns {columns}")


def _delimiter(given: str | None) -> str | None:
    found = {"\\t": "\t", "tab": "\t"}.get(given, given) if given is not None else None
    if found is not None and not (len(found) == 1 and found.isascii()):
        raise InvalidRequestError(f"--delimiter must be one ASCII character, such as ';' or a tab, not {given!r}")
    return found


@contextmanager
def _without_stdin(files: tuple[Path, ...], stdin_format: str) -> Iterator[tuple[Path, ...]]:
    """The files; a temporary one in the place of standard input."""
    if files.count(_STDIN) > 1:
        raise InvalidRequestError("standard input (-) can be given only once")
    if _STDIN not in files:
        yield files
        return
    with TemporaryDirectory() as folder:
        kept = Path(folder) / f"stdin.{stdin_format}"
        with kept.open("wb") as file:
            copyfileobj(sys.stdin.buffer, file)
        yield tuple(kept if path == _STDIN else path for path in files)
