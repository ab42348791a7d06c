"""Two to four sites in memory, with clocks hours apart, whose links come, go and die; and what must hold of them.

The checker knows nothing of digests: it walks each log, keeps for every version all that its node contained when it made it (a
whole vector clock), and says from that alone which versions are superseded, which conflict, and which one stands.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from sites_wire import Wire

from commitlog.client.ids import id_at
from commitlog.domain import model as m
from commitlog.errors import OutcomeUnknownError
from commitlog.sites.link import Link
from commitlog.testing import InMemoryCommitLog

KEYS = range(4)
HOUR_MS = 3_600_000
START_MS = 1_732_201_315_328
COLUMNS = (m.ColumnSpec("id", "int64", nullable=False), m.ColumnSpec("v", "varchar"))


class Dot(NamedTuple):
    """A snapshot of a node."""

    node: str
    tick: int


class Version(NamedTuple):
    """What a snapshot made of a row (None: its end), and every dot that its node contained by then."""

    dot: Dot
    image: dict[str, Any] | None
    stamp_ms: int
    priority: int
    knew: frozenset[Dot]


class CutError(Exception):
    """A link dies."""


class Sites:
    """Some sites, and which of them bring their changes to which others."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        names = "abcd"[: self.chance.choice((2, 2, 3, 3, 4))]
        self.now_ms = dict.fromkeys(names, 0)
        self.priorities = {name: self.chance.choice((0, 1, 2)) for name in names}
        self.logs: dict[str, InMemoryCommitLog] = {}
        for name in names:
            skew_ms = self.chance.randrange(-5, 6) * HOUR_MS
            self.logs[name] = InMemoryCommitLog(clock_ms=lambda name=name, skew=skew_ms: self._clock(name, skew))
            self._commit(name, m.Configure({"node_name": name, "node_priority": self.priorities[name]}))
        self.wires = {name: Wire(log, self.chance) for name, log in self.logs.items()}
        self.links = list(self._links(names))
        self._commit("a", m.CreateTable("main", "k", COLUMNS, primary_key=("id",)))
        self.settle()

    def _links(self, names: str) -> Iterator[tuple[str, str]]:
        shape = self.chance.choice(("mesh", "ring", "chain"))
        for at, name in enumerate(names):
            following = names[(at + 1) % len(names)]
            if shape == "mesh":
                yield from ((name, other) for other in names if other != name)
            elif shape == "ring":
                yield name, following
            elif at + 1 < len(names):
                yield from ((name, following), (following, name))

    def _clock(self, name: str, skew_ms: int) -> int:
        self.now_ms[name] += self.chance.choice((0, 1, 50))
        return START_MS + skew_ms + self.now_ms[name]

    def _commit(self, name: str, *changes: m.Change) -> None:
        log = self.logs[name]
        outcomes = log.outcomes
        made_at_ms = outcomes[-1].decided_at_ms if outcomes else 0
        proposal_id = id_at(made_at_ms, len(outcomes) & 0xFFF, self.chance.getrandbits(60))
        assert log.submit(m.Proposal(proposal_id, "w", log.head_snapshot_id(), changes)).committed

    def edit(self) -> None:
        """Somebody changes some rows at one site."""
        name = self.chance.choice(list(self.logs))
        here = rows_of(self.logs[name])
        changes: list[m.Change] = []
        for key in self.chance.sample(KEYS, self.chance.choice((1, 1, 2))):
            image = {"id": key, "v": f"{name}{self.chance.randrange(100)}"}
            if key not in here:
                changes.append(m.InsertRow("main", "k", image))
            elif self.chance.random() < 0.3:
                changes.append(m.DeleteRow("main", "k", {"id": key}))
            else:
                changes.append(m.UpdateRow("main", "k", {"id": key}, image))
        self._commit(name, *changes)

    def bring(self) -> None:
        """A link runs for a while, and may be cut anywhere; of what others had sent some comes before it, the rest with its."""
        source, target = self.chance.choice(self.links)
        self.wires[target].arrive_late()
        left = self.chance.choice((0, 1, 3, 100))

        def told(_: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise CutError

        with suppress(CutError, OutcomeUnknownError):
            Link(self.logs[source], self.logs[target]).run(follow=False, told=told)

    def settle(self) -> None:
        """All links run until nothing is new to anybody."""
        for wire in self.wires.values():
            wire.is_calm = True
        while sum(Link(self.logs[a], self.logs[b]).run(follow=False).brought for a, b in self.links):
            pass
        for wire in self.wires.values():
            wire.is_calm = False

    def run(self, steps: int) -> None:
        """So many things happen; then it gets quiet."""
        for _ in range(steps):
            (self.edit if self.chance.random() < 0.6 else self.bring)()
        self.settle()

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every site holds the rows that whole vector clocks say, and told of the conflicts that they say, and no others."""
        made = {dot: version for name in self.logs for dot, version in self._made_by(name)}
        found = {name: rows_of(log) for name, log in self.logs.items()}
        expected = {key: row for key in KEYS if (row := standing([v for (_, k), v in made.items() if k == key]))}
        assert found == dict.fromkeys(found, expected), (found, expected)
        for name in self.logs:
            self._check_conflicts(name, made)

    def _walk(self, name: str) -> Iterator[tuple[m.Outcome, Dot, frozenset[Dot]]]:
        """The snapshots of a log with row changes, whose each is, and what the log contained before it."""
        contained: set[Dot] = set()
        for outcome in self.logs[name].outcomes:
            proposal = outcome.proposal
            if outcome.snapshot_id is None or proposal is None or not rows_in(proposal):
                continue
            came = proposal.replicated
            dot = Dot(name, outcome.snapshot_id) if came is None else Dot(came.node, came.tick)
            if dot not in contained and (came is None or came.node != name):
                yield outcome, dot, frozenset(contained)
                contained.add(dot)

    def _made_by(self, name: str) -> Iterator[tuple[tuple[Dot, int], Version]]:
        for outcome, dot, knew in self._walk(name):
            if dot.node == name:
                assert outcome.proposal is not None
                for change in rows_in(outcome.proposal):
                    yield (
                        (dot, key_of(change)),
                        Version(dot, image_of(change), outcome.decided_at_ms, self.priorities[name], knew),
                    )

    def _check_conflicts(self, name: str, made: dict[tuple[Dot, int], Version]) -> None:
        for outcome, dot, contained in self._walk(name):
            told = {each.change for each in outcome.resolutions}
            assert outcome.proposal is not None
            for index, change in enumerate(outcome.proposal.changes):
                version = made[dot, key_of(change)]  # type: ignore[arg-type]
                here = [v for (d, k), v in made.items() if k == key_of(change) and d in contained]  # type: ignore[arg-type]
                conflicts = any(v.dot not in version.knew for v in maximal(here))
                assert (index in told) is conflicts, (name, outcome.seq, dot, change)


def rows_in(proposal: m.Proposal) -> list[Any]:
    return [each for each in proposal.changes if each.kind.endswith("_ROW")]


def key_of(change: Any) -> int:
    found: int = (change.row if isinstance(change, m.InsertRow) else change.key)["id"]
    return found


def image_of(change: Any) -> dict[str, Any] | None:
    return None if isinstance(change, m.DeleteRow) else dict(change.row)


def maximal(versions: list[Version]) -> list[Version]:
    """Those that none of the others knew."""
    return [v for v in versions if not any(v.dot in other.knew for other in versions)]


def standing(versions: list[Version]) -> dict[str, Any] | None:
    """The row that stands of all the versions that were ever made of it."""
    if not versions:
        return None
    ranked = sorted(maximal(versions), key=lambda v: (v.image is not None, v.priority, -v.stamp_ms, v.dot.node))
    return ranked[0].image


def rows_of(log: InMemoryCommitLog) -> dict[int, dict[str, Any]]:
    """What table k holds, by key."""
    tables = [each for each in log._memory._state.tables.values() if each.name == "k"]
    if not tables or tables[0].rows is None:
        return {}
    return {int(key): dict(version.image or {}) for key, version in tables[0].rows.live.items()}
