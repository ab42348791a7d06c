"""What is said of rows that do not fit their table, and what becomes of rows that do."""

import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from sessions import session_with

from commitlog.client.files.data_files import read_data_file
from commitlog.client.reading.rows_of_file import RowsOfFile
from commitlog.domain.model import ColumnSpec, CreateTable
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError
from commitlog.spark.columns import scan_schema
from commitlog.spark.reading.arrow_rows import read_rows
from commitlog.spark.reading.dataframes import Scan, dataframe
from commitlog.spark.reading.scan_files import ScanFile
from commitlog.spark.writing import parquet_files
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.column_fit import check_fit, fit
from commitlog.spark.writing.parquet_files import write_parquet


def table(*columns: ColumnSpec) -> TableDefinition:
    return define(CreateTable("main", "t", columns), table_id=1, schema_id=0, partition_id=None)


PEOPLE = table(
    ColumnSpec("id", "int64", nullable=False),
    ColumnSpec("name", "varchar"),
    ColumnSpec("age", "int16"),
    ColumnSpec("country", "varchar", nullable=False, default="nl"),
)


def test_fit_when_columns_are_wrong_then_names_each_with_what_is_expected(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'x' AS id, 1 AS Name, 5 AS height")
    with pytest.raises(DataFileError) as error:
        fit(rows, PEOPLE)
    assert str(error.value) == (
        "the rows do not fit table t: column id: expected bigint (int64), found string; cast it first; "
        "column name: expected string (varchar), found int; cast it first; "
        "column height is not in the table (it has id, name, age, country)"
    )


def test_fit_when_a_column_that_may_not_be_null_is_missing_then_says_so(spark: SparkSession) -> None:
    with pytest.raises(DataFileError, match=r"column id is missing, expected bigint \(int64, never NULL\)"):
        fit(spark.sql("SELECT 'x' AS name"), PEOPLE)


def test_fit_when_columns_are_narrower_or_missing_then_widens_and_fills(spark: SparkSession) -> None:
    rows = fit(spark.sql("SELECT 1Y AS ID"), PEOPLE)
    assert [tuple(row) for row in rows.collect()] == [(1, None, None, "nl")]
    assert [each.metadata["parquet.field.id"] for each in rows.schema] == [1, 2, 3, 4]


def test_fit_when_the_session_tells_the_lengths_of_texts_then_they_are_texts(spark: SparkSession) -> None:
    with session_with(spark, "spark.sql.preserveCharVarcharTypeInfo", "true"):
        given = spark.sql("SELECT 1L AS id, CAST('ab' AS VARCHAR(5)) AS name, CAST('n' AS CHAR(2)) AS country")
        assert fit(given, PEOPLE).first() == (1, "ab", None, "n ")


def test_fit_when_whole_numbers_are_for_doubles_and_decimals_then_taken_where_all_have_room(
    spark: SparkSession,
) -> None:
    numbers = table(ColumnSpec("d", "float64"), ColumnSpec("p", "decimal(12,2)"))
    assert fit(spark.sql("SELECT 2147483647 AS d, -2147483648 AS p"), numbers).first() == (
        2147483647.0,
        Decimal("-2147483648.00"),
    )
    with pytest.raises(DataFileError) as error:
        fit(spark.sql("SELECT 1L AS d, 1L AS p"), numbers)
    assert str(error.value) == (
        "the rows do not fit table t: column d: expected double (float64), found bigint; cast it first; "
        "column p: expected decimal(12,2) (decimal(12,2)), found bigint; cast it first"
    )


def test_fit_when_a_column_is_unsigned_then_says_what_can_write_it_or_leaves_it_out(spark: SparkSession) -> None:
    why = (
        r"Spark's writer has no type for its uint8: .*appended by format\('commitlog'\), and not updated, .* or flushed"
    )
    with pytest.raises(DataFileError, match=rf"column n is there, and {why}"):
        fit(spark.sql("SELECT 1 AS n"), table(ColumnSpec("n", "uint8")))
    with pytest.raises(DataFileError, match=rf"column n is missing, and {why}"):
        fit(spark.sql("SELECT 1 AS id"), table(ColumnSpec("id", "int32"), ColumnSpec("n", "uint8", nullable=False)))
    with pytest.raises(DataFileError, match=rf"column s\.n is missing, and {why}"):
        fit(spark.sql("SELECT named_struct('id', 1) AS s"), table(ColumnSpec("s", "struct(id int32, n uint8)")))
    lacking = table(ColumnSpec("id", "int32"), ColumnSpec("n", "uint8"), ColumnSpec("l", "list(uint64)"))
    assert fit(spark.sql("SELECT 1 AS id"), lacking).columns == ["id"]


def test_fit_when_a_value_that_may_not_be_null_is_then_the_write_fails(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="column id may not be NULL"):
        write_parquet(fit(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), PEOPLE), str(tmp_path / "out"))


def test_fit_when_struct_fields_come_in_another_order_then_goes_by_name(spark: SparkSession) -> None:
    nested = table(ColumnSpec("s", "struct(a int64, b list(struct(x int32)))"))
    rows = spark.sql("SELECT named_struct('B', array(named_struct('x', 9)), 'A', 1L) AS s")
    assert fit(rows, nested).first().s.asDict(recursive=True) == {"a": 1, "b": [{"x": 9}]}


def test_fit_when_nested_fields_do_not_fit_then_says_where(spark: SparkSession) -> None:
    nested = table(ColumnSpec("m", "map(varchar, struct(a int64, b list(struct(x int32))))"))
    rows = spark.sql(
        "SELECT map('k', named_struct('a', 'text', 'b', array(named_struct('x', 1, 'X', 2)), 'c', 1)) AS m"
    )
    with pytest.raises(DataFileError) as error:
        fit(rows, nested)
    assert str(error.value) == (
        "the rows do not fit table t: column m.value.a: expected bigint (int64), found string; cast it first; "
        "column m.value.b.element has a field twice: x, X; "
        "column m.value: field c is not in struct(a int64, b list(struct(x int32)))"
    )


class Cases:
    """Random nested types, values of them, and the same values as someone else would call and order the fields."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def kind(self, depth: int) -> Any:
        """("struct", {name: kind}), ("list", kind), ("map", kind) or "int64"."""
        form = self.random.choice(["struct", "struct", "list", "map"] if depth else ["int64"])
        if form == "struct":
            names = self.random.sample(["city", "zip", "Lat", "lonG", "x_y"], self.random.randint(1, 4))
            return "struct", {name: self.kind(self.random.randrange(depth)) for name in names}
        return form if form == "int64" else (form, self.kind(self.random.randrange(depth)))

    def other(self, kind: Any) -> Any:
        """How a writer has a kind: fields in another case and order, and some of them missing."""
        if kind == "int64":
            return kind
        form, inner = kind
        if form != "struct":
            return form, self.other(inner)
        names = list(inner)
        self.random.shuffle(names)
        kept = names[: max(1, len(names) - self.random.randrange(2))]
        cases = [self.random.choice([name, name.upper(), name.lower()]) for name in kept]
        return form, {case: self.other(inner[name]) for case, name in zip(cases, kept, strict=True)}

    def value(self, kind: Any) -> Any:
        if self.random.random() < 0.15:
            return None
        if kind == "int64":
            return self.random.randrange(1000)
        form, inner = kind
        if form == "struct":
            return {name: self.value(each) for name, each in inner.items()}
        values = [self.value(inner) for _ in range(self.random.randrange(3))]
        return values if form == "list" else {f"k{at}": value for at, value in enumerate(values)}


def expected(value: Any, kind: Any) -> Any:
    """A writer's value as the table's kind: the slow and obvious rule."""
    if value is None or kind == "int64":
        return value
    form, inner = kind
    if form == "list":
        return [expected(each, inner) for each in value]
    if form == "map":
        return {key: expected(each, inner) for key, each in value.items()}
    folded = {name.lower(): each for name, each in value.items()}
    return {name: expected(folded.get(name.lower()), each) for name, each in inner.items()}


def as_text(kind: Any, of_spark: bool) -> str:
    if kind == "int64":
        return "bigint" if of_spark else kind
    form, inner = kind
    left, right = "<>" if of_spark else "()"
    if form == "struct":
        colon = ":" if of_spark else " "
        return f"struct{left}" + ", ".join(f"{n}{colon}{as_text(k, of_spark)}" for n, k in inner.items()) + right
    if form == "map":
        return f"map{left}{'string' if of_spark else 'varchar'}, {as_text(inner, of_spark)}{right}"
    return f"{'array' if of_spark else 'list'}{left}{as_text(inner, of_spark)}{right}"


def test_rows_when_nested_fields_differ_in_case_and_order_or_are_missing_then_every_writer_goes_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    cases = Cases(20240131)
    kinds = [cases.kind(3) for _ in range(24)]
    others = [cases.other(kind) for kind in kinds]
    values = [[cases.value(other) for other in others] for _ in range(12)]
    wide = table(*[ColumnSpec(f"c{at}", as_text(kind, of_spark=False)) for at, kind in enumerate(kinds)])
    schema = ", ".join(f"C{at} {as_text(other, of_spark=True)}" for at, other in enumerate(others))
    df = spark.createDataFrame([tuple(row) for row in values], schema).coalesce(1)
    check_fit(df.schema, wide)
    wanted = [[expected(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in values]

    by_arrow = write_batches(iter(df.toArrow().slice(0).to_batches(max_chunksize=5)), wide, str(tmp_path / "arrow"))
    by_spark = write_parquet(fit(df, wide), str(tmp_path / "spark"))
    for paths in (by_arrow, by_spark):
        [path] = paths
        read_data_file(path, wide, table_path=None)
        found = pq.read_table(path)
        ids = [int(field.metadata[b"PARQUET:field_id"]) for field in found.schema]
        assert ids == [column.column_id for column in wide.columns]
        columns = [found.column(at).to_pylist(maps_as_pydicts="strict") for at in range(len(kinds))]
        assert [list(row) for row in zip(*columns, strict=True)] == wanted
        # What the source reads of it for format("commitlog") is the same again.
        out = to_arrow_schema(scan_schema(wide.columns), timezone="UTC")
        again = pa.Table.from_batches(list(read_rows(RowsOfFile(path, None), wide.columns, out)))
        columns = [again.column(at).to_pylist(maps_as_pydicts="strict") for at in range(len(kinds))]
        assert [list(row) for row in zip(*columns, strict=True)] == wanted


def test_read_rows_when_a_file_without_ids_calls_nested_fields_otherwise_then_finds_them_by_its_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    nested = table(ColumnSpec("places", "list(struct(zip int64, city varchar))"))
    path = str(tmp_path / "foreign.parquet")
    pq.write_table(pa.table({"Places": [[{"City": "Jena", "Zip": 7743}, None], None]}), path)
    mapping = read_data_file(path, nested, table_path=None).name_mapping
    out = to_arrow_schema(scan_schema(nested.columns), timezone="UTC")
    [batch] = read_rows(RowsOfFile(path, mapping), nested.columns, out)
    assert batch.column(0).to_pylist() == [[{"zip": 7743, "city": "Jena"}, None], None]
    file = ScanFile(1, path, 2, Path(path).stat().st_size, name_mapping=mapping)
    scan = Scan(1, 1, nested.columns, {}, (file,), pa.table({"places": pa.array([], pa.null())}))
    [first, second] = dataframe(spark, scan).collect()
    assert (first.asDict(recursive=True), second.places) == ({"places": [{"zip": 7743, "city": "Jena"}, None]}, None)


def test_write_parquet_when_timestamps_are_written_then_have_bounds_and_the_session_keeps_its_setting(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    times = table(ColumnSpec("at", "timestamptz"))
    rows = spark.sql("SELECT timestamp'2024-01-01 00:00:00' AS at FROM range(10)").coalesce(1)
    [path] = write_parquet(fit(rows, times), str(tmp_path / "out"))
    footer = pq.ParquetFile(path)
    assert footer.schema_arrow.field("at").metadata[b"PARQUET:field_id"] == b"1"
    assert footer.metadata.row_group(0).column(0).statistics.has_min_max
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before
    assert [each.name for each in (tmp_path / "out").iterdir() if not each.name.endswith(".crc")] == [Path(path).name]


def test_write_parquet_when_two_objects_of_one_session_write_at_once_then_all_times_have_bounds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, times = "spark.sql.parquet.outputTimestampType", table(ColumnSpec("at", "timestamptz"))
    before, has_begun, is_second_there = spark.conf.get(setting), Event(), Event()
    save = parquet_files.save

    def overlapping(*args: Any) -> None:
        if str(args[-1]).endswith("first"):
            has_begun.set()
            assert is_second_there.wait(60)
        else:
            is_second_there.set()
            first.result(60)
        save(*args)

    def write(session: SparkSession, name: str) -> tuple[str, ...]:
        rows = session.sql("SELECT timestamp'2024-01-01 00:00:00' AS at").coalesce(1)
        return write_parquet(fit(rows, times), str(tmp_path / name))

    monkeypatch.setattr(parquet_files, "save", overlapping)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(write, spark, "first")
        assert has_begun.wait(60)
        second = pool.submit(write, SparkSession(spark.sparkContext), "second")
        paths = [*first.result(60), *second.result(60)]
    assert all(pq.read_metadata(each).row_group(0).column(0).statistics.has_min_max for each in paths)
    assert spark.conf.get(setting) == before
