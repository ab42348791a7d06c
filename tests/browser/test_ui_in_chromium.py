"""The web page in a real Chromium: light and dark, wide and on a phone, by keyboard, live, with nothing from elsewhere.

Pictures of every page are left in COMMITLOG_TEST_PICTURES, if it names a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from chromium import Chromium, Page, running_chromium
from looked_at import busy_log

from commitlog.client.access.contents import Contents
from commitlog.domain import model as m
from commitlog.errors import ProposalRejectedError
from commitlog.ops.service.listening import address_of, listening
from commitlog.sites.link import Link
from commitlog.testing import InMemoryCommitLog
from commitlog.ui.app import create_app
from commitlog.ui.live import Live
from commitlog.ui.serving import LOCAL_HOSTS, served
from commitlog.ui.words import link, table_link

SHAPES = [(scheme, width) for scheme in ("light", "dark") for width in (1180, 360)]
# The contrast of text with what is behind it, by the formula of WCAG 2; its AA asks for 4.5.
CONTRASTS = """
(() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (/^rgb\\(/.test(colour)) return parts(colour);
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("main *, header *, footer *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest("svg, option, title") || !element.checkVisibility()) continue;
    const [one, two] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${element.className} ${element.textContent.trim().slice(0, 40)}`);
  }
  return low;
})()
"""

# Rows of a table, which has any number of columns, are scrolled, by keyboard, too; nothing else is.
CUT_OFF = """[...document.querySelectorAll(".scroll:not([tabindex])")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent.trim().slice(0, 40))"""
TINY = """[...document.querySelectorAll("svg text")].filter((each) => each.checkVisibility()
  && each.getScreenCTM().a * parseFloat(getComputedStyle(each).fontSize) < 9.5).map((each) => each.textContent)"""
GROUNDS = """new Set([...document.querySelectorAll(".panel, .scroll, .tiles")]
  .map((each) => getComputedStyle(each).backgroundColor)).size"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InMemoryCommitLog]:
    with busy_log(tmp_path_factory.mktemp("lake")) as made:
        yield made


@pytest.fixture(scope="module")
def address(log: InMemoryCommitLog) -> Iterator[str]:
    app = create_app(log, name="main", hosts=LOCAL_HOSTS)
    with listening("127.0.0.1", 0) as taken, served(app, taken):
        yield address_of("127.0.0.1", taken.getsockname()[1])


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with running_chromium() as running:
        yield running


@pytest.fixture(scope="module")
def page(browser: Chromium) -> Page:
    return browser.page()


def paths(log: InMemoryCommitLog) -> dict[str, str]:
    refused = [each for each in log.outcomes if each.verdict is m.Verdict.REJECTED]
    return {
        "overview": "",
        "log": "log",
        "log-searched": link("log", writer="reporting"),
        "outcome": "outcome/3",
        "refusal-of-two": f"outcome/{refused[0].seq}",
        "refusal": f"outcome/{refused[1].seq}",
        "tables": "tables",
        "table": table_link("main", "flights")[1:],
        "writers": "writers",
        "one-site": "sites",
        "health": "health",
    }


@pytest.mark.parametrize(("scheme", "width"), SHAPES)
def test_pages_when_looked_at_then_fit_can_be_read_and_load_nothing_from_elsewhere(
    page: Page, address: str, log: InMemoryCommitLog, scheme: str, width: int, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("COMMITLOG_TEST_PICTURES", tmp_path))
    page.shape(width=width, height=900, scheme=scheme)
    for name, path in paths(log).items():
        page.open(address + path)
        page.picture(pictures / f"{name}-{scheme}-{width}.png")
        assert page.value("document.documentElement.scrollWidth") <= width, name
        assert page.value("(([nav]) => nav.scrollWidth - nav.clientWidth)(document.querySelectorAll('nav'))") == 0, name
        assert page.value(CONTRASTS) == [], name
        assert page.value("getComputedStyle(document.body).fontSize") == "15px", name
    dark = page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    assert page.complaints() == []
    assert page.asked_elsewhere(address) == []


@pytest.mark.parametrize("width", [360, 480, 768, 900])
def test_pages_when_the_window_is_narrow_then_no_column_is_cut_off_and_pictures_can_be_read(
    page: Page, address: str, log: InMemoryCommitLog, width: int
) -> None:
    page.shape(width=width, height=900, scheme="light")
    for name in ("overview", "log", "refusal", "tables", "table", "writers"):
        page.open(address + paths(log)[name])
        assert page.value(CUT_OFF) == [], name
        assert page.value(TINY) == [], name
        assert page.value(GROUNDS) <= 1, name
    page.open(address + "log")
    seen = page.value("[...document.querySelectorAll('td')].filter((each) => !each.checkVisibility()).length")
    assert seen == 0


@pytest.mark.parametrize(("scheme", "width"), SHAPES)
def test_sites_page_when_a_row_is_held_back_then_fits_and_can_be_read(
    page: Page, address: str, scheme: str, width: int, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("COMMITLOG_TEST_PICTURES", tmp_path))
    paris, tokyo = logs = [InMemoryCommitLog(), InMemoryCommitLog()]
    for priority, (name, log) in enumerate(zip(("paris", "tokyo"), logs, strict=True), start=1):
        with log.transaction() as tx:
            tx.configure(node_name=name, node_priority=priority)
    with paris.transaction() as tx:
        tx.create_table(
            "main.people", {"id": "int64", "mail": "varchar", "city": "varchar"}, primary_key=["id"], unique=[["mail"]]
        )
    Link(paris, tokyo).run(follow=False)
    for key, (city, log) in enumerate(zip(("Brest", "Nara"), logs, strict=True)):
        with log.transaction() as tx:
            tx.insert_row("main.people", {"id": key, "mail": "eve@example.org", "city": city})
    Link(tokyo, paris).run(follow=False)
    app = create_app(paris, name="people", hosts=LOCAL_HOSTS)
    with listening("127.0.0.1", 0) as taken, served(app, taken):
        page.shape(width=width, height=900, scheme=scheme)
        page.open(address_of("127.0.0.1", taken.getsockname()[1]) + "sites")
        page.picture(pictures / f"sites-{scheme}-{width}.png")
        assert page.value("document.documentElement.scrollWidth") <= width
        assert page.value(CONTRASTS) == []
        page.open(address + "health")  # Nobody follows a server that ends.
        assert page.complaints() == []


def test_refusal_when_a_name_is_long_then_fits_on_a_phone(page: Page, address: str, tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        for table in ("main." + "x" * 70,) * 2:
            with suppress(ProposalRejectedError), own.transaction() as tx:
                tx.create_table(table, {"id": "int64"})
        app = create_app(own, name="main", hosts=LOCAL_HOSTS)
        with listening("127.0.0.1", 0) as taken, served(app, taken):
            page.shape(width=390, height=900, scheme="light")
            page.open(address_of("127.0.0.1", taken.getsockname()[1]) + "outcome/2")
            assert page.value("document.documentElement.scrollWidth") <= 390
            page.open(address + "health")  # Nobody follows a server that ends.


def test_drawing_when_names_are_long_then_all_its_words_are_in_it_on_a_phone(
    page: Page, address: str, tmp_path: Path
) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        with own.transaction() as tx:
            tx.create_table("main.people", {"id": "int64"}, primary_key=["id"])
        late = own.transaction(writer_id="NIGHTLY-LOAD-OF-ALL-ORDERS")
        late.insert_row("main.people", {"id": 1})
        with own.transaction(writer_id="SCHEMA-OWNER-OF-ACCOUNTS") as tx:
            tx.insert_row("main.people", {"id": 1})
        with suppress(ProposalRejectedError):
            late.commit()
        app = create_app(own, name="main", hosts=LOCAL_HOSTS)
        with listening("127.0.0.1", 0) as taken, served(app, taken):
            page.shape(width=360, height=900, scheme="light")
            page.open(address_of("127.0.0.1", taken.getsockname()[1]) + "outcome/3")
            outside = """[...document.querySelectorAll("svg.narrow text")].filter((each) => {
              const [box, view] = [each.getBBox(), each.ownerSVGElement.viewBox.baseVal];
              return box.x < 0 || box.x + box.width > view.width;
            }).map((each) => each.textContent)"""
            assert page.value("document.querySelectorAll('svg.narrow text').length") > 0
            assert page.value(outside) == []
            page.open(address + "health")  # Nobody follows a server that ends.


def test_refusal_when_docs_show_it_then_the_picture_is_small(
    page: Page, address: str, log: InMemoryCommitLog, tmp_path: Path
) -> None:
    picture = Path(os.environ.get("COMMITLOG_TEST_PICTURES", tmp_path)) / "page-refusal.png"
    page.shape(width=900, height=900, scheme="light")
    page.open(address + paths(log)["refusal"])
    page.picture(picture, height=590)
    assert picture.stat().st_size < 150_000


def test_overview_when_something_is_decided_then_shows_it_by_itself(
    page: Page, address: str, log: InMemoryCommitLog
) -> None:
    page.shape(width=1180, height=900, scheme="light")
    page.open(address)
    page.wait_for("document.querySelector('[data-live-state]').textContent === 'live'")
    last = log.last_seq()
    with log.transaction(writer_id="<i>late</i>") as tx:
        tx.create_schema(f"s{last}")
    page.wait_for(f"document.querySelector('tr.new a.row')?.textContent === '{last + 1}'")
    assert page.value("document.querySelector('tr.new .name').textContent") == "<i>late</i>"
    page.wait_for("document.querySelectorAll('.plot .curve').length >= 3")
    assert page.complaints() == []


def test_overview_when_the_catalog_keeps_it_waiting_then_is_not_live_until_it_answers(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "document.querySelector('[data-live-state]').textContent"
    answers = Event()
    answers.set()
    with InMemoryCommitLog(data_path=tmp_path) as own:
        contents = own.contents

        def waiting() -> Contents:
            answers.wait()
            return contents()

        monkeypatch.setattr(own, "contents", waiting)
        app = create_app(own, name="main", hosts=LOCAL_HOSTS)
        with listening("127.0.0.1", 0) as taken, served(app, taken):
            page.open(address_of("127.0.0.1", taken.getsockname()[1]))
            page.wait_for(f"{state} === 'live'")
            answers.clear()
            try:
                page.wait_for(f"{state}.startsWith('nothing new for')")
            finally:
                answers.set()
            page.wait_for(f"{state} === 'live'")
            page.open("data:text/html,")  # Nobody follows a server that ends.


def test_overview_when_it_was_refused_its_events_then_asks_for_them_again(
    browser: Chromium, page: Page, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "document.querySelector('[data-live-state]').textContent"
    with monkeypatch.context() as full:
        full.setattr(Live, "is_full", True)
        page.open(address)
        page.wait_for(f"{state} === 'not connected, trying again'")
    page.wait_for(f"{state} === 'live'")
    browser.events.clear()  # The refusal is among what the page complains about.


def test_log_when_outcomes_come_then_each_is_there_once_and_none_is_missing(
    page: Page, address: str, tmp_path: Path
) -> None:
    shown = "[...document.querySelectorAll('a.row')].map((link) => Number(link.textContent))"
    older = "[...document.querySelectorAll('[data-older]')].map((link) => !link.parentElement.hidden && link.href)[0]"
    page.shape(width=1180, height=900, scheme="light")
    with InMemoryCommitLog(data_path=tmp_path) as own:
        app = create_app(own, name="main", hosts=LOCAL_HOSTS)
        with listening("127.0.0.1", 0) as taken, served(app, taken):
            own_address = address_of("127.0.0.1", taken.getsockname()[1])

            def commit(count: int) -> None:
                for _ in range(count):
                    with own.transaction() as tx:
                        tx.create_schema(f"s{own.last_seq()}")

            # The first one of all, in a list that is empty.
            page.open(own_address)
            commit(1)
            page.wait_for(f"{shown}.length === 1")
            assert page.value("document.querySelector('[data-empty]').checkVisibility()") is False
            # What was decided in the second in which the page is opened is on it, and in what comes.
            for last in (3, 5):
                commit(1)
                page.open(own_address + "log")
                commit(1)
                page.wait_for(f"{shown}[0] === {last}")
                assert page.value(shown) == list(range(last, 0, -1))
                assert page.value(older) is False
            # More than are told of one beat.
            commit(95)
            page.wait_for(f"{shown}[0] === 100")
            seen = page.value(shown)
            assert seen == list(range(100, 100 - len(seen), -1))
            assert page.value(older) == f"{own_address}log?before={seen[-1]}"
            page.open(address + "health")  # Nobody follows a server that ends.
    assert page.complaints() == []


def test_log_when_keys_are_pressed_then_searches_and_goes_along_the_rows(
    page: Page, address: str, log: InMemoryCommitLog
) -> None:
    page.shape(width=1180, height=900, scheme="light")
    page.open(address + "log")
    page.press("/")
    assert page.value("document.activeElement.name") == "proposal"
    page.value("document.activeElement.blur()")
    for _ in range(2):
        page.press("j")
    page.press("k")
    page.press("j")
    seq = page.value("document.activeElement.textContent")
    assert seq == page.value("document.querySelectorAll('a.row')[1].textContent")
    page.press("Enter")
    page.wait_for(f"location.pathname === '/outcome/{seq}' && document.readyState === 'complete'")
    page.press("Tab")
    assert page.value("document.activeElement.textContent") == "Skip to the content"


def test_names_when_they_are_hostile_then_nothing_of_them_runs(
    page: Page, address: str, log: InMemoryCommitLog
) -> None:
    for path in ("log", "tables", "writers", *(f"outcome/{each.seq}" for each in log.outcomes[-4:])):
        page.open(address + path)
        assert page.value("document.querySelectorAll('main script, main img, main b b').length") == 0
    assert page.complaints() == []
