"""Tables written and read by Spark, through a real log and catalog, and read by the stock DuckDB client beside it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from people import (
    TABLE,
    Interrupted,
    Meanwhile,
    committed,
    duck_ids,
    files_below,
    files_now,
    ids,
    rows,
    source_options,
)
from pyroaring import FrozenBitMap64
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.errors import DataFileError, KeyReusedError, OutcomeUnknownError, ProposalRejectedError
from commitlog.spark import (
    Key,
    append,
    compact,
    delete,
    merge,
    overwrite,
    read,
    transaction,
    update,
)
from commitlog.spark.changing import matching
from commitlog.spark.changing.base import Base
from commitlog.spark.filters import Where
from commitlog.spark.reading.dataframes import with_positions
from commitlog.spark.reading.scan_files import ScanFile
from commitlog.spark.source.batch_writer import BatchWriter
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.writing import parquet_files


@pytest.mark.usefixtures("people")
def test_read_when_two_appends_committed_then_equals_what_was_written_at_each_snapshot(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    first = committed(append(rows(spark, 1, 2, 3), TABLE, log=log))
    second = committed(append(rows(spark, 4, 5), TABLE, log=log))
    assert ids(spark, log, first) == [1, 2, 3]
    assert ids(spark, log, second) == ids(spark, log) == [1, 2, 3, 4, 5]
    assert duck_ids(settings, first) == [1, 2, 3]
    assert duck_ids(settings, second) == [1, 2, 3, 4, 5]
    assert read(spark, TABLE, log=log).where("id = 4").first().asDict() == {"id": 4, "name": "n4", "age": 4}


@pytest.mark.usefixtures("people")
def test_append_when_rows_do_not_fit_then_says_why_and_writes_nothing(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with pytest.raises(DataFileError, match=r"column age: expected int \(int32\), found string"):
        append(spark.sql("SELECT 1L AS id, 'x' AS age"), TABLE, log=log)
    assert files_below(settings) == []


@pytest.mark.usefixtures("people")
def test_append_when_tasks_wrote_to_a_folder_of_their_own_machine_then_says_so_and_commits_nothing(
    spark: SparkSession, log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "_may_be_elsewhere", lambda session, directory: True)
    append(rows(spark, 1, 2, 3), TABLE, log=log)
    assert append(rows(spark, 1).where("false"), TABLE, log=log) is None
    listed = parquet_files._listed
    # As if one of two tasks, or both, had run on another machine, whose files are not here.
    for missing in (1, 2):
        monkeypatch.setattr(parquet_files, "_listed", lambda directory, n=missing: sorted(listed(directory))[n:])
        with pytest.raises(DataFileError, match=r"written 8 rows, and this process finds \d of them .* set data_path"):
            append(spark.range(8, numPartitions=2).selectExpr("id"), TABLE, log=log)
    monkeypatch.undo()
    assert ids(spark, log) == [1, 2, 3]
    writer = BatchWriter(SourceOptions(source_options(settings)), TABLE, rows(spark, 4).schema)
    written = writer.write(iter(rows(spark, 4).toArrow().to_batches()))
    for path in written.paths:
        Path(path).unlink()
    with pytest.raises(DataFileError, match="does not exist"):
        writer.commit([written])


@pytest.mark.usefixtures("people")
def test_append_when_there_are_no_rows_then_commits_nothing(spark: SparkSession, log: CommitLog) -> None:
    assert append(rows(spark, 1).where("false"), TABLE, log=log) is None


@pytest.mark.usefixtures("people")
def test_append_when_the_key_has_committed_then_repeats_the_answer_and_leaves_no_second_files(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    first = append(rows(spark, 1, 2), TABLE, log=log, key="nightly:20240131")
    again = append(rows(spark, 1, 2), TABLE, log=log, key=Key("nightly", 20240131))
    assert again is not None
    assert again.is_repeat
    assert committed(again) == committed(first)
    assert ids(spark, log) == [1, 2]
    assert len(files_below(settings)) == 1


@pytest.mark.usefixtures("people")
def test_append_when_another_commits_under_its_key_meanwhile_then_other_rows_are_refused_and_another_table_has_its_own_keys(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with Meanwhile.connect(settings=settings) as late:
        late.other = lambda: append(rows(spark, 1, 2), TABLE, log=log, key="nightly:1")
        with pytest.raises(KeyReusedError, match="came with other values than the first in age, id, name"):
            append(rows(spark, 1, 3), TABLE, log=late, key="nightly:1")
        assert len(files_below(settings)) == 1
        late.other = lambda: append(rows(spark, 1, 2), "others", log=log, key="nightly:1", create=True)
        again = append(rows(spark, 2, 1).repartition(2), "others", log=late, key="nightly:1", create=True)
    assert again is not None
    assert again.is_repeat
    assert len(files_below(settings)) == 2
    assert ids(spark, log) == [1, 2]


@pytest.mark.usefixtures("people")
def test_append_when_the_table_is_altered_meanwhile_then_is_refused_with_the_reason_and_its_files_go(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    def alter() -> None:
        with log.transaction() as tx:
            tx.alter(TABLE).add_column("city", "varchar")

    with Interrupted.connect(settings=settings) as late:
        late.meanwhile = alter
        with pytest.raises(ProposalRejectedError, match=r"CONFLICT.*altered"):
            append(rows(spark, 1), TABLE, log=late)
    assert files_below(settings) == []


@pytest.mark.usefixtures("people")
def test_append_when_the_answer_is_lost_then_keeps_the_files(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with Interrupted.connect(settings=settings) as lossy:
        lossy.loses_answer = True
        with pytest.raises(OutcomeUnknownError):
            append(rows(spark, 1), TABLE, log=lossy)
    assert ids(spark, log, log.wait_for_snapshot()) == [1]


@pytest.mark.usefixtures("people")
def test_read_when_rows_are_deleted_then_leaves_them_out_from_that_snapshot_on(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    before = committed(append(rows(spark, *range(10)), TABLE, log=log))
    append(rows(spark, *range(10, 20)), TABLE, log=log)
    first = committed(delete(spark, TABLE, [("id", "in", [1, 2, 15])], log=log))
    second = committed(delete(spark, TABLE, "id >= 5 AND id < 17", log=log))
    assert ids(spark, log, before) == list(range(10))
    assert ids(spark, log, first) == [i for i in range(20) if i not in (1, 2, 15)]
    assert ids(spark, log) == duck_ids(settings, second) == [0, 3, 4, 17, 18, 19]
    assert delete(spark, TABLE, "id = 1", log=log) is None


@pytest.mark.parametrize("settings", [{"inlined_positions_max": 3}], indirect=True)
@pytest.mark.usefixtures("people")
def test_delete_when_rows_are_many_then_goes_by_delete_files_that_hold_those_of_the_ones_before(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, *range(20)), TABLE, log=log)
    for where, remaining in (
        ("id < 5", range(5, 20)),
        ("id IN (6, 7)", [5, *range(8, 20)]),
        ("id > 12", [5, 8, 9, 10, 11, 12]),
    ):
        snapshot = committed(delete(spark, TABLE, where, log=log))
        assert ids(spark, log, snapshot) == duck_ids(settings, snapshot) == list(remaining)
    assert len([path for path in files_below(settings) if "deletes" in path.name]) == 2
    before = files_below(settings)
    with Interrupted.connect(settings=settings) as late:
        late.meanwhile = lambda: committed(append(rows(spark, 99), TABLE, log=log)) and None
        with pytest.raises(ProposalRejectedError, match="CONFLICT"):
            delete(spark, TABLE, "id > 8", log=late, attempts=1)
    assert len([path for path in files_below(settings) if path not in before]) == 1


@pytest.mark.usefixtures("people")
def test_read_when_columns_were_added_renamed_and_names_used_again_then_equals_duckdb(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    with log.transaction() as tx:
        tx.alter(TABLE).rename_column("name", "label").add_column("name", "varchar", default="none")
    append(spark.sql("SELECT 3L AS id, 'x' AS label, 'y' AS name"), TABLE, log=log)
    found = read(spark, TABLE, log=log).where("name = 'none' AND label = 'n2'").select("id").collect()
    assert [row.id for row in found] == [2]
    with open_lake(settings.database_url) as connection:
        theirs = connection.execute(f"SELECT id, label, age, name FROM {TABLE} ORDER BY id").fetchall()
    assert [tuple(row) for row in read(spark, TABLE, log=log).orderBy("id").collect()] == theirs


@pytest.mark.usefixtures("people")
def test_update_when_rows_match_then_gives_them_the_values_and_leaves_the_others(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, 1, 2, 3), TABLE, log=log)
    snapshot = committed(update(spark, TABLE, {"name": "'new'"}, [("id", ">=", 2)], log=log))
    assert [tuple(row) for row in read(spark, TABLE, log=log).orderBy("id").collect()] == [
        (1, "n1", 1),
        (2, "new", 2),
        (3, "new", 3),
    ]
    assert duck_ids(settings, snapshot) == [1, 2, 3]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("operation", [delete, update])
def test_change_when_it_meets_others_then_reads_again_only_the_files_that_they_touched(
    spark: SparkSession,
    log: CommitLog,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    operation: Callable[..., object],
) -> None:
    for start in (0, 10, 20):
        append(rows(spark, *range(start, start + 10)), TABLE, log=log)
    first, second, third = (each.data_file_id for each in files_now(log))
    read_files: list[list[int]] = []

    found_in = matching.found_in

    def spy(part: Base, where: Where) -> dict[int, FrozenBitMap64]:
        read_files.append([each.data_file_id for each in part.scan.files])
        return found_in(part, where)

    def others() -> None:
        if len(read_files) == 1:
            append(rows(spark, *range(30, 40)), TABLE, log=log)
            with log.transaction() as tx:
                tx.delete(TABLE, {second: [1]})

    monkeypatch.setattr(matching, "found_in", spy)
    with Interrupted.connect(settings=settings) as late:
        late.meanwhile = others
        if operation is delete:
            delete(spark, TABLE, "id % 10 = 5", log=late)
        else:
            update(spark, TABLE, {"id": sf.col("id") + 100}, "id % 10 = 5", log=late)
    assert "main.people is computed again from snapshot 6 on, attempt 2 of 3, since it was refused: " in caplog.text
    assert read_files[0] == [first, second, third]
    assert read_files[1][0] == second
    assert len(read_files[1]) == 2
    changed = [] if operation is delete else [105, 115, 125, 135]
    expected = [i for i in range(40) if i % 10 != 5 and i != 11] + changed
    head = log.wait_for_snapshot()
    assert ids(spark, log, head) == duck_ids(settings, head) == expected


@contextmanager
def _unreadable(*files: ScanFile) -> Iterator[None]:
    """Whoever opens these meanwhile fails."""
    for each in files:
        Path(each.path).rename(f"{each.path}.away")
    yield
    for each in files:
        Path(f"{each.path}.away").rename(each.path)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    "where", [[("id", ">=", 5), ("id", "<", 20)], "id >= 5 AND id < 20.0 AND 1 = 1"], ids=["tuples", "sql"]
)
def test_delete_when_statistics_tell_of_files_then_reads_only_those_of_which_some_rows_go(
    spark: SparkSession, log: CommitLog, settings: Settings, where: Any
) -> None:
    for start in (0, 10, 20):
        append(rows(spark, *range(start, start + 10)), TABLE, log=log)
    with _unreadable(*files_now(log)[1:]):
        snapshot = committed(delete(spark, TABLE, where, log=log))
    assert ids(spark, log) == duck_ids(settings, snapshot) == [*range(5), *range(20, 30)]
    kept = files_now(log)
    with _unreadable(kept[0]):
        assert [row.id for row in read(spark, TABLE, where="id + 1 > 0 AND id = 25", log=log).collect()] == [25]
    with _unreadable(*kept), transaction(log) as tx:
        tx.overwrite(rows(spark, 27), TABLE, where=[("id", ">", 19)])
    assert ids(spark, log) == [*range(5), 27]
    assert [each.data_file_id for each in files_now(log)][:1] == [kept[0].data_file_id]


@pytest.mark.usefixtures("people")
def test_update_when_statistics_tell_of_files_then_reads_none_whose_rows_stay_and_knows_rows_that_came_elsewhere_apart(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    for start in (0, 10, 20):
        append(rows(spark, *range(start, start + 10)), TABLE, log=log)
    with Interrupted.connect(settings=settings) as late, _unreadable(*files_now(log)[1:]):
        late.meanwhile = lambda: committed(append(rows(spark, 50), TABLE, log=log)) and None
        update(spark, TABLE, {"age": 99}, "id = 5 OR false", log=late, attempts=1)
    with _unreadable(*files_now(log)[:2]):
        update(spark, TABLE, {"age": 98}, "id BETWEEN 20 AND 29", log=log)
    found = {row.id: row.age for row in read(spark, TABLE, log=log).where("age > 90").collect()}
    assert found == {5: 99, **dict.fromkeys(range(20, 30), 98)}
    assert ids(spark, log) == [*range(30), 50]
    update(spark, TABLE, {"age": 97}, True, log=log)
    assert {row.age for row in read(spark, TABLE, log=log).collect()} == {97}


@pytest.mark.usefixtures("people")
def test_overwrite_when_rows_came_in_meanwhile_then_is_refused_and_without_them_replaces_all(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    with Interrupted.connect(settings=settings) as late:
        late.meanwhile = lambda: committed(append(rows(spark, 3), TABLE, log=log)) and None
        with pytest.raises(ProposalRejectedError, match="CONFLICT") as refused:
            overwrite(rows(spark, 9), TABLE, log=late)
    advice, note = refused.value.__notes__
    assert "isolation='write_serializable' lets those pass" in advice
    assert note == "Attempts made: 1, each from the newest snapshot on."
    assert ids(spark, log) == [1, 2, 3]
    overwrite(rows(spark, 8), TABLE, log=log)
    assert ids(spark, log) == [8]
    overwrite(rows(spark, 7), TABLE, [("id", "=", 8)], check=False, log=log)
    assert ids(spark, log) == [7]


@pytest.mark.usefixtures("people")
def test_merge_when_some_rows_match_then_updates_them_and_inserts_the_rest(spark: SparkSession, log: CommitLog) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    merge(spark.sql("SELECT id, concat('m', id) AS name FROM VALUES (2L), (3L) AS t(id)"), TABLE, ["id"], log=log)
    assert [tuple(row) for row in read(spark, TABLE, log=log).orderBy("id").collect()] == [
        (1, "n1", 1),
        (2, "m2", 2),
        (3, "m3", None),
    ]
    merge(spark.sql("SELECT 1L AS id"), TABLE, ["id"], matched="delete", not_matched="ignore", log=log)
    assert ids(spark, log) == [2, 3]
    with pytest.raises(DataFileError, match="two rows of the source have the same id"):
        merge(spark.sql("SELECT id FROM VALUES (2L), (2L) AS t(id)"), TABLE, ["id"], log=log)


@pytest.mark.usefixtures("people")
def test_merge_when_files_cannot_match_then_opens_none_of_them_and_reads_the_others_once(
    spark: SparkSession, log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (0, 10, 20):
        append(rows(spark, *range(start, start + 10)), TABLE, log=log)
    rows_read, source_rows_read = spark.sparkContext.accumulator(0), spark.sparkContext.accumulator(0)

    def counting(df: DataFrame, counter: Accumulator[int]) -> DataFrame:
        return df.where(sf.udf(lambda _: counter.add(1) is None, "boolean").asNondeterministic()("id"))

    standing = with_positions
    monkeypatch.setattr(
        "commitlog.spark.changing.merge_step.with_positions", lambda *given: counting(standing(*given), rows_read)
    )
    source = counting(rows(spark, 12, 13, 15, 18).withColumn("name", sf.lit("new")), source_rows_read)
    with Interrupted.connect(settings=settings) as late, _unreadable(*files_now(log)[::2]):
        late.meanwhile = lambda: committed(append(rows(spark, 50), TABLE, log=log)) and None
        merge(source.where("id <> 13").drop("age"), TABLE, ["ID"], log=late, attempts=1)
    assert (rows_read.value, source_rows_read.value) == (10, 4)
    found = {row.id: row.age for row in read(spark, TABLE, log=log).where("name = 'new'").collect()}
    assert found == {12: 12, 15: 15, 18: 18}
    monkeypatch.undo()
    with Interrupted.connect(settings=settings) as late:
        late.meanwhile = lambda: committed(append(rows(spark, 45), TABLE, log=log)) and None
        with pytest.raises(ProposalRejectedError, match="CONFLICT"):
            merge(rows(spark, 40, 49), TABLE, ["id"], log=late, attempts=1)
    merge(rows(spark, 60).selectExpr("id", "'a\\nb' AS name"), TABLE, ["name"], log=log)
    assert ids(spark, log) == [*range(30), 45, 50, 60]


@pytest.mark.usefixtures("people")
def test_changes_when_what_they_go_by_gives_other_rows_each_time_then_no_row_is_lost_or_doubled(
    spark: SparkSession, log: CommitLog
) -> None:
    append(rows(spark, *range(40)), TABLE, log=log)

    chance = sf.udf(lambda number: os.urandom(1)[0] < 128, "boolean").asNondeterministic()
    spark.udf.register("by_chance", chance)
    source = rows(spark, *range(60)).where(chance("id")).withColumn("name", sf.lit("merged"))
    merge(source, TABLE, ["id"], log=log)
    found = ids(spark, log)
    assert len(found) == len(set(found))
    assert found[:40] == list(range(40))
    update(spark, TABLE, {"age": 99}, "by_chance(id)", log=log)
    assert ids(spark, log) == found


@pytest.mark.parametrize("where", ["at < current_timestamp()", "id IN (SELECT id FROM parquet.`{due}`)"])
def test_update_when_its_filter_matches_more_rows_a_moment_later_then_no_row_is_lost_or_doubled(
    spark: SparkSession, log: CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    due = str(tmp_path / "due")
    spark.range(1).write.parquet(due)
    events = spark.range(8).selectExpr("id", "0 AS n", "timestampadd(SECOND, CAST(id AS INT), now()) AS at").coalesce(1)
    append(events, "main.events", log=log, create=True)
    found_rows = matching.found_rows

    def later(*given: Any) -> DataFrame:
        spark.range(1, 8).write.mode("append").parquet(due)
        last = read(spark, "main.events", log=log).agg(sf.max("at"))
        while last.where("`max(at)` >= current_timestamp()").count():
            pass
        return found_rows(*given)

    monkeypatch.setattr("commitlog.spark.changing.update.found_rows", later)
    update(spark, "main.events", {"n": 1}, where.format(due=due), log=log)
    assert sorted(row.id for row in read(spark, "main.events", log=log).collect()) == [*range(8)]


@pytest.mark.usefixtures("people")
def test_overwrite_when_its_rows_are_the_tables_own_in_a_checkpoint_then_is_refused_if_others_wrote_since(
    spark: SparkSession, log: CommitLog
) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    own = read(spark, TABLE, log=log)
    kept = [own.localCheckpoint(), own.localCheckpoint(eager=False), rows(spark, 7).union(own.localCheckpoint())]
    given = spark.createDataFrame([(4, "n4", 4)], own.schema)
    append(rows(spark, 3), TABLE, log=log)
    for each in kept:
        with pytest.raises(ProposalRejectedError, match="CONFLICT"):
            overwrite(each.where("id <> 2"), TABLE, True, log=log)
        with pytest.raises(ProposalRejectedError, match="CONFLICT"):
            merge(each, TABLE, ["id"], matched="delete", log=log)
    assert ids(spark, log) == [1, 2, 3]
    merge(given, TABLE, ["id"], log=log)
    overwrite(read(spark, TABLE, log=log).where("id <> 2").localCheckpoint(), TABLE, True, log=log)
    assert ids(spark, log) == [1, 3, 4]


@pytest.mark.usefixtures("people")
def test_changes_when_which_rows_is_left_unsaid_then_are_refused_and_true_or_all_says_it(
    spark: SparkSession, log: CommitLog
) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    unset: list[Any] = [None, [], "", " ", (), False]
    for where in unset:
        for change in (
            lambda where: delete(spark, TABLE, where, log=log),
            lambda where: update(spark, TABLE, {"age": 0}, where, log=log),
            lambda where: overwrite(rows(spark, 9), TABLE, where, log=log),
            lambda where: transaction(log).delete(spark, TABLE, where),
            lambda where: transaction(log).overwrite(rows(spark, 9), TABLE, where),
        ):
            with pytest.raises(ValueError, match="where=True for all rows"):
                change(where)
    assert ids(spark, log) == [1, 2]
    update(spark, TABLE, {"age": 5}, True, log=log)
    assert {row.age for row in read(spark, TABLE, log=log).collect()} == {5}
    overwrite(rows(spark, 3, 4), TABLE, True, log=log)
    assert ids(spark, log) == [3, 4]
    delete(spark, TABLE, "all", log=log)
    assert ids(spark, log) == []


@pytest.mark.usefixtures("people")
def test_compact_when_files_are_small_and_rows_deleted_then_one_file_has_the_live_rows(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    for start in (0, 10, 20):
        append(rows(spark, *range(start, start + 10)), TABLE, log=log)
    before = committed(delete(spark, TABLE, "id % 2 = 1", log=log))
    [outcome] = compact(spark, TABLE, log=log)
    assert ids(spark, log) == ids(spark, log, before) == duck_ids(settings, committed(outcome))
    assert compact(spark, TABLE, log=log) == []


@pytest.mark.usefixtures("people")
def test_appends_when_several_threads_write_then_all_commit(spark: SparkSession, log: CommitLog) -> None:
    threads = [
        threading.Thread(target=lambda i=i: append(rows(spark, i), TABLE, log=log), name=str(i)) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(spark, log) == [0, 1, 2, 3]
