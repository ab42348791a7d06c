"""The command that lists the tables."""

from __future__ import annotations

from datetime import datetime

import click

from commitlog.client.reading.moments import snapshot_of
from commitlog.client.tables.names import TableName
from commitlog.config import Settings
from commitlog.ops.cli.ages import read_snapshot
from commitlog.ops.cli.options import json_option, print_json, print_table, reading_log, settings_options


@click.command("tables")
@click.option(
    "--at",
    type=read_snapshot,
    metavar="SNAPSHOT",
    help="List the tables as of a snapshot id, or of a time, such as 7d.",
)
@json_option
@settings_options
def tables_command(settings: Settings, at: int | datetime | None, as_json: bool) -> None:
    """List the tables, with their columns and number of data files."""
    with reading_log(settings) as log:
        snapshot_id = snapshot_of(log, at, what="--at")
        contents = log.contents()
        with contents.at_once():
            contents.check_snapshot(snapshot_id)
            tables, counts = contents.tables_at(snapshot_id), contents.file_counts_at(snapshot_id)
    found = [
        (str(TableName(each.schema_name, table.name)), table.columns, counts.get(table.table_id, 0))
        for each in tables
        for table in (each.definition,)
    ]
    for name, columns, files in found if as_json else ():
        shown = [{"name": column.name, "type": str(column.type)} for column in columns]
        print_json({"table": name, "columns": shown, "files": files})
    if as_json:
        return
    if not found:
        click.echo("there are no tables; `commitlog load TABLE FILE --create` makes one")
        return
    print_table(
        ["table", "files", "columns"],
        [
            (name, f"{files:,}", ", ".join(f"{each.name} {each.type}" for each in columns))
            for name, columns, files in found
        ],
    )
