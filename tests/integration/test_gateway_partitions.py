"""Rows that a stock client puts into partitions: whatever their values are, each filter finds them for every reader."""

from __future__ import annotations

import psycopg
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


def test_times_when_a_clients_zone_puts_them_into_partitions_then_known_only_where_utc_does_too(
    settings: Settings, gateway_url: str
) -> None:
    with stock_client(gateway_url) as client:
        client.execute("CREATE TABLE t (moment TIMESTAMPTZ)")
        client.execute("ALTER TABLE t SET PARTITIONED BY (year(moment))")
        client.execute("SET TimeZone = 'Asia/Tokyo'")
        for years in (
            "('2019-12-31 20:00:00+00'), ('2020-07-01 00:00:00+00')",
            "('2021-01-01 00:00:00+00'), ('2021-12-31 14:00:00+00')",
            "('infinity')",
            "(NULL)",
        ):
            client.execute(f"INSERT INTO t VALUES {years}")
        assert client.execute("SELECT count(*) FROM t WHERE year(moment) = 2020").fetchall() == [(2,)]
    with psycopg.connect(settings.database_url) as conn:
        known = conn.execute("SELECT partition_value FROM ducklake_file_partition_value ORDER BY data_file_id")
        assert known.fetchall() == [("2021",), (None,)]


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("UBIGINT", "18446744073709551615"),
        ("HUGEINT", "-100000000000000000000"),
        ("DOUBLE", "nan"),
        ("FLOAT", "-inf"),
        ("VARCHAR", "a\tb"),
        ("VARCHAR", "a\r\n"),
    ],
)
def test_a_value_when_a_client_inserts_it_then_it_is_there_and_found(
    settings: Settings, gateway_url: str, kind: str, value: str, is_partitioned: bool
) -> None:
    with stock_client(gateway_url) as client, CommitLog.connect(settings=settings) as log:
        client.execute(f"CREATE TABLE t (k {kind}, v INTEGER)")
        if is_partitioned:
            client.execute("ALTER TABLE t SET PARTITIONED BY (k)")
        client.execute(f"INSERT INTO t VALUES (?::{kind}, 1), (NULL, 2)", [value])
        client.execute(f"INSERT INTO t VALUES (?::{kind}, 3)", ["1"])
        assert client.execute(f"SELECT v FROM t WHERE k = ?::{kind}", [value]).fetchall() == [(1,)]
        assert client.execute("SELECT v FROM t WHERE k IS NULL").fetchall() == [(2,)]
        found = log.table("main.t").scan(columns=["v"], where="k is not null").to_arrow()["v"].to_pylist()
        assert sorted(found) == [1, 3]


@pytest.mark.parametrize(("kind", "value"), [("INTERVAL", "1 month"), ("TIMETZ", "12:00:00+02")])
def test_values_when_the_client_keeps_no_statistics_of_their_type_then_they_are_found(
    settings: Settings, gateway_url: str, kind: str, value: str
) -> None:
    with stock_client(gateway_url) as client, CommitLog.connect(settings=settings) as log:
        client.execute(f"CREATE TABLE t (k {kind}, v INTEGER)")
        client.execute(f"INSERT INTO t VALUES (?::{kind}, 1), (NULL, 2)", [value])
        table = log.table("main.t")
        for where, expected in (("k is not null", [1]), ("k is null", [2])):
            assert table.scan(columns=["v"], where=where).to_arrow()["v"].to_pylist() == expected
        assert table.delete("k is null") is not None
        log.wait_for_snapshot()
        assert client.execute("SELECT v FROM t").fetchall() == [(1,)]
