"""Into which bucket a value falls: the hashes are the examples of Iceberg's specification, appendix B."""

from __future__ import annotations

import pytest

from commitlog.domain.model.buckets import bucket_of
from commitlog.domain.model.types import parse_type
from commitlog.domain.model.values import Scalar

SIGN = 2**31 - 1


@pytest.mark.parametrize(
    ("data_type", "value", "hashed"),
    [
        ("int32", 34, 2_017_239_379),
        ("int64", 34, 2_017_239_379),
        ("boolean", True, 1_392_991_556),
        ("date", "2017-11-16", -653_330_422),
        ("timestamp", "2017-11-16T22:31:08", -2_047_944_441),
        ("timestamptz", "2017-11-16T14:31:08-08:00", -2_047_944_441),
    ],
)
def test_bucket_of_then_is_icebergs(data_type: str, value: Scalar, hashed: int) -> None:
    for buckets in (1, 16, 1_000_003):
        assert bucket_of(parse_type(data_type), value, buckets) == (hashed & SIGN) % buckets


def test_bucket_of_when_a_number_is_negative_then_all_its_bytes_count() -> None:
    found = {bucket_of(parse_type("int64"), value, SIGN) for value in (-1, -(2**63), 2**63 - 1, 2**32 - 1, 0)}
    assert len(found) == 5


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("varchar", "iceberg"),
        ("int64", None),
        ("int64", True),
        ("boolean", 1),
        ("int32", "a"),
        ("int8", 1_000),
        ("date", "no day"),
    ],
)
def test_bucket_of_when_it_is_no_value_of_such_a_type_then_it_is_not_known(data_type: str, value: Scalar) -> None:
    assert bucket_of(parse_type(data_type), value, 16) is None


@pytest.mark.parametrize("zone", ["", "Z"])
def test_bucket_of_when_a_moment_lies_between_two_microseconds_then_it_is_not_known(zone: str) -> None:
    data_type = parse_type("timestamptz" if zone else "timestamp")
    assert bucket_of(data_type, "2024-01-01 00:00:00.0000004" + zone, 16) is None
    assert bucket_of(data_type, "2024-01-01 00:00:00.000001000" + zone, 16) is not None
