"""Drivers of their own processes, for what the session that the tests share cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

TIMEOUT_S = 700
"""A driver takes 15 to 90 s on two busy processors; one of 16 has been seen to take more than 240."""
ABORT_S = 10
TOLD_CHARS = 3_000
OUT, LOG = "driver.out", "driver.log"


def told_by(driver: str, told: dict[str, object], work: Path) -> Any:
    """What the driver, a file beside this one, prints as JSON on its last line.

    Args:
        driver: the file's name.
        told: what it is to do, as JSON in its first argument.
        work: the directory that it runs in; it is told too.
    """
    code = exit_code(driver, told, work)
    assert code == 0, last_words(work)
    return json.loads((work / OUT).read_text().splitlines()[-1])


def exit_code(driver: str, told: dict[str, object], work: Path) -> int:
    """How a driver ends; minus the signal that killed it. One that takes too long is killed with all that it has started, and
    says where it was.

    Args: as of `told_by`.
    """
    orders = json.dumps({**told, "work": str(work)})
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with (work / OUT).open("ab") as out, (work / LOG).open("ab") as log:
        process = subprocess.Popen(
            # So that at a SIGABRT it writes where each of its threads is.
            [sys.executable, "-X", "faulthandler", Path(__file__).with_name(driver), orders],
            env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=work,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )
        try:
            return process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ABORT_S)
            raise AssertionError(f"{driver} did not end within {TIMEOUT_S} s: {last_words(work)}") from None
        finally:
            if process.returncode in (None, -signal.SIGABRT):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def last_words(work: Path) -> str:
    """The end of what the drivers in a directory have logged, on one line: a summary may show no more."""
    return " | ".join((work / LOG).read_text(errors="replace")[-TOLD_CHARS:].splitlines())
