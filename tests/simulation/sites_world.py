"""Two to four sites in memory, with clocks hours apart, whose links and sequencers come, go and die; what must hold of them.

The checker knows nothing of digests: it walks each log, keeps for every version all that its node contained when it made it (a
whole vector clock), and says from that alone which versions are superseded, which conflict, and which one would stand. Which of
these stand together it finds out by trying: as many of those that get their UNIQUE values as have their parents. Which row is
which it sees by a column that whoever inserts a row writes, and nobody else: of several with the same one stands.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from sites_wire import Wire

from commitlog.client.ids import id_at
from commitlog.domain import model as m
from commitlog.domain.model.definitions import FOREIGN_PATHS
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.errors import OutcomeUnknownError
from commitlog.sites.link import Link
from commitlog.testing import InMemoryCommitLog

Key = tuple[str, int]
Row = dict[str, Any]

KEYS = range(4)
HOUR_MS = 3_600_000
START_MS = 1_732_201_315_328
ID = m.ColumnSpec("id", "int64", nullable=False)
BORN = m.ColumnSpec("born", "varchar")
PLAIN = m.CreateTable("main", "k", (ID, m.ColumnSpec("v", "varchar"), BORN), primary_key=("id",))
UNIQUE = m.CreateTable(
    "main",
    "k",
    (ID, m.ColumnSpec("v", "varchar"), m.ColumnSpec("x", "int64"), m.ColumnSpec("y", "int64"), BORN),
    primary_key=("id",),
    unique=(("x",), ("y",)),
)
CHILD = m.CreateTable(
    "main",
    "c",
    (
        ID,
        m.ColumnSpec("v", "varchar"),
        m.ColumnSpec("k", "int64"),
        m.ColumnSpec("kx", "int64"),
        m.ColumnSpec("c", "int64"),
    ),
    primary_key=("id",),
    foreign_keys=(
        m.ForeignKeySpec(("k",), "main", "k", ("id",)),
        m.ForeignKeySpec(("kx",), "main", "k", ("x",)),
        m.ForeignKeySpec(("c",), "main", "c", ("id",)),
    ),
)
FILES = m.CreateTable("main", "f", (ID,), properties={FOREIGN_PATHS: "true"})
HELD = (m.ResolutionAction.HELD, m.ResolutionAction.RELEASED)


class Dot(NamedTuple):
    """A snapshot of a node."""

    node: str
    tick: int


class Version(NamedTuple):
    """What a snapshot made of a row (None: its end), and every dot that its node contained by then."""

    dot: Dot
    image: Row | None
    stamp_ms: int
    priority: int
    knew: frozenset[Dot]


class CutError(Exception):
    """A link dies."""


class Sites:
    """Some sites, and which of them bring their changes to which others."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.chance_of_files = random.Random(f"files {seed}")
        self.appended: set[str] = set()
        self.had: dict[str, tuple[int, set[Key]]] = {}
        self.moving = self.chance_of_files.choice((0.2, 0.6))
        names = "abcd"[: self.chance.choice((2, 2, 3, 3, 4))]
        self.now_ms = dict.fromkeys(names, 0)
        self.priorities = {name: self.chance.choice((0, 1, 2)) for name in names}
        self.logs: dict[str, InMemoryCommitLog] = {}
        window = self.chance_of_files.choice((3, 10, 100_000))
        for name in names:
            skew_ms = self.chance.randrange(-5, 6) * HOUR_MS
            self.logs[name] = InMemoryCommitLog(
                data_path=f"/{name}",
                clock_ms=lambda name=name, skew=skew_ms: self._clock(name, skew),
                window_snapshots=window,
            )
            self._commit(name, m.Configure({"node_name": name, "node_priority": self.priorities[name]}))
        self.wires = {name: Wire(log, self.chance) for name, log in self.logs.items()}
        self.links = list(self._links(names))
        self.constrained = self.chance.random() < 0.6
        for table in (FILES, UNIQUE, CHILD) if self.constrained else (FILES, PLAIN):
            assert self._commit("a", table)
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

    def _commit(self, name: str, *changes: m.Change) -> bool:
        log = self.logs[name]
        outcomes = log.outcomes
        made_at_ms = outcomes[-1].decided_at_ms if outcomes else 0
        proposal_id = id_at(made_at_ms, len(outcomes) & 0xFFF, self.chance.getrandbits(60))
        return log.submit(m.Proposal(proposal_id, "w", log.head_snapshot_id(), changes)).committed

    def edit(self) -> None:
        """Somebody changes some rows at one site, if the other rows there let them."""
        name = self.chance.choice(list(self.logs))
        here, held = rows_of(self.logs[name]), held_by(self.logs[name])
        changes: list[m.Change] = []
        table = self.chance.choice("kkc") if self.constrained else "k"
        for key in self.chance.sample(KEYS, self.chance.choice((1, 1, 2))):
            image = self._image(table, key, name)
            if table == "k":
                image["born"] = here[table, key]["born"] if (table, key) in here else self._birth(name, key)
            ends = self.chance.random() < 0.3
            if ends and ((table, key) in here or (table, key) in held):
                changes.append(m.DeleteRow("main", table, {"id": key}))
            elif (table, key) in here:
                changes.append(m.UpdateRow("main", table, {"id": key}, image))
            else:
                changes.append(m.InsertRow("main", table, image))
        assert self._commit(name, *changes) or self.constrained or held
        if self.chance_of_files.random() < 0.2:
            self._append(name)
        if self.chance_of_files.random() < self.moving:
            self._move(name)

    def _append(self, name: str) -> None:
        path = f"{name}{len(self.appended)}.parquet"
        self.appended.add(f"/{name}/main/f/{path}")
        assert self._commit(name, m.Append("main", "f", (m.DataFile(path, 1, 1),)))

    def _move(self, name: str) -> None:
        """A row gets another key."""
        here, held = rows_of(self.logs[name]), held_by(self.logs[name])
        free = [key for key in KEYS if ("k", key) not in here and ("k", key) not in held]
        taken = sorted(key for key in here if key[0] == "k")
        if free and taken:
            row = here[self.chance_of_files.choice(taken)]
            image = {**row, "id": self.chance_of_files.choice(free)}
            moved = m.UpdateRow("main", "k", {"id": row["id"]}, image)
            assert self._commit(name, moved) or self.constrained or held

    def _birth(self, name: str, key: int) -> str:
        """Which row one is that is inserted: the first one of its key, as far as its site knows, or another one."""
        outcomes = self.logs[name].outcomes
        seen, had = self.had.get(name, (0, set()))
        for outcome in outcomes[seen:]:
            if outcome.snapshot_id is not None and outcome.proposal is not None:
                had.update(key for key, _ in made_of(rows_in(outcome.proposal)))
        self.had[name] = len(outcomes), had
        return f"{name}{len(outcomes)} {key}" if ("k", key) in had else f"{key}"

    def _image(self, table: str, key: int, name: str) -> Row:
        image: Row = {"id": key, "v": f"{name}{self.chance.randrange(100)}"}
        if self.constrained and table == "k":
            return {**image, "x": self._number(), "y": self._number()}
        if self.constrained:
            return {**image, "k": self._number(), "kx": self._number(), "c": self._number()}
        return image

    def _number(self) -> int | None:
        return self.chance.choice((None, None, 0, 1, 2, 3))

    def crash(self) -> None:
        """A sequencer ends, and another one begins from a checkpoint, or from the log's beginning."""
        memory = self.chance.choice(list(self.logs.values()))._memory
        if self.chance.random() < 0.8:
            memory._decider.state = load_state(dump_state(memory._state))
        else:
            memory._decider = memory._new_decider()

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
            self.chance.choices((self.edit, self.bring, self.crash), (60, 36, 4))[0]()
        self.settle()

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every site holds the rows that whole vector clocks say, holds back those that they say, and told of the conflicts
        that they say, and no others."""
        made = {dot: version for name in self.logs for dot, version in self._made_by(name)}
        tables = ("k", "c") if self.constrained else ("k",)
        best = {
            (table, key): version
            for table in tables
            for key in KEYS
            if (version := standing([v for (_, k), v in made.items() if k == (table, key)])) is not None
        }
        stand = standing_together(best)
        expected = {key: best[key].image for key in stand}
        held = {key: version.image for key, version in best.items() if key not in stand}
        for name, log in self.logs.items():
            assert (rows_of(log), held_by(log)) == (expected, held), (name, rows_of(log), held_by(log), expected, held)
            assert told_as_held(log) == held.keys(), (name, told_as_held(log), held)
            assert files_of(log) == sorted(self.appended), (name, files_of(log), self.appended)
            self._check_conflicts(name, made)
            check_restart(log)

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

    def _made_by(self, name: str) -> Iterator[tuple[tuple[Dot, Key], Version]]:
        for outcome, dot, knew in self._walk(name):
            if dot.node == name:
                assert outcome.proposal is not None
                for key, image in made_of(rows_in(outcome.proposal)):
                    yield (dot, key), Version(dot, image, outcome.decided_at_ms, self.priorities[name], knew)

    def _check_conflicts(self, name: str, made: dict[tuple[Dot, Key], Version]) -> None:
        for outcome, dot, contained in self._walk(name):
            told = {each.change for each in outcome.resolutions if each.action not in HELD}
            assert outcome.proposal is not None
            for index, change in enumerate(outcome.proposal.changes):
                version = made[dot, key_of(change)]  # type: ignore[arg-type]
                here = [v for (d, k), v in made.items() if k == key_of(change) and d in contained]  # type: ignore[arg-type]
                conflicts = any(v.dot not in version.knew for v in maximal(here))
                assert (index in told) is conflicts, (name, outcome.seq, dot, change)


def rows_in(proposal: m.Proposal) -> list[Any]:
    return [each for each in proposal.changes if each.kind.endswith("_ROW")]


def made_of(changes: list[Any]) -> Iterator[tuple[Key, Row | None]]:
    """What changes make of which rows: of one that gets another key the end, too."""
    for change in changes:
        if isinstance(change, m.UpdateRow) and change.row["id"] != change.key["id"]:
            yield key_of(change), None
            yield (change.table, change.row["id"]), dict(change.row)
        else:
            yield key_of(change), image_of(change)


def key_of(change: Any) -> Key:
    return change.table, (change.row if isinstance(change, m.InsertRow) else change.key)["id"]


def image_of(change: Any) -> Row | None:
    return None if isinstance(change, m.DeleteRow) else dict(change.row)


def maximal(versions: list[Version]) -> list[Version]:
    """Those that none of the others knew."""
    return [v for v in versions if not any(v.dot in other.knew for other in versions)]


def rank(version: Version) -> tuple[Any, ...]:
    return version.priority, -version.stamp_ms, version.dot.node, version.dot.tick


def standing(versions: list[Version]) -> Version | None:
    """The version that would stand of all that were ever made of a row."""
    if not versions:
        return None
    best = min(maximal(versions), key=lambda v: (v.image is not None, rank(v)))
    return None if best.image is None else best


def standing_together(best: dict[Key, Version]) -> set[Key]:
    """Of the best version of each row those that stand beside each other."""
    taken: set[tuple[str, int]] = set()
    stand: set[Key] = set()
    for key in sorted(best, key=lambda key: (rank(best[key]), key)):
        image = best[key].image or {}
        asked = {(name, image[name]) for name in ("x", "y", "born") if key[0] == "k" and image.get(name) is not None}
        if not asked & taken:
            taken |= asked
            stand.add(key)
    while orphans := {key for key in stand if not has_parents(best[key].image or {}, best, stand)}:
        stand -= orphans
    return stand


def has_parents(image: Row, best: dict[Key, Version], stand: set[Key]) -> bool:
    values = {(best[key].image or {}).get("x") for key in stand if key[0] == "k"}
    return (
        (image.get("k") is None or ("k", image["k"]) in stand)
        and (image.get("c") is None or ("c", image["c"]) in stand)
        and (image.get("kx") is None or image["kx"] in values)
    )


def check_restart(log: InMemoryCommitLog) -> None:
    """A sequencer that begins from the log's beginning has the same state; readers see what stands."""
    memory = log._memory
    assert state_hash(memory._new_decider().state) == state_hash(memory._state)
    for table in memory._state.tables.values():
        if table.rows is not None:
            seen = {row["id"]: row for row in log.table(f"main.{table.name}").scan().to_arrow().to_pylist()}
            assert seen.keys() == set(map(int, table.rows.live))
            known = {int(key): row.image for key, row in table.rows.live.items() if row.image is not None}
            assert {key: seen[key] for key in known} == known


def files_of(log: InMemoryCommitLog) -> list[str]:
    """The files of the table without a primary key, wherever they are."""
    table = log.access.contents().table_at("main", "f", log.head_snapshot_id())
    assert table is not None
    return sorted(each.path for each in log.access.contents().files_at(table, log.head_snapshot_id()))


def told_as_held(log: InMemoryCommitLog) -> set[Key]:
    """The rows whose last word in the history of conflicts is that they are held back."""
    last: dict[Key, m.ResolutionAction] = {}
    for outcome in log.outcomes:
        for each in outcome.resolutions:
            if each.action in HELD:
                last[each.object.table or "", int(each.object.row_key or "")] = each.action
    return {key for key, action in last.items() if action is m.ResolutionAction.HELD}


def rows_of(log: InMemoryCommitLog) -> dict[Key, Row]:
    """The rows that stand."""
    return {
        (table.name, row["id"]): row
        for table in log._memory._state.tables.values()
        if table.rows is not None
        for row in log.table(f"main.{table.name}").scan().to_arrow().to_pylist()
    }


def held_by(log: InMemoryCommitLog) -> dict[Key, Row]:
    """The rows that are held back."""
    return {
        (table.name, int(key)): dict(version.image or {})
        for table in log._memory._state.tables.values()
        if table.rows is not None
        for key, version in table.rows.held.items()
    }
