"""The codec: every value comes back as it was, and bytes that are no record say so in one way."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64, FrozenBitMap64
from random_records import (
    CHANGES,
    GOOD,
    HASH,
    LOG_ID,
    OUTCOMES,
    QUICK,
    RECEIPTS,
    STATISTICS,
    append,
    proposal,
    proposals,
    tuples,
)

from commitlog.domain import model as m
from commitlog.errors import MalformedRecordError
from commitlog.log import codec
from commitlog.log.codec.framing import HEADER_SIZE_BYTES, MARKER, schemas_dir
from commitlog.log.codec.records.headers import HEADERS

pytestmark = pytest.mark.no_cover

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


def test_dead_letter_heartbeat_and_trim_when_encoded_then_decode_to_the_same() -> None:
    letter = codec.DeadLetter(LOG_ID, 7, "x.proposals", 2, 9, "no", 5, b"w", 2, b"\x00\xff")
    assert codec.decode_dead_letter(codec.encode_dead_letter(letter)) == letter
    heartbeat = codec.Heartbeat(LOG_ID, 3, b"S" * 16, 8, 9, leaving=True)
    assert codec.decode_heartbeat(codec.encode_heartbeat(heartbeat)) == heartbeat
    trim = codec.Trim(b"genesis", LOG_ID, 7, 2, HASH, 9, 5, "s3://b/archive", 11)
    assert codec.decode_trim(codec.encode_trim(trim)) == trim


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


@pytest.mark.parametrize(
    ("number", "why"),
    [("NaN", "no JSON number"), ("1e999", "64-bit float"), ("9" * 19, "64-bit integer"), ("9" * 30, "64-bit integer")],
)
def test_row_when_a_nested_number_is_none_of_64_bits_then_malformed(number: str, why: str) -> None:
    stood = "x" * (len(number) - 2)
    good = codec.encode_proposal(proposal(m.InsertRow("s", "t", {"a": [stood]})))
    with pytest.raises(MalformedRecordError, match=why):
        codec.decode_proposal(damaged(f'["{stood}"]'.encode(), f"[{number}]".encode(), good))


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
    # A length of which 64 bits can hold no sum with the place where it stands.
    assert codec.readable_ids(good[:26] + b"\xfe" + b"\xff" * 8 + b"\x01abc") == (good[10:26], None)
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


@pytest.mark.parametrize("other", range(7))
@pytest.mark.parametrize("count", [1, 3])
def test_statistics_when_a_list_is_of_another_length_then_there_are_none(other: int, count: int) -> None:
    # Two columns' names (``a``), then six lists of null.
    lists = [b"\x04" + item * 2 + b"\x00" for item in (b"\x02a", *[b"\x00"] * 6)]
    header = HEADERS["FileStatistics"]
    assert codec.decode_statistics(header + b"".join(lists)) == (m.ColumnStatistics("a"), m.ColumnStatistics("a"))
    lists[other] = bytes([count * 2]) + (b"\x02a" if other == 0 else b"\x00") * count + b"\x00"
    assert codec.decode_statistics(header + b"".join(lists)) == ()


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
    encoded = codec.encode_outcome(an_outcome(proposal=decoded), log_id=LOG_ID, prev_hash=HASH)
    for expanded, told in ((False, decoded), (True, codec.with_statistics_expanded(decoded))):
        record = codec.decode_record(encoded, expanded=expanded)
        assert isinstance(record, codec.OutcomeRecord)
        assert record.outcome.proposal == told


# --- framing ----------------------------------------------------------------------------------------------------------


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
