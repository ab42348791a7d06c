"""What the catalog keeps of the bounds that a file's writer told: readers leave a file out by them (rules.md 12.14)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from commitlog.catalog.projecting.statistics import bound, told_bound
from commitlog.domain.model.types import parse_type


@pytest.mark.parametrize(
    ("kind", "told", "kept"),
    [
        ("decimal(18,2)", 12345678901234.56, Decimal("12345678901234.56")),
        ("decimal(18,2)", 1234567890123456.78, None),
        ("decimal(18,2)", "1234567890123456.78", Decimal("1234567890123456.78")),
        ("decimal(38,20)", 0.1, None),
        ("decimal(38,20)", "0.1", Decimal("0.1")),
        ("float64", 0.1, 0.1),
        ("int64", 7, 7),
    ],
)
def test_a_bound_that_stands_for_several_values_of_its_column_then_is_not_kept(kind: str, told: Any, kept: Any) -> None:
    assert told_bound(parse_type(kind), told) == kept


def test_a_row_then_is_its_own_bound_whatever_its_number_may_stand_for() -> None:
    """Its value is what is stored: of a column that was widened since it was written, too."""
    assert bound(parse_type("decimal(38,10)"), 12345678901234.56) == Decimal("12345678901234.56")
