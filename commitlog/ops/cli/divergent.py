"""What links could not settle: the rows that are held back, and the commands below `replicate` that settle them."""

from __future__ import annotations

import json
from typing import Any

import click

from commitlog.config import Settings
from commitlog.errors import InvalidRequestError
from commitlog.ops.cli.options import json_option, print_json, print_table, reading_log, settings_options
from commitlog.sites.divergence import DivergentRow, divergent_row, divergent_rows, take_local, take_remote, write

SHOWN_LETTERS = 80


@click.command("divergent", short_help="List the rows that are held back.")
@json_option
@settings_options
def divergent_command(settings: Settings, as_json: bool) -> None:
    """List the rows that are held back because other rows do not let them stand. They are the same at every site."""
    with reading_log(settings) as log:
        found = divergent_rows(log)
    if as_json:
        for each in found:
            print_json(_as_json(each))
    elif not found:
        click.echo("no row is held back")
    else:
        columns = ("table", "key", "held back", "made by", "at", "for", "of")
        print_table(columns, [_line(each) for each in found])


@click.command("settle")
@click.argument("table")
@click.argument("key", metavar="KEY")
@click.argument("how", type=click.Choice(["take-local", "take-remote", "write"]))
@click.argument("row", required=False)
@json_option
@settings_options
def settle_command(settings: Settings, table: str, key: str, how: str, row: str | None, as_json: bool) -> None:
    """Settle a row that is held back, for all sites. TABLE is schema.table; KEY, a JSON object, names the row.

    take-local keeps the rows that stand and gives this one up. take-remote removes the rows in its way and lets
    this one stand. write replaces this row by ROW, a JSON object; if ROW has the key of a row that is in its way, it
    replaces both.
    """
    if (how == "write") is not (row is not None):
        raise InvalidRequestError("`write` needs a ROW; take-local and take-remote take none")
    with reading_log(settings) as log:
        divergent = divergent_row(log, table, _object(key, "KEY"))
        if how == "take-local":
            snapshot_id = take_local(log, divergent)
        elif how == "take-remote":
            snapshot_id = take_remote(log, divergent)
        else:
            snapshot_id = write(log, divergent, _object(row or "", "ROW"))
    if as_json:
        print_json({"snapshot_id": snapshot_id})
    else:
        click.echo(f"settled by snapshot {snapshot_id}; links bring it to the other sites")


class ReplicateGroup(click.Group):
    """The link itself, and beside it, by a name in the place of its options, the commands of what it could not settle."""

    def __init__(self, **told: Any) -> None:
        super().__init__(**told, invoke_without_command=True)
        self.add_command(divergent_command)
        self.add_command(settle_command)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The options are the link's alone: a command below takes none of them."""
        if args and args[0] in self.commands:
            return click.Group(self.name, commands=self.commands).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidRequestError(
            f'{what} must be a JSON object of columns, such as {{"id": 3}}, not {text[:SHOWN_LETTERS]}'
        )
    return value


def _line(row: DivergentRow) -> tuple[object, ...]:
    met = [json.dumps(each.row) if each.row is not None else "a row from before the window" for each in row.met]
    others = [*met, *(f"what it refers to in {table}" for table in row.missing)]
    return row.name, json.dumps(row.key), json.dumps(row.row), row.node, row.made_at, str(row.kind), "; ".join(others)


def _as_json(row: DivergentRow) -> dict[str, Any]:
    return {
        "schema": row.schema,
        "table": row.table,
        "key": row.key,
        "kind": str(row.kind),
        "row": row.row,
        "node": row.node,
        "made_at": row.made_at,
        "met": [{"key": each.key, "row": each.row, "node": each.node} for each in row.met],
        "missing": row.missing,
    }
