"""Drivers of their own processes, for what the session that the tests share cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 280


def told_by(driver: str, told: dict[str, object], work: Path) -> Any:
    """What the driver, a file beside this one, prints as JSON on its last line.

    Args:
        driver: the file's name.
        told: what it is to do, as JSON in its first argument.
        work: the directory that it runs in; it is told too.
    """
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(driver)), json.dumps({**told, "work": str(work)})],
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])
