"""The oldest packages that pyproject.toml allows: all modules load with them, and the tests of what is asked of them pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("duckdb", "metrics", "registry", "simulation", "tracing", "ui")
"""Without those of Spark, see tests/spark/test_older_spark.py."""
LOADS_ALL = """
import pkgutil, sys
from importlib import import_module
import commitlog

for module in pkgutil.walk_packages(commitlog.__path__, "commitlog."):
    if not module.name.startswith("commitlog.spark.source.") and not module.name.endswith("__main__"):
        import_module(module.name)
import confluent_kafka
assert confluent_kafka.__file__.startswith(sys.argv[1]), confluent_kafka.__file__
"""
CHOSEN = (
    "test_cli_commands.py",
    "test_cli_history.py",
    "test_cli_sql.py",
    "test_client_arguments.py",
    "test_client_data_files.py",
    "test_client_rows.py",
    "test_codec.py",
    "test_metrics.py",
    "test_packing.py",
    "test_relay_receipts.py",
    "test_spans.py",
    "test_triage.py",
)


@pytest.mark.nightly
def test_chosen_when_packages_are_the_oldest_then_pass(tmp_path: Path) -> None:
    extras = [f"--extra={each}" for each in EXTRAS]
    install = [
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--target",
        str(tmp_path),
        "--resolution",
        "lowest-direct",
    ]
    subprocess.run(
        [sys.executable, "-m", "uv", *install, *extras, "--requirements", "pyproject.toml"], cwd=ROOT, check=True
    )
    # They come before the environment's, which has what tests need.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    loads = [sys.executable, "-c", LOADS_ALL, str(tmp_path)]
    tests = [sys.executable, "-m", "pytest", "-q", "--no-cov", "-p", "no:cacheprovider"]
    for line in (loads, [*tests, *(f"tests/unit/{each}" for each in CHOSEN)]):
        done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
