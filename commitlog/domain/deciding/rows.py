"""Row changes of keyed tables, plain inserts into others, and FLUSH: whether each can be, and whom it is handed to.

How a row change meets what was committed since the base is in ``row_conflicts``.
"""

from __future__ import annotations

from contextlib import suppress

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Footprint, Hit, object_of
from commitlog.domain.deciding.new_files import check_data_file
from commitlog.domain.deciding.plan import Plan, Planned
from commitlog.domain.deciding.row_conflicts import RowCheck, full_row
from commitlog.domain.deciding.site_rows import ArrivingRow
from commitlog.domain.model.defining import inlining_problem
from commitlog.domain.model.definitions import TableDefinition, quoted
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.texts import check_row_text, check_text, check_time_ms
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import ROW_CHANGES, TableState
from commitlog.domain.state.row_keys import RowChange, given_key, identity_in, key_of, shown_key
from commitlog.domain.state.rows import KeyedRows
from commitlog.errors import InvalidChangeError


def change_row(plan: Plan, change: RowChange, index: int) -> Planned:
    """A row comes, changes or goes; races go to the plan's ``row_hits`` or ``resolutions``."""
    table = plan.names.table(change.schema, change.table)
    return _effect(plan, table, change, index), Footprint(index, change.kind, entry=table)


def _effect(plan: Plan, table: TableState, change: RowChange, index: int) -> m.Effect:
    if not table.definition.keyed and not isinstance(change, m.InsertRow):
        raise InvalidChangeError(
            m.InvalidCode.PRIMARY_KEY_MISSING,
            f"cannot run UPDATE or DELETE on table {quoted(table.name)} because it does not have a primary key",
        )
    _check_form(change)
    definition = plan.names.definition(table)
    if definition is None:
        with suppress(InvalidChangeError):
            _assume_keys(plan, table, change)
        return m.Effect(table.table_id)
    if (problem := inlining_problem(definition)) is not None:
        raise InvalidChangeError(
            m.InvalidCode.ROWS_NOT_INLINABLE, f"table {quoted(table.name)} takes no rows outside of files: {problem}"
        )
    if table.rows is None:
        assert isinstance(change, m.InsertRow)
        full_row(plan, definition, change.row)
        plan.ids.inlined_rows(table)
        return m.Effect(table.table_id, row_id=plan.ids.row(table))
    if plan.arrival is not None:
        return ArrivingRow(plan, plan.arrival, table, definition, change, index).run()
    if _is_base_too_old(plan, table, index):
        _assume_refused(plan, table, definition, change)
        return m.Effect(table.table_id)
    return RowCheck(plan, table, definition, change, index).run()


def _check_form(change: RowChange) -> None:
    where = f"a row of table {quoted(change.table)}"
    if not isinstance(change, m.DeleteRow):
        check_row_text(change.row, where)
    if not isinstance(change, m.InsertRow):
        check_row_text(change.key, where)
    _check_said(change)


def _assume_keys(plan: Plan, table: TableState, change: RowChange) -> None:
    """Let the later changes see one that is refused for what became of its table: its keys, which are what they were."""
    if table.rows is None or table.dropped_at is not None:
        return
    definition = table.definition.of_keys()
    if not isinstance(change, m.DeleteRow):
        row = {name: value for name, value in change.row.items() if fold(name) in definition.by_name}
        change = change.replace(row=row)
    _assume_refused(plan, table, definition, change)


def _assume_refused(plan: Plan, table: TableState, definition: TableDefinition, change: RowChange) -> None:
    """Let the later changes see one that is refused already as it was meant."""
    old_key = None if isinstance(change, m.InsertRow) else given_key(definition, change.key)
    image = None if isinstance(change, m.DeleteRow) else complete_row(definition, change.row)
    new_key = None if image is None else key_of(definition, image)
    for key in dict.fromkeys((old_key, new_key)):
        if key is not None:
            plan.bounds.name_key(table, key)
    plan.rows.put_refused(table, definition, old_key, image)


def _is_base_too_old(plan: Plan, table: TableState, index: int) -> bool:
    """Beyond the window no policy applies: a conflict if the table's rows changed since the base."""
    if plan.base >= plan.state.index_floor:
        return False
    last = table.last_of(ROW_CHANGES)
    if last <= plan.base:
        return False
    plan.row_hits.append((index, Hit(m.ConflictKind.TABLE_ROWS_CHANGED, last, object_of(table))))
    return True


def _check_said(change: RowChange) -> None:
    """Check what a row change says of its time, its origin and which row it is."""
    if change.row_time_us is not None and not m.TIME_US_MIN <= change.row_time_us <= m.TIME_US_MAX:
        raise InvalidChangeError(
            m.InvalidCode.TIME_OUT_OF_RANGE, f"row_time_us {change.row_time_us} is beyond PostgreSQL's times"
        )
    if change.origin is not None:
        if not change.origin.node:
            raise InvalidChangeError(m.InvalidCode.ORIGIN_INVALID, "the origin's node name is empty")
        if change.origin.tick < 0 or change.origin.priority < 0:
            raise InvalidChangeError(m.InvalidCode.ORIGIN_INVALID, "the origin's tick or priority is negative")
        check_time_ms("the origin's stamp_ms", change.origin.stamp_ms)
        check_text(change.origin.node, "the origin's node")
    if (identity := identity_in(change)) is not None:
        check_text(shown_key(identity), "a row's identity")


# --- flush ------------------------------------------------------------------------------------------------------------


def flush(plan: Plan, change: m.Flush, index: int) -> Planned:
    """Rows that are outside of files move into new ones."""
    table = plan.names.table(change.schema, change.table)
    if table.rows is None:
        raise InvalidChangeError(
            m.InvalidCode.PRIMARY_KEY_MISSING, f"table {quoted(table.name)} has no primary key: it takes no FLUSH"
        )
    if not change.files:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "FLUSH without files: nothing to commit")
    plan.bounds.count_files(len(change.files))
    row_ids: list[int] = []
    for file in change.files:
        check_data_file(plan, table, file)
        if file.row_ids is None or len(file.row_ids) != file.record_count:
            raise InvalidChangeError(
                m.InvalidCode.ROW_COUNT_DIFFERS,
                f"file {quoted(file.path)} gives another number of row ids than it has rows",
            )
        if not file.row_ids:
            raise InvalidChangeError(
                m.InvalidCode.NOTHING_TO_COMMIT, f"file {quoted(file.path)} holds no rows: nothing to flush"
            )
        row_ids += file.row_ids
        plan.ids.data_file(file, None)
    for row_id in row_ids:
        plan.bounds.name_flushed_row(table, row_id)
    if table.dropped_at is None:
        _check_flushed(plan, table, table.rows, row_ids)
    return m.Effect(table.table_id), Footprint(index, change.kind, entry=table, row_ids=row_ids)


def _check_flushed(plan: Plan, table: TableState, rows: KeyedRows, row_ids: list[int]) -> None:
    """Every row must be outside of files, unless it changed since the base: that is for the conflict rules."""
    if plan.base < plan.state.index_floor and table.last_of((*ROW_CHANGES, m.ChangeKind.FLUSH)) > plan.base:
        return
    for row_id in row_ids:
        if row_id not in rows.inlined and rows.last_touch(row_id) <= plan.base:
            raise InvalidChangeError(
                m.InvalidCode.ROW_NOT_INLINED,
                f"row id {row_id} of table {quoted(table.name)} is no row outside of files",
            )
