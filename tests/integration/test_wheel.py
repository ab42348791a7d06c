"""A wheel as it is built and installed: with the core compiled, or, where that is not wanted, pure."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DECIDES = """
import commitlog.compiled
from commitlog.domain.deciding import decide
from commitlog.testing import InMemoryCommitLog

with InMemoryCommitLog() as log, log.transaction() as tx:
    tx.create_table("t", {"id": "int64"})
assert tx.outcome.snapshot_id == 1
print(commitlog.compiled.form, decide.__file__)
"""


def run(*line: str | Path, cwd: Path, **environment: str) -> str:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("COMMITLOG_", "PYTHON"))}
    done = subprocess.run(line, cwd=cwd, env=given | environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("environment", "tag", "form"),
    [({}, f"-cp3{sys.version_info.minor}-", "compiled"), ({"HATCH_BUILD_NO_HOOKS": "true"}, "-py3-none-any.", "interpreted")],
)  # fmt: skip
def test_wheel_when_built_and_installed_then_runs_in_its_form(
    environment: dict[str, str], tag: str, form: str, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, cwd=ROOT, **environment)
    (wheel,) = tmp_path.glob("*.whl")
    assert tag in wheel.name
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "--quiet", "install", "--no-index", "--no-deps", wheel, cwd=tmp_path)
    # Its dependencies are the running environment's, which does not hold the package itself but a path to this checkout.
    packages = run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    Path(packages, "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    told = run(tmp_path / "venv" / "bin" / "commitlog", "--version", cwd=tmp_path)
    assert f", {form}" in told
    ran, where = run(python, "-c", DECIDES, cwd=tmp_path).split()
    assert (ran, Path(where).is_relative_to(packages)) == (form, True)
