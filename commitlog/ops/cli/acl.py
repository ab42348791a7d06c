"""`commitlog acl`: who may do what with a log's topics and its catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from commitlog.client.arguments import checked_text
from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.ops.cli.options import json_option, not_empty, print_json, print_table, settings_options

if TYPE_CHECKING:
    from commitlog.log.access_rules import Role

F = TypeVar("F", bound=Callable[..., Any])
_KAFKA = {
    "reader": "May follow the outcomes.",
    "writer": "May propose.",
    "service": "May run `commitlog serve`.",
    "owner": "May create the log and change its topics.",
    "relay": "May run `commitlog relay`; if `serve` runs the relay, give its principal --service too.",
    "border": "May propose and read through a relay, in Confluent's wire format.",
}
_CATALOG = {
    "catalog-reader": "PostgreSQL login that reads the catalog, as writers and Spark do too.",
    "catalog-writer": "PostgreSQL login that commits through the gateway.",
    "catalog-projector": "PostgreSQL login that the projector uses.",
}


def _who(command: F) -> F:
    made: Any = command
    for name, text in reversed({**_KAFKA, **_CATALOG}.items()):
        metavar = "PRINCIPAL" if name in _KAFKA else "LOGIN"
        variable = f"{name.replace('-', '_')}s"
        made = click.option(f"--{name}", variable, multiple=True, callback=not_empty, metavar=metavar, help=text)(made)
    return made  # type: ignore[no-any-return]


@click.group("acl")
def acl_command() -> None:
    """Print or apply access rights: Kafka ACLs and PostgreSQL grants.

    A PRINCIPAL is a user name, or is written as in Kafka (`User:CN=etl,O=example`). Each option can be repeated.
    """


@acl_command.command("print", short_help="Print the ACLs and grants; nothing is changed.")
@_who
@json_option
@settings_options
def print_command(settings: Settings, as_json: bool, **who: Sequence[str]) -> None:
    """Print the kafka-acls commands and the SQL that grant these rights; nothing is changed, and no server is
    contacted.

    Add the cluster's address and credentials to each command: --bootstrap-server and --command-config.
    """
    from commitlog.log.access_rules import access_rules, commands, principal_of

    principals, grants = _principals(who), _grants(who)
    if as_json:
        for role, names in principals.items():
            for name in names:
                for rule in access_rules(settings.log, role):
                    print_json({"principal": principal_of(name), "role": role, **rule._asdict()})
        for grant in grants:
            print_json({"sql": grant})
        return
    for line in (*commands(settings.log, principals), *(f"{grant};" for grant in grants)):
        click.echo(line)


@acl_command.command("apply", short_help="Grant these rights in Kafka and PostgreSQL.")
@_who
@json_option
@settings_options
def apply_command(settings: Settings, as_json: bool, **who: Sequence[str]) -> None:
    """Grant these rights in Kafka and PostgreSQL, with the credentials of the settings; existing rights stay.

    At the end, lists who may write the results: only the service and the owner should.
    """
    from commitlog.catalog.connecting import connect, told_plainly
    from commitlog.log.access_rules import apply, writers_of_results

    principals, grants = _principals(who), _grants(who)
    count = apply(settings, principals) if principals else 0
    if grants:
        with told_plainly(settings.database_url), connect(settings.database_url) as conn:
            for grant in grants:
                conn.execute(grant.encode())
    writing = writers_of_results(settings) if principals else ()
    if as_json:
        print_json({"kafka_rules": count, "grants": len(grants), "writers_of_results": writing})
        return
    print_table(["what", "count"], [("Kafka ACLs", count), ("PostgreSQL grants", len(grants))])
    if principals:
        click.echo(f"who may write {settings.log}'s results: {', '.join(writing) or 'only super users'}")


def _principals(who: dict[str, Sequence[str]]) -> dict[Role, Sequence[str]]:
    from commitlog.log.access_rules import Role

    if not any(who.values()):
        options = ", ".join(f"--{name}" for name in (*_KAFKA, *_CATALOG))
        raise ConfigurationError(f"give at least one of {options}")
    return {role: who[f"{role}s"] for role in Role if who[f"{role}s"]}


def _grants(who: dict[str, Sequence[str]]) -> list[str]:
    from commitlog.catalog.guard import PROJECTOR_ROLE, READER_ROLE, WRITER_ROLE, membership

    roles = {"catalog_readers": READER_ROLE, "catalog_writers": WRITER_ROLE, "catalog_projectors": PROJECTOR_ROLE}
    return [membership(checked_text("a login", each), role) for name, role in roles.items() for each in who[name]]
