"""Rows that a target has, and remembers no longer: what a link reads for it from its catalog (rules.md 6).

A row that another site's version displaces is kept, for it may stand again. Where its values have left the log's window, the
target refuses, naming the row; the link proposes once more, and says with it what readers see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from commitlog.client import CommitLog
from commitlog.client.tables.names import TableName
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.state.row_keys import key_of, shown_key


def displaced_rows(target: CommitLog, conflicts: Iterable[m.Conflict], snapshot_id: int) -> Iterator[m.DisplacedRow]:
    """The rows that refusals name, as of a snapshot of the target."""
    wanted: dict[TableName, set[str]] = defaultdict(set)
    for each in conflicts:
        where = each.object
        if where.row_key is not None and where.schema is not None and where.table is not None:
            wanted[TableName(where.schema, where.table)].add(where.row_key)
    for name, keys in wanted.items():
        scan = target.table(str(name)).scan(snapshot=snapshot_id)
        for row in map(row_of, scan.images()):
            if shown_key(key_of(scan.definition, row)) in keys:
                yield m.DisplacedRow(scan.definition.table_id, row)
