"""The oldest Spark that is supported: what needs no newer one works there, and what does says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.config import Settings

OLDEST = "4.0.1"
CHOSEN = (
    "test_all_readers.py",
    "test_change_keys.py",
    "test_columns.py",
    "test_compact.py",
    "test_derived_filters.py",
    "test_formats.py",
    "test_in_memory.py",
    "test_isolation.py",
    "test_spark_table.py",
    "test_tables.py",
    "test_transaction.py",
)
NEEDS_NEWER = (
    "test_formats.py::test_stream_when_restarted_on_its_checkpoint_after_a_crash_then_gives_no_second_rows[drain_source]",
    "test_transaction.py::test_format_when_the_table_is_missing_then_create_table_creates_it_in_batch_and_stream",
)
"""Streams by `format("commitlog")`: `needs_spark` tells them so, see test_workers."""


@pytest.fixture(scope="module")
def oldest() -> Path:
    """Where the oldest Spark is, installed once for this user, beside the one of the environment."""
    packages = Settings.load().cache_dir / f"pyspark-{OLDEST}"
    if not packages.exists():
        half = packages.with_name(f"{packages.name}.{os.getpid()}")
        install = ["pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(half)]
        subprocess.run([sys.executable, "-m", "uv", *install, f"pyspark=={OLDEST}"], check=True)
        half.rename(packages)
    return packages


@pytest.mark.nightly
def test_chosen_when_spark_is_the_oldest_then_pass(oldest: Path) -> None:
    left_out = [f"--deselect=tests/spark/{each}" for each in NEEDS_NEWER]
    # Its own toArrow leaves sockets open, which pytest would take for an error of ours.
    options = ["-q", "--no-cov", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *left_out, *(f"tests/spark/{each}" for each in CHOSEN)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(oldest), os.environ.get("PYTHONPATH", "")])},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
