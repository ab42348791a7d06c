"""The codec: every value comes back as it was, and bytes that are no record say so in one way."""

from __future__ import annotations

import functools
import io
import json
import random
import re
import string
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64, FrozenBitMap64

from commitlog.domain import model as m
from commitlog.domain.model.record import Record
from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.errors import MalformedRecordError
from commitlog.log import codec
from commitlog.log.codec import framing
from commitlog.log.codec.container import read_sections, read_told, write_sections
from commitlog.log.codec.framing import HEADER_SIZE_BYTES, MARKER, schemas_dir
from commitlog.log.codec.records.headers import HEADERS

BIGINTS = st.integers(m.BIGINT_MIN, m.BIGINT_MAX)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(st.none(), st.booleans(), BIGINTS, FLOATS, TEXTS)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
ROWS = st.dictionaries(TEXTS, VALUES, max_size=4)
IDS = st.binary(min_size=16, max_size=16)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def tuples(values: st.SearchStrategy[Any], size_max: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=size_max).map(tuple)


POSITIONS = st.one_of(
    st.sets(st.integers(0, m.BIGINT_MAX), max_size=6).map(FrozenBitMap64),
    st.sampled_from([(3, 3), (-1,), (5, 1, 5)]),
)
STATISTICS = st.builds(
    m.ColumnStatistics,
    column=TEXTS,
    min=SCALARS,
    max=SCALARS,
    null_count=optional(BIGINTS),
    value_count=optional(BIGINTS),
    contains_nan=optional(st.booleans()),
    size_bytes=optional(BIGINTS),
)
MAPPED = st.recursive(
    st.builds(m.MappedColumn, TEXTS, TEXTS), lambda inner: st.builds(m.MappedColumn, TEXTS, TEXTS, tuples(inner))
)


def files(row_ids: st.SearchStrategy[Any]) -> st.SearchStrategy[m.DataFile]:
    return st.builds(
        m.DataFile,
        path=TEXTS,
        record_count=BIGINTS,
        file_size_bytes=BIGINTS,
        path_is_relative=st.booleans(),
        footer_size=optional(BIGINTS),
        statistics=st.just(()) | st.binary(min_size=1, max_size=20),
        partition_values=optional(tuples(SCALARS)),
        name_mapping=optional(tuples(MAPPED)),
        row_ids=row_ids,
    )


COLUMNS = st.builds(m.ColumnSpec, TEXTS, TEXTS, st.booleans(), optional(TEXTS))
PARTITION_BY = tuples(st.builds(m.PartitionSpec, TEXTS, TEXTS))
FOREIGN_KEYS = st.builds(m.ForeignKeySpec, tuples(TEXTS), TEXTS, TEXTS, tuples(TEXTS))
ORIGINS = optional(st.builds(m.RowOrigin, TEXTS, BIGINTS, BIGINTS, BIGINTS))
ALTERATIONS = st.one_of(
    st.builds(m.Alteration, st.just(m.AlterOp.ADD_COLUMN), column=COLUMNS),
    st.builds(m.Alteration, st.just(m.AlterOp.DROP_COLUMN), name=TEXTS),
    st.builds(m.Alteration, st.just(m.AlterOp.RENAME_COLUMN), name=TEXTS, new_name=TEXTS),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_TYPE), name=TEXTS, type=TEXTS),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_NULLABLE), name=TEXTS, nullable=st.booleans()),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_DEFAULT), name=TEXTS, default=optional(TEXTS)),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_PARTITION_BY), partition_by=PARTITION_BY),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_COMMENT), name=optional(TEXTS), comment=optional(TEXTS)),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_PROPERTY), key=TEXTS, value=optional(TEXTS)),
)
FILES, FLUSHED = tuples(files(st.none())), tuples(files(tuples(BIGINTS)))
CHANGES: dict[type, st.SearchStrategy[Any]] = {
    m.CreateSchema: st.builds(m.CreateSchema, TEXTS, st.booleans()),
    m.DropSchema: st.builds(m.DropSchema, TEXTS, st.booleans(), st.booleans()),
    m.CreateTable: st.builds(
        m.CreateTable,
        TEXTS,
        TEXTS,
        columns=tuples(COLUMNS),
        primary_key=tuples(TEXTS),
        unique=tuples(tuples(TEXTS)),
        foreign_keys=tuples(FOREIGN_KEYS),
        partition_by=PARTITION_BY,
        exclusion_constraints=tuples(TEXTS),
        properties=st.dictionaries(TEXTS, TEXTS, max_size=3),
        if_not_exists=st.booleans(),
    ),
    m.DropTable: st.builds(m.DropTable, TEXTS, TEXTS, st.booleans()),
    m.RenameTable: st.builds(m.RenameTable, TEXTS, TEXTS, TEXTS),
    m.AlterTable: st.builds(m.AlterTable, TEXTS, TEXTS, tuples(ALTERATIONS)),
    m.CreateView: st.builds(m.CreateView, TEXTS, TEXTS, TEXTS, TEXTS, st.booleans()),
    m.ReplaceView: st.builds(m.ReplaceView, TEXTS, TEXTS, TEXTS, TEXTS),
    m.DropView: st.builds(m.DropView, TEXTS, TEXTS, st.booleans()),
    m.Append: st.builds(m.Append, TEXTS, TEXTS, FILES),
    m.Delete: st.builds(
        m.Delete,
        TEXTS,
        TEXTS,
        positions=tuples(st.builds(m.PositionDelete, BIGINTS, POSITIONS)),
        delete_files=tuples(
            st.builds(m.DeleteFile, BIGINTS, TEXTS, POSITIONS, BIGINTS, st.booleans(), optional(BIGINTS))
        ),
        whole_files=tuples(BIGINTS),
    ),
    m.Compact: st.builds(m.Compact, TEXTS, TEXTS, tuples(BIGINTS), FILES),
    m.InsertRow: st.builds(m.InsertRow, TEXTS, TEXTS, ROWS, optional(BIGINTS), ORIGINS),
    m.UpdateRow: st.builds(m.UpdateRow, TEXTS, TEXTS, ROWS, ROWS, optional(BIGINTS), ORIGINS),
    m.DeleteRow: st.builds(m.DeleteRow, TEXTS, TEXTS, ROWS, optional(BIGINTS), ORIGINS),
    m.Flush: st.builds(m.Flush, TEXTS, TEXTS, FLUSHED),
    m.ExpireSnapshots: st.builds(m.ExpireSnapshots, BIGINTS),
    m.Configure: st.builds(m.Configure, st.dictionaries(TEXTS, SCALARS, max_size=4)),
}
ONE_LITERAL = frozenset({m.FilterOp.EQ, m.FilterOp.LT, m.FilterOp.LE, m.FilterOp.GT, m.FilterOp.GE})
PREDICATES = st.one_of(
    st.builds(m.Predicate, TEXTS, st.sampled_from(sorted(ONE_LITERAL)), SCALARS),
    st.builds(m.Predicate, TEXTS, st.just(m.FilterOp.IN), tuples(SCALARS)),
    st.builds(m.Predicate, TEXTS, st.just(m.FilterOp.BETWEEN), st.tuples(SCALARS, SCALARS)),
    st.builds(m.Predicate, TEXTS, st.sampled_from([m.FilterOp.IS_NULL, m.FilterOp.IS_NOT_NULL])),
)
READS = st.one_of(
    st.builds(m.TableRead, TEXTS, TEXTS, tuples(PREDICATES), optional(tuples(BIGINTS))),
    st.builds(m.NameRead, TEXTS, optional(TEXTS)),
    st.builds(m.RowsRead, TEXTS, TEXTS, tuples(ROWS)),
)


def proposals(changes: st.SearchStrategy[Any]) -> st.SearchStrategy[m.Proposal]:
    return st.builds(
        m.Proposal,
        proposal_id=IDS,
        writer_id=TEXTS,
        base_snapshot_id=BIGINTS,
        changes=changes,
        writer_epoch=optional(BIGINTS),
        writer_seq=BIGINTS,
        open_writer=st.booleans(),
        decide_before_ms=optional(BIGINTS),
        isolation=st.sampled_from(m.Isolation),
        reads=tuples(READS),
        author=optional(TEXTS),
        message=optional(TEXTS),
        extra=optional(TEXTS),
        created_at_ms=BIGINTS,
    )


OBJECTS = st.builds(m.ConflictObject, *[optional(each) for each in (TEXTS, TEXTS, BIGINTS, BIGINTS, TEXTS)])
CONFLICTS = st.builds(
    m.Conflict,
    kind=st.sampled_from(m.ConflictKind),
    proposed_change=optional(INTS),
    proposed_read=optional(INTS),
    object=OBJECTS,
    committed_snapshot_id=BIGINTS,
    committed_proposal_id=optional(IDS),
    committed_writer_id=optional(TEXTS),
    detail=TEXTS,
)
RESOLUTIONS = st.builds(
    m.Resolution,
    change=INTS,
    kind=st.sampled_from(m.ConflictKind),
    action=st.sampled_from(m.ResolutionAction),
    policy=TEXTS,
    object=OBJECTS,
    committed_snapshot_id=BIGINTS,
    committed_proposal_id=optional(IDS),
    committed_writer_id=optional(TEXTS),
    committed_row=optional(ROWS),
    proposed_row=optional(ROWS),
    row=optional(ROWS),
)
ASSIGNED = st.builds(
    m.Assigned,
    *[tuples(BIGINTS)] * 4,
    column_ids=tuples(tuples(BIGINTS)),
    mapping_ids=tuples(BIGINTS),
    data_file_ids=tuples(BIGINTS),
    delete_file_ids=tuples(BIGINTS),
    row_id_starts=tuples(optional(BIGINTS)),
    schema_version=BIGINTS,
    writer_epoch=optional(BIGINTS),
)
POSITION = st.builds(m.Position, INTS, BIGINTS)
REASONS = optional(st.sampled_from([reason for reason in m.Reason if reason is not m.Reason.MALFORMED]))
OUTCOMES = st.builds(
    m.Outcome,
    seq=BIGINTS,
    epoch=BIGINTS,
    source=POSITION,
    decided_at_ms=BIGINTS,
    verdict=st.sampled_from(m.Verdict),
    head_snapshot_id=BIGINTS,
    proposal_id=optional(IDS),
    writer_id=optional(TEXTS),
    rules_version=INTS,
    snapshot_id=optional(BIGINTS),
    snapshot_time_us=optional(BIGINTS),
    reason=REASONS,
    detail=optional(TEXTS),
    conflicts=tuples(CONFLICTS),
    conflict_count=INTS,
    resolutions=tuples(RESOLUTIONS),
    assigned=ASSIGNED,
    effects=tuples(st.builds(m.Effect, optional(BIGINTS), st.booleans(), optional(BIGINTS), optional(BIGINTS))),
    next_catalog_id=BIGINTS,
    next_file_id=BIGINTS,
    original_seq=optional(BIGINTS),
    same_content=optional(st.booleans()),
    content_hash=optional(BIGINTS),
    proposal=optional(proposals(tuples(CHANGES[m.DropTable]))),
)
RECEIPTS = st.builds(
    m.Receipt,
    seq=BIGINTS,
    source=st.builds(m.Position, st.just(3), BIGINTS),
    proposal_id=optional(IDS),
    verdict=st.sampled_from(m.Verdict),
    snapshot_id=optional(BIGINTS),
    head_snapshot_id=BIGINTS,
    reason=REASONS,
    detail=optional(TEXTS),
    assigned=ASSIGNED,
    decided_at_ms=BIGINTS,
    original_seq=optional(BIGINTS),
    same_content=optional(st.booleans()),
    answered_verdict=optional(st.sampled_from(m.Verdict)),
    answered_snapshot_id=optional(BIGINTS),
    answered_reason=REASONS,
    answered_detail=optional(TEXTS),
)
LOG_SETTINGS = st.builds(
    m.LogSettings,
    conflict_granularity=st.sampled_from(m.Granularity),
    on_conflict=TEXTS,
    window_snapshots=BIGINTS,
    expire_older_than_ms=optional(BIGINTS),
)
LOG_ID, HASH = b"L" * 16, b"H" * 32
QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def proposal(*changes: m.Change, **more: Any) -> m.Proposal:
    """A proposal with a version 7 id."""
    return m.Proposal(bytes.fromhex("01934f3e7c0070008000000000000001"), "w1", 4, changes, **more)


def append(file: m.DataFile) -> m.Proposal:
    return proposal(m.Append("main", "t", (file,)))


# --- round trips ------------------------------------------------------------------------------------------------------


def test_changes_when_a_kind_is_added_then_the_codec_and_this_test_know_it() -> None:
    assert {kind.kind for kind in CHANGES} == set(m.ChangeKind)


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_proposal_when_encoded_then_decodes_to_the_same(kind: type) -> None:
    @QUICK
    @given(proposals(st.lists(CHANGES[kind], min_size=1, max_size=2).map(tuple)))
    def check(given_proposal: m.Proposal) -> None:
        assert codec.decode_proposal(codec.encode_proposal(given_proposal)) == given_proposal

    check()


def test_proposal_when_values_differ_only_in_type_then_the_type_is_kept() -> None:
    row = {"a": 1, "b": 1.0, "c": True, "d": "1", "e": [1, 1.0, True, {"f": None}]}
    decoded = codec.decode_proposal(codec.encode_proposal(proposal(m.InsertRow("main", "k", row))))
    assert repr(decoded.changes[0].row) == repr(row)


@QUICK
@given(OUTCOMES)
def test_outcome_when_encoded_then_decodes_to_the_same(outcome: m.Outcome) -> None:
    data = codec.encode_outcome(outcome, log_id=LOG_ID, prev_hash=HASH, told=outcome.seq // 2)
    assert codec.decode_record(data) == codec.OutcomeRecord(outcome, LOG_ID, HASH, outcome.seq // 2)
    assert codec.decode_head(data) == codec.OutcomeHead(
        LOG_ID, outcome.seq, outcome.epoch, outcome.rules_version, HASH, outcome.seq // 2
    )


@QUICK
@given(st.lists(RECEIPTS, max_size=4))
def test_receipts_when_encoded_then_decode_to_the_same(receipts: list[m.Receipt]) -> None:
    decoded = codec.decode_receipts(codec.encode_receipts(receipts, log_id=LOG_ID, partition=3))
    assert decoded == codec.Receipts(LOG_ID, 3, tuple(receipts))


@QUICK
@given(tuples(STATISTICS))
def test_statistics_when_encoded_then_decode_to_the_same(statistics: tuple[m.ColumnStatistics, ...]) -> None:
    assert codec.decode_statistics(codec.encode_statistics(statistics)) == statistics


def test_genesis_when_encoded_then_decodes_to_the_same() -> None:
    changed = m.LogSettings(m.Granularity.ROW, "handler:x", expire_keep_snapshots=7, name_length_max=9)
    genesis = m.Genesis(LOG_ID, 4, 1_730_000_000_000, settings=changed, data_path="s3://lake")
    assert codec.decode_record(codec.encode_genesis(genesis)) == genesis


def test_takeover_when_encoded_then_decodes_to_the_same() -> None:
    takeover = codec.Takeover(LOG_ID, 7, b"I" * 16, 1_730_000_000_000)
    assert codec.decode_record(codec.encode_takeover(takeover)) == takeover
    assert codec.decode_head(codec.encode_takeover(takeover)) == takeover


def test_dead_letter_and_heartbeat_when_encoded_then_decode_to_the_same() -> None:
    letter = codec.DeadLetter(LOG_ID, 7, "x.proposals", 2, 9, "no", 5, b"w", 2, b"\x00\xff")
    assert codec.decode_dead_letter(codec.encode_dead_letter(letter)) == letter
    heartbeat = codec.Heartbeat(LOG_ID, 3, b"S" * 16, 8, 9, leaving=True)
    assert codec.decode_heartbeat(codec.encode_heartbeat(heartbeat)) == heartbeat


# --- the referee: a general Avro library ------------------------------------------------------------------------------


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


# --- what the outcome carries -----------------------------------------------------------------------------------------


def an_outcome(**more: Any) -> m.Outcome:
    return m.Outcome(1, 1, m.Position(0, 0), 5, m.Verdict.COMMITTED, 1, b"I" * 16, "w", **more)


def test_outcome_when_the_proposal_has_bytes_of_its_own_then_they_are_kept_unchanged() -> None:
    own = codec.encode_proposal(proposal(m.DropTable("main", "t")))
    plain = codec.decode_proposal(own)
    record = codec.decode_record(
        codec.encode_outcome(an_outcome(proposal=plain, proposal_bytes=own), log_id=LOG_ID, prev_hash=HASH)
    )
    assert isinstance(record, codec.OutcomeRecord)
    assert record.outcome.proposal_bytes == own
    assert record.outcome.proposal == plain


def test_outcome_when_malformed_then_the_bytes_stay_in_the_dead_letters() -> None:
    refused = an_outcome(proposal_bytes=b"junk").replace(verdict=m.Verdict.REJECTED, reason=m.Reason.MALFORMED)
    encoded = codec.encode_outcome(refused, log_id=LOG_ID, prev_hash=HASH)
    assert b"junk" not in encoded
    assert codec.decode_record(encoded) == codec.OutcomeRecord(refused, LOG_ID, HASH)


# --- malformed bytes --------------------------------------------------------------------------------------------------


def samples() -> list[bytes]:
    rows = {"a": [1, {"b": 2.5}], "c": "x", "d": None}
    deletes = BitMap64(range(3, 200_000))
    deletes.run_optimize()
    return [
        codec.encode_proposal(proposal(*changes, reads=(m.TableRead("main", "t", (), (1, 2)),), message="hé"))
        for changes in (
            (m.Append("main", "t", (m.DataFile("p", 1, 2, statistics=(m.ColumnStatistics("c", 1, 9),)),)),),
            (m.Delete("main", "t", (m.PositionDelete(1, FrozenBitMap64(deletes)),), (), (3,)),),
            (m.InsertRow("main", "k", rows), m.UpdateRow("main", "k", {"id": 1}, rows)),
            (m.CreateTable("main", "t", (m.ColumnSpec("a", "int64"),), properties={"a": "b"}),),
            (m.AlterTable("main", "t", (m.Alteration(m.AlterOp.DROP_COLUMN, name="x"),)),),
        )
    ]


@pytest.mark.parametrize("seed", range(4))
def test_bytes_when_damaged_then_nothing_but_malformed_is_raised(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(2_000):
        data = bytearray(
            chance.choice(samples()) if chance.random() < 0.05 else SAMPLES[chance.randrange(len(SAMPLES))]
        )
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        try:
            codec.decode_proposal(bytes(data))
        except MalformedRecordError:
            refused += 1
        codec.readable_ids(bytes(data))
    assert refused > 700


@QUICK
@given(st.binary(max_size=200))
def test_bytes_when_random_after_a_right_header_then_malformed_or_a_value(body: bytes) -> None:
    for record, decode in (
        ("Proposal", codec.decode_proposal),
        ("Outcome", codec.decode_record),
        ("Genesis", codec.decode_record),
        ("Receipts", codec.decode_receipts),
        ("DeadLetter", codec.decode_dead_letter),
        ("Heartbeat", codec.decode_heartbeat),
    ):
        try:
            decode(HEADERS[record] + body)
        except MalformedRecordError:
            continue


def damaged(old: bytes, new: bytes, data: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


GOOD = codec.encode_proposal(append(m.DataFile("part.parquet", 1, 2)))
SAMPLES = samples()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "nothing"),
        (b"\xc3\x01\x00", "only 3 bytes"),
        (b"{}", "not c301"),
        (MARKER + b"12345678" + b"xx", "unknown schema fingerprint 3132333435363738"),
        (GOOD + b"\x00", "1 bytes too many"),
        (GOOD[:-1], "no Proposal"),
        (GOOD[: HEADER_SIZE_BYTES + 7], "no Proposal"),
        (damaged(b"part.parquet", b"part\xff\xfearquet", GOOD), "Unicode"),
        (codec.encode_heartbeat(codec.Heartbeat(LOG_ID, 1, LOG_ID, 1, 1)), "kind Heartbeat, not Proposal"),
        (damaged(bytes.fromhex("7c007000"), bytes.fromhex("7c004000"), GOOD), "not a UUID version 7"),
    ],
)
def test_bytes_when_no_proposal_then_the_reason_is_told(data: bytes, told: str) -> None:
    with pytest.raises(MalformedRecordError, match=told):
        codec.decode_proposal(data)


def test_bytes_when_an_enum_has_no_such_symbol_then_malformed() -> None:
    good = codec.encode_proposal(proposal(m.DropTable("main", "t"), isolation=m.Isolation.SERIALIZABLE))
    at = HEADER_SIZE_BYTES + 16 + 3 + 2 + 1
    assert good[at] == 2  # isolation, zigzag of 1
    with pytest.raises(MalformedRecordError):
        codec.decode_proposal(good[:at] + b"\x0a" + good[at + 1 :])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (m.AlterTable("s", "t", (m.Alteration(m.AlterOp.RENAME_COLUMN, name="a"),)), "'new_name' is missing"),
        (m.AlterTable("s", "t", (m.Alteration(m.AlterOp.DROP_COLUMN, name="a", type="x"),)), "takes no 'type'"),
        (m.Append("s", "t", (m.DataFile("p", 1, 2, row_ids=(1,)),)), "only a file of FLUSH"),
        (m.Flush("s", "t", (m.DataFile("p", 1, 2),)), "'row_ids' is missing"),
        (m.InsertRow("s", "t", {"a": float("nan")}), "none that JSON can hold"),
        (m.Configure({"a": float("inf")}), "none that JSON can hold"),
        (m.InsertRow("s", "t", {"a": [2**70]}), "beyond a 64-bit integer"),
        (m.Delete("s", "t", (m.PositionDelete(1, FrozenBitMap64([2**63])),)), "beyond a 64-bit integer"),
    ],
)
def test_proposal_when_json_would_call_it_malformed_then_so_do_the_bytes(change: m.Change, told: str) -> None:
    with pytest.raises(MalformedRecordError, match=told):
        codec.decode_proposal(codec.encode_proposal(proposal(change)))


@pytest.mark.parametrize(
    "predicate",
    [
        m.Predicate("c", m.FilterOp.BETWEEN, (1, 2, 3)),
        m.Predicate("c", m.FilterOp.IN, 1),
        m.Predicate("c", m.FilterOp.EQ, (1,)),
        m.Predicate("c", m.FilterOp.IS_NULL, 1),
    ],
)
def test_filter_when_the_literal_does_not_fit_the_op_then_malformed(predicate: m.Predicate) -> None:
    given_proposal = proposal(m.DropTable("s", "t"), reads=(m.TableRead("s", "t", (predicate,)),))
    with pytest.raises(MalformedRecordError, match="filter"):
        codec.decode_proposal(codec.encode_proposal(given_proposal))


def test_row_when_nested_without_bounds_then_malformed_and_the_process_lives() -> None:
    deep: Any = []
    for _ in range(210):
        deep = [deep]
    given_proposal = proposal(m.InsertRow("s", "t", {"a": deep}))
    with pytest.raises(MalformedRecordError, match="deeper than 200"):
        codec.decode_proposal(codec.encode_proposal(given_proposal))
    text = json.dumps([[]])
    good = codec.encode_proposal(proposal(m.InsertRow("s", "t", {"a": [[]]})))
    hostile = damaged(bytes([len(text) * 2]) + text.encode(), b"\xc0\x9a\x0c" + b"[" * 100_000, good)
    with pytest.raises(MalformedRecordError):
        codec.decode_proposal(hostile)


def test_positions_when_the_bitmap_is_damaged_then_malformed() -> None:
    rows = FrozenBitMap64([1, 2, 3])
    good = codec.encode_proposal(proposal(m.Delete("s", "t", (m.PositionDelete(1, rows),))))
    serialized = bytes(rows.serialize())
    with pytest.raises(MalformedRecordError, match="roaring"):
        codec.decode_proposal(damaged(serialized, serialized[:-2] + b"\x00\x00", good))


@pytest.mark.parametrize(
    "make",
    [lambda: m.DropTable("s", "\ud800"), lambda: m.ExpireSnapshots(2**63), lambda: m.DropTable("s", None)],  # type: ignore[arg-type]
    ids=["surrogate", "too large", "none"],
)
def test_proposal_when_a_record_cannot_hold_it_then_making_or_encoding_says_so(make: Callable[[], m.Change]) -> None:
    with pytest.raises((MalformedRecordError, TypeError), match=r"cannot be written|expected"):
        codec.encode_proposal(proposal(make()))


def test_ids_when_the_rest_is_broken_then_still_readable() -> None:
    good = codec.encode_proposal(append(m.DataFile("p", 1, 2)).replace(writer_id="wé" * 50))
    assert codec.readable_ids(good[:200]) == (good[10:26], "wé" * 50)
    assert codec.readable_ids(good[:100]) == (good[10:26], None)
    assert codec.readable_ids(good[:20]) == (None, None)
    assert codec.readable_ids(b"x" * 200) == (None, None)


# --- statistics -------------------------------------------------------------------------------------------------------


def test_statistics_when_they_do_not_decode_then_there_are_none() -> None:
    good = codec.encode_statistics((m.ColumnStatistics("a", 1, 2), m.ColumnStatistics("b")))
    chance = random.Random(3)
    for _ in range(2_000):
        data = bytearray(good)
        data[chance.randrange(len(data))] = chance.randrange(256)
        assert isinstance(codec.decode_statistics(bytes(data)), tuple)
    assert codec.decode_statistics(b"junk") == ()
    assert codec.decode_statistics(good[:-1]) == ()


def test_statistics_when_a_bound_is_no_number_then_it_is_unknown() -> None:
    given_statistics = (m.ColumnStatistics("a", float("nan"), float("inf"), 0),)
    assert codec.decode_statistics(codec.encode_statistics(given_statistics)) == (
        m.ColumnStatistics("a", null_count=0),
    )


def test_statistics_when_opaque_then_expanded_on_demand() -> None:
    statistics = (m.ColumnStatistics("a", 1, 2),)
    decoded = codec.decode_proposal(codec.encode_proposal(append(m.DataFile("p", 1, 2, statistics=statistics))))
    assert isinstance(decoded.changes[0].files[0].statistics, bytes)
    assert codec.with_statistics_expanded(decoded).changes[0].files[0].statistics == statistics


# --- framing ----------------------------------------------------------------------------------------------------------


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


def test_decode_when_a_schema_registrys_wire_format_comes_then_says_that_it_is_not_read() -> None:
    framed = b"\x00" + (17).to_bytes(4, "big") + GOOD[HEADER_SIZE_BYTES:]
    with pytest.raises(MalformedRecordError, match="it starts with 00000000, not c301"):
        codec.decode_proposal(framed)


def test_names_when_in_a_schema_then_plain_ascii_and_every_one_says_what_it_means() -> None:
    allowed = set(string.ascii_letters + string.digits + "_")

    def check(schema: Any) -> None:
        if isinstance(schema, list):
            for each in schema:
                check(each)
        elif isinstance(schema, dict):
            if schema["type"] in ("record", "enum"):
                assert schema["doc"]
            for field in schema.get("fields", ()):
                assert set(field["name"]) <= allowed
                assert field["doc"], field["name"]
                check(field["type"])
            check(schema.get("items"))
            check(schema.get("values"))

    for path in schemas_dir().glob("*.avsc"):
        check(json.loads(path.read_text()))
