"""Which form of the core runs: compiled only while the sources are those that were compiled."""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from commitlog import compiled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module that was compiled, and the record of it."""
    package = tmp_path / "commitlog"
    package.mkdir()
    source = package / "core.py"
    source.write_text("x = 1\n")
    (package / f"core{compiled.SUFFIX}").touch()
    monkeypatch.setattr(compiled, "PACKAGE", package)
    monkeypatch.setattr(compiled, "RECORD", package / "record.json")
    compiled.RECORD.write_text(json.dumps({"commitlog/core.py": compiled.fingerprint(source)}))
    return package


def test_unfit_when_the_sources_are_those_compiled_then_nothing_is_wrong(checkout: Path) -> None:
    assert compiled.unfit() == ""


def test_unfit_when_a_source_was_changed_since_then_names_it(checkout: Path) -> None:
    (checkout / "core.py").write_text("x = 2\n")
    assert compiled.unfit() == "commitlog/core.py was changed after it was compiled"


def test_unfit_when_a_source_is_gone_then_names_it(checkout: Path) -> None:
    (checkout / "core.py").unlink()
    assert compiled.unfit() == "commitlog/core.py was changed after it was compiled"


def test_unfit_when_a_compiled_module_is_gone_then_names_it(checkout: Path) -> None:
    (checkout / f"core{compiled.SUFFIX}").unlink()
    assert compiled.unfit() == f"core{compiled.SUFFIX} is gone"


def test_unfit_when_compiling_did_not_end_then_it_was_not_compiled(checkout: Path) -> None:
    compiled.RECORD.unlink()
    assert compiled.unfit() == "it was not compiled"


@pytest.mark.parametrize("wanted", ["", "interpreted"])
def test_choose_when_the_compiled_form_is_unfit_or_unwanted_then_sources_run(
    wanted: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not wanted:
        (checkout / "core.py").write_text("x = 2\n")
    monkeypatch.setenv(compiled.SWITCH, wanted)
    monkeypatch.setattr(sys, "meta_path", [])
    for name in ("form", "reason"):
        monkeypatch.setattr(compiled, name, None)
    compiled.choose()
    assert compiled.form == compiled.INTERPRETED
    assert compiled.described().startswith("interpreted (")
    (finder,) = sys.meta_path
    spec = finder.find_spec("commitlog.core", [str(checkout)], None)
    assert spec is not None
    assert spec.origin == str(checkout / "core.py")
    assert finder.find_spec("elsewhere.core", [str(checkout)], None) is None
    assert finder.find_spec("commitlog.nothing", [str(checkout)], None) is None


def test_choose_when_the_compiled_form_is_fit_then_it_runs(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    monkeypatch.setattr(sys, "meta_path", [])
    for name in ("form", "reason"):
        monkeypatch.setattr(compiled, name, None)
    compiled.choose()
    assert (compiled.form, compiled.described(), sys.meta_path) == (compiled.COMPILED, "compiled", [])


def test_choose_when_the_compiled_form_must_run_and_cannot_then_says_why(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "core.py").write_text("x = 2\n")
    monkeypatch.setenv(compiled.SWITCH, "compiled")
    for name in ("form", "reason"):
        monkeypatch.setattr(compiled, name, None)
    with pytest.raises(ImportError, match=r"asks for the compiled core, but commitlog/core\.py was changed"):
        compiled.choose()


def test_commitlog_when_the_form_is_none_that_there_is_then_one_clear_line() -> None:
    line = [sys.executable, "-c", "import commitlog"]
    done = subprocess.run(line, env={**os.environ, compiled.SWITCH: "fast"}, capture_output=True, text=True, timeout=60)
    assert done.stderr.endswith("variable COMMITLOG_CORE is 'fast': it can be compiled or interpreted\n")


def test_version_when_interpreted_then_says_so_and_why() -> None:
    line = [sys.executable, "-c", "from commitlog.ops.cli import main; main()", "--version"]
    given = {**os.environ, compiled.SWITCH: "interpreted"}
    done = subprocess.run(line, env=given, capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith(", interpreted (COMMITLOG_CORE asks for it)\n"), done.stderr


def test_modules_when_a_form_runs_then_the_core_is_of_it() -> None:
    from commitlog.domain.deciding import decide

    is_source = str(decide.__file__).endswith(".py")
    assert is_source == (compiled.form == compiled.INTERPRETED)


def test_what_is_compiled_when_it_imports_a_package_then_that_is_there_where_a_wheel_is_built() -> None:
    """mypyc must know its types: with those of a package missing it fails, and the wheel is not compiled."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    told = [name.replace("-", "_") for name in told]
    brought_by_mypyc = {"librt", "mypy_extensions"}
    trees = [
        ast.parse((ROOT / name).read_bytes()) for name in runpy.run_path(str(ROOT / "hatch_build.py"))["sources"]()
    ]
    lines = [line for tree in trees for line in ast.walk(tree)]
    modules = [each.name for line in lines if isinstance(line, ast.Import) for each in line.names]
    modules += [line.module or "" for line in lines if isinstance(line, ast.ImportFrom)]
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"commitlog"}
    assert packages >= {"pyroaring"}
    assert packages - brought_by_mypyc <= set(told)


def test_what_is_compiled_when_listed_then_every_line_finds_sources() -> None:
    build: dict[str, Any] = runpy.run_path(str(ROOT / "hatch_build.py"))
    assert all(list(ROOT.glob(pattern)) for pattern in (*build["SOURCES"], *build["LEFT_OUT"]))
    names = build["sources"]()
    assert "commitlog/domain/deciding/decide.py" in names


DEEP = """
from commitlog.domain import model as m
column = m.MappedColumn("a", "b")
for _ in range(1_000):
    column = m.MappedColumn("a", "b", (column,))
del column
print("freed")
"""


def test_record_when_it_is_freed_deep_in_others_then_nothing_beside_it_is_written_over() -> None:
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    done = subprocess.run([sys.executable, "-c", DEEP], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("freed\n", "")
