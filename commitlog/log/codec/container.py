"""Avro container files, in which checkpoints are: any reader of Avro opens them.

Source: Apache Avro 1.12 specification, "Object container files".
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol

from librt.strings import BytesWriter

from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.log.codec.avro import Cursor, blob, long, mapping
from commitlog.log.codec.framing import schemas_dir
from commitlog.log.codec.records.checkpoint_section import read_checkpoint_section, write_checkpoint_section

_MAGIC = b"Obj\x01"
_SYNC_SIZE_BYTES = 16
_AHEAD = 2
_SMALL_BYTES = 1 << 16
_SCHEMA = "checkpoint_section.avsc"


class Sink(Protocol):
    """Takes bytes."""

    def write(self, data: bytes, /) -> int:
        """Takes all of them."""


def write_sections(sink: Sink, sections: Iterable[CheckpointSection], told: Mapping[str, str], sync: bytes) -> None:
    """Writes a container of sections, one a block.

    Args:
        sink: where to.
        sections: what it holds.
        told: what its head says besides.
        sync: 16 bytes that no other file has, which stand between the blocks.
    """
    schema = (schemas_dir() / _SCHEMA).read_bytes()
    head = {"avro.schema": schema, "avro.codec": b"deflate", **{name: text.encode() for name, text in told.items()}}
    out = BytesWriter()
    out.write(_MAGIC)
    mapping(out, blob, head)
    out.write(sync)
    sink.write(out.getvalue())
    for section in sections:
        packer = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS)
        body, out = BytesWriter(), BytesWriter()
        write_checkpoint_section(body, section)
        long(out, 1)
        blob(out, packer.compress(body.getvalue()) + packer.flush())
        out.write(sync)
        sink.write(out.getvalue())


def read_told(path: Path) -> dict[str, str]:
    """What the head of a container says; ValueError when it is none."""
    with path.open("rb") as file:
        told, _ = _read_head(file)
    return {name: value.decode() for name, value in told.items() if not name.startswith("avro.")}


def read_sections(path: Path) -> Iterator[CheckpointSection]:
    """The sections of a container that `write_sections` has written; of a large one a thread unpacks the next while one is
    looked at."""
    if path.stat().st_size <= _SMALL_BYTES:
        with path.open("rb") as file:
            for block in _read_blocks(file):
                yield from _sections_in(*_unpacked(*block))
        return
    with path.open("rb") as file, ThreadPoolExecutor(1) as pool:
        unpacked: deque[Future[tuple[int, bytes]]] = deque()
        for block in _read_blocks(file):
            unpacked.append(pool.submit(_unpacked, *block))
            if len(unpacked) > _AHEAD:
                yield from _sections_in(*unpacked.popleft().result())
        for each in unpacked:
            yield from _sections_in(*each.result())


def _read_blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """How many sections each holds, and its bytes as they are written."""
    _, sync = _read_head(file)
    while first := file.read(1):
        count = _read_long(file, first)
        packed = file.read(_read_long(file, file.read(1)))
        if file.read(_SYNC_SIZE_BYTES) != sync:
            raise ValueError("a block does not end where it says")
        yield count, packed


def _unpacked(count: int, packed: bytes) -> tuple[int, bytes]:
    return count, zlib.decompress(packed, wbits=-zlib.MAX_WBITS)


def _sections_in(count: int, data: bytes) -> Iterator[CheckpointSection]:
    cursor = Cursor(data)
    for _ in range(count):
        yield read_checkpoint_section(cursor)


def _read_head(file: IO[bytes]) -> tuple[dict[str, bytes], bytes]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("no Avro container file")
    told: dict[str, bytes] = {}
    while count := _read_long(file, file.read(1)):
        for _ in range(count):
            name = file.read(_read_long(file, file.read(1))).decode()
            told[name] = file.read(_read_long(file, file.read(1)))
    return told, file.read(_SYNC_SIZE_BYTES)


def _read_long(file: IO[bytes], data: bytes) -> int:
    while data and data[-1] > 0x7F and (more := file.read(1)):
        data += more
    return Cursor(data).long()
