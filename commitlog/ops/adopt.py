"""`commitlog init --adopt`: a lake that the stock client made becomes a log's first outcomes.

The whole history is translated and decided in memory first, without a trace, so that a lake that cannot be taken over is
refused before anything is written. Then the files that a log needs otherwise are written, the proposals are published,
and a sequencer of its own decides each at the time of its snapshot. What died half way can be started again: ids, paths
and verdicts come out the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from commitlog.adoption.source import CATALOG, SourceLake, find_losses, quoted, read_source, text
from commitlog.adoption.translation import WRITER, AdoptedSnapshot, AdoptionCounts, Translation
from commitlog.config import RUN_FILE, Settings
from commitlog.domain.model import Genesis, Outcome, Receipt, Verdict
from commitlog.errors import AdoptionError, ConfigurationError
from commitlog.ops.duck import connection_text, extension_file

PUBLISHED_MAX = 200
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was taken over, or with a dry run would be."""

    data_path: str
    head_snapshot_id: int
    oldest_snapshot_id: int
    counts: AdoptionCounts
    left_behind: tuple[str, ...]


def adopt(settings: Settings, source: str, *, dry_run: bool) -> tuple[Settings, Adoption]:
    """Take over the lake at ``source``; the settings with its data path, and what was taken over.

    source: a PostgreSQL URL (``?schema=`` names the catalog's schema) or the path of a SQLite or DuckDB file.

    Raises:
        AdoptionError: the lake has what a log cannot express, or the log has outcomes already.
        ConfigurationError: DuckDB is missing, a setting does not fit the lake, or the lake is another log's already.
        LogUnavailableError, OutcomeUnknownError: Kafka does not answer; start again, nothing is done twice.
    """
    with open_source(source) as lake:
        settings = _with_data_path(settings, lake.data_path)
        genesis, decided = (_first_genesis(settings), []) if dry_run else _found_log(settings)
        rehearsal = Translation(lake, genesis, write=False)
        for _ in rehearsal.run():
            pass
        adoption = Adoption(lake.data_path, lake.head, lake.floor, rehearsal.counts, tuple(sorted(find_losses(lake))))
        if not dry_run:
            snapshots = list(Translation(lake, genesis, write=True).run())
            _decide(settings, snapshots, decided, first_time_ms=lake.first_time_ms)
    return settings, adoption


# --- the source -------------------------------------------------------------------------------------------------------


@contextmanager
def open_source(source: str) -> Iterator[SourceLake]:
    """The catalog of a lake, read only.

    Raises:
        AdoptionError: the stock client cannot open it.
        ConfigurationError: DuckDB or one of its extensions is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigurationError("DuckDB is not installed: pip install 'commitlog[dev]' brings it") from error
    extension, place, schema = _parse(source)
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # So that a file that is written again comes out the same.
        "threads": 1,
    }
    with duckdb.connect(":memory:", config=config) as connection:
        for name in (*((extension,) if extension else ()), "ducklake"):
            connection.execute(f"LOAD {text(str(extension_file(name)))}")
        options = "READ_ONLY" + (f", METADATA_SCHEMA {text(schema)}" if schema else "")
        try:
            connection.execute(f"ATTACH {text('ducklake:' + place)} AS {quoted(CATALOG)} ({options})")
        except duckdb.Error as error:
            raise AdoptionError([f"the stock client does not open it: {str(error).splitlines()[0]}"]) from None
        default = "public" if extension == "postgres_scanner" else "main"
        lake = read_source(connection, schema or default)
        lake.data_path = _absolute(lake.data_path)
        yield lake


def _parse(source: str) -> tuple[str | None, str, str | None]:
    """(extension, the place as the client takes it, schema of the catalog)."""
    source = source.removeprefix("ducklake:")
    if source.startswith(("postgres://", "postgresql://")):
        url = urlsplit(source)
        schema = dict(parse_qsl(url.query)).get("schema")
        return "postgres_scanner", "postgres:" + connection_text(urlunsplit(url._replace(query=""))), schema
    if source.startswith("postgres:"):
        return "postgres_scanner", source, None
    path = Path(source.removeprefix("sqlite:").removeprefix("duckdb:"))
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    except OSError as error:
        raise AdoptionError([f"{path} cannot be read: {error.strerror}"]) from None
    return ("sqlite_scanner", f"sqlite:{path}", None) if start == _SQLITE else (None, str(path), None)


def _absolute(data_path: str) -> str:
    path = data_path if "://" in data_path else os.path.abspath(data_path)
    return path if path.endswith("/") else path + "/"


# --- the log ----------------------------------------------------------------------------------------------------------


def _with_data_path(settings: Settings, data_path: str) -> Settings:
    given = settings.data_path.rstrip("/")
    origin = settings.sources.get("data_path", "")
    is_chosen = not origin.startswith("default") and RUN_FILE not in origin
    if is_chosen and given != data_path.rstrip("/"):
        raise ConfigurationError(
            f"the lake's files are below {data_path}, not {given} ({origin}): a lake that is taken "
            "over stays where it is"
        )
    if settings.checkpoint_dir.is_relative_to(Path(data_path)):
        raise ConfigurationError(
            f"checkpoint_dir ({settings.checkpoint_dir}) is below the lake's files, where every writer can write: set "
            "another one"
        )
    return replace(settings, data_path=data_path.rstrip("/"))


def _first_genesis(settings: Settings) -> Genesis:
    """What the log will be."""
    from commitlog.log.topics import first_settings

    return Genesis(bytes(16), settings.partitions, settings=first_settings(settings), data_path=settings.data_path)


def _found_log(settings: Settings) -> tuple[Genesis, list[Outcome]]:
    """What the log is or will be, and the outcomes that it holds already: only those of an adoption that died."""
    from commitlog.client.lake import check_free
    from commitlog.log.results import ResultsReader
    from commitlog.log.topics import find_genesis

    genesis = find_genesis(settings)
    if genesis is None:
        check_free(settings.data_path, settings.log)
        return _first_genesis(settings), []
    if (genesis.data_path or "").rstrip("/") != settings.data_path:
        raise AdoptionError(
            [f"the log {settings.log} is there already and its files are below {genesis.data_path}: use another name"]
        )
    with ResultsReader(settings) as reader:
        found = [r.value for records in reader.read_to_end() for r in records if isinstance(r.value, Outcome)]
    if any(outcome.writer_id != WRITER for outcome in found):
        raise AdoptionError(
            [f"the log {settings.log} has {len(found)} outcomes already: only an empty one takes a lake over"]
        )
    return genesis, found


def _decide(
    settings: Settings, snapshots: Sequence[AdoptedSnapshot], decided: Sequence[Outcome], *, first_time_ms: int
) -> None:
    from commitlog.log.publisher import Publisher
    from commitlog.log.topics import init_log

    largest = max((len(each.encoded) for each in snapshots), default=0)
    settings = replace(settings, proposal_bytes_max=max(settings.proposal_bytes_max, largest))
    init_log(settings, now_ms=first_time_ms)
    planned = {each.proposal.proposal_id: each for each in snapshots}
    committed = [each for each in decided if each.verdict is Verdict.COMMITTED]
    for outcome in committed:
        known = planned.get(outcome.proposal_id or b"")
        if known is None or known.outcome.snapshot_id != outcome.snapshot_id:
            raise AdoptionError(
                [f"the log {settings.log} took over another state of this lake before: use another name for the log"]
            )
    with _sequencing(settings), Publisher(settings) as publisher:
        for start in range(len(committed), len(snapshots), PUBLISHED_MAX):
            sent = [
                (each, publisher.publish_bytes(each.encoded, each.proposal.proposal_id, WRITER))
                for each in snapshots[start : start + PUBLISHED_MAX]
            ]
            for each, pending in sent:
                _check_answer(each, pending.wait())


def _check_answer(snapshot: AdoptedSnapshot, receipt: Receipt) -> None:
    found = receipt.answered_snapshot_id if receipt.verdict is Verdict.DUPLICATE else receipt.snapshot_id
    if found != snapshot.outcome.snapshot_id:
        raise AdoptionError(
            [
                f"snapshot {snapshot.outcome.snapshot_id} became {receipt.verdict} {found or receipt.detail or ''}: "
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
