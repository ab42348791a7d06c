"""Looking at the changes of a proposal one after another: which judge each kind has, and which kinds go together.

The first change that cannot be raises ``InvalidChangeError``; what was committed meanwhile is left to the conflict rules,
which get a ``Footprint`` per change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.deciding import files, objects, rows
from commitlog.domain.deciding.plan import Plan, Planned
from commitlog.domain.deciding.site_rows import arriving
from commitlog.domain.deciding.standing_rows import settle_arrivals, settle_own
from commitlog.domain.model.nodes import changed_node, node_and_rest
from commitlog.domain.model.settings import changed_settings
from commitlog.errors import InvalidChangeError

K = m.ChangeKind
_ALONE = (K.COMPACT, K.FLUSH, K.EXPIRE_SNAPSHOTS, K.CONFIGURE)


def plan_changes(plan: Plan, proposal: m.Proposal) -> None:
    """Look at every change in order; raise InvalidChangeError at the first that cannot be."""
    check_mixture(proposal)
    plan.arrival = arriving(plan.state, proposal)
    if plan.arrival is not None and plan.arrival.is_known:
        plan.effects += [m.Effect(skipped=True) for _ in proposal.changes]
        return
    for index, change in enumerate(proposal.changes):
        try:
            effect, footprint = JUDGES[change.kind](plan, change, index)
        except InvalidChangeError as error:
            if len(proposal.changes) == 1:
                raise
            raise InvalidChangeError(error.code, f"change {index} ({change.kind}): {error}") from None
        plan.effects.append(effect)
        if change.kind is not K.APPEND and effect.object_id is not None and not effect.skipped:
            plan.bounds.count_object(effect.object_id)
            plan.changes_schema = plan.changes_schema or _changes_schema(change)
        if footprint is not None and not plan.names.is_made_here(footprint.entry):
            plan.footprints.append(footprint)
    if plan.arrival is not None:
        settle_arrivals(plan)
    elif plan.has_rows and not plan.row_hits:
        settle_own(plan)
    if plan.has_rows:
        plan.rows.check_count()


def check_mixture(proposal: m.Proposal) -> None:
    """Refuse an empty changeset, and maintenance beside other kinds of change (rules.md 12.5)."""
    if proposal.open_writer:
        if proposal.changes:
            raise InvalidChangeError(
                m.InvalidCode.OPEN_WRITER_NOT_ALONE, "open_writer asks for an epoch and takes no changes"
            )
        if proposal.writer_seq is not None:
            raise InvalidChangeError(m.InvalidCode.OPEN_WRITER_NOT_ALONE, "open_writer takes no writer_seq")
        return
    if not proposal.changes:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "nothing to commit: the changeset is empty")
    if len(proposal.changes) == 1:
        return
    kinds = {change.kind for change in proposal.changes}
    for kind in _ALONE:
        if kind in kinds and len(kinds) > 1:
            raise InvalidChangeError(
                m.InvalidCode.CHANGE_NOT_ALONE, f"{kind} stands alone in its changeset, without other kinds of change"
            )


def _changes_schema(change: m.Change) -> bool:
    """Whether the catalog's schema version rises; properties of a table are ours and not in it."""
    if isinstance(change, m.AlterTable):
        return any(step.op is not m.AlterOp.SET_PROPERTY for step in change.alterations)
    return change.kind in _OBJECT_CHANGES


def _expire(plan: Plan, change: m.ExpireSnapshots, _: int) -> Planned:
    if change.older_than_snapshot_id < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"older_than_snapshot_id {change.older_than_snapshot_id} is negative"
        )
    if change.older_than_snapshot_id > plan.state.head_snapshot_id:
        raise InvalidChangeError(
            m.InvalidCode.SNAPSHOT_BEYOND_HEAD,
            f"older_than_snapshot_id {change.older_than_snapshot_id} is beyond the head {plan.state.head_snapshot_id}",
        )
    return m.Effect(), None


def _configure(plan: Plan, change: m.Configure, _: int) -> Planned:
    of_node, rest = node_and_rest(change.settings)
    if of_node:
        plan.node = changed_node(plan.node, of_node, plan.settings.name_length_max)
    if rest or not of_node:
        plan.settings = changed_settings(plan.settings, rest)
        objects.check_handler(plan, plan.settings.on_conflict if "on_conflict" in rest else None)
    return m.Effect(), None


_OBJECT_CHANGES: dict[m.ChangeKind, Callable[[Plan, Any, int], Planned]] = {
    K.CREATE_SCHEMA: objects.create_schema,
    K.DROP_SCHEMA: objects.drop_schema,
    K.CREATE_TABLE: objects.create_table,
    K.DROP_TABLE: objects.drop_table,
    K.RENAME_TABLE: objects.rename_table,
    K.ALTER_TABLE: objects.alter_table,
    K.CREATE_VIEW: objects.create_view,
    K.REPLACE_VIEW: objects.replace_view,
    K.DROP_VIEW: objects.drop_view,
}
JUDGES: dict[m.ChangeKind, Callable[[Plan, Any, int], Planned]] = {
    **_OBJECT_CHANGES,
    K.APPEND: files.append,
    K.DELETE: files.delete,
    K.COMPACT: files.compact,
    K.INSERT_ROW: rows.change_row,
    K.UPDATE_ROW: rows.change_row,
    K.DELETE_ROW: rows.change_row,
    K.FLUSH: rows.flush,
    K.EXPIRE_SNAPSHOTS: _expire,
    K.CONFIGURE: _configure,
}
"""The judge of each kind: ``judge(plan, change, its index)`` says what it does and touches, or raises InvalidChangeError."""
