"""Tables as a changeset sees them, whose it is, and what it asks of its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from commitlog.client.files.file_paths import PathKey, check_named_once, check_not_live, check_paths
from commitlog.client.files.given_files import Files, checked_files, described_files
from commitlog.client.files.new_files import NewFiles
from commitlog.client.files.outside import MOVE, REFERENCE, bring, check_may_go, outside_files, stays_outside
from commitlog.client.files.places import normal_path, relative_to
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.mistaken_values import doubtful, mistaken
from commitlog.client.tables.names import TableName, folded, parse_table_name
from commitlog.client.tables.overlay import table_after
from commitlog.client.tables.table_at import LiveFile, TableAt
from commitlog.client.tables.values import in_form, row_of
from commitlog.client.writing.written import WrittenFiles
from commitlog.domain import model as m
from commitlog.domain.model.types import ColumnType, fold
from commitlog.errors import InvalidRequestError, TableNotFoundError


class TransactionOptions(NamedTuple):
    """Everything about a proposal but its changes and reads. See ``CommitLog.transaction``."""

    base_snapshot_id: int
    writer_id: str
    proposal_id: m.ProposalId
    isolation: m.Isolation = m.Isolation.SNAPSHOT
    writer_epoch: int | None = None
    writer_seq: int | None = None
    decide_before_ms: int | None = None
    author: str | None = None
    message: str | None = None
    extra: str | None = None
    timeout_ms: int | None = None


class TransactionLog(Protocol):
    """What a transaction asks of its log, which is a ``CommitLog``."""

    @property
    def new_files(self) -> NewFiles: ...

    def commit(self, proposal: m.Proposal, *, timeout_ms: int | None = None) -> SubmittedOutcome: ...

    def table_at(self, name: TableName, snapshot_id: int) -> TableAt | None: ...

    def known_table(self, name: TableName, snapshot_id: int) -> TableAt | None: ...

    def missing_table(self, name: TableName, snapshot_id: int) -> TableNotFoundError: ...

    def check_schema(self, schema: str, snapshot_id: int) -> None: ...

    def new_table_path(self, name: TableName) -> str | None: ...

    def live_files(self, table_id: int, paths: Sequence[str]) -> Sequence[LiveFile]: ...

    def claim_data_path(self) -> None: ...


class TablesInSight:
    """The tables at a changeset's base, with its own changes on top, and files of theirs as it describes them."""

    def __init__(self, log: TransactionLog, options: TransactionOptions) -> None:
        self._log = log
        self._options = options
        self._changes: list[m.Change] = []
        self._reads: list[m.Read] = []
        self._named_paths: set[PathKey] = set()
        self._written = WrittenFiles()
        self._at_base: dict[TableName, TableAt | None] = {}
        self._types: dict[TableName, Mapping[str, ColumnType]] = {}
        self._sent: m.Proposal | None = None
        self._is_answered = False
        self._is_given_up = False

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot that the changes were computed from."""
        return self._options.base_snapshot_id

    # --- looking up ---------------------------------------------------------------------------------------------------

    def table(self, table: str) -> TableAt:
        """A table as this transaction sees it.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        return self._table(parse_table_name(table))

    def shape(self, table: str) -> TableAt:
        """A table as this transaction sees it, but for its properties, which may be older: perhaps nobody need be asked.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        return self.shape_of(parse_table_name(table))

    def shape_of(self, name: TableName) -> TableAt:
        """The same, by a name that has been read."""
        return self._table_by(self._lookup_shape, name)

    def check_schema(self, table: str) -> None:
        """See that the schema that a table's name has is there, or is created here.

        Raises:
            InvalidRequestError: it is not; the message says which are.
        """
        schema = fold(parse_table_name(table).schema)
        if schema not in {fold(each.schema) for each in self._changes if isinstance(each, m.CreateSchema)}:
            self._log.check_schema(schema, self.base_snapshot_id)

    def _row(self, name: TableName, values: Mapping[str, Any]) -> m.Row:
        row = row_of(values)
        if names := doubtful(values):
            types = self._types_of(name)
            for column in names:
                data_type = types.get(fold(column))
                if data_type is None:
                    continue
                if (wrong := mistaken(data_type, values[column])) is not None:
                    raise InvalidRequestError(
                        f"column {column} of table {name} is a {data_type}, and {values[column]!r} {wrong}"
                    )
                row[column] = in_form(data_type, row[column])
        return row

    def _types_of(self, name: TableName) -> Mapping[str, ColumnType]:
        """The types of a table's columns, by their names."""
        if name not in self._types:
            # Not for each row anew: a table is made out by going through all changes.
            self._types[name] = {fold(column.name): column.type for column in self.shape_of(name).definition.columns}
        return self._types[name]

    def _table(self, name: TableName) -> TableAt:
        return self._table_by(self._lookup, name)

    def _table_by(self, lookup: Callable[[TableName], TableAt | None], name: TableName) -> TableAt:
        found = table_after(self._changes, name, lookup, self._log.new_table_path)
        if found is None:
            raise self._log.missing_table(name, self.base_snapshot_id)
        return found

    def _lookup_shape(self, name: TableName) -> TableAt | None:
        if name in self._at_base:
            return self._at_base[name]
        return self._log.known_table(name, self.base_snapshot_id) or self._lookup(name)

    def _lookup(self, name: TableName) -> TableAt | None:
        if name not in self._at_base:
            self._at_base[name] = self._log.table_at(name, self.base_snapshot_id)
        return self._at_base[name]

    def _brought(
        self, name: TableName, files: tuple[str | Path | m.DataFile, ...], outside: str | None
    ) -> tuple[m.DataFile, ...]:
        """Files described, once those from outside are below the table's folder unless they are to stay where they are."""
        at = None if all(isinstance(file, m.DataFile) for file in files) else self.shape_of(name)
        found = [] if at is None else list(outside_files(files, at.path))
        if at is None or at.path is None or not found or outside == REFERENCE:
            return self._described(name, files)
        if outside is None and stays_outside(self._table(name)):
            return self._described(name, files)
        from commitlog.client.files.data_files import read_data_file

        sources: list[PathKey] = [(*folded(name), place) for _, place in found]
        check_named_once(sources, self._named_paths)
        is_moved = outside == MOVE
        for _, place in found if is_moved else ():
            check_may_go(place)
        self._log.claim_data_path()
        inside, written = list(files), WrittenFiles()
        paths: list[str] = []
        try:
            for index, place in found:
                known = read_data_file(place, at.definition, table_path=at.path)
                path = bring(place, str(name), at.path, self._log.new_files)
                written.add(name, at.path.rstrip("/"), [path])
                shown, is_relative = relative_to(normal_path(path), at.path)
                inside[index], paths = known.replace(path=shown, path_is_relative=is_relative), [*paths, path]
            described = self._described(name, inside)
        except BaseException:
            written.remove()
            raise
        self._named_paths.update(sources)
        moved = [place for _, place in found] if is_moved else []
        self._written.add(name, at.path.rstrip("/"), paths, moved=moved)
        return described

    def _described(self, name: TableName, files: Files, *, carry_row_ids: bool = False) -> tuple[m.DataFile, ...]:
        given = checked_files(files)
        self._log.claim_data_path()
        described, unsure = described_files(given, lambda: self.shape_of(name), self._log.new_files, carry_row_ids)
        if unsure:
            ending = {each for change in self._changes if isinstance(change, m.Delete) for each in change.whole_files}
            own = (self._options.proposal_id, self._options.writer_id, self._options.writer_seq)
            check_not_live(name, self.shape_of(name), unsure, ending, own, self._log.live_files)
        check_paths(name, described, self._named_paths, lambda: self._table(name))
        return described
