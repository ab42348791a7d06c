"""docs/ as a site: it is built, its links lead somewhere, and nothing in it comes from another machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import running_chromium

ROOT = Path(__file__).resolve().parents[2]
A4_PX = 718
"""What is between the margins of a page of paper, at 96 to the inch."""
EXTERNAL = re.compile(r"\]\((https?:[^)\s]*)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a broken link or anchor, or a page that the nav lacks, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_site_when_built_then_each_page_is_there(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}


def test_site_when_read_then_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\"\s>]*")
    found = {path.name: loaded.findall(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    assert {name: each for name, each in found.items() if each} == {}


def test_site_when_printed_then_no_table_and_no_code_is_cut_at_the_edge_of_the_paper(site: Path) -> None:
    cut = (
        "[...document.querySelectorAll('.md-content pre > code, .md-typeset__scrollwrap')]"
        ".filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.innerText.slice(0, 60))"
    )
    found = {}
    with running_chromium() as browser:
        page = browser.page()
        page.shape(width=A4_PX, height=1000, scheme="light")
        page.call("Emulation.setEmulatedMedia", media="print")
        for path in sorted(site.glob("*.html")):
            page.open(path.as_uri())
            found[path.name] = page.value(cut)
    assert {name: each for name, each in found.items() if each} == {}


def test_external_links_when_looked_at_then_are_addresses_of_the_open_web() -> None:
    found = [
        (page.name, link)
        for page in sorted((ROOT / "docs").glob("*.md"))
        for link in EXTERNAL.findall(page.read_text(encoding="utf-8"))
    ]
    wrong = [each for each in found if not re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w./#~-]*)?", each[1])]
    assert wrong == []
