"""Nothing that a proposal holds stops the log: every integer at its bounds, and errors that nobody expected (12.28-29)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from chains import Written, outcome, takeover
from deciding import (
    START_MS,
    alter,
    append,
    change,
    compact,
    create_table,
    data_file,
    delete,
    delete_file,
    delete_row,
    delete_whole,
    insert,
    keyed_table,
    make_id,
    read_table,
    update,
)

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.records.outcome_json import outcome_to_json
from commitlog.domain.model.records.proposal_json import proposal_from_json
from commitlog.domain.model.settings import changed_settings
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import InvalidChangeError
from commitlog.log import batches
from commitlog.log.batches import Batch, Decider, Incoming
from commitlog.log.chain import Accepted, Chain, Skip
from commitlog.log.checkpoint import checkpoint_dir_of, load_checkpoints, write_checkpoint
from commitlog.log.codec import (
    decode_dead_letter,
    decode_receipts,
    decode_record,
    encode_genesis,
    encode_proposal,
    encode_receipts,
)
from commitlog.log.results import LogPosition
from commitlog.log.serving import DoubtError
from commitlog.log.topics import topics_of

GENESIS = m.Genesis(b"L" * 16)
STATISTICS = {"column": "id", "min": 1, "max": 9, "null_count": 0, "value_count": 10, "size_bytes": 80}
FILES = [data_file(10, footer_size=4, statistics=[STATISTICS], partition_values=[3]) for _ in range(3)]
TABLE = create_table(columns="id int64, v varchar", partition_by=[{"column": "id", "transform": "identity"}])
ORIGIN = {"node": "n", "tick": 1, "stamp_ms": 1, "priority": 1}
ROWS_READ = {"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": 1}]}
HISTORY: list[dict[str, Any]] = [
    {"changes": [], "open_writer": True},
    {"changes": [TABLE, keyed_table(), create_table("u")]},
    {
        "changes": [
            append(*FILES),
            insert(id=1, v="a", time=1),
            insert(id=2, v="b"),
            append(data_file(), table="u"),
        ]
    },
]
"""A log with files 0 to 2 of ten rows in table t, one in u, and rows 0 and 1 with keys 1 and 2 in k; a writer has epoch 1."""
PROPOSALS: list[dict[str, Any]] = [
    {
        "changes": [append({**FILES[0], "path": "new"})],
        "writer_epoch": 1,
        "writer_seq": 5,
        "created_at_ms": START_MS,
        "decide_before_ms": 2 * START_MS,
    },
    {"changes": [], "open_writer": True, "writer_epoch": 1},
    {"changes": [delete({0: [3]}), delete_file(1, [4]), delete_whole(2)]},
    {"changes": [compact([0], 10)]},
    {"changes": [compact([0, 1], 20)]},
    {"changes": [insert(id=3, v="c", time=5, origin=ORIGIN), update(1, v="d", time=6), delete_row(2, time=7)]},
    {"changes": [change("FLUSH", "k", files=[{**data_file(1), "row_ids": [0]}])]},
    {
        "changes": [alter("SET_COMMENT", comment="c")],
        "isolation": "SERIALIZABLE",
        "reads": [
            read_table("t", ("id", "=", 5), ("id", "in", [1, 2]), ("id", "between", [1, 2]), files=[0]),
            ROWS_READ,
        ],
    },
    {
        "changes": [
            create_table("x", "a int64", properties={}),
            alter("ADD_COLUMN", column={"name": "n", "type": "int64"}),
        ]
    },
    {"changes": [{"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 1}]},
    {"changes": [{"kind": "CONFIGURE", "settings": {"duplicate_window_ms": 7}}]},
]
OUTCOME_INTEGERS = (
    "decided_at_ms", "head_snapshot_id", "snapshot_id", "snapshot_time_us", "conflict_count", "next_catalog_id",
    "next_file_id", "original_seq", "content_hash",
)  # fmt: skip
SETTINGS = [name for name in m.LogSettings.FIELDS if name not in ("conflict_granularity", "on_conflict")]
BOUNDS = (-(2**63), -(2**63) + 1, -(2**31) - 1, -1, 0, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 2, 2**63 - 1)


class Log:
    """Messages in, records out, by the real ``Decider``, and every outcome read back into a second state."""

    def __init__(self, genesis: m.Genesis = GENESIS) -> None:
        self.genesis = genesis
        self.undecidable: dict[m.Position, Exception] = {}
        self.records: list[bytes] = []
        self.dead: list[bytes] = []
        self.internal = 0
        self.sent = 0
        self.load()

    def load(self) -> None:
        """The state at the end of what was accepted, as a sequencer loads it."""
        state = new_state(self.genesis)
        for record in self.records:
            replay(state, decode_record(record).outcome)
        self.decider = Decider(
            state,
            prev_hash=bytes(32),
            epoch=1,
            topics=topics_of("main"),
            handlers={},
            undecidable=self.undecidable,
        )

    def propose(self, value: dict[str, Any]) -> m.Outcome:
        """Decide a proposal; the state that has read the records holds what the live one does."""
        number = self.sent = self.sent + 1
        head = self.decider.state.head_snapshot_id
        fields = {"proposal_id": make_id(number), "writer_id": "w1", "base_snapshot_id": head, **value}
        writer = self.decider.state.writers.get("w1")
        if writer is not None and "writer_epoch" not in value:
            fields["writer_epoch"] = writer.epoch
        message = Incoming(0, number, b"w1", encode_proposal(proposal_from_json(fields)))
        batch = Batch()
        self.decider.decide_all([message], batch, now_ms=START_MS + number, told=0)
        self.records += batch.outcomes
        self.dead += batch.dead_letters
        self.internal += batch.internal
        outcome = decode_record(batch.outcomes[0]).outcome
        json.dumps(outcome_to_json(outcome))
        self.decider.letters(batch.receipts, batch.dead_letters)
        return outcome


def made() -> Log:
    log = Log()
    for value in HISTORY:
        assert log.propose(value).verdict is m.Verdict.COMMITTED
    return log


def integers_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every integer in a JSON value."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from integers_in(inner, (*path, key))


def put(value: dict[str, Any], path: tuple[Any, ...], number: int) -> dict[str, Any]:
    """A copy with another integer there."""
    copy: Any = deepcopy(value)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = number
    return copy


def every_integer() -> list[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Every integer of every proposal, the base among them, and every setting."""
    configured = [{"changes": [{"kind": "CONFIGURE", "settings": {name: 5}}]} for name in SETTINGS]
    based = [{**value, "base_snapshot_id": 3} for value in PROPOSALS]
    return [(value, path) for value in (*based, *configured) for path in integers_in(value)]


@pytest.mark.parametrize(
    ("value", "path"),
    every_integer(),
    ids=lambda each: ".".join(map(str, each)) if isinstance(each, tuple) else "",
)
def test_an_integer_at_its_bounds_then_it_is_answered_and_the_log_goes_on(
    value: dict[str, Any], path: tuple[Any, ...], tmp_path: Path
) -> None:
    log = made()
    for bound in BOUNDS:
        outcome = log.propose(put(value, path, bound))
        assert outcome.reason is not m.Reason.INTERNAL, (bound, outcome.detail)
    for after in PROPOSALS:
        log.propose(after)
    assert log.internal == 0
    state = log.decider.state
    log.load()
    assert state_hash(log.decider.state) == state_hash(state)
    checkpoints = Settings.load(log="main", checkpoint_dir=tmp_path)
    position = LogPosition(GENESIS.log_id, state.next_seq - 1, 1, bytes(32), 2**63 - 1)
    write_checkpoint(checkpoint_dir_of(checkpoints), state, position)
    (saved,) = load_checkpoints(checkpoints)
    assert (saved.position, state_hash(saved.load())) == (position, state_hash(state))


@pytest.mark.parametrize("value", PROPOSALS)
def test_what_is_taken_to_its_bounds_then_commits_as_it_is(value: dict[str, Any]) -> None:
    outcome = made().propose(value)
    assert outcome.verdict is m.Verdict.COMMITTED, outcome.detail


# --- our own records --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_a_genesis_with_a_setting_at_its_bounds_then_the_log_answers_all_the_same(name: str) -> None:
    taken = 0
    for number in (*BOUNDS, 1024, 2**26):
        try:
            settings = changed_settings(m.LogSettings(), {name: number})
        except InvalidChangeError:
            continue
        genesis = decode_record(encode_genesis(m.Genesis(b"L" * 16, settings=settings)))
        assert isinstance(genesis, m.Genesis)
        assert genesis.settings == settings
        log = Log(genesis)
        for value in (*HISTORY, *PROPOSALS):
            log.propose(value)
        assert log.internal == 0
        state = log.decider.state
        log.load()
        assert state_hash(log.decider.state) == state_hash(state)
        taken += 1
    assert taken > 0


@pytest.mark.parametrize("number", BOUNDS)
def test_records_of_the_log_with_an_integer_at_its_bounds_then_every_reader_takes_or_skips_them(number: int) -> None:
    """Nobody but a sequencer writes them; a zombie's, or what a defect has made, must not end every reader."""
    written = Written()
    written.take_over()
    written.decide(2)
    records = [
        outcome(number, written.hash, source=m.Position(0, 0)),
        outcome(3, written.hash, epoch=number),
        outcome(3, written.hash, told=number),
        *(outcome(3, written.hash, **{name: number}) for name in OUTCOME_INTEGERS),
        takeover(number),
    ]
    for record in records:
        chain = Chain()
        for offset, before in enumerate(written.records):
            chain.take(before, offset)
        assert isinstance(chain.take(record, len(written.records)), Accepted | Skip)
    receipt = m.Receipt(m.Position(0, 0), 1, b"P" * 16, m.Verdict.COMMITTED, 1, 1, None, None, m.Assigned(), 5)
    for name in ("seq", "snapshot_id", "head_snapshot_id", "decided_at_ms", "original_seq", "answered_snapshot_id"):
        one = receipt.replace(**{name: number})
        (told,) = decode_receipts(encode_receipts([one], log_id=b"L" * 16, partition=0)).receipts
        assert told == one


# --- what nobody expected ---------------------------------------------------------------------------------------------


def fail(*_: Any, **__: Any) -> Any:
    raise OverflowError("nobody expected this")


@pytest.mark.interpreted("compiled code calls functions directly: a broken one cannot be put in their place")
@pytest.mark.parametrize("broken", ["decide", "encode_outcome", "replay"])
def test_an_error_in_deciding_encoding_or_replaying_then_the_proposal_is_refused_and_the_state_is_as_before(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = made()
    before = log.decider.state.head_snapshot_id
    real: Callable[..., Any] = getattr(batches, broken)
    hit = {"changes": [append(data_file(path="hit"))]}

    def broken_once(*args: Any, **fields: Any) -> Any:
        result = real(*args, **fields) if broken == "replay" else None
        outcome = next((each for each in args if isinstance(each, m.Outcome)), None)
        proposal = next((each for each in args if isinstance(each, m.Proposal)), None) or (outcome and outcome.proposal)
        if proposal is not None and proposal.changes == proposal_from_json({**hit, **IDS}).changes:
            fail()
        return real(*args, **fields) if broken != "replay" else result

    monkeypatch.setattr(batches, broken, broken_once)
    with caplog.at_level(logging.ERROR, "commitlog.sequencer"):
        if broken == "replay":
            with pytest.raises(DoubtError):
                log.propose({**hit, "proposal_id": make_id(99)})
            log.sent -= 1
            log.load()
        refused = log.propose({**hit, "proposal_id": make_id(99)})
    assert "nobody expected this" in caplog.text
    assert (refused.verdict, refused.reason, refused.head_snapshot_id) == ("REJECTED", "INTERNAL", before)
    assert (refused.proposal, refused.writer_id) == (None, "w1")
    assert "OverflowError" in str(refused.detail)
    letter = decode_dead_letter(log.dead[0])
    assert (letter.seq, letter.detail) == (refused.seq, refused.detail)
    assert letter.value == encode_proposal(
        proposal_from_json({**hit, **IDS, "proposal_id": make_id(99), "base_snapshot_id": before, "writer_epoch": 1})
    )
    assert log.internal == 1
    monkeypatch.undo()
    again = log.propose({**hit, "proposal_id": make_id(99)})
    assert again.verdict is m.Verdict.COMMITTED
    state = log.decider.state
    log.load()
    assert state_hash(log.decider.state) == state_hash(state)


IDS = {"proposal_id": make_id(1), "writer_id": "w1", "base_snapshot_id": 0}


def test_outcome_when_its_topic_takes_less_than_the_settings_say_then_shortened_to_what_it_takes() -> None:
    ids, late_us = range(20), 9**18
    sizes = []
    for taken in (1_000_000, 100_000):
        log = Log()
        log.propose({"changes": [keyed_table(on_conflict="LAST_UPDATE_WINS")]})
        log.propose({"changes": [insert(id=each, v="a" * 10_000) for each in ids]})
        log.decider.answer_bytes_max = taken
        late = log.propose({"base_snapshot_id": 1, "changes": [insert(id=each, v="b", time=late_us) for each in ids]})
        assert late.verdict is m.Verdict.COMMITTED
        sizes.append(len(log.records[-1]))
    assert sizes[0] > 200_000, "the rows that were there are told"
    assert sizes[1] < 100_000
