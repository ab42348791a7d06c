"""Ways out on random histories: every refusal for a conflict is judged again, and each claim checked in another way.

A granularity or a policy is really set in a copy of the state; a narrower read must not meet an append any more; and
asking changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from oracle.histories import PROPOSALS, History, Run
from oracle.requests import POLICIES_WITHOUT_HANDLER, START_MS

from commitlog.client.outcomes.advising import advise
from commitlog.domain.again.alternatives import Alternative, ListedFiles, NarrowerReads, TableRule, alternatives_to
from commitlog.domain.deciding.decide import decide, find_conflicts
from commitlog.domain.model import ConflictKind, Outcome, Proposal, Reason, TableRead, Verdict
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.state.dumping import dump_state, load_state, state_hash

HISTORIES = 250
FIRST_SEED = 7_000_000


def test_alternatives_when_histories_are_random_then_every_claim_holds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + HISTORIES):
        history = History(seed)
        history.policies = POLICIES_WITHOUT_HANDLER
        result = Run(seed)
        for number in range(PROPOSALS):
            line = history.proposal(number)
            history.lines.append(json.dumps(line))
            proposal = parse_proposal(history.lines[-1])
            assert isinstance(proposal, Proposal)
            outcome = decide(history.state, proposal, now_ms=START_MS + number)
            if outcome.reason is Reason.CONFLICT:
                _check(history, outcome, seen)
            assert history.step(number, result) is None
    for name, least in {"NarrowerReads": 10, "TableRule": 150, "ListedFiles": 10, "together": 10}.items():
        assert seen[f"{name} passes"] >= least, seen
    for name, least in {"NarrowerReads": 10, "TableRule": 100, "Rebase": 100, "SnapshotIsolation": 40}.items():
        assert seen[f"{name} fails"] >= least, seen


def _check(history: History, outcome: Outcome, seen: Counter[str]) -> None:
    before = state_hash(history.state)
    found = alternatives_to(history.state, outcome)
    assert state_hash(history.state) == before
    assert alternatives_to(load_state(dump_state(history.state)), outcome) == found
    for each in found:
        kind = "together" if len(each.variations) > 1 else type(each.variations[0]).__name__
        seen[f"{kind} {'passes' if each.passes else 'fails'}"] += 1
        assert (each.because is None) == (each.passes is True)
        _check_rules(history, outcome, each)
        _check_narrower(history, outcome, each)
    told = list(advise(outcome, found))
    assert told[0].startswith("Way out: rebase")
    assert not any("None" in line for line in told), told


def _check_rules(history: History, outcome: Outcome, alternative: Alternative) -> None:
    """The verdict is that of a state in which the tables really have the setting."""
    (variation, *others) = alternative.variations
    if others or not isinstance(variation, TableRule) or variation.rules.tables is None:
        return
    state = load_state(dump_state(history.state))
    given = {"conflict_granularity": variation.rules.granularity, "on_conflict": variation.rules.on_conflict}
    for table_id in variation.rules.tables:
        table = state.tables[table_id]
        properties = {**table.definition.properties, **{key: str(value) for key, value in given.items() if value}}
        table.definition = table.definition.replace(properties=properties)
    assert outcome.proposal is not None
    again = decide(state, outcome.proposal, now_ms=outcome.decided_at_ms, source=outcome.source)
    assert (again.verdict is Verdict.COMMITTED) is alternative.passes


def _check_narrower(history: History, outcome: Outcome, alternative: Alternative) -> None:
    """A narrower read meets no append any more, one that lists other files no delete; whatever else is in the way."""
    (variation, *others) = alternative.variations
    if others or outcome.proposal is None:
        return
    reads = list(outcome.proposal.reads)
    if isinstance(variation, NarrowerReads):
        kind, varied = ConflictKind.TABLE_APPENDED, tuple(each.read for each in variation.narrowings)
        for each in variation.narrowings:
            read = reads[each.read]
            assert isinstance(read, TableRead)
            reads[each.read] = read.replace(filter=(*read.filter, each.predicate))
    elif isinstance(variation, ListedFiles) and outcome.proposal.base_snapshot_id >= history.state.index_floor:
        kind, varied = ConflictKind.TABLE_DELETED_FROM, variation.reads
        for index in varied:
            read = reads[index]
            assert isinstance(read, TableRead)
            reads[index] = read.replace(files=tuple(_spared(history, read, variation.deleted_from)))
    else:
        return
    conflicts = find_conflicts(history.state, outcome.proposal.replace(reads=tuple(reads)))
    assert not [c for c in conflicts if c.kind is kind and c.proposed_read in varied]


def _spared(history: History, read: TableRead, deleted_from: tuple[int, ...]) -> list[int]:
    """The live files of the tables of a read's name that no row was deleted from."""
    tables = [table for table in history.state.tables.values() if table.name.lower() == read.table.lower()]
    live = [each for table in tables for each in table.live_files if table.schema.name == read.schema]
    return [each for each in live if each not in deleted_from][:1]
