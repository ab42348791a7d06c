"""The web page of a log in memory: what each page shows, and that no name gets out of its place."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest
from looked_at import HOSTILE, HOSTILE_TABLE, busy_log
from starlette.testclient import TestClient

from commitlog.client.access.contents import Contents
from commitlog.client.ids import new_proposal_id
from commitlog.client.outcomes.explaining import Explanation
from commitlog.domain import model as m
from commitlog.domain.model.ids import format_id
from commitlog.errors import (
    CatalogUnavailableError,
    LogUnavailableError,
    ProposalRejectedError,
    ResultsTrimmedError,
)
from commitlog.ops.service.health import LogHealth, RelayHealth
from commitlog.ops.service.links import LinkHealth
from commitlog.sites.link import Link, LinkProgress
from commitlog.testing import InMemoryCommitLog
from commitlog.ui import app as app_module
from commitlog.ui.app import PAGES, create_app
from commitlog.ui.guarding import HEADERS
from commitlog.ui.pulse import Pulse
from commitlog.ui.words import link, table_link

VOID = {"meta", "link", "input", "br", "line", "rect", "circle", "path", "use"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InMemoryCommitLog]:
    with busy_log(tmp_path_factory.mktemp("lake")) as made:
        yield made


@pytest.fixture(scope="module")
def client(log: InMemoryCommitLog) -> TestClient:
    return TestClient(create_app(log, name=HOSTILE, pulse=Pulse(log)), base_url="http://localhost")


class _Outline(HTMLParser):
    """The elements, their attributes, and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str | None] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.text += " " if tag in ("td", "th") else ""
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(client: TestClient, path: str, status: int = 200) -> _Outline:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    found = _Outline(answer.text)
    assert found.open in ([], ["html"]), found.open
    return found


def refusals(log: InMemoryCommitLog) -> list[m.Outcome]:
    return [each for each in log.outcomes if each.verdict is m.Verdict.REJECTED]


def all_paths(log: InMemoryCommitLog) -> list[str]:
    outcomes = [f"/outcome/{each.seq}" for each in log.outcomes]
    tables = [table_link("main", "flights"), table_link("main", HOSTILE_TABLE), table_link("main", "flights", at=3)]
    searches = [link("/log", writer=HOSTILE), link("/log", table=HOSTILE), link("/nowhere/" + HOSTILE)]
    return [*(path for path, _ in PAGES), *outcomes, *tables, *searches]


# --- names ------------------------------------------------------------------------------------------------------------


def test_pages_when_names_are_hostile_then_they_are_text_only(client: TestClient, log: InMemoryCommitLog) -> None:
    told = ""
    for path in all_paths(log):
        answer = client.get(path).text
        page = _Outline(answer)
        assert page.scripts == ["/static/page.js"], path
        assert "img" not in page.tags, path
        assert "<b>id</b>" not in answer, path
        assert [name for name, _ in page.attributes if name.startswith("on") or name == "style"] == [], path
        addresses = [value or "" for name, value in page.attributes if name in ("href", "action", "src")]
        assert [each for each in addresses if not each.startswith(("/", "#"))] == [], path
        assert "\u202e" not in page.text, path
        told += page.text
    assert "<script>alert(1)</script>" in told
    assert HOSTILE_TABLE in told


def test_pages_when_answered_then_headers_are_strict(client: TestClient, log: InMemoryCommitLog) -> None:
    for path in [*all_paths(log), "/static/page.js", "/static/style.css"]:
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_pages_when_asked_to_change_something_then_refuse(client: TestClient, method: str) -> None:
    assert {client.request(method, path).status_code for path, _ in PAGES} == {405}


def test_pages_when_listed_then_each_marks_where_it_is(client: TestClient) -> None:
    for path, name in PAGES:
        text = client.get(path).text
        assert f'<a href="{path}" aria-current="page">{name}</a>' in text
        assert text.count("aria-current") == 1


def test_overview_when_nothing_was_decided_lately_then_does_not_say_that_nothing_ever_was(client: TestClient) -> None:
    text = outline(client, "/").text
    assert "nothing recently" in text
    assert " yet" not in text


def test_overview_when_nothing_was_committed_yet_then_its_head_is_the_first_snapshot(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        pulse = Pulse(log)
        client = TestClient(create_app(log, name="empty", pulse=pulse))
        before = outline(client, "/").text
        pulse.beat(head=0)
        after = outline(client, "/").text
    assert "Head0that readers see" in before
    assert "Head0that readers see" in after


def test_pages_when_results_were_trimmed_then_a_table_is_there_and_an_outcome_says_where_it_is(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trimmed(seq: int) -> m.Outcome | None:
        raise ResultsTrimmedError("main", seq=99, archive="s3://kept/here", asked_seq=seq - 1)

    monkeypatch.setattr(log, "outcome_at", trimmed)
    client = TestClient(create_app(log, name="main", pulse=Pulse(log)), base_url="http://localhost")
    told = outline(client, table_link("main", "flights")).text
    assert re.search(r"snapshot 1 create table .*nightly-load", told)
    assert "s3://kept/here" in outline(client, "/outcome/3", 404).text


def test_pages_when_no_broker_answers_then_a_table_is_there_as_its_readers_have_it(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def away(seq: int) -> m.Outcome | None:
        asked.append(seq)
        raise LogUnavailableError("kafka:9092")

    monkeypatch.setattr(log, "outcome_at", away)
    client = TestClient(create_app(log, name="main", pulse=Pulse(log)), base_url="http://localhost")
    told = outline(client, table_link("main", "flights")).text
    assert re.search(r"snapshot 1 create table .*nightly-load", told)
    assert "12 of 29 rows" in told
    assert len(asked) == 1, "each time is a wait of seconds"
    assert "kafka:9092" in outline(client, "/outcome/3", 503).text


# --- the log ----------------------------------------------------------------------------------------------------------


def test_log_page_when_opened_then_every_outcome_the_newest_first(client: TestClient, log: InMemoryCommitLog) -> None:
    assert rows(client.get("/log").text) == [each.seq for each in reversed(log.outcomes)]


def test_log_page_when_outcomes_are_listed_then_each_says_what_it_changed_of_which_table(client: TestClient) -> None:
    text = outline(client, "/log").text
    assert "alter table: main.flights" in text
    assert "flights of March 4 append: main.flights" in text


def rows(page: str) -> list[int]:
    return [int(seq) for seq in re.findall(r'<a class="row" href="/outcome/(\d+)">', page)]


def test_log_page_when_searched_then_only_what_is_like_that(client: TestClient, log: InMemoryCommitLog) -> None:
    committed = next(each for each in log.outcomes if each.snapshot_id == 3)
    assert committed.proposal_id is not None
    by_writer = [each.seq for each in reversed(log.outcomes) if each.writer_id == HOSTILE]
    assert rows(client.get(link("/log", writer=HOSTILE)).text) == by_writer
    assert rows(client.get(link("/log", proposal=format_id(committed.proposal_id))).text) == [committed.seq]
    assert rows(client.get("/log?snapshot=3").text) == [committed.seq]
    refused = [each.seq for each in reversed(refusals(log))]
    assert rows(client.get("/log?verdict=rejected").text) == refused
    assert rows(client.get(link("/log", table=f'main."{HOSTILE_TABLE}"')).text) == by_writer
    assert rows(client.get("/log?table=flights&verdict=REJECTED").text) == refused[1:]
    assert rows(client.get("/log?before=3").text) == [2, 1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("proposal=12", "no proposal id"),
        ("snapshot=-1", "not the number of a snapshot"),
        ("snapshot=\u0663", "not the number of a snapshot"),
        ("snapshot=99999999999999999999", "not the number of a snapshot"),
        ("verdict=maybe", "maybe"),
        ("writer=%00", "NUL"),
        ("table=nothing", "there is no table main.nothing"),
    ],
)
def test_log_page_when_search_is_wrong_then_says_so_and_keeps_it(client: TestClient, query: str, said: str) -> None:
    answer = client.get(f"/log?{query}")
    assert answer.status_code == 400
    page = _Outline(answer.text)
    assert said in page.text
    if not query.startswith(("verdict", "writer")):
        assert ("value", query.partition("=")[2]) in page.attributes


def test_log_page_when_there_are_more_than_fit_then_leads_on(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as many:
        for number in range(51):
            with many.transaction() as tx:
                tx.create_schema(f"s{number}")
        client = TestClient(create_app(many, name="many", pulse=Pulse(many)))
        first = client.get("/log").text
        assert len(rows(first)) == 50
        assert "/log?before=2" in first
        assert rows(client.get("/log?before=2").text) == [1]
        assert "Older outcomes" not in client.get("/log?before=2").text


def test_log_page_when_nothing_was_decided_then_says_so(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as empty:
        client = TestClient(create_app(empty, name="empty", pulse=Pulse(empty)))
        assert "Nothing has been decided yet" in client.get("/log").text
        assert "There are no tables yet" in client.get("/tables").text
        assert "Nobody has proposed anything yet" in client.get("/writers").text
        assert client.get("/").status_code == 200


# --- one outcome ------------------------------------------------------------------------------------------------------


def test_outcome_page_when_committed_then_tells_who_asked_for_what(client: TestClient, log: InMemoryCommitLog) -> None:
    text = outline(client, "/outcome/2").text
    for told in ("committed", "flights of March 1", "load-1", "append 6 rows in 1 file to main.flights"):
        assert told in text


def test_addresses_when_a_proposal_or_snapshot_is_known_then_lead_to_its_outcome(
    client: TestClient, log: InMemoryCommitLog
) -> None:
    second = log.outcomes[1]
    assert second.proposal_id is not None
    for path in (f"/proposal/{format_id(second.proposal_id)}", f"/snapshot/{second.snapshot_id}"):
        answer = client.get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/outcome/2")


def test_outcomes_when_gone_through_one_by_one_then_from_the_first_to_the_last(
    log: InMemoryCommitLog, client: TestClient
) -> None:
    ways = [
        re.findall(r'href="/outcome/(\d+)" rel="(\w+)"', client.get(f"/outcome/{each.seq}").text)
        for each in log.outcomes
    ]
    last = log.last_seq()
    assert len(ways) == last > 2
    assert (ways[0], ways[-1]) == ([("2", "next")], [(str(last - 1), "prev")])
    assert ways[1] == [("1", "prev"), ("3", "next")]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/outcome/0", "there is no outcome 0"),
        ("/outcome/999", "there is no outcome 999"),
        ("/snapshot/999", "snapshot 999"),
        ("/proposal/12", "no proposal id"),
        ("/proposal/01934f3e-7c00-7000-8000-000000000001", "Never seen"),
        ("/outcome/x", "not the number of a snapshot or outcome"),
        ("/outcome/99999999999999999999", "not the number of a snapshot or outcome"),
        ("/snapshot/99999999999999999999", "not the number of a snapshot or outcome"),
        ("/table?name=%00", "NUL"),
        ("/table?name=nothing", "main.nothing"),
        ("/table?name=flights&at=999", "999"),
        ("/table", "no table name"),
        ("/elsewhere", "/elsewhere"),
    ],
)
def test_pages_when_it_is_not_there_then_404_says_what(client: TestClient, path: str, said: str) -> None:
    assert said in outline(client, path, status=404).text


def test_refusal_page_when_it_met_others_then_draws_them_and_says_what_would_have_passed(
    client: TestClient, log: InMemoryCommitLog
) -> None:
    refused = next(each for each in refusals(log) if each.writer_id == "reporting")
    answer = client.get(f"/outcome/{refused.seq}").text
    page = _Outline(answer)
    assert "Writer reporting read snapshot 5 and was refused at snapshot 7" in page.text
    assert "In between writer gdpr-erasure committed snapshot 7" in page.text
    assert ("class", "proposed") in page.attributes
    assert ("class", "clash") in page.attributes
    assert "rebase: read again at snapshot 7" in page.text.lower()
    assert "conflict_granularity" in page.text
    assert "would pass" in page.text


def test_refusal_page_when_it_is_asked_for_again_while_the_log_is_replayed_then_that_is_done_once(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = next(each for each in refusals(log) if each.reason is m.Reason.CONFLICT)
    explain, replayed = log.explanation, list[str | bytes]()

    def slowly(proposal_id: str | bytes) -> Explanation:
        replayed.append(proposal_id)
        time.sleep(0.3)
        return explain(proposal_id)

    monkeypatch.setattr(log, "explanation", slowly)
    app = create_app(log, name="main", pulse=Pulse(log))
    with ThreadPoolExecutor(3) as viewers:
        asked = [viewers.submit(outline, TestClient(app), f"/outcome/{refused.seq}") for _ in range(3)]
        assert all("would pass" in each.result().text for each in asked)
    assert replayed == [refused.proposal_id]


def test_refusal_page_when_no_other_has_caused_it_then_draws_nothing(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        with pytest.raises(ProposalRejectedError), log.transaction() as tx:
            tx.drop_schema("nothing")
        client = TestClient(create_app(log, name="invalid", pulse=Pulse(log)))
        page = outline(client, "/outcome/1")
    assert ("class", "drawing") not in page.attributes
    assert "change the request as the reason says" in page.text.lower()


def test_outcome_page_when_it_names_more_than_is_listed_then_says_how_much_more(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        with log.transaction() as tx:
            tx.create_table("main.people", {"id": "int64", "city": "varchar"}, primary_key=["id"])
            for table in range(12):
                tx.create_table(f"main.t{table}", {"id": "int64"})
        with log.transaction() as tx:
            for key in range(70):
                tx.insert_row("main.people", {"id": key, "city": "Paris"})
        late = log.transaction(writer_id="late", isolation="serializable")
        for key in range(70):
            late.read_rows("main.people", [{"id": key}])
            late.update_row("main.people", {"id": key}, {"id": key, "city": "Oslo"})
        with log.transaction(writer_id="early") as tx:
            for key in range(70):
                tx.update_row("main.people", {"id": key}, {"id": key, "city": "Rome"})
        with pytest.raises(ProposalRejectedError):
            late.commit()
        client = TestClient(create_app(log, name="main", pulse=Pulse(log)), base_url="http://localhost")
        made, refused = (" ".join(outline(client, f"/outcome/{seq}").text.split()) for seq in (1, log.last_seq()))
    assert "and 3 more" in made
    assert "and 20 more changes" in refused
    assert "and 20 more reads" in refused
    assert "row 0 and 69 more." in refused


@pytest.mark.parametrize("created_at_ms", [m.TIME_US_MIN // 1000 + 1, m.TIME_US_MAX // 1000, 2**62])
def test_outcome_page_when_the_writers_clock_is_beyond_pythons_years_then_does_not_say_when_it_was_sent(
    created_at_ms: int,
) -> None:
    with InMemoryCommitLog() as own:
        own.submit(m.Proposal(new_proposal_id(), "w", 0, (m.CreateSchema("s"),), created_at_ms=created_at_ms))
        own_client = TestClient(create_app(own, name="main", pulse=Pulse(own)), base_url="http://localhost")
        page = outline(own_client, "/outcome/1")
    assert "create schema s" in page.text
    assert "by the writer's clock" not in page.text


def test_outcome_page_when_it_lists_changes_then_numbers_them_as_its_reasons_do(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        asked = own.transaction()
        asked.create_table("main.t", {"id": "int64"})
        asked.drop_table("main.nothing")
        with pytest.raises(ProposalRejectedError, match=r"change 1 \(DROP_TABLE\)"):
            asked.commit()
        own_client = TestClient(create_app(own, name="main", pulse=Pulse(own)), base_url="http://localhost")
        assert ("start", "0") in outline(own_client, "/outcome/1").attributes


@pytest.mark.parametrize(
    ("name", "shown"),
    [("क्\u200dष", "क्\\u200dष"), ("x" * 120, "x" * 120), ("a\u00a0é", "a\\xa0é")],
)
def test_names_when_long_or_with_a_letter_that_cannot_be_seen_then_the_rest_can_be_read(
    tmp_path: Path, name: str, shown: str
) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as own:
        with own.transaction(writer_id=name, author=name, message=f"{name}\n\nand why") as tx:
            tx.create_table(f'main."{name}"', {name: "int64"})
        own_client = TestClient(create_app(own, name=name, pulse=Pulse(own)), base_url="http://localhost")
        for path in ("/outcome/1", "/tables", table_link("main", name), "/writers"):
            page = outline(own_client, path).text
            assert shown in page, path
            assert page.count(shown) > page.count(shown + "..."), path
        text = outline(own_client, "/outcome/1").text
        assert " and why" in text
        assert "\\n" not in text


# --- tables -----------------------------------------------------------------------------------------------------------


def test_table_page_when_opened_then_tells_what_it_is_and_holds(client: TestClient) -> None:
    text = outline(client, table_link("main", "flights")).text
    for told in (
        "delay_min",
        "int32",
        "alter table main.flights: add column delay_min",
        "gdpr-erasure",
        "1001",
        "null",
    ):
        assert told in text
    assert "8 commits and 2 refusals" in str(outline(client, table_link("main", "flights")).attributes)
    assert "12 of 29 rows" in text
    assert "1003" not in text


def test_table_page_when_a_column_is_said_more_of_then_tells_all_its_partition_keys_too(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    columns = [m.ColumnSpec("day", "date", nullable=False), m.ColumnSpec("port", "varchar", default="SFO")]
    with log.transaction() as tx:
        tx.create_table("main.t", columns, partition_by=["year(day)", "port", "month(day)"])
    client = TestClient(create_app(log, name="partitioned", pulse=Pulse(log)))
    told = " ".join(outline(client, table_link("main", "t")).text.split())
    assert "day date not null, partition by year, partition by month" in told
    assert "port varchar default SFO, partition" in told


def test_table_page_when_a_refusal_was_for_no_conflict_then_does_not_say_that_none_was_refused(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        with log.transaction() as tx:
            tx.create_table("main.t", [m.ColumnSpec("id", "int64")])
        with pytest.raises(ProposalRejectedError), log.transaction() as tx:
            tx.alter("main.t").add_column("id", "int64")
        client = TestClient(create_app(log, name="invalid", pulse=Pulse(log)))
        text = outline(client, table_link("main", "t")).text
    assert "table t already has a column id" in text
    assert "no refusal" not in text
    assert "no conflict among the last" in text


def test_table_page_when_asked_for_an_earlier_snapshot_then_its_columns_and_rows(client: TestClient) -> None:
    text = outline(client, table_link("main", "flights", at=2)).text
    assert "delay_min" not in text.partition("Who writes it")[0].partition("Columns")[2]
    assert "1001" in text
    assert "2001" not in text
    assert "As of snapshot 2" in text


def test_table_page_when_a_file_is_gone_then_the_rest_of_the_page_is_there(tmp_path: Path) -> None:
    with busy_log(tmp_path) as log:
        Path(log.table("main.flights").files()[0].path).unlink()
        client = TestClient(create_app(log, name="gone", pulse=Pulse(log)))
        text = outline(client, table_link("main", "flights")).text
    assert "delay_min" in text
    assert ".parquet" in text.partition("Overlapping transactions")[0]


@dataclass(frozen=True)
class LogIsNotWell:
    """What `commitlog status` would find."""

    sequencer_alive: bool = False
    stands_still: bool = False
    projector_alive: bool = True
    standbys: int = 1
    epoch: int | None = None
    decided_seq: int | None = 9
    head_snapshot_id: int | None = 7
    applied_seq: int | None = 4
    lag: int | None = 5
    lag_s: float | None = 12.5
    is_current: bool = False
    links: tuple[LinkHealth, ...] = (
        LinkHealth("t", LinkProgress("tokyo", HOSTILE, 9, 7, 0, 4, 12), lag=3, lag_s=61.0, at_ms=0),
    )
    relay: RelayHealth = field(default_factory=lambda: RelayHealth(running=0, proposals=1_200, outcomes=0))
    problems: tuple[str, ...] = ("no sequencer is active: run `commitlog serve`", HOSTILE)


def test_health_page_when_the_log_is_not_well_then_says_what_is_wrong_and_what_to_do(log: InMemoryCommitLog) -> None:
    client = TestClient(create_app(log, name="main", pulse=Pulse(log), health=LogIsNotWell))
    page = outline(client, "/health")
    for told in (
        "Not well",
        "no sequencer is active: run `commitlog serve`",
        "5 outcomes behind, for 12.5 s",
        "outcome 4",
        "1 machine stands by.",
        "none run; 1,200 proposals wait",
        " s ago: at snapshot 7, 3 behind, for 61.0 s; 4 snapshots with 12 row changes and 0 files since it began",
    ):
        assert told in page.text
    assert page.scripts == ["/static/page.js"]


def test_relay_when_one_waits_then_it_is_told_as_one() -> None:
    assert str(RelayHealth(1, proposals=1, outcomes=1)) == "1 runs; 1 proposal waits, 1 record of the results waits"
    assert str(RelayHealth(2, proposals=0, outcomes=3)) == "2 run; 3 records of the results wait"


def test_health_page_when_it_is_not_known_how_far_readers_are_then_they_are_not_well(log: InMemoryCommitLog) -> None:
    health = partial(
        LogIsNotWell,
        sequencer_alive=True,
        projector_alive=False,
        epoch=3,
        decided_seq=None,
        head_snapshot_id=None,
        applied_seq=None,
        lag=None,
        lag_s=None,
    )
    page = outline(TestClient(create_app(log, name="main", pulse=Pulse(log), health=health)), "/health")
    assert "They see everything that was decided" not in page.text
    assert "Their position is unknown." in page.text
    assert "Epoch 3; its position is unknown." in page.text
    assert "None" not in page.text


def test_health_page_when_a_link_tells_not_how_far_it_is_or_told_it_long_ago_then_it_is_not_well(
    log: InMemoryCommitLog,
) -> None:
    now_ms = time.time_ns() // 1_000_000
    progress = LinkProgress("tokyo", "paris")

    def marks(lag_s: float | None, at_ms: int) -> list[str]:
        told = LinkHealth("t", progress, lag=None if lag_s is None else 0, lag_s=lag_s, at_ms=at_ms)
        client = TestClient(create_app(log, name="main", pulse=Pulse(log), health=lambda: LogIsNotWell(links=(told,))))
        return re.findall(r"(not well|well)Link", outline(client, "/health").text)

    assert marks(0.0, now_ms) == ["well"]
    assert marks(None, now_ms) == ["not well"]
    assert marks(0.0, now_ms - 150_000) == ["not well"]


@pytest.mark.parametrize(
    ("lag_s", "stands_still", "marked"),
    [
        (0.2, False, ["well", "well", "well"]),
        (60.0, False, ["well", "not well", "not well"]),
        (0.2, True, ["not well", "well", "well"]),
    ],
)
def test_health_page_when_a_part_is_alive_and_stuck_then_it_is_marked_as_not_well(
    log: InMemoryCommitLog, lag_s: float, stands_still: bool, marked: list[str]
) -> None:
    health = LogHealth(
        "main",
        sequencer_alive=True,
        stands_still=stands_still,
        projector_alive=True,
        epoch=1,
        decided_seq=9,
        applied_seq=4,
        lag=5,
        lag_s=lag_s,
    )
    client = TestClient(create_app(log, name="main", pulse=Pulse(log), health=lambda: health))
    assert re.findall(r"(not well|well)(?:Sequencer|Projector|Readers)", outline(client, "/health").text) == marked


def test_health_page_when_a_server_is_away_then_says_not_that_nobody_is_active(log: InMemoryCommitLog) -> None:
    def told(health: LogHealth) -> str:
        app = create_app(log, name="main", pulse=Pulse(log), health=lambda: health)
        return outline(TestClient(app), "/health").text

    kafka_away = told(LogHealth("main", problems=("Kafka does not answer",)))
    unknown = "Sequencer *Whether one is active is not known.*Projector *Whether one is connected is not known"
    assert re.search(unknown, kafka_away, re.DOTALL)
    assert "No sequencer" not in kafka_away
    catalog_away = told(LogHealth("main", sequencer_alive=True, epoch=3, problems=("PostgreSQL does not answer",)))
    assert re.search(
        "Epoch 3; its position is unknown.*Projector *Whether one is connected is not known", catalog_away, re.DOTALL
    )
    nobody = told(LogHealth("main", sequencer_alive=False, projector_alive=False, problems=("no sequencer is active",)))
    assert re.search("No sequencer is active: nothing.*No projector is connected: the catalog", nobody, re.DOTALL)


def test_health_page_when_it_cannot_be_looked_at_then_says_why(log: InMemoryCommitLog) -> None:
    def unreachable() -> LogIsNotWell:
        raise LogUnavailableError("127.0.0.1:9092")

    client = TestClient(create_app(log, name="main", pulse=Pulse(log), health=unreachable))
    assert "127.0.0.1:9092" in outline(client, "/health").text


@pytest.mark.timeout(60)
def test_pages_when_postgresql_is_frozen_then_are_given_up_and_the_health_page_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "ANSWER_S_MAX", 0.3)
    monkeypatch.setattr(app_module, "_MADE_AT_ONCE", 2)
    thawed = threading.Event()
    with InMemoryCommitLog(data_path=tmp_path) as log:
        contents = log.contents()

        def frozen() -> Contents:
            assert thawed.wait(50)
            return contents

        monkeypatch.setattr(log, "contents", frozen)
        client = TestClient(create_app(log, name="main", pulse=Pulse(log), health=LogIsNotWell))
        try:
            for path in ("/tables", "/log", "/writers", "/tables"):
                assert "was not there after 0 s: PostgreSQL or Kafka is frozen" in outline(client, path, 503).text
            monkeypatch.setattr(app_module, "ANSWER_S_MAX", 30.0)
            assert "Not well" in outline(client, "/health").text
        finally:
            thawed.set()
        assert "Tables" in outline(client, "/tables").text


def test_pages_when_the_catalog_does_not_answer_then_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        client = TestClient(create_app(log, name="main", pulse=Pulse(log)))

        def unavailable() -> None:
            raise CatalogUnavailableError("postgresql://lake", waited_ms=3_000)

        monkeypatch.setattr(log, "contents", unavailable)
        for path in ("/", "/log", "/tables", "/writers"):
            assert "postgresql://lake" in outline(client, path, status=503).text
        assert "All is well" in outline(client, "/health").text


def test_pages_when_something_is_there_that_nobody_has_thought_of_then_say_so_under_the_same_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with busy_log(tmp_path) as log:
        app = create_app(log, name="main", pulse=Pulse(log))
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

        def unthought_of() -> None:
            raise TypeError("<b>None</b>")

        monkeypatch.setattr(log, "contents", unthought_of)
        page = outline(client, "/tables", status=500)
        assert "This page has failed" in page.text
        assert "commitlog doctor" in page.text
        assert client.get("/tables").headers.items() >= HEADERS.items()


def test_writers_page_when_opened_then_counts_what_each_has_done(client: TestClient) -> None:
    text = " ".join(outline(client, "/writers").text.split())
    assert re.search(r"reporting 0 1 0", text)
    assert re.search(r"gdpr-erasure 1 0 0", text)


def test_sites_page_when_the_log_is_a_node_then_shows_how_far_the_others_are_and_what_is_held_back() -> None:
    logs = {name: InMemoryCommitLog() for name in ("paris", HOSTILE)}
    pages = {
        name: TestClient(create_app(each, name=name, pulse=Pulse(each)), base_url="http://localhost")
        for name, each in logs.items()
    }
    assert "This log is not a node" in pages["paris"].get("/sites").text
    for priority, (name, each) in enumerate(logs.items(), start=1):
        with each.transaction() as tx:
            tx.configure(node_name=name, node_priority=priority)
    assert "Nothing has come from another site yet" in pages["paris"].get("/sites").text
    paris, other = logs.values()
    with paris.transaction() as tx:
        tx.create_table("main.k", {"id": "int64", "v": "varchar"}, primary_key=["id"], unique=[["v"]])
    Link(paris, other).run(follow=False)
    for key, each in enumerate(logs.values()):
        with each.transaction() as tx:
            tx.insert_row("main.k", {"id": key, "v": "<b>both"})
    assert "every row stands" in pages["paris"].get("/sites").text
    Link(paris, other).run(follow=False)
    Link(other, paris).run(follow=False)
    for page in pages.values():
        text = _Outline(page.get("/sites").text).text
        assert '{"id": 1, "v": "<b>both"}' in text
        assert '{"id": 0, "v": "<b>both"}' in text
        assert "unique" in text
    with paris.transaction() as tx:
        tx.delete_row("main.k", {"id": 0})
    assert "every row stands" in pages["paris"].get("/sites").text
