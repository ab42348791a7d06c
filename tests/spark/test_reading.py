"""A scan as a DataFrame, over files written here: telling right rows from wrong ones takes no log and no catalog."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import FrozenBitMap64
from pyspark.sql import SparkSession

from commitlog.domain.model import ColumnSpec, MappedColumn
from commitlog.domain.model.definitions import Column, build_column
from commitlog.errors import DataFileError
from commitlog.spark.reading.dataframes import Scan, ScanFile, dataframe, positions, with_positions

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


def scan(columns: tuple[Column, ...], *files: ScanFile, inlined: pa.Table | None = None, names=None) -> Scan:  # type: ignore[no-untyped-def]
    rows = pa.table({c.name: pa.array([], pa.null()) for c in columns}) if inlined is None else inlined
    return Scan(1, 1, columns, names or {}, files, rows)


def ids(spark: SparkSession, of: Scan, where: str = "true") -> list[int]:
    return sorted(row.id for row in dataframe(spark, of).where(where).collect())


def test_dataframe_when_rows_of_some_files_are_deleted_then_leaves_out_exactly_those(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = [
        ScanFile(7, write(tmp_path / "a b%" / "same.parquet", [1, 2, 3]), deleted=FrozenBitMap64([0, 2])),
        ScanFile(8, write(tmp_path / "c" / "same.parquet", [4, 5, 6]), deleted=FrozenBitMap64([1])),
        ScanFile(9, write(tmp_path / "d" / "same.parquet", [7, 8])),
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
        ScanFile(number, write(tmp_path / f"{number}.parquet", [*span]), rows, deleted=FrozenBitMap64(gone))
        for number, (span, gone) in enumerate(zip(ranges, deleted, strict=True))
    ]
    of = scan((ID, NAME), *files)
    live = [i for span, gone in zip(ranges, deleted, strict=True) for i in span if i % rows not in gone]
    assert ids(spark, of) == live
    standing = sorted((row.id, row._commitlog_position) for row in with_positions(spark, of).collect())
    assert standing == [(i, i % rows) for i in live]


def test_dataframe_when_a_table_has_no_rows_then_has_its_columns(spark: SparkSession) -> None:
    empty = dataframe(spark, scan((ID, NAME)))
    assert empty.columns == ["id", "name"]
    assert empty.count() == 0


def test_dataframe_when_a_column_was_renamed_and_its_name_used_again_then_filters_meet_the_right_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = ScanFile(1, write(tmp_path / "old.parquet", [1, 2, 3]))
    renamed = build_column(ColumnSpec("label", "varchar"), 2)
    reused = build_column(ColumnSpec("name", "varchar"), 3, initial_default="none")
    of = scan((ID, renamed, reused), old, names={"name": frozenset({2, 3}), "label": frozenset({2})})
    assert ids(spark, of, "label = 'n2'") == [2]
    assert ids(spark, of, "name = 'none'") == [1, 2, 3]


def test_dataframe_when_a_column_was_added_with_a_default_then_old_files_show_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    added = build_column(ColumnSpec("region", "varchar"), 3, initial_default="eu")
    of = scan((ID, added), ScanFile(1, write(tmp_path / "old.parquet", [1, 2])))
    assert [row.region for row in dataframe(spark, of).collect()] == ["eu", "eu"]


def test_dataframe_when_a_file_has_no_field_ids_then_reads_it_by_its_mapping(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"ident": [10, 11], "extra": ["x", "y"]}), tmp_path / "foreign.parquet")
    mapping = (MappedColumn("ident", "id"),)
    foreign = ScanFile(1, str(tmp_path / "foreign.parquet"), deleted=FrozenBitMap64([0]), name_mapping=mapping)
    of = scan((ID, NAME), foreign, ScanFile(2, write(tmp_path / "own.parquet", [12])))
    assert ids(spark, of) == [11, 12]
    assert ids(spark, of, "name is null") == [11]


def test_dataframe_when_rows_are_inlined_then_they_are_there_too(spark: SparkSession, tmp_path: Path) -> None:
    inlined = pa.table({"id": pa.array([20], pa.int64()), "name": ["inline"]})
    of = scan((ID, NAME), ScanFile(1, write(tmp_path / "a.parquet", [1])), inlined=inlined)
    assert ids(spark, of) == [1, 20]


def test_with_positions_when_rows_are_deleted_then_gives_the_place_of_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    of = scan((ID, NAME), ScanFile(7, write(tmp_path / "a.parquet", [1, 2, 3]), deleted=FrozenBitMap64([1])))
    rows = with_positions(spark, of)
    assert sorted((row.id, row._commitlog_position) for row in rows.collect()) == [(1, 0), (3, 2)]
    assert positions(rows.where("id > 1"), of) == {7: (2,)}


@pytest.mark.parametrize("type_", ["int32", "int64"])
def test_dataframe_when_a_column_was_widened_then_reads_the_narrow_file(
    spark: SparkSession, tmp_path: Path, type_: str
) -> None:
    field = pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([1], pa.int32())], schema=pa.schema([field])), tmp_path / "narrow.parquet")
    column = build_column(ColumnSpec("id", type_), 1)
    assert ids(spark, scan((column,), ScanFile(1, str(tmp_path / "narrow.parquet")))) == [1]


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
    files = [ScanFile(at, write(strange / name, [at, at + 100]), 2) for at, name in enumerate(names)]
    assert ids(spark, scan(columns, *files)) == sorted([*range(6), *range(100, 106)])
    dirty = [replace(each, deleted=FrozenBitMap64([0])) for each in files]
    assert ids(spark, scan(columns, *dirty)) == list(range(100, 106))
    with pytest.raises(DataFileError, match="names begin with _ or a dot"):
        dataframe(spark, scan(columns, ScanFile(9, write(strange / "_hidden.parquet", [9]), 1)))
