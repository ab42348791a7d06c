"""Python values as images of rows have them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from commitlog.client.tables.values import row_value
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import parse_type


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (pa.MonthDayNano((14, 3, 0)), "14 months 3 days 0:00:00.000000"),
        (pa.MonthDayNano((0, -1, 14_706_000_001_000)), "0 months -1 days 4:05:06.000001"),
        (pa.MonthDayNano((0, 0, -90_000_000_000_999)), "0 months 0 days -25:00:00.000000"),
        (timedelta(hours=25, microseconds=1), "0 months 1 days 1:00:00.000001"),
        (timedelta(microseconds=-1), "0 months -1 days 23:59:59.999999"),
    ],
)
def test_interval_when_it_is_arrows_or_pythons_then_told_in_words_that_a_row_takes(given: Any, told: str) -> None:
    assert row_value(given) == told
    assert canonical_value(parse_type("interval"), told)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_row_value_when_it_is_numpys_then_as_python_has_it(unit: str) -> None:
    assert row_value(np.array([["2026-01-01T12:00:00", "NaT"]], f"M8[{unit}]")) == [
        [str(np.datetime64("2026-01-01T12:00:00", unit)), None]
    ]
    assert row_value(pl.Series([1, 2])) == [1, 2]
    assert row_value({"n": np.int32(1), "f": np.float32(0.5)}) == {"n": 1, "f": 0.5}
