"""What would have let a refused proposal through, in plain words, from what ``alternatives_to`` has found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from commitlog.client.outcomes.describing import describe_change, describe_read, shown_table, shown_value
from commitlog.domain import model as m
from commitlog.domain.again import alternatives as a
from commitlog.domain.again.alternatives import Alternative
from commitlog.domain.again.narrowing import Narrowing
from commitlog.domain.model.definitions import quoted

_NAMED_MAX = 3
_FILES_NAMED_MAX = 10
_MEANINGS = {
    m.Granularity.FILE: "then only changes to the same file get in each other's way",
    m.Granularity.ROW: "then only changes to the same row get in each other's way",
    "LAST_UPDATE_WINS": "then of two changes to a row the one with the later time stands",
    "KEEP_EXISTING": "then the row that was there first stays, and this change to it is skipped",
}


def advise(outcome: m.Outcome, tried: Sequence[Alternative]) -> Iterator[str]:
    """The rebase first, then a line for everything else that was tried: first what would have passed, the cheapest first."""
    proposal = outcome.proposal
    assert proposal is not None
    rebase, *others = tried
    yield f"Way out: {_rebase(outcome, rebase)}"
    if not others:
        return
    yield "Other changes, each decided again as things stood then, the cheapest first:"
    for each in others:
        if each.passes:
            yield from _passed(proposal, each)
    for each in others:
        if each.passes is None:
            names = ", ".join(each.handlers)
            yield f"  - {_subject(proposal, each)} may have passed: row handler {names} decides, and was not asked again"
    for because, alike in _refusals(others).items():
        subjects = [_subject(proposal, each) for each in alike]
        yield f"  - {_listed(subjects, shown_max=len(subjects), word='or')} would not have passed: {because}"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that could have been otherwise, in words.

    passes: whether it would have committed then; None when a row handler decides. because: what it means, or what would have
    been in the way.
    """

    what: str
    passes: bool | None
    because: str


def advices(outcome: m.Outcome, tried: Sequence[Alternative]) -> list[Advice]:
    """The rebase first, then everything else that was tried, what would have passed before the rest."""
    proposal = outcome.proposal
    assert proposal is not None
    found = [Advice(_subject(proposal, each), each.passes, _meaning(each)) for each in tried]
    found[0] = replace(found[0], what=f"the same changes, with {found[0].what}")
    return found[:1] + sorted(found[1:], key=lambda each: (True, None, False).index(each.passes))


def _meaning(alternative: Alternative) -> str:
    if alternative.passes:
        return "; ".join(each for each in map(_why, alternative.variations) if each)
    if alternative.passes is None:
        return f"row handler {', '.join(alternative.handlers)} decides, and was not asked again"
    return str(alternative.because)


def _passed(proposal: m.Proposal, alternative: Alternative) -> Iterator[str]:
    parts = [(_phrase(proposal, each), _why(each)) for each in alternative.variations]
    if len(parts) == 1:
        subject, because = parts[0]
        yield f"  - {subject} would have passed" + (f": {because}" if because else "")
        return
    yield "  - all of these together would have passed:"
    for subject, because in parts:
        yield f"    - {subject}" + (f": {because}" if because else "")


def _refusals(others: Sequence[Alternative]) -> dict[str, list[Alternative]]:
    """What would not have passed, by what would have been in the way."""
    alike: dict[str, list[Alternative]] = {}
    for each in others:
        if each.passes is False:
            alike.setdefault(str(each.because), []).append(each)
    return alike


def _rebase(outcome: m.Outcome, rebase: Alternative) -> str:
    again = f"rebase: read again at snapshot {outcome.head_snapshot_id}, and propose from there (log.run does so)"
    if rebase.passes:
        return f"{again}; from there even the same changes would have passed"
    if rebase.passes is None:
        return again
    return f"{again}; the changes have to be computed again there, as the same ones would be refused: {rebase.because}"


def _subject(proposal: m.Proposal, alternative: Alternative) -> str:
    return " together with ".join(_phrase(proposal, each) for each in alternative.variations)


def _phrase(proposal: m.Proposal, variation: a.Variation) -> str:
    match variation:
        case a.Rebase(base_snapshot_id=base):
            return f"base snapshot {base}"
        case a.NarrowerReads(narrowings=()):
            return "a narrower filter"
        case a.NarrowerReads(narrowings=found):
            return _listed([f"a read of {_narrowed(proposal, each)}" for each in found])
        case a.ListedFiles(reads=indexes):
            tables = dict.fromkeys(_read_table(proposal.reads[index]) for index in indexes)
            return f"a read of {_listed(list(tables))} that lists the files it opened"
        case a.TableRule(names=names, rules=rules):
            setting = (
                f"conflict_granularity {rules.granularity}"
                if rules.granularity is not None
                else f"on_conflict {rules.on_conflict}"
            )
            return f"{setting} for {_listed([shown_table(*name) for name in names])}"
        case a.SnapshotIsolation():
            return "isolation SNAPSHOT"
        case a.Without(changes=changes, reads=reads):
            left_out = [f"change {index} ({describe_change(proposal.changes[index])})" for index in changes]
            left_out += [f"read {index} ({describe_read(proposal.reads[index])})" for index in reads]
            return f"the proposal without {_listed(left_out)}"


def _why(variation: a.Variation) -> str:
    match variation:
        case a.NarrowerReads(narrowings=found):
            return "; ".join(_appended(each) for each in found)
        case a.ListedFiles(deleted_from=(data_file_id,)):
            return f"rows were deleted from file {data_file_id} only, so this helps if it was not opened"
        case a.ListedFiles(deleted_from=files):
            shown = _listed([str(data_file_id) for data_file_id in files], shown_max=_FILES_NAMED_MAX)
            return f"rows were deleted from files {shown}, so this helps if none of those was opened"
        case a.TableRule(rules=rules):
            return _MEANINGS.get(rules.granularity or str(rules.on_conflict), "")
        case a.SnapshotIsolation():
            return "then it does not matter whether what was read has changed since"
        case _:
            return ""


def _narrowed(proposal: m.Proposal, narrowing: Narrowing) -> str:
    read = proposal.reads[narrowing.read]
    assert isinstance(read, m.TableRead)
    with_condition = m.TableRead(read.schema, read.table, (*read.filter, narrowing.predicate))
    return describe_read(with_condition).removeprefix("table ")


def _appended(narrowing: Narrowing) -> str:
    column, low, high = quoted(narrowing.predicate.column), narrowing.low, narrowing.high
    if low is None and high is None:
        held = f"only NULL in {column}"
    elif low is None:
        held = f"{column} up to {shown_value(high)}"
    elif high is None:
        held = f"{column} from {shown_value(low)} on"
    elif low == high:
        held = f"{column} {shown_value(low)}"
    else:
        held = f"{column} from {shown_value(low)} to {shown_value(high)}"
    return f"the files appended since hold {held}"


def _read_table(read: m.Read) -> str:
    return shown_table(read.schema, str(getattr(read, "table", "")))


def _listed(items: list[str], *, shown_max: int = _NAMED_MAX, word: str = "and") -> str:
    shown = items[:shown_max] + ([f"{len(items) - shown_max} more"] if len(items) > shown_max else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"
