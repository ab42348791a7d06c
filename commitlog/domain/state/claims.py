"""Which rows of several sites can stand beside each other: who gets a UNIQUE value that several ask for (rules.md 6).

Each row's version of all sites asks for its UNIQUE values: it is a *claim*. Claims that ask for the same value are taken in
the order in which versions that conflict win; one that asks for a value that is taken is held back. So who wins depends on
the claims alone, not on the order in which they came, and sites that know the same versions hold back the same rows. That a
row's parent is there is asked of winners only (``deciding.standing_rows``): one held back for its parent keeps its values.

A row that two sites move to different keys asks for one more value under each, its identity: which row it is. Of a row that
was never moved, and is the first one of its key, that is the key; so nothing is kept but of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from commitlog.domain.model import ConflictKind, RowOrigin
from commitlog.domain.model.nodes import Node
from commitlog.domain.state.digest import precedence
from commitlog.domain.state.index import TableState
from commitlog.domain.state.rows import RowVersion
from commitlog.domain.state.sites import origin_at

Place = tuple[int, str]
"""A table's id and the key of a row in it."""

_Value = tuple[int, int, str]
"""A table's id, the number of one of its UNIQUE constraints, and a value of that."""

_IDENTITY = -1
"""In the place of a UNIQUE constraint's number: the value is a row's identity."""


class Claim(NamedTuple):
    """The version that would stand under a key, and which node made it when."""

    version: RowVersion
    origin: RowOrigin


class Claims:
    """The claims at the head, and those that a proposal makes in their place."""

    __slots__ = ("_fresh", "_node", "_table_of", "_values", "_wins")

    def __init__(self, node: Node, table_of: Callable[[int], TableState]) -> None:
        self._node = node
        self._table_of = table_of
        self._fresh: dict[Place, Claim | None] = {}
        self._values: dict[_Value, set[str]] = {}
        self._wins: dict[Place, bool] = {}

    def renew(self, place: Place, claim: Claim | None) -> None:
        """From now on this is what a key asks for; None: nothing."""
        self._fresh[place] = claim
        if claim is not None:
            for value in self._asked(place, claim):
                self._values.setdefault(value, set()).add(place[1])

    def is_fresh(self, place: Place) -> bool:
        """Whether it was renewed."""
        return place in self._fresh

    def of(self, place: Place) -> Claim | None:
        """What a key asks for."""
        return self._fresh[place] if place in self._fresh else self._at_head(place)

    def settle(self) -> set[Place]:
        """Find out what the renewed claims win; their places, and all that they meet or have left."""
        return self._settle(self._fresh)

    def wins(self, place: Place) -> bool:
        """Whether a key gets all that it asks for."""
        if place not in self._wins:
            self._settle([place])
        return self._wins[place]

    def takers(self, place: Place) -> list[Place]:
        """Who has what a key asks for in vain."""
        claim = self.of(place)
        assert claim is not None
        met = {other for value in self._asked(place, claim) for other in self._askers(value)}
        return sorted(other for other in met if other != place and self.wins(other))

    def why_held(self, place: Place) -> tuple[ConflictKind, list[Place]]:
        """Why a row cannot stand, and the rows that have what it asks for; none where it waits for what it refers to."""
        claim = self.of(place)
        takers = [] if claim is None or self.wins(place) else self.takers(place)
        if claim is None or not takers:
            return ConflictKind.FOREIGN_KEY, []
        if any(self._identity(other) == _identity(place, claim) for other in takers):
            return ConflictKind.UPDATE_KEY, takers
        return ConflictKind.UNIQUE if len(takers) == 1 else ConflictKind.MULTIPLE_UNIQUE, takers

    def _at_head(self, place: Place) -> Claim | None:
        table_id, key = place
        rows = self._table_of(table_id).rows
        assert rows is not None
        version = rows.live.get(key) or rows.held.get(key)
        return None if version is None else Claim(version, origin_at(self._node, rows, key, version))

    def _identity(self, place: Place) -> str | None:
        claim = self.of(place)
        return None if claim is None else _identity(place, claim)

    def _asked(self, place: Place, claim: Claim) -> Iterator[_Value]:
        for number, value in enumerate(claim.version.unique):
            if value is not None:
                yield place[0], number, value
        identity = _identity(place, claim)
        if claim.version.identity is not None or self._others_have(place[0], identity):
            yield place[0], _IDENTITY, identity

    def _others_have(self, table_id: int, identity: str) -> bool:
        """Whether a row that was moved has the identity of one that may have never been."""
        rows = self._table_of(table_id).rows
        assert rows is not None
        return identity in rows.identified or (table_id, _IDENTITY, identity) in self._values

    def _askers(self, value: _Value) -> Iterator[Place]:
        table_id, number, text = value
        rows = self._table_of(table_id).rows
        assert rows is not None
        if number == _IDENTITY:
            keys = set(rows.identified.get(text, ()))
            if self._identity((table_id, text)) == text:
                yield table_id, text
        else:
            keys = set(rows.held_unique[number].get(text, ()))
            if (holder := rows.unique[number].get(text)) is not None:
                keys.add(holder)
        yield from ((table_id, key) for key in keys if (table_id, key) not in self._fresh)
        yield from ((table_id, key) for key in self._values.get(value, ()))

    def _settle(self, places: Iterable[Place]) -> set[Place]:
        found: set[Place] = set()
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                for claim in (self.of(place), self._at_head(place)):
                    for value in () if claim is None else self._asked(place, claim):
                        waiting += self._askers(value)
        self._give(found)
        return found

    def _give(self, places: set[Place]) -> None:
        """Let the claims, the first in order first, take what they ask for."""
        claims: list[tuple[Place, Claim]] = []
        for place in places:
            claim = self.of(place)
            if claim is not None:
                claims.append((place, claim))
        taken: set[_Value] = set()
        for place, claim in sorted(claims, key=_rank):
            values = list(self._asked(place, claim))
            self._wins[place] = taken.isdisjoint(values)
            if self._wins[place]:
                taken.update(values)


def _identity(place: Place, claim: Claim) -> str:
    return place[1] if claim.version.identity is None else claim.version.identity


def _rank(claimed: tuple[Place, Claim]) -> tuple[tuple[int, int, str], int, Place]:
    """As versions that conflict; of two of one snapshot the smaller key."""
    place, claim = claimed
    origin = claim.origin
    return precedence(origin.priority, origin.stamp_ms, origin.node), origin.tick, place
