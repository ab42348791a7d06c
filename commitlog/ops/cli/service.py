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
@click.option("--adopt", "source", metavar="SOURCE", help="Take over a DuckLake: a PostgreSQL URL, or a catalog file.")
@click.option("--dry-run", is_flag=True, help="With --adopt: only tell what would be taken over.")
@json_option
@settings_options
def init_command(settings: Settings, source: str | None, dry_run: bool, as_json: bool) -> None:
    """Create the log's topics, its first record and its catalog; nothing changes where they are there.

    With --adopt the history of a lake that the stock DuckLake client made becomes the log's first outcomes. Its data files
    stay where they are and are not changed; stop writing to it before.
    """
    from commitlog.domain.model.ids import format_id
    from commitlog.domain.model.json_values import to_json
    from commitlog.log.durability import weaknesses
    from commitlog.log.genesis import require_genesis
    from commitlog.ops.service.serve import prepare

    if dry_run and source is None:
        raise click.UsageError("--dry-run goes with --adopt")
    if source is not None:
        settings = _adopted(settings, source, dry_run, as_json)
        if dry_run:
            return
    prepare(settings)
    genesis = require_genesis(settings)
    for weakness in weaknesses(settings, genesis.partitions):
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
@click.option(
    "--standby", is_flag=True, help="Another machine serves: wait until it does not any more, then take over."
)
@settings_options
def serve_command(settings: Settings, standby: bool) -> None:
    """Run sequencer, projector, checkpointer, gateway and web page, and start again what ends, until Ctrl-C or SIGTERM.

    Where registry_url is set it runs a relay too, and a link for each profile of links_from.

    A log that is not there is created. Logs are JSON on standard error. Without --standby the sequencer takes the place of one
    that serves elsewhere as soon as it has loaded the log; the projector waits for its turn either way.
    """
    from commitlog.ops.service.serve import serve

    log_as_json("serve")
    sys.exit(serve(settings, standby=standby))


@click.command("sequencer")
@click.option("--standby", is_flag=True, help="Wait until the active sequencer is not heard any more, then take over.")
@click.option(
    "--handover", is_flag=True, help="Take the active one's place as soon as all is loaded, as without an option."
)
@settings_options
def sequencer_command(settings: Settings, standby: bool, handover: bool) -> None:
    """Decide proposals. A second sequencer takes the first one's place as soon as it has loaded the log, which no writer
    notices; unless it stands by.

    The exit code is 75 when another one has taken over: start it again with --standby. On SIGTERM it tells what it has
    decided, and a standby takes over at once.
    """
    from commitlog.log.garbage import OwnGarbage
    from commitlog.log.sequencer import run_sequencer
    from commitlog.ops.service.traces import traced
    from commitlog.ops.service.watched import WatchedSequencer, told_about

    if standby and handover:
        raise click.UsageError("--standby waits for the active sequencer to end, --handover takes its place: give one")
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
    """Write the decided outcomes into the catalog."""
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


@click.command("checkpointer")
@click.option("--once", is_flag=True, help="Write one checkpoint of the log as it is now, and end.")
@click.option(
    "--from-archive", is_flag=True, help="Write the one that a start needs after results were trimmed, and end."
)
@settings_options
def checkpointer_command(settings: Settings, once: bool, from_archive: bool) -> None:
    """Save the sequencer's state from time to time, and trim the proposals that have been decided."""
    if from_archive:
        from commitlog.ops.maintenance.trimming import checkpoint_from_archive

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
