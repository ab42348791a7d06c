"""`commitlog demo`."""

from __future__ import annotations

import sys

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import settings_options


@click.command("demo")
@click.option("--sites", is_flag=True, help="Another story: two sites write the same rows while they are cut off.")
@settings_options
def demo_command(settings: Settings, sites: bool) -> None:
    """Run the main job on this machine: concurrent writers, refusals, and engines that read the same rows."""
    if sites:
        from commitlog.ops.demo.sites import run_sites_demo

        sys.exit(run_sites_demo(settings))
    from commitlog.ops.demo.story import run_demo

    sys.exit(run_demo(settings))
