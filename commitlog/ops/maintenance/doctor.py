"""Doctor: the catalog compared with the log and with the storage, one check after another."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict, dataclass, field
from posixpath import basename

import psycopg
from pyarrow import ArrowInvalid

from commitlog.catalog.checks import ALWAYS, WITH_STATE, Finding, findings, shown
from commitlog.catalog.connecting import Connection, catalog_url, connect, told_plainly
from commitlog.catalog.places import LiveFile, data_path, live_files, referenced_paths, scheduled_files
from commitlog.client.files.lake import MARKER, check_owner
from commitlog.client.tables.names import TableName
from commitlog.config import Settings
from commitlog.domain.model.definitions import HANDLER_PREFIX, counted, quoted
from commitlog.domain.state.index import SequencerState
from commitlog.errors import (
    CatalogMismatchError,
    CatalogUnavailableError,
    ConfigurationError,
    LogUnavailableError,
)
from commitlog.local.room import full_disks
from commitlog.log.durability import weaknesses
from commitlog.log.genesis import require_genesis
from commitlog.log.row_handlers import InstalledHandlers
from commitlog.ops.maintenance.log_side import checked_catalog
from commitlog.ops.maintenance.storage import (
    StoredFile,
    checksummed,
    footer_sizes,
    is_local,
    list_files,
    places_of,
    root_of,
    stored_file,
)

HANDLERS = "row handlers"
DURABILITY = "durability"
ROOM = "room"
FULL = "make room: writes there fail, those of Kafka too if its data is there"
FOOTERS_CHECKED = 200
RESTORE = "bring it back from a backup, or propose a DELETE of the whole file by its id (`commitlog submit`)"
CLEAN = "`commitlog clean --dry-run` shows what it would remove"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found; not_checked says why it could not look."""

    check: str
    findings: tuple[Finding, ...] = ()
    not_checked: str | None = None

    @property
    def is_well(self) -> bool:
        """Whether it looked and found nothing that is wrong."""
        return self.not_checked is None and all(finding.is_note for finding in self.findings)

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        findings = [asdict(finding) for finding in self.findings]
        return {"check": self.check, "well": self.is_well, "findings": findings, "not_checked": self.not_checked}


@dataclass
class _Storage:
    """The storage as it was listed, and what the catalog says of it."""

    conn: Connection
    footers: int
    log_id: bytes
    log: str
    root: str = ""
    listed: dict[str, StoredFile] = field(default_factory=dict)
    live: list[LiveFile] = field(default_factory=list)

    def look(self) -> None:
        """List the storage once, for all checks."""
        path = data_path(self.conn)
        self.root = root_of(path)
        self.live = list(live_files(self.conn))
        self.listed = list_files(path)

    def is_seen(self, path: str) -> bool:
        """Whether a file can be looked at. What others named in an object store outside of the data path is not: it is asked
        with this process's credentials, wherever a proposal said."""
        return is_local(path) or any(place.startswith(self.root) for place in places_of(path))

    def found(self, path: str) -> StoredFile | None:
        """A file by its path; those of this machine outside of the data path are asked for one by one."""
        for place in places_of(path):
            if place in self.listed:
                return self.listed[place]
        return stored_file(path) if is_local(path) else None


def checks_of(*, storage: bool = True) -> list[str]:
    """The names of the checks that are run, in their order."""
    return [*ALWAYS, *WITH_STATE, HANDLERS, DURABILITY, ROOM, *(STORAGE if storage else ())]


def examine(
    settings: Settings,
    *,
    footers: int = FOOTERS_CHECKED,
    storage: bool = True,
    on_progress: Callable[[int, int], None] = lambda seq, applied_seq: None,
) -> Iterator[CheckResult]:
    """Run every check, one after another, on one SQL snapshot.

    Args:
        settings: the log, its catalog.
        footers: how many files' footers to read, taken at random.
        storage: whether to look at the files at all.
        on_progress: as `checked_catalog` tells it: the first check waits for the log to be read.

    Raises:
        CatalogUnavailableError: PostgreSQL does not answer; after a full disk was told, if there is one.
        ConfigurationError, LogIntegrityError, LogUnavailableError: the log is not there, broken, or does not answer.
    """
    is_told = False
    try:
        with told_plainly(settings.database_url), connect(catalog_url(settings)) as conn:
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            conn.read_only = True
            for result in examine_on(conn, settings, footers=footers, storage=storage, on_progress=on_progress):
                is_told |= result.check == ROOM and not result.is_well
                yield result
    except (CatalogUnavailableError, LogUnavailableError):
        # A server without room ends, or refuses: that is why it does not answer.
        if not is_told and not (room := _room(settings)).is_well:
            yield room
        raise


def examine_on(
    conn: Connection,
    settings: Settings,
    *,
    footers: int = FOOTERS_CHECKED,
    storage: bool = True,
    on_progress: Callable[[int, int], None] = lambda seq, applied_seq: None,
) -> Iterator[CheckResult]:
    """The same on a connection that is in a SQL transaction, of which everything is seen."""
    catalog = checked_catalog(conn, settings, on_progress)
    if catalog is None:
        yield CheckResult("position", (Finding("there is no catalog yet", "run `commitlog init`"),))
        return
    log = catalog.log
    for name, check in ALWAYS.items():
        yield CheckResult(name, tuple(check(catalog)))
    for name, check in WITH_STATE.items():
        if log.state is None:
            yield CheckResult(name, not_checked="the catalog is no image of this log")
        else:
            yield CheckResult(name, tuple(findings(check, catalog)))
    missing = () if log.state is None else tuple(missing_handlers(log.state, InstalledHandlers()))
    yield CheckResult(HANDLERS, missing)
    yield CheckResult(DURABILITY, tuple(Finding(*each) for each in weaknesses(settings, require_genesis(settings))))
    yield _room(settings)
    if storage:
        yield from examine_storage(conn, log_id=log.log_id, log=settings.log, footers=footers)


def missing_handlers(state: SequencerState, installed: Container[str]) -> Iterator[Finding]:
    """The row handlers that are asked for and not installed here, which may not be where the log is decided."""
    asked = {"the log's on_conflict": state.settings.on_conflict} | {
        f"table {TableName(table.schema.name, table.name)}": table.definition.properties.get("on_conflict", "")
        for table in state.tables.values()
        if table.dropped_at is None
    }
    by_handler: dict[str, list[str]] = {}
    for who, policy in asked.items():
        name = policy.removeprefix(HANDLER_PREFIX)
        if name != policy and name not in installed:
            by_handler.setdefault(name, []).append(who)
    for name, askers in sorted(by_handler.items()):
        yield Finding(
            f"the row handler {quoted(name)} is not installed on this machine: {shown(askers)}",
            "install it wherever a sequencer of this log runs: without it, changes of rows that meet there are refused",
            is_note=True,
        )


def _room(settings: Settings) -> CheckResult:
    """Whether this machine's disks have room left."""
    return CheckResult(ROOM, tuple(Finding(each, FULL) for each in full_disks(settings)))


def examine_storage(
    conn: Connection, *, log_id: bytes, log: str, footers: int = FOOTERS_CHECKED
) -> Iterator[CheckResult]:
    """The checks of the files alone, of the log of that id and name."""
    storage = _Storage(conn, footers, log_id, log)
    try:
        storage.look()
    except (CatalogMismatchError, OSError, ArrowInvalid) as error:
        for name in STORAGE:
            yield CheckResult(name, not_checked=f"the files cannot be listed: {error}")
        return
    for name, check in STORAGE.items():
        try:
            yield CheckResult(name, tuple(check(storage)))
        except (CatalogMismatchError, OSError) as error:
            yield CheckResult(name, not_checked=str(error))


def _check_owner(storage: _Storage) -> Iterator[Finding]:
    """The data path is this log's, and no other's."""
    path = data_path(storage.conn)
    try:
        owner = check_owner(path, storage.log_id, storage.log)
    except ConfigurationError as error:
        yield Finding(str(error), "two logs in one folder clean up each other's files: stop one of them")
        return
    if owner is None:
        yield Finding(
            f"nothing in {path} says that it is this log's ({MARKER} is missing)", "`commitlog init` writes it"
        )


def _check_files(storage: _Storage) -> Iterator[Finding]:
    """Every live file is there, as long as the catalog says."""
    missing, wrong, unseen = [], [], []
    for file in storage.live:
        if not storage.is_seen(file.path):
            unseen.append(f"{_name(file)} {file.path}")
            continue
        found = storage.found(file.path)
        if found is None:
            missing.append(f"{_name(file)} {file.path}")
        elif file.file_size_bytes is not None and found.size_bytes != file.file_size_bytes:
            wrong.append(f"{_name(file)} {file.path} ({found.size_bytes:,} bytes, not {file.file_size_bytes:,})")
    if unseen:
        what = f"{counted(len(unseen), 'live file')} in another store than the lake, not checked: {shown(unseen)}"
        yield Finding(what, "check them with the rights of whoever put them there", is_note=True)
    if missing:
        yield Finding(f"{counted(len(missing), 'live file')} missing: {shown(missing)}", RESTORE)
    if wrong:
        advice = "something overwrote it after it was committed: bring the committed file back from a backup"
        yield Finding(f"{counted(len(wrong), 'live file')} of another size: {shown(wrong)}", advice)


def _check_footers(storage: _Storage) -> Iterator[Finding]:
    """The footers of some files are as long as the catalog says; a wrong length is an error for every reader."""
    told = [file for file in storage.live if file.footer_size is not None and storage.found(file.path) is not None]
    chosen = random.Random(len(told)).sample(told, min(storage.footers, len(told)))
    sizes = footer_sizes(file.path for file in chosen)
    wrong = [f"{_name(file)} {file.path}" for file in chosen if sizes[file.path] != file.footer_size]
    if wrong:
        advice = (
            "readers fail on it: propose a DELETE of the whole file and append it again, which reads its footer again"
        )
        yield Finding(f"{len(wrong)} of {counted(len(chosen), 'file')} with another footer: {shown(wrong)}", advice)


def _check_orphans(storage: _Storage) -> Iterator[Finding]:
    """Files that no kept snapshot needs: refused or still to be proposed, or something that does not belong here."""
    known = {place for path in referenced_paths(storage.conn) for place in places_of(path)}
    known |= {place for file in scheduled_files(storage.conn) for place in places_of(file.path)}
    found = storage.listed.keys() - known
    orphans = sorted(each for each in found if checksummed(each) not in known and basename(each) != MARKER)
    if orphans:
        size = sum(storage.listed[place].size_bytes for place in orphans)
        what = (
            f"{counted(len(orphans), 'file')} ({size:,} bytes) below the data path and in no snapshot: {shown(orphans)}"
        )
        yield Finding(what, f"writers may be about to propose them; {CLEAN}", is_note=True)


def _check_scheduled(storage: _Storage) -> Iterator[Finding]:
    """Files that expired snapshots left."""
    scheduled = scheduled_files(storage.conn)
    if scheduled:
        since = min(file.scheduled_at for file in scheduled)
        files = counted(len(scheduled), "file")
        what = f"{files} of expired snapshots to be removed, the first since {since:%Y-%m-%d %H:%M} UTC"
        yield Finding(what, CLEAN, is_note=True)


def _name(file: LiveFile) -> str:
    return f"{'delete' if file.is_delete_file else 'data'} file {file.file_id}"


STORAGE: dict[str, Callable[[_Storage], Iterator[Finding]]] = {
    "data path": _check_owner,
    "files": _check_files,
    "footers": _check_footers,
    "orphans": _check_orphans,
    "scheduled files": _check_scheduled,
}
"""Checks of the files themselves."""
