"""verify: a whole log is decided again by Spark's tasks, from Kafka and from its archive, and finds what was planted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from drivers import TIMEOUT_S
from pyspark.sql import SparkSession

from commitlog.catalog.guard import mark_projector
from commitlog.client import CommitLog
from commitlog.client.outcomes.archive import archive, archived_so_far
from commitlog.config import Settings
from commitlog.domain.deciding import conflict_matrix
from commitlog.domain.model import ChangeKind, DataFile
from commitlog.errors import ConfigurationError, ProposalRejectedError
from commitlog.log.genesis import init_log
from commitlog.log.topics import topics_of
from commitlog.ops.cli import cli
from commitlog.spark import append, delete, verify
from commitlog.spark.source import outcomes as outcomes_source


def some_history(spark: SparkSession, log: CommitLog) -> None:
    """Files, deletes, keyed rows, a rename, a refusal and a repeat, in tables of which some belong together."""
    with log.transaction() as tx:
        tx.create_table("main.a", {"id": "int64"})
    with log.transaction() as tx:
        tx.create_table("main.b", {"id": "int64"})
    with log.transaction() as tx:
        tx.create_table("main.p", {"id": "int64"}, primary_key=["id"])
    for table in ("main.a", "main.b"):
        append(spark.range(10).coalesce(1), table, log=log, key=f"load-{table}:1")
    delete(spark, "main.a", "id < 3", log=log)
    for number in range(4):
        inserting = log.transaction()
        inserting.insert_row("main.p", {"id": number})
        proposal = inserting.hand_over()
        for _ in range(2 if number < 2 else 1):
            log.submit(proposal)
    late = log.transaction()
    with log.transaction() as tx:
        tx.delete_row("main.p", {"id": 1})
    with log.transaction() as tx:
        tx.rename_table("main.b", "c")
    late.append("main.b", [DataFile("x.parquet", 1, 1)])
    with pytest.raises(ProposalRejectedError):
        late.commit()


def run_verify(settings: Settings, *options: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from commitlog.ops.cli import main; main()"]
    command = [*program, "verify", *options]
    return subprocess.run(command, capture_output=True, text=True, env=settings.environment(), timeout=TIMEOUT_S)


def test_verify_when_all_is_right_then_says_so_and_when_a_row_is_missing_then_finds_it(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    some_history(spark, log)
    report = verify(spark, log=log)
    assert report.ok, str(report)
    with pytest.raises(ConfigurationError, match="there is no archive at"):
        verify(spark, log=log, archive=str(tmp_path / "nowhere"))
    assert (report.outcomes, report.judged) == (15, 15)
    assert report.verdicts == {"COMMITTED": 12, "DUPLICATE": 2, "REJECTED": 1}
    assert report.shares > 1
    with psycopg.connect(settings.database_url) as conn:
        mark_projector(conn)
        conn.execute("DELETE FROM ducklake_inlined_data_3_3 WHERE row_id = 2")
    done = run_verify(settings)
    assert "WRONG catalog: counts 2 rows of table main.p, the log 3" in done.stdout, done.stderr
    assert done.returncode == 1


def test_verify_when_a_record_cannot_be_read_then_says_where_and_why(settings: Settings) -> None:
    init_log(settings)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(topics_of(settings.log).results, b"\xc3\x01of another version", partition=0)
    assert producer.flush(30) == 0
    done = run_verify(settings, "--no-catalog")
    assert re.search(r"WRONG between results offsets \d+ and \d+: .* is no record that this version knows", done.stdout)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_verify_when_a_verdict_is_wrong_then_names_it(
    spark: SparkSession, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.a", {"id": "int64"})
    late = log.transaction()
    with log.transaction() as tx:
        tx.alter("main.a").add_column("v", "int64")
    # This sequencer minds no conflicts; Spark's tasks are processes of their own, and do.
    monkeypatch.setattr(conflict_matrix, "RULES_OF", dict.fromkeys(ChangeKind, ()))
    late.rename_table("main.a", "z")
    assert late.commit().snapshot_id == 3
    report = verify(spark, log=log, catalog=False)
    assert [tuple(each) for each in report.findings] == [
        (3, "is COMMITTED, but the rules give REJECTED (CONFLICT)"),
    ]
    assert "WRONG outcome 3" in str(report)


def test_archive_when_continued_then_holds_each_closed_range_once_and_verify_reads_it(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "archive")
    some_history(spark, log)
    progress: list[tuple[int, int]] = []
    first = archive(settings, folder, range_snapshots=4, on_progress=lambda *each: progress.append(each))
    assert progress[-1][0] == progress[-1][1] > 11
    assert [(each.first_snapshot_id, each.last_snapshot_id) for each in first] == [(0, 3), (4, 7), (8, 11)]
    assert archive(settings, folder, range_snapshots=4) == []
    with pytest.raises(ConfigurationError, match="ranges of 4 snapshots"):
        archive(settings, folder, range_snapshots=5)
    for number in range(4):
        with log.transaction() as tx:
            tx.insert_row("main.p", {"id": 100 + number})
    done = CliRunner().invoke(cli, ["archive", "--to", folder, "--range", "4", "--json"], env=settings.environment())
    next_one = json.loads(done.output)
    paths, at = archived_so_far(folder)
    seqs = [seq for path in paths for seq in pq.read_table(path)["seq"].to_pylist()]
    assert seqs == list(range(len(seqs)))
    assert next_one["outcomes"] == len(pq.read_table(next_one["path"]))
    assert at is not None
    assert at.seq == seqs[-1]
    steps: list[tuple[str, int, int]] = []
    report = verify(spark, log=log, archive=folder, on_step=lambda *step: steps.append(step))
    assert [(done, count) for _, done, count in steps] == [(0, 3), (1, 3), (2, 3)]
    assert report.ok, str(report)
    assert report.outcomes == 19

    # Somebody goes on with the archive while it is read.
    for number in range(4):
        with log.transaction() as tx:
            tx.insert_row("main.p", {"id": 200 + number})
    end = outcomes_source.results_end

    def end_of(settings: Settings) -> int:
        assert archive(settings, folder) != []
        return end(settings)

    with monkeypatch.context() as patched:
        patched.setattr(outcomes_source, "results_end", end_of)
        report = verify(spark, log=log, archive=folder)
    assert report.ok, str(report)
    assert report.outcomes == 23
