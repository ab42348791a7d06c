"""What a module imports when loaded comes with the package or its room's extra: tests have all extras, users do not."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    "spark": ["spark"],
    "ui": ["ui"],
    "relay": ["registry"],
    "observing/spans.py": ["tracing"],
    "ops/service/page.py": ["ui"],
    "ops/service/endpoint.py": ["metrics"],
    "ops/service/measures.py": ["metrics"],
    "ops/metrics_page.py": ["metrics"],
    "ops/local_spark.py": ["spark"],
    "ops/bench": ["peers", "spark"],
    "ops/demo": ["spark"],
    "simulation": ["simulation"],
}


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=]", each)[0].lower().replace("_", "-") for each in requirements}


TOLD = names_of(PROJECT["dependencies"])
TOLD_BY = {extra: names_of(found) for extra, found in PROJECT["optional-dependencies"].items()}
BROUGHT_BY = {name: names_of(found) for name, found in packages_distributions().items()}


def loaded_with(tree: ast.Module) -> Iterator[str]:
    """The packages that are imported at once; what is only for type checkers, or within a function, is not."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_duckdb_when_it_gives_times_then_what_it_imports_comes_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with duckdb.connect() as connection:
        monkeypatch.setitem(sys.modules, "pytz", None)
        with pytest.raises(duckdb.Error, match="'pytz' failed to import"):
            connection.execute("SELECT now()").fetchall()
    assert "pytz" in TOLD_BY["duckdb"]


@pytest.mark.parametrize("path", sorted((ROOT / "commitlog").rglob("*.py")), ids=lambda path: path.stem)
def test_module_when_loaded_then_imports_only_what_is_installed_with_it(path: Path) -> None:
    place = path.relative_to(ROOT / "commitlog").as_posix()
    extras = [extra for room, found in EXTRAS.items() if place.startswith(room) for extra in found]
    told = TOLD.union(*(TOLD_BY[each] for each in extras))
    imported = set(loaded_with(ast.parse(path.read_text(encoding="utf-8")))) - sys.stdlib_module_names - {"commitlog"}
    assert {each for each in imported if not told & BROUGHT_BY[each]} == set()
