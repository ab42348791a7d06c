"""commitlog manual: the pages that are printed from the tables that they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from commitlog.ops.cli.commands_page import commands_page
from commitlog.ops.manual import conflict_page, errors_page, invalid_page
from commitlog.ops.records_page import records_page


def _metrics_page() -> str:
    # Needs the extra of those who are looked at by Prometheus; the other pages do not.
    from commitlog.ops.metrics_page import metrics_page

    return metrics_page()


_PAGES: Mapping[str, Callable[[], str]] = {
    "conflicts": conflict_page,
    "invalid": invalid_page,
    "errors": errors_page,
    "records": records_page,
    "commands": commands_page,
    "metrics": _metrics_page,
}


@click.command("manual")
@click.argument("page", type=click.Choice(list(_PAGES)), default="conflicts")
def manual_command(page: str) -> None:
    """Print a page of the manual: conflicts, INVALID codes, errors, records, commands or metrics."""
    click.echo(_PAGES[page](), nl=False)
