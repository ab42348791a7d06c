"""What Spark shows of the options, and what its tasks are sent of the settings."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from people import source_options
from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.spark.connection import settings_of
from commitlog.spark.source.data_source import CommitLogDataSource

URL_PASSWORD, KAFKA_PASSWORD = "of-the-catalog", "of-the-broker"


@pytest.fixture
def options(people: None, settings: Settings) -> dict[str, str]:
    """Options with passwords that nobody asks for here."""
    separator = "&" if "?" in settings.database_url else "?"
    url = f"{settings.database_url}{separator}sslpassword={URL_PASSWORD}"
    return {**source_options(settings), "database_url": url, "kafka.sasl.password": KAFKA_PASSWORD}


def test_options_when_they_begin_with_kafka_then_are_its_clients(options: dict[str, str]) -> None:
    source = CommitLogDataSource({**options, "KAFKA.SASL.USERNAME": "etl"})
    log = source.reader(source.schema())._settings  # type: ignore[attr-defined]
    assert log.kafka == {"sasl.password": KAFKA_PASSWORD, "sasl.username": "etl"}


def test_plan_when_shown_then_has_no_password(spark: SparkSession, options: dict[str, str]) -> None:
    frame = spark.read.format("commitlog").options(**options).load()
    shown = str(frame._jdf.queryExecution().toString())
    assert "BatchScan commitlog" in shown
    assert URL_PASSWORD not in shown
    assert KAFKA_PASSWORD not in shown


@pytest.mark.parametrize(
    ("more", "kind", "needed"),
    [
        ({}, "reader", {URL_PASSWORD, KAFKA_PASSWORD}),
        ({"snapshot": "1"}, "reader", set()),
        ({}, "streamReader", set()),
        ({"topic": "results"}, "reader", {KAFKA_PASSWORD}),
        ({"topic": "results"}, "streamReader", {KAFKA_PASSWORD}),
    ],
)
def test_tasks_when_sent_a_reader_then_get_only_the_passwords_that_they_need(
    log: CommitLog, options: dict[str, str], more: dict[str, str], kind: str, needed: set[str]
) -> None:
    source = CommitLogDataSource({**options, **more})
    sent = pickle.dumps(getattr(source, kind)(source.schema()))
    assert {each for each in (URL_PASSWORD, KAFKA_PASSWORD) if each.encode() in sent} == needed
    assert settings_of(log).database_url.encode() not in sent or URL_PASSWORD in needed


def test_tasks_when_a_profile_is_named_then_those_that_write_get_no_password(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in options if not name.startswith(("kafka.", "table"))]
    lines = ["[profile.prod]", *(f"{name} = {json.dumps(options[name])}" for name in names)]
    lines += ["[profile.prod.kafka]", f'"sasl.password" = "{KAFKA_PASSWORD}"']
    (tmp_path / "commitlog.toml").write_text("\n".join(lines))
    monkeypatch.setenv("COMMITLOG_CONFIG", str(tmp_path / "commitlog.toml"))
    source = CommitLogDataSource({"table": options["table"], "profile": "prod"})
    schema = source.schema()
    log = source.reader(schema)._settings  # type: ignore[attr-defined]
    assert (log.database_url, log.kafka) == (options["database_url"], {"sasl.password": KAFKA_PASSWORD})
    for writer in (source.writer(schema, False), source.streamWriter(schema, False)):
        sent = pickle.dumps(writer)
        assert not [each for each in (URL_PASSWORD, KAFKA_PASSWORD) if each.encode() in sent]
