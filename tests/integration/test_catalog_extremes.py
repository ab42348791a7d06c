"""Extreme but valid changesets: whatever is COMMITTED goes into a default PostgreSQL, and the stock client reads it.

Wide tables, long and odd names, values at the ends of their types, many definitions, many positions, deep nesting: proposals
are made by a seed, decided by the real core, projected as the projector does it, in batches.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deciding import DecidedLog, change
from test_catalog_limits import Projecting, records_of

from commitlog.client.reading.duckdb_client import open_lake
from commitlog.domain.model import Verdict
from commitlog.errors import MalformedRecordError

BATCH = 200
READ_TABLES = 60
ODD = (
    "a", "Z", "0", " ", "'", '"', "\\", "%", "_", ";", "-", "/", ".", "*", "[", "?", "{", "}", "$", "\u00e9",
    "e\u0301", "\u00df", "\u0130", "\u05d0", "\u202e", "\u200d", "\u2028", "\ufeff", "\uffff", "\U0001f600", "\u4e2d",
)  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1), "int128": (str(-(2**127)), str(2**127 - 1)),
    "uint8": (0, 255), "uint16": (0, 65535), "uint32": (0, 2**32 - 1), "uint64": (0, str(2**64 - 1)),
    "uint128": (0, str(2**128 - 1)),
    "float32": (0.0, -0.0, 3.4028234663852886e38, "nan", "inf", "-inf"),
    "float64": (5e-324, 1.7976931348623157e308, "nan", "-inf", -0.0),
    "decimal(38,38)": ("0." + "9" * 38, "-0." + "0" * 37 + "1"), "decimal(38,0)": ("9" * 38, "-" + "9" * 38),
    "date": ("0001-01-01", "9999-12-31"), "time": ("00:00:00", "23:59:59.999999"),
    "timetz": ("00:00:00+15:59", "23:59:59.999999-15:59"),
    "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"), "timestamp_s": ("1970-01-01 00:00:00",),
    "timestamp_ns": ("1700-01-01 00:00:00.000000001", "2262-01-01 00:00:00.999999999"),
    "timestamptz": ("0001-01-02 00:00:00+00", "9999-12-30 23:59:59.999999+00"),
    "interval": ("1 year 2 months -3 days 04:05:06.789", "-00:00:00.000001"),
    "varchar": ("", "x" * 100_000, "\u4e2d\u6587" * 500, "'\"\\\n\t", "NULL", "\\N", "\\."),
    "blob": ("", "\\x00\\xFF", "abc"), "json": ("{}", '{"a": ["\u4e2d", null, 1e308]}', "[" * 40 + "]" * 40),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
}  # fmt: skip


@pytest.fixture
def projecting(database_url: str, lake_dir: Path) -> Projecting:
    return Projecting(database_url, lake_dir)


class Extremes:
    """Makes proposals; knows the tables that it made, by name."""

    def __init__(self, log: DecidedLog, seed: int) -> None:
        self.log = log
        self.random = random.Random(seed)
        self.number = 0
        self.later: list[dict[str, Any]] = []
        self.plain: dict[str, int] = {}
        self.keyed: dict[str, dict[str, str]] = {}
        self.keys: dict[str, int] = {}
        self.ways: dict[Callable[[], list[dict[str, Any]]], int] = {
            self.plain_table: 8, self.keyed_table: 8, self.many_objects: 3, self.files: 12, self.positions: 12,
            self.rows: 40, self.alterations: 8, self.views: 4, self.drops: 4, self.maintenance: 1,
        }  # fmt: skip

    def propose(self) -> None:
        """Decide one more proposal; take note of what it made."""
        make = self.random.choices(list(self.ways), list(self.ways.values()))[0]
        before = dict(self.plain), dict(self.keyed)
        changes = make()
        try:
            outcome = self.log.propose(*changes, author=self.name(60), message=self.name(250), extra=self.name(250))
        except MalformedRecordError:
            self.plain, self.keyed = before
            return
        if outcome.verdict is not Verdict.COMMITTED:
            self.plain, self.keyed = before

    def name(self, bytes_max: int = 255) -> str:
        """A text that no other is: plain, long or odd."""
        self.number += 1
        made = f"n{self.number}"
        way = self.random.random()
        if way < 0.4:
            return made
        letters = ODD if way < 0.8 else "x"
        length = self.random.choice([8, 30, min(63, bytes_max), bytes_max])
        while True:
            longer = made + self.random.choice(letters)
            if len(longer.encode()) > length:
                return made
            made = longer

    def kind(self) -> str:
        return self.random.choice(list(VALUES))

    def nested(self, depth: int) -> tuple[str, Any]:
        """A type of this depth, and a value of it."""
        kind = self.random.choice(["int32", "varchar", "date", "boolean"])
        value: Any = self.random.choice([each for each in VALUES[kind] if each != "x" * 100_000])
        for _ in range(depth):
            way = self.random.randrange(3)
            if way == 0:
                kind, value = f"list({kind})", [value, None]
            elif way == 1:
                kind, value = f"struct(a {kind}, b int8)", {"a": value, "b": -128}
            else:
                kind, value = f"map(varchar, {kind})", {"k, '=": value}
        return kind, value

    # --- ways -----------------------------------------------------------------------------------------------------

    def plain_table(self) -> list[dict[str, Any]]:
        count = self.random.choice([1, 2, 5, 20]) if self.random.random() < 0.97 else 600
        columns = [{"name": self.name(), "type": self.kind(), "nullable": True} for _ in range(count)]
        columns.append({"name": "nested", "type": self.nested(self.random.choice([1, 5, 60]))[0], "nullable": True})
        columns.append({"name": "n", "type": "int64", "nullable": True})
        table = self.name()
        self.plain[table] = 0
        buckets = self.random.random() < 0.1
        by = (
            [{"column": "n", "transform": "bucket(16)" if buckets else "identity"}]
            if self.random.random() < 0.3
            else []
        )
        return [{"kind": "CREATE_TABLE", "schema": "main", "table": table, "columns": columns, "partition_by": by}]

    def keyed_table(self) -> list[dict[str, Any]]:
        count = (
            self.random.choice([1, 3, 10, 20]) if self.random.random() < 0.85 else self.random.choice([300, 900, 1500])
        )
        short = count > 100
        kinds = {f"c{n}": self.kind() for n in range(count)}
        if not short:
            kinds |= {self.name(63): self.kind() for _ in range(2)}
            kinds["nested"] = self.nested(self.random.choice([1, 3, 20, 60]))[0]
        table = self.name()
        self.keyed[table] = kinds
        columns = [{"name": "id", "type": "int64", "nullable": False}]
        columns += [{"name": name, "type": kind, "nullable": True} for name, kind in kinds.items()]
        made = {"kind": "CREATE_TABLE", "schema": "main", "table": table, "columns": columns, "primary_key": ["id"]}
        return [made]

    def many_objects(self) -> list[dict[str, Any]]:
        count = self.random.choice([3, 10, 30]) if self.random.random() < 0.97 else 500
        schema = self.name()
        made: list[dict[str, Any]] = [{"kind": "CREATE_SCHEMA", "schema": schema}]
        for _ in range(count - 1):
            columns = [{"name": "a", "type": "varchar", "nullable": True}]
            made.append({"kind": "CREATE_TABLE", "schema": schema, "table": self.name(), "columns": columns})
        if self.random.random() < 0.5:
            self.later = [{"kind": "DROP_SCHEMA", "schema": schema, "cascade": True}]
        return made

    def files(self) -> list[dict[str, Any]]:
        if not self.plain:
            return self.plain_table()
        table = self.random.choice(list(self.plain))
        statistics = [
            {"column": "n", "min": -(2**63), "max": 2**63 - 1, "null_count": 0, "contains_nan": None},
            {"column": self.name(), "min": self.name(), "max": "\U0010ffff" * 40, "null_count": 2**53},
        ]
        made = []
        for _ in range(self.random.choice([1, 1, 3, 50])):
            path = f"f{self.number}-{self.name(100).replace('/', '').replace(chr(92), '')}.parquet"
            rows = self.random.choice([0, 1, 1000, 2**31, 2**40])
            size = self.random.choice([0, 1, 2**40])
            made.append({"path": path, "record_count": rows, "file_size_bytes": size, "statistics": statistics})
        return [change("APPEND", table, files=made)]

    def positions(self) -> list[dict[str, Any]]:
        live = [
            (state.definition.name, file, self.log.state.record_counts.get(file))
            for state in self.log.state.tables.values()
            if state.dropped_at is None and state.definition.name in self.plain
            for file in list(state.live_files)[:3]
        ]
        live = [each for each in live if each[2] > 0]
        if not live:
            return self.files()
        table, file, count = self.random.choice(live)
        if self.random.random() < 0.1:
            return [change("DELETE", table, whole_files=[file])]
        start = self.random.choice([max(0, count - 100_000), self.random.randrange(count)])
        length = self.random.choice([1, 7, 1000]) if self.random.random() < 0.97 else 100_000
        rows = list(range(start, min(count, start + length)))
        return [change("DELETE", table, positions=[{"data_file_id": file, "rows": rows}])]

    def rows(self) -> list[dict[str, Any]]:
        if not self.keyed:
            return self.keyed_table()
        table = self.random.choice(list(self.keyed))
        made = []
        full = self.random.random()
        for _ in range(self.random.choice([1, 1, 2, 40]) if len(self.keyed[table]) < 20 else 1):
            key = self.keys[table] = self.keys.get(table, -(2**63)) + 1
            row: dict[str, Any] = {"id": key}
            for name, kind in self.keyed[table].items():
                if self.random.random() < full and kind in VALUES:
                    row[name] = self.random.choice(VALUES[kind])
            made.append(change("INSERT_ROW", table, row=row))
        if self.random.random() < 0.2:
            key = self.keys[table] - len(made)
            made.append(change("DELETE_ROW", table, key={"id": key}))
        return made

    def alterations(self) -> list[dict[str, Any]]:
        tables = [*self.plain, *self.keyed]
        if not tables:
            return self.plain_table()
        table = self.random.choice(tables)
        added = [
            {"op": "ADD_COLUMN", "column": {"name": self.name(63), "type": self.kind()}}
            for _ in range(self.random.choice([1, 2, 10]))
        ]
        return [
            change(
                "ALTER_TABLE", table, alterations=[*added, {"op": "SET_COMMENT", "name": None, "comment": self.name()}]
            )
        ]

    def views(self) -> list[dict[str, Any]]:
        literal = self.name().replace("'", "''")
        return [{"kind": "CREATE_VIEW", "schema": "main", "view": self.name(), "sql": f"SELECT '{literal}' AS v"}]

    def drops(self) -> list[dict[str, Any]]:
        if self.later:
            later, self.later = self.later, []
            return later
        tables = [*self.plain, *self.keyed]
        if len(tables) < 20:
            return self.plain_table()
        table = self.random.choice(tables)
        self.plain.pop(table, None)
        self.keyed.pop(table, None)
        return [change("DROP_TABLE", table)]

    def maintenance(self) -> list[dict[str, Any]]:
        if self.random.random() < 0.3:
            return [{"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": max(1, self.log.head - 50)}]
        return [{"kind": "CONFIGURE", "settings": {"conflicts_max": self.random.randrange(1, 2**40)}}]


def check(projecting: Projecting, seed: int, proposals: int) -> None:
    log = DecidedLog()
    extremes = Extremes(log, seed)
    for number in range(1, proposals + 1):
        extremes.propose()
        if number % BATCH == 0 or number == proposals:
            projecting.apply_rest(records_of(log))
    committed = sum(outcome.verdict is Verdict.COMMITTED for outcome in log.outcomes)
    assert committed > 0.6 * proposals, f"{committed} of {proposals} were valid"
    assert projecting.applied_seq() == len(log.outcomes)
    read(projecting.projector.settings.database_url, extremes)


def live_keys(state: Any) -> Any:
    """The keys of the rows that a keyed table has."""
    return () if state.rows is None else state.rows.live


def read(url: str, extremes: Extremes) -> None:
    """The stock client opens the lake, lists its snapshots, and reads rows that are in no file."""
    chosen = extremes.random.sample(sorted(extremes.keyed), min(READ_TABLES, len(extremes.keyed)))
    states = {state.definition.name: state for state in extremes.log.state.tables.values() if state.dropped_at is None}
    with psycopg.connect(url) as conn:
        count = "SELECT count(*) FROM ducklake_snapshot"
        snapshots = (conn.execute(count).fetchone() or (0,))[0]
    with open_lake(url) as client:
        assert client.execute("SELECT count(*) FROM ducklake_snapshots('lake')").fetchall() == [(snapshots,)]
        for table in chosen:
            name = '"' + table.replace('"', '""') + '"'
            rows = client.execute(f"SELECT id, * FROM {name}").fetchall()
            assert len(rows) == len({row[0] for row in rows}) == len(live_keys(states[table])), table


def test_extreme_changesets_when_committed_then_all_are_projected_and_read(projecting: Projecting) -> None:
    check(projecting, seed=1, proposals=150)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_ten_thousand_extreme_changesets_when_committed_then_all_are_projected_and_read(projecting: Projecting) -> None:
    check(projecting, seed=2, proposals=10_000)
