"""What is kept of a log elsewhere: archive, backup and restore; and what may then be deleted from Kafka."""

from __future__ import annotations

import dataclasses

import click

from commitlog.client.outcomes.archive import archive, range_of
from commitlog.client.outcomes.archive_files import RANGE_SNAPSHOTS, ArchivedRange
from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.ops.cli.ages import read_age_ms
from commitlog.ops.cli.options import json_option, not_empty, print_json, settings_options, shown_progress

KEEP = "7d"


def _age_ms(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    return None if text is None else read_age_ms(text)


range_option = click.option(
    "--range",
    "range_snapshots",
    type=click.IntRange(1),
    metavar="N",
    help=f"Snapshots per file; an archive keeps the number it began with. [default: {RANGE_SNAPSHOTS}]",
)


@click.command("archive")
@click.option("--to", required=True, callback=not_empty, metavar="DIR", help="Folder or object store URL to write to.")
@range_option
@click.option("--trim", "trims", is_flag=True, help="Then delete from Kafka what is archived and no longer needed.")
@click.option(
    "--keep",
    callback=_age_ms,
    metavar="AGE",
    help=f"With --trim: keep outcomes younger than this, such as 12h or 30d. [default: {KEEP}]",
)
@json_option
@settings_options
def archive_command(
    settings: Settings, to: str, range_snapshots: int | None, trims: bool, keep: int | None, as_json: bool
) -> None:
    """Archive the log's closed ranges as Parquet files. Run again, it continues where it stopped.

    With --trim, archived outcomes are then deleted from Kafka: only whole ranges that the catalog, the newest
    checkpoint here, every group of subscribers and the relay have passed, and only after the archive was read back
    and its chain of hashes compared with the topic. See docs/retention.md.
    """
    if keep is not None and not trims:
        raise click.UsageError("--keep needs --trim")

    def told(made: ArchivedRange) -> None:
        if as_json:
            print_json(dataclasses.asdict(made))
        else:
            click.echo(f"{made.path}: {counted(made.outcomes, 'record')}")

    with shown_progress("archiving", hidden=as_json) as show:
        made = archive(
            settings,
            to,
            range_snapshots=range_snapshots,
            on_range=told,
            on_progress=lambda done, total: show("archiving", done, total),
        )
    if not made and not as_json:
        click.echo(
            f"nothing to archive: the next range of {range_snapshots or range_of(to):,} snapshots is not closed yet"
        )
    if trims:
        _trim(settings, to, read_age_ms(KEEP) if keep is None else keep, as_json)


def _trim(settings: Settings, to: str, keep_ms: int, as_json: bool) -> None:
    from commitlog.ops.maintenance.trimming import trim

    with shown_progress("checking the archive", hidden=as_json) as show:
        done = trim(
            settings, to, keep_ms=keep_ms, on_progress=lambda done, total: show("checking the archive", done, total)
        )
    if as_json:
        print_json({"first_seq": done.seq, "trimmed": done.outcomes, "held_by": done.held_by._asdict()})
    else:
        click.echo(
            f"{counted(done.outcomes, 'outcome')} deleted from Kafka, whose results now begin with outcome "
            f"{done.seq:,}; the next limit is {done.held_by.who}, at outcome {done.held_by.seq:,}"
        )


@click.command("backup")
@click.option(
    "--to",
    required=True,
    callback=not_empty,
    metavar="DIR",
    help="Folder or object store URL to write to; that of the archive.",
)
@range_option
@json_option
@settings_options
def backup_command(settings: Settings, to: str, range_snapshots: int | None, as_json: bool) -> None:
    """Back up the whole log as it is now: its archive, and what comes after the last closed range.

    The catalog needs no backup, as it can be rebuilt from the log. The data files are not copied. See
    docs/retention.md.
    """
    from commitlog.client.outcomes.archive import back_up
    from commitlog.ops.maintenance.verify_chain import noted

    with shown_progress("archiving", hidden=as_json) as show:
        at = back_up(settings, to, range_snapshots=range_snapshots, on_progress=show)
    if as_json:
        print_json({"seq": at.seq, "noted": noted(at)})
    else:
        click.echo(f"backed up to outcome {noted(at)}")


@click.command("restore")
@click.option(
    "--from",
    "source",
    required=True,
    callback=not_empty,
    metavar="DIR",
    help="Folder or URL that `commitlog backup` wrote to.",
)
@json_option
@settings_options
def restore_command(settings: Settings, source: str, as_json: bool) -> None:
    """Restore a log from a backup, into a broker that has none of its topics: the same outcomes at the same offsets.

    No process of the service may run meanwhile. Afterwards start `commitlog serve`, which builds the catalog in
    an empty database.
    """
    from commitlog.ops.maintenance.restoring import restore

    with shown_progress("restoring", hidden=as_json) as show:
        done = restore(settings, source, on_progress=show)
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        click.echo(f"restored up to outcome {done.seq:,}, snapshot {done.head_snapshot_id:,}")
        click.echo(
            "Before you start the service: groups of subscribers have no position in this broker, and begin after "
            f"their after_seq ({done.seq} or less), or at the log's beginning. Subscribers and streams that had "
            "read further must begin anew: see docs/retention.md"
        )
