"""The web page shows the same of a log in memory and of a real one."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from making import append, create, rejected
from starlette.testclient import TestClient

from commitlog.client import CommitLog
from commitlog.ui import table_pages
from commitlog.ui.app import PAGES, create_app
from commitlog.ui.pulse import Pulse
from commitlog.ui.words import link, table_link


@pytest.fixture
def client(log: CommitLog) -> TestClient:
    return TestClient(create_app(log, name="contract", pulse=Pulse(log)), base_url="http://localhost")


def test_pages_when_a_delete_was_refused_then_draw_it_and_show_the_table(
    client: TestClient, log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    file_id = append(log, table, tmp_path)
    writer = f"late-{uuid.uuid4().hex[:8]}"
    late = log.transaction(writer_id=writer)
    late.delete(table, positions={file_id: [0]})
    with log.transaction(writer_id="quick") as tx:
        tx.delete(table, positions={file_id: [1]})
    refused = rejected(late).outcome
    log.head_snapshot_id()

    found = client.get(link("/log", writer=writer, table=table, verdict="REJECTED")).text
    assert re.findall(r'<a class="row" href="/outcome/(\d+)">', found) == [str(refused.seq)]
    page = client.get(f"/outcome/{refused.seq}").text
    assert 'class="proposed"' in page
    assert f"quick committed snapshot {tx.outcome.snapshot_id}" in page
    assert "conflict_granularity ROW" in page
    shown = client.get(table_link("main", table)).text
    assert 'class="refused-bar"' in shown
    assert "create table" in shown
    assert '<td class="cell">3</td>' in shown
    assert '<td class="cell">2</td>' not in shown
    earlier = client.get(table_link("main", table, at=(tx.outcome.snapshot_id or 0) - 1)).text
    assert '<td class="cell">2</td>' in earlier
    assert writer in client.get("/writers").text
    assert client.get("/log?writer=%00").status_code == 400
    assert client.get("/table?name=%00").status_code == 404
    assert {client.get(path).status_code for path, _ in PAGES} == {200}
    assert client.get(f"/snapshot/{tx.outcome.snapshot_id}").status_code == 200


def test_pulse_when_it_begins_then_the_log_goes_on_from_there(log: CommitLog, table: str) -> None:
    pulse = Pulse(log)
    create(log, table)
    after = pulse.begin()
    assert after == log.last_seq()
    create(log, f"{table}_2")
    (outcome,) = log.subscribe(after, follow=False)
    pulse.take(outcome)
    beat = pulse.beat(log.head_snapshot_id())
    assert (beat.decided, beat.committed, beat.lag) == (1, 1, 0)


def test_table_page_when_it_has_more_files_than_are_shown_then_all_are_counted_and_no_more_are_listed(
    client: TestClient, log: CommitLog, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_pages, "FILES_SHOWN", 2)
    create(log, table)
    ids = [append(log, table, tmp_path) for _ in range(4)]
    with log.transaction() as tx:
        tx.delete(table, positions={ids[0]: [1], ids[3]: [0, 1]})
    at, contents = log.head_snapshot_id(), log.contents()
    found = contents.table_at("main", table, at)
    assert found is not None
    files = contents.files_at(found, at)
    assert contents.file_totals_at(found, at) == (4, 9, 3, sum(each.file_size_bytes for each in files))
    assert contents.files_at(found, at, newest=2) == files[2:]
    assert contents.file_totals_at(found, at - 1) == (4, 12, 0, sum(each.file_size_bytes for each in files))

    listed: list[int] = []
    of = type(contents)
    files_at = of.files_at

    def counted(*asked: Any, **how: Any) -> Any:
        listed.append(len(files := files_at(*asked, **how)))
        return files

    monkeypatch.setattr(of, "files_at", counted)
    shown = client.get(table_link("main", table)).text
    assert "the newest 2 of 4" in shown
    assert '<div class="value">9</div>' in shown
    assert '<td class="cell">3</td>' in shown
    assert listed[-2:] == [2, 2]
    with log.transaction() as tx:
        tx.delete(table, positions={ids[2]: [0, 1, 2], ids[3]: [2]})
    log.head_snapshot_id()
    assert "No rows at this snapshot" not in client.get(table_link("main", table)).text
