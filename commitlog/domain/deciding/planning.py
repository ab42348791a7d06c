"""One proposal being looked at: what its names mean to the writer, and the ids that it would be given.

Names resolve against the base, overlaid by the earlier changes of the same changeset (rules.md 12.1). What each kind
of change asks for is in ``planners``. Nothing here changes the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Footprint, Hit, view_or_table
from commitlog.domain.deciding.row_conflicts import RowHandler
from commitlog.domain.deciding.rows import RowPlanner
from commitlog.domain.model.definitions import (
    InvalidChangeError,
    TableDefinition,
    quoted,
)
from commitlog.domain.model.texts import check_name
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import Entry, SchemaState, SequencerState, TableState, ViewState

ALTERED_COLUMNS_MAX = 1_000_000


@dataclass(slots=True)
class Ids:
    """The ids that a changeset is given, drawn in the order of its changes from the counters at the head."""

    next_catalog_id: int
    next_file_id: int
    schema_ids: list[int] = field(default_factory=list)
    table_ids: list[int] = field(default_factory=list)
    view_ids: list[int] = field(default_factory=list)
    partition_ids: list[int] = field(default_factory=list)
    column_ids: list[tuple[int, ...]] = field(default_factory=list)
    mapping_ids: list[int] = field(default_factory=list)
    data_file_ids: list[int] = field(default_factory=list)
    delete_file_ids: list[int] = field(default_factory=list)
    row_id_starts: list[int | None] = field(default_factory=list)

    def catalog(self, given: list[int]) -> int:
        """Give the next catalog id and list it in ``given``."""
        given.append(self.next_catalog_id)
        self.next_catalog_id += 1
        return given[-1]

    def file(self, given: list[int]) -> int:
        """Give the next file id and list it in ``given``."""
        given.append(self.next_file_id)
        self.next_file_id += 1
        return given[-1]


class Plan:
    """One proposal being looked at: the overlay of its earlier changes, and what has been found so far."""

    def __init__(
        self,
        state: SequencerState,
        proposal: m.Proposal,
        *,
        decided_at_ms: int,
        handlers: Mapping[str, RowHandler],
    ) -> None:
        self.state = state
        self.proposal = proposal
        self.base = proposal.base_snapshot_id
        self.ids = Ids(state.next_catalog_id, state.next_file_id)
        self.footprints: list[Footprint] = []
        self.effects: list[m.Effect] = []
        self.changes_schema = False
        self.created: set[int] = set()
        self.schemas: dict[str, SchemaState | None] = {}
        self.names: dict[tuple[int, str], Entry | None] = {}
        self.dropped: set[int] = set()
        self.definitions: dict[int, TableDefinition | None] = {}
        self.new_referrers: list[tuple[TableState, int]] = []
        self.files_named: set[int] = set()
        self.paths: set[str] = set()
        self.next_row_ids: dict[int, int] = {}
        self.files_added = 0
        self._positions = 0
        self._altered = 0
        self._bucket_values = 0
        self._objects: set[int] = set()
        self._decided_at_ms = decided_at_ms
        self.handlers = handlers
        self._rows: RowPlanner | None = None

    @property
    def rows(self) -> RowPlanner:
        """What judges row changes; made when the first one comes."""
        if self._rows is None:
            self._rows = RowPlanner(self, decided_at_ms=self._decided_at_ms, handlers=self.handlers)
        return self._rows

    @property
    def row_hits(self) -> Sequence[tuple[int, Hit]]:
        """Races on rows that nothing settled, by index of the change."""
        return () if self._rows is None else self._rows.hits

    @property
    def resolutions(self) -> Sequence[m.Resolution]:
        """Races on rows that were settled."""
        return () if self._rows is None else self._rows.resolutions

    def count_files(self, count: int) -> None:
        """Count new files against the log's limit."""
        self.files_added += count
        if self.files_added > self.state.settings.files_max:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_FILES, f"{self.files_added} files are more than {self.state.settings.files_max}"
            )

    def count_positions(self, count: int) -> None:
        """Count positions to delete without a delete file against the log's limit for a changeset."""
        self._positions += count
        limit = self.state.settings.changeset_positions_max
        if self._positions > limit:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_POSITIONS,
                f"{self._positions} positions in one changeset are more than {limit} (changeset_positions_max): use delete "
                "files",
            )

    def count_bucket_values(self, count: int) -> None:
        """Count what the catalog writes down for files whose buckets are not known against the log's limit."""
        self._bucket_values += count
        limit = self.state.settings.changeset_bucket_values_max
        if self._bucket_values > limit:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_BUCKET_VALUES,
                f"files whose buckets are not known take a value for each bucket: {self._bucket_values} in one changeset are "
                f"more than {limit} (changeset_bucket_values_max): tell the buckets of new files, compact the table before it "
                "is given buckets, or split the changeset",
            )

    def count_object(self, object_id: int) -> None:
        """Count a schema, table or view, once, against the log's limit for a changeset: each takes locks in the catalog."""
        self._objects.add(object_id)
        limit = self.state.settings.changeset_objects_max
        if len(self._objects) > limit:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_OBJECTS,
                f"one changeset touches more than {limit} schemas, tables and views (changeset_objects_max): split it",
            )

    def count_altered(self, columns: int) -> None:
        """Count the columns that an ALTER_TABLE looks at: all of its table's, however little it changes."""
        self._altered += columns
        if self._altered > ALTERED_COLUMNS_MAX:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_ALTERED_COLUMNS,
                f"the ALTER_TABLEs of one changeset look at {self._altered} columns, more than {ALTERED_COLUMNS_MAX}: put what "
                "becomes of a table into one of them, or split it",
            )

    # --- names --------------------------------------------------------------------------------------------------------

    def schema(self, name: str) -> SchemaState:
        """The schema that a name means to the writer."""
        check_name(name, "schema", self.state.settings.name_length_max)
        folded = fold(name)
        if folded in self.schemas:
            schema = self.schemas[folded]
            if schema is None:
                raise InvalidChangeError(
                    m.InvalidCode.DROPPED_IN_CHANGESET, f"schema {quoted(name)} was dropped earlier in this changeset"
                )
            return schema
        schema = self.state.schema_at(folded, self.base)
        if schema is None:
            now = self.state.schema_at(folded, self.state.head_snapshot_id)
            raise self._unseen(m.InvalidCode.SCHEMA_MISSING, f"schema {quoted(name)}", now)
        return schema

    def entry(self, schema_name: str, name: str, what: str) -> Entry:
        """The table or view that a name means to the writer."""
        schema = self.schema(schema_name)
        check_name(name, what, self.state.settings.name_length_max)
        key = schema.schema_id, fold(name)
        entry = self.names[key] if key in self.names else self.state.entry_at(schema, key[1], self.base)
        if entry is None:
            shown = f"{what} {quoted(schema.name)}.{quoted(name)}"
            if key in self.names:
                raise InvalidChangeError(
                    m.InvalidCode.DROPPED_IN_CHANGESET, f"{shown} was dropped or renamed earlier in this changeset"
                )
            now = self.state.entry_at(schema, key[1], self.state.head_snapshot_id)
            missing = m.InvalidCode.TABLE_MISSING if what == "table" else m.InvalidCode.VIEW_MISSING
            raise self._unseen(missing, shown, now)
        if view_or_table(entry) != what:
            other = m.InvalidCode.NOT_A_TABLE if what == "table" else m.InvalidCode.NOT_A_VIEW
            raise InvalidChangeError(
                other, f"{quoted(schema.name)}.{quoted(name)} is a {view_or_table(entry)}, not a {what}"
            )
        return entry

    def _unseen(self, missing: m.InvalidCode, what: str, now: Entry | SchemaState | None) -> InvalidChangeError:
        """What is said of a name that meant nothing at the base; ``now``: what it means at the head."""
        if now is None or now.created_at <= self.base:
            return InvalidChangeError(missing, f"{what} does not exist at snapshot {self.base}")
        return InvalidChangeError(
            m.InvalidCode.NOT_SEEN_AT_BASE,
            f"{what} was created by snapshot {now.created_at}, after the base {self.base}: the writer could not see it",
        )

    def table(self, schema_name: str, name: str) -> TableState:
        """The table that a name means to the writer."""
        entry = self.entry(schema_name, name, "table")
        assert isinstance(entry, TableState)
        return entry

    def view(self, schema_name: str, name: str) -> ViewState:
        """The view that a name means to the writer."""
        entry = self.entry(schema_name, name, "view")
        assert isinstance(entry, ViewState)
        return entry

    def at_head(self, schema_name: str, name: str) -> tuple[SchemaState, Entry | None] | None:
        """What a name means at the head, overlaid; None when its schema does not exist there (if_exists and the like).

        What the changeset did under a schema that is gone since the base, or was made again, counts first.
        """
        folded, head = fold(name), self.state.head_snapshot_id
        for schema in self.schemas_meant(schema_name):
            if (schema.schema_id, folded) in self.names:
                return schema, self.names[schema.schema_id, folded]
        schema_at_head = self.schema_at(schema_name, head)
        return None if schema_at_head is None else (schema_at_head, self.state.entry_at(schema_at_head, folded, head))

    def schema_at(self, name: str, snapshot_id: int) -> SchemaState | None:
        """What a schema name means at a snapshot, overlaid."""
        folded = fold(name)
        return self.schemas[folded] if folded in self.schemas else self.state.schema_at(folded, snapshot_id)

    def schemas_meant(self, name: str) -> Iterator[SchemaState]:
        """The schemas that a name may mean, overlaid: at the base, and at the head if that is another."""
        seen, now = self.schema_at(name, self.base), self.schema_at(name, self.state.head_snapshot_id)
        if seen is not None:
            yield seen
        if now is not None and now is not seen:
            yield now

    def adopt(self, schema: SchemaState, name: str, entry: Entry) -> None:
        """Let the later changes see what a skipped CREATE found at the head, beside what the earlier ones did."""
        for seen in self.schemas_meant(schema.name):
            if seen is not schema:
                own = {n: e for (schema_id, n), e in self.names.items() if schema_id == seen.schema_id}
                self.names.update({(schema.schema_id, n): e for n, e in own.items()})
        self.schemas[fold(schema.name)] = schema
        self.names[schema.schema_id, fold(name)] = entry

    def free_name(self, schema: SchemaState, name: str, what: str) -> str:
        """Check that a name may be given to a new table or view; return it folded."""
        check_name(name, what, self.state.settings.name_length_max)
        folded = fold(name)
        key = schema.schema_id, folded
        if key in self.names:
            holder = self.names[key]
        elif id(schema) in self.created:
            holder = None
        else:
            holder = self.state.entry_at(schema, folded, self.base)
        if holder is not None:
            raise InvalidChangeError(
                m.InvalidCode.NAME_TAKEN, f"{view_or_table(holder)} {quoted(schema.name)}.{quoted(name)} already exists"
            )
        return folded

    def not_created_here(self, thing: Entry | SchemaState, verb: str) -> None:
        """Refuse to drop, rename or alter what the changeset itself creates."""
        if id(thing) in self.created:
            raise InvalidChangeError(
                m.InvalidCode.CREATED_IN_CHANGESET,
                f"{quoted(thing.name)} is created by this changeset, which cannot {verb} it as well",
            )

    def definition(self, table: TableState) -> TableDefinition | None:
        """The table's columns as the writer knows them; None when they were changed since the base (rules.md 12.2)."""
        if table.table_id in self.definitions:
            return self.definitions[table.table_id]
        if id(table) in self.created:
            return table.definition
        if (
            table.dropped_at is not None
            or max(table.definition_changed_at, table.last.get(m.ChangeKind.RENAME_TABLE, -1)) > self.base
        ):
            return None
        return table.definition

    def take_row_ids(self, table: TableState, count: int) -> int:
        """Give ``count`` row ids of a table; return the first."""
        start = self.next_row_ids.get(table.table_id, table.next_row_id)
        if start + count > m.BIGINT_MAX:
            raise InvalidChangeError(
                m.InvalidCode.TABLE_TOO_LARGE,
                f"table {quoted(table.name)} would have more rows than a 64-bit row id can count",
            )
        self.next_row_ids[table.table_id] = start + count
        return start

    def footprint(self, index: int, change: m.Change, entry: Entry | SchemaState, **more: Any) -> Footprint | None:
        """The footprint of a change to ``entry``; None for what the changeset itself created."""
        if id(entry) in self.created:
            return None
        if isinstance(entry, SchemaState):
            more["schema"] = entry
        else:
            more["entry"] = entry
        return Footprint(index, change.kind, **more)
