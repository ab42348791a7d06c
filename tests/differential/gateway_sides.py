"""A lake that a stock client writes through the gateway, whose commits are decided in memory and projected at once."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import psycopg
from deciding import START_MS, make_id
from psycopg import sql
from sides import Client, Ours

from commitlog.client.reading.duckdb_client import connection_text, extension_file
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.model.ids import parse_id
from commitlog.domain.state.replaying import replay
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.base import Bases
from commitlog.gateway.batch import Batch, parse
from commitlog.gateway.committing import Answer
from commitlog.gateway.server import Gateway, Upstream
from commitlog.gateway.translation import translate


class DecidedCommits:
    """Takes a client's commits to a log in memory, one after another.

    Attributes:
        proposed: what they asked of the log; one that came to nothing, or was not understood, is not among them.
        outcomes: what that came to.
    """

    def __init__(self, ours: Ours, url: str) -> None:
        self._ours = ours
        self._url = url
        self._turn = threading.Lock()
        self._bases = Bases(url)
        self.outcomes: list[m.Outcome] = []
        self.proposed: list[tuple[m.Change, ...]] = []

    def start(self) -> None:
        """For a new log."""
        self._bases.close()
        self._bases = Bases(self._url)
        self.outcomes.clear()
        self.proposed.clear()

    async def commit(self, text: str, user: str) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(None, self._commit, text, user)

    def _commit(self, text: str, user: str) -> Answer:
        with self._turn:
            try:
                batch = parse(text)
                with self._bases.at(batch.base_snapshot_id, user) as base:
                    changes = translate(batch, base).changes
            except NotUnderstoodError as error:
                return Answer(refusal=str(error))
            if not changes:
                return Answer()
            outcome = self._decided(batch, changes, user)
            self.outcomes.append(outcome)
            self.proposed.append(changes)
            with self._ours.conn.transaction():
                self._ours.projection.project([outcome])
        if outcome.verdict is m.Verdict.COMMITTED:
            return Answer()
        return Answer(
            refusal=f"{outcome.reason}: {outcome.detail}".replace("CONFLICT", "CLASH").replace("conflict", "clash")
        )

    def _decided(self, batch: Batch, changes: tuple[m.Change, ...], user: str) -> m.Outcome:
        log = self._ours.log
        number = len(log.outcomes) + 1
        proposal = m.Proposal(
            parse_id(make_id(number)),
            user,
            batch.base_snapshot_id,
            changes,
            author=batch.author,
            message=batch.message,
            extra=batch.extra,
        )
        outcome = decide(log.state, proposal, now_ms=START_MS + number, source=m.Position(0, number - 1))
        replay(log.state, outcome)
        log.outcomes.append(outcome)
        return outcome

    def close(self) -> None:
        self._bases.close()


@contextmanager
def gateway_to(url: str, commits: DecidedCommits) -> Iterator[str]:
    """The URL of a catalog through a gateway whose commits go there."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadPoolExecutor(1) as pool:
        port = taken.getsockname()[1]
        running = pool.submit(lambda: asyncio.run(Gateway(Upstream.of(url), commits).serve(taken, stop)))
        try:
            yield f"{url.rpartition('@')[0]}@127.0.0.1:{port}/{url.rpartition('/')[2]}"
        finally:
            stop.set()
            running.result()


@contextmanager
def writing(url: str, name: str, *options: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A stock client that has the lake at a URL attached under a name, with options of ATTACH."""
    config: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=config) as connection:
        for extension in ("postgres_scanner", "ducklake"):
            connection.execute(f"LOAD '{extension_file(extension)}'")
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
        how = f" ({', '.join(options)})" if options else ""
        connection.execute(f"ATTACH 'ducklake:postgres:{connection_text(url)}' AS {name}{how}")
        try:
            yield connection
        finally:
            with suppress(duckdb.Error):
                connection.execute("ROLLBACK")


def in_schema(database_url: str, schema: str) -> str:
    """The URL of a database for who finds its tables in a schema, which is made."""
    if schema == "public":
        return database_url
    name = sql.Identifier(schema)
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        path = name.as_string(conn).replace(" ", "\\ ")
    return f"{database_url}?options={quote(f'-csearch_path={path}')}"


@contextmanager
def lake_through_gateway(
    new_database: Callable[[], AbstractContextManager[str]], folder: Path, schema: str = "public"
) -> Iterator[tuple[Ours, DecidedCommits, str]]:
    """An empty lake, its catalog in a schema, who takes its commits, and the URL by which stock clients write it."""
    with new_database() as stock_url, new_database() as database_url:
        our_url = in_schema(database_url, schema)
        client = Client(stock_url, our_url, folder)
        ours = Ours(Ours.create(our_url, folder), client, folder, our_url)
        commits = DecidedCommits(ours, our_url)
        with gateway_to(database_url, commits) as gateway_url:
            yield ours, commits, gateway_url
        commits.close()
        ours.contents.close()
        ours.conn.close()
        client.duck.close()
