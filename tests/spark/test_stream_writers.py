"""A streaming query's run and its writer's epoch; and the files of those who were refused, died or were not answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import settings_given
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.errors import (
    ConfigurationError,
    DataFileError,
    FencedError,
    KeyReusedError,
    OutcomeUnknownError,
    ProposalRejectedError,
    TableNotFoundError,
)
from commitlog.ops.maintenance.clean import Cleaning
from commitlog.spark import stream_into
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.stream_writer import StreamWriter
from commitlog.spark.source.written_files import WrittenFiles
from commitlog.spark.writing import append as appending
from commitlog.spark.writing import publish as publish_module
from commitlog.spark.writing import stream_runs
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.key import QUERY_ID
from commitlog.spark.writing.publish import publish
from commitlog.spark.writing.stream_runs import stream_key
from commitlog.spark.writing.target import Target, target

TABLE = "main.people"
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


@pytest.fixture
def people(log: CommitLog) -> None:
    """An empty table: id, name."""
    with log.transaction() as tx:
        tx.create_table(TABLE, SCHEMA)
    assert tx.outcome.snapshot_id is not None
    log.wait_for_snapshot(tx.outcome.snapshot_id)


def task_file(log: CommitLog, *ids: int) -> str:
    """What one task of `format("commitlog")` writes."""
    to = target(log, TABLE)
    batch = pa.RecordBatch.from_pydict({"id": list(ids), "name": [f"n{i}" for i in ids]}, SCHEMA)
    [path] = write_batches(iter([batch]), to.definition, to.path)
    return path


def duck_ids(log: CommitLog, settings: Settings) -> list[int]:
    log.wait_for_snapshot()
    with open_lake(settings.database_url) as connection:
        return [row[0] for row in connection.execute(f"SELECT id FROM {TABLE} ORDER BY id").fetchall()]


def epochs(log: CommitLog) -> list[int]:
    return [o.assigned.writer_epoch for o in log.subscribe(follow=False) if o.assigned.writer_epoch is not None]


@pytest.mark.usefixtures("people")
def test_format_when_a_later_run_has_opened_then_the_older_is_fenced_in_whatever_process_it_commits(
    log: CommitLog, settings: Settings
) -> None:
    options = SourceOptions(settings_given(settings))
    writer = StreamWriter(options, TABLE, from_arrow_schema(SCHEMA))

    def commit(run_id: str, batch_id: int) -> str:
        path = task_file(log, batch_id)
        writer.commit([WrittenFiles((path,), target(log, TABLE), "query", run_id)], batch_id)
        return path

    for batch_id in (0, 1):
        commit("older", batch_id)
        stream_runs._epoch_of_run.cache_clear()
    assert epochs(log) == [1]
    commit("newer", 2)
    stream_runs._epoch_of_run.cache_clear()
    late = task_file(log, 3)
    with pytest.raises(FencedError, match="a later one runs the same streaming query"):
        writer.commit([WrittenFiles((late,), target(log, TABLE), "query", "older")], 3)
    assert not Path(late).exists()
    commit("newer", 3)
    assert epochs(log) == [1, 2]
    assert duck_ids(log, settings) == [0, 1, 2, 3]


@pytest.mark.usefixtures("people")
def test_stream_when_another_driver_takes_its_checkpoint_then_stops_in_plain_words_and_a_restart_goes_on(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in (0, 1):
        (tmp_path / "feed").mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [batch], "name": ["n"]}, SCHEMA), tmp_path / "feed" / f"{batch}.parquet")
    feed = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", 1)
    stream = feed.parquet(str(tmp_path / "feed")).writeStream.foreachBatch(stream_into(TABLE, log=log))
    start = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start
    write_batches = appending.write_batches

    def taken_over(*args):  # type: ignore[no-untyped-def]
        monkeypatch.undo()
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
        stream_key(log, query_id, "a later run", target(log, TABLE).definition.table_id, 0)
        return write_batches(*args)

    # The first batch is written by tasks, the second, which is small like it, by the driver.
    monkeypatch.setattr(appending, "write_batches", taken_over)
    with pytest.raises(StreamingQueryException, match="FencedError: this driver has stopped"):
        start().awaitTermination()
    assert len(duck_ids(log, settings)) == 1
    start().awaitTermination()
    assert duck_ids(log, settings) == [0, 1]
    assert epochs(log) == [1, 2, 3]
    assert len(list(Path(settings.data_path).rglob("*.parquet"))) == 2


@pytest.mark.usefixtures("people")
def test_stream_when_some_of_its_batches_have_a_job_group_of_their_own_then_it_is_one_run(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "feed").mkdir()
    for batch in range(3):
        pq.write_table(pa.table({"id": [batch], "name": ["n"]}, SCHEMA), tmp_path / "feed" / f"{batch}.parquet")
    into_table = stream_into(TABLE, log=log)

    def write(df: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            df.sparkSession.sparkContext.setJobGroup("mine", "a batch of mine")
        into_table(df, batch_id)

    feed = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", 1)
    stream = feed.parquet(str(tmp_path / "feed")).writeStream.foreachBatch(write).trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert duck_ids(log, settings) == [0, 1, 2]
    assert epochs(log) == [1]


@pytest.mark.usefixtures("people")
def test_clean_when_spark_wrote_files_that_were_refused_or_never_proposed_then_finds_these_alone(
    log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = task_file(log, 1)
    refused = task_file(log, 2)
    stale = target(log, TABLE)
    with log.transaction() as tx:
        tx.alter(TABLE).add_column("city", "varchar")
    monkeypatch.setattr(publish_module, "remove_files", lambda paths: None)
    with pytest.raises(ProposalRejectedError):
        publish(log, stale, [refused])
    monkeypatch.undo()

    unanswered = task_file(log, 3)
    options = SourceOptions(settings_given(settings))
    writer = StreamWriter(options, TABLE, from_arrow_schema(SCHEMA))
    messages = [WrittenFiles((unanswered,), target(log, TABLE), "query", "run")]
    submit = CommitLog.submit

    def lost(self, proposal, *, timeout_ms=None):  # type: ignore[no-untyped-def]
        outcome = submit(self, proposal, timeout_ms=timeout_ms)
        if proposal.writer_seq is not None:
            raise OutcomeUnknownError(outcome.proposal_id)
        return outcome

    monkeypatch.setattr(CommitLog, "submit", lost)
    with pytest.raises(OutcomeUnknownError):
        writer.commit(messages, 0)
    writer.abort(messages, 0)
    assert duck_ids(log, settings) == [3]
    with Cleaning(settings, older_than_ms=0) as cleaning:
        found = {each.place: each.why for each in cleaning.removable()}
    # Refusals that are older than the limit are not read again.
    assert found == dict.fromkeys((never, refused), "in no snapshot: its proposals were refused, or there was none")
    assert [o.verdict for o in log.subscribe(follow=False)].count(Verdict.REJECTED) == 1


def alter_when_written(log: CommitLog, monkeypatch: pytest.MonkeyPatch, **column: str) -> None:
    """Lets somebody add a column, once, between the writing of a batch and its proposal."""
    described = publish_module.described

    def altered(*args, **more):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(publish_module, "described", described)
        files = described(*args, **more)
        with log.transaction() as tx:
            tx.alter(TABLE).add_column("city", "varchar", **column)
        return files

    monkeypatch.setattr(publish_module, "described", altered)


@pytest.mark.usefixtures("people")
def test_stream_when_a_column_is_added_meanwhile_then_fails_or_goes_on_as_asked(
    log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = settings_given(settings)

    def commit(batch_id: int, **more: str) -> str:
        writer = StreamWriter(SourceOptions({**names, **more}), TABLE, from_arrow_schema(SCHEMA))
        path = task_file(log, batch_id)
        alter_when_written(log, monkeypatch, **({"default": "Jena"} if batch_id else {}))
        writer.commit([WrittenFiles((path,), target(log, TABLE), "query", "run")], batch_id)
        return path

    with pytest.raises(ConfigurationError, match="onSchemaChange is one of fail, retry, not 'ignore'"):
        commit(0, onSchemaChange="ignore")
    with pytest.raises(ProposalRejectedError, match=r"altered table main\.people"):
        commit(0)
    assert not list(Path(settings.data_path).rglob("*.parquet"))
    with log.transaction() as tx:
        tx.alter(TABLE).drop_column("city")
    commit(1, onSchemaChange="retry")
    assert [each.as_py() for each in log.table(TABLE).scan().to_arrow()["city"]] == ["Jena"]
    assert duck_ids(log, settings) == [1]


@pytest.mark.usefixtures("people")
def test_stream_when_files_do_not_fit_the_altered_table_then_says_why_and_leaves_none(
    log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = publish_module.described
    to, path = target(log, TABLE), task_file(log, 1)

    def partitioned(*args, **more):  # type: ignore[no-untyped-def]
        files = described(*args, **more)
        with log.transaction() as tx:
            tx.alter(TABLE).set_partition_by(["id"])
        return files

    monkeypatch.setattr(publish_module, "described", partitioned)
    with pytest.raises(ProposalRejectedError, match=r"altered table main\.people"):
        publish(log, to, [path], follows=True)
    monkeypatch.undo()
    assert not Path(path).exists()
    to, path = target(log, TABLE), task_file(log, 2)
    with log.transaction() as tx:
        tx.alter(TABLE).drop_column("name")
    with pytest.raises(DataFileError, match="name has field id 2, which is none of the table's"):
        publish(log, to, [path], follows=True)
    assert not Path(path).exists()


@pytest.mark.usefixtures("people")
def test_stream_when_its_table_is_altered_and_then_dropped_meanwhile_then_leaves_no_files(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, path = target(log, TABLE), task_file(log, 1)
    with log.transaction() as tx:
        tx.alter(TABLE).add_column("city", "varchar")

    def dropped(*_: object) -> Target:
        with log.transaction() as tx:
            tx.drop_table(TABLE)
        log.wait_for_snapshot()
        return target(log, TABLE)

    monkeypatch.setattr(publish_module, "target", dropped)
    with pytest.raises(TableNotFoundError):
        publish(log, to, [path], follows=True)
    assert not Path(path).exists()


@pytest.mark.usefixtures("people")
def test_stream_when_a_batch_that_was_committed_has_other_rows_then_says_what_to_do(
    log: CommitLog, settings: Settings
) -> None:
    to = target(log, TABLE)
    key = stream_key(log, "query", "run", to.definition.table_id, 7)
    publish(log, to, [task_file(log, 1)], key=key)
    again = publish(log, to, [task_file(log, 1)], key=key)
    assert again is not None
    assert again.is_repeat
    with pytest.raises(KeyReusedError, match="came with other values than the first in id, name") as refused:
        publish(log, to, [task_file(log, 2)], key=key)
    assert "foreachBatch that does nothing for batch 7" in refused.value.__notes__[0]
    assert duck_ids(log, settings) == [1]
    assert len(list(Path(settings.data_path).rglob("*.parquet"))) == 1


@pytest.mark.usefixtures("people")
def test_stream_when_its_table_is_made_anew_while_tasks_write_then_none_of_their_values_come_into_other_columns(
    log: CommitLog, settings: Settings
) -> None:
    options = SourceOptions(settings_given(settings))

    def writer() -> StreamWriter:
        return StreamWriter(options, TABLE, from_arrow_schema(SCHEMA))

    batch = pa.RecordBatch.from_pydict({"id": [1], "name": ["n1"]}, SCHEMA)
    message = writer().write(iter([batch]))
    assert isinstance(message, WrittenFiles)
    message = replace(message, query_id="query", run_id="run")
    with log.transaction() as tx:
        tx.drop_table(TABLE)
    with log.transaction() as tx:
        tx.create_table(TABLE, {"other": "int64", "name": "varchar", "id": "int64"})
    with pytest.raises(ProposalRejectedError, match=r"dropped table main\.people"):
        writer().commit([message], 0)
    assert not list(Path(settings.data_path).rglob("*.parquet"))
    writer().commit([replace(writer().write(iter([batch])), query_id="query", run_id="run")], 0)
    assert duck_ids(log, settings) == [1]
