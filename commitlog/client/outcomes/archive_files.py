"""The files of an archive: which there are, what they hold and say of themselves, and how one comes to be."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from commitlog.client.outcomes import outcome_rows
from commitlog.domain.model import Genesis
from commitlog.errors import ConfigurationError, LogIntegrityError
from commitlog.log.results import LogPosition, ResultRecord

RANGE_SNAPSHOTS = 100_000
ROW_GROUP_ROWS = 20_000
ROW_GROUP_BYTES = 16 * 1024 * 1024
"""Of records as they are, which take some ten times as much in memory once they are decoded."""
BATCH_ROWS = 5_000
_POSITION = b"commitlog.position"
_RANGE = b"commitlog.range_snapshots"
_AFTER = b"commitlog.after_seq"
_END = "end"
_RECORD = ["raw", "takeovers", "results_offset"]
LEFT_S = 24 * 3600.0
"""A file in the making that nobody has written to for so long was left by an archiver that was killed."""
_PART_NAME = re.compile(r"(snapshots=\d+-\d+|end)\.[0-9a-f-]{36}\.part")
_RANGE_NAME = re.compile(r"snapshots=(\d+)-(\d+)/outcomes\.parquet")
_SCHEMA = pa.schema(
    [
        *outcome_rows.OUTCOMES,
        pa.field("hash", pa.binary()),
        pa.field("raw", pa.binary()),
        pa.field("takeovers", pa.list_(pa.binary())),
    ]
)


@dataclass(frozen=True, slots=True)
class ArchivedRange:
    """One file: its snapshots, both inclusive, and how many outcomes it holds."""

    path: str
    first_snapshot_id: int
    last_snapshot_id: int
    outcomes: int


class ArchivedRecord(NamedTuple):
    """A record that counts, where it was in the results, and the takeovers right before it."""

    raw: bytes
    takeovers: tuple[bytes, ...]
    offset: int


class PlacedRecord(NamedTuple):
    """A record, and where it is in its log."""

    record: ResultRecord
    position: LogPosition


class ArchiveFiles:
    """The archive's folder."""

    def __init__(self, to: str) -> None:
        self._to = to.rstrip("/")
        try:
            self._filesystem, self._folder = fs.FileSystem.from_uri(
                self._to if "://" in self._to else str(Path(self._to).absolute())
            )
        except pa.ArrowInvalid as error:
            raise ConfigurationError(
                f"{to} is no place for an archive: {error}. In the URL of a store write a blank, and what is beyond ASCII, as "
                "%20 and the like"
            ) from None

    def url(self, name: str) -> str:
        return f"{self._to}/{name}"

    def names(self) -> list[str]:
        """The files of the closed ranges, in their order.

        Raises:
            ConfigurationError: its place is a file.
            LogIntegrityError: one is missing before another one.
        """
        selected = fs.FileSelector(self._folder, allow_not_found=True, recursive=True)
        try:
            found = self._filesystem.get_file_info(selected)
        except NotADirectoryError:
            raise ConfigurationError(
                f"{self._to} is a file: an archive is a folder, or an object store's URL"
            ) from None
        prefix = len(self._folder.rstrip("/")) + 1
        names, next_one = list[str](), 0
        for each in sorted(found, key=attrgetter("path")):
            named = _RANGE_NAME.fullmatch(each.path[prefix:])
            if named is None:
                continue
            first, last = map(int, named.groups())
            if first != next_one:
                raise LogIntegrityError(
                    f"the archive at {self._to} is not whole: the file of snapshots {next_one} to {first - 1} is missing"
                )
            names.append(named[0])
            next_one = last + 1
        return names

    def end_names(self) -> list[str]:
        """The file of what comes after the closed ranges, where a backup has one that goes beyond them. It may hold some of
        what they do, if another process has closed ranges meanwhile.

        Raises:
            LogIntegrityError: it begins later than they end, so ranges are missing.
        """
        name, names = f"{_END}/outcomes.parquet", self.names()
        if self._filesystem.get_file_info(f"{self._folder}/{name}").type is not fs.FileType.File:
            return []
        begins = int(self._told(name, _AFTER))
        closed = self.position(names[-1]).seq if names else -1
        if begins > closed:
            raise LogIntegrityError(
                f"the archive at {self._to} is not whole: its end comes after outcome {begins}, its ranges "
                + (f"end with outcome {closed}" if names else "are missing")
            )
        return [name] if self.position(name).seq > closed else []

    def last_positions(self) -> list[LogPosition]:
        """The last outcome of the archive, and of a backup the one that it ends with."""
        return [self.position(name) for name in (*self.names()[-1:], *self.end_names())]

    def range_snapshots(self, asked: int | None) -> int:
        """How many snapshots each file has, which is what is asked for only where there is none yet."""
        names = self.names()
        if not names:
            return asked or RANGE_SNAPSHOTS
        length = int(self._told(names[0], _RANGE))
        if asked not in (None, length):
            raise ConfigurationError(
                f"the archive at {self._to} has ranges of {length} snapshots: go on with that number, or without any"
            )
        return length

    def position(self, name: str) -> LogPosition:
        """The last outcome that a file holds."""
        with self._as_written(name):
            log_id, seq, epoch, digest, offset = self._told(name, _POSITION)
            return LogPosition(bytes.fromhex(log_id), seq, epoch, bytes.fromhex(digest), offset)

    def _told(self, name: str, key: bytes) -> Any:
        """What a file says of itself."""
        with self._as_written(name):
            metadata = pq.read_metadata(f"{self._folder}/{name}", filesystem=self._filesystem).metadata or {}
            return json.loads(metadata[key])

    @contextmanager
    def _as_written(self, name: str) -> Iterator[None]:
        """Raise LogIntegrityError for what Arrow, or we, cannot read of a file that somebody has changed or cut."""
        try:
            yield
        except (pa.ArrowException, LookupError, TypeError, ValueError, OSError) as error:
            # Of a broken footer Arrow says so, too; of a store it may be that it does not answer.
            if isinstance(error, OSError) and not (error.errno is None and self._is_here):
                raise
            raise LogIntegrityError(
                f"{self.url(name)} is not as `commitlog archive` or `backup` has written it: {error}"
            ) from None

    @property
    def _is_here(self) -> bool:
        return isinstance(self._filesystem, fs.LocalFileSystem)

    def records(self, name: str) -> Iterator[ArchivedRecord]:
        """What a file holds."""
        with self._as_written(name), self._filesystem.open_input_file(f"{self._folder}/{name}") as opened:
            file, count = pq.ParquetFile(opened, page_checksum_verification=True), 0
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], columns=_RECORD):
                    for row in batch.to_pylist():
                        takeovers = tuple(map(bytes, row["takeovers"]))
                        yield ArchivedRecord(bytes(row["raw"]), takeovers, int(row["results_offset"]))
                        count += 1
            # Of a footer that was changed Arrow takes whatever number of parts it says.
            if count != file.metadata.num_rows:
                raise ValueError(f"it holds {count} records of {file.metadata.num_rows}")

    def write_ranges(self, records: Iterator[PlacedRecord], length: int, number: int) -> Iterator[ArchivedRange]:
        """Write each range that is closed, from that of a number on; of the last one, which is not yet, nothing stays."""
        read = next(records, None)
        while read is not None:
            first, last = number * length, (number + 1) * length - 1
            name = f"snapshots={first:012d}-{last:012d}/outcomes.parquet"
            with self._part(name) as part:
                while read is not None and _head_of(read.record) // length <= number:
                    part.add(read)
                    read = next(records, None)
                if read is None:
                    return
                part.end({_RANGE: str(length).encode()})
                self._put(part.aside, name)
            yield ArchivedRange(self.url(name), first, last, part.count)
            number += 1

    def write_end(self, after: LogPosition | None, records: Iterator[PlacedRecord]) -> LogPosition | None:
        """Write what comes after an outcome of the closed ranges (None: what there is) in the place of what was there, unless
        that goes further by now: backups may be made at the same time.

        Returns:
            The last outcome of all that is backed up; None where there is not even a genesis.
        """
        name, seq = f"{_END}/outcomes.parquet", -1 if after is None else after.seq
        with self._part(name) as part:
            part.position = after
            for each in records:
                part.add(each)
            at = part.position
            if at is not None:
                part.end({_AFTER: str(seq).encode()})
                if not any(self.position(each).seq > at.seq for each in self.end_names()):
                    self._put(part.aside, name)
        return at

    def remove_left(self) -> None:
        """Remove what archivers were writing when they were killed."""
        for each in self._filesystem.get_file_info(fs.FileSelector(self._folder, allow_not_found=True)):
            left_s = 0 if each.mtime is None else time.time() - each.mtime.timestamp()
            if _PART_NAME.fullmatch(each.base_name) and left_s > LEFT_S:
                # Another archiver may have done so meanwhile.
                with suppress(OSError):
                    self._filesystem.delete_file(each.path)

    @contextmanager
    def _part(self, name: str) -> Iterator[_Part]:
        """A file in the making. It goes at the end, unless it was put into its own place: of a full disk it would take the room
        that the next one needs."""
        part = _Part(self._filesystem, self._folder, name)
        try:
            yield part
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(error.errno, os.strerror(error.errno), part.aside) from error
        finally:
            part.close()

    def _put(self, aside: str, name: str) -> None:
        """Give a file its own name; it is on the disk by then, for what is archived may be trimmed next."""
        place = f"{self._folder}/{name}"
        self._sync(aside)
        self._filesystem.create_dir(place.rpartition("/")[0], recursive=True)
        self._filesystem.move(aside, place)
        for folder in (place.rpartition("/")[0], self._folder):
            self._sync(folder)

    def _sync(self, place: str) -> None:
        """Have the disk hold a file or folder; a store has done so when it answers."""
        if self._is_here:
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


class _Part:
    """A file under a name of its own, for another process may be writing the same one. It is begun when there is much to write,
    or all of it: records are not kept in memory.

    Attributes:
        aside: where it is.
        count: how many records it holds.
        position: the last of them, or what it begins after.
    """

    def __init__(self, filesystem: fs.FileSystem, folder: str, name: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        # Not beside where it is put: whoever removed the folder there would do so to another archiver, too.
        self.aside = f"{folder}/{name.partition('/')[0]}.{uuid4()}.part"
        self.count = 0
        self.position: LogPosition | None = None
        self._waiting: list[ResultRecord] = []
        self._waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, read: PlacedRecord) -> None:
        """Add a record."""
        self._waiting.append(read.record)
        self._waiting_bytes += len(read.record.raw)
        self.count += 1
        self.position = read.position
        if len(self._waiting) >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write()

    def end(self, metadata: dict[bytes, bytes]) -> None:
        """Write what is left, and what is to be known of it."""
        assert self.position is not None
        writer = self._write()
        writer.add_key_value_metadata({**metadata, _POSITION: _noted(self.position)})
        writer.close()

    def close(self) -> None:
        """Have nothing of it left that was not put elsewhere."""
        if self._writer is None:
            return
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._filesystem.delete_file(self.aside)

    def _write(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._filesystem.create_dir(self._folder, recursive=True)
            self._writer = pq.ParquetWriter(
                self.aside, _SCHEMA, filesystem=self._filesystem, compression="zstd", write_page_checksum=True
            )
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            self._writer.write_batch(pa.RecordBatch.from_pylist([_row(each) for each in waiting], _SCHEMA))
        return self._writer


def _noted(at: LogPosition) -> bytes:
    return json.dumps([at.log_id.hex(), at.seq, at.epoch, at.hash.hex(), at.results_offset]).encode()


def _row(record: ResultRecord) -> dict[str, object]:
    typed = {"seq": 0} if isinstance(record.value, Genesis) else outcome_rows.to_row(record.value, record.offset)
    return {
        **typed,
        "results_offset": record.offset,
        "hash": record.hash,
        "raw": record.raw,
        "takeovers": record.takeovers,
    }


def _head_of(record: ResultRecord) -> int:
    return 0 if isinstance(record.value, Genesis) else record.value.head_snapshot_id
