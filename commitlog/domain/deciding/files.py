"""Changes to files: APPEND, DELETE and COMPACT against what is live (rules.md 12.3, 12.4, 12.6, 12.7, 12.25).

Whether a DELETE and a compaction committed since the base can both be is not judged here: ``conflict_matrix`` says by which
rule they meet, ``conflict_rules`` holds it. Here they are found possible or not, and what they touch is named.
"""

from __future__ import annotations

from pyroaring import AbstractBitMap64, BitMap64, FrozenBitMap64

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Footprint
from commitlog.domain.deciding.new_files import check_data_files, check_file
from commitlog.domain.deciding.plan import Plan, Planned
from commitlog.domain.model.definitions import counted, quoted
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import TableState
from commitlog.errors import InvalidChangeError

_NO_POSITIONS = FrozenBitMap64()


def append(plan: Plan, change: m.Append, index: int) -> Planned:
    """New files for a table."""
    table = _of_files(plan, change, takes="row changes and FLUSH")
    if not change.files:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "APPEND without files: nothing to commit")
    start = plan.ids.rows(table, check_data_files(plan, table, change.files))
    for file in change.files:
        plan.ids.data_file(file, start)
        start += file.record_count
    return m.Effect(table.table_id), Footprint(index, change.kind, entry=table)


def delete(plan: Plan, change: m.Delete, index: int) -> Planned:
    """Rows of files that are there go: by position, by a delete file, or with their file."""
    table = _of_files(plan, change, takes="DELETE_ROW")
    plan.bounds.count_files(len(change.delete_files))
    touched: dict[int, AbstractBitMap64 | None] = {}
    for given in change.positions:
        plan.bounds.name_data_file(given.data_file_id)
        touched[given.data_file_id] = _plan_positions(plan, table, given)
    for delete_file in change.delete_files:
        plan.bounds.name_data_file(delete_file.data_file_id)
        _plan_delete_file(plan, table, delete_file)
        touched[delete_file.data_file_id] = None
    for data_file_id in change.whole_files:
        plan.bounds.name_data_file(data_file_id)
        _is_live(plan, table, data_file_id)
        touched[data_file_id] = None
    if not touched:
        raise InvalidChangeError(
            m.InvalidCode.NOTHING_TO_COMMIT, "DELETE of nothing: no positions, delete files or whole files"
        )
    granularity = plan.granularity_since_base(table)
    return m.Effect(table.table_id), Footprint(index, change.kind, entry=table, files=touched, granularity=granularity)


def compact(plan: Plan, change: m.Compact, index: int) -> Planned:
    """New files take the place of some that are there, with the same live rows."""
    table = _of_files(plan, change, takes="FLUSH")
    if not change.replaced:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "COMPACT of no file: nothing to commit")
    live_rows = 0
    certain = True
    for data_file_id in change.replaced:
        plan.bounds.name_data_file(data_file_id)
        if _is_live(plan, table, data_file_id):
            live_rows += plan.state.record_counts.get(data_file_id) - plan.state.deleted_count(data_file_id)
            since = _deleted_since(plan, table, data_file_id)
            certain = certain and since is not None and not since
        else:
            certain = False
    made = check_data_files(plan, table, change.files)
    if plan.names.definition(table) is None:
        # It commits beside an alteration, after which nobody knows what the partition values of its files mean.
        plan.bounds.count_bucket_values(table.definition.unknown_buckets(None) * len(change.files))
    for file in change.files:
        plan.ids.data_file(file, None)
    if certain and made != live_rows:
        raise InvalidChangeError(
            m.InvalidCode.ROW_COUNT_DIFFERS,
            f"the replaced files hold {counted(live_rows, 'live row')}, the new ones {made}",
        )
    footprint = Footprint(
        index,
        change.kind,
        entry=table,
        old_name=fold(change.table),
        files=dict.fromkeys(change.replaced),
        granularity=plan.granularity_since_base(table),
    )
    return m.Effect(table.table_id), footprint


# --- tables and files that are there ----------------------------------------------------------------------------------


def _of_files(plan: Plan, change: m.Append | m.Delete | m.Compact, *, takes: str) -> TableState:
    """The table that a change names; InvalidChangeError where that is keyed, and ``takes`` other changes."""
    table = plan.names.table(change.schema, change.table)
    if table.definition.keyed:
        raise InvalidChangeError(
            m.InvalidCode.TABLE_KEYED, f"table {quoted(table.name)} is keyed: it takes {takes}, no {change.kind}"
        )
    return table


def _is_live(plan: Plan, table: TableState, data_file_id: int) -> bool:
    """Whether a named file is live; False when it went after the base (a conflict), else InvalidChangeError."""
    if data_file_id in table.live_files:
        return True
    if not _gone_since(plan, table, data_file_id):
        raise InvalidChangeError(
            m.InvalidCode.FILE_UNKNOWN, f"data file {data_file_id} is not a live file of table {quoted(table.name)}"
        )
    return False


def _gone_since(plan: Plan, table: TableState, data_file_id: int) -> bool:
    """Whether a file that is not live in the table went after the base, or may have."""
    state = plan.state
    if data_file_id >= state.next_file_id or state.record_counts.holds(data_file_id):
        return False
    return state.may_have_gone(table, data_file_id, plan.base)


def _deleted_since(plan: Plan, table: TableState, data_file_id: int) -> AbstractBitMap64 | None:
    """Positions deleted since the base; None when that can't be told (then a conflict is certain)."""
    if plan.base < plan.state.index_floor:
        return _NO_POSITIONS if table.last.get(m.ChangeKind.DELETE, -1) <= plan.base else None
    history = plan.state.file_history.get(data_file_id)
    if history is None or history.last_delete() <= plan.base:
        return _NO_POSITIONS
    since = BitMap64()
    for delete in history.deletes:
        if delete.snapshot_id > plan.base:
            since |= delete.rows
    return since


def _checked_positions(positions: m.RowPositions, data_file_id: int) -> FrozenBitMap64:
    if isinstance(positions, tuple):
        raise InvalidChangeError(
            m.InvalidCode.POSITION_INVALID, f"the positions in data file {data_file_id} are negative or given twice"
        )
    if not positions:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, f"no positions are given in data file {data_file_id}")
    return positions


def _check_range(plan: Plan, positions: FrozenBitMap64, data_file_id: int) -> None:
    count = plan.state.record_counts.get(data_file_id)
    if positions.max() >= count:
        raise InvalidChangeError(
            m.InvalidCode.POSITION_INVALID,
            f"position {positions.max()} is beyond data file {data_file_id}, which has {counted(count, 'row')}",
        )


def _plan_positions(plan: Plan, table: TableState, given: m.PositionDelete) -> FrozenBitMap64:
    positions = _checked_positions(given.rows, given.data_file_id)
    plan.bounds.count_positions(len(positions))
    if len(positions) > plan.state.settings.inlined_positions_max:
        raise InvalidChangeError(
            m.InvalidCode.TOO_MANY_POSITIONS,
            f"{len(positions)} positions in data file {given.data_file_id} are more than "
            f"{plan.state.settings.inlined_positions_max} (inlined_positions_max): use a delete file",
        )
    if _is_live(plan, table, given.data_file_id):
        _check_range(plan, positions, given.data_file_id)
        deletes = plan.state.deletes.get(given.data_file_id)
        since = _deleted_since(plan, table, given.data_file_id)
        if deletes is not None and since is not None:
            repeated = (positions & deletes.inlined | positions & deletes.filed) - since
            if repeated:
                raise InvalidChangeError(
                    m.InvalidCode.POSITION_DELETED,
                    f"position {repeated.min()} of data file {given.data_file_id} is deleted already",
                )
    return positions


def _plan_delete_file(plan: Plan, table: TableState, delete_file: m.DeleteFile) -> None:
    check_file(plan, table, delete_file)
    data_file_id = delete_file.data_file_id
    positions = _checked_positions(delete_file.rows, data_file_id)
    plan.ids.delete_file()
    if not _is_live(plan, table, data_file_id):
        return
    _check_range(plan, positions, data_file_id)
    since = _deleted_since(plan, table, data_file_id)
    deletes = plan.state.deletes.get(data_file_id)
    if deletes is None or since is None or since:
        return
    if not deletes.filed <= positions:
        raise InvalidChangeError(
            m.InvalidCode.DELETE_FILE_INVALID,
            f"the delete file {quoted(delete_file.path)} lacks position {(deletes.filed - positions).min()} of the earlier one "
            f"of data file {data_file_id}: delete files are cumulative",
        )
    if shared := positions & deletes.inlined:
        raise InvalidChangeError(
            m.InvalidCode.DELETE_FILE_INVALID,
            f"the delete file {quoted(delete_file.path)} repeats position {shared.min()} of data file {data_file_id}, "
            "which is deleted by position already",
        )
    if len(positions) == len(deletes.filed):
        raise InvalidChangeError(
            m.InvalidCode.DELETE_FILE_INVALID,
            f"the delete file {quoted(delete_file.path)} adds nothing to the earlier one",
        )
