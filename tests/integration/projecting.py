"""A projector that is given its records by the test, without Kafka."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
from deciding import DecidedLog

from commitlog.catalog.projector import Projector, Session
from commitlog.config import Settings
from commitlog.log.codec import decode_statistics
from commitlog.log.results import ResultRecord


def records_of(log: DecidedLog) -> list[ResultRecord]:
    """The log as a reader of the results would give it."""
    values = [log.genesis, *log.outcomes]
    return [
        ResultRecord(value, offset, hashlib.sha256(str(offset).encode()).digest(), b"")
        for offset, value in enumerate(values)
    ]


class Projecting:
    """A projector that is given its records by the test."""

    def __init__(self, database_url: str, folder: Path) -> None:
        arguments = {"database_url": database_url, "data_path": str(folder), "home": str(folder.parent / "home")}
        self.projector = Projector(Settings.load(environment={}, **arguments), decode_statistics=decode_statistics)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session that begins where the catalog is."""
        with self.projector.connect() as catalog:
            position = self.projector._read_position(catalog)
            reader = SimpleNamespace(
                position=position, next_offset=0 if position is None else position.results_offset + 1
            )
            yield Session(self.projector, catalog, reader)  # type: ignore[arg-type]

    def apply_rest(self, records: list[ResultRecord]) -> None:
        """In a session of its own, what the catalog does not have."""
        with self.session() as session:
            start = 0 if session.position is None else session.position.seq + 1
            session.apply(records[start:], len(records))

    def applied_seq(self) -> int:
        """How far the catalog is, and says to be: readers who wait for a place in the results go by what it says."""
        with psycopg.connect(self.projector.settings.database_url) as conn:
            row = conn.execute(
                "SELECT seq, (SELECT max(seq) FROM commitlog.outcomes), next_offset FROM commitlog.applied"
            ).fetchone()
        assert row is not None
        assert row[0] == (row[1] or 0) == row[2] - 1
        return int(row[0])
