"""`commitlog init --adopt`: a lake that the stock client made becomes a log's first outcomes.

The whole history is translated and decided in memory first, without a trace, so that a lake that cannot be taken over is
refused before anything is written. Then the files that a log needs otherwise are written, the proposals are published,
and a sequencer of its own decides each at the time of its snapshot. What died half way can be started again: ids, paths
and verdicts come out the same. Proposals wait in a temporary file, since a lake can have millions of expired snapshots.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from commitlog.adoption.source import CATALOG, SourceLake, find_losses, quoted, read_source, text
from commitlog.adoption.translation import WRITER, AdoptedSnapshot, AdoptionCounts, Translation
from commitlog.catalog.connecting import plain
from commitlog.client.reading.duckdb_client import connection_text, open_duckdb
from commitlog.config import RUN_FILE, Settings, check_checkpoints_apart, without_password
from commitlog.domain.model import Genesis, Outcome, Receipt, Verdict
from commitlog.errors import AdoptionError, CommitLogError, ConfigurationError

PUBLISHED_MAX = 200
DATABASE_TIMEOUT_S = 60.0
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was taken over, or with a dry run would be."""

    data_path: str
    head_snapshot_id: int
    oldest_snapshot_id: int
    counts: AdoptionCounts
    left_behind: tuple[str, ...]


class AdoptionProgress(NamedTuple):
    """How far an adoption is.

    Attributes:
        step: what is done with one snapshot of the lake after another: "checking", then "translating", then "deciding".
        snapshot_id: the last with which it is done,
        head_snapshot_id: and the last there is.
    """

    step: str
    snapshot_id: int
    head_snapshot_id: int


def adopt(
    settings: Settings,
    source: str,
    *,
    dry_run: bool,
    on_progress: Callable[[AdoptionProgress], None] = lambda progress: None,
) -> tuple[Settings, Adoption]:
    """Take over the lake at ``source``; the settings with its data path, and what was taken over.

    Args:
        settings: the log that it becomes.
        source: a PostgreSQL URL (``?schema=`` names the catalog's schema) or the path of a SQLite or DuckDB file.
        dry_run: only check, and say what would be taken over.
        on_progress: called after each snapshot.

    Raises:
        AdoptionError: the lake has what a log cannot express, or the log has outcomes already.
        ConfigurationError: DuckDB is missing, a setting does not fit the lake, or the lake is another log's already.
        CatalogMismatchError: the database holds another log's catalog.
        LogUnavailableError, OutcomeUnknownError: Kafka does not answer; start again, nothing is done twice.
        CatalogUnavailableError: PostgreSQL does not answer; nothing was done.
    """
    with open_source(source) as lake:
        settings = _with_data_path(settings, lake.data_path)
        genesis, decided = (_log_to_be(settings), ()) if dry_run else _found_log(settings)

        def tell(step: str, snapshot_id: int) -> None:
            on_progress(AdoptionProgress(step, snapshot_id, lake.head))

        rehearsal = Translation(lake, genesis, write=False)
        for each in rehearsal.run():
            tell("checking", _snapshot_of(each))
        adoption = Adoption(lake.data_path, lake.head, lake.floor, rehearsal.counts, tuple(sorted(find_losses(lake))))
        if not dry_run:
            with tempfile.TemporaryFile(prefix="commitlog-adopting-") as file:
                waiting = _Waiting(file)
                for each in Translation(lake, genesis, write=True).run():
                    waiting.add(each)
                    tell("translating", _snapshot_of(each))
                _check_head(lake, "nothing was proposed to the log")
                for snapshot_id in _decided(settings, waiting, decided, first_time_ms=lake.first_time_ms):
                    tell("deciding", snapshot_id)
            _check_head(lake, f"the log holds the lake up to snapshot {lake.head}")
    return settings, adoption


def _snapshot_of(adopted: AdoptedSnapshot) -> int:
    assert adopted.outcome.snapshot_id is not None
    return adopted.outcome.snapshot_id


def _check_head(lake: SourceLake, done: str) -> None:
    """Raise AdoptionError when somebody has committed to the source meanwhile: that would be lost."""
    newest = lake.newest_snapshot()
    if newest != lake.head:
        raise AdoptionError(
            [
                f"its newest snapshot was {lake.head} and is {newest} now, so somebody writes to it, and {done}: stop its "
                "writers and run the command again, which goes on from there"
            ]
        )


# --- the source -------------------------------------------------------------------------------------------------------


@contextmanager
def open_source(source: str) -> Iterator[SourceLake]:
    """The catalog of a lake, read only.

    Raises:
        AdoptionError: the stock client cannot open it.
        ConfigurationError: DuckDB or one of its extensions is not installed.
    """
    try:
        with _opened_source(source) as lake:
            yield lake
    except CommitLogError:
        raise
    except Exception as error:
        import duckdb

        if not isinstance(error, duckdb.Error):
            raise
        # Not chained: DuckDB's own message can have a password.
        raise AdoptionError([f"the stock client cannot read it: {plain(error)}"]) from None


@contextmanager
def _opened_source(source: str) -> Iterator[SourceLake]:
    extension, place, schema = _parse(source)
    with open_duckdb(*((extension,) if extension else ()), "ducklake") as connection:
        import duckdb

        # So that a file that is written again comes out the same.
        connection.execute("SET threads = 1")
        options = "READ_ONLY" + (f", METADATA_SCHEMA {text(schema)}" if schema else "")
        try:
            connection.execute(f"ATTACH {text('ducklake:' + place)} AS {quoted(CATALOG)} ({options})")
        except duckdb.Error as error:
            raise AdoptionError([f"the stock client does not open it: {plain(error)}"]) from None
        default = "public" if extension == "postgres_scanner" else "main"
        lake = read_source(connection, schema or default)
        lake.data_path = _absolute(lake.data_path)
        yield lake


def _parse(source: str) -> tuple[str | None, str, str | None]:
    """(extension, the place as the client takes it, schema of the catalog)."""
    source = source.removeprefix("ducklake:")
    if source.startswith(("postgres://", "postgresql://")):
        url = urlsplit(source)
        options = dict(parse_qsl(url.query))
        schema = options.pop("schema", None)
        text = connection_text(urlunsplit(url._replace(query=urlencode(options, quote_via=quote))))
        return "postgres_scanner", f"postgres:{text}", schema
    if source.startswith("postgres:"):
        return "postgres_scanner", source, None
    path = Path(source.removeprefix("sqlite:").removeprefix("duckdb:"))
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    except OSError as error:
        raise AdoptionError([f"{without_password(source)} cannot be read: {error.strerror}"]) from None
    return ("sqlite_scanner", f"sqlite:{path}", None) if start == _SQLITE else (None, str(path), None)


def _absolute(data_path: str) -> str:
    path = data_path if "://" in data_path else os.path.abspath(data_path)
    return path if path.endswith("/") else path + "/"


# --- the log ----------------------------------------------------------------------------------------------------------


def _with_data_path(settings: Settings, data_path: str) -> Settings:
    given = settings.data_path.rstrip("/")
    origin = settings.sources["data_path"]
    if not settings.is_default("data_path") and RUN_FILE not in origin and given != data_path.rstrip("/"):
        raise ConfigurationError(
            f"the lake's files are below {data_path}, not {given} ({origin}): a lake that is taken "
            "over stays where it is"
        )
    settings = replace(settings, data_path=data_path.rstrip("/"))
    check_checkpoints_apart(settings)
    return settings


def _first_genesis(settings: Settings) -> Genesis:
    """What the log will be."""
    from commitlog.log.genesis import first_settings

    return Genesis(bytes(16), settings.partitions, settings=first_settings(settings), data_path=settings.data_path)


def _log_to_be(settings: Settings) -> Genesis:
    """What the log will be, or is, as far as that is seen without Kafka."""
    from commitlog.client.files.lake import check_free

    check_free(settings.data_path, settings.log, may_be_there=True)
    return _first_genesis(settings)


def _found_log(settings: Settings) -> tuple[Genesis, Sequence[bytes | None]]:
    """What the log is or will be, and the proposals that an adoption that died has committed, in their order."""
    from commitlog.catalog.migrations import check_database
    from commitlog.client.files.lake import check_free
    from commitlog.log.genesis import find_genesis
    from commitlog.log.results import ResultsReader

    genesis = find_genesis(settings)
    if genesis is None:
        check_free(settings.data_path, settings.log)
        check_database(settings, None, timeout_s=DATABASE_TIMEOUT_S)
        return _first_genesis(settings), ()
    if (genesis.data_path or "").rstrip("/") != settings.data_path:
        raise AdoptionError(
            [f"the log {settings.log} is there already and its files are below {genesis.data_path}: use another name"]
        )
    committed: list[bytes | None] = []
    with ResultsReader(settings) as reader:
        for outcome in (r.value for records in reader.read_to_end() for r in records):
            if not isinstance(outcome, Outcome):
                continue
            if outcome.writer_id != WRITER:
                raise AdoptionError(
                    [f"the log {settings.log} has outcomes already: only an empty one takes a lake over"]
                )
            if outcome.verdict is Verdict.COMMITTED:
                committed.append(outcome.proposal_id)
    return genesis, committed


class _Proposed(NamedTuple):
    """One snapshot on its way into the log."""

    snapshot_id: int
    proposal_id: bytes
    encoded: bytes


class _Waiting:
    """The proposals of an adoption, in their order, in a file of its own.

    Attributes:
        largest: bytes of the largest one.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.largest = 0
        self._file = file

    def add(self, each: AdoptedSnapshot) -> None:
        """Write the next one down."""
        self.largest = max(self.largest, len(each.encoded))
        head = _snapshot_of(each).to_bytes(8, "big") + len(each.encoded).to_bytes(8, "big")
        self._file.write(head + each.proposal.proposal_id + each.encoded)

    def __iter__(self) -> Iterator[_Proposed]:
        self._file.seek(0)
        while head := self._file.read(32):
            snapshot_id, size = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:16], "big")
            yield _Proposed(snapshot_id, head[16:], self._file.read(size))


def _decided(
    settings: Settings, waiting: _Waiting, committed: Sequence[bytes | None], *, first_time_ms: int
) -> Iterator[int]:
    """Have the log decide what is waiting; yields the snapshots that it holds, one after another."""
    from commitlog.log.genesis import first_settings, init_log
    from commitlog.log.publisher import Publisher

    bytes_max = max(first_settings(settings).proposal_bytes_max, waiting.largest)
    settings = replace(settings, genesis={**settings.genesis, "proposal_bytes_max": bytes_max})
    init_log(settings, now_ms=first_time_ms)
    proposals = iter(waiting)
    for proposal_id in committed:
        planned = next(proposals, None)
        if planned is None or planned.proposal_id != proposal_id:
            raise AdoptionError(
                [f"the log {settings.log} took over another state of this lake before: use another name for the log"]
            )
    with _sequencing(settings), Publisher(settings) as publisher:
        while together := list(islice(proposals, PUBLISHED_MAX)):
            sent = [(each, publisher.publish_bytes(each.encoded, each.proposal_id, WRITER)) for each in together]
            for each, pending in sent:
                _check_answer(each, pending.wait())
                yield each.snapshot_id


def _check_answer(proposed: _Proposed, receipt: Receipt) -> None:
    found = receipt.answered_snapshot_id if receipt.verdict is Verdict.DUPLICATE else receipt.snapshot_id
    if found != proposed.snapshot_id:
        raise AdoptionError(
            [
                f"snapshot {proposed.snapshot_id} became {receipt.verdict} {found or receipt.detail or ''}: "
                "somebody else writes to this log; use another name for it"
            ]
        )


@contextmanager
def _sequencing(settings: Settings) -> Iterator[None]:
    """A sequencer in this process that gives every proposal the time at which it was made."""
    from commitlog.log.sequencer import Sequencer

    stop = threading.Event()
    sequencer = Sequencer(settings, stop=stop, decides_as_made=True)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            sequencer.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="commitlog-adopting")
    thread.start()
    try:
        yield
    except Exception as error:
        if raised:
            raise raised[0] from error
        raise
    finally:
        stop.set()
        thread.join()
    if raised:
        raise raised[0]
