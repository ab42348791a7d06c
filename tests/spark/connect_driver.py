"""Both faces of the product in a session of Spark Connect, in a process of its own: the tests' session is another kind.

Told as JSON what to connect to; tells as JSON on its last line what it has read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.spark import append, compact, delete, merge, overwrite, read, stream_into, table, update, verify

TABLE, COPY, PLAIN = "main.people", "main.copy", "main.plain"
SCHEMA = "id bigint, name string, tags array<struct<k: string, v: int>>"
TAGS = "array(named_struct('k', 'a', 'v', CAST(id AS INT))) AS tags"


def run(query: DataStreamWriter) -> None:
    """Run it to its end; again, where a loaded machine did not start Python within the ten seconds of Spark's."""
    while True:
        try:
            query.start().awaitTermination()
        except StreamingQueryException as error:
            if "worker to connect back" not in str(error):
                raise
        else:
            return


def main() -> None:
    told = json.loads(sys.argv[1])
    work = Path(told["work"])
    spark = (
        SparkSession.builder.remote("local[1]")
        .config("spark.driver.memory", "800m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    log = CommitLog.connect(settings=Settings.load(environment={}, **told["settings"]))
    options = {**told["settings"], "table": TABLE}
    found: dict[str, object] = {"kind": type(spark).__module__}

    def rows(start: int, end: int):  # type: ignore[no-untyped-def]
        return spark.range(start, end, 1, 1).selectExpr("id", "concat('n', id) AS name", TAGS)

    def ids(rows) -> list[int]:  # type: ignore[no-untyped-def]
        return sorted(row.id for row in rows.collect())

    rows(90, 99).write.format("commitlog").options(**options).mode("append").save()
    rows(0, 10).write.format("commitlog").options(**options).mode("overwrite").save()
    rows(10, 20).write.parquet(str(work / "feed"))
    feed = spark.readStream.schema(SCHEMA).parquet(str(work / "feed"))
    for _ in range(2):
        sink = feed.writeStream.format("commitlog").options(**options)
        run(sink.option("checkpointLocation", str(work / "sink")).trigger(availableNow=True))
    log.wait_for_snapshot()
    loaded = spark.read.format("commitlog").options(**options).load()
    found["format"] = ids(loaded.where("id >= 5"))
    follow = spark.readStream.format("commitlog").options(**options).option("startingSnapshot", "1").load()
    copy = follow.where("id < 90").writeStream.format("commitlog").options(**{**options, "table": COPY})
    copy = copy.option("createTable", "true").option("checkpointLocation", str(work / "copy"))
    run(copy.trigger(availableNow=True))
    log.wait_for_snapshot()
    found["copied"] = ids(spark.read.format("commitlog").options(**{**options, "table": COPY}).load())

    append(rows(20, 30), TABLE, log=log)
    delete(spark, TABLE, "id % 10 = 3", log=log)
    found["row"] = read(spark, TABLE, log=log).where("id = 25").first().asDict(recursive=True)
    append(rows(0, 30).drop("tags"), PLAIN, log=log, create=True)
    delete(spark, PLAIN, "id % 10 = 3", log=log)
    update(spark, PLAIN, {"name": "'new'"}, [("id", "=", 25)], log=log)
    merge(rows(29, 31).drop("tags"), PLAIN, ["id"], log=log)
    compact(spark, PLAIN, log=log)
    found["native"] = ids(read(spark, PLAIN, log=log))
    read(spark, PLAIN, log=log).selectExpr("id", "id AS again").write.parquet(str(work / "plain"))
    found["plain"] = ids(spark.read.parquet(str(work / "plain")))
    found["history"] = [row.changes for row in table(spark, PLAIN, log=log).history().collect()]
    found["updated"] = ids(read(spark, PLAIN, log=log).where("name = 'new'"))
    overwrite(rows(1, 2).drop("tags"), PLAIN, [("id", "<", 5)], check=True, log=log)
    found["overwritten"] = ids(read(spark, PLAIN, log=log))
    spark.conf.set("spark.sql.maxPlanStringLength", "100")
    plain = read(spark, PLAIN, log=log)
    shown_short, checkpoint = plain.where("id < 9"), plain.localCheckpoint()
    append(rows(40, 41).drop("tags"), PLAIN, log=log)
    for name, refused in {
        "shown short": lambda: overwrite(shown_short, PLAIN, log=log),
        "checkpoint": lambda: overwrite(checkpoint.select("id"), PLAIN, log=log),
        "stream_into": lambda: stream_into(TABLE, log=log),
        "compact": lambda: compact(spark, TABLE, rewrite_all=True, log=log),
    }.items():
        try:
            refused()
        except CommitLogError as error:
            found[name] = str(error)
    log.wait_for_snapshot()
    found["verified"] = str(verify(spark, log=log))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
