"""Which defaults of a stock catalog are values of their column's type."""

from __future__ import annotations

import pytest

from commitlog.adoption.source import default_of


@pytest.mark.parametrize(
    ("given", "column_type", "text"),
    [
        ("CAST('2024-01-02 03:04:05+02' AS \"TIMESTAMP WITH TIME ZONE\")", "timestamptz", "2024-01-02 03:04:05+02"),
        ("CAST('01:02:03+02' AS \"TIME WITH TIME ZONE\")", "timetz", "01:02:03+02"),
        ("CAST('2024-01-02' AS \"DATE\")", "date", "2024-01-02"),
        ("CAST('t' AS BOOLEAN)", "boolean", "true"),
        ("CAST(3 AS BIGINT)", "int64", "3"),
        ("CAST('-3' AS BIGINT)", "int64", "-3"),
        ('CAST(1.5 AS "DOUBLE")', "float64", "1.5"),
        ("CAST(1.25 AS DECIMAL(9, 2))", "decimal(9,2)", "1.25"),
        ("CAST(1.25 AS DECIMAL(4, 1))", "decimal(9,2)", None),
        ("CAST(3 AS INTEGER)", "int64", None),
        ("CAST(0.1 AS FLOAT)", "float32", None),
        ('CAST(0.12345678901234567 AS "DOUBLE")', "float64", None),
        ("CAST(1.6 AS BIGINT)", "int64", None),
        ("CAST(' 7 ' AS BIGINT)", "int64", None),
        ("CAST('1.256' AS DECIMAL(9, 2))", "decimal(9,2)", None),
        ("CAST(5 AS VARCHAR)", "varchar", None),
        ("CAST(CAST(3 AS INTEGER) AS BIGINT)", "int64", None),
        ("-(CAST(3 AS BIGINT))", "int64", None),
        ("TRY_CAST('3' AS BIGINT)", "int64", None),
    ],
)
def test_a_typed_literal_is_a_default_where_its_type_is_the_columns(
    given: str, column_type: str, text: str | None
) -> None:
    row = {"default_value": given, "default_value_type": "expression", "column_type": column_type}
    assert default_of(row) == text
