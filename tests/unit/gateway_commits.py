"""Commits that stock clients sent (duckdb 1.5.5, on a PostgreSQL of their own), and a lake in memory as they saw it.

A file of `gateway_batches` holds: the statements before and those of the commit, its text, the rows of the catalog before,
and by the names of files the positions in delete files and the row ids in data files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from commitlog.adoption.definitions import Definitions
from commitlog.adoption.source import CatalogRows
from commitlog.domain import model as m
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import FOREIGN_PATHS, TableDefinition

FOLDER = Path(__file__).parent / "gateway_batches"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
DATA_PATH = "/lake/"
_TABLES = ("schema", "table", "view", "column", "tag", "column_tag", "partition_info", "partition_column")


@dataclass
class StoredBase:
    """A base that the rows of a catalog make up."""

    snapshot_id: int
    catalog: Mapping[str, list[dict[str, Any]]]
    deletes: Mapping[str, list[int]] = field(default_factory=dict)
    carried: Mapping[str, list[int]] = field(default_factory=dict)
    data_path: str = DATA_PATH
    primary_keys: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    in_no_file: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)
    in_snapshots: Collection[str] = ()
    takes_foreign_paths: bool = True

    def rows(self, table: str, **keys: Collection[int]) -> list[dict[str, Any]]:
        return [
            row
            for row in self.catalog.get(table, ())
            if all(row[key] in ids for key, ids in keys.items()) and row.get("end_snapshot") is None
        ]

    def is_keyed(self, table_id: int) -> bool:
        definition = self.definition(table_id)
        return definition is not None and definition.keyed

    def definition(self, table_id: int) -> TableDefinition | None:
        rows = {name: list(self.catalog.get(name, ())) for name in _TABLES}
        table = Definitions(CatalogRows(rows)).at(self.snapshot_id).tables.get(table_id)
        if table is None:
            return None
        columns = tuple(m.ColumnSpec(c.name, c.type, c.nullable, c.default) for c in table.columns)
        change = m.CreateTable(
            table.schema,
            table.name,
            columns,
            self.primary_keys.get(table_id, ()),
            properties={FOREIGN_PATHS: "true"} if self.takes_foreign_paths else {},
        )
        return define(change, table_id=table_id, schema_id=0, partition_id=None)

    def rows_in_no_file(
        self, table_id: int, row_ids: Collection[int], column_ids: Collection[int]
    ) -> dict[int, dict[int, Any]]:
        found = {row_id: row for row_id, row in self.in_no_file.items() if row_id in row_ids}
        return {row_id: {each: row[each] for each in column_ids} for row_id, row in found.items()}

    def inlined_deletes(self, table_id: int, data_file_ids: Collection[int]) -> dict[int, BitMap64]:
        found: dict[int, BitMap64] = {}
        for row in self.catalog.get(f"inlined_delete_{table_id}", ()):
            if row["file_id"] in data_file_ids:
                found.setdefault(row["file_id"], BitMap64()).add(row["row_id"])
        return found

    def named(self, folders: Collection[str], files: Collection[str]) -> set[str]:
        return {path for path in files if path in self.in_snapshots and any(path.startswith(each) for each in folders)}

    def open(self, path: str) -> pa.BufferReader:
        self.opened.append(path)
        if Path(path).exists():
            return pa.BufferReader(Path(path).read_bytes())
        name = path.rpartition("/")[2]
        columns: dict[str, list[int]] = {"a": [1], "b": [1], "x": [1]}
        if name in self.deletes:
            columns = {"pos": self.deletes[name]}
        elif name in self.carried:
            columns = {"_ducklake_internal_row_id": self.carried[name]}
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file)
        return pa.BufferReader(file.getvalue())


@dataclass(frozen=True)
class Commit:
    """What a stock client did."""

    name: str
    setup: list[str]
    statements: list[str]
    text: str
    base: StoredBase


def commit(name: str) -> Commit:
    """One of the corpus."""
    told = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    head = int(told["text"].partition("VALUES (")[2].partition(",")[0]) - 1
    base = StoredBase(head, told["base"], told["deletes"], told["carried"])
    return Commit(name, told["setup"], told["statements"], told["text"], base)


def write_file(path: Path, values: Sequence[int], row_ids: Sequence[int] | None = None) -> None:
    """A data file with these values in column a and r0, r1, ... in b."""
    columns = {"a": (pa.array(values, pa.int32()), 1), "b": (pa.array([f"r{n}" for n in range(len(values))]), 2)}
    if row_ids is not None:
        columns["_ducklake_internal_row_id"] = pa.array(row_ids, pa.int64()), 2147483540
    fields = [pa.field(n, v.type, metadata={"PARQUET:field_id": str(i)}) for n, (v, i) in columns.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table([values for values, _ in columns.values()], schema=pa.schema(fields)), path)
