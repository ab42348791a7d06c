"""Steps that define: schemas, tables, views, columns and partitions."""

from __future__ import annotations

from typing import Any

from kinds import KINDS
from sides import quote, text
from steps import Step, Steps, Table

_NAMES = ("t", "u", "my table", "Größe", "select")
_SCHEMAS = ("s", "my schema")


class DefinitionSteps(Steps):
    """Each says one definition to both sides."""

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
