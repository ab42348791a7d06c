"""Rows that a target has, and remembers no longer: what a link reads for it from its catalog (rules.md 6).

A row that another site's version displaces is kept, for it may stand again. Where its values have left the log's window, the
target refuses, naming the row; the link proposes once more, and says with it what readers see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from commitlog.client import CommitLog
from commitlog.client.tables.names import TableName
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import INTEGER_BITS
from commitlog.domain.state.row_keys import SHOWN_BETWEEN, key_of, shown_key


def displaced_rows(target: CommitLog, conflicts: Iterable[m.Conflict], snapshot_id: int) -> Iterator[m.DisplacedRow]:
    """The rows that refusals name, as of a snapshot of the target."""
    wanted: dict[TableName, set[str]] = defaultdict(set)
    for each in conflicts:
        where = each.object
        if where.row_key is not None and where.schema is not None and where.table is not None:
            wanted[TableName(where.schema, where.table)].add(where.row_key)
    for name, keys in wanted.items():
        table = target.table(str(name))
        scan = table.scan(snapshot=snapshot_id, where=_about(table.at(snapshot_id).definition, keys))
        for row in map(row_of, scan.images()):
            if shown_key(key_of(scan.definition, row)) in keys:
                yield m.DisplacedRow(scan.definition.table_id, row)


def _about(definition: TableDefinition, keys: Collection[str]) -> list[m.Predicate]:
    """What the rows of some keys have in their columns, as far as that can be read from how people see a key; more rows may
    have it, too."""
    columns = [definition.column_by_id(column_id) for column_id in definition.primary_key]
    if len(columns) > 1 and any('"' in key for key in keys):
        return []
    parts = [key.split(SHOWN_BETWEEN) if len(columns) > 1 else [key] for key in keys]
    return [
        m.Predicate(column.name, m.FilterOp.IN, tuple(map(int, texts) if column.type.name in INTEGER_BITS else texts))
        for column, texts in zip(columns, zip(*parts, strict=True), strict=True)
        if column.type.name in INTEGER_BITS or column.type.name in ("varchar", "uuid")
    ]
