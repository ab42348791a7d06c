"""commitlog digest: which of two versions of a row is newer when two logs replicate to each other."""

from __future__ import annotations

import json

import click

from commitlog.domain.model.json_values import Field, by_name, integer, read_json, record, text
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
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


_TRIPLET = {"node": Field(text), "tick": Field(integer), "stamp_ms": Field(integer, 0)}
_ENTRY = {"tick": Field(integer), "priority": Field(integer)}
_SIDE = record(
    Side,
    {
        "node": Field(text),
        "triplet": Field(record(Triplet, _TRIPLET)),
        "digest": Field(by_name(record(DigestEntry, _ENTRY))),
    },
)


def read_side(given: str, what: str) -> Side:
    """A side of a comparison from JSON; MalformedRecordError says what is wrong."""
    try:
        return _SIDE(read_json(given), "side")
    except MalformedRecordError as error:
        wrong = str(error)
    except json.JSONDecodeError as error:
        wrong = f"not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        wrong = "nested too deep"
    raise MalformedRecordError(f"{what} does not have the form shown by --help: {wrong}")
