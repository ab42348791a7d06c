"""`commitlog demo`."""

from __future__ import annotations

import sys

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import settings_options


@click.command("demo")
@settings_options
def demo_command(settings: Settings) -> None:
    """Run the main job on this machine: concurrent writers, refusals, and engines that read the same rows."""
    from commitlog.ops.demo.story import run_demo

    sys.exit(run_demo(settings))
