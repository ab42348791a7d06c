"""A table as a transaction sees it: what it was at the base, with the transaction's own changes on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from commitlog.client.tables.names import TableName
from commitlog.client.tables.table_at import TableAt
from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold

Lookup = Callable[[TableName], TableAt | None]
_UNASSIGNED = -1


def table_after(
    changes: Sequence[m.Change], name: TableName, at_base: Lookup, new_path: Callable[[TableName], str | None]
) -> TableAt | None:
    """The table of that name after ``changes``; None when there is none.

    Args:
        changes: the transaction's changes so far.
        name: what the table is called now.
        at_base: finds a table as of the transaction's base.
        new_path: where the files of a table will be that is only being created.
    """
    altered: list[m.AlterTable] = []
    found: TableAt | None = None
    for change in reversed(changes):
        if isinstance(change, m.RenameTable) and _same(name, change.schema, change.new_table):
            name = TableName(change.schema, change.table)
        elif isinstance(change, m.DropTable) and _same(name, change.schema, change.table):
            return None
        elif isinstance(change, m.AlterTable) and _same(name, change.schema, change.table):
            altered.append(change)
        elif isinstance(change, m.CreateTable) and _same(name, change.schema, change.table):
            found = at_base(name) if change.if_not_exists else None
            found = found or TableAt(define_new(change), new_path(TableName(change.schema, change.table)))
            break
    else:
        found = at_base(name)
    for step in reversed(altered):
        found = found and replace(found, definition=altered_by(found.definition, step.alterations))
    return found


def define_new(change: m.CreateTable) -> TableDefinition:
    """The definition that a CREATE_TABLE asks for; only its columns' ids are the ones it will have.

    Raises:
        InvalidChangeError: what was asked for cannot be; the message says why.
    """
    partition_id = _UNASSIGNED if change.partition_by else None
    return define(change, table_id=_UNASSIGNED, schema_id=_UNASSIGNED, partition_id=partition_id)


def altered_by(table: TableDefinition, steps: Sequence[m.Alteration]) -> TableDefinition:
    """The definition after alterations.

    Raises:
        InvalidChangeError: one of them cannot be; the message says why.
    """
    return alter(table, tuple(steps), partition_ids=(_UNASSIGNED,) * len(steps))


def _same(name: TableName, schema: str, table: str) -> bool:
    return fold(name.schema) == fold(schema) and fold(name.name) == fold(table)
