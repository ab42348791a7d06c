"""Random histories: few names, few files and few keys, so that races are the rule; and the run that compares.

A history is made while the core decides it, from its seed alone. Requests are mostly possible, bases mostly recent.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import HandlersByName, Rules
from commitlog.domain.model import (
    Genesis,
    Granularity,
    LogSettings,
    Outcome,
    Position,
    Proposal,
    Reason,
    Verdict,
)
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.domain.state.index import SequencerState, TableState, new_state
from commitlog.domain.state.replaying import replay

from . import values
from .oracle import Expected, Oracle
from .requests import FOCUSES, READERS, START_MS, Requests

Image = dict[str, Any] | None
PROPOSALS = 30


def merge(_: str, committed: Image, proposed: Image) -> Image:
    """The proposed row, with what it does not say taken from the committed one."""
    if committed is None or proposed is None:
        return committed or proposed
    return {name: value if value is not None else committed[name] for name, value in proposed.items()}


def blank(_: str, committed: Image, proposed: Image) -> Image:
    """The row, without any value that could be in somebody's way."""
    image = proposed or committed
    return None if image is None else {name: value if name == "id" else None for name, value in image.items()}


def fail(kind: str, *_: Image) -> Image:
    """No answer."""
    raise ValueError(kind)


def elsewhere(_: str, __: Image, proposed: Image) -> Image:
    """An answer about a row that nobody spoke of."""
    return {**(proposed or {}), "id": 99}


HANDLERS: dict[str, Callable[[str, Image, Image], Image]] = {
    "merge": merge,
    "blank": blank,
    "remove": lambda *_: None,
    "propose": lambda _, __, proposed: proposed,
    "keep": lambda _, committed, __: committed,
    "fail": fail,
    "elsewhere": elsewhere,
}
RULES = Rules(HandlersByName(HANDLERS))


@dataclass
class Difference:
    """Where core and oracle disagree, with the history as lines for ``commitlog replay``."""

    seed: int
    lines: list[str]
    core: object
    oracle: object

    def __str__(self) -> str:
        return f"seed {self.seed}\ncore   {self.core}\noracle {self.oracle}\n" + "\n".join(self.lines)


@dataclass
class Run:
    """What one seed came to."""

    seed: int
    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    difference: Difference | None = None

    def tell(self, outcome: Outcome) -> None:
        """Count what kinds of changes committed, and what they met."""
        self.kinds.update(f"settled {r.kind} {r.action}" for r in outcome.resolutions)
        self.kinds.update({f"met {c.kind}" for c in outcome.conflicts})
        if outcome.verdict is Verdict.COMMITTED and outcome.proposal is not None:
            self.kinds.update({f"committed {c.kind}" for c in outcome.proposal.changes})


class History(Requests):
    """One random history."""

    def __init__(self, seed: int, settings: LogSettings | None = None) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.seed = seed
        granularity = self.rng.choice(list(Granularity))
        window = self.rng.choice((2, 4, 100, 100, 100))
        own = LogSettings(conflict_granularity=granularity, window_snapshots=window)
        self.genesis = Genesis(b"\0" * 16, settings=settings or own)
        self.state: SequencerState = new_state(self.genesis)
        self.oracle = Oracle(self.genesis.settings, HANDLERS)
        self.focus = self.rng.choice(FOCUSES)
        self.reader = self.focus is READERS
        self.favourite = self.rng.choice(list(values.TYPES))
        self.lines: list[str] = []
        self.outcomes: list[Outcome] = []

    def run(self, *, check_replay: bool) -> Run:
        """Decide, compare, and replay again."""
        result = Run(self.seed)
        for number in range(PROPOSALS):
            self.lines.append(json.dumps(self.proposal(number)))
            difference = self.step(number, result)
            if difference is not None:
                result.difference = difference
                return result
        if check_replay:
            self.check_replay()
        return result

    def step(self, number: int, result: Run) -> Difference | None:
        proposal = parse_proposal(self.lines[-1])
        assert isinstance(proposal, Proposal), proposal
        expected = self.oracle.answer(proposal, START_MS + number)
        outcome = decide(self.state, proposal, now_ms=START_MS + number, source=Position(0, number), rules=RULES)
        answer = str(outcome.verdict) if outcome.reason is None else str(outcome.reason)
        result.verdicts[answer] += 1
        got = Expected(
            answer,
            set(outcome_conflicts(outcome)) if outcome.reason is Reason.CONFLICT else set(),
            {
                (r.change, str(r.kind), str(r.action), r.object.row_key or "", r.committed_snapshot_id)
                for r in outcome.resolutions
            },
            expected.rows,
        )
        if got != expected:
            return Difference(self.seed, self.lines, (got, outcome.detail), expected)
        result.tell(outcome)
        self.outcomes.append(outcome)
        replay(self.state, outcome)
        if outcome.verdict is Verdict.COMMITTED:
            assert outcome.snapshot_id == self.oracle.head + 1
            self.oracle.commit(outcome)
            live = expected.rows.keys() & self.oracle.worlds[-1].entries.keys()
            rows = {table_id: self.live_images(table_id) for table_id in live}
            if rows != {table_id: expected.rows[table_id] for table_id in live}:
                return Difference(self.seed, self.lines, rows, expected)
        self.oracle.settings = self.state.settings
        return None

    def live_images(self, table_id: int) -> dict[str, Any]:
        """The rows that the core holds, by key; those beyond the window as the oracle has them."""
        rows, known = self.state.tables[table_id].rows, self.oracle.worlds[-1].entries[table_id].rows
        return {} if rows is None else {key: row.image or known[key].image for key, row in rows.live.items()}

    def check_replay(self) -> None:
        """The outcomes from empty, and from a checkpoint at a random place, give the live state."""
        at = self.rng.randrange(len(self.outcomes))
        again = new_state(self.genesis)
        for number, outcome in enumerate(self.outcomes):
            if number == at:
                again = load_state(dump_state(again))
            replay(again, outcome)
        assert state_hash(again) == state_hash(self.state), f"seed {self.seed}: another state after replay"


def outcome_conflicts(outcome: Outcome) -> list[tuple[tuple[Any, ...], int]]:
    """The conflicts of an outcome as the oracle names them."""
    found = []
    for c in outcome.conflicts:
        where = c.object
        schema = where.table is None and where.schema is not None
        what = where.schema.lower() if schema and where.schema else where.table_id
        key = (str(c.kind), c.proposed_change, c.proposed_read, what, where.data_file_id, where.row_key)
        found.append((key, c.committed_snapshot_id))
    return found


def run_seed(seed: int, check_replay: bool = True) -> Run:
    """One history; for a pool of processes."""
    return History(seed).run(check_replay=check_replay)


__all__ = ["Difference", "History", "Run", "TableState", "run_seed"]
