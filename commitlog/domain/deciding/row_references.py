"""Foreign keys between rows: every parent must be there, and nobody may refer to what goes (rules.md 12.18, 12.23).

What was not so at the base is INVALID; what came so since, by another proposal, is a conflict.
"""

from __future__ import annotations

from commitlog.domain.deciding.conflicts import Hit, gone_deed, object_of
from commitlog.domain.deciding.plan import Plan
from commitlog.domain.deciding.row_overlay import OWN
from commitlog.domain.model import ConflictKind, InvalidCode, Row
from commitlog.domain.model.definitions import TableDefinition, quoted
from commitlog.domain.state.index import ROW_CHANGES, TableState
from commitlog.domain.state.row_keys import key_of, provided_value, referenced_values, shown_key, unique_values
from commitlog.domain.state.rows import RowVersion
from commitlog.errors import InvalidChangeError


def check_references(plan: Plan, index: int, table: TableState, definition: TableDefinition, image: Row) -> None:
    """Every parent of an image must be there; one that was deleted since the base is a conflict of change ``index``."""
    for key, value in zip(definition.foreign_keys, referenced_values(definition, image), strict=True):
        if value is None:
            continue
        parent = plan.names.table_of_id(key.ref_table_id)
        if parent is table:
            own = provided_value(
                definition, key.ref_column_ids, key_of(definition, image), unique_values(definition, image)
            )
            if own == value:
                continue
        if plan.rows.provider(parent, key.ref_column_ids, value) is None:
            _parent_missing(plan, index, parent, key.ref_column_ids, value)


def _parent_missing(plan: Plan, index: int, parent: TableState, ref_column_ids: tuple[int, ...], value: str) -> None:
    broken = f"no row {quoted(shown_key(value))} in table {quoted(parent.name)}, which a foreign key refers to"
    assert parent.rows is not None
    if plan.base < plan.state.index_floor:
        last = parent.last_of(ROW_CHANGES)
        if last <= plan.base:
            raise InvalidChangeError(InvalidCode.PARENT_MISSING, broken)
        plan.row_hits.append((index, Hit(ConflictKind.TABLE_ROWS_CHANGED, last, object_of(parent))))
        return
    if (forgone := plan.rows.forgone(parent, ref_column_ids, value)) is not None:
        met, snapshot_id = forgone
        where = object_of(parent, row_key=shown_key(met))
        detail = f"beside which there is no row {quoted(shown_key(value))}"
        plan.row_hits.append((index, Hit(ConflictKind.FOREIGN_KEY, snapshot_id, where, detail, "changed {object}")))
        return
    key = plan.rows.provider_at_base(parent, ref_column_ids, value, plan.base)
    if key is None or plan.rows.is_overlaid(parent, key):
        raise InvalidChangeError(InvalidCode.PARENT_MISSING, broken)
    where = object_of(parent, row_key=shown_key(key))
    at = parent.rows.last_change(key)
    deed = gone_deed(parent, at) if plan.rows.live(parent, key) is None else "changed {object}"
    plan.row_hits.append((index, Hit(ConflictKind.FOREIGN_KEY, at, where, "to which it refers", deed)))


def check_children(
    plan: Plan, index: int, table: TableState, definition: TableDefinition, key: str, gone: RowVersion
) -> None:
    """Nobody may refer to what ``gone`` offered: INVALID, or a conflict with what came to refer to it since the base."""
    for child, number in plan.names.referrers(table):
        ref_column_ids = child.definition.foreign_keys[number].ref_column_ids
        value = provided_value(definition, ref_column_ids, key, gone.unique)
        if value is None or plan.rows.provider(table, ref_column_ids, value) is not None:
            continue
        for child_key in sorted(plan.rows.referring(child, number, value)):
            _check_child(plan, index, table, child, number, child_key, value)


def _check_child(
    plan: Plan, index: int, table: TableState, child: TableState, number: int, child_key: str, value: str
) -> None:
    assert child.rows is not None
    still = (
        f"row {quoted(shown_key(child_key))} of table {quoted(child.name)} still refers to row "
        f"{quoted(shown_key(value))} of table {quoted(table.name)}"
    )
    version = plan.rows.live(child, child_key)
    settled_by = plan.rows.settled_by(child, child_key)
    if settled_by is not None:
        raced, snapshot_id = True, settled_by
    elif version is None or version.snapshot_id == OWN:
        raise InvalidChangeError(InvalidCode.ROW_REFERENCED, still)
    elif plan.base < plan.state.index_floor:
        raced, snapshot_id = version.snapshot_id > plan.base, version.snapshot_id
    else:
        at_base = child.rows.at(child_key, plan.base)
        raced, snapshot_id = at_base is None or at_base.references[number] != value, version.snapshot_id
    if not raced:
        raise InvalidChangeError(InvalidCode.ROW_REFERENCED, still)
    where = object_of(child, row_key=shown_key(child_key))
    hit = Hit(ConflictKind.FOREIGN_KEY, snapshot_id, where, "which refers to it", "inserted or changed {object}")
    plan.row_hits.append((index, hit))
