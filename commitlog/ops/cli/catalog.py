"""commitlog catalog: the catalog as a whole, made anew, brought up to a version, or handed out as a frozen lake."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.ops.cli.options import (
    current_catalog,
    json_option,
    not_empty,
    print_json,
    settings_options,
    shown_progress,
)

DATABASE_TIMEOUT_S = 10.0


@click.group("catalog")
def catalog_command() -> None:
    """Rebuild the catalog, migrate it, or export it."""


@catalog_command.command("rebuild", short_help="Rebuild the catalog from the log.")
@click.option("--restart", is_flag=True, help="Discard what an interrupted rebuild left, and start over.")
@json_option
@settings_options
def rebuild_command(settings: Settings, restart: bool, as_json: bool) -> None:
    """Rebuild the catalog from the log, then swap it in for the live one at once.

    Readers and the projector keep working meanwhile. An interrupted rebuild continues where it stopped. What was
    trimmed from Kafka is read from its archive.
    """
    from commitlog.catalog.rebuild import Rebuild, RebuildProgress
    from commitlog.client.outcomes.archive import trimmed_results
    from commitlog.log.codec import decode_statistics
    from commitlog.log.trims import last_trim

    began = time.monotonic()
    first: list[RebuildProgress] = []
    with shown_progress("rebuilding", hidden=as_json) as show:

        def tell(progress: RebuildProgress) -> None:
            if not first:
                first.append(progress)
            done = progress.applied_seq - first[0].began_after
            rate = done / max(time.monotonic() - began, 0.001)
            show(f"rebuilding, {rate:,.0f} outcomes/s", done, done + progress.remaining)

        trim = last_trim(settings)
        archived = None if trim is None else partial(trimmed_results, trim)
        rebuild = Rebuild(settings, decode_statistics=decode_statistics, archived=archived, on_progress=tell)
        seq = rebuild.run(restart=restart)
    seconds = time.monotonic() - began
    done = seq - (first[0].began_after if first else 0)
    if as_json:
        print_json({"applied_seq": seq, "outcomes": done, "elapsed_s": round(seconds, 3)})
    else:
        click.echo(f"the catalog is rebuilt up to outcome {seq:,} ({seconds:.1f} s)")


@catalog_command.command("migrate")
@click.option("--pre", "only_pre", is_flag=True, help="Only take steps that an older service can keep running with.")
@json_option
@settings_options
def migrate_command(settings: Settings, only_pre: bool, as_json: bool) -> None:
    """Migrate the catalog to this version of commitlog. The projector and `commitlog init` also do this by
    themselves."""
    from commitlog.catalog.connecting import catalog_url, connect, told_plainly, wait_for_database
    from commitlog.catalog.guard import ensure_guard, mark_projector
    from commitlog.catalog.migrations import VERSION, migrate

    wait_for_database(settings, DATABASE_TIMEOUT_S)
    with told_plainly(settings.database_url), connect(catalog_url(settings)) as conn:
        mark_projector(conn)
        steps = migrate(conn, only_pre=only_pre)
        ensure_guard(conn)
    if as_json:
        print_json({"version": VERSION, "taken": list(steps)})
        return
    for step in steps:
        click.echo(f"done: {step}")
    if not steps:
        click.echo(f"nothing to do: the catalog has version {VERSION}")


@catalog_command.command("export", short_help="Export the catalog as a frozen lake.")
@click.option(
    "--to", "to", type=click.Path(), required=True, callback=not_empty, metavar="DIR", help="Directory to write to."
)
@click.option(
    "--snapshot", "snapshot_id", type=int, metavar="N", help="Export the lake up to this snapshot. Default: the newest."
)
@click.option("--format", "form", type=click.Choice(["sqlite", "duckdb"]), default="sqlite", show_default=True)
@click.option("--copy-files", is_flag=True, help="Also copy the data files, into DIR/data.")
@json_option
@settings_options
def export_command(
    settings: Settings, to: str, snapshot_id: int | None, form: str, copy_files: bool, as_json: bool
) -> None:
    """Export the catalog, with all history up to a snapshot, as a frozen DuckLake that needs no PostgreSQL.

    Without --copy-files, the export reads the data files where they are, and works only as long as the live lake
    keeps them.
    """
    from commitlog.catalog.connecting import catalog_url
    from commitlog.catalog.queries import Catalog
    from commitlog.client.reading.duckdb_client import quoted
    from commitlog.ops.maintenance.export import ExportFormat, check_not_anothers, export_catalog

    with closing(Catalog(catalog_url(settings))) as catalog:
        is_there = snapshot_id is not None and catalog.exists() and snapshot_id <= catalog.head_snapshot_id()
        if is_there:
            # Kafka, which may be away, is not asked.
            check_not_anothers(settings, catalog)
    if not is_there:
        # What was committed may be on its way to the catalog.
        with current_catalog(settings) as catalog:
            snapshot_id = catalog.head_snapshot_id() if snapshot_id is None else snapshot_id
    with shown_progress("exporting", hidden=as_json) as show:
        made = export_catalog(
            catalog_url(settings),
            Path(to),
            snapshot_id=snapshot_id,
            form=ExportFormat(form),
            copy_files=copy_files,
            on_progress=lambda told: show("copying files", told.files, told.files_total or 1),
        )
    if as_json:
        print_json({"path": made.path, "snapshot_id": made.snapshot_id, "files_copied": made.files_copied})
    else:
        files = f", {counted(made.files_copied, 'file')} copied" if copy_files else ""
        click.echo(f"snapshot {made.snapshot_id}{files}; in DuckDB: ATTACH '{quoted(made.attach)}' AS lake (READ_ONLY)")
