"""commitlog manual: the page that is printed from the conflict matrix."""

from __future__ import annotations

import click

from commitlog.ops.manual import conflict_page


@click.command("manual")
def manual_command() -> None:
    """Print what conflicts with what."""
    click.echo(conflict_page(), nl=False)
