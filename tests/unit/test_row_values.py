"""Python values as images of rows have them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from commitlog.client.tables.values import row_value
from commitlog.domain.model.types import canonical_value, parse_type


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((14, 3, 0), "14 months 3 days 0:00:00.000000"),
        ((0, -1, 14_706_000_001_000), "0 months -1 days 4:05:06.000001"),
        ((0, 0, -90_000_000_000_999), "0 months 0 days -25:00:00.000000"),
    ],
)
def test_an_interval_of_arrows_is_told_in_words_that_a_row_takes(given: tuple[int, int, int], told: str) -> None:
    assert row_value(pa.MonthDayNano(given)) == told
    assert canonical_value(parse_type("interval"), told)
