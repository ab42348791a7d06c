"""The logs that readers in other languages test themselves with: the file is what its script makes, two readers agree.

The second reader is the rule of docs/reading-results.md, on bytes, without anything of the package.
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fastavro import schemaless_reader
from fastavro.schema import load_schema

from commitlog.errors import CommitLogError
from commitlog.log.chain import Accepted, Chain, LogPosition

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from results_fixture import FILE, fixture, text

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
FIXTURE: dict[str, Any] = fixture()
LOGS = FIXTURE["logs"]

each_log = pytest.mark.parametrize("name", LOGS)


def records(name: str) -> list[tuple[int, bytes | None]]:
    return [
        (each["offset"], None if each["value"] is None else base64.b64decode(each["value"]))
        for each in LOGS[name]["records"]
    ]


def long_at(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at


def fields_of(kind: str, data: bytes) -> dict[str, Any]:
    """The first fields of a record, as the page lists them."""
    found: dict[str, Any] = {"log_id": data[10:26]}
    at = 26
    layout = {
        "Genesis": ("partitions", "created_at_ms", "rules_version"),
        "Takeover": ("epoch", "instance:16"),
        "Outcome": ("seq", "epoch", "rules_version", "prev_hash:32", "told"),
    }
    for each in layout[kind]:
        name, _, size = each.partition(":")
        if size:
            found[name], at = data[at : at + int(size)], at + int(size)
        else:
            found[name], at = long_at(data, at)
    return found


def is_whole(kind: str, data: bytes) -> bool:
    """Whether the body is that of its schema, and nothing behind it."""
    body = io.BytesIO(data[10:])
    try:
        schemaless_reader(body, load_schema(SCHEMAS / f"{kind.lower()}.avsc"), None)
    except (EOFError, IndexError):
        return False
    return not body.read()


def plain_reading(log: Iterable[tuple[int, bytes | None]]) -> tuple[list[tuple[int, int, int, str]], int | None]:
    """(offset, epoch, seq, hash) of what is accepted, and where it stops."""
    accepted: list[tuple[int, int, int, str]] = []
    log_id, epoch, seq, so_far, following = None, 0, 0, b"", 0
    for offset, value in log:
        if offset != following:
            return accepted, offset
        following += 1
        if value is None or value[:2] != b"\xc3\x01" or len(value) < 10:
            continue
        kind = FIXTURE["fingerprints"].get(value[2:10].hex())
        if kind is None:
            return accepted, offset
        if kind not in ("Genesis", "Takeover", "Outcome") or (kind == "Genesis" and log_id is not None):
            continue
        if kind != "Outcome" and not is_whole(kind, value):
            continue
        fields = fields_of(kind, value)
        if kind != "Genesis" and fields["log_id"] != log_id:
            return accepted, offset
        if kind == "Takeover":
            if fields["epoch"] != epoch + 1:
                continue
            epoch, so_far = epoch + 1, hashlib.sha256(so_far + value).digest()
        else:
            if kind == "Outcome" and (fields["epoch"], fields["seq"]) != (epoch, seq + 1):
                continue
            if fields["rules_version"] > FIXTURE["rules_version"] or fields.get("prev_hash", so_far) != so_far:
                return accepted, offset
            log_id, seq = fields["log_id"], fields.get("seq", 0)
            so_far = hashlib.sha256(value).digest()
        accepted.append((offset, epoch, seq, so_far.hex()))
    return accepted, None


def test_fixture_then_the_file_is_what_its_script_makes() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run: python docs/results_fixture.py"


@each_log
def test_fixture_when_read_by_the_plain_rule_then_as_it_says(name: str) -> None:
    expected = [(each["offset"], each["epoch"], each["seq"], each["hash"]) for each in LOGS[name]["accepted"]]
    assert plain_reading(records(name)) == (expected, LOGS[name]["stops_at"])


@each_log
def test_fixture_when_read_from_any_accepted_outcome_then_the_rest_as_it_says(name: str) -> None:
    accepted = LOGS[name]["accepted"]
    log = records(name)
    values = dict(log)
    for index, start in enumerate(accepted):
        if start["kind"] == "Takeover":
            continue
        value = values[start["offset"]]
        assert value is not None
        position = LogPosition(
            value[10:26], start["seq"], start["epoch"], bytes.fromhex(start["hash"]), start["offset"]
        )
        chain = Chain.after(position)
        found: list[int] = []
        stops_at = None
        for offset, raw in log:
            if offset <= start["offset"] or stops_at is not None:
                continue
            try:
                step = chain.take(raw, offset)
            except CommitLogError:
                stops_at = offset
                continue
            if isinstance(step, Accepted):
                found.append(offset)
        assert (found, stops_at) == ([each["offset"] for each in accepted[index + 1 :]], LOGS[name]["stops_at"])


def test_fixture_then_it_shows_every_reason_to_skip_and_to_stop() -> None:
    skipped: set[str] = set()
    for name in LOGS:
        chain = Chain()
        for offset, raw in records(name):
            if offset != LOGS[name]["stops_at"]:
                chain.take(raw, offset)
        skipped |= set(chain.skipped)
    assert skipped == {"FOREIGN", "GENESIS", "TAKEOVER", "LOWER_EPOCH", "HIGHER_EPOCH", "REPEATED", "GAP"}
    assert sum(log["stops_at"] is not None for log in LOGS.values()) == 8
