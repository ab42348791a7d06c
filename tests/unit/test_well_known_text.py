"""Geometries as text: what DuckDB reads is one, and what it does not read is none."""

from __future__ import annotations

import duckdb
import pytest

from commitlog.domain.model.well_known_text import check_geometry

READ = (
    *("POINT(1 2)", "point (1 2)", " POINT\t( 1\n2 ) ", "POINT Z (1 2 3)", "POINTZ(1 2 3)", "POINT ZM(1 2 3 4)"),
    *("POINT M (1 2 3)", "POINT EMPTY", "POINT(1e5 -2.5E-3)", "POINT(.5 1.)", "LINESTRING(0 0, 1 1)"),
    *(
        "POLYGON((0 0,1 0,1 1,0 0), (0 0, 1 1))",
        "MULTIPOINT(1 2, 3 4)",
        "MULTIPOINT((1 2),(3 4))",
        "MULTIPOINT(EMPTY, 1 2)",
    ),
    *("MULTILINESTRING((0 0,1 1),EMPTY)", "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),EMPTY)", "GEOMETRYCOLLECTION EMPTY"),
    *("GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0,1 1))", "GEOMETRYCOLLECTION Z (POINT Z (1 2 3))"),
)
NOT_READ = (
    *("", "x", "POINT", "POINT(", "POINT()", "POINT(1)", "POINT(1 2", "POINT(1 2 3)", "POINT(1 2, 3 4)", "POINT(+1 2)"),
    *(
        "POINT Z (1 2)",
        "LINESTRING((0 0))",
        "LINESTRING 0 0",
        "POLYGON(0 0)",
        "TRIANGLE((0 0,1 0,1 1,0 0))",
        "POINT(a b)",
    ),
    *(
        "GEOMETRYCOLLECTION(1 2)",
        "GEOMETRYCOLLECTION Z (POINT(1 2))",
        "GEOMETRYCOLLECTION()",
        "Z (1 2 3)",
        "POINT(1;2)",
    ),
    "GEOMETRYCOLLECTION(" * 40 + "POINT(1 2)" + ")" * 40,
)
BEHIND_ITS_END = ("POINT(1 2) x", "POINT(1 2))")
"""DuckDB passes over it."""


def _is_read(text: str) -> bool:
    try:
        duckdb.execute("SELECT ?::GEOMETRY", [text])
    except duckdb.Error:
        return False
    return True


@pytest.mark.parametrize("text", READ)
def test_geometry_when_duckdb_reads_it_then_it_is_one(text: str) -> None:
    check_geometry(text)
    assert _is_read(text)


@pytest.mark.parametrize("text", NOT_READ + BEHIND_ITS_END)
def test_geometry_when_it_is_none_then_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="is no geometry"):
        check_geometry(text)
    assert _is_read(text) is (text in BEHIND_ITS_END)
