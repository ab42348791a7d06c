"""A commit as the changes of a proposal: definitions first, then of each table the rows that go and the files that come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from commitlog.adoption.definitions import SourceTable, difference
from commitlog.client.writing.keyed_rows import RowBeforeAfter
from commitlog.domain import model as m
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.batch import Batch
from commitlog.gateway.translation.appends import Appends
from commitlog.gateway.translation.base import Base
from commitlog.gateway.translation.deletes import Deletes
from commitlog.gateway.translation.keyed_rows import KeyedRows, in_possible_order
from commitlog.gateway.translation.lake import CommittedLake

_AS_CREATED = m.LogSettings()


@dataclass(frozen=True, slots=True)
class Translated:
    """What a commit asks of the log.

    Attributes:
        changes: of the proposal; none when the commit comes to nothing.
        unused: full paths of files that the client made and the proposal does not name; once it is committed, nobody
            needs them.
        files: full paths of files that the client made and the proposal names: those that it removes where it takes its
            commit for failed.
    """

    changes: tuple[m.Change, ...]
    unused: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def translate(
    batch: Batch,
    base: Base,
    changes_max: Callable[[int], int] = int,
    settings: m.LogSettings = _AS_CREATED,
    on_file: Callable[[str], None] = lambda _: None,
) -> Translated:
    """Turn a commit back into what it means.

    Args:
        batch: the commit.
        base: the catalog as the client saw it.
        changes_max: how many changes a proposal may have that wants so many; by default as many.
        settings: the other limits of the log.
        on_file: is told the full path of each file that is written for the proposal, in the place of a client's: nobody needs
            it where that is not committed.

    Raises:
        NotUnderstoodError: the log has no change for it; what, and what to do instead.
    """
    lake = CommittedLake(batch, base)

    def next_column_id(table_id: int) -> int:
        definition = base.definition(table_id)
        return 1 if definition is None else definition.next_column_id

    defined = tuple(difference(lake.before, lake.after, next_column_id, {})) if lake.alters else ()
    deletes = Deletes(batch, base, lake, settings, on_file)
    appends = Appends(batch, base, lake, defined, on_file)
    changes: list[m.Change] = [*defined]
    made: list[str] = []
    by_key: list[tuple[KeyedRows, Sequence[RowBeforeAfter]]] = []
    # Rows that come to a table or go from it, and then go with it, are nobody's change.
    unneeded = [path for table_id in lake.dropped for path in lake.unneeded_of(table_id)]
    for table in _with_rows(batch, lake):
        made += lake.made_for(table.table_id)
        if not lake.is_new(table.table_id) and base.is_keyed(table.table_id):
            _check_unaltered(lake, table)
            rows = KeyedRows(base, lake, table)
            ended = batch.ended_rows.get(table.table_id, ())
            by_key.append((rows, rows.changed(deletes.positions(table), ended, appends.given(table), changes_max)))
            unneeded += lake.unneeded_of(table.table_id)
            continue
        changes += deletes.of(table)
        changes += appends.to(table)
    changes += in_possible_order(by_key)
    unused = (*deletes.unused, *appends.unused, *unneeded)
    return Translated(tuple(changes), unused, tuple(sorted(set(made).difference(unused))))


def _with_rows(batch: Batch, lake: CommittedLake) -> Iterator[SourceTable]:
    """The tables whose rows change, and that stay."""
    found = {row["table_id"] for name in ("data_file", "delete_file") for row in batch.rows.get(name, ())}
    found |= {row["table_id"] for row in lake.whole_files}
    found |= batch.inlined_deletes.keys() | batch.ended_rows.keys()
    for table_id in sorted(found - lake.dropped):
        yield lake.table(table_id)


def _check_unaltered(lake: CommittedLake, table: SourceTable) -> None:
    if lake.before.tables[table.table_id] != table:
        raise NotUnderstoodError(
            f"table {table.schema}.{table.name}, which has a primary key, altered and its rows changed in one transaction: "
            "split it, so that the table is as it shall be when its rows are changed"
        )
