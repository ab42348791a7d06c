"""Commands that run the service, all of it or one process."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict

import click

from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.ops.cli.options import json_option, print_json, settings_options, shown_progress
from commitlog.ops.service.json_logs import log_as_json
from commitlog.ops.service.keep_trying import Kept, stopped_by_signal

NICE_OF_READERS = 5
"""Where processors are scarce, a decision comes before showing an older one."""


@click.command("init")
@click.option(
    "--adopt", "source", metavar="SOURCE", help="Take over an existing DuckLake: a PostgreSQL URL or a catalog file."
)
@click.option("--dry-run", is_flag=True, help="With --adopt: only show what would be taken over.")
@json_option
@settings_options
def init_command(settings: Settings, source: str | None, dry_run: bool, as_json: bool) -> None:
    """Create the log's topics, its first record and its catalog. What exists already stays as it is.

    With --adopt, the history of a lake made by the stock DuckLake client becomes the log's first outcomes. The
    lake's data files stay where they are, unchanged. Stop all writers to that lake first.
    """
    from commitlog.domain.model.ids import format_id
    from commitlog.domain.model.json_values import to_json
    from commitlog.log.durability import weaknesses
    from commitlog.log.genesis import require_genesis
    from commitlog.ops.service.serve import prepare

    if dry_run and source is None:
        raise click.UsageError("--dry-run needs --adopt")
    if source is not None:
        settings = _adopted(settings, source, dry_run, as_json)
        if dry_run:
            return
    prepare(settings)
    genesis = require_genesis(settings)
    for weakness in weaknesses(settings, genesis):
        click.echo(f"note: {weakness.what}; {weakness.advice}", err=True)
    if as_json:
        print_json({"log": settings.log, **to_json(genesis)})
    else:
        click.echo(
            f"log {settings.log} ({format_id(genesis.log_id)}) with {counted(genesis.partitions, 'partition')} is ready; "
            f"its data files are below {genesis.data_path}"
        )


def _adopted(settings: Settings, source: str, dry_run: bool, as_json: bool) -> Settings:
    """Take a lake over, and tell what that came to."""
    from commitlog.ops.maintenance.adopt import adopt

    with shown_progress("adopting", hidden=as_json) as show:
        settings, adoption = adopt(
            settings,
            source,
            dry_run=dry_run,
            on_progress=lambda told: show(f"{told.step} snapshots", told.snapshot_id, told.head_snapshot_id),
        )
    counts = adoption.counts
    if as_json:
        print_json({"adopted": not dry_run, **asdict(adoption)})
        return settings
    click.echo(
        f"{'would take over' if dry_run else 'took over'} snapshots {adoption.oldest_snapshot_id} to "
        f"{adoption.head_snapshot_id} of the lake at {adoption.data_path}: {counted(counts.tables, 'table')}, "
        f"{counted(counts.files, 'file')} "
        f"({counts.files_written} written beside the lake's own), {counted(counts.rows, 'row')}"
    )
    for lost in adoption.left_behind:
        click.echo(f"left behind: {lost}")
    return settings


@click.command("serve")
@click.option("--standby", is_flag=True, help="Wait while another machine serves, and take over when it stops.")
@settings_options
def serve_command(settings: Settings, standby: bool) -> None:
    """Run the sequencer, projector, checkpointer, gateway, carrier and web page, restarting any that ends, until Ctrl-C
    or SIGTERM.

    If registry_url is set, a relay runs too, as does a link for each profile in links_from.

    Creates the log if it does not exist. Logs go to standard error as JSON. Without --standby, the sequencer
    takes over from one that runs elsewhere as soon as it has loaded the log; the projector waits for its turn either
    way.
    """
    from commitlog.ops.service.serve import serve

    log_as_json("serve")
    sys.exit(serve(settings, standby=standby))


@click.command("sequencer")
@click.option(
    "--standby", is_flag=True, help="Wait while another sequencer is active, and take over when its heartbeats stop."
)
@click.option(
    "--handover", is_flag=True, help="Take over from the active sequencer as soon as the log is loaded (the default)."
)
@settings_options
def sequencer_command(settings: Settings, standby: bool, handover: bool) -> None:
    """Run a sequencer, which decides proposals. If another one is active, this one takes over as soon as it has
    loaded the log, unnoticed by writers; with --standby it waits instead.

    Exits with 75 when another sequencer has taken over: start it again with --standby. On SIGTERM it sends the
    remaining receipts, and a standby takes over at once.
    """
    from commitlog.log.garbage import OwnGarbage
    from commitlog.log.sequencer import run_sequencer
    from commitlog.ops.service.traces import traced
    from commitlog.ops.service.watched import WatchedSequencer, told_about

    if standby and handover:
        raise click.UsageError(
            "--standby and --handover exclude each other: one waits for the active sequencer to "
            "stop, the other takes over from it"
        )
    log_as_json("sequencer")
    watched = WatchedSequencer(settings)
    with (
        stopped_by_signal() as stop,
        Kept("sequencer", settings, stop) as kept,
        traced("sequencer") as is_traced,
        told_about(settings, watched),
    ):
        sys.exit(
            kept.run(
                lambda: run_sequencer(
                    settings,
                    standby=standby,
                    stop=stop,
                    garbage=OwnGarbage(),
                    on_made=watched.is_made,
                    on_doubt=kept.waits,
                    traced=is_traced,
                )
            )
            or 0
        )


@click.command("projector")
@settings_options
def projector_command(settings: Settings) -> None:
    """Run a projector, which writes decided outcomes into the catalog."""
    from commitlog.catalog.projector import Projector
    from commitlog.log.codec import decode_statistics
    from commitlog.ops.service.traces import traced
    from commitlog.ops.service.watched import WatchedProjector, told_about

    log_as_json("projector")
    os.nice(NICE_OF_READERS)
    with (
        stopped_by_signal() as stop,
        Kept("projector", settings, stop) as kept,
        traced("projector") as is_traced,
    ):
        projector = Projector(
            settings,
            decode_statistics=decode_statistics,
            on_batch=lambda _: kept.is_well(),
            on_waiting=kept.waits,
            traced=is_traced,
        )
        with told_about(settings, WatchedProjector(settings, projector)):
            kept.run(lambda: projector.run(stop))


@click.command("carrier")
@settings_options
def carrier_command(settings: Settings) -> None:
    """Run a carrier, by which programs of this machine with few proposals at a time propose together.

    Programs find it by the file of its socket, carrier_socket. Without one they propose by themselves, which costs the
    broker more.
    """
    from commitlog.log.carrier import Carrier
    from commitlog.ops.service.watched import WatchedCarrier, told_about

    log_as_json("carrier")
    watched = WatchedCarrier()
    with stopped_by_signal() as stop, Kept("carrier", settings, stop) as kept, told_about(settings, watched):

        def carry() -> None:
            carrier = Carrier(settings)
            watched.is_made(carrier)
            carrier.run(stop)

        kept.run(carry)


@click.command("checkpointer")
@click.option("--once", is_flag=True, help="Write one checkpoint of the log as it is now, and exit.")
@click.option(
    "--from-archive",
    is_flag=True,
    help="Write the checkpoint that a sequencer needs to start once results have been trimmed, and exit.",
)
@settings_options
def checkpointer_command(settings: Settings, once: bool, from_archive: bool) -> None:
    """Run a checkpointer, which regularly saves the sequencer's state and trims decided proposals from Kafka."""
    if from_archive:
        from commitlog.ops.service.archived_start import checkpoint_from_archive

        click.echo(str(checkpoint_from_archive(settings)))
        return
    from commitlog.log.checkpoint import Checkpointer, run_checkpointer
    from commitlog.ops.service.watched import WatchedCheckpointer, told_about

    log_as_json("checkpointer")
    os.nice(NICE_OF_READERS)
    with stopped_by_signal() as stop, Kept("checkpointer", settings, stop) as kept:
        if not once:
            watched = WatchedCheckpointer()
            with told_about(settings, watched):
                kept.run(lambda: run_checkpointer(settings, stop=stop, on_made=watched.is_made))
            return
        checkpointer = Checkpointer(settings)
        path = checkpointer.checkpoint_now()
        checkpointer.close()
        click.echo("nothing to save: the log is empty" if path is None else str(path))
