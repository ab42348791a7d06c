"""What the names of one proposal mean to its writer: what they meant at its base, overlaid by its own earlier changes.

A name that came to mean something only after the base is INVALID, for the writer could not see it; one whose object is gone
since, or means another by now, still means the one that the writer saw, and is left to the conflict rules (rules.md
12.1, 12.2, 12.4, 12.21). The head is looked at for ``if_exists`` and ``if_not_exists`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from commitlog.domain.model import ChangeKind, InvalidCode
from commitlog.domain.model.definitions import TableDefinition, quoted
from commitlog.domain.model.settings import NAME_LENGTH_LIMIT
from commitlog.domain.model.texts import check_name
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import Entry, Referrer, SchemaState, SequencerState, TableState, ViewState
from commitlog.errors import InvalidChangeError


class _Said:
    """What a changeset itself says of names, by schema id for tables and views; None: nothing has a name any more.

    Nearly every one says nothing, and shares the one that is empty. Dictionaries for sets, which take several times as much.
    references: new foreign keys, with the id of the table that each refers to.
    """

    __slots__ = ("called", "definitions", "dropped", "entries", "made", "references", "schemas")

    def __init__(self) -> None:
        self.schemas: dict[str, SchemaState | None] = {}
        self.entries: dict[tuple[int, str], Entry | None] = {}
        self.definitions: dict[int, TableDefinition] = {}
        self.called: dict[int, str] = {}
        self.made: dict[Entry | SchemaState, None] = {}
        self.dropped: dict[Entry, None] = {}
        self.references: list[tuple[Referrer, int]] = []


_NOTHING_SAID: Final = _Said()


class Names:
    """The names of one proposal; what its changes make, drop, rename, redefine or pass over is seen by the later ones."""

    __slots__ = ("_base", "_head", "_length_max", "_said", "_state")

    def __init__(self, state: SequencerState, base_snapshot_id: int) -> None:
        self._state = state
        self._base = base_snapshot_id
        self._head = state.head_snapshot_id
        self._length_max = state.settings.name_length_max
        self._said = _NOTHING_SAID

    def _own(self) -> _Said:
        """For whoever has something to say."""
        if self._said is _NOTHING_SAID:
            self._said = _Said()
        return self._said

    # --- the one look-up ----------------------------------------------------------------------------------------------

    def _schema_at(self, folded: str, snapshot_id: int) -> SchemaState | None:
        if self._said.schemas and folded in self._said.schemas:
            return self._said.schemas[folded]
        return self._state.schema_at(folded, snapshot_id)

    def _entry_at(self, schema: SchemaState, folded: str, snapshot_id: int) -> Entry | None:
        if self._said.entries and (schema.schema_id, folded) in self._said.entries:
            return self._said.entries[schema.schema_id, folded]
        return self._state.entry_at(schema, folded, snapshot_id)

    # --- to the writer ------------------------------------------------------------------------------------------------

    def schema(self, name: str) -> SchemaState:
        """The schema that a name means to the writer."""
        self.check(name, "schema")
        folded = fold(name)
        schema = self._schema_at(folded, self._base)
        if schema is not None:
            return schema
        if folded in self._said.schemas:
            raise InvalidChangeError(
                InvalidCode.DROPPED_IN_CHANGESET, f"schema {quoted(name)} was dropped earlier in this changeset"
            )
        now = self._state.schema_at(folded, self._head)
        raise self._unseen(InvalidCode.SCHEMA_MISSING, f"schema {quoted(name)}", now)

    def table(self, schema_name: str, name: str) -> TableState:
        """The table that a name means to the writer."""
        entry = self._entry(schema_name, name, "table")
        assert isinstance(entry, TableState)
        return entry

    def view(self, schema_name: str, name: str) -> ViewState:
        """The view that a name means to the writer."""
        entry = self._entry(schema_name, name, "view")
        assert isinstance(entry, ViewState)
        return entry

    def _entry(self, schema_name: str, name: str, what: str) -> Entry:
        schema = self.schema(schema_name)
        self.check(name, what)
        folded = fold(name)
        entry = self._entry_at(schema, folded, self._base)
        if entry is None:
            shown = f"{what} {quoted(schema.name)}.{quoted(name)}"
            if (schema.schema_id, folded) in self._said.entries:
                raise InvalidChangeError(
                    InvalidCode.DROPPED_IN_CHANGESET, f"{shown} was dropped or renamed earlier in this changeset"
                )
            now = self._state.entry_at(schema, folded, self._head)
            missing = InvalidCode.TABLE_MISSING if what == "table" else InvalidCode.VIEW_MISSING
            raise self._unseen(missing, shown, now)
        if entry.word != what:
            other = InvalidCode.NOT_A_TABLE if what == "table" else InvalidCode.NOT_A_VIEW
            raise InvalidChangeError(other, f"{quoted(schema.name)}.{quoted(name)} is a {entry.word}, not a {what}")
        return entry

    def _unseen(self, missing: InvalidCode, what: str, now: Entry | SchemaState | None) -> InvalidChangeError:
        """What is said of a name that meant nothing at the base; ``now``: what it means at the head."""
        if now is None or now.created_at <= self._base:
            return InvalidChangeError(missing, f"{what} does not exist at snapshot {self._base}")
        return InvalidChangeError(
            InvalidCode.NOT_SEEN_AT_BASE,
            f"{what} was created by snapshot {now.created_at}, after the base {self._base}: the writer could not see it",
        )

    def definition(self, table: TableState) -> TableDefinition | None:
        """The table's columns as the writer knows them; None when they were changed since the base (rules.md 12.2)."""
        altered = self._said.definitions.get(table.table_id)
        if altered is not None:
            return altered
        return table.definition if table.is_known_at(self._base) else None

    def called(self, table: TableState) -> str | None:
        """What the writer calls a table, in the case as written; None when it was renamed since the base."""
        if table.last.get(ChangeKind.RENAME_TABLE, -1) > self._base:
            return None
        return self._said.called.get(table.table_id, table.definition.name)

    def newest_definition(self, table: TableState) -> TableDefinition:
        """The table's columns at the head, as the changeset has altered them."""
        return self._said.definitions.get(table.table_id) or table.definition

    def table_of_id(self, table_id: int) -> TableState:
        """The table of that id, which may be one that the changeset makes."""
        table = self._state.tables.get(table_id)
        if table is None:
            table = next(made for made in self._said.made if isinstance(made, TableState) and made.table_id == table_id)
        return table

    # --- at the head --------------------------------------------------------------------------------------------------

    def schema_at_head(self, name: str) -> SchemaState | None:
        """What a schema name means at the head."""
        self.check(name, "schema")
        return self._schema_at(fold(name), self._head)

    def at_head(self, schema_name: str, name: str) -> tuple[SchemaState, Entry | None] | None:
        """What a name means at the head; None when its schema does not exist there.

        What the changeset did under a schema that is gone since the base, or was made again, counts first.
        """
        self.check(schema_name, "schema")
        folded = fold(name)
        for schema in self._schemas_meant(schema_name):
            if (schema.schema_id, folded) in self._said.entries:
                return schema, self._said.entries[schema.schema_id, folded]
        schema_at_head = self._schema_at(fold(schema_name), self._head)
        return None if schema_at_head is None else (schema_at_head, self._entry_at(schema_at_head, folded, self._head))

    def _schemas_meant(self, name: str) -> Iterator[SchemaState]:
        """The schemas that a name may mean: at the base, and at the head if that is another."""
        folded = fold(name)
        seen, now = self._schema_at(folded, self._base), self._schema_at(folded, self._head)
        if seen is not None:
            yield seen
        if now is not None and now is not seen:
            yield now

    def adopt_schema(self, name: str, schema: SchemaState | None) -> None:
        """Let the later changes see the head as a skipped CREATE_SCHEMA or DROP_SCHEMA found it."""
        self._own().schemas[fold(name)] = schema

    def adopt(self, schema: SchemaState, name: str, entry: Entry) -> None:
        """Let the later changes see what a skipped CREATE found at the head, beside what the earlier ones did."""
        for seen in self._schemas_meant(schema.name):
            if seen is not schema:
                own = {n: e for (schema_id, n), e in self._said.entries.items() if schema_id == seen.schema_id}
                self._own().entries.update({(schema.schema_id, n): e for n, e in own.items()})
        self._own().schemas[fold(schema.name)] = schema
        self._own().entries[schema.schema_id, fold(name)] = entry

    def adopt_absence(self, schema_name: str, name: str) -> None:
        """Let the later changes see that a skipped DROP found nothing at the head."""
        self.check(name, "table or view")
        folded = fold(name)
        for schema in self._schemas_meant(schema_name):
            at_base = self._state.entry_at(schema, folded, self._base)
            if at_base is not None and at_base.dropped_at is not None:
                self._own().dropped[at_base] = None
            self._own().entries[schema.schema_id, folded] = None

    # --- what the changeset does --------------------------------------------------------------------------------------

    def check(self, name: str, what: str) -> None:
        """Check that a text may be the name of something; the log's limit, which may be lower by now, is for new names."""
        check_name(name, what, NAME_LENGTH_LIMIT)

    def check_new(self, name: str, what: str) -> None:
        """Check that a text may be given as a name."""
        check_name(name, what, self._length_max)

    def check_free_schema(self, name: str) -> None:
        """Check that a name may be given to a new schema."""
        self.check_new(name, "schema")
        if self._schema_at(fold(name), self._base) is not None:
            now = self._schema_at(fold(name), self._head)
            raise self._taken(InvalidCode.SCHEMA_EXISTS, f"schema {quoted(name)}", now)

    def check_free(self, schema: SchemaState, name: str, what: str, *, but_for: Entry | None = None) -> None:
        """Check that a name may be given to a new table or view, or to the one that has it in another case."""
        self.check_new(name, what)
        holder = self._entry_at(schema, fold(name), self._base)
        if holder is not None and holder is not but_for:
            now = self._entry_at(schema, fold(name), self._head)
            raise self._taken(InvalidCode.NAME_TAKEN, f"{holder.word} {quoted(schema.name)}.{quoted(name)}", now)

    def _taken(self, taken: InvalidCode, what: str, now: Entry | SchemaState | None) -> InvalidChangeError:
        """What is said of a name that meant something at the base; ``now``: what it means at the head."""
        if now is not None:
            return InvalidChangeError(taken, f"{what} already exists")
        return InvalidChangeError(
            taken, f"{what} existed at the base {self._base}, and the name is free by now: propose from a newer one"
        )

    def is_made_here(self, thing: Entry | SchemaState | None) -> bool:
        """Whether the changeset itself makes it; no other proposal can have touched it then."""
        return thing in self._said.made

    def check_not_made_here(self, thing: Entry | SchemaState, verb: str) -> None:
        """Refuse to drop, rename or alter what the changeset itself creates."""
        if thing in self._said.made:
            raise InvalidChangeError(
                InvalidCode.CREATED_IN_CHANGESET,
                f"{quoted(thing.name)} is created by this changeset, which cannot {verb} it as well",
            )

    def make_schema(self, schema: SchemaState) -> None:
        """Bring in a new schema under its name."""
        self._own().schemas[fold(schema.name)] = schema
        self._own().made[schema] = None

    def make(self, schema: SchemaState, entry: Entry) -> None:
        """Bring in a new table or view under its name."""
        self._own().entries[schema.schema_id, fold(entry.name)] = entry
        self._own().made[entry] = None

    def refer(self, child: TableState, number: int, parent_id: int) -> None:
        """Bring in a foreign key of a new table."""
        self._own().references.append((Referrer(child, number), parent_id))

    def redefine(self, table: TableState, definition: TableDefinition) -> None:
        """Let a table have other columns from here on."""
        self._own().definitions[table.table_id] = definition

    def rename(self, table: TableState, name: str, new_name: str) -> None:
        """Let a table have another name from here on."""
        self._own().entries[table.schema.schema_id, fold(name)] = None
        self._own().entries[table.schema.schema_id, fold(new_name)] = table
        self._own().called[table.table_id] = new_name
        known = self.definition(table)
        if known is not None:
            self.redefine(table, known.replace(name=new_name))

    def drop(self, entry: Entry, name: str) -> None:
        """Take a table or view out, which had that name."""
        self._own().dropped[entry] = None
        self._own().entries[entry.schema.schema_id, fold(name)] = None

    def is_dropped(self, entry: Entry) -> bool:
        """Whether the changeset drops it."""
        return entry in self._said.dropped

    def contents(self, schema: SchemaState) -> tuple[list[Entry], list[Entry]]:
        """What is in a schema: what was so at the base, or was adopted, and is not dropped; and what the changeset made."""
        held = [entry for entry in schema.entries.values() if self._is_held(entry)]
        entries = self._said.entries.items()
        made = [
            e
            for (schema_id, _), e in entries
            if schema_id == schema.schema_id and e is not None and e in self._said.made
        ]
        return held, made

    def _is_held(self, entry: Entry) -> bool:
        alive_at_base = entry.created_at <= self._base and (entry.dropped_at is None or entry.dropped_at > self._base)
        adopted = self._said.entries.get((entry.schema.schema_id, fold(entry.name))) is entry
        return (alive_at_base or adopted) and entry not in self._said.dropped

    def drop_schema(self, schema: SchemaState, name: str, held: list[Entry]) -> None:
        """Take a schema out, and with it what it holds."""
        self._own().dropped.update(dict.fromkeys(held))
        self._own().schemas[fold(name)] = None

    def referrers(self, table: TableState) -> Iterator[Referrer]:
        """Every table that refers to ``table`` and is not dropped by the changeset, once for each of its foreign keys."""
        made = [referrer for referrer, parent_id in self._said.references if parent_id == table.table_id]
        for referrer in (*self._state.referrers.get(table.table_id, ()), *made):
            if referrer.table not in self._said.dropped:
                yield referrer
