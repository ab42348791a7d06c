"""What a client knows without asking: tables of the newest schema version, names that are new, the end of the log."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from interrupting import each_interrupted

from commitlog.client.access import log_end
from commitlog.client.access.log_end import LogEnd
from commitlog.client.files.new_files import NewFiles
from commitlog.client.tables.known_tables import KnownTables
from commitlog.client.tables.table_at import KnownTable, TableAt
from commitlog.config import Settings
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError, LogUnavailableError

AT = TableAt(TableDefinition(7, 1, "t", (), 1), "/lake/main/t/")


def test_known_tables_when_the_schema_version_stays_then_the_table_is_that_of_every_head() -> None:
    known = KnownTables()
    known.see(4, 2)
    known.add("main", "T", 4, AT)
    assert known.at_head("MAIN", "t") == KnownTable(4, AT)
    known.see(9, 2)
    known.see(8, 2)
    assert known.at_head("main", "t") == KnownTable(9, AT)
    assert known.at_head("main", "u") is None
    assert [known.at("main", "t", snapshot_id) for snapshot_id in (3, 4, 8, 9)] == [None, AT, AT, AT]


def test_known_tables_when_a_schema_has_changed_then_nothing_is_known() -> None:
    known = KnownTables()
    known.see(4, 2)
    known.add("main", "t", 4, AT)
    known.see(5, 3)
    assert known.at_head("main", "t") is None
    known.see(4, 2)
    known.add("main", "t", 4, AT)
    assert known.at_head("main", "t") is None
    assert known.at("main", "t", 4) is None


def test_known_tables_when_a_snapshots_schema_version_was_never_told_then_its_tables_are_not_kept() -> None:
    known = KnownTables()
    known.see(4, 2)
    known.add("main", "t", 3, AT)
    assert known.at_head("main", "t") is None


def test_new_files_when_taken_then_new_once() -> None:
    files = NewFiles()
    path = files.below("t", "s3://bucket/main/t/")
    assert path.startswith("s3://bucket/main/t/commitlog-")
    assert files.take([path, "s3://bucket/main/t/other.parquet"]) == {path}
    assert files.take([path]) == set()


def test_new_files_when_the_folder_is_not_known_then_says_why() -> None:
    with pytest.raises(DataFileError, match="when its creation is committed"):
        NewFiles().below("t", None)


class CountingEnd(LogEnd):
    """A log whose end moves on with each request, which waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(Settings.load(environment={}))
        self.asked = 0
        self.is_asked = threading.Event()
        self.let_go = threading.Event()
        self.failure: Exception | None = None

    def _ask(self) -> int:
        self.asked += 1
        self.is_asked.set()
        assert self.let_go.wait(60)
        if self.failure is not None:
            raise self.failure
        return self.asked


def test_log_end_when_many_ask_while_a_request_is_on_its_way_then_one_more_answers_them_all() -> None:
    end = CountingEnd()
    with ThreadPoolExecutor(33) as pool:
        first = pool.submit(end.offset)
        assert end.is_asked.wait(60)
        begun = threading.Barrier(33)

        def ask() -> int:
            begun.wait(60)
            return end.offset()

        others = [pool.submit(ask) for _ in range(32)]
        begun.wait(60)
        end.let_go.set()
        assert first.result(60) == 1
        assert all(other.result(60) > 1 for other in others)


def test_log_end_when_a_signal_ends_it_anywhere_then_others_can_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end, "REQUEST_TIMEOUT_S", 1)
    end = LogEnd(Settings.load(environment={}))
    monkeypatch.setattr(end, "_ask", lambda: 7)
    places = []
    with ThreadPoolExecutor(1) as another:
        for place in each_interrupted(end.offset):
            assert another.submit(end.offset).result(60) == 7, place
            places.append(place)
    assert len(places) > 5


def test_log_end_when_called_again_then_asks_again() -> None:
    end = CountingEnd()
    end.let_go.set()
    assert [end.offset(), end.offset()] == [1, 2]


def test_log_end_when_a_request_fails_then_the_next_one_asks_again() -> None:
    end = CountingEnd()
    end.let_go.set()
    end.failure = LogUnavailableError("broker:9092")
    with pytest.raises(LogUnavailableError):
        end.offset()
    end.failure = None
    assert end.offset() == 2
