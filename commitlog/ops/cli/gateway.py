"""The command of the gateway."""

from __future__ import annotations

import logging

import click

from commitlog.client.reading.duckdb_client import attach_statement
from commitlog.config import Settings
from commitlog.ops.cli.options import settings_options, with_arguments
from commitlog.ops.service.gateway import run_gateway, through_gateway
from commitlog.ops.service.json_logs import log_as_json
from commitlog.ops.service.keep_trying import Kept, stopped_by_signal
from commitlog.ops.service.watched import WatchedGateway, told_about

_logger = logging.getLogger("commitlog.gateway")


@click.command("gateway")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on. Default: 5442, or a free one.")
@click.option("--service", is_flag=True, hidden=True)
@settings_options
def gateway_command(settings: Settings, host: str | None, port: int | None, service: bool) -> None:
    """Let stock DuckDB clients write: serve PostgreSQL's protocol in front of the catalog, until Ctrl-C or SIGTERM.

    Reads are passed through under the client's own login. Commits become proposals, which the log decides.
    `commitlog up` and `commitlog serve` run the gateway too; `commitlog duckdb` prints the SQL that attaches the
    lake.
    """
    settings = with_arguments(settings, gateway_host=host, gateway_port=port)
    if service:
        _serve(settings)
        return
    # A person waits here: what does not answer is said at once.
    with stopped_by_signal() as stop:

        def attach_by(address: str) -> None:
            click.echo(f"listening on {address}; to attach the lake in DuckDB, for reading and writing, run:")
            click.echo(f"{attach_statement(through_gateway(settings, address), may_write=True)}\npress Ctrl-C to stop")

        run_gateway(settings, stop=stop, on_address=attach_by)


def _serve(settings: Settings) -> None:
    """Run it beside the other services, which outlive their servers."""
    log_as_json("gateway")
    watched = WatchedGateway()
    with stopped_by_signal() as stop, Kept("gateway", settings, stop) as kept, told_about(settings, watched):

        def told(address: str) -> None:
            kept.is_well()
            watched.address = address
            _logger.info("the gateway is at %s", address)

        kept.run(lambda: run_gateway(settings, stop=stop, on_address=told, progress=watched.progress))
