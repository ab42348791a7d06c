"""The manual's printed pages are those of the code."""

from __future__ import annotations

from pathlib import Path

from commitlog.ops.manual import conflict_page, invalid_page

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_what_conflicts_with_what_then_as_the_matrix_prints_it() -> None:
    written = (DOCS / "what-conflicts-with-what.md").read_text()
    assert written == conflict_page(), "print it anew: commitlog manual > docs/what-conflicts-with-what.md"


def test_what_makes_a_change_invalid_then_as_the_codes_print_it() -> None:
    written = (DOCS / "invalid-codes.md").read_text()
    assert written == invalid_page(), "print it anew: commitlog manual invalid > docs/invalid-codes.md"
