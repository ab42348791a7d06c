"""The one text by which a stock DuckLake client commits, as rows: parsed strictly, never executed.

The client writes a few fixed forms of statements, which are in `forms`; each must be there to the letter, with the columns
of catalog version 1.0. Of anything else the whole text is refused, so what is believed here is what PostgreSQL would have
read. A literal may hold anything: the text is never split or searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from re import Match
from typing import Any, TypeAlias

from commitlog.errors import NotUnderstoodError
from commitlog.gateway import forms
from commitlog.gateway.refusing import check_kinds, refusal

Row: TypeAlias = Mapping[str, Any]
_READ = frozenset(
    (
        "schema", "table", "view", "column", "tag", "column_tag", "partition_info", "partition_column", "data_file",
        "delete_file", "file_column_stats", "file_partition_value", "column_mapping", "name_mapping",
    )
)  # fmt: skip
_PASSED_OVER = frozenset(
    (
        "table_stats", "table_column_stats", "schema_versions", "files_scheduled_for_deletion", "file_variant_stats",
        "inlined_data_tables",
    )
)  # fmt: skip
"""What the log works out by itself."""
_UNIQUE = (
    ("schema", "schema_uuid"), ("table", "table_uuid"), ("view", "view_uuid"), ("data_file", "path"), ("delete_file", "path"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ending:
    """Rows of the catalog that end: those of ``table`` whose ``columns`` have one of these values."""

    table: str
    columns: tuple[str, ...]
    values: frozenset[tuple[Any, ...]]

    def ends(self, row: Row) -> bool:
        """Whether a row of the table is among them, if it is alive."""
        return tuple(row[column] for column in self.columns) in self.values


@dataclass(frozen=True, slots=True)
class Batch:
    """What a client commits, as changes of DuckLake's tables, whose names are without ``ducklake_``.

    Attributes:
        snapshot_id: the client's guess.
        schema: where the text looks for the catalog.
        rows: new rows by table.
        endings: rows that were there and end.
        superseded: ids of delete files whose place others take.
        inlined_deletes: by table id, (data file, position) of rows that are deleted without a delete file.
        ended_rows: by table id, the row ids of rows in no file that are deleted.
        said: what the client calls its changes of objects that have ids, each with the id, such as ("dropped_table", 1).
    """

    snapshot_id: int
    schema: str
    rows: Mapping[str, Sequence[Row]]
    endings: tuple[Ending, ...] = ()
    superseded: frozenset[int] = frozenset()
    inlined_deletes: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    ended_rows: Mapping[int, Sequence[int]] = field(default_factory=dict)
    said: frozenset[tuple[str, int]] = frozenset()
    author: str | None = None
    message: str | None = None
    extra: str | None = None

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot that the client saw, unless it tried before."""
        return self.snapshot_id - 1

    @property
    def uuids_and_paths(self) -> tuple[str, ...]:
        """What no other batch has; empty where it makes nothing.

        A file that is named by its whole path was there before, and other batches may add it as well.
        """
        return tuple(
            row[column]
            for table, column in _UNIQUE
            for row in self.rows.get(table, ())
            if not table.endswith("_file") or row["path_is_relative"]
        )


def is_batch(text: str) -> bool:
    """Whether a text begins as a commit does."""
    return forms.BEGINNING.match(text) is not None


def parse(text: str) -> Batch:
    """A commit's text as rows.

    Raises:
        NotUnderstoodError: it has something that no commit of rows and definitions has; what, and what to do instead.
    """
    return _Parser(text).batch()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._schema: str | None = None
        self._snapshot_id = -1
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._endings: list[Ending] = []
        self._superseded: set[int] = set()
        self._inlined_deletes: dict[int, list[tuple[int, int]]] = {}
        self._ended_rows: dict[int, list[int]] = {}

    def batch(self) -> Batch:
        changes: Row | None = None
        self._skip()
        first = self._insert(self._matched(forms.INSERT))
        if first is None or first[0] != "snapshot" or len(first[1]) != 1:
            raise self._refused()
        self._snapshot_id = first[1][0]["snapshot_id"]
        self._end_statement()
        while self._at < len(self._text):
            if changes is not None:
                raise self._refused()
            changes = self._statement()
            self._end_statement()
        if changes is None:
            raise NotUnderstoodError("a commit whose text breaks off: repeat the transaction")
        said = check_kinds(changes["changes_made"])
        return Batch(
            self._snapshot_id,
            self._schema or "",
            self._rows,
            tuple(self._endings),
            frozenset(self._superseded),
            self._inlined_deletes,
            self._ended_rows,
            said,
            changes["author"],
            changes["commit_message"],
            changes["commit_extra_info"],
        )

    # --- statements ---------------------------------------------------------------------------------------------------

    def _statement(self) -> Row | None:
        """Take one statement; the row of the changes made, if it is that."""
        for form, take in self._TAKEN:
            found = form.match(self._text, self._at)
            if found is not None:
                self._found(found)
                take(self, found)
                return None
        inserted = self._insert(self._matched(forms.INSERT))
        if inserted is None:
            return None
        table, rows = inserted
        if table == "snapshot_changes" and len(rows) == 1:
            self._check_snapshot(rows[0]["snapshot_id"])
            return rows[0]
        if table in _READ:
            self._rows.setdefault(table, []).extend(rows)
        elif table not in _PASSED_OVER:
            raise self._refused()
        return None

    def _insert(self, found: Match[str]) -> tuple[str, list[dict[str, Any]]] | None:
        table = found["table"]
        if deletes := forms.INLINED_DELETES.fullmatch(table):
            self._inlined_deletes.setdefault(int(deletes[1]), []).extend(
                (data_file_id, position) for data_file_id, position, _ in self._values(forms.INLINED_DELETE)
            )
            return None
        shape = forms.SHAPES.get(table)
        if shape is None:
            raise self._refused(table)
        return table, [dict(zip(shape.columns, row, strict=True)) for row in self._values(shape)]

    def _values(self, shape: forms.Shape) -> Iterable[tuple[Any, ...]]:
        rows = []
        while True:
            found = self._matched(shape.row, shape.name)
            rows.append(shape.values(found.groups()))
            comma = forms.COMMA.match(self._text, self._at)
            if comma is None:
                return rows
            self._at = comma.end()

    def _take_ending(self, found: Match[str]) -> None:
        table, key = found["table"], found["key"]
        if key not in forms.ENDED_BY.get(table, ()):
            raise self._refused(table)
        self._end(found, table, (key,), ((each,) for each in forms.ids(found["ids"])))

    def _take_ending_of_table(self, found: Match[str]) -> None:
        self._end(found, found["table"], ("table_id",), ((each,) for each in forms.ids(found["ids"])))

    def _take_dropped_columns(self, found: Match[str]) -> None:
        self._end(found, "column", ("table_id", "column_id"), forms.pairs(found["pairs"]))

    def _take_tags(self, found: Match[str]) -> None:
        self._end(found, "tag", ("object_id", "key"), forms.keyed(found["keys"]))

    def _take_column_tags(self, found: Match[str]) -> None:
        self._end(found, "column_tag", ("table_id", "column_id", "key"), forms.keyed(found["keys"]))

    def _end(self, found: Match[str], table: str, columns: tuple[str, ...], values: Iterable[tuple[Any, ...]]) -> None:
        self._check_snapshot(int(found["at"]))
        ending = Ending(table, columns, frozenset(values))
        self._endings.append(ending)
        for row in self._rows.get(table, ()):
            if row["end_snapshot"] is None and ending.ends(row):
                row["end_snapshot"] = self._snapshot_id

    def _take_superseded(self, found: Match[str]) -> None:
        self._superseded.update(forms.ids(found["ids"]))

    def _take_ended_rows(self, found: Match[str]) -> None:
        self._check_snapshot(int(found["at"]))
        self._check_snapshot(int(found["begin"]))
        self._ended_rows.setdefault(int(found["table_id"]), []).extend(forms.numbers_in_rows(found["rows"]))

    def _pass(self, found: Match[str]) -> None:
        """The log works it out by itself."""

    _TAKEN: tuple[tuple[Any, Callable[[_Parser, Match[str]], None]], ...] = (
        (forms.ENDING, _take_ending),
        (forms.ENDING_OF_TABLE, _take_ending_of_table),
        (forms.DROPPED_COLUMNS, _take_dropped_columns),
        (forms.OVERWRITTEN_TAGS, _take_tags),
        (forms.OVERWRITTEN_COLUMN_TAGS, _take_column_tags),
        (forms.SUPERSEDED, _take_superseded),
        (forms.ENDED_ROWS, _take_ended_rows),
        (forms.TABLE_STATISTICS, _pass),
        (forms.COLUMN_STATISTICS, _pass),
        (forms.ROWS_TABLE, _pass),
    )

    # --- text ---------------------------------------------------------------------------------------------------------

    def _matched(self, form: Any, table: str = "") -> Match[str]:
        found: Match[str] | None = form.match(self._text, self._at)
        if found is None:
            raise self._refused(table)
        self._found(found)
        return found

    def _found(self, found: Match[str]) -> None:
        self._at = found.end()
        schema = found.groupdict().get("schema")
        if schema is None:
            return
        name = schema[1:-1].replace('""', '"')
        if self._schema is None:
            self._schema = name
        elif name != self._schema:
            raise NotUnderstoodError(f"a commit that writes to {schema} beside the lake's own catalog")

    def _skip(self) -> None:
        found = forms.SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _end_statement(self) -> None:
        self._skip()
        if not self._text.startswith(";", self._at):
            raise self._refused()
        self._at += 1
        self._skip()

    def _check_snapshot(self, snapshot_id: int) -> None:
        if snapshot_id != self._snapshot_id:
            raise NotUnderstoodError(
                f"a commit of snapshot {self._snapshot_id} that writes of snapshot {snapshot_id}, too"
            )

    def _refused(self, table: str = "") -> NotUnderstoodError:
        return refusal(self._text, self._at, table)
