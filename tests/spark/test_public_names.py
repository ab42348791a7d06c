"""The names of `commitlog.spark`, which are loaded when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import commitlog.spark

ROWS = ("pyarrow", "numpy")
SERVERS = ("psycopg", "confluent_kafka", "commitlog.client")
DRIVERS = (
    "pandas",
    "pyarrow.dataset",
    "sqlalchemy",
    "commitlog.spark.maintaining.verify",
    "commitlog.spark.table_handle",
)


def test_names_when_asked_for_then_there_and_no_module_has_the_name_of_one() -> None:
    for name in commitlog.spark.__all__:
        assert callable(getattr(commitlog.spark, name)), name
    assert {*commitlog.spark.__all__} <= {*dir(commitlog.spark)}
    with pytest.raises(AttributeError, match=r"'commitlog\.spark' has no attribute 'tabel'"):
        commitlog.spark.tabel  # noqa: B018


@pytest.mark.parametrize(
    ("step", "module", "not_needed"),
    [
        ("look sources up", "pyspark_commitlog", (*DRIVERS, *ROWS, *SERVERS)),
        ("tell the schema", "commitlog.spark.source.schemas", (*DRIVERS, *ROWS)),
        ("read", "commitlog.spark.source.table_reader", DRIVERS),
        ("write", "commitlog.spark.source.batch_writer", DRIVERS),
    ],
)
def test_source_when_a_process_of_sparks_takes_a_step_then_imports_nothing_of_others(
    step: str, module: str, not_needed: tuple[str, ...]
) -> None:
    program = f"import sys; import {module}; print([each for each in {not_needed} if each in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]", step
