"""An archive that was changed or cut anywhere: what it held, or that it is not as it was written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from chains import Written

from commitlog.client.outcomes.archive import archived_results
from commitlog.client.outcomes.archive_files import ArchiveFiles, PlacedRecord
from commitlog.domain import model as m
from commitlog.errors import LogIntegrityError
from commitlog.log.chain import Accepted, Chain
from commitlog.log.results import LogPosition, ResultRecord, decode_accepted

SEED = 7
MUTATED = 200


def placed(log: Written) -> Iterator[PlacedRecord]:
    chain = Chain()
    for offset, raw in enumerate(log.records):
        step = chain.take(raw, offset)
        assert isinstance(step, Accepted)
        head = step.head
        if isinstance(head, m.Genesis):
            value, seq = head, 0
        else:
            value = decode_accepted(raw, step)
            seq = value.seq
        at = LogPosition(b"L" * 16, seq, 0 if seq == 0 else 1, step.hash, offset)
        yield PlacedRecord(ResultRecord(value, offset, step.hash, raw, 0, ()), at)


def read(archive: Path) -> list[object]:
    position = ArchiveFiles(str(archive)).last_positions()
    return [*position, *((each.raw, each.offset, each.hash) for each in archived_results(str(archive), with_end=True))]


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """A bit is another one, most often in the footer, or the end is missing."""
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    place = chance.randrange(footer if chance.random() < 0.7 else 0, len(raw))
    if chance.random() < 0.2:
        return raw[:place]
    return raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]


def test_archive_when_any_bit_is_another_or_its_end_is_missing_then_read_as_it_was_or_refused(tmp_path: Path) -> None:
    log = Written()
    log.records += log.next_outcomes(30)
    files, file = ArchiveFiles(str(tmp_path)), tmp_path / "end" / "outcomes.parquet"
    files.write_end(None, placed(log))
    raw, whole = file.read_bytes(), read(tmp_path)
    assert len(whole) == 32
    chance, refused = random.Random(SEED), 0
    for number in range(MUTATED):
        file.write_bytes(mutated(raw, chance))
        try:
            found = read(tmp_path)
        except LogIntegrityError:
            refused += 1
        else:
            assert found[1:] == whole[1:], (SEED, number)
    assert 0 < refused < MUTATED


def test_archive_when_a_bit_of_an_offset_or_of_how_many_parts_it_has_is_another_then_refused(tmp_path: Path) -> None:
    log = Written()
    log.records += log.next_outcomes(30)
    files, file = ArchiveFiles(str(tmp_path)), tmp_path / "end" / "outcomes.parquet"
    files.write_end(None, placed(log))
    raw, whole, metadata = file.read_bytes(), read(tmp_path), pq.read_metadata(file)
    footer = len(raw) - 8 - metadata.serialized_size
    part = metadata.row_group(metadata.num_row_groups - 1)
    [offsets] = [each for each in map(part.column, range(part.num_columns)) if each.path_in_schema == "results_offset"]
    first = offsets.dictionary_page_offset or offsets.data_page_offset
    # A list's length comes with the type of what is in it, in thrift's compact form: of one part, which is a struct.
    parts = raw.index(b"\x19\x1c", footer, len(raw) - 8) + 1
    assert metadata.num_row_groups == 1
    changed = [raw[:parts] + b"\x0c" + raw[parts + 1 :]]
    for place in range(first, first + offsets.total_compressed_size):
        changed += [raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :] for bit in (0, 4)]
    for number, content in enumerate(changed):
        file.write_bytes(content)
        try:
            found = read(tmp_path)
        except LogIntegrityError:
            continue
        assert number > 0
        assert found[1:] == whole[1:], number


def test_archive_when_a_file_is_no_archive_then_says_which(tmp_path: Path) -> None:
    (tmp_path / "end").mkdir()
    for content in (b"", b"PAR1" * 3, b"\0" * 100):
        (tmp_path / "end" / "outcomes.parquet").write_bytes(content)
        with pytest.raises(LogIntegrityError, match=r"end/outcomes\.parquet is not as `commitlog archive`"):
            read(tmp_path)
