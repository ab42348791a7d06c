"""Commands of the embedded runtime: Kafka, PostgreSQL and the service on this machine; and how it all is."""

from __future__ import annotations

import sys

import click

from commitlog.config import Settings
from commitlog.ops.cli.options import json_option, print_json, settings_options
from commitlog.ops.service.runtime import RuntimeStatus, down, no_services, prepared_services, status, up
from commitlog.ops.service.supervisor import COMMITLOG


@click.command("up")
@click.option("--detach", "-d", is_flag=True, help="Run in the background: return once everything is ready.")
@click.option("--servers-only", is_flag=True, help="Start only Kafka and PostgreSQL, as `commitlog restore` needs.")
@json_option
@settings_options
def up_command(settings: Settings, detach: bool, servers_only: bool, as_json: bool) -> None:
    """Run a real Kafka broker, a real PostgreSQL and the service on this machine, until Ctrl-C."""
    shown = up(
        settings,
        service_factory=no_services if servers_only else prepared_services,
        detach=detach,
        detached_command=(*COMMITLOG, "up", "--servers-only") if servers_only else (),
        say=lambda line: click.echo(line, err=as_json),
    )
    if as_json:
        print_json(shown.as_dict())


@click.command("down")
@json_option
@settings_options
def down_command(settings: Settings, as_json: bool) -> None:
    """Stop what runs here, including servers that a killed run left behind."""
    found = down(settings, say=lambda line: click.echo(line, err=as_json))
    if as_json:
        print_json({"stopped": found})


@click.command("status")
@json_option
@settings_options
def status_command(settings: Settings, as_json: bool) -> None:
    """Show what runs here, how far the log is decided, and how far behind readers are.

    Exits with 0 when the log is healthy and with 1 otherwise, so it can serve as a health check.
    """
    from commitlog.ops.service.health import LogHealth, log_health

    runtime = status(settings)
    health = (
        log_health(settings)
        if _has_servers(settings, runtime)
        else LogHealth(settings.log, problems=("not running; start it with `commitlog up`",))
    )
    if as_json:
        print_json({**runtime.as_dict(), "health": health.as_dict()})
    else:
        for line in runtime.lines():
            click.echo(line)
        click.echo(f"log        {health.log}: {'well' if health.is_well else 'not well'}")
        for problem in health.problems:
            click.echo(f"problem    {problem}")
        if health.decided_seq is not None:
            click.echo(f"decided    outcome {health.decided_seq}, head snapshot {health.head_snapshot_id}")
            since = "" if health.lag_s is None else f", for {health.lag_s:.1f} s"
            if health.standbys:
                click.echo(f"standby    {health.standbys}")
            click.echo(f"readers    at outcome {health.applied_seq}, {health.lag} behind{since if health.lag else ''}")
        for link in health.links:
            click.echo(f"link       {link}")
        if health.relay is not None:
            click.echo(f"relay      {health.relay}")
    sys.exit(0 if health.is_well else 1)


def _has_servers(settings: Settings, runtime: RuntimeStatus) -> bool:
    """Whether there is somebody to ask: the embedded servers, or others that the settings name."""
    return runtime.kafka_answers or not settings.is_default("bootstrap_servers")
