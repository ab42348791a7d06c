"""commitlog manual: the pages that are printed from the tables that they show."""

from __future__ import annotations

import click

from commitlog.ops.manual import PAGES


@click.command("manual")
@click.argument("page", type=click.Choice(list(PAGES)), default="conflicts")
def manual_command(page: str) -> None:
    """Print what conflicts with what, or what is INVALID."""
    click.echo(PAGES[page](), nl=False)
