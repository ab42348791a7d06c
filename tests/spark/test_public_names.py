"""The names of `commitlog.spark`, which are loaded when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import commitlog.spark

HEAVY = (
    "pandas",
    "pyarrow.dataset",
    "sqlalchemy",
    "commitlog.spark.maintaining.verify",
    "commitlog.spark.table_handle",
)
PROGRAM = (
    f"import sys; import commitlog.spark.source.data_source; print([each for each in {HEAVY} if each in sys.modules])"
)


def test_names_when_asked_for_then_there_and_no_module_has_the_name_of_one() -> None:
    for name in commitlog.spark.__all__:
        assert callable(getattr(commitlog.spark, name)), name
    assert {*commitlog.spark.__all__} <= {*dir(commitlog.spark)}
    with pytest.raises(AttributeError, match=r"'commitlog\.spark' has no attribute 'tabel'"):
        commitlog.spark.tabel  # noqa: B018


def test_data_source_when_a_worker_imports_it_then_without_what_only_drivers_need() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
