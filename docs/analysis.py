"""What a log tells of itself, as pictures: a workload on the embedded runtime, read back as a DataFrame, and plotted.

    pip install 'commitlog[spark,local,analysis]'
    python docs/analysis.py                  # makes docs/images/*.png anew

Several writers append, delete, compact and alter for some seconds, and get in each other's way; every number in the
pictures then comes from `commitlog.spark.source.outcomes`, which is what one would ask of a log of one's own.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from commitlog.client import CommitLog, Transaction
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import ProposalRejectedError
from commitlog.ops.bench.servers import own_servers, service_process
from commitlog.spark import outcomes

FILE_TABLES = ("orders", "clicks")
ACCOUNTS = 20
RECENT_FILES = 20
ROWS = 100
WRITERS = 8
THINKING_S_MAX = 0.05
BLUE, RED = "#2563a8", "#c2452d"
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}
COLORS = ("#2563a8", "#c2452d", "#d9a21b", "#3f8f5b", "#7a5aa6", "#8a8f98")


def main() -> None:
    """Run the workload, read the outcomes, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the writers write")
    parser.add_argument("--images", type=Path, default=Path(__file__).with_name("images"))
    given = parser.parse_args()
    plt.switch_backend("agg")
    with ExitStack() as stack:
        settings = stack.enter_context(own_servers(Settings.load(), print))
        for service in ("sequencer", "projector"):
            stack.enter_context(service_process(settings, service))
        log = stack.enter_context(CommitLog.connect(settings=settings))
        work(log, given.seconds)
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        stack.callback(spark.stop)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        draw(outcomes(spark, log=log), given.images)


# --- a workload -----------------------------------------------------------------------------------------------------


class Writer:
    """One writer, which begins a transaction, thinks for a moment as a computation would, and commits.

    Args:
        log: the log.
        known: how many rows each data file had, by table and id; all writers share it.
        number: of this writer; also the seed of what it does.
    """

    def __init__(self, log: CommitLog, known: dict[str, dict[int, int]], number: int) -> None:
        self._log = log
        self._known = known
        self._chance = random.Random(number)
        self._id = f"writer-{number}"

    def write_until(self, end: float) -> None:
        """Commit one thing after another; what is refused is left at that."""
        actions = (self.append, self.update_account, self.delete_rows, self.compact, self.alter)
        while time.monotonic() < end:
            [action] = self._chance.choices(actions, (40, 30, 20, 8, 0.5))
            tx = self._log.transaction(writer_id=self._id)
            table = self._chance.choice(FILE_TABLES)
            action(tx, table)
            time.sleep(self._chance.uniform(0, THINKING_S_MAX))
            try:
                outcome = tx.commit()
            except ProposalRejectedError:
                continue
            self._note(tx.changes[0], table, outcome.assigned.data_file_ids)

    def append(self, tx: Transaction, table: str) -> None:
        tx.append(table, [self._file(ROWS)])

    def update_account(self, tx: Transaction, table: str) -> None:
        key = {"id": self._chance.randrange(ACCOUNTS)}
        tx.update_row("accounts", key, {**key, "balance": self._chance.randrange(1_000)})

    def delete_rows(self, tx: Transaction, table: str) -> None:
        for file_id, rows in self._some_files(table, 1).items():
            tx.delete(table, {file_id: [self._chance.randrange(rows)]})

    def compact(self, tx: Transaction, table: str) -> None:
        files = self._some_files(table, 3)
        tx.compact(table, files, [self._file(sum(files.values()))])

    def alter(self, tx: Transaction, table: str) -> None:
        tx.alter(table).set_default("v", str(self._chance.random()))

    def _some_files(self, table: str, files: int) -> dict[int, int]:
        newest = list(self._known[table].items())[-RECENT_FILES:]
        return dict(self._chance.sample(newest, min(files, len(newest))))

    def _note(self, change: m.Change, table: str, file_ids: Sequence[int]) -> None:
        """Files that were replaced, or that have lost a row, are left alone from now on."""
        known = self._known[table]
        if isinstance(change, m.Delete):
            gone = [each.data_file_id for each in change.positions]
        else:
            gone = list(change.replaced) if isinstance(change, m.Compact) else []
        for file_id in gone:
            known.pop(file_id, None)
        if isinstance(change, m.Append | m.Compact):
            known |= {file_id: file.record_count for file_id, file in zip(file_ids, change.files, strict=True)}

    def _file(self, rows: int) -> m.DataFile:
        """A file that nobody will read: the log is told of it, and that is all that is looked at here."""
        return m.DataFile(f"{self._chance.getrandbits(64):016x}.parquet", rows, rows * 12)


def work(log: CommitLog, seconds: float) -> None:
    """Let the writers write. `accounts` is keyed, so that its conflicts are of rows."""
    with log.transaction() as tx:
        for table in FILE_TABLES:
            tx.create_table(table, {"id": "int64", "v": "varchar"}, properties={"conflict_granularity": "ROW"})
        tx.create_table("accounts", {"id": "int64", "balance": "int64"}, primary_key=["id"])
        for number in range(ACCOUNTS):
            tx.insert_row("accounts", {"id": number, "balance": 100})
    assert tx.outcome.snapshot_id is not None
    log.wait_for_snapshot(tx.outcome.snapshot_id)
    known: dict[str, dict[int, int]] = {table: {} for table in FILE_TABLES}
    for table in FILE_TABLES:
        with log.transaction() as tx:
            tx.append(table, [m.DataFile(f"{table}-{i}.parquet", ROWS, ROWS * 12) for i in range(RECENT_FILES)])
        known[table] |= dict.fromkeys(tx.outcome.assigned.data_file_ids, ROWS)
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(WRITERS) as threads:
        writers = [Writer(log, known, number) for number in range(WRITERS)]
        for done in [threads.submit(writer.write_until, end) for writer in writers]:
            done.result()


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(found: DataFrame, images: Path) -> None:
    """One picture for each question."""
    images.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True})
    found = found.cache()
    found.groupBy("verdict", "reason").count().show()
    decided = found.select("decided_at", "verdict", "reason", "message", "created_at").toPandas()
    conflicts = (
        found.where("reason = 'CONFLICT'")
        .select(F.explode("conflicts").alias("conflict"))
        .groupBy(F.col("conflict.table").alias("table"), F.col("conflict.kind").alias("kind"))
        .count()
        .toPandas()
    )
    for name, plot in (
        ("commits-per-second", lambda axes: _rates(axes, decided)),
        ("latency", lambda axes: _latency(axes, decided)),
        ("conflicts", lambda axes: _conflicts(axes, conflicts)),
    ):
        figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
        plot(axes)
        figure.savefig(images / f"{name}.png", dpi=110)
        plt.close(figure)
        print(f"{images / name}.png")


def _rates(axes: Axes, decided: pd.DataFrame) -> None:
    second = (decided["decided_at"] - decided["decided_at"].min()).dt.total_seconds().astype(int)
    counts = decided.groupby([second, "verdict"]).size().unstack(fill_value=0).iloc[1:-1]
    axes.plot(counts.index, counts["COMMITTED"], color=BLUE, label="committed", linewidth=2)
    axes.plot(counts.index, counts["REJECTED"], color=RED, label="refused", linewidth=2)
    axes.set(title="Decisions by second", xlabel="seconds since the first", ylabel="proposals / s", ylim=(0, None))
    axes.grid(axis="y", color="#e3e5e8")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _latency(axes: Axes, decided: pd.DataFrame) -> None:
    ms = ((decided["decided_at"] - decided["created_at"]).dt.total_seconds() * 1000).dropna().clip(lower=0)
    marks = {name: ms.quantile(share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    shown = ms.clip(upper=marks["p99"] * 1.5)
    axes.hist(shown, bins=range(int(shown.max()) + 2), color=BLUE)
    top = axes.get_ylim()[1]
    for line, (name, value) in enumerate(marks.items()):
        axes.axvline(value, color=RED, linewidth=1.2, linestyle="--")
        axes.text(value, top * (0.98 - 0.08 * line), f"  {name} {value:.0f} ms", color=RED, va="top", bbox=WHITE)
    axes.set(title="From the making of a proposal to its decision", xlabel="ms", ylabel="proposals")
    axes.grid(axis="y", color="#e3e5e8")


def _conflicts(axes: Axes, conflicts: pd.DataFrame) -> None:
    table = conflicts.pivot_table(index="table", columns="kind", values="count", aggfunc="sum", fill_value=0)
    table = table.loc[table.sum(axis=1).sort_values().index, table.sum().sort_values(ascending=False).index]
    left = pd.Series(0, index=table.index)
    for color, kind in zip(cycle(COLORS), table.columns, strict=False):
        axes.barh(table.index, table[kind], left=left, color=color, label=kind)
        left += table[kind]
    axes.set(title="Conflicts of refused proposals, by table and kind", xlabel="conflicts", xlim=(0, left.max() * 1.05))
    axes.grid(axis="x", color="#e3e5e8")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=9)


if __name__ == "__main__":
    main()
