"""What would have been: history decided under other rules, compared with how it was decided.

A log's history is judged one proposal at a time against the state that history really had, because a verdict that comes out
otherwise would shift every later snapshot and file id that writers named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from commitlog.domain import model as m
from commitlog.domain.model import Outcome, Verdict


@dataclass(slots=True)
class Comparison:
    """Verdicts side by side. The two counters are by (table, kind of conflict or reason)."""

    proposals: int = 0
    same: int = 0
    would_pass: int = 0
    would_be_refused: int = 0
    passing: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusing: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, decided: Outcome, what_if: Outcome) -> None:
        """Compare one proposal's two outcomes."""
        self.proposals += 1
        if decided.verdict is what_if.verdict:
            self.same += 1
        elif what_if.verdict is Verdict.COMMITTED:
            self.would_pass += 1
            self.passing.update(_causes(decided))
        elif decided.verdict is Verdict.COMMITTED:
            self.would_be_refused += 1
            self.refusing.update(_causes(what_if))

    def lines(self) -> Iterator[str]:
        """The comparison in words."""
        yield f"{self.proposals} proposals: {self.same} decided the same way"
        yield f"refused, would have passed: {self.would_pass}"
        yield from _counted(self.passing)
        yield f"committed, would have been refused: {self.would_be_refused}"
        yield from _counted(self.refusing)


def _counted(causes: Counter[tuple[str, str]]) -> Iterator[str]:
    for (table, cause), count in sorted(causes.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:6}  {cause}  {table}".rstrip()


def _causes(outcome: Outcome) -> Iterable[tuple[str, str]]:
    if not outcome.conflicts:
        return {("", str(outcome.reason or outcome.verdict))}
    return {(_name(conflict.object), str(conflict.kind)) for conflict in outcome.conflicts}


def _name(where: m.ConflictObject) -> str:
    return f"{where.schema}.{where.table}" if where.table is not None else str(where.schema)


def as_proposed(outcome: Outcome, proposal: m.Proposal) -> Outcome:
    """A real outcome whose proposal carries other settings: replaying it gives the real state under other rules."""
    return replace(outcome, proposal=proposal)
