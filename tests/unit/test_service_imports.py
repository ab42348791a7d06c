"""What a service's process loads before it begins: whatever it does not need makes each start of it later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = """
import sys
import {module} as module

def run(settings, **given):
    print("loaded:", *(sys.modules.keys() & {heavy!r}))

module.{function} = run
sys.argv[1:] = [{service!r}]
from commitlog.ops.cli import main
main()
"""
HEAVY = {
    "sqlalchemy",
    "psycopg",
    "pyarrow",
    "numpy",
    "pandas",
    "duckdb",
    "psutil",
    "jinja2",
    "commitlog.client.commit_log",
}


@pytest.mark.parametrize(
    ("service", "module", "function"),
    [
        ("sequencer", "commitlog.log.sequencer", "run_sequencer"),
        ("checkpointer", "commitlog.log.checkpoint", "run_checkpointer"),
    ],
)
def test_service_of_the_log_when_it_begins_then_without_sql_arrow_and_what_writers_need(
    service: str, module: str, function: str, tmp_path: Path
) -> None:
    code = COMMAND.format(module=module, function=function, service=service, heavy=HEAVY)
    environment = {**os.environ, "COMMITLOG_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "loaded:\n"
