"""``COMMITLOG_REWRITE_SCENARIOS=1 pytest tests/scenarios`` writes today's answers into the files; read the difference."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).parent
sys.path[:0] = [str(DIRECTORY), str(DIRECTORY.parent / "unit")]


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("COMMITLOG_REWRITE_SCENARIOS") == "1":
        from scenarios import rewritten

        for path in DIRECTORY.glob("*.txt"):
            path.write_text(rewritten(path))
