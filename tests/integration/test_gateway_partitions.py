"""Rows that a stock client puts into partitions: whatever their values are, each filter finds them for every reader."""

from __future__ import annotations

import pytest
from gateways import stock_client

from commitlog.client import CommitLog
from commitlog.config import Settings


@pytest.mark.parametrize("day", ["12000-01-01", "0044-03-15 (BC)", "infinity"])
def test_rows_when_the_log_has_no_form_for_their_partition_value_then_they_are_not_null(
    settings: Settings, gateway_url: str, day: str
) -> None:
    with stock_client(gateway_url) as client, CommitLog.connect(settings=settings) as log:
        client.execute("CREATE TABLE t (k DATE, v INTEGER)")
        client.execute("ALTER TABLE t SET PARTITIONED BY (k)")
        client.execute("INSERT INTO t VALUES (?::DATE, 1), (NULL, 2)", [day])
        log.wait_for_snapshot()
        table = log.table("main.t")
        assert table.scan(columns=["v"], where="k is not null").to_arrow()["v"].to_pylist() == [1]
        table.delete("k is null")
        log.wait_for_snapshot()
        assert client.execute("SELECT v FROM t").fetchall() == [(1,)]
