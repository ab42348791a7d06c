"""Gateways in threads, and stock DuckDB clients that write through them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import duckdb
from log_running import wait_until

from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.ops.service.gateway import run_gateway, through_gateway


@contextmanager
def gateway_of(settings: Settings) -> Iterator[str]:
    """The URL of the catalog through a gateway, for its owner."""
    stop, addresses = threading.Event(), list[str]()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_gateway, settings, stop=stop, on_address=addresses.append)
        try:
            wait_until(lambda: bool(addresses) or running.done(), "a gateway that listens")
            if addresses:
                yield through_gateway(settings, addresses[0])
        finally:
            stop.set()
        running.result()


def stock_client(url: str) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """The stock client, attached to write."""
    return open_lake(url, may_write=True)
