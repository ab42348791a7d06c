"""Which of two versions of a row is newer when two logs replicate to each other, by digest (rules.md 6).

Source: SData, "Handling Conflicts with Digest". Each row version carries a triplet (node, tick, stamp); each side a digest,
for every node the *next* tick as far as that side knows, so that "strictly less" means "already contained".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Triplet:
    """Where a row version was made: node, its tick (snapshot id) there, commit time in ms."""

    node: str
    tick: int
    stamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class DigestEntry:
    """What a side knows of a node: its next tick, and its priority (the smaller number wins)."""

    tick: int
    priority: int


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its own node name, the row's triplet there, and its digest by node name."""

    node: str
    triplet: Triplet
    digest: Mapping[str, DigestEntry]

    def contains(self, triplet: Triplet) -> bool:
        """Whether this side had taken over that version already; a node missing in the digest contributed nothing."""
        known = self.digest.get(triplet.node)
        return known is not None and triplet.tick < known.tick

    @property
    def priority(self) -> int:
        """This side's own priority, from its digest's entry for itself; without one it comes last."""
        own = self.digest.get(self.node)
        return own.priority if own is not None else 2**63 - 1


class Newer(StrEnum):
    """The answer of a comparison without a conflict, and the winner of one with."""

    FIRST = "FIRST"
    SECOND = "SECOND"
    SAME = "SAME"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``newer`` is the newer side, or with ``conflict`` the side that wins; ``rule`` the step of the algorithm (1 to 4)."""

    newer: Newer
    conflict: bool
    rule: int


def compare(first: Side, second: Side) -> Comparison:
    """Compare two versions of one row (rules.md 6, 12.19)."""
    if first.triplet.node == second.triplet.node:
        if first.triplet.tick == second.triplet.tick:
            return Comparison(Newer.SAME, conflict=False, rule=1)
        newer = Newer.FIRST if first.triplet.tick > second.triplet.tick else Newer.SECOND
        return Comparison(newer, conflict=False, rule=1)
    second_is_newer, first_is_newer = second.contains(first.triplet), first.contains(second.triplet)
    if second_is_newer and not first_is_newer:
        return Comparison(Newer.SECOND, conflict=False, rule=2)
    if first_is_newer and not second_is_newer:
        return Comparison(Newer.FIRST, conflict=False, rule=3)
    return Comparison(_winner(first, second), conflict=True, rule=4)


def _winner(first: Side, second: Side) -> Newer:
    ranks = [precedence(side.priority, side.triplet.stamp_ms, side.node) for side in (first, second)]
    return Newer.FIRST if ranks[0] <= ranks[1] else Newer.SECOND


def precedence(priority: int, stamp_ms: int, node: str) -> tuple[int, int, str]:
    """What orders versions that conflict, the winner first: the smaller priority, the later stamp, the smaller name."""
    return priority, -stamp_ms, node
