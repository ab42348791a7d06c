"""What the state forgets: index entries that leave the window, and names and dropped objects that no base can see."""

from __future__ import annotations

from dataclasses import replace

from commitlog.domain.state.index import (
    Commit,
    KeyedRows,
    SchemaState,
    SequencerState,
    TableState,
)


def advance_window(state: SequencerState) -> None:
    """Let snapshots leave the window: their index entries go, and older bases are judged per table."""
    floor = state.head_snapshot_id - state.settings.window_snapshots
    while state.index_floor < floor:
        state.index_floor += 1
        _forget_commit(state, state.index_floor, state.commits.pop(state.index_floor))


def _forget_commit(state: SequencerState, snapshot_id: int, commit: Commit) -> None:
    for table in commit.tables:
        while table.appended and table.appended[0].snapshot_id <= snapshot_id:
            table.appended.popleft()
    for data_file_id in commit.files:
        history = state.file_history[data_file_id]
        if history.last_change() <= snapshot_id:
            del state.file_history[data_file_id]
        else:
            history.deletes = [delete for delete in history.deletes if delete.snapshot_id > snapshot_id]
    for table, key in commit.rows:
        assert table.rows is not None
        _forget_row_change(table.rows, key, snapshot_id)
    for table in commit.tables:
        if table.rows is not None and table.rows.row_touches:
            touches = table.rows.row_touches
            while touches and touches[oldest := next(iter(touches))][0] <= snapshot_id:
                del touches[oldest]


def _forget_row_change(rows: KeyedRows, key: str, snapshot_id: int) -> None:
    versions = rows.history.get(key)
    if versions is None:
        return
    while len(versions) > 1 and versions[1][0] <= snapshot_id:
        del versions[0]
    if len(versions) == 1 and versions[0][0] <= snapshot_id:
        del rows.history[key]
        version = rows.live.get(key)
        if version is not None:
            rows.live[key] = replace(version, image=None)


def expire_by_settings(state: SequencerState) -> None:
    settings = state.settings
    if settings.expire_keep_snapshots is not None:
        raise_floor(state, state.head_snapshot_id - settings.expire_keep_snapshots + 1)
    if settings.expire_older_than_ms is not None:
        limit_us = state.snapshot_time_us - settings.expire_older_than_ms * 1000
        times = state.snapshot_times
        while len(times) > 1 and times[1][1] <= limit_us:
            times.popleft()
        if times and times[0][1] <= limit_us:
            raise_floor(state, times[0][0])


def raise_floor(state: SequencerState, floor: int) -> None:
    """Forget names and dropped objects that no base from ``floor`` on can see."""
    floor = min(floor, state.head_snapshot_id)
    if floor <= state.floor_snapshot_id:
        return
    state.floor_snapshot_id = floor
    while state.retired and state.retired[0][0] <= floor:
        _, what = state.retired.popleft()
        if isinstance(what, str):
            schema_events = state.schema_names.get(what)
            while schema_events and len(schema_events) > 1 and schema_events[1].snapshot_id <= floor:
                del schema_events[0]
            if schema_events and len(schema_events) == 1 and schema_events[0].schema is None:
                del state.schema_names[what]
        elif isinstance(what, tuple):
            _forget_name(state, what, floor)
        elif isinstance(what, SchemaState):
            del state.schemas[what.schema_id]
        elif isinstance(what, TableState):
            del state.tables[what.table_id]
            what.schema.entries.pop(what.table_id, None)
        else:
            del state.views[what.view_id]
            what.schema.entries.pop(what.view_id, None)


def _forget_name(state: SequencerState, key: tuple[int, str], floor: int) -> None:
    events = state.names.get(key)
    while events and len(events) > 1 and events[1].snapshot_id <= floor:
        del events[0]
    if events and len(events) == 1 and events[0].entry is None and events[0].snapshot_id <= floor:
        del state.names[key]
        state.schemas[key[0]].names.discard(key[1])
