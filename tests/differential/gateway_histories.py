"""Random histories of which stock clients write both sides: their own lake, and ours through the gateway."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import duckdb
from gateway_sides import DecidedCommits
from histories import STEPS_WEIGHED, History
from kinds import Value
from row_steps import IN_FILES
from sides import Ours, Stock
from steps import File, Step, Table

NOT_THERE = ("rows", "compact", "inlined", "mapped", "expire")
"""Steps that the gateway refuses, or in which the two sides do not say the same."""
NAMES = [name for name in STEPS_WEIGHED if name not in NOT_THERE]


class GatewayHistory(History):
    """One seed's history. Statements run unchanged: each client has its own side attached as ``stock``."""

    def __init__(
        self, seed: int, stock: Stock, ours: Ours, through: duckdb.DuckDBPyConnection, commits: DecidedCommits
    ) -> None:
        super().__init__(seed, stock, ours)
        self.through = through
        self.commits = commits
        self.has_reset = False

    @property
    def has_same_ids(self) -> bool:
        """The stock client takes an id for no partitioning too."""
        return super().has_same_ids and not self.has_reset

    def run(self, steps: int) -> None:
        self.play(["create_table"])
        self.play(["append"])
        for _ in range(steps):
            self.play(self.random.choices(NAMES, [STEPS_WEIGHED[name] for name in NAMES]))

    def pick(self, tables: list[Table], *, keyed: bool | None = False, files: bool = False) -> Table | None:
        for table in tables:
            table.keyed = False
        return super().pick(tables, keyed=keyed, files=files)

    def take(self, step: Step, what: str) -> None:
        head = self.stock.head()
        try:
            self._run(self.client.duck, step)
        except duckdb.Error as error:
            self.refused.append(f"{what}: {step.statements}: {error}")
            return
        before = len(self.commits.outcomes)
        self._run(self.through, step)
        now = self.stock.head()
        if now == head:
            return
        self.has_reset |= any("RESET PARTITIONED BY" in statement for statement in step.statements)
        made = self.commits.outcomes[before:]
        if not made:
            # What is so already makes a snapshot and a schema version at the stock client's, and none here.
            assert set(what.split("+")) <= {"comment", "set_default"}, what
            self.is_ahead = True
            self.snapshots.append((now, self.snapshots[-1][1]))
            return
        (outcome,) = made
        assert outcome.snapshot_id is not None
        self.stock_of[outcome.snapshot_id] = now
        self.snapshots.append((now, outcome.snapshot_id))
        for run in step.after:
            run(outcome)

    @staticmethod
    def _run(duck: duckdb.DuckDBPyConnection, step: Step) -> None:
        duck.execute("BEGIN")
        try:
            for statement in step.statements:
                duck.execute(statement)
            duck.execute("COMMIT")
        except duckdb.Error:
            with suppress(duckdb.Error):
                duck.execute("ROLLBACK")
            raise

    # --- writes: what they come to in our lake ------------------------------------------------------------------------

    def say_append(self, step: Step, table: Table, *, rows: list[dict[str, Value]], before: int = 0) -> None:
        step.statements += [IN_FILES, f"INSERT INTO {table.sql()} {self.values_sql(table, rows)}"]
        made: dict[str, Any] = {"record_count": len(rows), "path": ""}
        step.after.append(lambda outcome: self.note_file(table, outcome, made))

    def say_delete(self, step: Step, table: Table, file: File, positions: list[int]) -> None:
        ids = ", ".join(str(file.row_ids[n]) for n in positions)
        step.statements += [IN_FILES, f"DELETE FROM {table.sql()} WHERE rowid IN ({ids})"]
        if len(positions) < len(file.live()):
            step.then(lambda: file.by_position.update(positions))
            return
        table.deviates |= bool(file.by_position)
        step.then(lambda: table.files.remove(file))
