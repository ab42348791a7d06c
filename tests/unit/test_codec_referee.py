"""The referee: a general Avro library reads what the codec wrote, and writes the same bytes."""

from __future__ import annotations

import functools
import io
import json
import random
import re
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap64
from random_records import (
    BIGINTS,
    CHANGES,
    GOOD,
    HASH,
    INTS,
    LOG_ID,
    LOG_SETTINGS,
    OUTCOMES,
    QUICK,
    RECEIPTS,
    SCALARS,
    STATISTICS,
    TEXTS,
    append,
    optional,
    proposals,
    tuples,
)

from commitlog.domain import model as m
from commitlog.domain.model.record import Record
from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.errors import MalformedRecordError
from commitlog.log import codec
from commitlog.log.codec import framing
from commitlog.log.codec.container import read_sections, read_told, write_sections
from commitlog.log.codec.framing import HEADER_SIZE_BYTES, schemas_dir
from commitlog.log.codec.records.headers import HEADERS

pytestmark = pytest.mark.no_cover


@functools.cache
def parsed(record: str) -> Any:
    path = schemas_dir() / f"{re.sub(r'(?<!^)(?=[A-Z])', '_', record).lower()}.avsc"
    return fastavro.parse_schema(json.loads(path.read_text()))


def refereed(record: str, data: bytes) -> dict[str, Any]:
    """What the library reads in the bytes, once it has written the same bytes again."""
    body = io.BytesIO(data[HEADER_SIZE_BYTES:])
    fields: Any = fastavro.schemaless_reader(body, parsed(record), None, return_record_name=True)
    assert body.read() == b""
    again = io.BytesIO()
    fastavro.schemaless_writer(again, parsed(record), fields)
    assert HEADERS[record] + again.getvalue() == data
    return fields


def is_same(avro: Any, value: Any) -> bool:
    """Whether what the library read is the value."""
    match avro:
        case (str(name), dict(fields)) if name.startswith("commitlog."):
            return is_same(fields, value) and name in ("commitlog.Nested", f"commitlog.{type(value).__name__}")
        case (str(name), inner) if name.startswith("commitlog."):
            return is_same(inner, value)
        case {"json": str(text)}:
            return bool(json.loads(text) == value)
        case dict() if isinstance(value, dict):
            return avro.keys() == value.keys() and all(is_same(avro[name], value[name]) for name in avro)
        case dict():
            return all(is_same(avro[name], getattr(value, name)) for name in avro.keys() & dir(value))
        case list() if isinstance(value, FrozenBitMap64):
            return avro == list(value)
        case list() if all(isinstance(each, m.MappedColumn) for each in value) and value:
            return flat_names(value) == sorted((each["source_name"], each["column"]) for each in avro)
        case list():
            return len(avro) == len(value) and all(map(is_same, avro, value))
        case bytes() if isinstance(value, FrozenBitMap64):
            return avro == value.serialize()
        case bytes() if isinstance(value, tuple):
            return avro == codec.encode_statistics(value)
        case _ if isinstance(value, Record | FrozenBitMap64):
            return False
        case str() if isinstance(value, StrEnum):
            return value.name == avro
        case _:
            return type(avro) is type(value) and bool(avro == value)


def flat_names(columns: tuple[m.MappedColumn, ...]) -> list[tuple[str, str]]:
    """Every column of a name mapping, however deep."""
    inner = [name for column in columns for name in flat_names(column.children)]
    return sorted([*((column.source_name, column.column) for column in columns), *inner])


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_proposal_when_the_library_reads_it_then_bytes_and_values_are_the_same(kind: type) -> None:
    @QUICK
    @given(proposals(st.lists(CHANGES[kind], min_size=1, max_size=2).map(tuple)))
    def check(given_proposal: m.Proposal) -> None:
        data = codec.encode_proposal(given_proposal)
        assert is_same(refereed("Proposal", data), given_proposal)

    check()


@QUICK
@given(OUTCOMES)
def test_outcome_when_the_library_reads_it_then_bytes_and_values_are_the_same(outcome: m.Outcome) -> None:
    data = codec.encode_outcome(outcome, log_id=LOG_ID, prev_hash=HASH, told=77)
    fields = refereed("Outcome", data)
    assert (fields.pop("log_id"), fields.pop("prev_hash"), fields.pop("told")) == (LOG_ID, HASH, 77)
    raw = fields.pop("proposal")
    kept = outcome.proposal is not None and outcome.reason is not m.Reason.MALFORMED
    assert raw == (codec.encode_proposal(outcome.proposal) if kept and outcome.proposal else None)
    assert is_same(fields, outcome)


@QUICK
@given(st.lists(RECEIPTS, max_size=4))
def test_receipts_when_the_library_reads_them_then_bytes_and_values_are_the_same(receipts: list[m.Receipt]) -> None:
    data = codec.encode_receipts(receipts, log_id=LOG_ID, partition=3)
    fields = refereed("Receipts", data)
    assert [each["offset"] for each in fields["receipts"]] == [each.source.offset for each in receipts]
    assert is_same(fields["receipts"], tuple(receipts))


@QUICK
@given(tuples(STATISTICS))
def test_statistics_when_the_library_reads_them_then_bytes_and_values_are_the_same(
    statistics: tuple[m.ColumnStatistics, ...],
) -> None:
    if statistics:
        for name, column in refereed("FileStatistics", codec.encode_statistics(statistics)).items():
            assert is_same(column, tuple(getattr(each, name) for each in statistics))


@QUICK
@given(LOG_SETTINGS, optional(TEXTS), INTS, BIGINTS)
def test_genesis_when_the_library_reads_it_then_bytes_and_values_are_the_same(
    log_settings: m.LogSettings, data_path: str | None, partitions: int, created_at_ms: int
) -> None:
    genesis = m.Genesis(LOG_ID, partitions, created_at_ms, data_path=data_path, settings=log_settings)
    assert is_same(refereed("Genesis", codec.encode_genesis(genesis)), genesis)


@QUICK
@given(BIGINTS, BIGINTS, BIGINTS, st.booleans(), optional(st.binary(max_size=9)), TEXTS)
def test_small_records_when_the_library_reads_them_then_bytes_and_values_are_the_same(
    epoch: int, seq: int, sent_at_ms: int, leaving: bool, value: bytes | None, detail: str
) -> None:
    takeover = codec.Takeover(LOG_ID, epoch, b"I" * 16, sent_at_ms)
    assert is_same(refereed("Takeover", codec.encode_takeover(takeover)), takeover)
    heartbeat = codec.Heartbeat(LOG_ID, epoch, b"I" * 16, seq, sent_at_ms, leaving)
    assert is_same(refereed("Heartbeat", codec.encode_heartbeat(heartbeat)), heartbeat)
    letter = codec.DeadLetter(LOG_ID, seq, "x.proposals", 2, 9, detail, sent_at_ms, None, 5, value)
    assert is_same(refereed("DeadLetter", codec.encode_dead_letter(letter)), letter)
    trim = codec.Trim(value or b"", LOG_ID, seq, epoch, b"H" * 32, seq, seq, detail, sent_at_ms)
    assert is_same(refereed("Trim", codec.encode_trim(trim)), trim)


PLAIN = st.recursive(
    st.one_of(SCALARS, st.binary(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@QUICK
@given(st.lists(PLAIN, max_size=4), st.booleans())
def test_container_when_the_library_reads_it_then_has_the_same_values(items: list[Any], whole: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sections.avro"
        sections = [CheckpointSection("first", whole, items), CheckpointSection("second", True, [7])]
        with path.open("wb") as file:
            write_sections(file, sections, {"commitlog.seq": "7"}, b"S" * 16)
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            assert reader.metadata["commitlog.seq"] == "7"
            assert [plain(each["items"]) for each in reader] == [items, [7]]
        assert list(read_sections(path)) == sections
        assert read_told(path) == {"commitlog.seq": "7"}


def plain(value: Any) -> Any:
    """Plain values as they are, out of the records that hold lists and maps."""
    if isinstance(value, dict):
        return plain(value["items"]) if "items" in value else {k: plain(v) for k, v in value["entries"].items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def test_bytes_when_damaged_then_the_library_reads_what_we_read() -> None:
    """Bytes that both take for a proposal are the same proposal for both."""
    chance, taken = random.Random(11), 0
    for _ in range(20_000):
        data = bytearray(GOOD)
        for _ in range(chance.randrange(1, 3)):
            data[chance.randrange(HEADER_SIZE_BYTES, len(data))] = chance.randrange(256)
        try:
            ours = codec.decode_proposal(bytes(data))
        except MalformedRecordError:
            continue
        body = io.BytesIO(data[HEADER_SIZE_BYTES:])
        theirs: Any = fastavro.schemaless_reader(body, parsed("Proposal"), None, return_record_name=True)
        assert is_same(theirs, ours)
        taken += 1
    assert taken > 1_000


def test_random_outcomes_then_every_field_of_their_schema_varies() -> None:
    read: list[dict[str, Any]] = []

    @QUICK
    @given(OUTCOMES)
    def draw(outcome: m.Outcome) -> None:
        read.append(refereed("Outcome", codec.encode_outcome(outcome, log_id=LOG_ID, prev_hash=HASH, told=7)))

    draw()
    same = {name for name in read[0] if len({repr(each[name]) for each in read}) < 2}
    assert same == {"log_id", "prev_hash", "told"}


def test_random_receipts_then_every_field_of_their_schema_varies() -> None:
    read: list[dict[str, Any]] = []

    @QUICK
    @given(RECEIPTS)
    def draw(receipt: m.Receipt) -> None:
        read.extend(refereed("Receipts", codec.encode_receipts([receipt], log_id=LOG_ID, partition=3))["receipts"])

    draw()
    assert [name for name in read[0] if len({repr(each[name]) for each in read}) < 2] == []


def test_header_when_written_then_is_the_marker_and_the_little_endian_fingerprint() -> None:
    # CRC-64-AVRO of "int" is 0x7275d51a3f395c8f by the specification.
    assert fastavro.schema.fingerprint('"int"', "CRC-64-AVRO") == "8f5c393f1ad57572"
    fingerprint = fastavro.schema.fingerprint(
        fastavro.schema.to_parsing_canonical_form(parsed("Proposal")), "CRC-64-AVRO"
    )
    assert GOOD[:10] == b"\xc3\x01" + bytes.fromhex(fingerprint)


def test_schema_when_an_earlier_version_is_there_then_its_records_read_as_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal of a version that had no `extra`, and a change more."""
    newer = json.loads((schemas_dir() / "proposal.avsc").read_text())
    earlier = {**newer, "fields": [field for field in newer["fields"] if field["name"] != "extra"]}
    written = tmp_path / "proposal.1.avsc"
    written.write_text(json.dumps(earlier))
    header = b"\xc3\x01earlier!"
    monkeypatch.setitem(framing.EARLIER, header, ("Proposal", str(written), "proposal.avsc"))
    whole = append(m.DataFile("p", 1, 2, partition_values=(1, "a"))).replace(author="somebody")
    fields = refereed("Proposal", codec.encode_proposal(whole))
    del fields["extra"]
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(earlier), fields)
    assert codec.decode_proposal(header + body.getvalue()) == whole
    with pytest.raises(MalformedRecordError, match="no Proposal"):
        codec.decode_proposal(header + body.getvalue()[:-1])
    with pytest.raises(MalformedRecordError, match="1 bytes too many after the Proposal"):
        codec.decode_proposal(header + body.getvalue() + b"?")
