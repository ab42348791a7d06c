"""The command of the web page."""

from __future__ import annotations

import logging

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import settings_options, with_arguments
from commitlog.ops.service.json_logs import log_as_json
from commitlog.ops.service.keep_trying import Kept, stopped_by_signal
from commitlog.ops.service.page import run_page, running_page
from commitlog.ops.service.watched import WatchedPage, told_about

_logger = logging.getLogger("commitlog.ui")


@click.command("ui")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1. Any other needs a token.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on. Default: 8642, or a free one.")
@click.option(
    "--token", help="Token that visitors must present. Better set in COMMITLOG_UI_TOKEN, which no process list shows."
)
@click.option("--service", is_flag=True, hidden=True)
@settings_options
def ui_command(settings: Settings, host: str | None, port: int | None, token: str | None, service: bool) -> None:
    """Print the web page's address; if the page is not running yet, run it until Ctrl-C.

    `commitlog up` and `commitlog serve` run it too. It shows the log, refusals and what would have avoided them,
    tables, writers and the service's health; it changes nothing. It needs `pip install 'commitlog[ui]'`.
    """
    settings = with_arguments(settings, ui_host=host, ui_port=port, ui_token=token)
    if service:
        _serve(settings)
        return
    if (address := running_page(settings)) is not None:
        click.echo(address)
        return
    # A person waits here: what does not answer is said at once.
    with stopped_by_signal() as stop:
        run_page(settings, stop=stop, on_address=lambda address: click.echo(f"{address}\npress Ctrl-C to stop"))


def _serve(settings: Settings) -> None:
    """Run the page beside the other services, which outlive their servers."""
    log_as_json("page")
    with stopped_by_signal() as stop, Kept("page", settings, stop) as kept, told_about(settings, WatchedPage()):

        def told(address: str) -> None:
            kept.is_well()
            _logger.info("the page is at %s", address.partition("?")[0])

        kept.run(lambda: run_page(settings, stop=stop, on_address=told))
