"""What is kept of the rows of keyed tables: the live ones, and within the window what each key was before.

A key is the canonical text of a row's primary key (``row_keys``). Only ``replay`` changes what is here, and ``forgetting`` ends
it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pyroaring import BitMap64

from commitlog.domain.model import ChangeKind, Row, RowOrigin
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold


class Origin(NamedTuple):
    """Node of a row version, for ties of LAST_UPDATE_WINS; a row made on this log has priority 0 and no name."""

    priority: int
    node: str


LOCAL = Origin(0, "")


class RowVersion:
    """A row of a keyed table as one snapshot made it. Nothing of it changes.

    time_us: when its writer made it, microseconds since 1970, for LAST_UPDATE_WINS. unique, references: canonical values by
    number of the UNIQUE constraint and of the foreign key, None where a column is NULL. image: the whole row, None for a
    live row whose last change has left the window. identity: which row it is for several sites, whatever key it gets; None: the
    first one of its key.
    """

    __slots__ = ("identity", "image", "origin", "references", "row_id", "snapshot_id", "time_us", "unique")

    def __init__(
        self,
        row_id: int,
        snapshot_id: int,
        time_us: int,
        origin: Origin,
        unique: tuple[str | None, ...],
        references: tuple[str | None, ...],
        image: Row | None,
        identity: str | None,
    ) -> None:
        self.row_id = row_id
        self.snapshot_id = snapshot_id
        self.time_us = time_us
        self.origin = origin
        self.unique = unique
        self.references = references
        self.image = image
        self.identity = identity

    def without_image(self) -> RowVersion:
        """What is kept of it beyond the window."""
        return self.with_image(None)

    def with_image(self, image: Row | None) -> RowVersion:
        """The same with another image."""
        return RowVersion(
            self.row_id,
            self.snapshot_id,
            self.time_us,
            self.origin,
            self.unique,
            self.references,
            image,
            self.identity,
        )


class KeyVersion(NamedTuple):
    """From this snapshot on a key has ``version`` (None: no row)."""

    snapshot_id: int
    version: RowVersion | None


NO_ROW_BEFORE = KeyVersion(-1, None)
"""What a key that is new within the window was before."""


class RowTouch(NamedTuple):
    """The last change or flush of a row; ``other_at``: the last flush before that change, or change before that flush."""

    snapshot_id: int
    kind: ChangeKind
    other_at: int = -1

    def last(self, committed: ChangeKind) -> int:
        """Snapshot of the last FLUSH, or, of any other kind, of the last change; -1 if none."""
        return self.snapshot_id if (self.kind is _FLUSH) == (committed is _FLUSH) else self.other_at


_FLUSH = ChangeKind.FLUSH


class SiteVersion(NamedTuple):
    """A version of a row that no other supersedes, as several sites know it.

    gone: whether it is the row's end. image: the row; None where it is gone, and of a live row beyond the window. moves:
    whether it is gone since the row got another key. identity: as of a RowVersion.
    """

    origin: RowOrigin
    gone: bool
    image: Row | None
    moves: bool = False
    identity: str | None = None


class SiteRow(NamedTuple):
    """What is known of a row beside what this log made of it: who made what stands, and what lost against it.

    standing: of the live row, or of its end when there is none. rivals: made at the same time by others, and not superseded
    since; a later version may have one of them stand after all. moves: whether what stands is its end since it got another key.
    """

    standing: RowOrigin
    rivals: tuple[SiteVersion, ...]
    moves: bool = False


class KeyedRows:
    """The rows of one keyed table.

    live: the row of each key. unique: for each UNIQUE constraint the key that holds a value; referring: for each foreign key
    the keys of the rows that refer to a value. All three are of the head, and go with the row.

    history: for each key that changed within the window its versions, oldest first; the first one is what it was before, at
    the snapshot that made it (-1: no row). row_touches: by row id, also of rows that are gone, in order of time. What has
    left the window is forgotten from both.

    inlined: ids of the live rows that are outside of files; a FLUSH ends that.

    sites: by key, of a log that is a node, what other sites made or this one ended; a row that this log made and nobody
    else changed is not in it.

    held: the versions that would stand if other rows let them; of their ids and snapshots only when they were held counts.
    held_unique, held_referring: as ``unique`` and ``referring``, but what they ask for, which several may.

    identified: the keys of the live rows and of those held back that have an identity of their own, by that.
    """

    __slots__ = (
        "held",
        "held_referring",
        "held_unique",
        "history",
        "identified",
        "inlined",
        "live",
        "referring",
        "row_touches",
        "sites",
        "unique",
    )

    def __init__(self, unique_count: int, foreign_key_count: int) -> None:
        self.live: dict[str, RowVersion] = {}
        self.unique: list[dict[str, str]] = [{} for _ in range(unique_count)]
        self.referring: list[dict[str, set[str]]] = [{} for _ in range(foreign_key_count)]
        self.history: dict[str, list[KeyVersion]] = {}
        # A plain dict finds its first key the later, the more of those before it are gone.
        self.row_touches: OrderedDict[int, RowTouch] = OrderedDict()
        self.inlined = BitMap64()
        self.sites: dict[str, SiteRow] = {}
        self.held: dict[str, RowVersion] = {}
        self.held_unique: list[dict[str, set[str]]] = [{} for _ in range(unique_count)]
        self.held_referring: list[dict[str, set[str]]] = [{} for _ in range(foreign_key_count)]
        self.identified: dict[str, set[str]] = {}

    @staticmethod
    def of(definition: TableDefinition) -> KeyedRows | None:
        """The empty rows of a new table; None when it has no primary key."""
        return KeyedRows(len(definition.unique), len(definition.foreign_keys)) if definition.keyed else None

    def stand(self, key: str, version: RowVersion) -> None:
        """Let a version stand under a key under which none does."""
        self.live[key] = version
        self.identify(key, version)
        for holders, value in zip(self.unique, version.unique, strict=True):
            if value is not None:
                holders[value] = key
        for children, value in zip(self.referring, version.references, strict=True):
            if value is not None:
                children.setdefault(value, set()).add(key)

    def fall(self, key: str) -> RowVersion:
        """Let the version that stands under a key stand no longer; which it was."""
        version = self.live.pop(key)
        self.unidentify(key, version)
        for holders, value in zip(self.unique, version.unique, strict=True):
            if value is not None and holders.get(value) == key:
                del holders[value]
        for children, value in zip(self.referring, version.references, strict=True):
            if value is not None:
                children[value].discard(key)
                if not children[value]:
                    del children[value]
        return version

    def hold(self, key: str, version: RowVersion) -> None:
        """Keep a version that cannot stand now."""
        self.release(key)
        self.held[key] = version
        self.identify(key, version)
        for index, value in self._asked(version):
            if value is not None:
                index.setdefault(value, set()).add(key)

    def release(self, key: str) -> RowVersion | None:
        """Hold nothing more under a key; what was held."""
        version = self.held.pop(key, None)
        if version is None:
            return None
        self.unidentify(key, version)
        for index, value in self._asked(version):
            if value is not None:
                index[value].discard(key)
                if not index[value]:
                    del index[value]
        return version

    def identify(self, key: str, version: RowVersion) -> None:
        """A row with this key stands, or is held back."""
        if version.identity is not None:
            self.identified.setdefault(version.identity, set()).add(key)

    def unidentify(self, key: str, version: RowVersion) -> None:
        """It does no more."""
        if version.identity is not None:
            keys = self.identified[version.identity]
            keys.discard(key)
            if not keys:
                del self.identified[version.identity]

    def _asked(self, version: RowVersion) -> list[tuple[dict[str, set[str]], str | None]]:
        return [
            *zip(self.held_unique, version.unique, strict=True),
            *zip(self.held_referring, version.references, strict=True),
        ]

    def rename_columns(self, names: Mapping[str, str | None]) -> None:
        """Have every image that is kept call columns as its table does now; ``names``: by the folded one of before; None: it is
        gone."""

        def image_of(image: Row | None) -> Row | None:
            if image is None:
                return None
            named = [(names.get(fold(each)), value) for each, value in image.items()]
            return {each: value for each, value in named if each is not None}

        made: dict[int, RowVersion] = {}

        def renamed(version: RowVersion) -> RowVersion:
            found = made.get(id(version))
            if found is None:
                found = made[id(version)] = version.with_image(image_of(version.image))
            return found

        for key, versions in self.history.items():
            if key in self.live:
                self.live[key] = renamed(self.live[key])
            self.history[key] = [
                each if each.version is None else KeyVersion(each.snapshot_id, renamed(each.version))
                for each in versions
            ]
        for key, version in self.held.items():
            self.held[key] = renamed(version)
        for key, known in self.sites.items():
            if known.rivals:
                rivals = tuple([each._replace(image=image_of(each.image)) for each in known.rivals])
                self.sites[key] = known._replace(rivals=rivals)

    def kept_images(self) -> Iterator[tuple[str, Row]]:
        """The rows, by key, that do not stand now and may stand again: those held back, and those that lost against others."""
        for key, version in self.held.items():
            assert version.image is not None
            yield key, version.image
        for key, known in self.sites.items():
            for rival in known.rivals:
                if rival.image is not None:
                    yield key, rival.image

    def at(self, key: str, base_snapshot_id: int) -> RowVersion | None:
        """The version of a key at a base within the window."""
        versions = self.history.get(key)
        if versions is None:
            return self.live.get(key)
        found: RowVersion | None = None
        for snapshot_id, version in versions:
            if snapshot_id > base_snapshot_id:
                break
            found = version
        return found

    def last_touch(self, row_id: int) -> int:
        """Snapshot of the last change or flush of a row within the window, -1 if none."""
        touch = self.row_touches.get(row_id)
        return -1 if touch is None else touch.snapshot_id

    def forget_touches(self, snapshot_id: int) -> None:
        """Let the touches of a snapshot, and of those before it, leave the window."""
        touches = self.row_touches
        while touches and touches[oldest := next(iter(touches))].snapshot_id <= snapshot_id:
            del touches[oldest]

    def last_change(self, key: str) -> int:
        """Snapshot of the last change of a key within the window, -1 if none."""
        versions = self.history.get(key)
        return versions[-1].snapshot_id if versions else -1
