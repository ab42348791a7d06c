"""What the state forgets: index entries that leave the window, and names and dropped objects that no base can see."""

from __future__ import annotations

from commitlog.domain.state.index import Commit, Entry, SequencerState
from commitlog.domain.state.rows import KeyedRows


def advance_window(state: SequencerState) -> None:
    """Let snapshots leave the window: their index entries go, and older bases are judged per table."""
    floor = state.head_snapshot_id - state.settings.window_snapshots
    while state.index_floor < floor:
        state.index_floor += 1
        _forget_commit(state, state.index_floor, state.commits.pop(state.index_floor))


def _forget_commit(state: SequencerState, snapshot_id: int, commit: Commit) -> None:
    for table in dict.fromkeys(commit.tables):
        table.appended.forget_through(snapshot_id)
        if table.rows is not None:
            table.rows.forget_touches(snapshot_id)
    for data_file_id in commit.files:
        history = state.file_history[data_file_id]
        if history.last_change() <= snapshot_id:
            del state.file_history[data_file_id]
        else:
            history.deletes = [delete for delete in history.deletes if delete.snapshot_id > snapshot_id]
    for table, key in commit.rows:
        assert table.rows is not None
        _forget_row_change(table.rows, key, snapshot_id)


def _forget_row_change(rows: KeyedRows, key: str, snapshot_id: int) -> None:
    versions = rows.history.get(key)
    if versions is None:
        return
    while len(versions) > 1 and versions[1].snapshot_id <= snapshot_id:
        del versions[0]
    if len(versions) == 1 and versions[0].snapshot_id <= snapshot_id:
        del rows.history[key]
        version = rows.live.get(key)
        if version is not None:
            rows.live[key] = version.without_image()


def expire_by_settings(state: SequencerState) -> None:
    """Raise the floor to where the log's settings want it: so many snapshots, or so old ones."""
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
        _, retired = state.retired.popleft()
        retired.forget(state, floor)


class RetiredName:
    """The name of tables and views that came to mean something else, or nothing."""

    __slots__ = ("_name", "_schema_id")

    def __init__(self, schema_id: int, name: str) -> None:
        self._schema_id = schema_id
        self._name = name

    def forget(self, state: SequencerState, floor: int) -> None:
        """Forget what it meant before the floor, and the name itself when it means nothing since."""
        key = self._schema_id, self._name
        events = state.names.get(key)
        while events and len(events) > 1 and events[1].snapshot_id <= floor:
            del events[0]
        if events and len(events) == 1 and events[0].entry is None and events[0].snapshot_id <= floor:
            del state.names[key]
            state.schemas[self._schema_id].names.discard(self._name)

    def plain(self) -> list[str | int]:
        """It as plain values."""
        return ["name", self._schema_id, self._name]


class RetiredSchemaName:
    """The name of schemas that came to mean another one, or none."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def forget(self, state: SequencerState, floor: int) -> None:
        """Forget what it meant before the floor, and the name itself when it means nothing since."""
        events = state.schema_names.get(self._name)
        while events and len(events) > 1 and events[1].snapshot_id <= floor:
            del events[0]
        if events and len(events) == 1 and events[0].schema is None:
            del state.schema_names[self._name]

    def plain(self) -> list[str | int]:
        """It as plain values."""
        return ["schema_name", self._name]


class RetiredEntry:
    """A table or view that was dropped."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def forget(self, state: SequencerState, floor: int) -> None:
        """Forget it."""
        entry_id = self._entry.entry_id
        state.tables.pop(entry_id, None)
        state.views.pop(entry_id, None)
        self._entry.schema.entries.pop(entry_id, None)

    def plain(self) -> list[str | int]:
        """It as plain values."""
        return ["entry", self._entry.entry_id]


class RetiredSchema:
    """A schema that was dropped."""

    __slots__ = ("_schema_id",)

    def __init__(self, schema_id: int) -> None:
        self._schema_id = schema_id

    def forget(self, state: SequencerState, floor: int) -> None:
        """Forget it."""
        del state.schemas[self._schema_id]

    def plain(self) -> list[str | int]:
        """It as plain values."""
        return ["schema", self._schema_id]
