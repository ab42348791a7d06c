"""A state of a lake in parts of which each fits into a changeset."""

from __future__ import annotations

from commitlog.adoption.definitions import LakeAt
from commitlog.adoption.source import CatalogRows
from commitlog.domain.model import LogSettings

BOUNDS_AT_ONCE = 500_000
"""Columns of files whose bounds one proposal tells: each takes thirty bytes, or many more."""


def parts_of(lake: CatalogRows, state: LakeAt, settings: LogSettings) -> list[LakeAt]:
    """The objects of a state, as many at once as a changeset takes; each part has all schemas."""
    objects_max, files_max = settings.changeset_objects_max - len(state.schemas), settings.files_max // 2
    parts: list[set[int]] = [set()]
    files = bounds = 0
    for object_id in (*state.tables, *state.views):
        more = len(lake.of_table("data_file", object_id))
        told = more * len(state.tables[object_id].columns) if more else 0
        is_full = len(parts[-1]) >= objects_max or files + more > files_max or bounds + told > BOUNDS_AT_ONCE
        if parts[-1] and is_full:
            parts.append(set())
            files = bounds = 0
        parts[-1].add(object_id)
        files, bounds = files + more, bounds + told
    return [
        LakeAt(
            state.schemas,
            {key: table for key, table in state.tables.items() if key in part},
            {key: view for key, view in state.views.items() if key in part},
        )
        for part in parts
    ]
