"""commitlog config: which settings there are, and what they are here."""

from __future__ import annotations

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import json_option, print_json, print_table, settings_options


@click.group("config")
def config_command() -> None:
    """Show the settings in effect here, or a reference of all settings."""


@config_command.command("show", short_help="Show each value, and where it comes from.")
@json_option
@settings_options
def show_command(settings: Settings, as_json: bool) -> None:
    """Show each setting's value and where it comes from; passwords and keys are masked. No server is contacted."""
    if as_json:
        for name, value, source in settings.shown():
            print_json({"setting": name, "value": value, "source": source})
        return
    print_table(["setting", "value", "from"], settings.shown())


@config_command.command("reference", short_help="Print the reference page of all settings.")
def reference_command() -> None:
    """Print the reference page of all settings, with their variables, defaults and meanings, in Markdown."""
    from commitlog.ops.settings_page import settings_page

    click.echo(settings_page(), nl=False)
