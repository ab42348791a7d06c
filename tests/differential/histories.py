"""Random histories: each step is one transaction of the stock client and one changeset of commitlog that say the same.

The stock client goes first. What it refuses, or what makes no snapshot there, is not proposed.
"""

from __future__ import annotations

from collections import Counter

import duckdb
from definition_steps import DefinitionSteps
from row_steps import RowSteps
from sides import Ours, Stock
from steps import Step, Table

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


class History(DefinitionSteps, RowSteps):
    """One seed's history on both sides.

    snapshots: pairs of snapshot ids, stock and ours, that must read alike. They differ only after an expiry, which takes
    a snapshot id of ours and none of the stock client's. stock_of: the stock snapshot of each of ours.
    """

    def __init__(self, seed: int, stock: Stock, ours: Ours) -> None:
        super().__init__(seed, stock, ours)
        self.snapshots: list[tuple[int, int]] = [(0, 0)]
        self.is_ahead = False
        self.stock_of = {0: 0}
        self.done: Counter[str] = Counter()
        self.refused: list[str] = []
        self.agreed = 0
        self.misled: list[str] = []

    @property
    def has_same_ids(self) -> bool:
        """Whether schemas and tables have the same ids on both sides: a view that is replaced keeps its id here."""
        return not self.done["replace_view"]

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
