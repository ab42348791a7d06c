"""The table main.people as Spark, the stock DuckDB client and the folder have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.errors import OutcomeUnknownError
from commitlog.spark import SparkTable, read
from commitlog.spark.connection import catalog_of
from commitlog.spark.reading.scan import scan_at
from commitlog.spark.reading.scan_files import ScanFile

TABLE = "main.people"


class Interrupted(CommitLog):
    """Does something between the making of a proposal and its sending, or loses the answer."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)
    loses_answer = False

    def commit(self, proposal, *, timeout_ms=None):  # type: ignore[no-untyped-def]
        self.meanwhile()
        outcome = super().commit(proposal, timeout_ms=timeout_ms)
        if self.loses_answer:
            raise OutcomeUnknownError(outcome.proposal_id)
        return outcome


class Meanwhile(Interrupted):
    """Another writer commits before the first proposal is sent."""

    other: Callable[[], object] = staticmethod(lambda: None)

    def commit(self, proposal, *, timeout_ms=None):  # type: ignore[no-untyped-def]
        other, self.other = self.other, lambda: None
        other()
        return super().commit(proposal, timeout_ms=timeout_ms)


def rows(spark: SparkSession, *ids: int) -> DataFrame:
    values = ", ".join(f"({i}L)" for i in ids)
    query = f"SELECT id, concat('n', id) AS name, CAST(id % 90 AS INT) AS age FROM VALUES {values} AS t(id)"
    return spark.sql(query).coalesce(1)


def committed(outcome: object) -> int:
    snapshot = getattr(outcome, "snapshot_id", None)
    assert isinstance(snapshot, int)
    return snapshot


def ids(spark: SparkSession, log: CommitLog, snapshot: int | None = None) -> list[int]:
    return sorted(row.id for row in read(spark, TABLE, snapshot, log=log).collect())


def ids_of(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def duck_ids(settings: Settings, snapshot: int) -> list[int]:
    with open_lake(settings.database_url) as connection:
        found = connection.execute(f"SELECT id FROM {TABLE} AT (VERSION => {snapshot}) ORDER BY id").fetchall()
    return [row[0] for row in found]


def all_of(table: SparkTable) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table.read().orderBy("id").collect()]


def seen(log: CommitLog, outcome: Any) -> int:
    """The snapshot of an outcome, once readers see it."""
    assert outcome.snapshot_id is not None
    log.wait_for_snapshot(outcome.snapshot_id)
    return int(outcome.snapshot_id)


def files_now(log: CommitLog) -> tuple[ScanFile, ...]:
    return scan_at(catalog_of(log), TABLE, log.transaction().base_snapshot_id).files


def files_below(settings: Settings) -> list[Path]:
    return sorted(Path(settings.data_path).rglob("*.parquet"))


def settings_given(settings: Settings) -> dict[str, str]:
    """The settings as options of the data source, or as what a driver is told."""
    names = ("log", "bootstrap_servers", "database_url", "data_path", "home")
    return {name: str(getattr(settings, name)) for name in names}


def source_options(settings: Settings) -> dict[str, str]:
    return {**settings_given(settings), "table": TABLE}
