"""SQL of the catalog is written in full or composed by psycopg: no text that is put together at run time reaches PostgreSQL.

mypy takes any text for a LiteralString, so this looks for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CATALOG = Path(__file__).resolve().parents[2] / "commitlog" / "catalog"
TAKES_SQL = {"execute", "executemany", "copy", "select", "_select", "_records", "SQL"}
BEGINS = re.compile(
    r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|CREATE|ALTER|DROP|LOCK|COPY|SET|GRANT|ANALYZE|NOTIFY) ",
    re.IGNORECASE,
)


def put_together(source: str) -> Iterator[int]:
    """The lines where a text that is SQL, or is taken as such, is made of others."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr) and node.values and _begins_as_sql(node.values[0]):
            yield node.lineno
        if isinstance(node, ast.Call) and node.args and _name(node.func) in TAKES_SQL and _is_made(node.args[0]):
            yield node.lineno


def _begins_as_sql(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and BEGINS.match(str(part.value)) is not None


def _name(function: ast.expr) -> str | None:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def _is_made(given: ast.expr) -> bool:
    """By an f-string, by %, by `encode`, or by `format` of a text and not of a `sql.SQL`."""
    if isinstance(given, ast.JoinedStr) or (isinstance(given, ast.BinOp) and isinstance(given.op, ast.Mod)):
        return True
    if not (isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute)):
        return False
    return given.func.attr == "encode" or (given.func.attr == "format" and isinstance(given.func.value, ast.Constant))


@pytest.mark.parametrize("path", sorted(CATALOG.glob("*.py")), ids=lambda path: path.stem)
def test_statements_when_a_part_varies_then_psycopg_composes_them(path: Path) -> None:
    assert list(put_together(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        'conn.execute(f"LOCK TABLE {x}")',
        'conn.execute(f"{x} TABLE y")',
        'query = f"""\n  SELECT {x}"""',
        "conn.execute(query.encode())",
        'conn.execute("SELECT {}".format(x))',
        'sql.SQL("SELECT %s" % x)',
    ],
)
def test_put_together_when_it_steps_around_the_composer_then_is_found(source: str) -> None:
    assert list(put_together(source))


def test_put_together_when_composed_then_is_not() -> None:
    composed = 'conn.execute(sql.SQL("SELECT {}").format(sql.Identifier(x)), (f"a {b}",))\nconn.execute(NAMED, (x,))'
    assert list(put_together(composed)) == []
