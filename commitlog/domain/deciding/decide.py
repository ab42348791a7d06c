"""decide: the one answer to a proposal.

Theory of operation
===================

A proposal was computed from one snapshot, its *base*; by the time it is decided the log is at another, its *head*. What
lies between, the *window*, has been committed by others. To decide is to find out whether the proposal, made without
knowledge of the window, may stand after it. So nearly every rule looks at three things: what the writer saw (the state
at the base), what the writer wants, and what happened since.

**What goes in and out.** ``decide(state, proposal, ...)`` returns an ``Outcome`` and does nothing else: no clock, no chance,
no I/O; time, source and epoch come in as arguments and are kept in the outcome. It changes nothing in the state, not even
the counters whose ids it gives: ``replay`` (``state.replaying``) does that, by the outcome alone, live and at start alike. It
never raises for bad input, however bad; what it raises is a defect, and its caller asks ``refuse_internal`` for an answer.

**The order of the questions is the precedence of the reasons** (rules.md 2): the first that has an answer ends it.

1. Did it decode? No: MALFORMED.
2. Has it been answered (``answers.first_answer``)? By id, or by its writer's number: DUPLICATE, whatever it says now.
3. May it be decided at all, whatever it asks for (``form.refused_unseen``)? PROPOSAL_EXPIRED, WRITER_FENCED, TOO_LATE,
   BASE_UNKNOWN, BASE_EXPIRED.
4. Could it ever be, had it been alone (``form.check_form``, ``changeset.plan_changes``)? No: INVALID, for the first thing that
   is wrong. It is raised as ``InvalidChangeError``, the one exception that is caught here.
5. What did others do in the window that it cannot live with? CONFLICT, with everything that was found, sorted.
6. Nothing: COMMITTED, with the ids that it was given.

INVALID goes before CONFLICT, because a writer that rebases cannot mend it. The two are kept apart like this: whatever the
writer could see is judged against the base, and is INVALID if it does not fit; what only the window explains (a file that
went, a table that was altered, a row that changed) is let pass in step 4, and step 5 is bound to find it. The state knows
single files and rows back to ``index_floor``; of an older base only what was done to whole tables is known, and counts.

**Step 4: the plan.** ``plan.Plan`` is made for one proposal and thrown away. It knows nothing itself; its parts do:

- ``names``: what a name means to the writer: at the base, overlaid by what earlier changes of the same changeset did;
- ``ids``: what it is given, from the counters at the head, in the order of the changes;
- ``bounds``: how much it may hold, and what only once;
- ``rows``: the rows of keyed tables, at the head, overlaid likewise.

``changeset`` hands each change, in order, to the judge of its kind: ``objects``, ``files`` or ``rows``. A judge says what the
change would do (an ``Effect``) and what it touches (a ``Footprint``: objects and files of the state, never names). What the
changeset itself made has no footprint, for nobody else can have touched it.

**Step 5: the window.** Three searches, none of which stops at its first hit:

- *footprints* against what was committed: ``conflict_matrix`` has all pairs of kinds, ``conflict_rules`` the rules that it
  names. A DELETE beside a compaction is one cell of it. A rule looks things up in the index, so it costs the proposal's
  size, not the window's;
- *rows* of keyed tables meet by key, and may be settled by the table's policy instead of refused (``row_conflicts``,
  ``row_references``). Later changes of a changeset have to see how earlier ones were settled, so this is judged within step
  4 and only gathered here; the matrix says ``key`` where it applies;
- *reads*, under SERIALIZABLE alone: was anything of what the writer read changed (``reads``, with ``proofs`` from statistics
  that a file cannot have mattered)?

A hit names the latest snapshot that did it; ``conflicts`` makes of it the ``Conflict`` that people read.

**What else can change a verdict** than state and proposal is in one value, ``rules.Rules``: row handlers, the reader of
statistics, and rules taken as if, by which ``commitlog replay`` and ``explain`` ask what would have been. Handlers are
code from elsewhere; their answers are in the outcome and are never asked for again.
"""

from __future__ import annotations

from typing import assert_never

from commitlog.domain import model as m
from commitlog.domain.deciding.answers import START, Decision, first_answer
from commitlog.domain.deciding.changeset import plan_changes
from commitlog.domain.deciding.conflict_matrix import check_footprint
from commitlog.domain.deciding.conflicts import attempt_text, make_conflict, sorted_conflicts
from commitlog.domain.deciding.form import check_form, refused_unseen
from commitlog.domain.deciding.plan import Plan
from commitlog.domain.deciding.reads import find_read_hits
from commitlog.domain.deciding.rules import AS_SET, Rules
from commitlog.domain.state.index import SequencerState
from commitlog.errors import InvalidChangeError


def decide(
    state: SequencerState,
    proposal: m.Proposal | m.MalformedProposal,
    *,
    now_ms: int,
    source: m.Position = START,
    epoch: int = 0,
    proposal_bytes: bytes | None = None,
    rules: Rules = AS_SET,
) -> m.Outcome:
    """Give the one answer to a proposal.

    now_ms: the clock, which the outcome keeps as ``decided_at_ms`` (never falling). source: where the proposal came from.
    epoch: of this sequencer. proposal_bytes: as they arrived. rules: what else can change the verdict.
    """
    decision = Decision(state, max(now_ms, state.decided_at_ms), source, epoch, proposal_bytes)
    if isinstance(proposal, m.MalformedProposal):
        return decision.malformed(proposal)
    if (first := first_answer(state, proposal, source.partition)) is not None:
        return decision.duplicate(proposal, first)
    refusal = refused_unseen(state, proposal, source, decision.decided_at_ms)
    if refusal is not None:
        return decision.rejected(proposal, *refusal)
    plan = Plan(state, proposal.base_snapshot_id, rules, decision.decided_at_ms)
    try:
        check_form(state, proposal, source, decision.decided_at_ms)
        plan_changes(plan, proposal)
        conflicts = _collect_conflicts(plan, proposal)
    except InvalidChangeError as error:
        return decision.rejected(proposal, m.Reason.INVALID, str(error), error.code)
    if conflicts:
        return decision.conflicting(proposal, conflicts)
    return decision.committed(proposal, plan)


def find_conflicts(state: SequencerState, proposal: m.Proposal, *, rules: Rules = AS_SET) -> tuple[m.Conflict, ...]:
    """Everything committed since the base that the proposal cannot live with, sorted; InvalidChangeError if it never could."""
    plan = Plan(state, proposal.base_snapshot_id, rules, state.decided_at_ms)
    plan_changes(plan, proposal)
    return tuple(_collect_conflicts(plan, proposal))


def _collect_conflicts(plan: Plan, proposal: m.Proposal) -> list[m.Conflict]:
    state, base, changes = plan.state, plan.base, proposal.changes
    found: list[m.Conflict] = []
    for footprint in plan.footprints:
        for hit in check_footprint(state, footprint, base):
            attempt = attempt_text(changes[footprint.change])
            found.append(make_conflict(state, hit, attempt=attempt, base_snapshot_id=base, change=footprint.change))
    for index, hit in plan.row_hits:
        attempt = attempt_text(changes[index])
        found.append(make_conflict(state, hit, attempt=attempt, base_snapshot_id=base, change=index))
    if plan.rules.isolation_of(proposal) is m.Isolation.SERIALIZABLE:
        for index, read in enumerate(proposal.reads):
            for hit in find_read_hits(state, read, base, plan.rules.decode_statistics):
                attempt = _read_text(read)
                found.append(make_conflict(state, hit, attempt=attempt, base_snapshot_id=base, read=index))
    return sorted_conflicts(found) if found else found


def _read_text(read: m.Read) -> str:
    match read:
        case m.TableRead():
            return f"commit what was read from table {read.schema}.{read.table}"
        case m.NameRead():
            return f"commit what relied on the name {read.schema}" + (f".{read.name}" if read.name is not None else "")
        case m.RowsRead():
            return f"commit what was read from rows of table {read.schema}.{read.table}"
        case _:
            assert_never(read)
