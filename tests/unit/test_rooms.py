"""Each room of the package imports only what it may: the walls that keep `domain` pure and Kafka out of the catalog."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover

PACKAGE = Path(__file__).resolve().parents[2] / "commitlog"


@dataclass(frozen=True)
class Room:
    """What a room may import of the package, by module prefix, and which other packages it must not.

    packages: None lets in whatever is not in `never`.
    """

    modules: frozenset[str]
    never: frozenset[str] = frozenset()
    packages: frozenset[str] | None = None


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


EVERYTHING = _names(
    "domain log catalog client adoption gateway sites relay spark local simulation observing ui errors config machine compiled "
    "testing"
)
CATALOG_READERS = (
    "catalog.queries catalog.history catalog.snapshot_diff catalog.watching catalog.table_changes catalog.taken_over "
    "catalog.connecting"
)
SPARK_OUTSIDE = _names(
    "client catalog.queries catalog.reader catalog.table_changes catalog.census "
    "domain log.results log.chain log.codec errors config"
)
SPARK_TOOLS = _names("spark.columns spark.connection spark.filters spark.janino spark.jobs")
OPS_TOOLS = _names("ops.local_spark ops.manual ops.metrics_page ops.records_page ops.row_files ops.settings_page")
# A room within a room says all that it may import; what the outer one never imports, it does not either.
ROOMS = {
    "domain": Room(
        _names("errors"), never=_names("time random os logging secrets"), packages=_names("pyroaring mypy_extensions")
    ),
    # Floors: nobody looks up.
    "domain.model": Room(_names("errors")),
    "domain.model.records": Room(_names("domain.model errors")),
    "domain.state": Room(_names("domain.model errors")),
    "domain.deciding": Room(_names("domain.model domain.state errors")),
    "domain.again": Room(_names("domain.model domain.state domain.deciding errors")),
    "config": Room(_names("errors machine compiled")),
    "observing": Room(_names("errors")),
    "log": Room(_names("domain observing errors config machine"), never=_names("sqlalchemy psycopg pyspark")),
    "catalog": Room(_names("domain observing errors config"), never=_names("confluent_kafka fastavro pyspark")),
    "client": Room(
        _names(f"domain log observing {CATALOG_READERS} errors config"),
        never=_names("pyspark"),
    ),
    "client.tables": Room(_names("client.arguments domain errors")),
    "client.files": Room(_names("client.arguments client.ids client.tables domain errors")),
    "client.writing": Room(
        _names(
            "client.arguments client.ids client.tables client.files client.outcomes client.access.contents client.reading "
            f"domain {CATALOG_READERS} errors"
        )
    ),
    "client.access": Room(
        _names(
            f"client.arguments client.tables client.files domain log {CATALOG_READERS} catalog.folders "
            "catalog.projecting.given_ids catalog.projecting.row_values errors config"
        )
    ),
    "client.reading": Room(
        _names(
            f"client.arguments client.tables client.files client.access.contents domain {CATALOG_READERS} errors config"
        )
    ),
    "client.outcomes": Room(
        _names(f"client.arguments client.tables client.access domain log {CATALOG_READERS} errors config")
    ),
    **{f"client.{tool}": Room(_names("client.arguments domain errors")) for tool in ("arguments", "ids", "limits")},
    "adoption": Room(
        _names("domain log.codec client.ids client.tables.partitions errors"),
        never=_names("confluent_kafka sqlalchemy psycopg pyspark"),
    ),
    "sites": Room(_names("client domain errors"), never=_names("confluent_kafka fastavro sqlalchemy psycopg pyspark")),
    "relay": Room(_names("domain log errors config"), never=_names("fastavro sqlalchemy psycopg pyspark")),
    "gateway": Room(
        _names(
            "domain client adoption.definitions adoption.file_records adoption.files adoption.source catalog.folders "
            "catalog.guard catalog.outside_files catalog.places catalog.reader catalog.tables catalog.query_statements "
            f"{CATALOG_READERS} errors"
        ),
        never=_names("confluent_kafka fastavro sqlalchemy pyspark"),
    ),
    "spark": Room(SPARK_OUTSIDE, never=_names("sqlalchemy psycopg")),
    "spark.reading": Room(SPARK_TOOLS | SPARK_OUTSIDE),
    "spark.writing": Room(SPARK_TOOLS | SPARK_OUTSIDE),
    "spark.changing": Room(_names("spark.reading spark.writing") | SPARK_TOOLS | SPARK_OUTSIDE),
    "spark.source": Room(_names("spark.reading spark.writing") | SPARK_TOOLS | SPARK_OUTSIDE),
    "spark.maintaining": Room(
        _names("spark.reading spark.writing spark.changing spark.source.outcomes") | SPARK_TOOLS | SPARK_OUTSIDE
    ),
    **{tool: Room(SPARK_TOOLS | SPARK_OUTSIDE) for tool in SPARK_TOOLS},
    "local": Room(_names("config errors")),
    "ui": Room(
        _names("client domain catalog.history catalog.queries observing.lag errors"),
        never=_names("confluent_kafka fastavro sqlalchemy psycopg pyspark"),
    ),
    "simulation": Room(
        _names("domain log catalog.projector catalog.written errors config machine"),
        never=_names("time sqlalchemy pyspark"),
    ),
    "ops": Room(EVERYTHING),
    "ops.service": Room(EVERYTHING),
    "ops.maintenance": Room(OPS_TOOLS | EVERYTHING),
    "ops.bench": Room(_names("ops.service") | OPS_TOOLS | EVERYTHING),
    "ops.torture": Room(_names("ops.service ops.maintenance ops.bench.servers") | OPS_TOOLS | EVERYTHING),
    "ops.demo": Room(_names("ops.service ops.bench.servers") | OPS_TOOLS | EVERYTHING),
    "ops.cli": Room(_names("ops.service ops.maintenance ops.bench ops.torture ops.demo") | OPS_TOOLS | EVERYTHING),
    **{tool: Room(EVERYTHING) for tool in OPS_TOOLS},
    "ops.metrics_page": Room(_names("ops.service.counted ops.service.measures ops.service.supervisor") | EVERYTHING),
}
# A module that may pass a wall that the rest of its room may not.
DOORS = {each: _names("log.results log.read_ahead") for each in ("catalog.projector", "catalog.rebuild")}
# Nobody needs uuid4 in `domain`: ids come in as arguments.
FORBIDDEN_NAMES = {"domain": frozenset({("uuid", "uuid1"), ("uuid", "uuid4")})}


@dataclass(frozen=True)
class Import:
    """One imported module, or one name of it."""

    module: str
    name: str | None
    line: int


@cache
def parsed(source: str) -> ast.Module:
    """Each module once, whatever is asked of it."""
    return ast.parse(source)


def imports_of(source: str, module: str) -> Iterator[Import]:
    """The imports anywhere in a module's source; relative ones made absolute."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            start = module.split(".")[: -node.level] if node.level else []
            for alias in node.names:
                yield Import(".".join([*start, *([node.module] if node.module else [])]), alias.name, node.lineno)


def breaches(source: str, module: str) -> list[str]:
    """What a module of the package imports that its room may not; `module` is its dotted name without `commitlog.`."""
    name = _room_of(module)
    if name is None:
        return []
    own = f"commitlog.{module}"
    return [
        f"{own}:{found.line} imports {found.module}{'.' + found.name if found.name else ''}"
        for found in imports_of(source, own)
        if not _allowed(found, name, DOORS.get(module, frozenset()))
    ]


def _room_of(module: str) -> str | None:
    """The innermost room that a module is in."""
    parts = module.split(".")
    outer = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in outer if name in ROOMS), None)


def _allowed(found: Import, name: str, doors: frozenset[str]) -> bool:
    room, outer = ROOMS[name], name.split(".")[0]
    top = found.module.split(".")[0]
    if top == "commitlog":
        inner = found.module.removeprefix("commitlog").lstrip(".")
        target = inner if "." in inner or not found.name else f"{inner}.{found.name}".lstrip(".")
        return any(target == way or target.startswith(f"{way}.") for way in {name, *room.modules, *doors})
    if top in ROOMS[outer].never or (found.module, found.name) in FORBIDDEN_NAMES.get(outer, frozenset()):
        return False
    packages = ROOMS[outer].packages if room.packages is None else room.packages
    return packages is None or top in sys.stdlib_module_names or top in packages


@cache
def modules() -> dict[str, str]:
    """The sources of the package's modules, by their dotted names without `commitlog.`."""
    dotted = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name.removesuffix(".__init__"): path.read_text(encoding="utf-8") for name, path in dotted.items()}


def test_imports_when_in_a_room_then_stay_within_its_walls() -> None:
    assert [each for module, source in modules().items() for each in breaches(source, module)] == []


def test_model_when_a_module_takes_its_values_as_m_then_none_of_them_by_name() -> None:
    model = "domain.model"
    values = {
        each.name for each in imports_of(modules()[model], f"commitlog.{model}") if each.name and each.name[0].isupper()
    }
    assert "Proposal" in values
    for module, source in modules().items():
        found = list(imports_of(source, f"commitlog.{module}"))
        if any((each.module, each.name) == ("commitlog.domain", "model") for each in found):
            by_name = [
                each.name for each in found if each.module.startswith(f"commitlog.{model}") and each.name in values
            ]
            assert by_name == [], module


def test_imports_when_outside_ops_then_never_of_ops() -> None:
    of_others = [(name, room.modules) for name, room in ROOMS.items() if not name.startswith("ops")]
    assert [name for name, ways in (*of_others, *DOORS.items()) if any(way.startswith("ops") for way in ways)] == []
    outside = [name for name in modules() if _room_of(name) is None and not name.startswith("__")]
    assert "testing" in outside
    for module in outside:
        found = [each.module for each in imports_of(modules()[module], f"commitlog.{module}")]
        assert [name for name in found if name.startswith("commitlog.ops")] == [], module


def import_graph() -> dict[str, set[str]]:
    """Which modules of the package import which others; what only types need counts too."""
    inside = {f"commitlog.{name}": source for name, source in modules().items()}
    graph: dict[str, set[str]] = {}
    for module, source in inside.items():
        found = imports_of(source, module)
        meant = (
            f"{each.module}.{each.name}" if f"{each.module}.{each.name}" in inside else each.module for each in found
        )
        graph[module] = {name for name in meant if name in inside and name != module}
    return graph


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules each of which imports the next and the last the first; none when every module lies above what it imports."""
    settled: set[str] = set()

    def search(module: str, way: list[str]) -> list[str]:
        if module in way:
            return way[way.index(module) :]
        if module not in settled:
            for other in sorted(graph[module]):
                if circle := search(other, [*way, module]):
                    return circle
        settled.add(module)
        return []

    return next((circle for module in sorted(graph) if (circle := search(module, []))), [])


def test_package_when_its_modules_import_each_other_then_never_in_a_circle() -> None:
    graph = import_graph()
    assert "commitlog.domain.state.index" in graph["commitlog.domain.state.replaying"]
    assert circle_in(graph) == []


def test_circle_in_when_modules_know_each_other_then_names_them() -> None:
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}) == ["b", "c", "d"]


def test_rooms_when_named_here_then_are_there_and_no_folder_is_without_one() -> None:
    assert [room for room in (*ROOMS, *DOORS) if room not in modules()] == []
    folders = {str(path.parent.relative_to(PACKAGE)).replace("/", ".") for path in PACKAGE.rglob("*.py")} - {"."}
    assert [folder for folder in sorted(folders) if _room_of(folder) is None] == []
    divided = ("client.", "spark.", "ops.", "domain.")
    assert [folder for folder in sorted(folders) if folder.startswith(divided) and folder not in ROOMS] == []


MAPPED = re.compile(r"^    (\w+(?:, \w+)*)\b", re.MULTILINE)


def test_heads_when_they_map_their_room_then_name_every_module_in_it_and_no_other() -> None:
    maps = {name: ast.get_docstring(parsed(source), clean=False) or "" for name, source in modules().items()}
    mapped = {name: head for name, head in maps.items() if MAPPED.search(head) and _modules_in(name)}
    assert {"domain.deciding", "domain.state", "log", "catalog", "sites", "gateway"} <= set(mapped)
    for room, head in mapped.items():
        assert _modules_in(room) - set(re.findall(r"\w+", head)) == set(), room
        named = {name for names in MAPPED.findall(head) for name in names.split(", ")}
        assert named - _modules_in(room) == set(), room


def _modules_in(room: str) -> set[str]:
    """What lies directly in a room."""
    return {name.rpartition(".")[2] for name in modules() if name.rpartition(".")[0] == room}


def test_config_when_others_need_the_environment_then_is_its_only_reader() -> None:
    # Which form of the core runs is settled before anything else is imported, so `compiled` reads that itself. Spark's
    # workers are told by a variable of Spark's, which `workers` sets.
    readers = [name for name, source in modules().items() if _reads_environment(source)]
    assert set(readers) - {"config", "compiled", "spark.source.workers"} == set()


def _reads_environment(source: str) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in {"environ", "getenv"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(parsed(source))
    )


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("domain.deciding.decide", "import time"),
        ("domain.deciding.decide", "from os import path"),
        ("domain.deciding.decide", "from uuid import uuid4"),
        ("domain.deciding.decide", "import numpy"),
        ("domain.deciding.decide", "from commitlog.config import Settings"),
        ("domain.deciding.decide", "def f():\n    from commitlog.log import codec"),
        ("domain.state.replaying", "from commitlog.domain.deciding.rows import x"),
        ("domain.model.altering", "if TYPE_CHECKING:\n    from commitlog.domain.state import index"),
        ("domain.deciding.plan", "from ..again import verifying"),
        ("log.sequencer", "from commitlog import catalog"),
        ("log.sequencer", "import sqlalchemy.exc"),
        ("catalog.queries", "from commitlog.log.results import read"),
        ("catalog.projector", "from commitlog.log import codec"),
        ("catalog.projector", "import confluent_kafka"),
        ("client.transaction", "from ..catalog.projector import x"),
        ("client.tables.names", "from commitlog.client import CommitLog"),
        ("client.files.lake", "from commitlog.client.access import log_access"),
        ("client.access.log_end", "import pyspark"),
        ("client.access.log_end", "from commitlog.client.outcomes.explaining import explain"),
        ("spark.reading.scan", "from commitlog.spark.writing.publish import commit"),
        ("spark.columns", "from commitlog.spark.reading import scan"),
        ("spark.changing.delete", "import sqlalchemy"),
        ("ops.service.serve", "from commitlog.ops.cli import options"),
        ("ops.maintenance.doctor", "from commitlog.ops.cli.options import print_json"),
        ("ops.bench.loop", "from commitlog.ops import cli"),
        ("spark.source.data_source", "from commitlog.log import sequencer"),
        ("ui.app", "from commitlog.ops.service.health import log_health"),
        ("ui.app", "import psycopg"),
        ("client.commit_log", "from commitlog.ui import app"),
        ("local.broker", "from commitlog.domain import model"),
    ],
)
def test_breaches_when_a_wall_is_passed_then_names_it(module: str, source: str) -> None:
    assert len(breaches(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("domain.deciding.decide", "from commitlog.errors import MalformedRecordError\nfrom pyroaring import BitMap64"),
        ("domain.deciding.decide", "from ... import errors\nfrom .. import model\nfrom uuid import UUID"),
        ("catalog.projector", "from commitlog.log.results import read"),
        ("catalog.projector", "from commitlog.log import results"),
        ("client.transaction", "from commitlog.catalog import queries\nfrom ..catalog.queries import x"),
        ("spark.source.data_source", "import pyspark\nfrom commitlog.log import results, codec"),
        (
            "spark.changing.delete",
            "from commitlog.spark.writing import publish\nfrom commitlog.spark.filters import Rows",
        ),
        ("client.outcomes.explaining", "from commitlog.client.access.log_access import LogAccess"),
        (
            "ops.cli.doctor",
            "from commitlog.ops.maintenance.doctor import examine\nfrom commitlog.ops import local_spark",
        ),
    ],
)
def test_breaches_when_within_the_walls_then_none(module: str, source: str) -> None:
    assert breaches(source, module) == []
