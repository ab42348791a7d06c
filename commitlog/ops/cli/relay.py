"""The command of the relay."""

from __future__ import annotations

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import settings_options, with_arguments
from commitlog.ops.service.json_logs import log_as_json
from commitlog.ops.service.keep_trying import Kept, stopped_by_signal
from commitlog.ops.service.watched import WatchedRelay, told_about
from commitlog.relay.relay import run_relay


@click.command("relay")
@click.option("--registry", metavar="URL", help="URL of the schema registry. Default: the setting registry_url.")
@settings_options
def relay_command(settings: Settings, registry: str | None) -> None:
    """Run a relay, through which programs that use a schema registry propose and read in Confluent's wire format,
    until Ctrl-C or SIGTERM.

    Proposals are read from LOG.proposals.confluent; receipts are written to LOG.receipts.confluent, outcomes to
    LOG.results.confluent. What is not a proposal is kept in LOG.dead-letters.confluent, with the reason. Several
    relays share the work. `commitlog up` and `commitlog serve` run one if registry_url is set.
    """
    settings = with_arguments(settings, registry_url=registry)
    log_as_json("relay")
    watched = WatchedRelay(settings)
    with stopped_by_signal() as stop, Kept("relay", settings, stop) as kept, told_about(settings, watched):
        kept.run(lambda: run_relay(settings, stop=stop, progress=watched.progress))
