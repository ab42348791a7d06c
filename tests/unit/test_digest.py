"""The published SData cases, and more (rules.md 6, 12.19)."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from commitlog.domain.state.digest import Comparison, DigestEntry, Newer, Side, Triplet, compare
from commitlog.ops.cli import cli

D1 = {"N1": DigestEntry(6, 1), "N2": DigestEntry(7, 2), "N3": DigestEntry(9, 3)}
D2 = {"N1": DigestEntry(5, 1), "N2": DigestEntry(8, 2), "N3": DigestEntry(8, 3)}
NO_CONFLICT = {"a": ("N1", 5, "N1", 4), "b": ("N1", 5, "N2", 6), "d": ("N1", 5, "N3", 7)}
CONFLICT = {"c": ("N1", 5, "N2", 7), "e": ("N3", 8, "N2", 7)}


def sides(first: tuple[str, int], second: tuple[str, int]) -> tuple[Side, Side]:
    return Side("N1", Triplet(*first), D1), Side("N2", Triplet(*second), D2)


@pytest.mark.parametrize("case", ["a", "b", "d"])
def test_published_cases_without_conflict_then_n1_is_newer_either_way(case: str) -> None:
    n1, n2 = sides(NO_CONFLICT[case][:2], NO_CONFLICT[case][2:])
    assert (compare(n1, n2).newer, compare(n1, n2).conflict) == (Newer.FIRST, False)
    assert (compare(n2, n1).newer, compare(n2, n1).conflict) == (Newer.SECOND, False)


@pytest.mark.parametrize("case", ["c", "e"])
def test_published_conflicts_then_n1_wins_by_the_priority_of_the_sides(case: str) -> None:
    n1, n2 = sides(CONFLICT[case][:2], CONFLICT[case][2:])
    assert compare(n1, n2) == Comparison(Newer.FIRST, conflict=True, rule=4)
    assert compare(n2, n1) == Comparison(Newer.SECOND, conflict=True, rule=4)


def test_the_same_version_then_neither() -> None:
    assert compare(*sides(("N3", 4), ("N3", 4))).newer is Newer.SAME


def test_a_node_missing_in_a_digest_then_has_contributed_nothing() -> None:
    n1, n2 = (
        Side("N1", Triplet("N1", 5), {"N1": DigestEntry(6, 1)}),
        Side("N2", Triplet("N2", 7), {"N2": DigestEntry(8, 2)}),
    )
    assert compare(n1, n2) == Comparison(Newer.FIRST, conflict=True, rule=4)


def test_equal_priorities_then_the_later_stamp_then_the_smaller_name() -> None:
    def side(node: str, stamp_ms: int) -> Side:
        return Side(node, Triplet(node, 1, stamp_ms), {node: DigestEntry(2, 1)})

    assert compare(side("A", 10), side("B", 20)).newer is Newer.SECOND
    assert compare(side("B", 10), side("A", 10)).newer is Newer.SECOND


def test_each_contains_the_other_then_a_conflict() -> None:
    both = {"N1": DigestEntry(9, 1), "N2": DigestEntry(9, 2)}
    assert compare(Side("N1", Triplet("N1", 5), both), Side("N2", Triplet("N2", 5), both)).conflict


def test_command_then_prints_newer_or_conflict_and_winner() -> None:
    def text(node: str, triplet: Triplet, entries: dict[str, DigestEntry]) -> str:
        plain = {name: {"tick": e.tick, "priority": e.priority} for name, e in entries.items()}
        return json.dumps({"node": node, "triplet": {"node": triplet.node, "tick": triplet.tick}, "digest": plain})

    n1, n2 = sides(CONFLICT["c"][:2], CONFLICT["c"][2:])
    arguments = ["compare", text("N1", n1.triplet, D1), text("N2", n2.triplet, D2)]
    assert CliRunner().invoke(cli, ["digest", *arguments]).output == "conflict: N1 wins (rule 4)\n"
    nested = CliRunner().invoke(cli, ["digest", arguments[0], "[" * 100_000, "{}"])
    assert "the first side does not have the form" in str(nested.exception)
    answer = json.loads(CliRunner().invoke(cli, ["digest", *arguments, "--json"]).output)
    assert answer == {"conflict": True, "newer": "FIRST", "node": "N1", "rule": 4}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{}", "these fields are missing: side.node, side.triplet, side.digest"),
        ('{"node": "A", "triplet": {"node": "A"}, "digest": {}}', "side.triplet: the field 'tick' is missing"),
        (
            '{"node": "A", "triplet": {"node": "A", "tick": 1, "stamp": 2}, "digest": {}}',
            'side.triplet: unknown field "stamp"',
        ),
        (
            '{"node": "A", "triplet": {"node": "A", "tick": 1.5}, "digest": {}}',
            "side.triplet.tick: expected an integer, not 1.5",
        ),
        ('{"node": 1, "triplet": {"node": "A", "tick": 1}, "digest": {}}', "side.node: expected text, not 1"),
        (
            '{"node": "A", "triplet": {"node": "A", "tick": 1}, "digest": [5]}',
            "side.digest: expected an object, not [5]",
        ),
        ("x", "not JSON: Expecting value at column 1"),
    ],
)
def test_command_when_a_side_is_none_then_what_is_wrong_with_it_is_named(wrong: str, told: str) -> None:
    side = '{"node": "B", "triplet": {"node": "B", "tick": 1}, "digest": {"B": {"tick": 2, "priority": 1}}}'
    refused = CliRunner().invoke(cli, ["digest", "compare", side, wrong])
    assert str(refused.exception).startswith(f"the second side does not have the form shown by --help: {told}")
