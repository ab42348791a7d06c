"""Random histories: each step is one transaction of the stock client and one changeset of commitlog that say the same.

The stock client goes first. What it refuses, or what makes no snapshot there, is not proposed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import duckdb
from kinds import KINDS, Kind, Value, draw
from sides import ROW_ID, Ours, Stock, quote, text

from commitlog.domain.model import Outcome


@dataclass
class File:
    """A live data file of ours."""

    data_file_id: int
    path: str
    row_ids: list[int]
    by_position: set[int] = field(default_factory=set)
    by_file: set[int] = field(default_factory=set)

    def live(self) -> list[int]:
        """The positions of rows that are not deleted."""
        return [n for n in range(len(self.row_ids)) if n not in self.by_position | self.by_file]


@dataclass
class Table:
    """A table as the history has it now; ``rows`` are its keyed rows.

    deviates: ``table_changes`` legitimately differs. Of a file that has inlined deletes and then a delete file or the other
    way round, that ends with inlined deletes, or of which a second delete file leaves no row, the client lists rows again
    that were deleted before, or leaves out what a compaction replaced. Or clean files were merged: a rewrite here.
    deleted_again: a file has had two delete files. The client's answer for a range of snapshots then lists what the first
    deleted with the second as well; for single snapshots it is right.
    """

    schema: str
    name: str
    columns: dict[str, Kind]
    keyed: bool = False
    partition_by: list[tuple[str, str]] = field(default_factory=list)
    not_null: set[str] = field(default_factory=set)
    files: list[File] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    had_files: bool = False
    compacted: bool = False
    deviates: bool = False
    deleted_again: bool = False

    def sql(self, side: str = "stock") -> str:
        return f"{side}.{quote(self.schema)}.{quote(self.name)}"

    def change(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "schema": self.schema, "table": self.name, **fields}


@dataclass
class Step:
    """What the stock client runs in one transaction, what we propose (made once it ran), and what that comes to.

    retry_as: a COMPACT rewrites what the stock client chose; it is proposed as a changeset of its own.
    """

    statements: list[str] = field(default_factory=list)
    changes: list[Callable[[], dict[str, Any]]] = field(default_factory=list)
    after: list[Callable[[Outcome], None]] = field(default_factory=list)
    alone: bool = False
    moves_stock: bool = True

    def say(self, statement: str, change: dict[str, Any]) -> None:
        self.statements.append(statement)
        self.changes.append(lambda: change)

    def then(self, run: Callable[[], None]) -> None:
        self.after.append(lambda _: run())


INLINED = "SET ducklake_default_data_inlining_row_limit = 100"
IN_FILES = "SET ducklake_default_data_inlining_row_limit = 0"
_NAMES = ("t", "u", "my table", "Größe", "select")
STEPS_WEIGHED = {
    "append": 9, "delete": 9, "update": 5, "rows": 9, "compact": 5, "whole": 3, "inlined": 2, "mapped": 2,
    "add_column": 2, "drop_column": 2, "rename_column": 2, "set_type": 2, "set_default": 1, "set_nullable": 1, "comment": 1,
    "partition": 2, "rename_table": 1, "create_table": 1, "drop_table": 1, "recreate": 1, "create_schema": 1,
    "drop_schema": 1, "create_view": 1, "replace_view": 1, "drop_view": 1, "expire": 2,
}  # fmt: skip
_MAKERS = {"create_table", "create_schema", "create_view", "replace_view", "recreate", "partition"}
"""Steps that take ids which the stock client gives in another order than we when there are several in a changeset."""
_ALONE = {"drop_schema", "expire", "compact", "mapped"}
_SECOND = ["append", "append", "delete", "rows", "create_view", "create_schema"]
_SCHEMAS = ("s", "my schema")


class History:
    """One seed's history on both sides.

    snapshots: pairs of snapshot ids, stock and ours, that must read alike. They differ only after an expiry, which takes
    a snapshot id of ours and none of the stock client's. stock_of: the stock snapshot of each of ours.
    """

    def __init__(self, seed: int, stock: Stock, ours: Ours) -> None:
        self.random = random.Random(seed)
        self.stock = stock
        self.client = ours.client
        self.ours = ours
        self.tables: list[Table] = []
        self.schemas = ["main"]
        self.views: dict[str, str] = {}
        self.snapshots: list[tuple[int, int]] = [(0, 0)]
        self.stock_of = {0: 0}
        self.done: Counter[str] = Counter()
        self.refused: list[str] = []
        self.names = 0
        self.agreed = 0
        self.misled: list[str] = []
        self.literals: dict[tuple[str, str], list[str]] = {}

    def run(self, steps: int) -> None:
        """Play that many steps; the first makes a table."""
        self.play(["create_table"])
        self.play(["append"])
        for _ in range(steps):
            names = self.random.choices(list(STEPS_WEIGHED), list(STEPS_WEIGHED.values()))
            if self.random.random() < 0.2 and names[0] not in _ALONE:
                names.append(self.random.choice(["append", "delete", "rows"] if names[0] in _MAKERS else _SECOND))
            self.play(names)

    def play(self, names: list[str]) -> None:
        step, touched = Step(), []
        for name in names:
            tables = [t for t in self.tables if t not in touched]
            before = len(step.statements)
            table = getattr(self, name)(step, tables) if not step.alone else None
            if table is not None:
                touched.append(table)
            if len(step.statements) > before:
                self.done[name] += 1
        if step.statements:
            self.take(step, "+".join(names))

    def take(self, step: Step, what: str) -> None:
        head = self.stock.head()
        duck = self.client.duck
        try:
            if not step.alone:
                duck.execute("BEGIN")
            for statement in step.statements:
                duck.execute(statement)
            if not step.alone:
                duck.execute("COMMIT")
        except duckdb.Error as error:
            if not step.alone:
                duck.execute("ROLLBACK")
            self.refused.append(f"{what}: {step.statements}: {error}")
            return
        now = self.stock.head()
        if step.moves_stock and now == head:
            return
        outcome = self.ours.commit([change() for change in step.changes])
        assert outcome.snapshot_id is not None
        self.stock_of[outcome.snapshot_id] = now
        if step.moves_stock:
            assert now == head + 1, what
            self.snapshots.append((now, outcome.snapshot_id))
        else:
            self.snapshots[-1] = (now, outcome.snapshot_id)
        for run in step.after:
            run(outcome)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def pick(self, tables: list[Table], *, keyed: bool | None = False, files: bool = False) -> Table | None:
        found = [t for t in tables if (keyed is None or t.keyed == keyed) and (not files or t.files)]
        return self.random.choice(found) if found else None

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def value(self, table: Table, column: str) -> Value:
        kind = table.columns[column]
        value = draw(kind, self.random, nullable=column not in table.not_null)
        if not kind.is_nested:
            self.literals.setdefault((table.name, column), []).append(value[0])
        return value

    def draw_rows(self, table: Table, count: int) -> list[dict[str, Value]]:
        """Rows; in a partitioned table they are all of one partition, so that both sides make one file of them."""
        rows = [{column: self.value(table, column) for column in table.columns} for _ in range(count)]
        for column, _ in table.partition_by:
            for row in rows:
                row[column] = rows[0][column]
        return rows

    def values_sql(self, table: Table, rows: Iterable[dict[str, Value]]) -> str:
        lines = ("(" + ", ".join(row[column][0] for column in table.columns) + ")" for row in rows)
        names = ", ".join(quote(column) for column in table.columns)
        return f"SELECT * FROM (VALUES {', '.join(lines)}) AS v({names})"

    # --- schemas, tables, views ---------------------------------------------------------------------------------------

    def create_schema(self, step: Step, _: list[Table]) -> None:
        free = [name for name in _SCHEMAS if name not in self.schemas]
        if free:
            name = self.random.choice(free)
            step.say(f"CREATE SCHEMA stock.{quote(name)}", {"kind": "CREATE_SCHEMA", "schema": name})
            step.then(lambda: self.schemas.append(name))

    def drop_schema(self, step: Step, _: list[Table]) -> None:
        if len(self.schemas) == 1 or step.statements:
            return
        name = self.random.choice(self.schemas[1:])
        step.say(f"DROP SCHEMA stock.{quote(name)} CASCADE", {"kind": "DROP_SCHEMA", "schema": name, "cascade": True})
        step.alone = False

        def forget() -> None:
            self.schemas.remove(name)
            self.tables = [t for t in self.tables if t.schema != name]
            self.views = {view: schema for view, schema in self.views.items() if schema != name}

        step.then(forget)

    def create_table(self, step: Step, _: list[Table], name: str | None = None) -> Table | None:
        if len(self.tables) >= 2:
            return None
        keyed = self.random.random() < 0.3
        kinds = [kind for kind in KINDS.values() if kind.in_rows or not keyed]
        columns = {"id": KINDS["int64"]}
        for _ in range(self.random.randint(1, 4)):
            columns[self.fresh("c")] = self.random.choice(kinds)
        table = Table(self.random.choice(self.schemas), name or self.new_name(), columns, keyed)
        table.not_null = {"id"} if keyed else {c for c in columns if self.random.random() < 0.15}
        if not keyed and self.random.random() < 0.35:
            table.partition_by = self.draw_partition(table)
        defaults = {c: k.default for c, k in columns.items() if k.default is not None and self.random.random() < 0.2}
        self.say_create(step, table, defaults)
        step.then(lambda: self.tables.append(table))
        return table

    def say_create(self, step: Step, table: Table, defaults: dict[str, str]) -> None:
        lines = []
        for column, kind in table.columns.items():
            line = f"{quote(column)} {kind.sql}"
            line += f" DEFAULT {text(defaults[column])}" if column in defaults else ""
            lines.append(line + (" NOT NULL" if column in table.not_null else ""))
        specs = [
            {"name": c, "type": k.name, "nullable": c not in table.not_null, "default": defaults.get(c)}
            for c, k in table.columns.items()
        ]
        keys = [{"column": column, "transform": transform} for column, transform in table.partition_by]
        step.say(
            f"CREATE TABLE {table.sql()} ({', '.join(lines)})",
            table.change(
                "CREATE_TABLE",
                columns=specs,
                partition_by=keys,
                primary_key=["id"] if table.keyed else [],
                # Both lakes have their own folder.
                properties={"foreign_paths": "true"},
            ),
        )
        if keys:
            step.statements.append(f"ALTER TABLE {table.sql()} SET PARTITIONED BY ({self.partition_sql(table)})")

    def new_name(self) -> str:
        taken = {t.name.lower() for t in self.tables} | set(self.views)
        return self.random.choice([name for name in _NAMES if name.lower() not in taken])

    def draw_partition(self, table: Table) -> list[tuple[str, str]]:
        able = [column for column, kind in table.columns.items() if kind.transforms]
        chosen = self.random.sample(able, min(len(able), self.random.choice([1, 1, 2])))
        return [(column, self.random.choice(table.columns[column].transforms)) for column in chosen]

    def partition_sql(self, table: Table) -> str:
        def one(column: str, transform: str) -> str:
            if transform == "identity":
                return quote(column)
            if transform.startswith("bucket"):
                return f"bucket({transform[7:-1]}, {quote(column)})"
            return f"{transform}({quote(column)})"

        return ", ".join(one(column, transform) for column, transform in table.partition_by)

    def drop_table(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is not None and len(self.tables) > 1:
            step.say(f"DROP TABLE {table.sql()}", table.change("DROP_TABLE"))
            step.then(lambda: self.tables.remove(table))
        return table

    def recreate(self, step: Step, tables: list[Table]) -> Table | None:
        """Drop a table and make another of its name in one changeset."""
        table = self.pick(tables)
        if table is None or step.statements:
            return None
        again = Table(table.schema, table.name, {"id": KINDS["int32"], "z": KINDS["varchar"]})
        step.say(f"DROP TABLE {table.sql()}", table.change("DROP_TABLE"))
        self.say_create(step, again, {})
        step.then(lambda: self.tables.__setitem__(self.tables.index(table), again))
        return table

    def rename_table(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is not None:
            name = self.new_name()
            step.say(f"ALTER TABLE {table.sql()} RENAME TO {quote(name)}", table.change("RENAME_TABLE", new_table=name))
            step.then(lambda: setattr(table, "name", name))
        return table

    def create_view(self, step: Step, _: list[Table]) -> None:
        name, schema, number = self.fresh("v"), self.random.choice(self.schemas), self.random.randint(0, 99)
        step.say(
            f"CREATE VIEW stock.{quote(schema)}.{name} AS SELECT {number} AS a",
            {"kind": "CREATE_VIEW", "schema": schema, "view": name, "sql": f"SELECT {number} AS a"},
        )
        step.then(lambda: self.views.__setitem__(name, schema))

    def replace_view(self, step: Step, _: list[Table]) -> None:
        if self.views:
            name, number = self.random.choice(list(self.views)), self.random.randint(100, 199)
            schema = self.views[name]
            step.say(
                f"CREATE OR REPLACE VIEW stock.{quote(schema)}.{name} AS SELECT {number} AS b",
                {"kind": "REPLACE_VIEW", "schema": schema, "view": name, "sql": f"SELECT {number} AS b"},
            )

    def drop_view(self, step: Step, _: list[Table]) -> None:
        if self.views:
            name = self.random.choice(list(self.views))
            schema = self.views[name]
            step.say(f"DROP VIEW stock.{quote(schema)}.{name}", {"kind": "DROP_VIEW", "schema": schema, "view": name})
            step.then(lambda: self.views.pop(name))

    # --- columns ------------------------------------------------------------------------------------------------------

    def alter(self, step: Step, table: Table, clause: str, op: str, **fields: Any) -> Table:
        step.say(f"ALTER TABLE {table.sql()} {clause}", table.change("ALTER_TABLE", alterations=[{"op": op, **fields}]))
        return table

    def plain_columns(self, table: Table) -> list[str]:
        keys = {column for column, _ in table.partition_by}
        return [column for column in table.columns if column != "id" and column not in keys]

    def add_column(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None:
            return None
        name = self.fresh("a")
        kind = self.random.choice([kind for kind in KINDS.values() if kind.in_rows or not table.keyed])
        default = kind.default if self.random.random() < 0.6 else None
        clause = f"ADD COLUMN {name} {kind.sql}" + ("" if default is None else f" DEFAULT {text(default)}")
        self.alter(step, table, clause, "ADD_COLUMN", column={"name": name, "type": kind.name, "default": default})
        step.then(lambda: table.columns.__setitem__(name, kind))
        return table

    def drop_column(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None or not (columns := self.plain_columns(table)):
            return None
        name = self.random.choice(columns)
        self.alter(step, table, f"DROP COLUMN {quote(name)}", "DROP_COLUMN", name=name)
        step.then(lambda: table.columns.pop(name))
        return table

    def rename_column(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None or not (columns := self.plain_columns(table)):
            return None
        name, new = self.random.choice(columns), self.fresh("r")
        self.alter(step, table, f"RENAME COLUMN {quote(name)} TO {new}", "RENAME_COLUMN", name=name, new_name=new)

        def rename() -> None:
            table.columns = {new if c == name else c: kind for c, kind in table.columns.items()}
            table.not_null = {new if c == name else c for c in table.not_null}
            self.literals[table.name, new] = self.literals.get((table.name, name), [])

        step.then(rename)
        return table

    def set_type(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None:
            return None
        able = [column for column in self.plain_columns(table) if table.columns[column].wider]
        if not able:
            return None
        name = self.random.choice(able)
        kind = KINDS[table.columns[name].wider or ""]
        self.alter(
            step, table, f"ALTER COLUMN {quote(name)} SET DATA TYPE {kind.sql}", "SET_TYPE", name=name, type=kind.name
        )
        step.then(lambda: table.columns.__setitem__(name, kind))
        return table

    def set_default(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None:
            return None
        able = [column for column, kind in table.columns.items() if kind.default is not None and column != "id"]
        if not able:
            return None
        name = self.random.choice(able)
        default = table.columns[name].default if self.random.random() < 0.7 else None
        clause = f"ALTER COLUMN {quote(name)} " + (
            "DROP DEFAULT" if default is None else f"SET DEFAULT {text(default)}"
        )
        return self.alter(step, table, clause, "SET_DEFAULT", name=name, default=default)

    def set_nullable(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None or not (columns := self.plain_columns(table)):
            return None
        name = self.random.choice(columns)
        nullable = name in table.not_null
        clause = f"ALTER COLUMN {quote(name)} {'DROP' if nullable else 'SET'} NOT NULL"
        self.alter(step, table, clause, "SET_NULLABLE", name=name, nullable=nullable)
        step.then(lambda: (table.not_null.discard if nullable else table.not_null.add)(name))
        return table

    def comment(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=None)
        if table is None:
            return None
        column = self.random.choice([None, *table.columns])
        comment = self.random.choice([None, "a comment", "it's\nlong"])
        place = f"TABLE {table.sql()}" if column is None else f"COLUMN {table.sql()}.{quote(column)}"
        step.say(
            f"COMMENT ON {place} IS {'NULL' if comment is None else text(comment)}",
            table.change("ALTER_TABLE", alterations=[{"op": "SET_COMMENT", "name": column, "comment": comment}]),
        )
        return table

    def partition(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables)
        if table is None:
            return None
        old = table.partition_by
        keys = [] if old and self.random.random() < 0.5 else self.draw_partition(table)
        if keys == old or (table.had_files and any(transform.startswith("bucket") for _, transform in keys)):
            return None  # The stock client loses rows of files from before a table had buckets.
        table.partition_by = keys
        clause = f"SET PARTITIONED BY ({self.partition_sql(table)})" if keys else "RESET PARTITIONED BY"
        table.partition_by = old
        said = [{"column": column, "transform": transform} for column, transform in keys]
        self.alter(step, table, clause, "SET_PARTITION_BY", partition_by=said)
        step.then(lambda: setattr(table, "partition_by", keys))
        return table

    # --- files --------------------------------------------------------------------------------------------------------

    def say_append(self, step: Step, table: Table, *, rows: list[dict[str, Value]], before: int = 0) -> None:
        """Insert rows in a file; ``before`` files are made by the step's earlier changes."""
        query = self.values_sql(table, rows)
        step.statements += [IN_FILES, f"INSERT INTO {table.sql()} {query}"]
        by_duckdb = any(kind.by_duckdb_only for kind in table.columns.values()) or self.random.random() < 0.3
        made: list[dict[str, Any]] = []

        def change() -> dict[str, Any]:
            definition = self.ours.definition(table.schema, table.name)
            made.append(self.ours.write(definition, query, by_duckdb=by_duckdb))
            return table.change("APPEND", files=made)

        step.changes.append(change)
        step.after.append(lambda outcome: self.note_file(table, outcome, made[0]))

    def note_file(self, table: Table, outcome: Outcome, file: dict[str, Any]) -> None:
        state = self.ours.log.state
        known = {f.data_file_id for t in self.tables for f in t.files}
        table_state = next(
            t
            for t in state.tables.values()
            if t.name == table.name and t.schema.name == table.schema and t.dropped_at is None
        )
        (data_file_id,) = [f for f in table_state.live_files if f not in known]
        start = table_state.next_row_id - file["record_count"]
        table.files.append(File(data_file_id, file["path"], list(range(start, table_state.next_row_id))))
        table.had_files = True

    def append(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables)
        if table is not None:
            self.say_append(step, table, rows=self.draw_rows(table, self.random.randint(1, 5)))
        return table

    def mapped(self, step: Step, tables: list[Table]) -> Table | None:
        """Both sides take one file that has no field ids."""
        table = self.pick([t for t in tables if not t.partition_by and not t.not_null])
        if table is None or step.statements:
            return None
        definition = self.ours.definition(table.schema, table.name)
        by_duckdb = any(kind.by_duckdb_only for kind in table.columns.values())
        rows = self.draw_rows(table, self.random.randint(1, 4))
        file = self.ours.write(definition, self.values_sql(table, rows), by_duckdb=by_duckdb, field_ids=False)
        step.statements.append(
            f"CALL ducklake_add_data_files('stock', {text(table.name)}, {text(file['path'])}, schema => {text(table.schema)})"
        )
        step.changes.append(lambda: table.change("APPEND", files=[file]))
        step.after.append(lambda outcome: self.note_file(table, outcome, file))
        step.alone = True
        return table

    def say_delete(self, step: Step, table: Table, file: File, positions: list[int]) -> None:
        ids = ", ".join(str(file.row_ids[n]) for n in positions)
        small = self.random.random() < 0.3
        step.statements += [INLINED if small else IN_FILES, f"DELETE FROM {table.sql()} WHERE rowid IN ({ids})"]
        form = self.random.choice(["positions", "delete_file"])
        if form == "positions":
            step.changes.append(
                lambda: table.change("DELETE", positions=[{"data_file_id": file.data_file_id, "rows": positions}])
            )
            step.then(lambda: self.note_positions(table, file, positions))
            return
        rows = sorted(file.by_file | set(positions))
        entry = {
            "data_file_id": file.data_file_id,
            "path": self.ours.delete_file(file.path, rows),
            "path_is_relative": False,
            "rows": rows,
            "file_size_bytes": 900,
        }
        step.changes.append(lambda: table.change("DELETE", delete_files=[entry]))
        step.then(lambda: self.note_filed(table, file, positions))

    def note_positions(self, table: Table, file: File, positions: list[int]) -> None:
        table.deviates |= bool(file.by_file)
        file.by_position.update(positions)

    def note_filed(self, table: Table, file: File, positions: list[int]) -> None:
        table.deleted_again |= bool(file.by_file)
        table.deviates |= bool(file.by_position) or (bool(file.by_file) and len(positions) == len(file.live()))
        file.by_file.update(positions)

    def choose_rows(self, table: Table) -> tuple[File, list[int]] | None:
        files = [file for file in table.files if file.live()]
        if not files:
            return None
        file = self.random.choice(files)
        return file, sorted(self.random.sample(file.live(), self.random.randint(1, len(file.live()))))

    def delete(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, files=True)
        if table is not None and (found := self.choose_rows(table)) is not None:
            self.say_delete(step, table, *found)
        return table

    def update(self, step: Step, tables: list[Table]) -> Table | None:
        """Delete and append in one changeset."""
        table = self.pick(tables, files=True)
        if table is not None and (found := self.choose_rows(table)) is not None:
            self.say_delete(step, table, *found)
            self.say_append(step, table, rows=self.draw_rows(table, len(found[1])))
        return table

    def whole(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, files=True)
        if table is None:
            return None
        able = [file for file in table.files if file.live() and not file.by_position]
        if not able:
            return None
        file = self.random.choice(able)
        ids = ", ".join(str(file.row_ids[n]) for n in file.live())
        step.statements += [IN_FILES, f"DELETE FROM {table.sql()} WHERE rowid IN ({ids})"]
        step.changes.append(lambda: table.change("DELETE", whole_files=[file.data_file_id]))
        step.then(lambda: table.files.remove(file))
        return table

    def compact(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, files=True)
        if table is None or step.statements or not any(file.live() for file in table.files):
            return None
        dirty = any(file.by_position or file.by_file for file in table.files)
        call = f"'stock', {text(table.name)}, schema => {text(table.schema)}"
        if dirty:
            step.statements.append(f"CALL ducklake_rewrite_data_files({call}, delete_threshold => 0)")
        else:
            step.statements.append(f"CALL ducklake_merge_adjacent_files({call})")
        replaced = [file for file in table.files if not dirty or file.by_position or file.by_file]
        row_ids = sorted(file.row_ids[n] for file in replaced for n in file.live())
        made: list[dict[str, Any]] = []

        def change() -> dict[str, Any]:
            if row_ids:
                definition = self.ours.definition(table.schema, table.name)
                query = (
                    f"SELECT *, rowid AS {ROW_ID} FROM {table.sql('ours')} "
                    f"WHERE rowid IN ({', '.join(map(str, row_ids))}) ORDER BY rowid"
                )
                by_duckdb = any(kind.by_duckdb_only for kind in table.columns.values()) or self.random.random() < 0.5
                made.append(self.ours.write(definition, query, by_duckdb=by_duckdb, with_ids=True))
            return table.change("COMPACT", replaced=[file.data_file_id for file in replaced], files=made)

        def note(outcome: Outcome) -> None:
            table.compacted = True
            table.deviates |= not dirty or any(file.by_position for file in replaced)
            table.files = [file for file in table.files if file not in replaced]
            if made:
                table.files.append(File(outcome.assigned.data_file_ids[0], made[0]["path"], row_ids))

        step.changes.append(change)
        step.after.append(note)
        step.alone = True
        return table

    # --- rows outside of files ----------------------------------------------------------------------------------------

    def inlined(self, step: Step, tables: list[Table]) -> Table | None:
        """Rows without a key: a plain insert that stays in the catalog."""
        table = self.pick([t for t in tables if all(kind.in_rows for kind in t.columns.values())])
        if table is not None:
            self.say_inserts(step, table, self.draw_rows(table, self.random.randint(1, 3)))
        return table

    def say_inserts(self, step: Step, table: Table, rows: list[dict[str, Value]]) -> None:
        step.statements += [INLINED, f"INSERT INTO {table.sql()} {self.values_sql(table, rows)}"]
        for row in rows:
            image = {column: value for column, (_, value) in row.items()}
            step.changes.append(lambda image=image: table.change("INSERT_ROW", row=image))

    def rows(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=True)
        if table is None:
            return None
        keys = self.random.sample(range(6), self.random.randint(1, 3))
        new = [key for key in keys if key not in table.rows]
        if new:
            rows = self.draw_rows(table, len(new))
            for key, row in zip(new, rows, strict=True):
                row["id"] = (f"({key})::BIGINT", key)
            self.say_inserts(step, table, rows)
            step.then(lambda: table.rows.update(new))
        for key in keys:
            if key not in table.rows:
                continue
            if self.random.random() < 0.5:
                self.say_update(step, table, key)
            else:
                step.statements += [INLINED, f"DELETE FROM {table.sql()} WHERE id = {key}"]
                step.changes.append(lambda key=key: table.change("DELETE_ROW", key={"id": key}))
                step.then(lambda key=key: table.rows.discard(key))
        return table

    def say_update(self, step: Step, table: Table, key: int) -> None:
        row = self.draw_rows(table, 1)[0]
        row["id"] = (f"({key})::BIGINT", key)
        sets = ", ".join(f"{quote(column)} = {value[0]}" for column, value in row.items() if column != "id")
        if not sets:
            return
        step.statements += [INLINED, f"UPDATE {table.sql()} SET {sets} WHERE id = {key}"]
        image = {column: value for column, (_, value) in row.items()}
        step.changes.append(lambda: table.change("UPDATE_ROW", key={"id": key}, row=image))

    # --- the log ------------------------------------------------------------------------------------------------------

    def expire(self, step: Step, _: list[Table]) -> None:
        """Forget the older half of the snapshots; on our side that takes a snapshot of its own."""
        if step.statements or len(self.snapshots) < 4 or self.done["expire"]:
            return
        at = len(self.snapshots) // 2
        gone = ", ".join(str(stock) for stock, _ in self.snapshots[:at])
        step.statements.append(f"CALL ducklake_expire_snapshots('stock', versions => [{gone}])")
        step.changes.append(lambda: {"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": self.snapshots[at][1]})
        step.alone = True
        step.moves_stock = False
        step.then(lambda: self.snapshots.__delitem__(slice(0, at)))
