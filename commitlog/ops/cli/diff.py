"""The command that compares two snapshots."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import current_catalog, json_option, print_json, print_table, settings_options

if TYPE_CHECKING:
    from commitlog.catalog.snapshot_diff import Named, ObjectDifference


@click.command("diff")
@click.argument("first", type=click.IntRange(0), metavar="A")
@click.argument("last", type=click.IntRange(0), metavar="[B]", required=False)
@json_option
@settings_options
def diff_command(settings: Settings, first: int, last: int | None, as_json: bool) -> None:
    """Show what lies between snapshot A and snapshot B (else the newest): tables, columns, files and rows, by counts."""
    from commitlog.catalog.snapshot_diff import differences

    with current_catalog(settings) as catalog:
        found = differences(catalog, first, catalog.head_snapshot_id() if last is None else last)
    if as_json:
        for each in found:
            print_json(_plain(each))
        return
    print_table(["what", "name", "change", "files", "rows"], [_row(each) for each in found])
    if not found:
        click.echo("nothing has changed")


def _plain(each: ObjectDifference) -> dict[str, Any]:
    names = {side: _shown(getattr(each, side)) for side in ("before", "after")}
    return {**asdict(each), **names, "what": list(each.what)}


def _shown(name: Named | None) -> str | None:
    from commitlog.client.tables.names import TableName, quote_part

    if name is None:
        return None
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
    from commitlog.catalog.snapshot_diff import TableDifference

    if not isinstance(each, TableDifference):
        return "", ""
    files = f"+{each.files_added:,} -{each.files_removed:,}"
    return files, f"{each.rows_before:,} -> {each.rows_after:,} ({each.rows_after - each.rows_before:+,})"
