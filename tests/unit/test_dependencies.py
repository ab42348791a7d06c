"""What a module imports when loaded comes with the package or its room's extra: tests have all extras, users do not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

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


WITHOUT_PYTZ = """
import sys

sys.modules["pytz"] = None

import duckdb

duckdb.sql("SELECT now()").fetchall()
"""


def test_duckdb_when_it_gives_times_then_what_it_imports_comes_with_its_extra() -> None:
    # A process of its own: what has been imported once is not asked for again.
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTZ], capture_output=True, text=True, timeout=120)
    assert "'pytz' failed to import" in done.stderr
    assert "pytz" in TOLD_BY["duckdb"]


WITHOUT_PANDAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
import pyarrow as pa
from commitlog.client.tables.arrow_types import to_rows
from commitlog.testing import InMemoryCommitLog

with InMemoryCommitLog(data_path=sys.argv[1]) as log:
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "at": "timestamp_ns"}, primary_key=["id"])
    table, at = log.table("t"), pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))
    first = table.upsert(pa.table({"id": [1], "at": at}))
    table.upsert([{"id": 1, "at": "2026-01-01 00:00:00.000000002"}])
    table.restore(first.snapshot_id)
    print(to_rows(table.scan().to_arrow()))
    log.append("days", pa.table({"at": at}), create=True, partition_by=["at"])
    with log.transaction() as tx:
        tx.create_table("k", {"at": "timestamp_ns"}, primary_key=["at"])
    log.table("k").insert([{"at": "2023-11-14 22:13:20.000000001"}])
    print(log.table("k").delete(where=True).committed)
    print(to_rows(pa.table({"s": pa.array([{"l": [at[0]]}], pa.struct({"l": pa.list_(at.type)}))})))
    day = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    print(to_rows(pa.table({"at": at, "day": day})), to_rows(pa.table({"day": day, "at": at})))
"""


def test_rows_when_they_have_nanoseconds_then_they_are_read_and_written_without_pandas(tmp_path: Path) -> None:
    line = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    at = "2023-11-14 22:13:20.000000001"
    first, nested, *infinite = (
        [{"id": 1, "at": at}], [{"s": {"l": [at]}}], [{"at": at, "day": "infinity"}], [{"day": "infinity", "at": at}]
    )  # fmt: skip
    assert done.stdout == f"{first}\nTrue\n{nested}\n{infinite[0]} {infinite[1]}\n", done.stderr


def test_modules_when_loaded_then_import_only_what_is_installed_with_them() -> None:
    for path in sorted((ROOT / "commitlog").rglob("*.py")):
        place = path.relative_to(ROOT / "commitlog").as_posix()
        extras = [extra for room, found in EXTRAS.items() if place.startswith(room) for extra in found]
        told = TOLD.union(*(TOLD_BY[each] for each in extras))
        imported = set(loaded_with(ast.parse(path.read_text(encoding="utf-8"))))
        others = imported - sys.stdlib_module_names - {"commitlog"}
        assert {each for each in others if not told & BROUGHT_BY.get(each, set())} == set(), place
