"""The rows of a keyed table as plain values and back: a part of `dumping`."""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap64

from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.state.rows import KeyedRows, KeyVersion, Origin, RowTouch, RowVersion, SiteRow, SiteVersion

Plain = Any


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


def _load_version(plain: Plain) -> RowVersion | None:
    if plain is None:
        return None
    row_id, snapshot_id, time_us, origin, unique, references, image, identity = plain
    return RowVersion(row_id, snapshot_id, time_us, Origin(*origin), tuple(unique), tuple(references), image, identity)


def dump_rows(rows: KeyedRows | None) -> Plain:
    """The rows of a keyed table as plain values; None of another."""
    if rows is None:
        return None
    return {
        "live": [[key, _dump_version(version)] for key, version in sorted(rows.live.items())],
        "history": [
            [key, [[snapshot_id, _dump_version(version)] for snapshot_id, version in versions]]
            for key, versions in sorted(rows.history.items())
        ],
        "row_touches": [[row_id, at, str(kind)] for row_id, (at, kind) in rows.row_touches.items()],
        "inlined": rows.inlined.serialize(),
        **_dump_sites(rows),
    }


def _dump_sites(rows: KeyedRows) -> dict[str, Plain]:
    """Of the rows that other sites know of; nothing where there are none, as in every log that is alone."""
    if not rows.sites:
        return {}
    return {
        "sites": [
            [key, list(row.standing.values()), [_dump_rival(rival) for rival in row.rivals], row.moves]
            for key, row in sorted(rows.sites.items())
        ],
        **(
            {"held": [[key, _dump_version(version)] for key, version in sorted(rows.held.items())]} if rows.held else {}
        ),
    }


def _dump_rival(rival: SiteVersion) -> Plain:
    image = None if rival.image is None else dict(rival.image)
    return [list(rival.origin.values()), rival.gone, image, rival.moves, rival.identity]


def load_rows(plain: Plain, definition: TableDefinition) -> KeyedRows | None:
    """The rows that ``dump_rows`` wrote."""
    if plain is None:
        return None
    rows = KeyedRows(len(definition.unique), len(definition.foreign_keys))
    for key, version_plain in plain["live"]:
        version = _load_version(version_plain)
        assert version is not None
        rows.stand(key, version)
    for key, versions in plain["history"]:
        rows.history[key] = [KeyVersion(snapshot_id, _load_version(version)) for snapshot_id, version in versions]
    rows.row_touches.update((row_id, RowTouch(at, m.ChangeKind(kind))) for row_id, at, kind in plain["row_touches"])
    rows.inlined = BitMap64.deserialize(plain["inlined"])
    for key, standing, rivals, moves in plain.get("sites", ()):
        versions = [SiteVersion(m.RowOrigin(*origin), *rival) for origin, *rival in rivals]
        rows.sites[key] = SiteRow(m.RowOrigin(*standing), tuple(versions), moves)
    for key, version_plain in plain.get("held", ()):
        version = _load_version(version_plain)
        assert version is not None
        rows.hold(key, version)
    return rows
