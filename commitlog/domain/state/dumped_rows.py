"""The rows of keyed tables as plain values and back, an item for each version: a part of `dumping`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.state.index import TableState
from commitlog.domain.state.rows import (
    NO_ROW_BEFORE,
    KeyedRows,
    KeyVersion,
    Origin,
    RowTouch,
    RowVersion,
    SiteRow,
    SiteVersion,
)

Plain = Any
_Shared = dict[Any, Any]
"""What many rows of one section have: once in memory, as when they were replayed."""


def _dump_version(version: RowVersion | None) -> Plain:
    if version is None:
        return None
    image = None if version.image is None else dict(version.image)
    return [
        version.row_id,
        version.snapshot_id,
        version.time_us,
        list(version.origin),
        list(version.unique),
        list(version.references),
        image,
        version.identity,
    ]


def _load_version(plain: Plain, shared: _Shared) -> RowVersion | None:
    if plain is None:
        return None
    row_id, snapshot_id, time_us, origin, unique, references, image, identity = plain
    known = shared.setdefault
    if image is not None:
        image = {known(name, name): value for name, value in image.items()}
    return RowVersion(
        row_id,
        known(snapshot_id, snapshot_id),
        known(time_us, time_us),
        known(made := Origin(*origin), made),
        tuple(unique),
        tuple(references),
        image,
        identity,
    )


def _dump_history(rows: KeyedRows) -> Iterator[Plain]:
    for key in sorted(rows.history):
        versions = rows.history[key]
        assert versions[-1].version is rows.live.get(key)
        for snapshot_id, version in versions:
            yield key, snapshot_id, _dump_version(version)


def _dump_live(rows: KeyedRows) -> Iterator[Plain]:
    """Those alone that are not in the history."""
    for key in sorted(rows.live):
        if key not in rows.history:
            yield key, _dump_version(rows.live[key])


def _dump_touches(rows: KeyedRows) -> Iterator[Plain]:
    for row_id, (at, kind, other_at) in rows.row_touches.items():
        # Nearly every row has no other one.
        yield (row_id, at, str(kind)) if other_at == -1 else (row_id, at, str(kind), other_at)


def _dump_sites(rows: KeyedRows) -> Iterator[Plain]:
    for key in sorted(rows.sites):
        row = rows.sites[key]
        yield key, list(row.standing.values()), [_dump_rival(rival) for rival in row.rivals], row.moves


def _dump_held(rows: KeyedRows) -> Iterator[Plain]:
    for key in sorted(rows.held):
        yield key, _dump_version(rows.held[key])


def _dump_rival(rival: SiteVersion) -> Plain:
    image = None if rival.image is None else dict(rival.image)
    return [list(rival.origin.values()), rival.gone, image, rival.moves, rival.identity]


def _load_history(rows: KeyedRows, shared: _Shared, key: str, snapshot_id: int, plain: Plain) -> None:
    at = shared.setdefault(snapshot_id, snapshot_id)
    known = NO_ROW_BEFORE if at == -1 else KeyVersion(at, _load_version(plain, shared))
    rows.history.setdefault(key, []).append(known)


def _load_live(rows: KeyedRows, shared: _Shared, key: str, plain: Plain) -> None:
    version = _load_version(plain, shared)
    assert version is not None
    rows.stand(key, version)


def _load_touch(rows: KeyedRows, shared: _Shared, row_id: int, at: int, kind: str, other_at: int = -1) -> None:
    touch = RowTouch(at, m.ChangeKind(kind), other_at)
    rows.row_touches[row_id] = shared.setdefault(touch, touch)


def _load_site(rows: KeyedRows, shared: _Shared, key: str, standing: Plain, rivals: Plain, moves: bool) -> None:
    versions = [SiteVersion(m.RowOrigin(*origin), *rival) for origin, *rival in rivals]
    rows.sites[key] = SiteRow(m.RowOrigin(*standing), tuple(versions), moves)


def _load_held(rows: KeyedRows, shared: _Shared, key: str, plain: Plain) -> None:
    version = _load_version(plain, shared)
    assert version is not None
    rows.hold(key, version)


_LISTS: dict[str, tuple[Callable[[KeyedRows], Iterator[Plain]], Callable[..., None]]] = {
    "history": (_dump_history, _load_history),
    "live": (_dump_live, _load_live),
    "row_touches": (_dump_touches, _load_touch),
    "sites": (_dump_sites, _load_site),
    "held": (_dump_held, _load_held),
}
ROW_LISTS = frozenset(_LISTS)
"""The lists that the rows of all tables are; their items begin with the table's id."""


def dump_rows(tables: Mapping[int, TableState]) -> Iterator[tuple[str, Iterator[Plain]]]:
    """The rows of all tables: each of `ROW_LISTS`, made while it is read."""
    for name, (dump, _) in _LISTS.items():
        yield name, _items(tables, dump)


def _items(tables: Mapping[int, TableState], dump: Callable[[KeyedRows], Iterator[Plain]]) -> Iterator[Plain]:
    for table_id, table in sorted(tables.items()):
        if table.rows is not None:
            for item in dump(table.rows):
                yield [table_id, *item]


def load_rows(name: str, pieces: Iterable[list[Plain]], tables: Mapping[int, TableState]) -> None:
    """Adds the items of one of `ROW_LISTS`; after all of them comes ``stand_as_in_history``."""
    _, load = _LISTS[name]
    for items in pieces:
        shared: _Shared = {}
        for table_id, *item in items:
            rows = tables[table_id].rows
            assert rows is not None
            load(rows, shared, *item)


def stand_as_in_history(rows: KeyedRows) -> None:
    """Has the rows stand that changed within the window, as the last version of each key says."""
    for key, versions in rows.history.items():
        if (version := versions[-1].version) is not None:
            rows.stand(key, version)
