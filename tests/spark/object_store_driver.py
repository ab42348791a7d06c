"""Spark on a lake in S3, in a process of its own: the jars of S3A must be there when its JVM starts.

Told as JSON what to connect to; tells as JSON on its last line what it has read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.spark import append, compact, delete, read, stream_into, update

TABLE = "main.people"
SCHEMA = "id bigint, name string"


def main() -> None:
    told = json.loads(sys.argv[1])
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "800m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.hadoop.fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
        .config("spark.hadoop.fs.s3a.endpoint", told["endpoint"])
        .config("spark.hadoop.fs.s3a.endpoint.region", "us-east-1")
        .config("spark.hadoop.fs.s3a.path.style.access", "true")
    )
    for name, value in told["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    log = CommitLog.connect(settings=Settings.load(environment={}, **told["settings"]))
    work = Path(told["work"])

    def rows(start: int, end: int):  # type: ignore[no-untyped-def]
        return spark.range(start, end, 1, 1).selectExpr("id", "concat('n', id) AS name")

    append(rows(0, 10), TABLE, log=log)
    rows(10, 20).write.format("commitlog").options(**told["settings"], table=TABLE).mode("append").save()
    rows(20, 30).write.parquet(str(work / "feed"))
    feed = spark.readStream.schema(SCHEMA).parquet(str(work / "feed"))
    writer = feed.writeStream.foreachBatch(stream_into(TABLE, log=log))
    # The checkpoint is in S3 too.
    checkpoint = f"{told['settings']['data_path']}/checkpoints/feed"
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    delete(spark, TABLE, "id % 10 = 3", log=log)
    update(spark, TABLE, {"name": "'new'"}, [("id", "=", 25)], log=log)
    log.wait_for_snapshot()
    compact(spark, TABLE, log=log)
    natively = read(spark, TABLE, log=log)
    log.wait_for_snapshot()
    through_format = spark.read.format("commitlog").options(**told["settings"], table=TABLE).load()
    found = {
        "native": sorted(row.id for row in read(spark, TABLE, log=log).collect()),
        "format": sorted(row.id for row in through_format.collect()),
        "name": natively.where("id = 25").first()["name"],
        "files": natively.inputFiles(),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
