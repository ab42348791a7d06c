"""Tables that stock clients of other time zones write through the gateway, and Spark, for which partitions are in UTC."""

from __future__ import annotations

from gateways import gateway_of, stock_client
from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.spark import append, overwrite, read


def test_overwrite_when_a_client_of_another_zone_took_rows_for_the_partitions_then_leaves_them(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.t", {"id": "int64", "at": "timestamptz"}, partition_by=["year(at)"])
    append(spark.sql("SELECT 1L AS id, TIMESTAMP'2020-07-01 00:00:00Z' AS at"), "main.t", log=log)
    log.wait_for_snapshot()
    with gateway_of(settings) as url, stock_client(url) as client:
        client.execute("SET TimeZone = 'Asia/Tokyo'")
        client.execute("INSERT INTO t VALUES (2, '2019-12-31 20:00:00+00'), (3, '2020-01-31 20:00:00+00')")
    new = spark.sql("SELECT 4L AS id, TIMESTAMP'2020-08-01 00:00:00Z' AS at")
    overwrite(new, "main.t", partitions="dynamic", log=log)
    assert sorted(row.id for row in read(spark, "main.t", log=log).collect()) == [2, 4]
