"""Waiting for the catalog, without PostgreSQL: who looks, who listens, who is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pytest
from interrupting import each_interrupted

from commitlog import compiled
from commitlog.catalog.queries import Catalog, Shown
from commitlog.catalog.watching import CatalogWatch
from commitlog.errors import CatalogUnavailableError


class FakeCatalog:
    """A catalog that a test moves on; it says what it was asked, and by how many at a time."""

    def __init__(self) -> None:
        self.at: int | None = 0
        self.said: list[str] = []
        self.notified = threading.Semaphore(0)
        self.listening = threading.Event()
        self.is_away = False
        self.connection = self
        self.prepare_threshold: int | None = 5
        self.info = self
        self.is_replica = False
        self._using = threading.Lock()

    @contextmanager
    def connected(self) -> Iterator[Any]:
        assert self._using.acquire(blocking=False), "two at a time"
        try:
            if self.is_away:
                raise CatalogUnavailableError("postgresql://here")
            yield self.connection
        finally:
            self._using.release()

    def shown(self) -> Shown | None:
        with self.connected():
            self.said.append("SHOWN")
            return None if self.at is None else Shown(self.at, self.at, self.at, 1)

    def execute(self, statement: str) -> None:
        self.said.append(statement.split()[0])

    def parameter_status(self, name: str) -> str | None:
        return "on" if name == "in_hot_standby" and self.is_replica else "off"

    def notifies(self, *, timeout: float, stop_after: int) -> Sequence[str]:
        self.listening.set()
        return ["moved"] if self.notified.acquire(timeout=timeout) else []

    def close(self) -> None:
        self.said.append("CLOSE")

    def move(self, at: int) -> None:
        self.at = at
        self.notified.release()


@pytest.fixture
def catalog() -> FakeCatalog:
    return FakeCatalog()


@pytest.fixture
def watch(catalog: FakeCatalog) -> CatalogWatch:
    return CatalogWatch(cast(Catalog, catalog))


def at(snapshot_id: int) -> Any:
    return lambda shown: shown.snapshot_id >= snapshot_id


def test_wait_when_the_catalog_is_there_then_one_look_and_none_after_it(
    watch: CatalogWatch, catalog: FakeCatalog
) -> None:
    catalog.at = 5
    assert watch.wait_until(at(5), 60) == Shown(5, 5, 5, 1)
    assert watch.wait_until(at(4), 60) == Shown(5, 5, 5, 1)
    assert catalog.said == ["SHOWN"]


def test_wait_when_it_comes_later_then_listens_until_then_and_no_longer(
    watch: CatalogWatch, catalog: FakeCatalog
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch.wait_until, at(1), 60)
        assert catalog.listening.wait(60)
        catalog.move(1)
        assert waiting.result(60) == Shown(1, 1, 1, 1)
    assert catalog.said == ["SHOWN", "LISTEN", "SHOWN", "SHOWN", "UNLISTEN"]


def test_wait_when_many_wait_then_each_leaves_when_its_own_is_there(watch: CatalogWatch, catalog: FakeCatalog) -> None:
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(watch.wait_until, at(1 + number % 2), 60) for number in range(20)]
        assert catalog.listening.wait(60)
        catalog.move(1)
        assert all(each.result(60) is not None for each in waiting[::2])
        catalog.move(2)
        assert all(each.result(60) == Shown(2, 2, 2, 1) for each in waiting[1::2])
    assert catalog.said[-1] == "UNLISTEN"
    assert catalog.said.count("LISTEN") == catalog.said.count("UNLISTEN")


def test_wait_when_the_time_is_over_then_looks_once_more_and_says_so(watch: CatalogWatch, catalog: FakeCatalog) -> None:
    assert watch.wait_until(at(1), 0) is None
    assert watch.wait_until(at(1), 0.01) is None
    assert watch.shown == Shown(0, 0, 0, 1)
    catalog.at = None
    assert CatalogWatch(cast(Catalog, catalog)).wait_until(at(0), 0) is None


def test_wait_when_interrupted_before_it_looks_then_others_look(
    watch: CatalogWatch, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(watch, "_lead", interrupted)
        with pytest.raises(KeyboardInterrupt):
            watch.wait_until(at(1), 60)
    catalog.at = 1
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(watch.wait_until, at(1), 1).result(60) == Shown(1, 1, 1, 1)


def test_wait_when_a_signal_ends_it_anywhere_then_others_wait_and_see(watch: CatalogWatch) -> None:
    def wait() -> None:
        watch.forget()
        watch.wait_until(at(0), 60)

    places = 0
    for place in each_interrupted(wait):
        another = threading.Thread(target=wait, daemon=True)
        another.start()
        another.join(60)
        assert not another.is_alive(), place
        places += 1
    assert places > 20 or compiled.form == compiled.COMPILED


def test_wait_when_it_is_there_already_then_those_for_whom_another_one_looks_are_not_woken(
    watch: CatalogWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watch.wait_until(at(0), 60) is not None
    woken: list[bool] = []
    monkeypatch.setattr(watch, "_open_gates", lambda: woken.append(True))
    with ThreadPoolExecutor(1) as another:
        assert another.submit(watch._leads).result(60)
        assert watch.wait_until(at(0), 60) is not None
    assert woken == []


def test_wait_when_postgres_goes_away_then_everybody_is_told_and_the_next_one_listens_anew(
    watch: CatalogWatch, catalog: FakeCatalog
) -> None:
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(watch.wait_until, at(1), 60) for _ in range(3)]
        assert catalog.listening.wait(60)
        catalog.is_away = True
        catalog.notified.release()
        for each in waiting:
            with pytest.raises(CatalogUnavailableError):
                each.result(60)
    catalog.is_away = False
    catalog.listening.clear()
    catalog.connection = cast(Any, _Anew(catalog))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(watch.wait_until, at(1), 60)
        assert catalog.listening.wait(60)
        catalog.move(1)
        assert late.result(60) is not None


class _Anew:
    """Another connection to the same catalog."""

    def __init__(self, catalog: FakeCatalog) -> None:
        self.execute, self.notifies = catalog.execute, catalog.notifies
        self.prepare_threshold, self.info = catalog.prepare_threshold, catalog.info


def test_look_anew_when_the_catalog_is_older_than_it_was_then_says_how_far_it_was(
    watch: CatalogWatch, catalog: FakeCatalog
) -> None:
    assert watch.look_anew() is None
    catalog.at = 7
    watch.wait_until(at(7), 60)
    catalog.at = 5
    seen = watch.look_anew()
    assert seen is not None
    assert seen.snapshot_id == 7
    assert watch.wait_until(at(7), 0) is None
    assert watch.shown == Shown(5, 5, 5, 1)
    # It has still to come so far again.
    assert watch.look_anew() == seen


@pytest.mark.parametrize("is_replica", [False, True], ids=["a pooler", "a replica"])
def test_wait_when_nobody_is_notified_there_then_looks_again_and_does_not_listen(
    watch: CatalogWatch, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch, *, is_replica: bool
) -> None:
    def moves(_: float) -> None:
        catalog.at = 1

    if is_replica:
        catalog.is_replica = True
    else:
        catalog.prepare_threshold = None
    monkeypatch.setattr("commitlog.catalog.watching.time.sleep", moves)
    assert watch.wait_until(at(1), 60) == Shown(1, 1, 1, 1)
    assert catalog.said == ["SHOWN", "SHOWN"]
