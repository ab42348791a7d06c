"""Which tables and views a change names, as its writer wrote them."""

from __future__ import annotations

from commitlog.domain.model.records.proposal import (
    Change,
    Configure,
    CreateSchema,
    CreateView,
    DropSchema,
    DropView,
    ExpireSnapshots,
    RenameTable,
    ReplaceView,
)


def named_by(change: Change) -> tuple[tuple[str, str], ...]:
    """Schema and name of each; of one that is renamed both names."""
    match change:
        case RenameTable():
            return (change.schema, change.table), (change.schema, change.new_table)
        case CreateView() | ReplaceView() | DropView():
            return ((change.schema, change.view),)
        case CreateSchema() | DropSchema() | ExpireSnapshots() | Configure():
            return ()
        case _:
            return ((change.schema, change.table),)
