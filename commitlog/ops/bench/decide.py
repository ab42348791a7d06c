"""commitlog bench decide: what a decision costs as the history grows, and what the state weighs.

The history is made of appends of one file over 1,000 tables, so that every object of the state is there in the numbers of a
real log; then proposals of several kinds are timed at bases far and near. Decisions are timed without replay, so that the
history does not change between two measurements. What a sequencer does for one proposal from bytes to bytes is timed by
steps, for the form of the core that runs: with COMMITLOG_CORE=interpreted it is the other one. Reads with a filter are in
`searches`.
"""

from __future__ import annotations

import gc
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from commitlog import compiled
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.model.ids import partition_for
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.codec import decode_proposal, encode_outcome, encode_proposal
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.searches import SearchCost, time_searches

TABLES = 1_000
PROBES = 2_000
ROUNDS = 7
PROPOSALS = 10_000
STRETCH = 1_000
START_MS = 1_732_201_315_328
PROPOSALS_PER_MS = 10
"""The rate of the history, for what is remembered by time: ids for a minute, so 600,000 of them at 10,000 proposals/s."""

DECIDE_US_MAX = 7.0
FLATNESS_MAX = 1.2
SEARCH_MS_MAX = 1.0
FILES_WEIGHED = 10_000_000
MEMORY_MIB_MAX = 551.0


@dataclass(frozen=True, slots=True)
class DecideCost:
    """Microseconds per decision after a history, at a base this far behind the head, both in snapshots."""

    history: int
    age: int
    decide_us: float


@dataclass(frozen=True, slots=True)
class ProposalCost:
    """Microseconds that a proposal of one file takes the sequencer, by step."""

    decode_us: float
    decide_us: float
    encode_us: float
    replay_us: float

    @property
    def total_us(self) -> float:
        """All steps together."""
        return self.decode_us + self.decide_us + self.encode_us + self.replay_us


@dataclass(frozen=True, slots=True)
class DecideBench:
    """What was measured.

    Attributes:
        core: the form of the core, compiled or interpreted.
        proposal: one proposal's way, step by step.
        costs: by history and age of the base.
        search: with a filter under SERIALIZABLE.
        commit_us: decide and replay of one append, over the longest history.
        memory_bytes: growth of the process's peak from the empty to the largest state.
        files: how many live files that state holds.
    """

    core: str
    proposal: ProposalCost
    costs: tuple[DecideCost, ...]
    search: SearchCost
    commit_us: float
    memory_bytes: int
    files: int

    @property
    def flatness(self) -> float:
        """The largest cost over the smallest."""
        values = [cost.decide_us for cost in self.costs]
        return max(values) / min(values)

    def goals(self) -> list[Goal]:
        """The figures of it that have bounds to meet."""
        search = self.search
        what = f"SERIALIZABLE with a filter, {search.appends:,} appends since the base"
        goals = [
            Goal.at_most("one decision, us", max(cost.decide_us for cost in self.costs), DECIDE_US_MAX),
            Goal.at_most("its largest over its smallest", self.flatness, FLATNESS_MAX),
            Goal.at_most(f"{what}: ms when none matches", search.none_ms, SEARCH_MS_MAX),
            Goal.at_most(f"{what}: ms when only the first of them does", search.oldest_ms, SEARCH_MS_MAX),
        ]
        if self.files >= FILES_WEIGHED:
            goals.append(Goal.at_most("the largest state, MiB", self.memory_bytes / 2**20, MEMORY_MIB_MAX))
        return goals


def has_age(history: int, age: int) -> bool:
    """Whether a history has a base this far behind its head, after the tables were made."""
    return age + TABLES < history


def run_decide_bench(
    histories: Sequence[int], ages: Sequence[int], appends: int, *, say: Callable[[str], None]
) -> DecideBench:
    """Measure decisions at every history and age of the base, and reads with a filter so many appends after theirs.

    All histories are there at once and measured in turns, as a machine is faster in one minute than in the next. Ages that a
    history does not have are left out.
    """
    rng = random.Random(7)
    gc.collect()
    empty = _peak_bytes()
    # The longest first, so that its memory is its own.
    longest, *shorter = sorted(set(histories), reverse=True)
    grown = {longest: History(m.Genesis(bytes(16)))}
    commit_us = grown[longest].grow(longest, say)
    memory_bytes = _peak_bytes() - empty
    for length in shorter:
        grown[length] = History(m.Genesis(bytes(16)))
        grown[length].grow(length, say)
    timings = [
        _Timing(length, age, grown[length], rng) for length in sorted(grown) for age in ages if has_age(length, age)
    ]
    gc.collect()
    gc.freeze()
    for number in range(ROUNDS):
        say(f"decisions: round {number + 1} of {ROUNDS}")
        for timing in timings:
            timing.measure()
    costs = tuple(timing.cost for timing in timings)
    say("one proposal, from bytes to bytes")
    proposal = time_proposals()
    say("reads with a filter")
    search = time_searches(appends)
    files = grown[longest].state.next_file_id
    return DecideBench(compiled.form, proposal, costs, search, commit_us, memory_bytes, files)


def time_proposals() -> ProposalCost:
    """Take proposals of one file from bytes to bytes, as a sequencer does; the quietest stretch counts for each step."""
    history = History(m.Genesis(bytes(16)))
    log_id, state = bytes(16), history.state
    received = [
        encode_proposal(
            _proposal(TABLES + 1 + number, TABLES, m.Append("main", f"t{number % TABLES}", (_file(number),)))
        )
        for number in range(PROPOSALS)
    ]
    best = [float("inf")] * 4
    gc.collect()
    for start in range(0, PROPOSALS, STRETCH):
        spent = [0.0] * 4
        for value in received[start : start + STRETCH]:
            began = time.perf_counter()
            proposal = decode_proposal(value)
            decoded = time.perf_counter()
            outcome = decide(state, proposal, now_ms=START_MS + PROPOSALS, proposal_bytes=value)
            decided = time.perf_counter()
            encode_outcome(outcome, log_id=log_id, prev_hash=bytes(32), told=0)
            encoded = time.perf_counter()
            replay(state, outcome)
            ended = time.perf_counter()
            assert outcome.verdict is m.Verdict.COMMITTED, outcome.detail
            for step, took in enumerate((decoded - began, decided - decoded, encoded - decided, ended - encoded)):
                spent[step] += took
        best = [min(pair) for pair in zip(best, spent, strict=True)]
    return ProposalCost(*(took * 1e6 / STRETCH for took in best))


def _file(number: int) -> m.DataFile:
    return m.DataFile(f"part-{number}.parquet", 1_000, 100_000, statistics=bytes(24))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _proposal(number: int, base: int, change: m.Change, per_ms: int = PROPOSALS_PER_MS) -> m.Proposal:
    time_ms = START_MS + number // per_ms
    proposal_id = time_ms.to_bytes(6, "big") + b"\x70\x00" + (2**63 + number).to_bytes(8, "big")
    return m.Proposal(proposal_id, f"writer-{number % 64}", base, (change,))


class History:
    """A state that grows by appends to 1,000 tables in turn, so many in a millisecond."""

    def __init__(self, genesis: m.Genesis, *, per_ms: int = PROPOSALS_PER_MS) -> None:
        self.state = new_state(genesis)
        self.per_ms = per_ms
        columns = (m.ColumnSpec("id", "int64"), m.ColumnSpec("v", "varchar"))
        self._number = 0
        for table in range(TABLES):
            self.commit(self._next(m.CreateTable("main", f"t{table}", columns)))

    @property
    def now_ms(self) -> int:
        """When the last proposal was made."""
        return START_MS + self._number // self.per_ms

    def next_append(self) -> m.Proposal:
        """A proposal to append one file to the next table, from the head on."""
        number = self.state.head_snapshot_id
        return self._next(m.Append("main", f"t{number % TABLES}", (_file(number),)))

    def pass_over(self, count: int) -> None:
        """Leave the ids and the time of so many proposals out."""
        self._number += count

    def _next(self, change: m.Change) -> m.Proposal:
        self._number += 1
        return _proposal(self._number, self.state.head_snapshot_id, change, self.per_ms)

    def commit(self, proposal: m.Proposal, value: bytes | None = None) -> m.Outcome:
        """Decide and replay a proposal, of which ``value`` are the bytes."""
        source = m.Position(partition_for(proposal.writer_id, self.state.partitions), 0)
        outcome = decide(self.state, proposal, now_ms=self.now_ms, source=source, proposal_bytes=value)
        assert outcome.verdict is m.Verdict.COMMITTED, outcome.detail
        replay(self.state, outcome)
        return outcome

    def grow(self, snapshots: int, say: Callable[[str], None]) -> float:
        """Append until the head is there; return microseconds per decision and replay."""
        started, before = time.perf_counter(), self.state.head_snapshot_id
        while (number := self.state.head_snapshot_id) < snapshots:
            self.commit(self.next_append())
            if number % 500_000 == 0:
                say(f"history {number:,} of {snapshots:,}")
        return (time.perf_counter() - started) * 1e6 / max(self.state.head_snapshot_id - before, 1)

    def probes(self, base: int, rng: random.Random) -> Iterator[m.Proposal]:
        """Appends, deletes of a whole file, compactions and comments on tables taken at random."""
        for index in range(PROBES):
            number = rng.randrange(TABLES)
            files = self.state.tables[number + 1].live_files
            table = f"t{number}"
            changes: tuple[m.Change, ...] = (
                m.Append("main", table, (m.DataFile("new.parquet", 10, 1_000),)),
                m.Delete("main", table, whole_files=(files[rng.randrange(len(files))],)),
                m.Compact("main", table, (files[0],), (m.DataFile("c.parquet", 1_000, 1_000),)),
                m.AlterTable("main", table, (m.Alteration(m.AlterOp.SET_COMMENT, comment="x"),)),
            )
            yield _proposal(self._number + 1 + index, base, changes[index % len(changes)])


class _Timing:
    """Decisions after a history, at a base so far behind its head."""

    def __init__(self, length: int, age: int, history: History, rng: random.Random) -> None:
        self._length, self._age = length, age
        self._history = history
        self._probes = list(history.probes(max(history.state.head_snapshot_id - age, TABLES), rng))
        self._rounds: list[float] = []

    def measure(self) -> None:
        """Decide all of the same proposals twice. The second time counts: another state was in the caches the first time."""
        self._decide_all()
        started = time.perf_counter()
        self._decide_all()
        self._rounds.append((time.perf_counter() - started) * 1e6 / len(self._probes))

    def _decide_all(self) -> None:
        state, now_ms = self._history.state, self._history.now_ms
        for proposal in self._probes:
            decide(state, proposal, now_ms=now_ms)

    @property
    def cost(self) -> DecideCost:
        """The median of the rounds."""
        return DecideCost(self._length, self._age, statistics.median(self._rounds))
