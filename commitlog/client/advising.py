"""What would have let a refused proposal through, in plain words, from what ``alternatives_to`` has found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from commitlog.client.describing import describe_change, describe_read, shown_table, shown_value
from commitlog.domain import alternatives as a
from commitlog.domain import model as m
from commitlog.domain.alternatives import Alternative
from commitlog.domain.definitions import quoted
from commitlog.domain.narrowing import Narrowing

_NAMED_MAX = 3
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
    yield "What else would have helped, the cheapest first (each was decided again as things stood then):"
    order = {True: 0, None: 1, False: 2}
    for each in sorted(others, key=lambda alternative: order[alternative.passes]):
        yield f"  - {_sentence(proposal, each)}"


def _rebase(outcome: m.Outcome, rebase: Alternative) -> str:
    again = f"rebase: read again at snapshot {outcome.head_snapshot_id}, and propose from there (log.run does so)"
    if rebase.passes:
        return f"{again}; from there even the same changes would have passed"
    if rebase.passes is None:
        return again
    return f"{again}; the changes have to be made anew, since from there the same ones are refused: {rebase.because}"


def _sentence(proposal: m.Proposal, alternative: Alternative) -> str:
    variations = alternative.variations
    if variations == (a.NarrowerReads(()),):
        return f"no narrower filter would have passed: {alternative.because}"
    subject = " together with ".join(_subject(proposal, each) for each in variations)
    if alternative.passes:
        because = "; ".join(text for each in variations if (text := _why(each)))
        return f"{subject} would have passed" + (f": {because}" if because else "")
    if alternative.passes is None:
        names = ", ".join(alternative.handlers)
        return f"{subject} may have passed: that depends on row handler {names}, which was not asked again"
    return f"{subject} would not have passed: {alternative.because}"


def _subject(proposal: m.Proposal, variation: a.Variation) -> str:
    match variation:
        case a.Rebase(base_snapshot_id=base):
            return f"base snapshot {base}"
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
        case a.ListedFiles():
            return "rows were deleted from some files only; this helps if it opened none of those"
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


def _listed(items: list[str]) -> str:
    shown = items[:_NAMED_MAX] + ([f"{len(items) - _NAMED_MAX} more"] if len(items) > _NAMED_MAX else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
