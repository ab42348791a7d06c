"""The rows of keyed tables as one proposal sees them: those at the head, overlaid by its own earlier changes."""

from __future__ import annotations

from commitlog.domain.model import InvalidCode, Row
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.row_keys import key_of, make_version, unique_values
from commitlog.domain.state.rows import LOCAL, RowVersion
from commitlog.errors import InvalidChangeError

OWN = -1
"""Snapshot of a row version that the proposal itself makes: older than every base, so never a race."""


class RowOverlay:
    """Rows by key, by the UNIQUE values that they hold and by what they refer to. Tables are keyed ones."""

    __slots__ = ("_added", "_forgone", "_holders", "_joined", "_left", "_providers", "_settled", "_state", "_versions")

    def __init__(self, state: SequencerState) -> None:
        self._state = state
        self._versions: dict[tuple[int, str], RowVersion | None] = {}
        self._holders: dict[tuple[int, int, str], str | None] = {}
        # Of the rows that refer to a value what becomes another, never a copy of them all: there may be millions.
        self._joined: dict[tuple[int, int, str], set[str]] = {}
        self._left: dict[tuple[int, int, str], set[str]] = {}
        self._providers: dict[tuple[int, tuple[int, ...]], dict[str, str]] = {}
        self._added = 0
        self._settled: dict[tuple[int, str], int] = {}
        self._forgone: dict[tuple[int, tuple[int, ...], str], tuple[str, int]] = {}

    def live(self, table: TableState, key: str) -> RowVersion | None:
        """The row with this key, after the earlier changes of the changeset."""
        at = table.table_id, key
        if at in self._versions:
            return self._versions[at]
        assert table.rows is not None
        return table.rows.live.get(key)

    def holder(self, table: TableState, constraint: int, value: str) -> str | None:
        """The key of the row that holds a UNIQUE value."""
        at = table.table_id, constraint, value
        if at in self._holders:
            return self._holders[at]
        assert table.rows is not None
        return table.rows.unique[constraint].get(value)

    def referring(self, child: TableState, number: int, value: str) -> set[str]:
        """Keys of the rows of ``child`` whose foreign key ``number`` has this value."""
        assert child.rows is not None
        known = child.rows.referring[number].get(value, set())
        at = child.table_id, number, value
        if at not in self._left and at not in self._joined:
            return known
        return (known - self._left.get(at, set())) | self._joined.get(at, set())

    def provider(self, parent: TableState, ref_column_ids: tuple[int, ...], value: str) -> str | None:
        """The key of the row of ``parent`` that a reference with this value points to."""
        definition = parent.definition
        if ref_column_ids == definition.primary_key:
            return value if self.live(parent, value) is not None else None
        return self.holder(parent, definition.unique.index(ref_column_ids), value)

    def provider_at_base(
        self, parent: TableState, ref_column_ids: tuple[int, ...], value: str, base_snapshot_id: int
    ) -> str | None:
        """The key of the row that a reference pointed to at the proposal's base, if that row was changed since."""
        rows, definition = parent.rows, parent.definition
        assert rows is not None
        if ref_column_ids == definition.primary_key:
            return value if rows.at(value, base_snapshot_id) is not None else None
        at = parent.table_id, ref_column_ids
        providers = self._providers.get(at)
        if providers is None:
            # Looked for once: of a proposal's many children none may find its parent.
            providers = self._providers[at] = {}
            number = definition.unique.index(ref_column_ids)
            for key in rows.history:
                version = rows.at(key, base_snapshot_id)
                offered = None if version is None else version.unique[number]
                if offered is not None:
                    providers[offered] = key
        return providers.get(value)

    def is_overlaid(self, table: TableState, key: str) -> bool:
        """Whether the changeset itself made or ended the row with this key; a skipped change does neither."""
        return (table.table_id, key) in self._versions

    def changed(self) -> list[tuple[int, str]]:
        """The rows that were overlaid: ids of their tables, and keys."""
        return list(self._versions)

    def put(self, table: TableState, key: str, version: RowVersion | None) -> None:
        """Overlay a row: its new version, or None when it is gone."""
        old = self.live(table, key)
        if old is not None:
            for number, value in enumerate(old.unique):
                if value is not None and self.holder(table, number, value) == key:
                    self._holders[table.table_id, number, value] = None
            for number, value in enumerate(old.references):
                if value is not None:
                    at = table.table_id, number, value
                    self._joined.setdefault(at, set()).discard(key)
                    self._left.setdefault(at, set()).add(key)
        self._versions[table.table_id, key] = version
        if version is not None:
            for number, value in enumerate(version.unique):
                if value is not None:
                    self._holders[table.table_id, number, value] = key
            for number, value in enumerate(version.references):
                if value is not None:
                    self._joined.setdefault((table.table_id, number, value), set()).add(key)
        self._added += (version is not None) - (old is not None)

    def check_count(self) -> None:
        """Check that what the changeset adds in all has room; who only changes rows, or ends some, is refused nothing."""
        limit = self._state.settings.keyed_rows_max
        if self._added > 0 and self._state.keyed_rows + self._added > limit:
            raise InvalidChangeError(
                InvalidCode.TOO_MANY_KEYED_ROWS, f"the log would hold more than {limit} keyed rows (keyed_rows_max)"
            )

    def note_settled(
        self,
        table: TableState,
        definition: TableDefinition,
        named: str | None,
        image: Row | None,
        met: str,
        snapshot_id: int,
    ) -> None:
        """Note that a change, which names a row or brings ``image``, met a row that this snapshot made, and that what stands
        now is not what the changeset wanted."""
        if named is not None:
            self._settled[table.table_id, named] = snapshot_id
        if image is None:
            return
        offered = [(definition.primary_key, key_of(definition, image))]
        for column_ids, value in zip(definition.unique, unique_values(definition, image), strict=True):
            if value is not None:
                offered.append((column_ids, value))
        for column_ids, value in offered:
            self._forgone[table.table_id, column_ids, value] = met, snapshot_id

    def settled_by(self, table: TableState, key: str) -> int | None:
        """The snapshot that a change of this row met, if what stands is not what the changeset wanted; else None."""
        return self._settled.get((table.table_id, key))

    def forgone(self, parent: TableState, ref_column_ids: tuple[int, ...], value: str) -> tuple[str, int] | None:
        """The row, and the snapshot that made it, for which nothing that a reference can point to came about; else None."""
        return self._forgone.get((parent.table_id, ref_column_ids, value))

    def put_refused(
        self, table: TableState, definition: TableDefinition, old_key: str | None, image: Row | None
    ) -> None:
        """Overlay a change that is refused already, as it was meant, so that later ones are not blamed for its absence."""
        if old_key is not None:
            self.put(table, old_key, None)
        if image is not None:
            version = make_version(
                definition, image, row_id=OWN, snapshot_id=OWN, time_us=0, origin=LOCAL, identity=None
            )
            self.put(table, key_of(definition, image), version)
