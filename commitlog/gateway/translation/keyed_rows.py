"""Rows of a table with a primary key, which a log changes one by one, by their keys.

The client knows of no keys: it deletes rows where they lie, and writes others into files. One that comes with the key of a row
that goes takes its place, for a proposal changes a key once. Of the others, one that carries the row id of a row that goes is
that row with another key. The client's files are not needed then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import pyarrow as pa
from pyroaring import AbstractBitMap64, FrozenBitMap64

from commitlog.adoption.definitions import SourceTable
from commitlog.client.reading.file_rows import FileReader
from commitlog.client.reading.rows_of_file import RowsOfFile
from commitlog.client.tables.arrow_schemas import exact
from commitlog.client.tables.arrow_types import to_rows, with_text
from commitlog.client.tables.stored_rows import stored_rows
from commitlog.client.tables.values import row_of
from commitlog.client.writing.keyed_rows import RowBeforeAfter, check_row_count, in_order_of_all
from commitlog.domain import model as m
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.translation.base import Base
from commitlog.gateway.translation.lake import CommittedLake
from commitlog.gateway.translation.own_rows import OWN_ROW_ID, GivenFile
from commitlog.gateway.translation.reading import row_ids_in

_Image: TypeAlias = dict[str, m.RowValue]


def in_possible_order(tables: Sequence[tuple[KeyedRows, Sequence[RowBeforeAfter]]]) -> Iterator[m.Change]:
    """Changes of rows of several tables, which may refer to each other's, in an order in which the log can make them; where
    there is none, the log says what is in whose way, and none of the others is to be blamed."""
    ordered = in_order_of_all([(rows.definition, changed) for rows, changed in tables], as_far_as_possible=True)
    for place, (was, row) in ordered:
        yield tables[place][0].change(was, row)


class KeyedRows:
    """How rows of one table change.

    Args:
        base: the catalog at the commit's base.
        lake: what the commit makes of it.
        table: which.

    Attributes:
        definition: what the log says of the table.
    """

    def __init__(self, base: Base, lake: CommittedLake, table: SourceTable) -> None:
        self._base = base
        self._lake = lake
        self._table = table
        definition = base.definition(table.table_id)
        assert definition is not None
        self._columns = definition.columns
        self.definition = definition
        self._key = definition.names_of(definition.primary_key)
        referring = [each.column_ids for each in definition.foreign_keys]
        compared = dict.fromkeys(chain(definition.primary_key, *definition.unique, *referring))
        self._compared = [definition.column_by_id(each) for each in compared]

    def changed(
        self,
        positions: Mapping[int, AbstractBitMap64],
        row_ids: Sequence[int],
        files: Sequence[GivenFile],
        changes_max: Callable[[int], int],
    ) -> list[RowBeforeAfter]:
        """What becomes of them.

        Args:
            positions: by data file, where rows are that go.
            row_ids: of rows that go and are in no file.
            files: those that rows come in.
            changes_max: how many changes a proposal may have that wants so many.
        """
        going = sum(map(len, positions.values())) + len(row_ids)
        coming = sum(each.file.record_count - len(each.deleted) for each in files)
        count = max(going, coming)
        check_row_count(count, changes_max(count))
        gone = {**dict(self._in_files(positions)), **self._in_no_file(row_ids)}
        by_key = {self._key_of(row): row_id for row_id, row in gone.items()}
        changed: list[RowBeforeAfter] = []
        others: list[tuple[int | None, _Image]] = []
        for row_id, row in (each for file in files for each in self._in(file)):
            place = by_key.pop(self._key_of(row), None)
            if place is None:
                others.append((row_id, row))
            else:
                changed.append((gone.pop(place), row))
        changed += [(None if row_id is None else gone.pop(row_id, None), row) for row_id, row in others]
        changed[:0] = [(row, None) for row in gone.values()]
        return changed

    def _key_of(self, row: Mapping[str, m.RowValue]) -> tuple[m.RowValue, ...]:
        return tuple(row[name] for name in self._key)

    def change(self, was: Mapping[str, m.RowValue] | None, row: Mapping[str, m.RowValue] | None) -> m.Change:
        """A row's change, as the log is asked for it."""
        schema, table = self._table.schema, self._table.name
        if was is None:
            assert row is not None
            return m.InsertRow(schema, table, row)
        key = {name: was[name] for name in self._key}
        return m.DeleteRow(schema, table, key) if row is None else m.UpdateRow(schema, table, key, row)

    # --- rows that go, as far as they are compared, by row id ---------------------------------------------------------

    def _in_files(self, positions: Mapping[int, AbstractBitMap64]) -> Iterator[tuple[int, _Image]]:
        if not positions:
            return
        for row in self._base.rows("data_file", data_file_id=sorted(positions)):
            path, wanted = self._lake.place(row), FrozenBitMap64(positions[row["data_file_id"]])
            carried = row_ids_in(self._base, path)
            reader = FileReader(self._compared, ())
            for batch, places in reader.placed(RowsOfFile(path, None, positions=wanted)):
                for place, key in zip(places.tolist(), to_rows(_as_text(batch)), strict=True):
                    yield row["row_id_start"] + place if carried is None else carried[place], row_of(key)

    def _in_no_file(self, row_ids: Sequence[int]) -> dict[int, _Image]:
        if not row_ids:
            return {}
        found = self._base.rows_in_no_file(
            self._table.table_id, row_ids, [column.column_id for column in self._compared]
        )
        if missing := set(row_ids) - found.keys():
            raise NotUnderstoodError(f"a change of row {min(missing)}, which was not there: read again and repeat")
        compared = [exact(column) for column in self._compared]
        rows = to_rows(_as_text(stored_rows(compared, list(found.values()))))
        return {row_id: row_of(row) for row_id, row in zip(found, rows, strict=True)}

    # --- rows that come -----------------------------------------------------------------------------------------------

    def _in(self, given: GivenFile) -> Iterator[tuple[int | None, _Image]]:
        """The rows of a file, with the row ids that they had; None of those that are new."""
        carried = row_ids_in(self._base, given.path)
        reader = FileReader(self._columns, ())
        rows = RowsOfFile(given.path, given.file.name_mapping, without=FrozenBitMap64(given.deleted))
        for batch, places in reader.placed(rows):
            for place, row in zip(places.tolist(), to_rows(_as_text(batch), maps_as_pydicts="strict"), strict=True):
                row_id = None if carried is None else carried[place]
                yield None if row_id is None or row_id >= OWN_ROW_ID else row_id, row_of(row)


def _as_text(rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """Nanoseconds as text, for Python's times have none, and times of day, for its 24:00:00 is 00:00:00."""
    columns = [each.cast(with_text(each.type, _is_text)) for each in rows.columns]
    return type(rows).from_arrays(columns, names=rows.schema.names)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_time(data_type) or (pa.types.is_timestamp(data_type) and data_type.unit == "ns"))
