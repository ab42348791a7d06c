"""What would have been: history decided under other rules, compared with how it was decided.

A log's history is judged one proposal at a time against the state that history really had, because a verdict that comes out
otherwise would shift every later snapshot and file id that writers named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import Rules
from commitlog.domain.model.definitions import counted
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay

if TYPE_CHECKING:
    from commitlog.config import Settings
    from commitlog.domain.state.index import SequencerState


@dataclass(slots=True)
class Comparison:
    """Verdicts side by side. The two counters are by (table, kind of conflict or reason)."""

    proposals: int = 0
    same: int = 0
    would_pass: int = 0
    would_be_refused: int = 0
    passing: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusing: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, decided: m.Outcome, what_if: m.Outcome) -> None:
        """Compare one proposal's two outcomes."""
        self.proposals += 1
        if decided.verdict is what_if.verdict:
            self.same += 1
        elif what_if.verdict is m.Verdict.COMMITTED:
            self.would_pass += 1
            self.passing.update(_causes(decided))
        elif decided.verdict is m.Verdict.COMMITTED:
            self.would_be_refused += 1
            self.refusing.update(_causes(what_if))

    def lines(self) -> Iterator[str]:
        """The comparison in words."""
        yield f"{counted(self.proposals, 'proposal')}: {self.same} decided the same way"
        yield f"refused, would have passed: {self.would_pass}"
        yield from _counted(self.passing)
        yield f"committed, would have been refused: {self.would_be_refused}"
        yield from _counted(self.refusing)


def _counted(causes: Counter[tuple[str, str]]) -> Iterator[str]:
    for (table, cause), count in sorted(causes.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:6}  {cause}  {table}".rstrip()


def _causes(outcome: m.Outcome) -> Iterable[tuple[str, str]]:
    if not outcome.conflicts:
        return {("", str(outcome.reason or outcome.verdict))}
    return {(_name(conflict.object), str(conflict.kind)) for conflict in outcome.conflicts}


def _name(where: m.ConflictObject) -> str:
    return f"{where.schema}.{where.table}" if where.table is not None else str(where.schema)


def history_of(settings: Settings, rules: Rules) -> Iterator[tuple[m.Outcome, m.Outcome]]:
    """Every outcome of a log, with what it would have been under other rules.

    Raises:
        ConfigurationError: there is no such log.
        LogIntegrityError: what was trimmed is not in its archive.
        LogUnavailableError: the broker does not answer.
    """
    from commitlog.client.outcomes.archive import whole_history
    from commitlog.log.codec import decode_statistics
    from commitlog.log.genesis import require_genesis

    require_genesis(settings)
    rules = replace(rules, decode_statistics=decode_statistics)
    state: SequencerState | None = None
    for record in whole_history(settings):
        if isinstance(record.value, m.Genesis):
            state = new_state(record.value)
            continue
        assert state is not None
        yield record.value, _decided_again(state, record.value, rules)
        replay(state, record.value)


def _decided_again(state: SequencerState, decided: m.Outcome, rules: Rules) -> m.Outcome:
    if decided.proposal is None:
        return decided
    return decide(
        state,
        decided.proposal,
        now_ms=decided.decided_at_ms,
        source=decided.source,
        epoch=decided.epoch,
        rules=rules,
    )
