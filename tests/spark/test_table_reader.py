"""`format("commitlog")` as a source: tables at a snapshot, and streams that follow a table's rows."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from people import TABLE, ids_of, rows, seen
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from commitlog.client import CommitLog
from commitlog.errors import ProposalRejectedError
from commitlog.spark import append, delete, merge, overwrite, read, transaction
from commitlog.spark.reading.snapshots import columns_read_at
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.publish import publish
from commitlog.spark.writing.target import target


def test_format_when_a_table_has_columns_by_the_names_of_changes_then_gives_its_own(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    audit = spark.sql("SELECT 1L AS id, 'delete' AS _change, 77L AS _snapshot_id UNION ALL SELECT 2L, 'moved', NULL")
    seen(log, append(audit, "main.audit", log=log, create=True))
    own = [(1, "delete", 77), (2, "moved", None)]
    there = {**options, "table": "main.audit"}
    assert sorted(map(tuple, spark.read.format("commitlog").options(**there).load().collect())) == own
    came: list[tuple[Any, ...]] = []
    rides = spark.readStream.format("commitlog").options(**there).load()
    writer = rides.writeStream.foreachBatch(lambda batch, _: came.extend(map(tuple, batch.collect())))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(came) == own
    with pytest.raises(
        PySparkException, match="a column _change of its own, and the option changes tells of changes by that"
    ):
        spark.readStream.format("commitlog").options(**there, changes="true").load()


def test_format_when_read_at_snapshots_then_the_rows_of_each(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    first = seen(log, append(rows(spark, 1, 2, 3), TABLE, log=log))
    second = seen(log, delete(spark, TABLE, "id = 2", log=log))
    with log.transaction() as tx:
        tx.alter(TABLE).rename_column("name", "title").add_column("city", "varchar", default="Jena")
    seen(log, tx.outcome)
    source = spark.read.format("commitlog").options(**options)
    assert ids_of(source.option("snapshot", first).load()) == [1, 2, 3]
    assert ids_of(source.option("snapshot", second).load()) == [1, 3]
    newest = spark.read.format("commitlog").options(**options).load()
    assert newest.columns == ["id", "title", "age", "city"]
    assert newest.orderBy("id").collect() == read(spark, TABLE, log=log).orderBy("id").collect()
    for moment, words in (
        ("1969-01-01T00:00:00Z", "no snapshot of 1969-01-01 00:00:00 UTC: the log began at"),
        ("2001-01-01T00:00:00", r"names its time zone, such as 2001-01-01T00:00:00Z"),
        ("2301-01-01T00:00:00Z", "a table is read at a moment that has passed"),
    ):
        with pytest.raises(PySparkException, match=words):
            spark.read.format("commitlog").options(**options, timestamp=moment).load()
    with pytest.raises(PySparkException, match="a table is read at a snapshot such as 42"):
        source.option("snapshot", "newest").load().collect()
    with pytest.raises(PySparkException, match="no option snapshott: did you mean snapshot"):
        spark.read.format("commitlog").options(**options, snapshott="1").load()


def test_reads_when_filtered_then_files_are_left_out_before_spark_sees_them(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    for start in (0, 10, 20):
        seen(log, append(rows(spark, *range(start, start + 10)).coalesce(1), TABLE, log=log))
    whole, one = read(spark, TABLE, log=log), read(spark, TABLE, where=[("id", "between", (12, 13))], log=log)
    assert (len(whole.inputFiles()), len(one.inputFiles()), ids_of(one)) == (3, 1, [12, 13])
    assert ids_of(read(spark, TABLE, where=("id", "=", 5), log=log)) == [5]
    assert ids_of(read(spark, TABLE, where="id > 28", log=log)) == [29]


def in_sql(options: dict[str, str]) -> str:
    return ", ".join(f"`{name}` '{value}'" for name, value in options.items())


def test_format_when_a_view_or_a_frame_is_queried_again_then_each_query_reads_one_snapshot_the_newest(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    first = seen(log, append(rows(spark, 1), TABLE, log=log))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW early USING commitlog OPTIONS ({in_sql(options)})")
    pinned = spark.read.format("commitlog").options(**options, snapshot=str(first)).load()
    frame = spark.read.format("commitlog").options(**options).load()
    assert (spark.table("early").count(), pinned.count(), ids_of(frame)) == (1, 1, [1])
    append(rows(spark, *range(2, 8)).repartition(6), TABLE, log=log)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW late USING commitlog OPTIONS ({in_sql(options)})")
    joined = spark.sql("SELECT count(early.id), count(late.id) FROM early FULL OUTER JOIN late ON early.id = late.id")
    assert joined.first() == (7, 7)
    assert ids_of(spark.table("early").where("id < 4")) == [1, 2, 3]
    assert (ids_of(frame), pinned.count()) == (list(range(1, 8)), 1)
    append(rows(spark, 8), TABLE, log=log)
    assert joined.select("*").first() == (8, 8)
    assert (len(frame.collect()), frame.rdd.count(), pinned.count()) == (8, 8, 1)


def test_format_when_a_view_is_overwritten_by_its_own_rows_then_what_others_appended_stays(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW people USING commitlog OPTIONS ({in_sql(options)})")
    assert spark.table("people").count() == 2
    append(rows(spark, 3, 4), TABLE, log=log)
    spark.sql("INSERT OVERWRITE people SELECT id, name, age FROM people")
    assert ids_of(read(spark, TABLE, log=log)) == [1, 2, 3, 4]
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"

    def waiting(number: int) -> int:
        begun.touch()
        deadline = time.monotonic() + 120
        while not go_on.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return number

    spark.udf.register("waiting", waiting, "bigint")
    with ThreadPoolExecutor(1) as pool:
        # The shuffle makes the read a stage that has ended before the write begins.
        query = "INSERT OVERWRITE people SELECT /*+ REPARTITION(2) */ waiting(id), name, age FROM people"
        overwriting = pool.submit(spark.sql, query)
        while not begun.exists() and not overwriting.done():
            time.sleep(0.05)
        to = target(log, TABLE)
        batch = pa.RecordBatch.from_pydict({"id": [5], "name": ["n5"], "age": pa.array([5], pa.int32())})
        publish(log, to, write_batches(iter([batch]), to.definition, to.path))
        go_on.touch()
        with pytest.raises(PySparkException, match=r"CONFLICT.*appended to main\.people since base"):
            overwriting.result()
    assert ids_of(read(spark, TABLE, log=log)) == [1, 2, 3, 4, 5]


def test_overwrite_when_its_rows_were_read_before_others_wrote_then_is_refused_unless_that_was_asked_for(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    before = seen(log, append(rows(spark, 1, 2), TABLE, log=log))
    mine = (
        read(spark, TABLE, log=log)
        .where("id < 9")
        .withColumnRenamed("age", "years")
        .selectExpr("id", "name", "years AS age")
    )
    append(rows(spark, 3), TABLE, log=log)
    with pytest.raises(ProposalRejectedError, match=r"appended to main\.people since base"):
        overwrite(mine, TABLE, log=log)
    with pytest.raises(ProposalRejectedError, match=r"appended to main\.people since base") as refused:
        merge(mine.selectExpr("id", "age + 1 AS age"), TABLE, ["id"], log=log)
    advice, note = refused.value.__notes__
    assert "isolation='write_serializable' lets those pass" in advice
    assert note == f"Its rows were made of the table's own at snapshot {before}: read them again, and try again."
    with transaction(log) as tx, pytest.raises(ValueError, match="read them after it has begun"):
        tx.overwrite(mine, TABLE)
    assert ids_of(read(spark, TABLE, log=log)) == [1, 2, 3]
    overwrite(read(spark, TABLE, before, log=log), TABLE, log=log)
    assert ids_of(read(spark, TABLE, log=log)) == [1, 2]


def test_format_when_overwritten_by_rows_that_were_read_before_others_wrote_then_is_refused(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    before = seen(log, append(rows(spark, 1, 2), TABLE, log=log))
    mine = read(spark, TABLE, log=log)
    mine.createOrReplaceTempView("mine")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW people USING commitlog OPTIONS ({in_sql(options)})")
    append(rows(spark, 3), TABLE, log=log)
    made_of_them = (
        mine,
        mine.where("id < 9").repartition(2).withColumn("age", mine.age + 1),
        mine.union(rows(spark, 9)),
    )
    for each in made_of_them:
        with pytest.raises(PySparkException, match=r"CONFLICT.*appended to main\.people since base"):
            each.write.format("commitlog").mode("overwrite").options(**options).save()
    with pytest.raises(PySparkException, match=r"CONFLICT.*appended to main\.people since base"):
        spark.sql("INSERT OVERWRITE people SELECT id, name, age + 1 AS age FROM mine")
    assert ids_of(read(spark, TABLE, log=log)) == [1, 2, 3]
    table_id = log.table(TABLE).definition.table_id
    assert columns_read_at(mine.schema, log, table_id) == before
    other = StructType.fromJson(
        json.loads(re.sub("_commitlog_[0-9a-f]{32}", "_commitlog_" + "0" * 32, mine.schema.json()))
    )
    assert columns_read_at(other, log, table_id) is None
    read(spark, TABLE, log=log).where("id > 1").write.format("commitlog").mode("overwrite").options(**options).save()
    assert ids_of(read(spark, TABLE, log=log)) == [2, 3]
    read(spark, TABLE, before, log=log).write.format("commitlog").mode("overwrite").options(**options).save()
    assert ids_of(read(spark, TABLE, log=log)) == [1, 2]


def test_reads_when_a_table_with_nested_columns_has_no_file_left_then_give_no_rows(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    with log.transaction() as tx:
        columns = {"id": "int64", "s": "struct(a int32, l list(varchar))", "m": "map(varchar, int64)"}
        tx.create_table("main.nested", columns)
    nested = spark.read.format("commitlog").options(**{**options, "table": "main.nested"})
    df = spark.sql("SELECT 1L AS id, named_struct('a', 1, 'l', array('x')) AS s, map('k', 1L) AS m")
    assert (read(spark, "nested", log=log).collect(), nested.load().collect()) == ([], [])
    append(df, "nested", log=log)
    assert read(spark, "nested", where=[("id", ">", 5)], log=log).collect() == []
    assert read(spark, "nested", log=log).collect() == nested.load().collect() == df.collect()
    delete(spark, "nested", "id = 1", log=log)
    assert (read(spark, "nested", log=log).collect(), nested.load().collect()) == ([], [])
    assert delete(spark, "nested", "id = 1", log=log) is None


def test_insert_when_it_leaves_out_columns_then_they_have_their_defaults(
    spark: SparkSession, log: CommitLog, options: dict[str, str]
) -> None:
    with log.transaction() as tx:
        steps = tx.alter(TABLE).add_column("city", "varchar", default="it's \\x")
        steps.add_column("mark", "blob", default=b"\x00'").add_column(
            "at", "timestamptz", default="2026-01-01 00:00:00+00"
        )
        steps.add_column("code", "uint64", default=2**63)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW people USING commitlog OPTIONS ({in_sql(options)})")
    spark.sql("INSERT INTO people (id) VALUES (1)")
    spark.sql("INSERT INTO people (id, city, code) VALUES (2, DEFAULT, NULL)")
    spark.sql("INSERT INTO people BY NAME SELECT 3L AS id, 'n3' AS name")
    found = spark.sql(
        "SELECT id, name, city, mark, at = TIMESTAMP '2026-01-01 00:00:00Z', code FROM people ORDER BY id"
    )
    others = ("it's \\x", b"\x00'", True)
    assert found.collect() == [(1, None, *others, 2**63), (2, None, *others, None), (3, "n3", *others, 2**63)]


def test_frame_when_it_is_written_beside_files_without_a_column_then_their_rows_get_no_default(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    append(rows(spark, 1), TABLE, log=log)
    with log.transaction() as tx:
        tx.alter(TABLE).add_column("city", "varchar", default="Jena")
    seen(log, tx.outcome)
    files = str(tmp_path / "files")
    spark.range(7, 8).write.parquet(files)
    spark.read.format("commitlog").options(**options).load().write.mode("append").parquet(files)
    found = spark.read.option("mergeSchema", "true").parquet(files).selectExpr("id", "city").orderBy("id")
    assert found.collect() == [(1, "Jena"), (7, None)]


def test_create_table_when_it_lists_columns_or_selects_then_its_use_says_what_to_leave_out(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE made (id BIGINT) USING commitlog OPTIONS (table 'main.people')")
    try:
        for statement in ("SELECT * FROM made", "INSERT INTO made VALUES (1)"):
            with pytest.raises(PySparkException, match="without a list of columns and without AS SELECT"):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE made")
    with pytest.raises(PySparkException, match="without a list of columns and without AS SELECT"):
        spark.sql("CREATE TABLE made USING commitlog OPTIONS (table 'main.people') AS SELECT 1L AS id")


def test_create_table_when_it_uses_commitlog_then_is_read_and_written_by_its_options_which_have_no_password(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    separator = "&" if "?" in options["database_url"] else "?"
    secret = {**options, "database_url": f"{options['database_url']}{separator}sslpassword=hush"}
    with pytest.raises(PySparkException, match="database_url has a password"):
        spark.sql(f"CREATE TABLE made USING commitlog OPTIONS ({in_sql(secret)})")
    running = {name: value for name, value in secret.items() if name != "table"}
    (tmp_path / "run.json").write_text(json.dumps(running))
    spark.sql(f"CREATE TABLE made USING commitlog OPTIONS (table '{TABLE}', home '{tmp_path}')")
    try:
        spark.sql("INSERT INTO made VALUES (1L, 'n1', 1)")
        append(rows(spark, 2), TABLE, log=log)
        assert ids_of(spark.table("made")) == [1, 2]
        # Rows that were read, here even the table's own, do not say where they go.
        with pytest.raises(PySparkException, match="INSERT INTO made WITH"):
            spark.sql("INSERT INTO made SELECT * FROM made")
        spark.sql(
            f"INSERT OVERWRITE made WITH (`table` = '{TABLE}', home = '{tmp_path}') SELECT * FROM made WHERE id = 2"
        )
        assert ids_of(spark.table("made")) == ids_of(read(spark, TABLE, log=log)) == [2]
    finally:
        spark.sql("DROP TABLE made")
    with log.transaction() as tx:
        tx.alter(TABLE).add_column("city", "varchar", default="Jena")
    seen(log, tx.outcome)
    spark.sql(f"CREATE TABLE made USING commitlog OPTIONS (table '{TABLE}', home '{tmp_path}')")
    try:
        spark.sql("INSERT INTO made (id) VALUES (3L)")
        assert spark.sql("SELECT id, city FROM made ORDER BY id").collect() == [(2, "Jena"), (3, "Jena")]
    finally:
        spark.sql("DROP TABLE made")
