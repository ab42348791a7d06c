"""Judging requests on files: APPEND, DELETE and COMPACT against what is live (rules.md 12.3, 12.4, 12.6, 12.7, 12.25)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyroaring import AbstractBitMap64, BitMap64, FrozenBitMap64

from commitlog.domain import model as m
from commitlog.domain.model.definitions import FOREIGN_PATHS, InvalidChangeError, TableDefinition, quoted
from commitlog.domain.model.texts import check_text
from commitlog.domain.model.types import canonical_value
from commitlog.domain.state.index import TableState

if TYPE_CHECKING:
    from commitlog.domain.deciding.planning import Plan

_DELETE, _COMPACT = m.ChangeKind.DELETE, m.ChangeKind.COMPACT
_NO_ROWS = FrozenBitMap64()
_NO_PARTS = frozenset({"", ".", ".."})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN = re.compile(r"[\w=-][\w.=-]*(?:/[\w=-][\w.=-]*)*", re.ASCII)
"""What most paths are like, and what is right about a relative one without a closer look."""


def plan_append(plan: Plan, table: TableState, change: m.Append) -> None:
    """Judge the files of an APPEND and give them ids and row ids."""
    if table.definition.keyed:
        raise InvalidChangeError(
            m.InvalidCode.TABLE_KEYED, f"table {quoted(table.name)} is keyed: it takes row changes and FLUSH, no APPEND"
        )
    if not change.files:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "APPEND without files: nothing to commit")
    rows = _check_files(plan, table, change.files)
    start = plan.take_row_ids(table, rows)
    for file in change.files:
        give_file_id(plan, file, start)
        start += file.record_count


def give_file_id(plan: Plan, file: m.DataFile, row_id_start: int | None) -> int:
    """Give a new file its ids: its name mapping first, if it brings one."""
    if file.name_mapping is not None:
        plan.ids.file(plan.ids.mapping_ids)
    plan.ids.row_id_starts.append(row_id_start)
    return plan.ids.file(plan.ids.data_file_ids)


def _check_files(plan: Plan, table: TableState, files: tuple[m.DataFile, ...]) -> int:
    """Check new files; return how many rows they hold together."""
    plan.count_files(len(files))
    rows = size = 0
    for file in files:
        check_data_file(plan, table, file)
        rows += file.record_count
        size += file.file_size_bytes
    if size + table.file_bytes > m.BIGINT_MAX:
        raise InvalidChangeError(
            m.InvalidCode.TABLE_TOO_LARGE,
            f"table {quoted(table.name)} would hold more bytes than a 64-bit number can count",
        )
    return rows


def check_data_file(plan: Plan, table: TableState, file: m.DataFile) -> None:
    """Check what a new data file says of itself, and of the table's columns."""
    check_file(plan, table, file)
    known = plan.definition(table)
    if known is not None:
        _check_columns(known, file)
        plan.count_bucket_values(known.unknown_buckets(file.partition_values))


def check_file(plan: Plan, table: TableState, file: m.DataFile | m.DeleteFile) -> None:
    """Check what a file says of itself."""
    _check_path(plan, table, file)
    if file.file_size_bytes < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE,
            f"file {quoted(file.path)}: file_size_bytes {file.file_size_bytes} is negative",
        )
    if file.footer_size is not None and file.footer_size < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"file {quoted(file.path)}: footer_size {file.footer_size} is negative"
        )
    if isinstance(file, m.DataFile) and file.record_count < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"file {quoted(file.path)}: record_count {file.record_count} is negative"
        )


def _check_path(plan: Plan, table: TableState, file: m.DataFile | m.DeleteFile) -> None:
    """Whose a file is must be seen from its path, and no file may be taken twice (rules.md 12.31)."""
    path = file.path
    if not (file.path_is_relative and _PLAIN.fullmatch(path)):
        _look_closely_at_path(plan, table, file)
    if path in plan.paths:
        raise InvalidChangeError(
            m.InvalidCode.PATH_GIVEN_TWICE, f"file {quoted(path)} is given twice in this changeset"
        )
    plan.paths.add(path)


def _look_closely_at_path(plan: Plan, table: TableState, file: m.DataFile | m.DeleteFile) -> None:
    path = file.path
    if not path:
        raise InvalidChangeError(m.InvalidCode.PATH_INVALID, "a file has an empty path")
    check_text(path, "a file's path")
    if file.path_is_relative and (_SCHEME.match(path) or any(part in _NO_PARTS for part in path.split("/"))):
        raise InvalidChangeError(
            m.InvalidCode.PATH_INVALID,
            f"file {quoted(path)}: a path is relative to its table's folder, without scheme, and without empty, . or .. parts",
        )
    if not file.path_is_relative:
        definition = plan.definitions.get(table.table_id) or table.definition
        if definition.properties.get(FOREIGN_PATHS) != "true":
            raise InvalidChangeError(
                m.InvalidCode.PATH_OUTSIDE_TABLE,
                f"file {quoted(path)} may lie outside of the folder of table {quoted(table.name)}: write it there and name it "
                f"relative to it, or set the table's property {FOREIGN_PATHS} to true",
            )


def _check_columns(table: TableDefinition, file: m.DataFile) -> None:
    if isinstance(file.statistics, tuple):
        for column in file.statistics:
            _check_statistics(file, column)
    if file.partition_values is not None:
        _check_partition_values(table, file, file.partition_values)
    for mapped in file.name_mapping or ():
        check_text(mapped.source_name, f"a source name of file {quoted(file.path)}")
        table.column(mapped.column)


def _check_statistics(file: m.DataFile, column: m.ColumnStatistics) -> None:
    for text in (column.column, column.min, column.max):
        if isinstance(text, str):
            check_text(text, f"a statistic of file {quoted(file.path)}", multiline=True)
    for count in (column.null_count, column.value_count, column.size_bytes):
        if count is not None and count < 0:
            raise InvalidChangeError(
                m.InvalidCode.NUMBER_NEGATIVE,
                f"file {quoted(file.path)}: a count of column {quoted(column.column)} is negative",
            )


def _check_partition_values(table: TableDefinition, file: m.DataFile, values: tuple[m.Scalar, ...]) -> None:
    if len(values) != len(table.partition_by):
        raise InvalidChangeError(
            m.InvalidCode.PARTITION_VALUES_INVALID,
            f"file {quoted(file.path)} has {len(values)} partition values, table {quoted(table.name)} has "
            f"{len(table.partition_by)} partition keys",
        )
    for key, value in zip(table.partition_by, values, strict=True):
        column = table.column_by_id(key.column_id)
        if isinstance(value, str):
            check_text(value, f"a partition value of file {quoted(file.path)}")
        if value is None or key.transform != "identity":
            continue
        try:
            canonical_value(column.type, value)
        except ValueError as error:
            shown = quoted(str(value))
            raise InvalidChangeError(
                m.InvalidCode.PARTITION_VALUES_INVALID,
                f"file {quoted(file.path)}: the partition value {shown!r} of {quoted(column.name)} {error}",
            ) from None


# --- files that are there ---------------------------------------------------------------------------------------------


def _name_file(plan: Plan, data_file_id: int) -> None:
    if data_file_id < 0:
        raise InvalidChangeError(m.InvalidCode.NUMBER_NEGATIVE, f"data file id {data_file_id} is negative")
    if data_file_id in plan.files_named:
        raise InvalidChangeError(
            m.InvalidCode.FILE_NAMED_TWICE, f"data file {data_file_id} is named twice in this changeset"
        )
    plan.files_named.add(data_file_id)


def is_live(plan: Plan, table: TableState, data_file_id: int) -> bool:
    """Whether a named file is live; False when it went after the base (a conflict), else InvalidChangeError."""
    if data_file_id in table.live_files:
        return True
    if not _gone_since(plan, table, data_file_id):
        raise InvalidChangeError(
            m.InvalidCode.FILE_UNKNOWN, f"data file {data_file_id} is not a live file of table {quoted(table.name)}"
        )
    return False


def _gone_since(plan: Plan, table: TableState, data_file_id: int) -> bool:
    """Whether a file that is not live went after the base, or may have: beyond the window only its table tells."""
    state = plan.state
    if data_file_id >= state.next_file_id or state.record_counts.holds(data_file_id):
        return False
    if table.dropped_at is not None:
        return True
    if plan.base < state.index_floor:
        return max(table.last.get(_DELETE, -1), table.last.get(_COMPACT, -1)) > plan.base
    history = state.file_history.get(data_file_id)
    if history is None or history.table_id != table.table_id or history.ended_at is None:
        return False
    return history.ended_at > plan.base


def _deleted_since(plan: Plan, table: TableState, data_file_id: int) -> AbstractBitMap64 | None:
    """Positions deleted since the base; None when that can't be told (then a conflict is certain)."""
    if plan.base < plan.state.index_floor:
        return _NO_ROWS if table.last.get(_DELETE, -1) <= plan.base else None
    history = plan.state.file_history.get(data_file_id)
    if history is None or history.last_delete() <= plan.base:
        return _NO_ROWS
    since = BitMap64()
    for delete in history.deletes:
        if delete.snapshot_id > plan.base:
            since |= delete.rows
    return since


def plan_delete(plan: Plan, table: TableState, change: m.Delete) -> dict[int, AbstractBitMap64 | None]:
    """Judge a DELETE; return what it touches: positions per file, None for every row."""
    if table.definition.keyed:
        raise InvalidChangeError(
            m.InvalidCode.TABLE_KEYED, f"table {quoted(table.name)} is keyed: it takes DELETE_ROW, no DELETE"
        )
    touched: dict[int, AbstractBitMap64 | None] = {}
    for positions in change.positions:
        _name_file(plan, positions.data_file_id)
        touched[positions.data_file_id] = _plan_positions(plan, table, positions)
    for delete_file in change.delete_files:
        _name_file(plan, delete_file.data_file_id)
        _plan_delete_file(plan, table, delete_file)
        touched[delete_file.data_file_id] = None
    for data_file_id in change.whole_files:
        _name_file(plan, data_file_id)
        is_live(plan, table, data_file_id)
        touched[data_file_id] = None
    if not touched:
        raise InvalidChangeError(
            m.InvalidCode.NOTHING_TO_COMMIT, "DELETE of nothing: no positions, delete files or whole files"
        )
    return touched


def _row_set(rows: m.RowPositions, data_file_id: int) -> FrozenBitMap64:
    if isinstance(rows, tuple):
        raise InvalidChangeError(
            m.InvalidCode.POSITION_INVALID, f"the positions in data file {data_file_id} are negative or given twice"
        )
    if not rows:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, f"no positions are given in data file {data_file_id}")
    return rows


def _check_range(plan: Plan, rows: FrozenBitMap64, data_file_id: int) -> None:
    count = plan.state.record_counts.get(data_file_id)
    if rows.max() >= count:
        raise InvalidChangeError(
            m.InvalidCode.POSITION_INVALID,
            f"position {rows.max()} is beyond data file {data_file_id}, which has {count} rows",
        )


def _plan_positions(plan: Plan, table: TableState, positions: m.PositionDelete) -> FrozenBitMap64:
    rows = _row_set(positions.rows, positions.data_file_id)
    plan.count_positions(len(rows))
    if len(rows) > plan.state.settings.inlined_positions_max:
        raise InvalidChangeError(
            m.InvalidCode.TOO_MANY_POSITIONS,
            f"{len(rows)} positions in data file {positions.data_file_id} are more than "
            f"{plan.state.settings.inlined_positions_max} (inlined_positions_max): use a delete file",
        )
    if is_live(plan, table, positions.data_file_id):
        _check_range(plan, rows, positions.data_file_id)
        deletes = plan.state.deletes.get(positions.data_file_id)
        since = _deleted_since(plan, table, positions.data_file_id)
        if deletes is not None and since is not None:
            repeated = (rows & deletes.inlined | rows & deletes.filed) - since
            if repeated:
                raise InvalidChangeError(
                    m.InvalidCode.POSITION_DELETED,
                    f"position {repeated.min()} of data file {positions.data_file_id} is deleted already",
                )
    return rows


def _plan_delete_file(plan: Plan, table: TableState, delete_file: m.DeleteFile) -> None:
    check_file(plan, table, delete_file)
    data_file_id = delete_file.data_file_id
    rows = _row_set(delete_file.rows, data_file_id)
    plan.ids.file(plan.ids.delete_file_ids)
    if not is_live(plan, table, data_file_id):
        return
    _check_range(plan, rows, data_file_id)
    since = _deleted_since(plan, table, data_file_id)
    deletes = plan.state.deletes.get(data_file_id)
    if deletes is None or since is None or since:
        return
    if not deletes.filed <= rows:
        raise InvalidChangeError(
            m.InvalidCode.DELETE_FILE_INVALID,
            f"the delete file {quoted(delete_file.path)} lacks position {(deletes.filed - rows).min()} of the earlier one of "
            f"data file {data_file_id}: delete files are cumulative",
        )
    if shared := rows & deletes.inlined:
        raise InvalidChangeError(
            m.InvalidCode.DELETE_FILE_INVALID,
            f"the delete file {quoted(delete_file.path)} repeats position {shared.min()} of data file {data_file_id}, "
            "which is deleted by position already",
        )
    if len(rows) == len(deletes.filed):
        raise InvalidChangeError(
            m.InvalidCode.DELETE_FILE_INVALID,
            f"the delete file {quoted(delete_file.path)} adds nothing to the earlier one",
        )


def plan_compact(plan: Plan, table: TableState, change: m.Compact) -> dict[int, AbstractBitMap64 | None]:
    """Judge a COMPACT and give its files ids; return the files that it touches, all their rows."""
    if table.definition.keyed:
        raise InvalidChangeError(
            m.InvalidCode.TABLE_KEYED, f"table {quoted(table.name)} is keyed: it takes FLUSH, no COMPACT"
        )
    if not change.replaced:
        raise InvalidChangeError(m.InvalidCode.NOTHING_TO_COMMIT, "COMPACT of no file: nothing to commit")
    rows = 0
    certain = True
    for data_file_id in change.replaced:
        _name_file(plan, data_file_id)
        if is_live(plan, table, data_file_id):
            rows += plan.state.record_counts.get(data_file_id) - plan.state.deleted_count(data_file_id)
            since = _deleted_since(plan, table, data_file_id)
            certain = certain and since is not None and not since
        else:
            certain = False
    made = _check_files(plan, table, change.files)
    for file in change.files:
        give_file_id(plan, file, None)
    if certain and made != rows:
        raise InvalidChangeError(
            m.InvalidCode.ROW_COUNT_DIFFERS, f"the replaced files hold {rows} live rows, the new ones {made}"
        )
    return dict.fromkeys(change.replaced)
