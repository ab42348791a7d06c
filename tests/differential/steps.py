"""What the steps of a history are made of: tables as they are now on both sides, and chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kinds import Kind, Value, draw
from sides import Ours, Stock, quote

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


class Steps:
    """What has been made so far, and what to make more of."""

    def __init__(self, seed: int, stock: Stock, ours: Ours) -> None:
        self.random = random.Random(seed)
        self.stock = stock
        self.client = ours.client
        self.ours = ours
        self.tables: list[Table] = []
        self.schemas = ["main"]
        self.views: dict[str, str] = {}
        self.names = 0
        self.literals: dict[tuple[str, str], list[str]] = {}

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
