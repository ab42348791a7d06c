"""Gateways in threads, and stock DuckDB clients that write through them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import duckdb
import pytest
from log_running import wait_until

from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.gateway import server
from commitlog.gateway.committing import Answer
from commitlog.gateway.session import Session
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


def losing_clients(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gateways lose each client whose commit's message says "at the text" or "at COMMIT", before it is answered there.

    Returns where they have, in order, as they do.
    """
    lost: list[str] = []

    class LosesItsClient(Session):
        message = ""

        async def _commit(self, text: str) -> None:
            if "at the text" in text:
                lost.append("text")
                asyncio.get_running_loop().call_soon(self._client.abort)
            await super()._commit(text)

        def _ended(self, text: str, answer: Answer) -> bytes:
            told = super()._ended(text, answer)
            if "at COMMIT" in self.message:
                lost.append("COMMIT")
                self._client.abort()
            return told

        def hear_client(self, data: bytes) -> None:
            if b"ducklake_snapshot_changes VALUES" in data:
                self.message = data.decode(errors="replace")
            super().hear_client(data)

    monkeypatch.setattr(server, "Session", LosesItsClient)
    return lost
