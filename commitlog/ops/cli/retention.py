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
    help=f"Snapshots in a file; an archive keeps the number it began with. [default: {RANGE_SNAPSHOTS}]",
)


@click.command("archive")
@click.option("--to", required=True, callback=not_empty, metavar="DIR", help="A folder, or an object store's URL.")
@range_option
@click.option(
    "--trim", "trims", is_flag=True, help="Then delete from Kafka what is archived and needed by nobody known."
)
@click.option(
    "--keep",
    callback=_age_ms,
    metavar="AGE",
    help=f"With --trim: younger outcomes stay, such as 12h, 30d. [default: {KEEP}]",
)
@json_option
@settings_options
def archive_command(
    settings: Settings, to: str, range_snapshots: int | None, trims: bool, keep: int | None, as_json: bool
) -> None:
    """Write the log's closed ranges as Parquet files. Started again, it goes on where it was.

    With --trim the results begin from then on with the end of an archived range: at most where the catalog, the newest
    checkpoint here, every group of subscribers and the relay are, and only after the archive was read back and its chain of
    hashes compared with the topic. See docs/retention.md.
    """
    if keep is not None and not trims:
        raise click.UsageError("--keep goes with --trim")

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
        click.echo(f"nothing to add: the next range of {range_snapshots or range_of(to):,} snapshots is not closed yet")
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
            f"{counted(done.outcomes, 'outcome')} deleted from Kafka, whose results begin with outcome {done.seq:,}; "
            f"the next ones wait for {done.held_by.who}, at outcome {done.held_by.seq:,}"
        )


@click.command("backup")
@click.option(
    "--to",
    required=True,
    callback=not_empty,
    metavar="DIR",
    help="A folder, or an object store's URL; that of the archive.",
)
@range_option
@json_option
@settings_options
def backup_command(settings: Settings, to: str, range_snapshots: int | None, as_json: bool) -> None:
    """Write all that the log holds up to now: its archive, and what comes after the last closed range.

    The catalog is made anew from it, so it needs no backup. The data files are not copied. See docs/retention.md.
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
    "--from", "source", required=True, callback=not_empty, metavar="DIR", help="What `commitlog backup` has written."
)
@json_option
@settings_options
def restore_command(settings: Settings, source: str, as_json: bool) -> None:
    """Make a log again, in a broker that has nothing of it, from a backup: the same outcomes at the same offsets.

    Nothing of the service may run meanwhile. Then `commitlog serve` goes on, and makes the catalog in an empty database.
    """
    from commitlog.ops.maintenance.restoring import restore

    with shown_progress("restoring", hidden=as_json) as show:
        done = restore(settings, source, on_progress=show)
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        click.echo(f"restored up to outcome {done.seq:,}, snapshot {done.head_snapshot_id:,}")
        click.echo(
            "Before it serves: groups of subscribers have no position here, and begin with after_seq, "
            f"of {done.seq} or less, or at the log's beginning. Subscribers and streams that are ahead of it "
            "begin anew: docs/retention.md"
        )
