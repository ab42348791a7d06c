"""The ids that a changeset would be given, drawn in the order of its changes from the counters at the head (rules.md 12.10)."""

from __future__ import annotations

from commitlog.domain.model import Assigned, DataFile, InvalidCode
from commitlog.domain.model.definitions import quoted
from commitlog.domain.model.values import is_bigint
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.errors import InvalidChangeError

_NOT_GIVEN = -1


class GivenIds:
    """Counters that start at the state's, and what has been given from them; the state's own do not move.

    next_catalog_id, next_file_id: the counters after what has been given.
    """

    __slots__ = (
        "_column_ids",
        "_data_file_ids",
        "_inlined",
        "_next_row_ids",
        "_others",
        "_row_id_starts",
        "next_catalog_id",
        "next_file_id",
    )

    def __init__(self, state: SequencerState) -> None:
        self.next_catalog_id = state.next_catalog_id
        self.next_file_id = state.next_file_id
        self._data_file_ids: list[int] = []
        self._row_id_starts: list[int | None] = []
        self._column_ids: list[tuple[int, ...]] = []
        # By the field of `Assigned`; nearly every proposal is given none of these.
        self._others: dict[str, list[int]] = {}
        self._next_row_ids: dict[int, int] = {}
        self._inlined: dict[int, None] = {}

    def _catalog(self, field: str) -> int:
        catalog_id = self.next_catalog_id
        self._others.setdefault(field, []).append(catalog_id)
        self.next_catalog_id = catalog_id + 1
        return catalog_id

    def _file(self) -> int:
        file_id = self.next_file_id
        self.next_file_id = file_id + 1
        return file_id

    def schema(self) -> int:
        """The id of a new schema."""
        return self._catalog("schema_ids")

    def table(self) -> int:
        """The id of a new table."""
        return self._catalog("table_ids")

    def view(self) -> int:
        """The id of a new view."""
        return self._catalog("view_ids")

    def partition(self) -> int:
        """The id of a table's new partitioning."""
        return self._catalog("partition_ids")

    def columns(self, column_ids: tuple[int, ...]) -> None:
        """Note the ids of a table's new columns and nested fields, which count per table."""
        self._column_ids.append(column_ids)

    def data_file(self, file: DataFile, row_id_start: int | None) -> None:
        """Give a new file its ids, its name mapping first if it brings one; ``row_id_start`` None: its rows carry theirs."""
        if file.name_mapping is not None:
            self._others.setdefault("mapping_ids", []).append(self._file())
        self._row_id_starts.append(row_id_start)
        self._data_file_ids.append(self._file())

    def delete_file(self) -> None:
        """Give a delete file its id."""
        self._others.setdefault("delete_file_ids", []).append(self._file())

    def inlined_rows(self, table: TableState) -> None:
        """Give one file id, once, to a table whose rows the changeset inserts or updates outside of files."""
        if table.table_id not in self._inlined:
            self._inlined[table.table_id] = None
            self._file()

    def rows(self, table: TableState, count: int) -> int:
        """Give ``count`` row ids of a table; return the first. InvalidChangeError when they would not be 64-bit numbers."""
        start = self._next_row_ids.get(table.table_id, table.next_row_id)
        if not is_bigint(start + count):
            raise InvalidChangeError(
                InvalidCode.TABLE_TOO_LARGE,
                f"table {quoted(table.name)} would have more rows than a 64-bit row id can count",
            )
        self._next_row_ids[table.table_id] = start + count
        return start

    def row_later(self) -> int:
        """Where the id of a single row is told if it is given one, which is known after all changes were looked at."""
        self._row_id_starts.append(_NOT_GIVEN)
        return len(self._row_id_starts) - 1

    def row(self, table: TableState, told_at: int | None = None) -> int:
        """Give a single row its id."""
        row_id = self.rows(table, 1)
        if told_at is None:
            self._row_id_starts.append(row_id)
        else:
            self._row_id_starts[told_at] = row_id
        return row_id

    def assigned(self, *, schema_version: int, writer_epoch: int | None) -> Assigned:
        """Everything that was given, as the outcome tells it."""
        others = self._others
        return Assigned(
            schema_ids=tuple(others.get("schema_ids", ())),
            table_ids=tuple(others.get("table_ids", ())),
            view_ids=tuple(others.get("view_ids", ())),
            partition_ids=tuple(others.get("partition_ids", ())),
            column_ids=tuple(self._column_ids),
            mapping_ids=tuple(others.get("mapping_ids", ())),
            data_file_ids=tuple(self._data_file_ids),
            delete_file_ids=tuple(others.get("delete_file_ids", ())),
            row_id_starts=tuple([each for each in self._row_id_starts if each != _NOT_GIVEN]),
            schema_version=schema_version,
            writer_epoch=writer_epoch,
        )
