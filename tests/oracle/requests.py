"""Random requests to a log as a writer sees it: few names, files and keys; mostly possible, bases mostly recent."""

from __future__ import annotations

import random
from typing import Any

from commitlog.domain.model import Outcome, RenameTable, Verdict
from commitlog.domain.model.ids import format_id
from commitlog.domain.state.index import SequencerState, TableState

from . import values
from .oracle import Oracle

START_MS = 1_732_201_315_328
SCHEMAS, TABLES, KEYS, VALUES = ("main", "s"), ("t", "u", "p", "k", "V"), (1, 2, 3, 4), ("a", "b", "c", None)
PLAIN, PARENT, CHILD = "t", "p", "k"
FIRST_FILES = 3
ALONE = ("COMPACT", "FLUSH", "EXPIRE_SNAPSHOTS", "CONFIGURE")
POLICIES_WITHOUT_HANDLER: tuple[str, ...] = ("ABORT", "LAST_UPDATE_WINS", "KEEP_EXISTING")
POLICIES = (*POLICIES_WITHOUT_HANDLER, "handler:merge", "handler:blank", "handler:blank", "handler:remove",
    "handler:propose", "handler:keep", "handler:fail", "handler:elsewhere")  # fmt: skip
ABSENT = "handler:absent"
MIXED, WRITERS, ROWS, READERS = (45, 37, 16, 2), (84, 10, 5, 1), (10, 84, 5, 1), (80, 12, 7, 1)
FOCUSES = (MIXED, MIXED, WRITERS, ROWS, READERS)
"""How often changes are of files, rows, objects and the log itself: each history keeps to one of these."""
AGES = (0, 0, 1, 1, 2, 2, 3, 4, 6)


class Requests:
    """Makes proposals of all kinds as JSON, from what the log came to so far."""

    rng: random.Random
    state: SequencerState
    oracle: Oracle
    outcomes: list[Outcome]

    def __init__(self) -> None:
        self.base = 0
        self.paths = 0
        self.focus = FOCUSES[0]
        self.reader = False
        self.favourite = "id"
        self.policies = POLICIES
        self.parent_unique: list[list[str]] = []
        self.plain_partitioning: list[dict[str, str]] = []

    def envelope(self, number: int, age: int) -> dict[str, Any]:
        """A proposal without changes, whose base is ``age`` snapshots old."""
        self.base = max(0, self.state.head_snapshot_id - age)
        made_at = (START_MS + number).to_bytes(6, "big")
        return {
            "proposal_id": format_id(made_at + b"\x70\x00" + (2**63 + number).to_bytes(8, "big")),
            "writer_id": self.rng.choice(("w1", "w2")),
            "base_snapshot_id": self.base,
        }

    def proposal(self, number: int) -> dict[str, Any]:
        """The next proposal."""
        rng = self.rng
        made = self.envelope(number, rng.choice(AGES))
        if number > 0 and made["base_snapshot_id"] == 0 and rng.random() < 0.97:
            self.base = made["base_snapshot_id"] = 1
        if number == 0:
            return {**made, "changes": self.first_tables()}
        renamed = self.last_renamed()
        if renamed is not None and rng.random() < 0.5:
            self.base = self.state.head_snapshot_id - 1
            return {**made, "base_snapshot_id": self.base, "changes": [self.use_of(renamed)]}
        made["changes"] = [self.change() for _ in range(rng.choice((1, 1, 1, 1, 2, 3)))]
        if rng.random() < 0.9 and any(change["kind"] in ALONE for change in made["changes"]):
            made["changes"] = [change for change in made["changes"] if change["kind"] in ALONE][:1]
        made["isolation"] = "SERIALIZABLE" if self.reader else rng.choice(("SNAPSHOT", "SERIALIZABLE"))
        made["reads"] = [self.read() for _ in range(rng.choice((1, 2, 3) if self.reader else (0, 0, 1, 2)))]
        if rng.random() < 0.005:
            made["base_snapshot_id"] += 9
        return made

    def last_renamed(self) -> str | None:
        """The old name of a table that the last proposal renamed."""
        last = self.outcomes[-1] if self.outcomes else None
        if last is None or last.verdict is not Verdict.COMMITTED or last.proposal is None:
            return None
        found = [c.table for c in last.proposal.changes if isinstance(c, RenameTable) and c.schema == "main"]
        return found[-1] if found else None

    def use_of(self, table: str) -> dict[str, Any]:
        """A change by a writer that has not seen the table's new name."""
        drop = {"kind": "DROP_TABLE", "schema": "main", "table": table}
        return self.rng.choice(
            (drop, {"kind": "APPEND", "schema": "main", "table": table, "files": [self.data_file()]})
        )

    def first_tables(self) -> list[dict[str, Any]]:
        tables = [self.create(PARENT), self.create(CHILD), self.create(PLAIN)]
        files = [{**self.data_file(), "partition_values": None} for _ in range(FIRST_FILES)]
        return [*tables, {"kind": "APPEND", "schema": "main", "table": PLAIN, "files": files}]

    def create(self, name: str) -> dict[str, Any]:
        rng = self.rng
        columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": "varchar"}, {"name": "f", "type": "int64"}]
        made: dict[str, Any] = {"kind": "CREATE_TABLE", "schema": "main", "table": name, "columns": columns}
        made["properties"] = {}
        if name in (PARENT, CHILD):
            made["primary_key"] = ["id"]
            made["properties"] = {"on_conflict": rng.choice(self.policies)}
            if self.paths and rng.random() < 0.05:
                made["properties"] = {"on_conflict": ABSENT}
            made["unique"] = rng.choice(([], [["v"]], [["v"], ["f"]], [["v", "f"]], [["f"], ["v", "f"]]))
            if name == PARENT:
                self.parent_unique = made["unique"]
        else:
            columns += values.wide_columns()
            made["partition_by"] = self.plain_partitioning = rng.choice(values.PARTITIONINGS)
            if rng.random() < 0.3:
                made["properties"] = {"conflict_granularity": rng.choice(("TABLE", "FILE", "ROW"))}
        if name == CHILD and rng.random() < 0.75:
            made["unique"] = rng.choice(([], [["v"]], [["v"], ["v", "f"]]))
            ways: list[tuple[list[str], str, list[str]]] = [(["f"], PARENT, ["id"])] * 3 + [(["f"], CHILD, ["id"])]
            if ["v"] in self.parent_unique:
                ways += [(["v"], PARENT, ["v"])]
            if ["v", "f"] in self.parent_unique:
                ways += [(["v", "f"], PARENT, ["v", "f"])]
            made["foreign_keys"] = [
                {"columns": columns, "ref_schema": "main", "ref_table": table, "ref_columns": ref}
                for columns, table, ref in rng.sample(ways, rng.choice((1, 1, 2)))
            ]
        return made

    def change(self) -> dict[str, Any]:
        return self.rng.choices(
            (self.file_change, self.row_change, self.object_change, self.log_change), weights=self.focus
        )[0]()

    def live_file(self) -> int:
        tables = [t for t in self.state.tables.values() if t.dropped_at is None and t.name == PLAIN and t.live_files]
        if tables and self.rng.random() < 0.93:
            return self.rng.choice(list(tables[0].live_files))
        return self.rng.randrange(self.state.next_file_id + 1)

    def file_read(self) -> int:
        """A file that is live, or one that was compacted lately, which an old base held."""
        moved = [data_file_id for data_file_id, history in self.state.file_history.items() if history.moved_to]
        return self.rng.choice(moved) if moved and self.rng.random() < 0.4 else self.live_file()

    def path(self) -> str:
        """A path of its own; now and then one that came already, or that could lead elsewhere."""
        self.paths += 1
        roll = self.rng.random() if self.paths > FIRST_FILES else 0.5
        if roll < 0.01:
            return self.rng.choice(("../f", "/f", "a//f", "./f", "s3://b/f", "a/../f"))
        return f"f{self.paths - (roll > 0.97)}"

    def data_file(self) -> dict[str, Any]:
        rng = self.rng
        record_count = rng.choice((0, 3, 3, 3, 4))
        columns = rng.sample(list(values.TYPES), rng.choice((0, 1, 3, 5)))
        if self.favourite not in columns and rng.random() < 0.7:
            columns.append(self.favourite)
        made = {"path": self.path(), "record_count": record_count, "file_size_bytes": 1}
        made["statistics"] = [values.statistics(rng, column, record_count) for column in columns]
        made["partition_values"] = values.partition_values(rng, self.partitioning())
        return made

    def partitioning(self) -> list[tuple[str, str]]:
        """(column, transform) of the plain table's partition keys as the writer knows them."""
        world = self.oracle.worlds[self.base]
        table = world.entry(0, PLAIN)
        if table is None or table.definition is None:
            return [(key["column"], key["transform"]) for key in self.plain_partitioning]
        definition = table.definition
        return [(definition.column_by_id(key.column_id).name, key.transform) for key in definition.partition_by]

    def file_change(self) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {"schema": "main", "table": rng.choice((PLAIN,) * 14 + ("u", CHILD))}
        roll = rng.random()
        if roll < (0.8 if self.reader else 0.35):
            return {**self.append(), **made}
        if roll < (0.9 if self.reader else 0.8):
            return {"kind": "DELETE", **made, **self.delete()}
        replaced = list(dict.fromkeys(self.live_file() for _ in range(rng.choice((1, 2)))))
        return {"kind": "COMPACT", **made, "replaced": replaced, "files": self.compacted(replaced)}

    def append(self) -> dict[str, Any]:
        """One file or two for the plain table."""
        files = [self.data_file() for _ in range(self.rng.choice((1, 2)))]
        return {"kind": "APPEND", "schema": "main", "table": PLAIN, "files": files}

    def compacted(self, replaced: list[int]) -> list[dict[str, Any]]:
        rows = 0
        for table in self.state.tables.values():
            for data_file_id in replaced:
                if data_file_id in table.live_files:
                    rows += self.state.record_counts.get(data_file_id) - self.state.deleted_count(data_file_id)
        return [{"path": self.path(), "record_count": rows + (self.rng.random() < 0.05), "file_size_bytes": 1}]

    def delete(self) -> dict[str, Any]:
        rng = self.rng
        roll = rng.random()
        if roll < 0.6:
            data_file_id = self.live_file()
            known = self.state.deletes.get(data_file_id)
            gone = {*known.filed, *known.inlined} if known and rng.random() < 0.8 else set()
            free = [row for row in range(3 if rng.random() < 0.9 else 5) if row not in gone] or [0]
            return {
                "positions": [
                    {"data_file_id": data_file_id, "rows": rng.sample(free, min(len(free), rng.choice((1, 1, 2))))}
                ]
            }
        if roll < 0.8:
            data_file_id = self.live_file()
            known = self.state.deletes.get(data_file_id)
            rows = sorted({*(known.filed if known else ()), rng.randrange(4)})
            entry = {"data_file_id": data_file_id, "path": self.path(), "rows": rows, "file_size_bytes": 1}
            return {"delete_files": [entry]}
        return {"whole_files": [self.live_file()]}

    def rows_seen(self, name: str) -> dict[str, dict[str, Any]]:
        """The rows of a keyed table by key: mostly as the writer saw them at its base, else as they are."""
        at = self.base if self.rng.random() < 0.75 else self.oracle.head
        table = self.oracle.worlds[at].entry(0, name)
        return {} if table is None else {key: row.image for key, row in table.rows.items()}

    def table(self, name: str) -> TableState | None:
        found = (
            t for t in self.state.tables.values() if t.dropped_at is None and t.name == name and t.schema.name == "main"
        )
        return next(found, None)

    def row_change(self) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.06:
            return self.flush()
        name = rng.choice((CHILD, PARENT) * 6 + (PLAIN,))
        made: dict[str, Any] = {"schema": "main", "table": name, "row_time_us": rng.choice((None, 1, 2, 3))}
        replicated = rng.random() < 0.2
        if replicated:
            made["origin"] = {"node": rng.choice("ab"), "tick": 1, "stamp_ms": 1, "priority": rng.choice((0, 1))}
        rows = self.rows_seen(name)
        live = sorted(int(key) for key in rows if int(key) in KEYS)
        absent = [key for key in KEYS if key not in live]
        parents = [int(key) for key in self.rows_seen(PARENT)] if name == CHILD else list(KEYS)
        held = {row.get("v") for row in rows.values()} if rng.random() < 0.85 else set()
        row = {
            "v": rng.choice([value for value in VALUES if value not in held] or [None]),
            "f": rng.choice((None, *(parents if rng.random() < 0.9 else KEYS))),
        }
        likely = rng.random() < 0.85
        if rng.random() < (0.7 if len(live) < 2 else 0.3) or (name == PLAIN and likely):
            return {
                "kind": "INSERT_ROW",
                **made,
                "row": {"id": rng.choice(absent if likely and absent else KEYS), **row},
            }
        key = {"id": rng.choice(live if likely and live and not (replicated and rng.random() < 0.3) else KEYS)}
        if rng.random() < 0.65:
            moved = {"id": rng.choice(absent)} if absent and rng.random() < 0.15 else key
            return {"kind": "UPDATE_ROW", **made, "key": key, "row": {**moved, **row}}
        return {"kind": "DELETE_ROW", **made, "key": key}

    def flush(self) -> dict[str, Any]:
        """Rows that are outside of files now, or were at the base; seldom others."""
        rng = self.rng
        name = rng.choice((CHILD, PARENT, PARENT, PLAIN) if rng.random() < 0.1 else (CHILD, PARENT))
        now, then = self.table(name), self.oracle.worlds[self.base].entry(0, name)
        known = {row.row_id for row in then.rows.values() if not row.flushed} if then is not None else set()
        if now is not None and now.rows is not None and (rng.random() < 0.5 or not known):
            known |= set(now.rows.inlined)
        if not known or rng.random() < 0.1:
            known.add(rng.randrange(6))
        row_ids = rng.sample(sorted(known), min(len(known), rng.choice((1, 1, 2, 3))))
        if rng.random() < 0.03:
            row_ids.append(row_ids[0])
        at = rng.randrange(len(row_ids)) if rng.random() < 0.3 else 0
        parts = [part for part in (row_ids[:at], row_ids[at:]) if part]
        sizes = [len(part) + (rng.random() < 0.02) for part in parts]
        files = [
            {"path": self.path(), "record_count": size, "file_size_bytes": 1, "row_ids": part}
            for part, size in zip(parts, sizes, strict=True)
        ]
        return {"kind": "FLUSH", "schema": "main", "table": name, "files": files}

    def object_change(self) -> dict[str, Any]:
        rng = self.rng
        has_s = self.state.schema_at("s", self.state.head_snapshot_id) is not None
        schema = rng.choice(("main", "s")) if has_s or rng.random() < 0.1 else "main"
        name = rng.choice(TABLES)
        roll = rng.random()
        here = [t.name for t in self.state.tables.values() if t.dropped_at is None and t.schema.name == schema]
        if rng.random() < 0.8:
            name = rng.choice([n for n in TABLES if (n in here) == (roll >= 0.35)] or TABLES)
        if 0.35 <= roll < 0.5 and rng.random() < 0.5:
            name = rng.choice([known for schema_id, known in self.state.names if schema_id == 0] or TABLES)
            schema = "main"
        if roll < 0.15:
            return self.schema_change()
        if roll < 0.35:
            return {**self.create(name), "schema": schema, "if_not_exists": rng.random() < 0.5}
        if roll < 0.42:
            return {"kind": "DROP_TABLE", "schema": schema, "table": name, "if_exists": rng.random() < 0.3}
        if roll < 0.5:
            return {
                "kind": "RENAME_TABLE",
                "schema": schema,
                "table": rng.choice((name, name.swapcase())),
                "new_table": rng.choice((*TABLES, name, name.swapcase())),
            }
        if roll < 0.75:
            return {
                "kind": "ALTER_TABLE",
                "schema": "main",
                "table": rng.choice((PLAIN, PLAIN, CHILD)),
                **self.alterations(),
            }
        kind = rng.choice(("CREATE_VIEW", "REPLACE_VIEW", "DROP_VIEW"))
        made: dict[str, Any] = {"kind": kind, "schema": schema, "view": rng.choice(("V", "W"))}
        if kind != "DROP_VIEW":
            made["sql"] = "SELECT 1"
        if kind != "REPLACE_VIEW":
            made["if_exists" if kind == "DROP_VIEW" else "if_not_exists"] = rng.random() < 0.4
        return made

    def schema_change(self) -> dict[str, Any]:
        flag = self.rng.random() < 0.4
        if self.rng.random() < 0.5:
            return {"kind": "CREATE_SCHEMA", "schema": "s", "if_not_exists": flag}
        return {"kind": "DROP_SCHEMA", "schema": "s", "cascade": self.rng.random() < 0.6, "if_exists": flag}

    def alterations(self) -> dict[str, Any]:
        rng = self.rng
        steps: list[dict[str, Any]] = [
            {
                "op": "ADD_COLUMN",
                "column": {"name": rng.choice("xyz"), "type": "int64", "nullable": rng.random() < 0.8},
            },
            {"op": "DROP_COLUMN", "name": rng.choice(("x", "y", "f", "b"))},
            {"op": "RENAME_COLUMN", "name": rng.choice("xyv"), "new_name": rng.choice("xyz")},
            {"op": "SET_COMMENT", "name": None, "comment": "c"},
            {"op": "SET_DEFAULT", "name": "v", "default": "d"},
            {"op": "SET_NULLABLE", "name": "v", "nullable": rng.random() < 0.5},
            {"op": "SET_PROPERTY", "key": "conflict_granularity", "value": rng.choice(("TABLE", "FILE", "ROW", None))},
            {
                "op": "SET_PROPERTY",
                "key": "on_conflict",
                "value": rng.choice(self.policies),
            },
            {"op": "SET_PARTITION_BY", "partition_by": rng.choice(values.PARTITIONINGS)},
        ]
        return {"alterations": rng.sample(steps, rng.choice((1, 1, 2)))}

    def log_change(self) -> dict[str, Any]:
        if self.rng.random() < 0.5:
            return {"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": max(0, self.state.head_snapshot_id - 4)}
        return {"kind": "CONFIGURE", "settings": {"conflict_granularity": self.rng.choice(("TABLE", "FILE", "ROW"))}}

    def read(self) -> dict[str, Any]:
        rng = self.rng
        kind = "TABLE" if self.reader else rng.choice(("TABLE", "TABLE", "NAME", "ROWS"))
        if kind == "NAME":
            return {"kind": kind, "schema": rng.choice(SCHEMAS), "name": rng.choice((None, *TABLES))}
        if kind == "ROWS":
            return {
                "kind": kind,
                "schema": "main",
                "table": rng.choice((CHILD, PARENT)),
                "keys": [{"id": rng.choice(KEYS)}],
            }
        made: dict[str, Any] = {"kind": kind, "schema": "main", "table": rng.choice((PLAIN, PLAIN, CHILD))}
        if rng.random() < 0.8:
            columns = [*[self.favourite] * 8, *values.TYPES, *(column for column, _ in self.partitioning() * 2)]
            columns = [c for c in columns if c in values.TYPES] if made["table"] == PLAIN else ["id"]
            made["filter"] = [values.predicate(rng, rng.choice(columns)) for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.5 and made["table"] == PLAIN:
            made["files"] = [self.file_read()]
        return made
