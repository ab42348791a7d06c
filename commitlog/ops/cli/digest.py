"""commitlog digest: which of two versions of a row is newer when two logs replicate to each other."""

from __future__ import annotations

import json
from typing import Any

import click

from commitlog.domain.state.digest import DigestEntry, Newer, Side, Triplet, compare
from commitlog.errors import MalformedRecordError

_FORM = """\b
{"node": "N1", "triplet": {"node": "N1", "tick": 5, "stamp_ms": 0},
 "digest": {"N1": {"tick": 6, "priority": 1}, "N2": {"tick": 7, "priority": 2}}}"""


@click.group("digest")
def digest_command() -> None:
    """Compare versions of a row by digest."""


@digest_command.command(
    "compare", short_help="Say which of two sides is newer, and who wins.", epilog="A side:\n\n" + _FORM
)
@click.argument("first")
@click.argument("second")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def compare_command(first: str, second: str, as_json: bool) -> None:
    """Say which of two sides is newer, or that they conflict and who wins. FIRST and SECOND are JSON."""
    sides = read_side(first, "the first side"), read_side(second, "the second side")
    result = compare(*sides)
    name = {Newer.FIRST: sides[0].node, Newer.SECOND: sides[1].node, Newer.SAME: None}[result.newer]
    if as_json:
        answer = {"conflict": result.conflict, "newer": str(result.newer), "node": name, "rule": result.rule}
        click.echo(json.dumps(answer))
    elif result.conflict:
        click.echo(f"conflict: {name} wins (rule {result.rule})")
    elif name is None:
        click.echo(f"no conflict: the same version (rule {result.rule})")
    else:
        click.echo(f"no conflict: {name} is newer (rule {result.rule})")


def read_side(text: str, what: str) -> Side:
    """A side of a comparison from JSON; MalformedRecordError says what is wrong."""
    try:
        plain: Any = json.loads(text)
        triplet = plain["triplet"]
        entries = {
            str(node): DigestEntry(_whole(e["tick"]), _whole(e["priority"])) for node, e in plain["digest"].items()
        }
        made = Triplet(str(triplet["node"]), _whole(triplet["tick"]), _whole(triplet.get("stamp_ms", 0)))
        return Side(str(plain["node"]), made, entries)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedRecordError(f"{what} does not have the form that --help shows: {error!r}") from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value
