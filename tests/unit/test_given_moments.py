"""Moments as people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from commitlog.client.reading.moments import as_moment
from commitlog.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        (" 2w ", timedelta(weeks=2)),
    ],
)
def test_moment_when_it_is_an_age_then_so_long_ago(text: str, age: timedelta) -> None:
    before = datetime.now(UTC)
    assert before - age <= as_moment("at", text) <= datetime.now(UTC) - age


def test_moment_when_it_is_a_day_then_its_beginning_in_utc() -> None:
    begin = datetime(2026, 3, 2, tzinfo=UTC)
    assert as_moment("at", "2026-03-02") == as_moment("at", date(2026, 3, 2)) == begin
    before = datetime.now(UTC)
    today, yesterday = as_moment("at", "Today"), as_moment("at", "yesterday")
    # The day may end meanwhile.
    days = {each.replace(hour=0, minute=0, second=0, microsecond=0) for each in (before, datetime.now(UTC))}
    assert {today, yesterday + timedelta(days=1)} <= days


@pytest.mark.parametrize(
    "text",
    ["", "d", "7y", "-1d", "1.5h", "last week", "999999w", "0001-01-01T00:00+14:00", "9999-12-31T23:00-14:00", 7],
)
def test_moment_when_it_is_none_then_says_how_to_write_one(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"since must be a datetime, .* '7d' or 'yesterday', not "):
        as_moment("since", text)
