"""A lake in S3: an S3 server runs here, the client and Python's side of Spark use it, and nightly Spark itself by S3A."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers import told_by
from people import settings_given, source_options
from pyarrow import fs
from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.client.files import copying
from commitlog.client.files.copying import copy_whole, lasting_name
from commitlog.client.files.data_files import read_data_file
from commitlog.client.files.lake import MARKER, check_free
from commitlog.client.files.removing import remove_files
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, DataFileError
from commitlog.ops.maintenance.clean import Cleaning
from commitlog.spark import flush
from commitlog.spark.columns import FIELD_ID
from commitlog.spark.source.batch_writer import BatchWriter
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.table_reader import TableReader
from commitlog.spark.source.written_files import WrittenFiles
from commitlog.spark.writing import parquet_files
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.target import target
from commitlog.testing import InMemoryCommitLog

TABLE = "main.people"
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})
S3A = "org.apache.hadoop:hadoop-aws:3.5.0,software.amazon.awssdk:bundle:2.35.4"


UNUSUAL = "s3://lake/a%20b [c]/ü#?"
"""Letters that a URI would have escaped."""


@pytest.fixture
def data_path() -> str:
    return "s3://lake/data"


@pytest.fixture
def settings(settings: Settings, endpoint: str, data_path: str) -> Settings:
    return dataclasses.replace(settings, data_path=data_path)


@pytest.fixture
def people(log: CommitLog) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, SCHEMA)
    assert tx.outcome.snapshot_id is not None
    log.wait_for_snapshot(tx.outcome.snapshot_id)


def batch(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "name": [f"n{i}" for i in ids]}, SCHEMA)


def task_file(log: CommitLog, *ids: int) -> str:
    to = target(log, TABLE)
    [path] = write_batches(iter([batch(*ids)]), to.definition, to.path)
    return path


@pytest.mark.usefixtures("people")
def test_lake_in_s3_then_files_are_described_written_read_and_cleaned_there(
    log: CommitLog, settings: Settings, endpoint: str
) -> None:
    bucket = fs.S3FileSystem(endpoint_override=endpoint)
    assert target(log, TABLE).path.startswith("s3://lake/data/main/people/")
    with log.transaction() as tx:
        mine = tx.new_file(TABLE)
        pq.write_table(pa.Table.from_batches([batch(1, 2)]), mine.removeprefix("s3://"), filesystem=bucket)
        tx.append(TABLE, [mine])
    for name in ("e1", "e[12]", "e%5B12%5D"):
        found = pa.Table.from_batches([batch(*range(len(name)))])
        pq.write_table(found, f"lake/data/main/people/{name}.parquet", filesystem=bucket)
        described = read_data_file(
            f"{target(log, TABLE).path}{name}.parquet", target(log, TABLE).definition, table_path=None
        )
        assert described.record_count == len(name)
        bucket.delete_file(f"lake/data/main/people/{name}.parquet")
    chosen = source_options(settings)
    writer = BatchWriter(SourceOptions(chosen), TABLE, from_arrow_schema(SCHEMA))
    writer.commit([WrittenFiles((task_file(log, *ids),), target(log, TABLE), None, None) for ids in ((3, 4), (5,))])
    log.wait_for_snapshot()

    pinned = SourceOptions({**chosen, "snapshot": str(log.head_snapshot_id())})
    reader = TableReader(pinned, TABLE, from_arrow_schema(SCHEMA))
    found = [each for part in reader.partitions() for each in reader.read(part)]
    assert sorted(id for each in found for id in each.column("id").to_pylist()) == [1, 2, 3, 4, 5]

    dead, removed = task_file(log, 6), task_file(log, 7)
    remove_files([removed])
    with Cleaning(settings, older_than_ms=0) as cleaning:
        assert [each.place for each in cleaning.remove(cleaning.removable())] == [dead]
    stored = bucket.get_file_info(fs.FileSelector("lake/data", recursive=True))
    names = [each.base_name for each in stored if each.type is fs.FileType.File]
    assert len(names) == 4
    assert MARKER in names
    with pytest.raises(ConfigurationError, match=rf"s3://lake/data/x is in s3://lake/data, .* log {settings.log}"):
        check_free("s3://lake/data/x", "another")


def test_lake_in_s3_when_its_folder_has_unusual_letters_then_each_stands_for_itself(
    spark: SparkSession, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, log = fs.S3FileSystem(endpoint_override=endpoint), InMemoryCommitLog(data_path=UNUSUAL)

    def save(writer: DataFrameWriter, session: SparkSession, schema: StructType, directory: str) -> None:
        # As S3A does, which is not there.
        rows = writer._df.toArrow()  # type: ignore[attr-defined]
        ids = [{"PARQUET:field_id": str(each.metadata[FIELD_ID])} for each in schema.fields]
        fields = [each.with_metadata(field_id) for each, field_id in zip(rows.schema, ids, strict=True)]
        path = f"{directory.removeprefix('s3://')}/part-0.parquet"
        pq.write_table(rows.cast(pa.schema(fields)), path, filesystem=bucket)

    with log.transaction() as tx:
        tx.create_table(TABLE, SCHEMA)
        tx.create_table("main.keyed", SCHEMA, primary_key=["id"])
    monkeypatch.setattr(parquet_files, "save", save)
    people = commitlog.spark.table(spark, TABLE, log=log)
    assert people.append(spark.createDataFrame([(1, "n1"), (2, "n2")], "id long, name string")) is not None
    with log.transaction() as tx:
        tx.append(TABLE, [task_file(log, 3)])
    assert sorted(log.table(TABLE).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert people.append(spark.createDataFrame([], "id long, name string")) is None
    log.table("main.keyed").insert([{"id": 4, "name": "n4"}])
    assert flush(spark, "main.keyed", log=log) is not None
    assert log.table("main.keyed").scan().to_arrow().to_pylist() == [{"id": 4, "name": "n4"}]
    kept = [each.path for each in bucket.get_file_info(fs.FileSelector("lake", recursive=True)) if each.is_file]
    assert sorted(path.partition("/commitlog-")[0] for path in kept) == [
        f"{UNUSUAL.removeprefix('s3://')}/main/{table}" for table in ("keyed", "people", "people")
    ]


def test_copy_into_a_store_when_it_breaks_off_then_what_another_link_has_brought_stays(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links from several sites may bring the same file at the same time."""
    bucket, path = fs.S3FileSystem(endpoint_override=endpoint), f"lake/t/{lasting_name('a', 1)}"

    class Source:
        """Breaks off after another link has brought all of it."""

        def open_input_stream(self, _: str) -> Source:
            return self

        def __enter__(self) -> Source:
            return self

        def __exit__(self, *_: object) -> None: ...

        def read(self, _: int) -> bytes:
            if not there():
                place = tmp_path / "a.parquet"
                place.write_bytes(b"content")
                copy_whole(str(place), f"s3://{path}", 7)
                return b"con"
            raise OSError("the connection was lost")

    def there() -> list[str]:
        found = bucket.get_file_info(fs.FileSelector("lake/t", allow_not_found=True))
        return [each.path for each in found]

    def opened(place: str) -> tuple[object, str]:
        return (Source(), place) if place == "broken" else filesystem_of(place)

    filesystem_of = copying.filesystem_of
    monkeypatch.setattr(copying, "filesystem_of", opened)
    with pytest.raises(DataFileError, match=r"broken cannot be copied to s3://lake/t/.*: the connection was lost"):
        copy_whole("broken", f"s3://{path}", 7)
    assert there() == [path]
    with bucket.open_input_stream(path) as file:
        assert file.read() == b"content"


@pytest.mark.nightly
@pytest.mark.parametrize("data_path", ["s3://lake/data", UNUSUAL])
@pytest.mark.usefixtures("people")
def test_lake_in_s3_when_spark_uses_it_by_s3a_then_every_way_of_writing_and_reading_works(
    settings: Settings, endpoint: str, data_path: str, tmp_path: Path
) -> None:
    told = {
        "endpoint": endpoint,
        "settings": settings_given(settings),
        "spark": {"spark.jars.packages": S3A},
    }
    found = told_by("object_store_driver.py", told, tmp_path)
    every_id = [number for number in range(30) if number % 10 != 3]
    assert found["native"] == found["format"] == every_id
    assert found["name"] == "new"
    assert all(unquote(path).startswith(f"{data_path}/main/people/") for path in found["files"])
