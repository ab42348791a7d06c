"""Hypothesis drives core and oracle side by side, one request at a time, and shrinks what they disagree about.

After every step the outcomes are replayed from empty, and from a checkpoint taken anywhere, to the live state by hash.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parent.parent))

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from oracle.histories import RULES, History, Run
from oracle.requests import START_MS
from oracle.values import TYPES

from commitlog.domain.deciding.decide import decide
from commitlog.domain.model import Granularity, Isolation, LogSettings, Position, Proposal, Verdict
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay

MACHINES_EACH, STEPS = 10, 40
POLICIES = ("ABORT", "LAST_UPDATE_WINS", "KEEP_EXISTING", "handler:merge", "handler:propose", "handler:fail")
KINDS = tuple(product(Granularity, POLICIES))
DICE = st.randoms(use_true_random=False)
AGES = st.sampled_from((0, 1, 1, 2, 2, 3, 4, 6))
ISOLATIONS = st.sampled_from(("SNAPSHOT", "SERIALIZABLE"))
LEAST = {"proposals": 200, **dict.fromkeys(Isolation, 60)}
"""Of each kind of log."""


class LogMachine(RuleBasedStateMachine):
    """One log of one granularity and row policy (tables may have their own), decided by the core and by the oracle."""

    granularity: ClassVar[Granularity]
    policy: ClassVar[str]
    compared: ClassVar[Counter[str]]

    @initialize(
        window=st.sampled_from((100, 100, 3)),
        favourite=st.sampled_from(list(TYPES)),
    )
    def open_log(self, window: int, favourite: str) -> None:
        """An empty log."""
        own = LogSettings(conflict_granularity=self.granularity, on_conflict=self.policy, window_snapshots=window)
        self.history = History(0, own)
        self.history.policies = (self.policy,)
        self.history.favourite = favourite
        self.result = Run(0)
        self.checkpoints = [list(dump_state(self.history.state))]
        self.history.rng = random.Random(0)
        self.decide_and_compare(self.history.proposal(0), "SNAPSHOT")

    def propose(self, dice: random.Random, kinds: list[str], age: int, isolation: str, reads: int) -> None:
        """One proposal with changes of these kinds."""
        history = self.history
        history.rng = dice
        made = history.envelope(len(history.lines), age)
        made["changes"] = [getattr(history, kind)() for kind in kinds]
        made["reads"] = [history.read() for _ in range(reads)]
        self.decide_and_compare({**made, "isolation": isolation}, isolation)

    def decide_and_compare(self, made: dict[str, Any], isolation: str) -> None:
        history = self.history
        history.lines.append(json.dumps(made))
        difference = history.step(len(history.lines) - 1, self.result)
        assert difference is None, str(difference)
        self.compared.update(("proposals", Isolation(isolation)))
        self.checkpoints.append(list(dump_state(history.state)))

    @rule(dice=DICE, age=AGES, isolation=ISOLATIONS, reads=st.integers(0, 2), count=st.integers(1, 2))
    def change_files(self, dice: random.Random, age: int, isolation: str, reads: int, count: int) -> None:
        """Appends, deletes and compactions."""
        self.propose(dice, ["file_change"] * count, age, isolation, reads)

    @rule(dice=DICE, age=AGES, isolation=ISOLATIONS, reads=st.integers(0, 1), count=st.integers(1, 3))
    def change_rows(self, dice: random.Random, age: int, isolation: str, reads: int, count: int) -> None:
        """Rows of keyed tables, own and replicated."""
        self.propose(dice, ["row_change"] * count, age, isolation, reads)

    @rule(dice=DICE, age=AGES, isolation=ISOLATIONS)
    def change_objects(self, dice: random.Random, age: int, isolation: str) -> None:
        """Schemas, tables, views and their definitions."""
        self.propose(dice, ["object_change"], age, isolation, 1)

    @rule(dice=DICE, age=AGES, isolation=ISOLATIONS, reads=st.integers(1, 3))
    def read_and_append(self, dice: random.Random, age: int, isolation: str, reads: int) -> None:
        """What was read decides."""
        self.propose(dice, ["append"], age, isolation, reads)

    @rule(dice=DICE, age=AGES, isolation=ISOLATIONS)
    def flush_rows(self, dice: random.Random, age: int, isolation: str) -> None:
        """Rows of a keyed table move into files."""
        self.propose(dice, ["flush"], age, isolation, 0)

    @rule(dice=DICE, isolation=ISOLATIONS)
    def change_the_log(self, dice: random.Random, isolation: str) -> None:
        """Settings and expiry."""
        self.propose(dice, ["log_change"], 0, isolation, 0)

    @precondition(lambda self: len(self.history.outcomes) % 4 == 3)
    @rule(which=st.integers(0, 30))
    def send_again(self, which: int) -> None:
        """A proposal that was decided already gets no second verdict."""
        history = self.history
        which %= len(history.outcomes)
        first, number = history.outcomes[which], len(history.lines)
        history.lines.append(history.lines[which])
        proposal = parse_proposal(history.lines[which])
        assert isinstance(proposal, Proposal)
        source = Position(0, number)
        outcome = decide(history.state, proposal, now_ms=START_MS + number, source=source, rules=RULES)
        original = first.seq if first.original_seq is None else first.original_seq
        assert (outcome.verdict, outcome.original_seq) == (Verdict.DUPLICATE, original)
        replay(history.state, outcome)
        history.outcomes.append(outcome)
        self.checkpoints.append(list(dump_state(history.state)))
        self.compared["repeats"] += 1

    @invariant()
    def replayed_state_is_the_live_one(self) -> None:
        """From empty, and from a checkpoint, at every step of another place, plus the tail."""
        if not hasattr(self, "history"):
            return
        outcomes = self.history.outcomes
        at = 5 * len(outcomes) % len(self.checkpoints)
        for start, tail in (
            (new_state(self.history.genesis), outcomes),
            (load_state(self.checkpoints[at]), outcomes[at:]),
        ):
            for outcome in tail:
                replay(start, outcome)
            assert state_hash(start) == state_hash(self.history.state)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=lambda kind: "-".join(KINDS[kind]))
def test_any_sequence_of_requests_then_core_and_oracle_agree_and_replay_gives_the_same_state(
    kind: int, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    granularity, policy = KINDS[kind]
    compared: Counter[str] = Counter()
    machine = type("KindMachine", (LogMachine,), {"granularity": granularity, "policy": policy, "compared": compared})
    run_state_machine_as_test(
        # Without a seed of its own each kind of log would be asked for the same.
        seed(kind)(machine),
        settings=settings(
            max_examples=MACHINES_EACH,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
    seconds = time.monotonic() - started
    with capsys.disabled():
        print(
            f"\n{granularity} {policy}: {compared['proposals']:,} proposals by {MACHINES_EACH} machines in {seconds:.0f} s"
        )
        print({str(name): count for name, count in compared.items()})
    for name, least in LEAST.items():
        assert compared[name] >= least, f"too few proposals of {name}: {compared}"
