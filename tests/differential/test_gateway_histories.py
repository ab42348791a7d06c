"""Random histories by stock clients, on their own lake and through the gateway: both lakes are read alike."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import duckdb
import psycopg
import pytest
from comparing import differences
from gateway_checks import faults
from gateway_histories import NAMES, GatewayHistory
from gateway_sides import DecidedCommits, gateway_to, writing
from sides import Client, Ours, Reusable, Stock

HISTORIES = int(os.environ.get("COMMITLOG_TEST_HISTORIES", "200"))
FEW = 5
STEPS = 7


class World:
    """Both sides' databases, the client that reads both and writes its own, and a gateway to the other."""

    def __init__(self, stock_url: str, our_url: str, folder: Path) -> None:
        self.client = Client(stock_url, our_url, folder)
        self.client.attach("stock")
        self.client.detach("stock")
        self.stock = Stock(psycopg.connect(stock_url))
        conn = Ours.create(our_url, folder)
        self.our_database = Reusable(conn)
        self.ours = Ours(conn, self.client, folder, our_url)
        self.commits = DecidedCommits(self.ours, our_url)
        self.done: Counter[str] = Counter()

    def play(self, seed: int, gateway_url: str, *names: str) -> list[str]:
        """Play a history, of random steps or of those named; return what differs."""
        self.stock.reset()
        self.our_database.reset()
        self.ours.start()
        self.commits.start()
        self.client.attach("stock", "ours")
        try:
            with writing(gateway_url, "stock") as through:
                history = GatewayHistory(seed, self.stock, self.ours, through, self.commits)
                history.run(0 if names else STEPS)
                for name in names:
                    history.play([name])
            found = [*differences(history), *faults(self.ours)]
        finally:
            with suppress(duckdb.Error):
                self.client.duck.execute("ROLLBACK")
            self.client.detach("stock", "ours")
        self.ours.log.check_replay()
        self.done.update(history.done)
        return found

    def close(self) -> None:
        self.client.duck.close()
        self.commits.close()
        self.stock.conn.close()
        self.ours.contents.close()
        self.ours.conn.close()


@pytest.fixture(scope="module")
def world(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, str]]:
    with new_database() as stock_url, new_database() as our_url:
        world = World(stock_url, our_url, tmp_path_factory.mktemp("gateway"))
        with gateway_to(our_url, world.commits) as gateway_url:
            yield world, gateway_url
        world.close()


def play(world: tuple[World, str], seeds: range) -> None:
    for seed in seeds:
        found = world[0].play(seed, world[1])
        assert not found, f"seed {seed}:\n" + "\n".join(found)


def test_a_few_random_histories_by_stock_clients_then_both_lakes_are_read_alike(world: tuple[World, str]) -> None:
    play(world, range(FEW))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(5))
def test_random_histories_by_stock_clients_then_both_lakes_are_read_alike(world: tuple[World, str], part: int) -> None:
    play(world, range(FEW + part, HISTORIES, 5))


def test_each_kind_of_step_by_stock_clients_then_both_lakes_are_read_alike(world: tuple[World, str]) -> None:
    """All that random histories came to seldom or never."""
    missing = [name for name in NAMES if world[0].done[name] < 2]
    found = world[0].play(1000, world[1], "create_schema", "create_table", "append", *missing)
    assert not found, "\n".join(found)
