"""Commands of several sites: what a log is among them, and the links between two."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.domain.model.nodes import PRIORITY_MAX
from commitlog.errors import InvalidRequestError
from commitlog.ops.cli.divergent import ReplicateGroup
from commitlog.ops.cli.options import json_option, not_empty, print_json, reading_log, settings_options
from commitlog.sites.join import Join
from commitlog.sites.link import Link, LinkProgress

TOLD_EVERY_S = 5.0


@click.command("node")
@click.argument("name", required=False)
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITY_MAX),
    help="When row versions conflict, the node with the smaller one wins.",
)
@json_option
@settings_options
def node_command(settings: Settings, name: str | None, priority: int | None, as_json: bool) -> None:
    """Make the log a node among several sites, permanently; or, without NAME, show its node and how far it has taken
    over others."""
    if priority is not None and name is None:
        raise InvalidRequestError("--priority needs the node's NAME")
    with reading_log(settings) as log:
        if name is not None:
            with log.transaction(message=f"node {name}") as tx:
                tx.configure(node_name=name, node_priority=priority or 0)
        node, others = log.access.node(), log.access.digest()
    if as_json:
        digest = [known.fields() for _, known in sorted(others.items())]
        print_json({"node": node and node.name, "priority": node and node.priority, "digest": digest})
    elif node is None:
        click.echo("this log is not a node; `commitlog node NAME --priority N` makes it one, permanently")
    else:
        click.echo(f"node {node.name}, priority {node.priority}")
        for _, known in sorted(others.items()):
            click.echo(f"has everything of {known.node} (priority {known.priority}) before its snapshot {known.tick}")


@click.command("replicate", cls=ReplicateGroup)
@click.option(
    "--from", "source", required=True, callback=not_empty, metavar="PROFILE", help="Profile of the log to read from."
)
@click.option(
    "--to",
    "target",
    callback=not_empty,
    metavar="PROFILE",
    help="Profile of the log to bring its commits to. Default: the log of the settings.",
)
@click.option(
    "--join", is_flag=True, help="First bring a site with an empty log what there is now, without its history."
)
@click.option("--once", is_flag=True, help="Exit once everything has been brought.")
@click.option(
    "--service", is_flag=True, help="Run as `serve` does: wait for servers that do not answer, serve metrics, log JSON."
)
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Read settings from this file, not commitlog.toml."
)
@json_option
def replicate_command(
    source: str, target: str | None, join: bool, once: bool, service: bool, config_file: Path | None, as_json: bool
) -> None:
    """Replicate one log's commits to another: a link from one site to the other. A second link replicates the way
    back.

    Each log is a profile in commitlog.toml, [profile.PROFILE], and has to be a node (see `commitlog node`). A
    link that is started again continues where it stopped; an older one that still runs ends. `serve` runs the links
    of the setting `links_from` by itself.
    """
    if service and (join or once):
        raise click.UsageError("--service runs the link alone, until it is stopped: it takes neither --join nor --once")
    to_settings = Settings.load(config_file=config_file, profile=target)
    from_settings = (
        to_settings.of_profile(source) if target is None else Settings.load(config_file=config_file, profile=source)
    )
    if service:
        _serve_link(source, from_settings, to_settings)
        return
    with CommitLog.connect(settings=from_settings) as read, CommitLog.connect(settings=to_settings) as written:
        if join:
            joined = Join(read, written).run(told=lambda at: click.echo(f"told {counted(at.told, 'row')}", err=True))
            click.echo(
                f"{joined.target} has joined, with what {joined.source} held at snapshot {joined.snapshot_id}", err=True
            )
        teller = _Teller(as_json=as_json)
        link = Link(read, written)
        click.echo(
            f"from {link.progress.source} to {link.progress.target}, after snapshot {link.progress.snapshot_id}",
            err=True,
        )
        teller.tell(link.run(follow=not once, told=teller.now_and_then))


def _serve_link(profile: str, source: Settings, target: Settings) -> None:
    """Run a link until Ctrl-C or SIGTERM."""
    from commitlog.ops.service.json_logs import log_as_json
    from commitlog.ops.service.keep_trying import Kept, stopped_by_signal
    from commitlog.ops.service.links import RunningLink
    from commitlog.ops.service.watched import WatchedLink, told_about

    running = RunningLink(profile, source, target)
    log_as_json(running.service)
    with (
        stopped_by_signal() as stop,
        Kept(running.service, target, stop) as kept,
        told_about(target, WatchedLink(running)),
    ):
        kept.run(lambda: running.run(stop))


class _Teller:
    """Says how far a link is, every few seconds."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._told_at_s = time.monotonic()
        self._problem: str | None = None

    def now_and_then(self, progress: LinkProgress) -> None:
        """Say it, unless it was said just before; and at once what it cannot bring."""
        if progress.problem != self._problem:
            self._problem = progress.problem
            if self._problem is not None:
                click.echo(f"note: {self._problem}", err=True)
        if time.monotonic() - self._told_at_s >= TOLD_EVERY_S:
            self._told_at_s = time.monotonic()
            self.tell(progress)

    def tell(self, progress: LinkProgress) -> None:
        """Say how far it is."""
        if self._as_json:
            print_json(asdict(progress))
            return
        click.echo(
            f"at snapshot {progress.snapshot_id}: {counted(progress.brought, 'snapshot')} brought, with "
            f"{counted(progress.row_changes, 'row change')} and {counted(progress.files, 'file')} of "
            f"{counted(progress.file_bytes, 'byte')}; {progress.own:,} there before; "
            f"{counted(progress.left_out, 'change')} left out"
        )
