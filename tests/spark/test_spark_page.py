"""docs/spark.md tells the options that there are."""

from __future__ import annotations

from pathlib import Path

from commitlog.spark.source.options import options_page

PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"


def test_page_then_has_every_option_as_the_code_tells_it() -> None:
    assert options_page() in PAGE.read_text(), "put what options_page() gives in the place of the table"
