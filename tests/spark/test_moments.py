"""As of which moment a table is read: the one that a user of Spark means."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from people import rows
from pyspark.sql import SparkSession

import commitlog.spark
from commitlog.errors import ConfigurationError, MomentNotFoundError
from commitlog.spark.reading.moments import moment_in
from commitlog.testing import InMemoryCommitLog

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in New York, five hours behind UTC in winter."""
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield spark
    assert before is not None
    spark.conf.set(ZONE, before)


def test_moment_when_a_text_names_no_zone_then_is_of_the_session_and_a_datetime_of_the_process(
    session: SparkSession,
) -> None:
    noon = datetime(2026, 1, 15, 12, tzinfo=UTC)
    assert moment_in(session, "2026-01-15 07:00:00") == noon
    assert moment_in(session, "2026-01-15T12:00:00Z") == noon
    assert moment_in(session, "2026-01-15T13:00:00.5+01:00") == noon + timedelta(seconds=0.5)
    assert moment_in(session, noon.date()) == noon.replace(hour=5)
    assert moment_in(session, noon) == noon
    assert moment_in(session, noon.astimezone().replace(tzinfo=None)) == noon
    with pytest.raises(ConfigurationError, match="at a timestamp such as"):
        moment_in(session, "yesterday")


def test_moment_when_the_session_takes_timestamps_for_ones_without_a_zone_then_is_the_same(
    session: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(session, "main.people", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(session, 1), create=True)
    told = t.history().collect()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert moment_in(session, "2026-01-15 07:00:00") == datetime(2026, 1, 15, 12, tzinfo=UTC)
        assert t.history().collect() == told
    finally:
        session.conf.unset("spark.sql.timestampType")


def test_read_when_asked_as_of_a_time_that_the_history_shows_then_gives_that_snapshot(
    session: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(session, "main.people", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(session, 1), create=True)
    t.append(rows(session, 2))
    _, first = t.history().selectExpr("time", "CAST(time AS STRING) AS shown").collect()
    assert t.read(timestamp=first.time).count() == 1
    assert t.read(timestamp=first.shown).count() == 1
    with pytest.raises(ConfigurationError, match="a moment that has passed"):
        t.read(timestamp=datetime.now() + timedelta(days=1))
    with pytest.raises(MomentNotFoundError, match=r"no snapshot of 1960-01-01 .* UTC: the log began at 20.* UTC"):
        t.read(timestamp="1960-01-01")
