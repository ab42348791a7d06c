"""A lake as cleaning sees it: what the catalog knows, from one SQL snapshot, and what the storage holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import basename, dirname
from typing import Self

from commitlog.catalog import places
from commitlog.catalog.checks import CheckedCatalog, check_live_files, check_position, findings
from commitlog.catalog.connecting import Connection, catalog_url, connect
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.places import ScheduledFile
from commitlog.client.files.lake import MARKER, check_owner, is_named_by_us
from commitlog.config import Settings
from commitlog.errors import CatalogMismatchError, ConfigurationError, DataFileError
from commitlog.ops.maintenance.log_side import checked_catalog
from commitlog.ops.maintenance.storage import (
    StoredFile,
    checksummed,
    is_local,
    list_files,
    places_of,
    root_of,
    stored_file,
)


@dataclass
class SeenLake:
    """The catalog's side and the storage's.

    Attributes:
        root: where the lake's files are; ends with a slash.
        applied_seq: the last outcome that the catalog has.
        next_offsets: by partition the first proposal that was not decided by then.
        listed: by place the files below the root.
        referenced: the places of files that some snapshot names.
        scheduled: the files that an expiry of snapshots let go of.
        folders: by a table's name the folders of those that have it, or had it.
        live_ids: the files of the newest snapshot.
        is_whole: whether every file that is named was seen.
    """

    root: str
    applied_seq: int
    next_offsets: dict[int, int]
    listed: dict[str, StoredFile]
    referenced: set[str]
    scheduled: list[ScheduledFile]
    folders: dict[tuple[str, str], list[str]]
    live_ids: set[int] = field(default_factory=set)
    is_whole: bool = True

    @classmethod
    def look(
        cls, settings: Settings, log_id: bytes, conn: Connection, *, on_progress: Callable[[int, int], None]
    ) -> Self:
        """Look at both; ``on_progress`` is that of `checked_catalog`.

        Raises:
            ConfigurationError: the data path is another log's, or nobody has marked it as this one's.
            CatalogMismatchError: the catalog is no image of this log.
            DataFileError: this machine does not see the lake's files.
        """
        with conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            catalog = _checked(settings, conn, on_progress)
            data_path = places.data_path(conn)
            check_marked(data_path, log_id, settings.log)
            folders: dict[tuple[str, str], list[str]] = {}
            for folder in places.table_folders(conn):
                folders.setdefault(folder.name, []).append(folder.path)
            named = list(places.referenced_paths(conn))
            assert catalog.log.state is not None
            lake = cls(
                root=root_of(data_path),
                applied_seq=catalog.applied_seq,
                next_offsets=dict(catalog.log.state.next_offsets),
                listed=list_files(data_path),
                referenced={place for path in named for place in places_of(path)},
                scheduled=places.scheduled_files(conn),
                folders=folders,
                live_ids={each for files in catalog.live_files.values() for each in files},
            )
            live = [file.path for file in places.live_files(conn)]
        lake._note_missing(named, live)
        return lake

    def orphans(self, limit_ms: int) -> dict[str, StoredFile]:
        """By place the files of that time or older that no snapshot names, and that no other lake in here may have."""
        known = self.referenced | {place for file in self.scheduled for place in places_of(file.path)}
        return {
            place: file
            for place, file in self.listed.items()
            if place not in known
            and place != self.root + MARKER
            and not place.startswith(self._others)
            and checksummed(place) not in self.listed
            and file.modified_ms is not None
            and file.modified_ms <= limit_ms
        }

    def is_ours(self, place: str) -> bool:
        """Whether a writer of ours made a file, by its name and folder."""
        parts = place.removeprefix(self.root).split("/", 2)
        if len(parts) == 3 and is_named_by_us(parts[2]):
            return True
        return any(
            folder in self._table_folders and is_named_by_us(place.removeprefix(f"{folder}/"))
            for folder in _folders_of(place)
        )

    def is_inside(self, file: ScheduledFile) -> bool:
        """Whether a file is below the root, wherever links lead, and in no other lake in here."""
        return ".." not in file.path.split("/") and all(
            place.startswith(self.root) and not place.startswith(self._others) for place in places_of(file.path)
        )

    @cached_property
    def _others(self) -> tuple[str, ...]:
        """The folders of other lakes below the root."""
        folders = (f"{dirname(place)}/" for place in self.listed if basename(place) == MARKER)
        return tuple(folder for folder in folders if folder != self.root)

    @cached_property
    def _table_folders(self) -> set[str]:
        paths = [path for paths in self.folders.values() for path in paths]
        return {known for path in paths for known in places_of(path)}

    def _note_missing(self, named: Iterable[str], live: Iterable[str]) -> None:
        """Keep whatever has the name of a file that is missing; DataFileError when none that is live is there."""
        missing = {path for path in named if not self._holds(path)}
        found = list(live)
        if found and missing.issuperset(found):
            raise DataFileError(
                f"none of the {len(found)} live files is seen from here, {found[0]} for one: nothing is removed"
            )
        names = {basename(path) for path in missing}
        self.referenced |= {place for place in self.listed if basename(place) in names}
        self.is_whole = not missing

    def _holds(self, path: str) -> bool:
        """Whether a file is seen. In an object store nothing is asked for outside of the data path: that would be at a place
        that a proposal chose, with the rights of whoever cleans."""
        return not self.listed.keys().isdisjoint(places_of(path)) or (is_local(path) and stored_file(path) is not None)


def _folders_of(place: str) -> Iterator[str]:
    """All that a file is in."""
    while place := place.rpartition("/")[0]:
        yield place


def check_marked(data_path: str, log_id: bytes, log: str) -> None:
    """Raises ConfigurationError unless a data path says that its files are this log's."""
    if check_owner(data_path, log_id, log) is None:
        raise ConfigurationError(
            f"nothing was removed: no {MARKER} in {data_path} says that its files are log {log}'s. If they are, "
            "`commitlog init` writes it"
        )


def connected(settings: Settings) -> Connection:
    """A connection that may write the catalog."""
    conn = connect(catalog_url(settings), autocommit=True)
    mark_projector(conn)
    return conn


def _checked(settings: Settings, conn: Connection, on_progress: Callable[[int, int], None]) -> CheckedCatalog:
    """The catalog, which is an image of the log."""
    catalog = checked_catalog(conn, settings, on_progress)
    if catalog is None:
        raise CatalogMismatchError("there is no catalog yet: `commitlog init`")
    wrong = [*check_position(catalog), *(() if catalog.log.state is None else findings(check_live_files, catalog))]
    if wrong:
        raise CatalogMismatchError(f"nothing was removed: {wrong[0].what}; see `commitlog doctor`")
    return catalog
