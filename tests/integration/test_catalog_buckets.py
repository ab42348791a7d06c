"""Bucket partitions: the stock client reads only files of the bucket that it looks for, and must not lose those of others.

It prunes by ``ducklake_file_partition_value`` alone, whatever the table's partitioning was when a file came; so it loses
its own rows too, when a table that has files is given buckets.
"""

from __future__ import annotations

from typing import Any

import pytest
from deciding import alter, change, create_table
from lakes import TYPES, Lake

from commitlog.catalog.queries import Catalog
from commitlog.domain.model import FilterOp, Predicate

ROWS: list[dict[str, Any]] = [{"id": number, "v": f"v{number}"} for number in range(8)]
BUCKETS = [{"column": "v", "transform": "bucket(4)"}]


def check_every_row_is_found(lake: Lake) -> None:
    with lake.reader() as client:
        for row in ROWS:
            found = client.execute(f"SELECT id FROM t WHERE v = '{row['v']}'").fetchall()
            assert found == [(row["id"],)], row
        assert client.execute("SELECT count(*) FROM t WHERE v IN ('v0', 'v3', 'v7')").fetchone() == (3,)


@pytest.mark.parametrize("values", [None, ["no bucket"], ["4"], [4.5]])
def test_a_file_of_an_unknown_bucket_then_its_rows_are_found(lake: Lake, values: list[Any] | None) -> None:
    lake.commit(create_table(partition_by=BUCKETS))
    file = lake.write("t", ROWS, TYPES)
    lake.commit(change("APPEND", files=[{**file, "partition_values": values}]))
    check_every_row_is_found(lake)


def test_files_from_before_there_were_buckets_then_their_rows_are_found_at_every_snapshot(lake: Lake) -> None:
    lake.commit(create_table(partition_by=[{"column": "v", "transform": "identity"}]))
    for row in ROWS:
        file = lake.write("t", [row], TYPES)
        lake.commit(change("APPEND", files=[{**file, "partition_values": [row["v"]]}]))
    last = lake.commit(alter("SET_PARTITION_BY", partition_by=BUCKETS))
    check_every_row_is_found(lake)
    for snapshot_id in range(2, last + 1):
        assert lake.rows(f"SELECT id FROM t AT (VERSION => {snapshot_id}) WHERE v = 'v0'") == [(0,)]
    assert len(lake.rows("SELECT data_file FROM ducklake_list_files('lake', 't')")) == len(ROWS)
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "t", last)
    assert table is not None
    for row in ROWS:
        found = catalog.files_at(table, last, where=[Predicate("v", FilterOp.EQ, row["v"])])
        assert str(lake.folder / f"f{row['id'] + 1}.parquet") in [file.path for file in found]
    catalog.close()


def test_a_known_bucket_then_only_its_files_are_read(lake: Lake) -> None:
    lake.commit(create_table(partition_by=BUCKETS))
    for bucket in range(4):
        file = lake.write("t", ROWS, TYPES)
        lake.commit(change("APPEND", files=[{**file, "partition_values": [bucket]}]))
    assert lake.rows("SELECT count(*) FROM t WHERE v = 'v0'") == [(1,)]


def test_a_file_of_an_unknown_bucket_then_queries_do_not_know_it_either(lake: Lake) -> None:
    lake.commit(create_table(partition_by=BUCKETS))
    for values in (None, [2]):
        file = lake.write("t", ROWS, TYPES)
        lake.commit(change("APPEND", files=[{**file, "partition_values": values}]))
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "t", 3)
    assert table is not None
    files = catalog.files_at(table, 3)
    catalog.close()
    assert [file.partition_values for file in files] == [None, ("2",)]


def test_files_when_a_value_is_asked_for_then_those_of_other_buckets_are_left_out(lake: Lake) -> None:
    kinds = {"i": "int32", "d": "date", "t": "timestamp", "z": "timestamptz", "b": "boolean"}
    lake.commit(change("CREATE_TABLE", columns=[{"name": name, "type": kind} for name, kind in kinds.items()]))
    file = {"record_count": 1, "file_size_bytes": 100, "statistics": []}
    lake.commit(change("APPEND", files=[{**file, "path": "before.parquet"}]))
    head = lake.commit(
        alter("SET_PARTITION_BY", partition_by=[{"column": name, "transform": "bucket(16)"} for name in kinds])
    )
    # Iceberg's own examples: 34 and 2017-11-16 are in these of 2^31 - 1 buckets, and the moment 22:31:08 of that day.
    known = (2017239379 % 16, (-653330422 & 2**31 - 1) % 16, (-2047944441 & 2**31 - 1) % 16)
    own = [*known, known[2], 1392991556 % 16]
    values = {"its": own, "other": [(each + 1) % 16 for each in own], "unknown": None, "none": [None] * 5}
    files = [{**file, "path": f"{name}.parquet", "partition_values": each} for name, each in values.items()]
    head = lake.commit(change("APPEND", files=files))
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "t", head)
    assert table is not None

    def kept(column: str, value: Any, op: FilterOp = FilterOp.EQ) -> set[str]:
        found = catalog.files_at(table, head, where=[Predicate(column, op, value)])
        return {file.path.rpartition("/")[2].removesuffix(".parquet") for file in found}

    always = {"before", "unknown"}
    moments = {"t": "2017-11-16 22:31:08", "z": "2017-11-16 23:31:08+01:00"}
    for column, value in {"i": 34, "d": "2017-11-16", "b": True, **moments}.items():
        assert kept(column, value) == always | {"its"}, column
    number = next(n for n in range(1000) if kept("i", n) == always | {"other"})
    assert kept("i", (34, number), FilterOp.IN) == always | {"its", "other"}
    everything = {*always, "its", "other", "none"}
    assert kept("i", 34, FilterOp.GE) == kept("i", None, FilterOp.IS_NULL) == everything
    # What is no value of the column's proves nothing; and whose zone is meant, the reader says.
    assert kept("i", 34.5) == kept("z", moments["t"]) == everything
    catalog.close()


def test_more_buckets_than_a_catalog_takes_then_invalid(lake: Lake) -> None:
    lake.log.refused("INVALID", create_table(partition_by=[{"column": "v", "transform": "bucket(4097)"}]))
