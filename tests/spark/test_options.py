"""Options of `format("commitlog")` that there are not, and what is said of them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from commitlog.errors import ConfigurationError
from commitlog.spark.source.data_source import CommitLogDataSource
from commitlog.spark.source.options import _HERE, _RAW_TYPE, SourceOptions


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("versionAsOf", "has no option versionAsOf: snapshot is that"),
        ("timestampAsOf", "timestamp is that"),
        ("replaceWhere", r"overwrite\(df, where=...\) does that"),
        ("readChangeFeed", "changes is that"),
        ("snapshott", "did you mean snapshot?"),
        ("colour", "there are table, profile, topic, snapshot"),
    ],
)
def test_options_when_one_is_of_another_format_or_misspelt_then_are_told_what_is_there_instead(
    name: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SourceOptions({"table": "main.rides", name: "1"})


def test_options_of_other_formats_then_none_is_one_of_ours() -> None:
    for name in _HERE:
        with pytest.raises(ConfigurationError, match="has no option"):
            SourceOptions({name: "1"})


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("database_url", "postgresql://etl:hush@catalog/lake", True),
        ("DATABASE_URL", "postgresql://catalog/lake?sslpassword=hush", True),
        ("reader_url", "postgresql://a:hush@catalog/lake", True),
        ("kafka.sasl.password", "hush", True),
        ("kafka.ssl.key.pem", "hush", True),
        ("ui_token", "hush", True),
        ("database_url", "postgresql://etl@catalog/lake", False),
        ("kafka.ssl.key.location", "/etc/key.pem", False),
        ("key", "load:1", False),
        ("profile", "prod", False),
    ],
)
def test_options_when_create_table_would_keep_a_secret_then_are_refused_and_told_what_to_name_instead(
    name: str, value: str, is_secret: bool
) -> None:
    for prefix in ("", "option."):
        given = {f"{prefix}table": "main.rides", f"{prefix}{name}": value}
        assert SourceOptions(given).table == "main.rides"
        if not is_secret:
            assert SourceOptions({**given, "owner": "me"}).creates_table
            continue
        with pytest.raises(ConfigurationError, match=f"{name.lower()} has a password.*the option profile") as refused:
            SourceOptions({**given, "owner": "me"})
        assert "hush" not in str(refused.value)


def test_kept_options_when_rows_were_read_from_a_table_then_do_not_say_where_they_are_written() -> None:
    tags = StructField("tags", ArrayType(StringType()))
    schema = StructType([StructField("id", LongType()), StructField("name", StringType()), tags])
    read = SourceOptions({"owner": "me", "option.table": "main.read"}).kept_in(schema)
    fitted = [
        StructField(each.name, each.dataType, True, {k: v for k, v in each.metadata.items() if k != _RAW_TYPE})
        for each in read.fields
    ]
    nothing = SourceOptions({})
    assert nothing.with_kept(read).table == "main.read"
    assert nothing.with_kept(StructType(fitted), is_written=True).table == "main.read"
    partly_read = StructType([schema["id"], *read.fields[1:]])
    for rows in (read, partly_read, schema):
        with pytest.raises(ConfigurationError, match="INSERT INTO made WITH"):
            _ = nothing.with_kept(rows, is_written=True).table
    with pytest.raises(ConfigurationError, match="use CREATE TEMPORARY VIEW"):
        SourceOptions({"option.table": "main.read"}).kept_in(StructType([tags]))


def test_stream_when_it_cannot_be_made_then_is_a_reader_that_says_why_when_it_is_asked() -> None:
    reader = CommitLogDataSource({"table": "main.rides", "startingSnapshot": "now"}).streamReader(StructType())
    for ask in (reader.initialOffset, lambda: reader.latestOffset({}, None), lambda: reader.partitions({}, {})):
        with pytest.raises(ConfigurationError, match="startingSnapshot is a snapshot's id"):
            ask()
