"""Random histories through commitlog and through the stock DuckLake client: the client reads both lakes alike."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import duckdb
import psycopg
import pytest
from comparing import differences
from histories import STEPS_WEIGHED, History
from sides import Client, Ours, Reusable, Stock

HISTORIES = int(os.environ.get("COMMITLOG_TEST_HISTORIES", "200"))
STEPS = 6
PARTS = 10
SELDOM = (
    "create_schema", "create_table", "append", "drop_table", "create_view", "replace_view", "drop_view", "create_table",
    "rows", "drop_schema", "set_default", "comment",
)  # fmt: skip


class World:
    """Both sides' databases, and the one client that reads them."""

    def __init__(self, stock_url: str, our_url: str, folder: Path) -> None:
        self.client = Client(stock_url, our_url, folder)
        self.client.attach("stock")
        self.client.detach("stock")
        self.stock = Stock(psycopg.connect(stock_url))
        conn = Ours.create(our_url, folder)
        self.our_database = Reusable(conn)
        self.ours = Ours(conn, self.client, folder, our_url)
        self.done: Counter[str] = Counter()

    def play(self, seed: int, names: Sequence[str] = ()) -> list[str]:
        """Play a history, of random steps or of those named; return what differs."""
        self.stock.reset()
        self.our_database.reset()
        self.ours.start()
        self.client.attach("stock", "ours")
        history = History(seed, self.stock, self.ours)
        try:
            history.run(0 if names else STEPS)
            for name in names:
                history.play([name])
            found = list(differences(history))
        finally:
            with suppress(duckdb.Error):
                self.client.duck.execute("ROLLBACK")
            self.client.detach("stock", "ours")
        self.ours.log.check_replay()
        self.done.update(history.done)
        self.done["agreed"] += history.agreed
        self.done["misled"] += len(history.misled)
        return found

    def close(self) -> None:
        self.client.duck.close()
        self.stock.conn.close()
        self.ours.contents.close()
        self.ours.conn.close()


@pytest.fixture(scope="module")
def world(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with new_database() as stock_url, new_database() as our_url:
        world = World(stock_url, our_url, tmp_path_factory.mktemp("differential"))
        yield world
        world.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_random_histories_then_the_stock_client_reads_both_lakes_alike(world: World, part: int) -> None:
    for seed in range(part, HISTORIES, PARTS):
        found = world.play(seed)
        assert not found, f"seed {seed}:\n" + "\n".join(found)


@pytest.mark.parametrize("seed", range(1000, 1005))
def test_what_random_histories_seldom_do_then_the_stock_client_reads_both_lakes_alike(world: World, seed: int) -> None:
    found = world.play(seed, SELDOM)
    assert not found, f"seed {seed}:\n" + "\n".join(found)


def test_all_histories_then_every_kind_of_step_was_among_them(world: World) -> None:
    missing = set(STEPS_WEIGHED) - set(world.done)
    assert not missing, missing
    assert world.done["agreed"] >= 10 * HISTORIES
