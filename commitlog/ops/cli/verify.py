"""commitlog verify: is the log what was written, and what its rules make of it."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import (
    json_option,
    not_empty,
    obeyed_by_none,
    print_json,
    settings_options,
    shown_progress,
)


@click.command("verify")
@click.option(
    "--archive",
    "archived",
    callback=not_empty,
    metavar="DIR",
    help="Read archived ranges from this folder or URL, the rest from Kafka.",
)
@click.option("--no-catalog", is_flag=True, help="Check the log alone.")
@click.option(
    "--chain", is_flag=True, help="Only check that no record was changed afterwards: takes seconds, and no Spark."
)
@click.option("--expect", metavar="SEQ:HASH", help="With --chain: what `commitlog log --head-hash` printed earlier.")
@json_option
@settings_options
def verify_command(
    settings: Settings, archived: str | None, no_catalog: bool, chain: bool, expect: str | None, as_json: bool
) -> None:
    """Decide the whole log again, and compare the result with the log and the catalog. Exits with 1 when something
    is wrong.

    With --chain, only check every record's place in the chain of hashes, and compare the chain with the hashes
    that the catalog, the checkpoints and you (--expect) have kept.
    """
    if expect is not None and not chain:
        raise click.UsageError("--expect needs --chain")
    if archived is not None:
        from commitlog.client.outcomes.archive import check_there

        check_there(archived)
    looked = _verify_chain if chain else _verify_all
    sys.exit(0 if looked(settings, archived, not no_catalog, expect, as_json) else 1)


def _verify_chain(settings: Settings, archived: str | None, catalog: bool, expect: str | None, as_json: bool) -> bool:
    from commitlog.ops.maintenance.verify_chain import noted, parse_noted, verify_chain

    expected = None if expect is None else parse_noted(expect)
    with shown_progress("reading the chain", hidden=as_json) as show:
        report = verify_chain(
            settings,
            archive=archived,
            catalog=catalog,
            expected=expected,
            on_progress=lambda done, total: show("reading the chain", done, total),
        )
    if as_json:
        head = None if report.position is None else noted(report.position)
        breaks = [each._asdict() for each in report.breaks]
        print_json({**dataclasses.asdict(report), "position": head, "breaks": breaks, "ok": report.ok})
        return report.ok
    for each in report.breaks:
        click.echo(f"WRONG between results offsets {each.first_offset} and {each.last_offset}: {each.what}")
    if report.position is not None:
        click.echo(
            f"{report.records:,} records, {report.witnesses:,} hashes noted elsewhere; the chain ends with outcome "
            f"{noted(report.position)}"
        )
    click.echo(
        "the log is as it was written"
        if report.ok
        else "the log is NOT as it was written: see docs/security.md for what to do"
    )
    return report.ok


def _verify_all(settings: Settings, archived: str | None, catalog: bool, _: str | None, as_json: bool) -> bool:
    from pyspark.errors import PythonException

    from commitlog.client import CommitLog
    from commitlog.log.trims import last_trim
    from commitlog.ops.local_spark import local_spark
    from commitlog.spark import verify

    trim = last_trim(settings)
    if archived is None and trim is not None:
        archived = trim.archive
    click.echo("starting Spark", err=True)
    with (
        shown_progress("reading the log, and its chain", hidden=as_json) as show,
        tempfile.TemporaryDirectory() as directory,
        CommitLog.connect(settings=settings) as log,
        local_spark(settings, Path(directory), "commitlog-verify") as spark,
    ):
        try:
            report = verify(spark, log=log, archive=archived, catalog=catalog, on_step=show)
        except PythonException:
            # Where one of Spark's tasks could not read on, and why, a walk along the chain tells.
            if _verify_chain(settings, archived, catalog, None, as_json):
                raise
            return False
    if as_json:
        plain = dataclasses.asdict(report) | {"head_hash": report.head_hash.hex(), "ok": report.ok}
        print_json(plain)
    else:
        click.echo(obeyed_by_none(str(report)))
    return report.ok
