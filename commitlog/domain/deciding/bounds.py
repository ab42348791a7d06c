"""How much one changeset may hold, by the log's settings, and what it may name only once (rules.md 12.4, 12.30)."""

from __future__ import annotations

from commitlog.domain.model import InvalidCode, LogSettings
from commitlog.domain.model.definitions import quoted
from commitlog.domain.state.index import TableState
from commitlog.domain.state.row_keys import shown_key
from commitlog.errors import InvalidChangeError

ALTERED_COLUMNS_MAX = 1_000_000


class Bounds:
    """What a changeset has named and how much it holds so far; each method raises InvalidChangeError when it is too much."""

    __slots__ = (
        "_altered_columns",
        "_bucket_values",
        "_files",
        "_named",
        "_objects",
        "_positions",
        "_settings",
    )

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        self._files = 0
        self._positions = 0
        self._altered_columns = 0
        self._bucket_values = 0
        self._objects: dict[int, None] = {}
        # What may be named only once: a new file's path, a data file's id, a row's table and key, a flushed row's table and id.
        self._named: dict[str | int | tuple[int, str] | tuple[int, int], None] = {}

    # --- how much -----------------------------------------------------------------------------------------------------

    def count_files(self, count: int) -> None:
        """Count new files against the log's limit."""
        self._files += count
        if self._files > self._settings.files_max:
            raise InvalidChangeError(
                InvalidCode.TOO_MANY_FILES, f"{self._files} files are more than {self._settings.files_max} (files_max)"
            )

    def count_positions(self, count: int) -> None:
        """Count positions to delete without a delete file against the log's limit for a changeset."""
        self._positions += count
        limit = self._settings.changeset_positions_max
        if self._positions > limit:
            raise InvalidChangeError(
                InvalidCode.TOO_MANY_POSITIONS,
                f"{self._positions} positions in one changeset are more than {limit} (changeset_positions_max): use delete "
                "files",
            )

    def count_bucket_values(self, count: int) -> None:
        """Count what the catalog writes down for files whose buckets are not known against the log's limit."""
        self._bucket_values += count
        limit = self._settings.changeset_bucket_values_max
        if self._bucket_values > limit:
            raise InvalidChangeError(
                InvalidCode.TOO_MANY_BUCKET_VALUES,
                f"files whose buckets are not known take a value for each bucket: {self._bucket_values} in one changeset are "
                f"more than {limit} (changeset_bucket_values_max): tell the buckets of new files, compact the table before it "
                "is given buckets, or split the changeset",
            )

    def count_object(self, object_id: int) -> None:
        """Count a schema, table or view, once, against the log's limit for a changeset: each takes locks in the catalog."""
        self._objects[object_id] = None
        limit = self._settings.changeset_objects_max
        if len(self._objects) > limit:
            raise InvalidChangeError(
                InvalidCode.TOO_MANY_OBJECTS,
                f"one changeset touches more than {limit} schemas, tables and views (changeset_objects_max): split it",
            )

    def count_altered(self, columns: int) -> None:
        """Count the columns that an ALTER_TABLE looks at: all of its table's, however little it changes."""
        self._altered_columns += columns
        if self._altered_columns > ALTERED_COLUMNS_MAX:
            raise InvalidChangeError(
                InvalidCode.TOO_MANY_ALTERED_COLUMNS,
                f"the ALTER_TABLEs of one changeset look at {self._altered_columns} columns, more than {ALTERED_COLUMNS_MAX}: "
                "put what becomes of a table into one of them, or split it",
            )

    # --- what only once -----------------------------------------------------------------------------------------------

    def name_path(self, path: str) -> None:
        """Take note of a new file's path."""
        if path in self._named:
            raise InvalidChangeError(
                InvalidCode.PATH_GIVEN_TWICE,
                f"file {quoted(path)} is given twice in this changeset: each needs a path of its own, also those of several "
                "tables",
            )
        self._named[path] = None

    def name_data_file(self, data_file_id: int) -> None:
        """Take note of a file that is there and that a change works on."""
        if data_file_id < 0:
            raise InvalidChangeError(InvalidCode.NUMBER_NEGATIVE, f"data file id {data_file_id} is negative")
        if data_file_id in self._named:
            raise InvalidChangeError(
                InvalidCode.FILE_NAMED_TWICE, f"data file {data_file_id} is named twice in this changeset"
            )
        self._named[data_file_id] = None

    def name_key(self, table: TableState, key: str) -> None:
        """Take note of a row that is changed, by its canonical key."""
        if (table.table_id, key) in self._named:
            raise InvalidChangeError(
                InvalidCode.ROW_CHANGED_TWICE,
                f"row {quoted(shown_key(key))} of table {quoted(table.name)} is changed twice",
            )
        self._named[table.table_id, key] = None

    def name_flushed_row(self, table: TableState, row_id: int) -> None:
        """Take note of a row that is moved into a file."""
        if row_id < 0:
            raise InvalidChangeError(InvalidCode.NUMBER_NEGATIVE, f"row id {row_id} is negative")
        if (table.table_id, row_id) in self._named:
            raise InvalidChangeError(
                InvalidCode.ROW_FLUSHED_TWICE, f"row id {row_id} of table {quoted(table.name)} is flushed twice"
            )
        self._named[table.table_id, row_id] = None
