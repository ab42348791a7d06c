"""What becomes of a commit's text once it is understood: sent, decided, shown; and what of its files, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast
from uuid import UUID

import pytest
from gateway_commits import StoredBase, commit, write_file
from test_catalog_watching import FakeCatalog

from commitlog.catalog.queries import Catalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.client import CommitLog
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.domain import model as m
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    KeyReusedError,
    LogUnavailableError,
    NotUnderstoodError,
    OutcomeUnknownError,
    ProposalTooLargeError,
)
from commitlog.gateway.base import Bases
from commitlog.gateway.batch import parse
from commitlog.gateway.committing import SENT_MAX, Answer, Commits
from commitlog.gateway.keeping import Keeping, Watch
from commitlog.gateway.showing import Showing
from commitlog.gateway.translation import translating

TIMEOUT_S = 30.0


class WritableBase(StoredBase):
    """A lake whose login may write."""

    schema = "public"
    may_propose = True


class PlayedBases:
    """The catalog as a stored commit saw it."""

    def __init__(self, base: StoredBase) -> None:
        self._base = base

    @contextmanager
    def at(self, snapshot_id: int, login: str) -> Iterator[StoredBase]:
        yield self._base


class PlayedLog:
    """Answers what is sent as it is told to, in turn; an error to send, too."""

    def __init__(self, *answers: SubmittedOutcome | Exception, unsent: Exception | None = None) -> None:
        self._answers = list(answers)
        self._unsent = unsent
        self.sent: list[m.Proposal] = []
        self.asked: list[bytes] = []
        self.found: Exception | None = None
        self.access = SimpleNamespace(settings=m.LogSettings())

    def submit_async(self, proposal: m.Proposal) -> Future[SubmittedOutcome]:
        if self._unsent is not None:
            raise self._unsent
        self.sent.append(proposal)
        future: Future[SubmittedOutcome] = Future()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def changes_max(self, wanted: int) -> int:
        return wanted

    def outcome(self, proposal_id: bytes) -> Any:
        self.asked.append(proposal_id)
        assert self.found is not None
        raise self.found


def outcome(verdict: m.Verdict, reason: m.Reason | None = None, snapshot_id: int | None = None) -> SubmittedOutcome:
    return SubmittedOutcome(UUID(int=1), verdict, snapshot_id, 1, reason, "it met another", (), m.Assigned(), 1, 1)


COMMITTED = outcome(m.Verdict.COMMITTED, snapshot_id=2)
REFUSED = outcome(m.Verdict.REJECTED, m.Reason.CONFLICT)
UNKNOWN = OutcomeUnknownError(UUID(int=1))


@dataclass
class Played:
    """A gateway's side of one commit, whose file lies in a folder of the test's."""

    log: PlayedLog
    folder: Path

    def __post_init__(self) -> None:
        found = commit("insert")
        self.text = found.text
        (table,) = found.base.catalog["table"]
        (row,) = (each for each in self.text.split("'") if each.startswith("ducklake-"))
        self.file = self.folder / "main" / str(table["table_name"]) / row
        self.file.parent.mkdir(parents=True)
        self.file.write_bytes(found.base.open(row).read())
        self.base = WritableBase(found.base.snapshot_id, found.base.catalog, data_path=f"{self.folder}/")
        self.links = self.folder / "kept"
        self.catalog = FakeCatalog()
        self.catalog.at = 2

    @property
    def kept(self) -> list[Path]:
        return list(self.links.glob("*/*.0"))

    def commit(self, also: Callable[[Answer], Awaitable[None]] | None = None) -> Answer:
        with ThreadPoolExecutor(2) as threads, ThreadPoolExecutor(1) as asking:

            async def committing() -> Answer:
                keeping = Keeping(self.links)
                showing = Showing(CatalogWatch(cast(Catalog, self.catalog)), asking, TIMEOUT_S)
                commits = Commits(
                    cast(CommitLog, self.log), cast(Bases, PlayedBases(self.base)), threads, showing, keeping
                )
                try:
                    answer = await commits.commit(self.text, "ann")
                    if also is not None:
                        await also(answer)
                    return answer
                finally:
                    await showing.close()
                    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
                    await asyncio.sleep(0)  # for what nobody waits for
                    keeping.close()

            return asyncio.run(committing())


def test_commit_when_committed_then_success_once_its_files_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(PlayedLog(COMMITTED), tmp_path)
    keep, may_keep = Keeping.keep, asyncio.Event()

    async def keep_late(self: Keeping, files: Sequence[str]) -> Path | None:
        assert list(files) == [str(played.file)]
        await may_keep.wait()
        return await keep(self, files)

    async def shown(self: Showing, snapshot_id: int) -> bool:
        may_keep.set()
        return True

    monkeypatch.setattr(Keeping, "keep", keep_late)
    monkeypatch.setattr(Showing, "wait", shown)

    async def well(answer: Answer) -> None:
        assert len(played.kept) == 1
        assert answer.watch is not None
        watch = answer.watch()
        assert isinstance(watch, Watch)
        watch.cancel()

    answer = played.commit(well)
    assert (answer.refusal, answer.warning) == (None, None)
    assert played.kept == []
    assert played.file.exists()


def test_commit_when_refused_then_told_why_and_nothing_is_kept(tmp_path: Path) -> None:
    played = Played(PlayedLog(REFUSED), tmp_path)
    answer = played.commit()
    assert answer.refusal is not None
    assert answer.refusal.startswith("it met another; nothing was committed")
    assert played.kept == []


@pytest.mark.parametrize(
    "log",
    [
        PlayedLog(unsent=LogUnavailableError("kafka:9092", detail="no answer")),
        PlayedLog(ProposalTooLargeError(2, 1)),
    ],
)
def test_commit_when_it_was_not_sent_then_refused_and_nothing_is_kept(log: PlayedLog, tmp_path: Path) -> None:
    played = Played(log, tmp_path)
    assert (played.commit().refusal or "").startswith("nothing was committed: ")
    assert played.kept == []


def changing_own_rows(log: PlayedLog, folder: Path) -> Played:
    """A commit that deletes rows which it has inserted itself: their file is written anew here."""
    played = Played(log, folder)
    found = commit("own_delete")
    (row,) = parse(found.text).rows["data_file"]
    write_file(folder / "main" / "t" / row["path"], range(10))
    played.text = found.text
    played.base = WritableBase(
        found.base.snapshot_id, found.base.catalog, found.base.deletes, data_path=played.base.data_path
    )
    return played


def written_here(folder: Path) -> list[Path]:
    return list(folder.rglob("commitlog-*"))


@pytest.mark.parametrize(
    "log",
    [
        PlayedLog(REFUSED),
        PlayedLog(ProposalTooLargeError(2, 1)),
        PlayedLog(unsent=LogUnavailableError("kafka:9092", detail="no answer")),
    ],
)
def test_commit_when_refused_then_files_that_were_written_for_it_are_gone(log: PlayedLog, tmp_path: Path) -> None:
    """The client knows nothing of them."""
    assert changing_own_rows(log, tmp_path).commit().refusal is not None
    assert written_here(tmp_path) == []


def test_commit_when_it_is_not_understood_after_all_then_files_that_were_written_for_it_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = changing_own_rows(PlayedLog(), tmp_path)
    seen: list[Path] = []

    def too_many(changes: object) -> NoReturn:
        seen.extend(written_here(tmp_path))
        raise NotUnderstoodError("it has rows in no possible order")

    monkeypatch.setattr(translating, "in_possible_order", too_many)
    assert played.commit().refusal == "nothing was committed: it has rows in no possible order"
    assert (len(seen), written_here(tmp_path)) == (1, [])


def test_commit_when_committed_or_perhaps_then_files_that_were_written_for_it_stay(tmp_path: Path) -> None:
    assert changing_own_rows(PlayedLog(COMMITTED), tmp_path / "a").commit().refusal is None
    assert len(written_here(tmp_path / "a")) == 1
    with pytest.raises(OutcomeUnknownError):
        changing_own_rows(PlayedLog(*[UNKNOWN] * SENT_MAX), tmp_path / "b").commit()
    assert len(written_here(tmp_path / "b")) == 1


@pytest.mark.parametrize(
    ("differing", "told"),
    [
        ({"schema": "lake"}, "the lake's tables are in schema lake: attach with METADATA_SCHEMA 'lake'"),
        ({"may_propose": False}, "ann may not write: grant it the role commitlog_writer"),
    ],
)
def test_commit_when_it_is_of_another_lake_or_user_then_refused_and_nothing_is_sent(
    tmp_path: Path, differing: dict[str, Any], told: str
) -> None:
    played = Played(PlayedLog(), tmp_path)
    for name, value in differing.items():
        setattr(played.base, name, value)
    assert told in (played.commit().refusal or "")
    assert (played.log.sent, played.kept) == ([], [])


def test_commit_when_nobody_answers_then_sent_again_under_its_id_until_somebody_does(tmp_path: Path) -> None:
    played = Played(PlayedLog(UNKNOWN, UNKNOWN, COMMITTED), tmp_path)
    assert played.commit().refusal is None
    assert len(played.log.sent) == 3
    assert len({each.proposal_id for each in played.log.sent}) == 1


def test_commit_when_nobody_ever_answers_then_no_refusal_and_its_files_are_watched(tmp_path: Path) -> None:
    played = Played(PlayedLog(*[UNKNOWN] * SENT_MAX), tmp_path)
    with pytest.raises(OutcomeUnknownError):
        played.commit()
    assert len(played.log.sent) == SENT_MAX
    assert len(played.kept) == 1


@pytest.mark.parametrize(
    "answer",
    [
        CatalogUnavailableError("postgresql://here"),
        KeyReusedError(UUID(int=1).bytes, "the id", ["files"]),
    ],
)
def test_commit_when_it_may_repeat_one_that_cannot_be_asked_for_then_no_refusal(
    answer: Exception, tmp_path: Path
) -> None:
    """The client would remove files that the first one may have committed."""
    played = Played(PlayedLog(answer), tmp_path)
    played.log.found = CatalogUnavailableError("postgresql://here")
    with pytest.raises(CommitLogError):
        played.commit()
    assert len(played.kept) == 1


def test_commit_when_its_id_is_too_old_by_then_then_sent_under_another(tmp_path: Path) -> None:
    played = Played(PlayedLog(outcome(m.Verdict.REJECTED, m.Reason.PROPOSAL_EXPIRED), COMMITTED), tmp_path)
    assert played.commit().refusal is None
    assert len({each.proposal_id for each in played.log.sent}) == 2
    assert played.log.asked == []


def test_showing_when_commits_follow_each_other_then_listening_begins_once() -> None:
    catalog = FakeCatalog()

    async def waiting() -> None:
        with ThreadPoolExecutor(1) as asking:
            showing = Showing(CatalogWatch(cast(Catalog, catalog)), asking, TIMEOUT_S)
            for snapshot_id in range(1, 6):
                told = asyncio.create_task(showing.wait(snapshot_id))
                await asyncio.to_thread(catalog.listening.wait, TIMEOUT_S)
                catalog.move(snapshot_id)
                assert await told
            # What is seen together is told together, whoever asks first.
            later = asyncio.create_task(showing.wait(7))
            catalog.move(7)
            assert await later
            assert await showing.wait(6)
            await showing.close()

    asyncio.run(waiting())
    assert catalog.said.count("LISTEN") == 1
    assert catalog.said[-1] == "UNLISTEN"


def test_showing_when_postgresql_was_away_then_what_is_shown_again_is_told() -> None:
    catalog = FakeCatalog()
    catalog.is_away = True

    async def waiting() -> None:
        with ThreadPoolExecutor(1) as asking:
            showing = Showing(CatalogWatch(cast(Catalog, catalog)), asking, TIMEOUT_S)
            told = asyncio.create_task(showing.wait(1))
            await asyncio.sleep(0)
            catalog.is_away = False
            catalog.move(1)
            assert await told
            await showing.close()

    asyncio.run(waiting())


def test_showing_when_readers_do_not_see_it_in_time_then_false() -> None:
    async def waiting() -> None:
        with ThreadPoolExecutor(1) as asking:
            showing = Showing(CatalogWatch(cast(Catalog, FakeCatalog())), asking, 0.05)
            assert not await showing.wait(1)
            await showing.close()

    asyncio.run(waiting())
