"""`commitlog demo`."""

from __future__ import annotations

import sys

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import settings_options


@click.command("demo")
@click.option(
    "--sites", is_flag=True, help="Run another demo: two sites write the same rows while cut off from each other."
)
@settings_options
def demo_command(settings: Settings, sites: bool) -> None:
    """Run a demo on this machine: concurrent writers, refusals, and several engines that read the same rows."""
    if sites:
        from commitlog.ops.demo.sites import run_sites_demo

        sys.exit(run_sites_demo(settings))
    from commitlog.ops.demo.story import run_demo

    sys.exit(run_demo(settings))
