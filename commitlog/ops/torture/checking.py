"""What must be true of a log after all that was done to it: read from the beginning, and judged by rules of its own.

Nothing here asks what the service believes. What the topics hold, what the writers were told and what readers find is gathered
first (`evidence.py`), so that a test can plant what must be found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from commitlog.domain.model import Outcome, Reason, Receipt, Verdict
from commitlog.ops.torture.ledger import Answer, Written

LOST, TWICE, GAP, ORPHAN = "lost", "twice", "gap", "orphan"
CONTRADICTION, UNANSWERED, CATALOG, FAILURE = "contradiction", "unanswered", "catalog", "failure"
WRONGS: Mapping[str, str] = {
    LOST: "what a writer was told is not in the log, or its rows are not in the table",
    TWICE: "a proposal was decided or committed twice, or its rows are there twice",
    GAP: "a number is left out: an outcome, a snapshot",
    ORPHAN: "a proposal that the broker acknowledged has no verdict",
    CONTRADICTION: "somebody was told what the log does not say",
    UNANSWERED: "a verdict that nobody was told, or a writer who did not learn its answer",
    CATALOG: "the catalog is not the fold of the log, or a file is missing",
    FAILURE: "a writer or a service saw an error that it should not have to see, or did not come back",
}
"""What can be wrong, and what the word means."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One promise that was not kept; ``kind`` is one of `WRONGS`."""

    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is left.

    Attributes:
        outcomes: the accepted ones, in the order of the results.
        ends: by partition where the acknowledged proposals end.
        receipts: as they lie in their topic.
        written: what writers began and were told.
        rows: by table, how often readers find which row (writer, number).
        expected: by table the kinds of write of which each committed one leaves exactly one row.
        findings: what the doctor finds.
        failures: what did not come back.
    """

    outcomes: Sequence[Outcome]
    ends: Mapping[int, int]
    receipts: Sequence[Receipt] = ()
    written: Sequence[Written] = ()
    rows: Mapping[str, Counter[tuple[str, int]]] | None = None
    expected: Mapping[str, Sequence[str]] | None = None
    findings: Sequence[str] = ()
    failures: Sequence[str] = ()

    @property
    def acknowledged(self) -> int:
        """How many proposals."""
        return sum(self.ends.values())


def judge(evidence: Evidence) -> list[Wrong]:
    """Everything that is wrong; empty when every promise was kept."""
    wrongs = [Wrong(CATALOG, each) for each in evidence.findings]
    wrongs += [Wrong(FAILURE, each) for each in evidence.failures]
    for check in (_numbers, _sources, _committed_once, _told, _answers, _rows):
        wrongs += check(evidence)
    return wrongs


def _numbers(evidence: Evidence) -> Iterator[Wrong]:
    """Outcomes and snapshots are numbered without a gap."""
    seqs = [each.seq for each in evidence.outcomes]
    snapshots = [each.snapshot_id for each in evidence.outcomes if each.snapshot_id is not None]
    for what, numbers in (("outcome", seqs), ("snapshot", snapshots)):
        for before, after in pairwise([0, *numbers]):
            if after > before + 1:
                yield Wrong(GAP, f"{what} {after} comes after {before}")
            elif after <= before:
                yield Wrong(TWICE, f"{what} {after} comes after {before}")


def _sources(evidence: Evidence) -> Iterator[Wrong]:
    """Each acknowledged proposal has one verdict."""
    decided = Counter((each.source.partition, each.source.offset) for each in evidence.outcomes)
    for (partition, offset), times in decided.items():
        if times > 1:
            yield Wrong(TWICE, f"the proposal at {partition}/{offset} was decided {times} times")
        if offset >= evidence.ends.get(partition, 0):
            yield Wrong(CONTRADICTION, f"an outcome is about {partition}/{offset}, where the broker has no proposal")
    for partition, end in evidence.ends.items():
        for offset in (each for each in range(end) if (partition, each) not in decided):
            yield Wrong(ORPHAN, f"the proposal at {partition}/{offset} has no verdict")


def _committed_once(evidence: Evidence) -> Iterator[Wrong]:
    """An id, and a writer's number, is committed once at most."""
    committed = [each for each in evidence.outcomes if each.verdict is Verdict.COMMITTED]
    ids = Counter(each.proposal_id for each in committed)
    keys = Counter(
        (each.writer_id, each.proposal.writer_seq)
        for each in committed
        if each.proposal is not None and each.proposal.writer_seq is not None
    )
    yield from (Wrong(TWICE, f"proposal {key!r} was committed {n} times") for key, n in ids.items() if n > 1)
    yield from (Wrong(TWICE, f"number {key} was committed {n} times") for key, n in keys.items() if n > 1)


def _told(evidence: Evidence) -> Iterator[Wrong]:
    """Each outcome has a receipt, and each receipt says what its outcome says."""
    outcomes = {each.seq: each for each in evidence.outcomes}
    told = set()
    for receipt in evidence.receipts:
        outcome = outcomes.get(receipt.seq)
        if outcome is None or _said(receipt) != _said(outcome):
            yield Wrong(CONTRADICTION, f"a receipt says of outcome {receipt.seq} what the log does not say")
        told.add(receipt.seq)
    for seq in outcomes.keys() - told:
        yield Wrong(UNANSWERED, f"outcome {seq} has no receipt")


def _said(each: Receipt | Outcome) -> tuple[object, ...]:
    return each.proposal_id, each.verdict, each.snapshot_id, each.reason, each.source


def _answers(evidence: Evidence) -> Iterator[Wrong]:
    """What writers were told is in the log, and every writer was told."""
    outcomes = {each.seq: each for each in evidence.outcomes}
    by_snapshot = {each.snapshot_id: each for each in evidence.outcomes if each.snapshot_id is not None}
    for write in evidence.written:
        name = f"{write.kind} {write.number} of {write.writer}"
        yield from (Wrong(FAILURE, f"{name}: {failure}") for failure in dict.fromkeys(write.failures))
        if not write.answers:
            yield Wrong(UNANSWERED, f"{name} has no answer")
        for answer in write.answers:
            outcome = outcomes.get(answer.seq)
            if outcome is None:
                yield Wrong(LOST, f"{name} was told of outcome {answer.seq}, which is not there")
            elif not _is_answer(answer, outcome):
                yield Wrong(CONTRADICTION, f"{name} was told {answer}, the log says {outcome.verdict}")
            if answer.snapshot_id is None:
                continue
            made = by_snapshot.get(answer.snapshot_id)
            if made is None:
                yield Wrong(LOST, f"{name} was told of snapshot {answer.snapshot_id}, which is not there")
            elif not _is_of(write, made):
                yield Wrong(CONTRADICTION, f"{name} was told of snapshot {answer.snapshot_id}, which is another's")


def _is_answer(answer: Answer, outcome: Outcome) -> bool:
    """Whether an outcome says it, of itself or of the one that it repeats."""
    return outcome.verdict is Verdict.DUPLICATE or (
        answer.verdict == outcome.verdict.value and answer.snapshot_id == outcome.snapshot_id
    )


def _is_of(write: Written, outcome: Outcome) -> bool:
    """Whether it is the write's own: by one of its ids, or by its number under the writer's name."""
    ids = write.begun.get("ids")
    if isinstance(ids, list):
        return outcome.proposal_id is not None and outcome.proposal_id.hex() in ids
    number = None if outcome.proposal is None else outcome.proposal.writer_seq
    return number == write.number and (outcome.writer_id or "").partition("@")[0] == write.writer


def _rows(evidence: Evidence) -> Iterator[Wrong]:
    """Each committed write has left its rows once, and no other has; those of one without an answer may be there or not."""
    unanswered = {(each.writer, each.number) for each in evidence.written if not each.answers}
    for table, kinds in (evidence.expected or {}).items():
        found = (evidence.rows or {}).get(table, Counter())
        expected: dict[tuple[str, int], int] = defaultdict(int)
        for write in evidence.written:
            if write.kind in kinds:
                expected[write.writer, write.number] += sum(
                    answer.verdict == Verdict.COMMITTED.value for answer in write.answers
                )
        for row in sorted(found.keys() | expected.keys()):
            if found[row] < expected[row]:
                yield Wrong(LOST, f"{table} has {found[row]} of {expected[row]} rows of {row[0]} {row[1]}")
            elif found[row] > expected[row] and row not in unanswered:
                yield Wrong(TWICE, f"{table} has {found[row]} instead of {expected[row]} rows of {row[0]} {row[1]}")


def verdicts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many outcomes of each verdict; refusals by their reason."""
    counted = Counter(each.verdict.value if each.reason is None else _reason(each.reason) for each in outcomes)
    return dict(counted.most_common())


def _reason(reason: Reason) -> str:
    return f"REJECTED {reason.value}"
