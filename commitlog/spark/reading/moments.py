"""Moments as of which a table is read, in the time zone that a user of Spark means."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pyspark.sql import SparkSession

from commitlog.errors import ConfigurationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_in(spark: SparkSession, given: date | str) -> datetime:
    """A moment as Spark's users give it: a text in the session's time zone, in which Spark shows times, and a datetime in this
    process's, as which PySpark collects them; both unless they say otherwise.

    Raises:
        ConfigurationError: it cannot be read.
    """
    if isinstance(given, datetime):
        return given.astimezone()
    moment = parsed(str(given))
    if moment.tzinfo is not None:
        return moment
    micros = spark.sql("SELECT unix_micros(CAST(:moment AS TIMESTAMP_LTZ))", {"moment": moment.isoformat()}).first()
    assert micros is not None, "it selects one row"
    return _EPOCH + timedelta(microseconds=micros[0])


def parsed(text: str) -> datetime:
    """A moment of a text, with its time zone if the text has one.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"a table is read at a timestamp such as 2024-01-31T12:30:00Z: {error}") from None


def check_passed(moment: datetime) -> None:
    """Raise ConfigurationError where the moment has no time zone, or is to come: what is read then is not known yet."""
    if moment.tzinfo is None:
        text = moment.isoformat()
        raise ConfigurationError(
            f"the option timestamp names its time zone, such as {text}Z, or {text}+01:00: Spark tells no source which "
            "one the session has"
        )
    now = datetime.now(UTC)
    if moment > now:
        raise ConfigurationError(
            f"a table is read at a moment that has passed: {moment.isoformat()} comes after now, {now.isoformat()}"
        )
