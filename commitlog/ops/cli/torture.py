"""commitlog bench torture: real faults, and whether every promise was kept."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import json_option, print_json, print_table, settings_options

WRONGS_SHOWN = 50


@click.command("torture", short_help="Inject faults into a whole service, and check that nothing is lost.")
@click.option("--faults", "-n", type=click.IntRange(1), default=50, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed that chooses the faults.")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Begin no more faults after this many seconds.",
)
@click.option(
    "--pause",
    "pause_s_max",
    type=click.FloatRange(0.2, 30),
    default=30.0,
    show_default=True,
    help="Longest pause, in seconds.",
)
@click.option(
    "--mostly",
    metavar="FAULT",
    multiple=True,
    help="Make every other fault one of this kind; can be repeated.",
)
@json_option
@settings_options
def torture_command(
    settings: Settings,
    faults: int,
    seed: int,
    seconds: float | None,
    pause_s_max: float,
    mostly: tuple[str, ...],
    as_json: bool,
) -> None:
    """Inject every fault that this machine allows into a whole service, and check that nothing was lost.

    Kafka, PostgreSQL, two machines and 16 writers run in a directory of their own. Processes are killed and paused, servers
    restarted, connections broken, disks filled (where a tmpfs can be mounted), checkpoints torn. Then the log is read from its
    beginning. Exits with 1 when anything is lost, missing, there twice, or not what its writer was told.
    """
    from commitlog.ops.torture.campaign import run_torture
    from commitlog.ops.torture.faults import FAULTS

    kinds = [fault.name for fault in FAULTS]
    for name in mostly:
        if name not in kinds:
            raise click.BadParameter(f"there is no fault {name!r}, but: {', '.join(kinds)}", param_hint="--mostly")
    signal.signal(signal.SIGTERM, _end)
    result = run_torture(
        settings,
        faults=faults,
        seed=seed,
        seconds=seconds,
        pause_s_max=pause_s_max,
        mostly=mostly,
        say=lambda line: click.echo(line, err=True),
    )
    if as_json:
        print_json(result.as_dict())
    else:
        print_table(
            ["fault", "times", "well again p50 s", "longest s"],
            result.recoveries(),
            title=f"seed {seed}: {len(result.suffered)} faults in {result.seconds:,.0f} s; on {result.cpus} CPUs, whose load "
            f"was {result.load_before} before; the core {result.core}",
        )
        said = ", ".join(f"{count:,} {verdict}" for verdict, count in result.verdicts.items())
        click.echo(f"{result.acknowledged:,} proposals acknowledged; verdicts: {said}; {result.snapshots:,} snapshots")
        click.echo(f"{result.answers:,} answers to writers, the longest wait {result.longest_wait_s:,.0f} s")
        click.echo(f"{result.deaf:,} consumers stopped delivering, and were replaced")
        for kind in result.left_out:
            click.echo(f"left out, as no disk could be mounted here: {kind}")
        click.echo(", ".join(f"{count} {kind}" for kind, count in result.counts.items()))
        for wrong in result.wrongs[:WRONGS_SHOWN]:
            click.echo(f"{wrong.kind}: {wrong.what}")
    sys.exit(0 if result.is_well else 1)


def _end(*_: object) -> NoReturn:
    click.echo("stopped by SIGTERM: there is no result", err=True)
    sys.exit(143)
