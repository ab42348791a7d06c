"""Whatever comes from a topic, a file or a command line: an answer or an error of ours, soon, in bounded memory."""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deciding import DecidedLog, create_table, keyed_table
from fuzzing import DECODERS, mutations, some_records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import FrozenBitMap64
from random_records import proposal

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import Rules
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.model.malformed import MalformedProposal
from commitlog.domain.model.records.proposal_json import proposal_to_json
from commitlog.domain.model.values import NESTING_MAX
from commitlog.errors import CommitLogError, ConfigurationError, MalformedRecordError
from commitlog.log import codec
from commitlog.log.chain import Chain
from commitlog.ops.cli import cli

pytestmark = pytest.mark.no_cover

SEED = int(os.environ.get("COMMITLOG_TEST_SEED", "1"))
INPUTS = int(os.environ.get("COMMITLOG_TEST_INPUTS", "3000"))
INPUTS_NIGHTLY = 1_000_000
GUIDED = Path(__file__).with_name("guided_fuzzing.py")
GUIDED_S = int(os.environ.get("COMMITLOG_TEST_GUIDED_S", "300"))
RSS_MIB_MAX = 2_048
SLOWEST_S = 2.0
MEMORY_MIB_MAX = 400
BOMB_BYTES = 1_000_000
FUZZ = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["", "\0", "\ud800", "'; DROP TABLE t; --", "٣", "1e999", "-0", "\u202e"]
)


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Fails when the block takes long or much memory."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    took_s = time.process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert took_s < SLOWEST_S, f"{what}: {took_s:.1f} s"
    assert grown < MEMORY_MIB_MAX, f"{what}: {grown:.0f} MiB"


def decided(log: DecidedLog, data: bytes, number: int) -> m.Outcome:
    """What the sequencer does with the bytes of a proposal."""
    rules, source = Rules(), m.Position(0, number)
    try:
        asked: m.Proposal | MalformedProposal = codec.decode_proposal(data)
    except MalformedRecordError as error:
        asked = MalformedProposal(str(error), *codec.readable_ids(data))
    return decide(log.state, asked, now_ms=1_732_201_400_000 + number, source=source, rules=rules)


def fuzz(count: int, seed: int) -> int:
    """Every decoder, the chain and the decision on mutated records; how many of the inputs are records all the same."""
    chance = random.Random(seed)
    records = some_records(130, seed)
    log, survivors = DecidedLog(), 0
    log.commit(create_table())
    log.commit(keyed_table())
    for number, data in enumerate(islice(mutations(records, chance), count)):
        for name, decode in DECODERS.items():
            try:
                value = decode(data)
            except MalformedRecordError:
                continue
            except Exception as error:
                raise AssertionError(f"{name} of {data.hex()}: {error!r}") from error
            survivors += name == "record" or name == "proposal"
            if name == "proposal":
                assert codec.decode_proposal(codec.encode_proposal(value)) == value, data.hex()
        with suppress(CommitLogError):
            Chain().take(data, 0)
        outcome = decided(log, data, number)
        assert outcome.reason is not m.Reason.INTERNAL, (data.hex(), outcome.detail)
    return survivors


def test_readers_when_records_are_mutated_then_each_is_read_or_refused() -> None:
    with_time = time.process_time()
    survivors = fuzz(INPUTS, SEED)
    assert survivors > INPUTS // 100, "the mutations are so coarse that nothing behind the head is reached"
    assert time.process_time() - with_time < 120


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_readers_when_a_million_records_are_mutated_then_each_is_read_or_refused() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for piece in range(10):
        fuzz(INPUTS_NIGHTLY // 10, SEED * 1000 + piece)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MEMORY_MIB_MAX


@pytest.mark.nightly
def test_readers_when_inputs_are_made_by_what_they_reach_then_each_is_read_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="`make nightly` installs it where it has a wheel")
    limits = [f"-max_total_time={GUIDED_S}", "-timeout=10", f"-rss_limit_mb={RSS_MIB_MAX}", f"-seed={SEED}"]
    done = subprocess.run(
        [sys.executable, GUIDED, tmp_path, *limits],
        env=os.environ | {"COMMITLOG_CORE": "interpreted"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout[-5_000:])
    assert done.returncode == 0
    assert "no interesting inputs" not in done.stdout


# --- bombs ------------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number & ~0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def nested_json(depth: int) -> str:
    return "[" * depth + "]" * depth


def bombs() -> dict[str, bytes]:
    good = codec.encode_proposal(proposal(m.DropTable("main", "marker")))
    head = good[: good.index(b"\x0cmarker") - 5]
    row = codec.encode_proposal(proposal(m.InsertRow("main", "k", {"deep": [1]})))
    begin = row.index(b"[1]") - 1
    wide = FrozenBitMap64(range(0, 4000 * 2**16, 2**16))
    return {
        "an array of 2^62 items": head + varint(2**62) + b"\x00" * 100,
        "an array of -2^63 items": head + b"\xff" * 9 + b"\x01" + varint(5) + b"\x00" * 100,
        "many empty blocks": head + (varint(-1) + varint(0)) * (BOMB_BYTES // 2),
        "a text of 2^62 bytes": good[:10] + b"I" * 16 + varint(2**62) + b"x",
        "a text to the end of 64 bits": good[:10] + b"I" * 16 + varint(2**63 - 1) + b"x",
        "a text of fewer than no bytes": good[:10] + b"I" * 16 + varint(-(2**63)) + b"x",
        "a number without end": good[:10] + b"\xff" * BOMB_BYTES,
        "json nested deep": row[:begin] + varint(BOMB_BYTES) + nested_json(BOMB_BYTES // 2).encode() + row[begin + 4 :],
        "json a little too deep": row[:begin]
        + varint(2 * (NESTING_MAX + 1))
        + nested_json(NESTING_MAX + 1).encode()
        + row[begin + 4 :],
        "a digit for each byte": row[:begin]
        + varint(BOMB_BYTES + 2)
        + b"["
        + b"9" * BOMB_BYTES
        + b"]"
        + row[begin + 4 :],
        "rows of every 65536": codec.encode_proposal(
            proposal(m.Delete("main", "t", positions=(m.PositionDelete(0, wide),)))
        ),
    }


@pytest.mark.parametrize("name", bombs())
def test_bomb_when_it_is_proposed_then_refused_soon_and_in_bounded_memory(name: str) -> None:
    data = bombs()[name]
    log = DecidedLog()
    log.commit(create_table())
    with bounded(name):
        for decode in DECODERS.values():
            try:
                decode(data)
            except MalformedRecordError:
                continue
        outcome = decided(log, data, 1)
    assert outcome.verdict is m.Verdict.REJECTED
    assert outcome.reason is not m.Reason.INTERNAL


def test_bitmap_bomb_when_a_few_bytes_are_four_thousand_million_rows_then_decided_soon() -> None:
    """A run of 65,536 rows takes four bytes."""
    runs = b"".join(struct.pack("<HHH", 1, 0, 0xFFFF) for _ in range(60_000))
    keys = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(60_000))
    flags = b"\xff" * (60_000 // 8)
    low = struct.pack("<I", 12347 | (59_999 << 16)) + flags + keys
    offsets = struct.pack("<60000I", *(len(low) + 240_000 + 6 * each for each in range(60_000)))
    packed = struct.pack("<QI", 1, 0) + low + offsets + runs
    with bounded("a bitmap of runs"):
        rows = FrozenBitMap64.deserialize(packed)
        assert len(rows) == 60_000 * 65_536
        data = codec.encode_proposal(proposal(m.Delete("main", "t", positions=(m.PositionDelete(0, rows),))))
        log = DecidedLog()
        log.commit(create_table())
        assert decided(log, data, 1).verdict is m.Verdict.REJECTED


# --- JSON, the command line, settings ---------------------------------------------------------------------------------


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@FUZZ
@given(st.data())
def test_json_when_a_field_of_a_proposal_is_anything_then_read_or_refused(data: st.DataObject) -> None:
    made = proposal_to_json(proposal(m.InsertRow("main", "k", {"a": 1}), m.CreateSchema("s")))
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(made)
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(JSON_VALUES)
    line = json.dumps(made)
    read = parse_proposal(line)
    if isinstance(read, m.Proposal):
        with suppress(MalformedRecordError):
            codec.encode_proposal(read)


@FUZZ
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_json_when_a_line_is_anything_then_read_or_refused(line: bytes) -> None:
    assert isinstance(parse_proposal(line), m.Proposal | MalformedProposal)


@pytest.mark.parametrize(
    "line", [nested_json(BOMB_BYTES // 2), "9" * BOMB_BYTES, '{"a":' * 100_000, '"' + "\\u0000" * 1000]
)
def test_json_bomb_then_refused_soon(line: str) -> None:
    with bounded(line[:20]):
        assert isinstance(parse_proposal(line), MalformedProposal)


SETTING_NAMES = [
    "LOG",
    "LOG_ID",
    "DATABASE_URL",
    "DATA_PATH",
    "PARTITIONS",
    "GENESIS",
    "UI_PORT",
    "KAFKA_SASL_PASSWORD",
]


@FUZZ
@given(st.dictionaries(st.sampled_from(SETTING_NAMES), TEXTS, max_size=3))
def test_settings_when_values_are_anything_then_taken_or_refused(given_values: dict[str, str]) -> None:
    environment = {f"COMMITLOG_{name}": value for name, value in given_values.items()}
    try:
        found = Settings.load(environment=environment)
    except ConfigurationError:
        return
    assert all(shown is None or isinstance(shown, str) for _, shown, _ in found.shown())


# As a shell gives them: any bytes but none that is 0.
ARGUMENTS = st.one_of(
    TEXTS.map(lambda text: os.fsdecode(text.encode("utf-8", "replace").replace(b"\0", b""))),
    st.binary(max_size=20).map(lambda raw: os.fsdecode(raw.replace(b"\0", b""))),
)
COMMANDS = (
    ("replay",),
    ("acl", "print"),
    ("digest", "compare"),
    ("config", "show"),
    ("manual",),
    ("submit", "--example"),
)


@FUZZ
@given(st.sampled_from(COMMANDS), st.lists(ARGUMENTS, max_size=3), TEXTS)
def test_command_line_when_arguments_are_anything_then_done_or_refused(
    tmp_path_factory: pytest.TempPathFactory, words: tuple[str, ...], arguments: list[str], typed: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    runner = CliRunner(env={"COMMITLOG_HOME": str(folder / "nowhere")})
    done = runner.invoke(cli, [*words, *arguments], input=typed.encode("utf-8", "replace"))
    assert done.exception is None or isinstance(done.exception, SystemExit | CommitLogError), (words, arguments, done)


@FUZZ
@given(st.binary(max_size=200))
def test_replay_when_its_file_is_anything_then_each_line_is_answered(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    file.write_bytes(content)
    done = CliRunner().invoke(cli, ["replay", str(file)])
    assert done.exception is None or isinstance(done.exception, SystemExit | CommitLogError), (content, done)
