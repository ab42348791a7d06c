"""The law is in docs/rules.md: what the code cites is there, and the code cites nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from commitlog.domain.model import ChangeKind, FilterOp, Granularity, Reason, Verdict

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docs" / "rules.md"
CITATION = re.compile(r"rules\.md`? (\d+(?:\.\d+)?(?:-\d+)?(?:(?:,| and| to)\s+\d+(?:\.\d+)?(?:-\d+)?)*)")
ELSEWHERE = re.compile(r"\bDESIGN\b(?!\.md)|\b[Rr]ulings? \d")
SECTIONS, RULINGS = 12, 37
GENESIS = {
    field["name"]: field["type"]
    for field in json.loads((ROOT / "schemas" / "genesis.avsc").read_text("utf-8"))["fields"]
}
SETTINGS = [field["name"] for field in GENESIS["settings"]["fields"]]


def sources() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    for folder, suffixes in (
        ("commitlog", (".py",)),
        ("tests", (".py", ".txt")),
        ("docs", (".md", ".py")),
        ("schemas", (".avsc",)),
    ):
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes)


def places() -> set[str]:
    """The sections and rulings that the page has anchors for, as they are cited."""
    return set(re.findall(r'^<a id="([\d.]+)"></a>', RULES.read_text(encoding="utf-8"), re.M))


def cited(text: str) -> Iterator[str]:
    for listed in CITATION.findall(text):
        for part in re.split(r",\s+|\s+and\s+|\s+to\s+", listed):
            first, _, last = part.partition("-")
            yield first
            if last:
                yield f"{first.partition('.')[0]}.{last}"


def test_rules_when_read_then_every_section_and_ruling_is_there_in_its_order() -> None:
    text = RULES.read_text(encoding="utf-8")
    assert re.findall(r'^<a id="(\d+)"></a>\n## \1\. ', text, re.M) == [str(n) for n in range(1, SECTIONS + 1)]
    assert re.findall(r'^<a id="12\.(\d+)"></a>\*\*12\.\1\*\* \S', text, re.M) == [
        str(n) for n in range(1, RULINGS + 1)
    ]


@pytest.mark.parametrize("names", [ChangeKind, Reason, Verdict, Granularity, FilterOp, SETTINGS], ids=str)
def test_rules_when_read_then_they_name_whatever_can_be_asked_for_answered_or_set(names: Iterable[str]) -> None:
    text = RULES.read_text(encoding="utf-8")
    assert [name for name in map(str, names) if name not in text] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(rules.md 3, 12.1-5, 12.10)", ["3", "12.1", "12.5", "12.10"]),
        ("rules.md 12.14 and 12.24, which", ["12.14", "12.24"]),
    ],
)
def test_citations_when_parsed_then_each_place_is_found(text: str, found: list[str]) -> None:
    assert list(cited(text)) == found


def test_citations_when_read_then_each_is_of_a_section_or_ruling_that_is_there() -> None:
    there = places()
    wrong = {
        str(path.relative_to(ROOT)): missing
        for path in sources()
        if (missing := [place for place in cited(path.read_text(encoding="utf-8")) if place not in there])
    }
    assert wrong == {}
    assert sum(1 for path in sources() for _ in cited(path.read_text(encoding="utf-8"))) > 60


def test_rules_when_they_refer_to_one_another_then_to_a_ruling_that_is_there() -> None:
    referred = set(re.findall(r"(?<![\w.`])12\.\d+(?![\w.])", RULES.read_text(encoding="utf-8")))
    assert sorted(referred - places()) == []


def test_sources_when_they_cite_the_law_then_only_where_the_repository_has_it() -> None:
    others = [path for path in sources() if path not in (RULES, Path(__file__).resolve())]
    assert [str(path.relative_to(ROOT)) for path in others if ELSEWHERE.search(path.read_text(encoding="utf-8"))] == []


def test_links_when_followed_then_lead_to_pages_that_are_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    ]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_glossary_when_it_says_where_a_thing_is_then_it_is_there() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    named = re.findall(r"`(commitlog/[\w/.]+)`", text)
    assert len(named) > 30
    assert sorted({path for path in named if not (ROOT / path).is_file()}) == []
    words = [word.strip(" `") for cell in re.findall(r"^\| (.+?) \|", text, re.M) for word in cell.split(",")]
    words = [word for word in words if word not in ("word", "---")]
    assert sorted({word for word in words if words.count(word) > 1}) == []
