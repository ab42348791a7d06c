"""Test modules have names of their own: pytest takes two of one name for the same, but only when it is given both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_test_modules_when_all_are_collected_then_no_name_is_there_twice() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))

    assert [name for name, count in names.items() if count > 1] == []
