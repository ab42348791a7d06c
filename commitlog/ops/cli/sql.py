"""The commands that ask the lake a question in SQL, or tell another DuckDB client where it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import datetime
from io import TextIOWrapper
from itertools import count

import click

from commitlog.catalog.queries import Catalog
from commitlog.client.arguments import checked_text
from commitlog.client.reading.moments import newest_at
from commitlog.client.tables.names import TableName, quote_part
from commitlog.config import Settings
from commitlog.errors import InvalidRequestError
from commitlog.ops.cli.ages import read_snapshot
from commitlog.ops.cli.exact_values import exact_rows
from commitlog.ops.cli.options import cell_text, current_catalog, json_option, print_json, print_table, settings_options

_OF_ITS_OWN = re.compile(r"\n\s*Did you mean \"pg_.*", re.DOTALL)
_SPECIAL = re.compile(r"[\",\r\n]")
_SHOWN_MAX = 10
_WRITES = " To write, attach the lake with what `commitlog duckdb` prints."


@click.command("sql")
@click.argument("query")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with the column names in the first line.")
@click.option(
    "--at",
    type=read_snapshot,
    metavar="SNAPSHOT",
    help="Query the lake as of a snapshot id, or of a time, such as 7d or 2026-03-02.",
)
@settings_options
def sql_command(settings: Settings, query: str, as_json: bool, as_csv: bool, at: int | datetime | None) -> None:
    """Run QUERY with the stock DuckDB client. It sees everything committed before, and can only read."""
    from commitlog.client.reading.duckdb_client import open_lake

    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other: give only one of them")
    checked_text("QUERY", query)
    with current_catalog(settings) as catalog:
        snapshot_id = newest_at(catalog, "--at", at) if isinstance(at, datetime) else at
        if snapshot_id is not None:
            catalog.check_snapshot(snapshot_id)
        with open_lake(settings.reader_url or settings.database_url, snapshot_id) as connection:
            import duckdb

            try:
                answer = exact_rows(connection, query)
            except duckdb.CatalogException as error:
                raise InvalidRequestError(_not_there(str(error), catalog, snapshot_id)) from None
            except duckdb.Error as error:
                raise InvalidRequestError(
                    f"DuckDB says: {error}{_WRITES if 'read-only mode' in str(error) else ''}"
                ) from None
    if answer is None:
        raise click.UsageError("QUERY contains no statement: give one, such as 'SELECT 1'")
    columns, rows = answer
    if as_json:
        names = _told_apart(columns)
        for row in rows:
            print_json(dict(zip(names, row, strict=True)))
    elif as_csv:
        if isinstance(sys.stdout, TextIOWrapper):
            # Whatever the terminal shows: that is what programs take CSV for, `commitlog load` too.
            sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.writelines(csv_line(row) for row in [columns, *rows])
    else:
        print_table(columns, [["NULL" if each is None else each for each in row] for row in rows])


def csv_line(values: Sequence[object]) -> str:
    """A line of CSV, in which an empty text is quoted and NULL is not, as `commitlog load` tells them apart."""
    if list(values) == [None]:
        # An empty line would be no row at all.
        values = [""]
    return ",".join("" if each is None else _quoted(cell_text(each)) for each in values) + "\n"


def _quoted(text: str) -> str:
    if text and not _SPECIAL.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _told_apart(names: Sequence[str]) -> Sequence[str]:
    """The names, of which one that was there before has a number behind it, as DuckDB gives one to a column of a subquery."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        free = (each for each in numbered if each not in names and each not in found)
        found.append(next(free) if name in found else name)
    return found


def _not_there(said: str, catalog: Catalog, snapshot_id: int | None) -> str:
    """What DuckDB says of a name that it does not know: without tables of its own that may have been meant, but with ours."""
    told = _OF_ITS_OWN.sub("", said)
    at = catalog.head_snapshot_id() if snapshot_id is None else snapshot_id
    names = [
        quote_part(table) if schema == "main" else str(TableName(schema, table))
        for schema, table, _ in catalog.tables(at)
    ]
    shown = ", ".join(names[:_SHOWN_MAX]) + (", ..." if len(names) > _SHOWN_MAX else "")
    return f"DuckDB says: {told} (snapshot {at} has {f'the tables {shown}' if names else 'no tables'})"


@click.command("duckdb")
@click.option("--read-only", is_flag=True, help="Attach for reading only, even if the gateway runs.")
@json_option
@settings_options
def duckdb_command(settings: Settings, read_only: bool, as_json: bool) -> None:
    """Print the SQL that attaches the lake in any DuckDB client: duckdb -cmd "$(commitlog duckdb)".

    If the gateway runs on this machine, the client can write; otherwise, and with --read-only, it can only read.
    The SQL contains no password. Where `commitlog up` runs, it names files that hold the passwords of a reader's and
    a writer's login; elsewhere COMMITLOG_WRITER_URL and COMMITLOG_READER_URL name the logins, and PGPASSWORD or
    ~/.pgpass holds the password.
    """
    from commitlog.catalog.connecting import catalog_url
    from commitlog.client.reading.duckdb_client import attach_statement
    from commitlog.ops.service.gateway import running_gateway, through_gateway

    gateway = None if read_only else running_gateway(settings)
    if gateway is None:
        statement = attach_statement(settings.reader_url or catalog_url(settings))
        if not read_only:
            click.echo(
                "no gateway runs on this machine, so this attaches the lake for reading only; `commitlog gateway` "
                "runs one",
                err=True,
            )
    else:
        statement = attach_statement(through_gateway(settings, gateway), may_write=True)
    if as_json:
        print_json({"attach": statement})
    else:
        click.echo(statement)
    if settings.reader_url is None:
        click.echo(
            "there is no login for readers here, so this uses the catalog's own. Create one that is a member of "
            "commitlog_reader, and name it in COMMITLOG_READER_URL",
            err=True,
        )
