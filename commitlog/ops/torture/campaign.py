"""`commitlog bench torture`: a service under faults chosen by a seed, and what is left of its promises.

A fault is done, lasts, is healed; then all must be well before the next one comes: a new proposal is answered, and readers see
it. One in four comes while another one lasts.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from commitlog import compiled
from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.ops.bench.servers import Say
from commitlog.ops.torture.checking import WRONGS, Evidence, Wrong, judge, verdicts
from commitlog.ops.torture.evidence import gather
from commitlog.ops.torture.faults import FULL, Chances, Fault, Harm, planned, possible
from commitlog.ops.torture.stage import Stage, stage

PAUSE_S_MAX = 30.0
TOGETHER = 0.25
CALM_S_MAX = 1.0
ANSWERS_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Suffered:
    """One fault: what, to whom, for how long, whether together with others, and after how long all was well again."""

    fault: str
    target: str
    lasted_s: float
    together: bool
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Torture:
    """What was done, and what is left.

    Attributes:
        seed: by which the faults were chosen.
        suffered: the faults.
        left_out: kinds that this machine does not have.
        acknowledged: proposals that the broker has.
        verdicts: outcomes by what they say.
        snapshots: that were committed.
        answers: that writers were told.
        longest_wait_s: of a writer, from the beginning of a write to its answer.
        deaf: consumers that were replaced, for they gave out nothing any more.
        wrongs: promises that were not kept.
    """

    seed: int
    suffered: Sequence[Suffered]
    left_out: Sequence[str]
    acknowledged: int
    verdicts: Mapping[str, int]
    snapshots: int
    answers: int
    longest_wait_s: float
    deaf: int
    wrongs: Sequence[Wrong]
    seconds: float
    cpus: int
    load_before: float
    core: str = compiled.form
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether every promise was kept."""
        return not self.wrongs

    def recoveries(self) -> list[tuple[str, int, float, float]]:
        """By kind of fault: how many, and the median and the longest time until all was well, s; those alone."""
        by_fault: dict[str, list[float]] = {}
        for each in self.suffered:
            by_fault.setdefault("several together" if each.together else each.fault, []).append(each.recovered_s)
        return [
            (fault, len(times), round(statistics.median(times), 1), round(max(times), 1))
            for fault, times in sorted(by_fault.items())
        ]

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        recoveries = [dict(zip(("fault", "times", "p50_s", "max_s"), each, strict=True)) for each in self.recoveries()]
        return {**asdict(self), "recoveries": recoveries, "well": self.is_well}


def run_torture(
    settings: Settings,
    *,
    faults: int,
    seed: int,
    seconds: float | None,
    pause_s_max: float = PAUSE_S_MAX,
    mostly: Collection[str] = (),
    say: Say,
) -> Torture:
    """Torture a service in a home of its own, which is removed afterwards if all was well.

    Args:
        settings: Java and the jar cache are taken from it.
        faults: how many.
        seed: by which they are chosen.
        seconds: after which no other fault begins; None: all of them come.
        pause_s_max: the longest pause.
        mostly: names of kinds that every other fault is one of.
        say: is told what is being done.
    """
    load_before, began_s = round(os.getloadavg()[0], 2), time.monotonic()
    say("starting Kafka, PostgreSQL, two machines and the writers")
    with stage(settings, seed) as on:
        campaign = Campaign(on, Chances(random.Random(seed), pause_s_max), say)
        campaign.run(faults, began_s + seconds if seconds is not None else None, mostly)
        say("reading all that is left")
        evidence, deaf = campaign.end(), on.deaf()
        if wrongs := judge(evidence):
            on.keep()
            say(f"something is wrong: what is left stays in {on.directory}")
    return Torture(
        seed,
        campaign.suffered,
        campaign.left_out,
        evidence.acknowledged,
        verdicts(evidence.outcomes),
        sum(each.snapshot_id is not None for each in evidence.outcomes),
        sum(len(each.answers) for each in evidence.written),
        round(max((each.waited_s for each in evidence.written), default=0.0), 1),
        deaf,
        wrongs,
        round(time.monotonic() - began_s, 1),
        os.cpu_count() or 1,
        load_before,
        counts={kind: Counter(each.kind for each in wrongs)[kind] for kind in WRONGS},
    )


class Campaign:
    """One fault after another.

    Args:
        on: what is hurt.
        chances: what is left to chance.
        say: is told what is being done.
    """

    def __init__(self, on: Stage, chances: Chances, say: Say) -> None:
        self._on = on
        self._chances = chances
        self._say = say
        self._possible = possible(on)
        self.left_out = [] if any(fault.group == FULL for fault in self._possible) else [FULL]
        self.suffered: list[Suffered] = []
        self.failures: list[str] = []

    def run(self, count: int, until_s: float | None, mostly: Collection[str] = ()) -> None:
        """So many faults, or until a time; none after something that did not become well again."""
        self._on.wait_until_all_write()
        plan = planned(self._possible, count, self._chances.random, mostly)
        while plan and not self.failures and (until_s is None or time.monotonic() < until_s):
            together = 2 if len(plan) > 1 and self._chances.random.random() < TOGETHER else 1
            self._suffer([plan.pop(0) for _ in range(together)])

    def _suffer(self, faults: Sequence[Fault]) -> None:
        # At any moment of what goes on.
        time.sleep(self._chances.random.uniform(0, CALM_S_MAX))
        harms = [(fault, fault.hurt(self._on, self._chances)) for fault in faults]
        healed_s = time.monotonic()
        try:
            self._heal([harm for _, harm in harms])
            healed_s = time.monotonic()
            self._on.wait_until_well(f"fault_{len(self.suffered) + 1}")
        except CommitLogError as error:
            self.failures.append(f"{' and '.join(fault.name for fault, _ in harms)}: {error}")
        recovered_s = round(time.monotonic() - healed_s, 2)
        for fault, harm in harms:
            told = Suffered(fault.name, harm.target, round(harm.seconds, 1), len(harms) > 1, recovered_s)
            self.suffered.append(told)
            self._say(f"{len(self.suffered)}: {told.fault} ({told.target}, {told.lasted_s} s): {recovered_s} s")

    def _heal(self, harms: Sequence[Harm]) -> None:
        """Each when its time is over."""
        began_s = time.monotonic()
        for harm in sorted(harms, key=lambda each: each.seconds):
            time.sleep(max(0.0, began_s + harm.seconds - time.monotonic()))
            harm.heal()

    def end(self) -> Evidence:
        """Let the writers learn what they wait for, and the catalog catch up; what is left then."""
        if not self._on.writers.finish(ANSWERS_TIMEOUT_S):
            self.failures.append(f"the writers did not learn all their answers in {ANSWERS_TIMEOUT_S:.0f} s")
        try:
            self._on.wait_until_well("at_the_end")
        except CommitLogError as error:
            self.failures.append(str(error))
        return gather(self._on.settings, self._on.ledgers, self.failures)
