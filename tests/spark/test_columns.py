"""Types both ways, without a session."""

import pytest
from pyspark.sql import types as st

from commitlog.domain.model import ColumnSpec, CreateTable
from commitlog.domain.model.defining import build_column, define
from commitlog.domain.model.types import parse_type
from commitlog.errors import DataFileError
from commitlog.spark.columns import column_specs, ducklake_type, scan_schema, spark_type
from commitlog.spark.source.parts import columns_of
from commitlog.spark.source.schemas import table_schema as source_schema

ROUND_TRIP = [
    "boolean",
    "int8",
    "int16",
    "int32",
    "int64",
    "float32",
    "float64",
    "date",
    "timestamp",
    "timestamptz",
    "varchar",
    "blob",
    "decimal(12,3)",
    "list(int64)",
    "map(varchar, decimal(5,2))",
    'struct(a int32, "odd name" list(struct(x varchar)))',
]


@pytest.mark.parametrize("name", ROUND_TRIP)
def test_types_when_mapped_both_ways_then_are_the_same(name: str) -> None:
    assert ducklake_type(spark_type(parse_type(name))) == str(parse_type(name))


@pytest.mark.parametrize(("name", "wider"), [("uint8", st.ShortType()), ("uint32", st.LongType())])
def test_unsigned_types_when_read_then_become_the_next_wider(name: str, wider: st.DataType) -> None:
    assert spark_type(parse_type(name)) == wider


@pytest.mark.parametrize("name", ["int128", "timestamp_ns", "interval", "uuid", "list(geometry)"])
def test_types_when_spark_has_none_then_are_named(name: str) -> None:
    with pytest.raises(DataFileError, match=r"Spark has no type for \w+"):
        spark_type(parse_type(name))


def test_column_specs_when_made_of_a_schema_without_null_then_may_be_null() -> None:
    schema = st.StructType([st.StructField("id", st.LongType(), False), st.StructField("at", st.TimestampType())])
    assert column_specs(schema) == (ColumnSpec("id", "int64"), ColumnSpec("at", "timestamptz"))


def test_column_specs_when_ducklake_has_no_type_for_some_then_names_each() -> None:
    inner = st.StructType([st.StructField("a", st.LongType()), st.StructField("b", st.VariantType())])
    schema = st.StructType().add("id", st.LongType()).add("v", st.NullType()).add("list", st.ArrayType(inner))
    why = "column v: DuckLake has no type for Spark's void, cast it first; column list: .* Spark's variant, cast it first$"
    with pytest.raises(DataFileError, match=why):
        column_specs(schema)


def test_scan_schema_when_columns_nest_then_carries_their_field_ids() -> None:
    column = build_column(ColumnSpec("s", "struct(a int32, b list(struct(x varchar)))"), 7)
    field = scan_schema([column])["s"]
    assert field.metadata == {"parquet.field.id": 7}
    assert field.dataType["b"].metadata == {"parquet.field.id": 9}
    assert field.dataType["b"].dataType.elementType["x"].metadata == {"parquet.field.id": 11}


def test_scan_schema_when_a_column_was_added_with_a_default_then_carries_it_as_sql() -> None:
    column = build_column(ColumnSpec("c", "varchar"), 3).replace(initial_default="it's")
    assert scan_schema([column])["c"].metadata["EXISTS_DEFAULT"] == "CAST(X'69742773' AS STRING)"


def test_columns_of_when_a_nested_column_and_one_that_spark_cannot_hold_are_there_then_finds_the_nested_one() -> None:
    specs = (ColumnSpec("u", "uuid"), ColumnSpec("tags", "list(struct(k varchar, v int32))"))
    known = define(CreateTable("main", "t", specs), table_id=1, schema_id=0, partition_id=None).columns
    assert columns_of(source_schema(known[1:]), known, "t") == known[1:]
