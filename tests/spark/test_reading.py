"""A scan as a DataFrame, over files written here: telling right rows from wrong ones takes no log and no catalog."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import MEMORY_COMMAND_NAME, Py4JJavaError
from pyroaring import FrozenBitMap64
from pyspark.sql import SparkSession

from commitlog.client.writing.delete_files import write_delete_file
from commitlog.domain.model import ColumnSpec, MappedColumn
from commitlog.domain.model.defining import build_column
from commitlog.domain.model.definitions import Column
from commitlog.errors import DataFileError
from commitlog.spark.columns import scan_schema
from commitlog.spark.reading.dataframes import Scan, dataframe, with_positions
from commitlog.spark.reading.exact_files import file_rows
from commitlog.spark.reading.listed_files import listed_rows, read_files
from commitlog.spark.reading.positions import positions
from commitlog.spark.reading.scan_files import FILE, POSITION, ROW_ID_START, ScanFile

ID = build_column(ColumnSpec("id", "int64"), 1)
NAME = build_column(ColumnSpec("name", "varchar"), 2)


def write(path: Path, ids: list[int], *, name_id: int = 2, name: str = "name") -> str:
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field(name, pa.string(), metadata={"PARQUET:field_id": str(name_id)}),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table([ids, [f"n{i}" for i in ids]], schema=pa.schema(fields)), path)
    return str(path)


def file(data_file_id: int, path: str, **known: Any) -> ScanFile:
    size = Path(path).stat().st_size
    return ScanFile(data_file_id, path, pq.read_metadata(path).num_rows, size, **known)


def scan(columns: tuple[Column, ...], *files: ScanFile, inlined: pa.Table | None = None, names=None) -> Scan:  # type: ignore[no-untyped-def]
    rows = pa.table({c.name: pa.array([], pa.null()) for c in columns}) if inlined is None else inlined
    return Scan(1, 1, columns, names or {}, files, rows)


def ids(spark: SparkSession, of: Scan, where: str = "true") -> list[int]:
    return sorted(row.id for row in dataframe(spark, of).where(where).collect())


def test_dataframe_when_rows_of_some_files_are_deleted_then_leaves_out_exactly_those(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = [
        file(7, write(tmp_path / "a b%" / "same.parquet", [1, 2, 3]), deleted=FrozenBitMap64([0, 2])),
        file(8, write(tmp_path / "c" / "same.parquet", [4, 5, 6]), deleted=FrozenBitMap64([1])),
        file(9, write(tmp_path / "d" / "same.parquet", [7, 8])),
    ]
    assert ids(spark, scan((ID, NAME), *files)) == [2, 4, 6, 7, 8]
    assert ids(spark, scan((ID, NAME), *files), "name >= 'n6'") == [6, 7, 8]


def test_dataframe_when_many_rows_are_deleted_then_those_at_the_edges_of_words_and_files_are_right_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    chosen = random.Random(7)
    rows = 1_000
    deleted = [{63, 64, 127, 999}, {0}, {*range(rows)}, set(), *({*chosen.sample(range(rows), 300)} for _ in range(8))]
    ranges = [range(number * rows, (number + 1) * rows) for number in range(len(deleted))]
    files = [
        file(number, write(tmp_path / f"{number}.parquet", [*span]), deleted=FrozenBitMap64(gone))
        for number, (span, gone) in enumerate(zip(ranges, deleted, strict=True))
    ]
    of = scan((ID, NAME), *files)
    live = [i for span, gone in zip(ranges, deleted, strict=True) for i in span if i % rows not in gone]
    assert ids(spark, of) == live
    standing = sorted((row.id, row._commitlog_position) for row in with_positions(spark, of).collect())
    assert standing == [(i, i % rows) for i in live]


def test_file_rows_when_bitmaps_come_by_a_join_or_files_by_their_paths_then_gives_the_same_rows_in_the_same_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    dirty, clean = (
        write(tmp_path / "a b%" / "1.parquet", [*range(100)]),
        write(tmp_path / "2.parquet", [*range(100, 103)]),
    )
    filed = write_delete_file(7, dirty, FrozenBitMap64(range(1, 90)), str(tmp_path)).path
    lost = {"deleted": FrozenBitMap64(range(90, 99)), "delete_file_path": str(tmp_path / filed), "delete_count": 89}
    files = [file(7, dirty, **lost, row_id_start=1_000), file(8, clean)]
    schema = scan_schema((ID, NAME))
    found = []
    for read_as_rows, way in ((False, file_rows), (True, file_rows), (False, listed_rows)):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", str(not read_as_rows).lower())
        try:
            rows = way(spark, files, schema, placed=True).select("id", "name", FILE, POSITION, ROW_ID_START)
            found.append(sorted(tuple(row) for row in rows.collect()))
            plain = way(spark, files, schema, placed=False)
            assert sorted(tuple(row) for row in plain.collect()) == [row[:2] for row in found[0]]
            assert not any(each.metadata for each in plain.schema.fields), "others would be written with it"
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    of_clean = [(100 + at, f"n{100 + at}", 8, at, None) for at in range(3)]
    assert found == [[(0, "n0", 7, 0, 1_000), (99, "n99", 7, 99, 1_000), *of_clean]] * 3


def test_dataframe_when_there_are_many_files_then_spark_looks_none_of_them_up(spark: SparkSession) -> None:
    files = [ScanFile(number, f"/nowhere/{number}.parquet", 10, 1_000) for number in range(1_000)]
    spark.sparkContext.setJobGroup("listing", "")
    try:
        rows = dataframe(spark, scan((ID, NAME), *files)).where("id = 5")
        plan = rows._jdf.queryExecution().executedPlan().toString()
        assert not spark.sparkContext.statusTracker().getJobIdsForGroup("listing")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert "Filter" in plan
    assert len(rows.inputFiles()) == len(files)


def test_dataframe_when_nothing_is_deleted_then_spark_is_asked_little(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = scan((ID, NAME), ScanFile(1, "/nowhere/1.parquet", 10, 1_000))
    dataframe(spark, files)
    said: list[str] = []
    client = spark.sparkContext._gateway._gateway_client
    send = client.send_command
    monkeypatch.setattr(client, "send_command", lambda *given, **more: said.append(given[0]) or send(*given, **more))
    dataframe(spark, files)
    # Whenever Python's collector lets go of what earlier tests had, Py4J tells the JVM.
    asked = [each for each in said if not each.startswith(MEMORY_COMMAND_NAME)]
    # It asks the JVM for each part of the name of a class.
    assert 0 < len(asked) < 45


def test_dataframe_when_delete_files_are_many_then_only_tasks_read_them(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "1.parquet", [*range(10)])
    lost = {"delete_file_path": str(tmp_path / "none.parquet"), "delete_count": 3}
    rows = dataframe(spark, scan((ID, NAME), *[file(number, path, **lost) for number in range(100)]))
    assert rows._jdf.queryExecution().executedPlan().toString()
    with pytest.raises(Py4JJavaError, match=r"deleted rows cannot be read from .*none\.parquet"):
        rows.collect()


def test_dataframe_when_a_delete_file_has_pages_and_row_groups_then_all_of_its_rows_are_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write(tmp_path / "1.parquet", [*range(5_000)])
    gone = sorted(random.Random(3).sample(range(5_000), 2_000))
    deletes = pa.table({"file_path": [path] * len(gone), "pos": pa.array(gone, pa.int64())})
    pq.write_table(deletes, tmp_path / "d.parquet", row_group_size=700, data_page_size=64, compression="zstd")
    of = scan((ID, NAME), file(7, path, delete_file_path=str(tmp_path / "d.parquet"), delete_count=len(gone)))
    assert ids(spark, of) == sorted({*range(5_000)} - {*gone})


def test_dataframe_when_a_table_has_no_rows_then_has_its_columns(spark: SparkSession) -> None:
    empty = dataframe(spark, scan((ID, NAME)))
    assert empty.columns == ["id", "name"]
    assert empty.count() == 0


def test_dataframe_when_a_column_was_renamed_and_its_name_used_again_then_filters_meet_the_right_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = file(1, write(tmp_path / "old.parquet", [1, 2, 3]))
    renamed = build_column(ColumnSpec("label", "varchar"), 2)
    reused = build_column(ColumnSpec("name", "varchar"), 3).replace(initial_default="none")
    of = scan((ID, renamed, reused), old, names={"name": frozenset({2, 3}), "label": frozenset({2})})
    assert ids(spark, of, "label = 'n2'") == [2]
    assert ids(spark, of, "name = 'none'") == [1, 2, 3]


def test_dataframe_when_a_column_was_added_with_a_default_then_old_files_show_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    added = build_column(ColumnSpec("region", "varchar"), 3).replace(initial_default="eu")
    of = scan((ID, added), file(1, write(tmp_path / "old.parquet", [1, 2])))
    assert [row.region for row in dataframe(spark, of).collect()] == ["eu", "eu"]


def test_dataframe_when_the_session_reads_sql_in_another_way_then_defaults_are_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    region = build_column(ColumnSpec("region", "varchar"), 3).replace(initial_default="it's \\n")
    since = build_column(ColumnSpec("since", "timestamptz"), 4).replace(initial_default="2026-01-01 00:00:00+00")
    of = scan((ID, region, since), file(1, write(tmp_path / "old.parquet", [1])))
    others = {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    for name, value in others.items():
        spark.conf.set(name, value)
    try:
        found = dataframe(spark, of).selectExpr("region", "unix_seconds(since) AS since").collect()
    finally:
        for name in others:
            spark.conf.unset(name)
    assert found == [("it's \\n", 1_767_225_600)]


def test_dataframe_when_a_file_has_no_field_ids_then_reads_it_by_its_mapping(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"ident": [10, 11], "extra": ["x", "y"]}), tmp_path / "foreign.parquet")
    mapping = (MappedColumn("ident", "id"),)
    foreign = file(1, str(tmp_path / "foreign.parquet"), deleted=FrozenBitMap64([0]), name_mapping=mapping)
    of = scan((ID, NAME), foreign, file(2, write(tmp_path / "own.parquet", [12])))
    assert ids(spark, of) == [11, 12]
    assert ids(spark, of, "name is null") == [11]


def test_dataframe_when_rows_are_inlined_then_they_are_there_too(spark: SparkSession, tmp_path: Path) -> None:
    inlined = pa.table({"id": pa.array([20], pa.int64()), "name": ["inline"]})
    of = scan((ID, NAME), file(1, write(tmp_path / "a.parquet", [1])), inlined=inlined)
    assert ids(spark, of) == [1, 20]


def test_with_positions_when_rows_are_deleted_then_gives_the_place_of_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    of = scan((ID, NAME), file(7, write(tmp_path / "a.parquet", [1, 2, 3]), deleted=FrozenBitMap64([1])))
    rows = with_positions(spark, of)
    assert sorted((row.id, row._commitlog_position) for row in rows.collect()) == [(1, 0), (3, 2)]
    assert positions(rows.where("id > 1")) == {7: FrozenBitMap64([2])}


def test_positions_when_rows_stand_at_the_edges_of_words_then_are_those_of_each_file(spark: SparkSession) -> None:
    standing = {3: [0, 63, 64, 127, 6_400_000_063], 2**40: [62], 9: [*range(100, 300, 7)]}
    rows = spark.createDataFrame(
        [(file, at) for file, places in standing.items() for at in [*places, *places[:1]]],
        f"{FILE} bigint, {POSITION} bigint",
    )
    assert positions(rows) == {file: FrozenBitMap64(places) for file, places in standing.items()}
    assert positions(rows.where("false")) == {}


@pytest.mark.parametrize("type_", ["int32", "int64"])
def test_dataframe_when_a_column_was_widened_then_reads_the_narrow_file(
    spark: SparkSession, tmp_path: Path, type_: str
) -> None:
    field = pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([1], pa.int32())], schema=pa.schema([field])), tmp_path / "narrow.parquet")
    column = build_column(ColumnSpec("id", type_), 1)
    assert ids(spark, scan((column,), file(1, str(tmp_path / "narrow.parquet")))) == [1]


def test_dataframe_when_names_of_files_look_like_patterns_then_reads_exactly_those_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    strange = tmp_path / "{a,b}"
    names = [
        "e[12].parquet",
        "s*.parquet",
        "q?.parquet",
        "b{1,2}.parquet",
        "back\\slash.parquet",
        "per%20cent x#.parquet",
    ]
    for name in ("e1.parquet", "s1.parquet", "q1.parquet", "b1.parquet"):
        write(strange / name, [-1])
    columns = (ID, NAME)
    files = [file(at, write(strange / name, [at, at + 100])) for at, name in enumerate(names)]
    assert ids(spark, scan(columns, *files)) == sorted([*range(6), *range(100, 106)])
    dirty = [replace(each, deleted=FrozenBitMap64([0])) for each in files]
    assert ids(spark, scan(columns, *dirty)) == list(range(100, 106))
    hidden = write(strange / "_hidden.parquet", [9])
    assert ids(spark, scan(columns, file(9, hidden))) == [9]
    with pytest.raises(DataFileError, match="names begin with _ or a dot"):
        read_files(spark, [hidden])
