"""The rule by which every reader reads the results: which records count, which are skipped, and where it stops."""

from __future__ import annotations

import pytest
from chains import GENESIS, LOG_ID, OTHER, Written, outcome, takeover

from commitlog.domain import model as m
from commitlog.errors import CommitLogError, LogIntegrityError, LogLossError, RulesVersionError
from commitlog.log.chain import Accepted, Chain, ChainState, LogPosition, Skip, hash_after_takeover
from commitlog.log.codec import encode_genesis, encode_proposal, hash_record


def read(records: list[bytes]) -> Chain:
    chain = Chain()
    for offset, record in enumerate(records):
        assert isinstance(chain.take(record, offset), Accepted)
    return chain


def a_log() -> Written:
    """Genesis, takeover of epoch 1, outcomes 1 and 2."""
    log = Written()
    log.take_over()
    log.decide(2)
    return log


def test_chain_when_records_follow_then_all_are_accepted() -> None:
    log = a_log()
    chain = read(log.records)
    assert chain.state == ChainState(LOG_ID, 1, b"I" * 16, 2, log.hash)
    assert chain.position == LogPosition(LOG_ID, 2, 1, hash_record(log.records[3]), 3)
    log.take_over(b"J")
    assert isinstance(chain.take(log.records[4], 4), Accepted)
    assert chain.state == ChainState(
        LOG_ID, 2, b"J" * 16, 2, hash_after_takeover(hash_record(log.records[3]), log.records[4])
    )
    assert chain.position is not None
    assert (chain.position.seq, chain.position.epoch) == (2, 1)
    [third] = log.decide()
    assert isinstance(chain.take(third, 5), Accepted)
    assert chain.position == LogPosition(LOG_ID, 3, 2, hash_record(third), 5)
    assert not chain.skipped


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (encode_genesis(m.Genesis(LOG_ID, partitions=9)), Skip.GENESIS),
        (encode_genesis(m.Genesis(OTHER)), Skip.GENESIS),
        (takeover(0, b"J"), Skip.TAKEOVER),
        (takeover(1, b"I"), Skip.TAKEOVER),
        (takeover(3, b"J"), Skip.TAKEOVER),
        (outcome(3, a_log().hash, epoch=0), Skip.LOWER_EPOCH),
        (outcome(3, a_log().hash, epoch=2), Skip.HIGHER_EPOCH),
        (a_log().records[-1], Skip.REPEATED),
        (a_log().records[-2], Skip.REPEATED),
        (outcome(2, a_log().hash, detail="other"), Skip.REPEATED),
        (outcome(4, a_log().hash), Skip.GAP),
        (b"junk", Skip.FOREIGN),
        (b"\xc3\x01", Skip.FOREIGN),
        (None, Skip.FOREIGN),
        (outcome(3, a_log().hash)[:40], Skip.FOREIGN),
        (takeover(2, b"J")[:-4], Skip.FOREIGN),
        (encode_proposal(m.Proposal(b"P" * 6 + b"\x70" + b"P" * 9, "w", 0, ())), Skip.FOREIGN),
    ],
)  # fmt: skip
def test_chain_when_a_record_does_not_count_then_skipped_and_nothing_has_changed(
    record: bytes | None, why: Skip
) -> None:
    log = a_log()
    chain = read(log.records)
    state, position = chain.state, chain.position
    assert chain.take(record, 4) is why
    assert (chain.state, chain.position, chain.skipped) == (state, position, {why: 1})
    assert isinstance(chain.take(log.decide()[0], 5), Accepted)


@pytest.mark.parametrize(
    ("record", "offset", "kind", "told"),
    [
        (outcome(3, b"?" * 32), 4, LogIntegrityError, "was written after another outcome 2"),
        (outcome(3, a_log().hash, log_id=OTHER), 4, LogIntegrityError, "belongs to log 4f4f4f4f"),
        (outcome(1, b"?" * 32, epoch=0, log_id=OTHER), 4, LogIntegrityError, "belongs to log 4f4f4f4f"),
        (takeover(2, log_id=OTHER), 4, LogIntegrityError, "belongs to log 4f4f4f4f"),
        (b"\xc3\x01" + b"f" * 30, 4, LogIntegrityError, "written by another version of commitlog"),
        (outcome(3, a_log().hash), 5, LogLossError, "offset 5 comes where 4 was expected"),
        (outcome(3, a_log().hash), 3, LogLossError, "offset 3 comes where 4 was expected"),
        (outcome(3, a_log().hash, rules_version=m.RULES_VERSION + 1), 4, RulesVersionError, "rules version"),
    ],
)  # fmt: skip
def test_chain_when_it_could_be_another_history_then_stops_and_nothing_has_changed(
    record: bytes, offset: int, kind: type[CommitLogError], told: str
) -> None:
    log = a_log()
    chain = read(log.records)
    state = chain.state
    with pytest.raises(kind, match=told):
        chain.take(record, offset)
    assert (chain.state, chain.next_offset, sum(chain.skipped.values())) == (state, 4, 0)
    assert isinstance(chain.take(log.decide()[0], 4), Accepted)


def test_chain_when_a_zombie_goes_on_after_a_takeover_then_only_the_new_epoch_counts() -> None:
    log = a_log()
    chain = read(log.records)
    late = log.next_outcomes(2)
    log.take_over(b"J")
    chain.take(log.records[-1], 4)
    assert [chain.take(record, 5 + n) for n, record in enumerate(late)] == [Skip.LOWER_EPOCH] * 2
    # A forger who only raises the epoch does not know the takeover's bytes.
    with pytest.raises(LogIntegrityError, match="another outcome 2"):
        chain.take(outcome(3, hash_record(log.records[3]), epoch=2), 7)
    assert isinstance(chain.take(log.decide()[0], 7), Accepted)


def test_chain_when_two_take_over_then_the_first_in_the_topic_wins() -> None:
    chain = read(a_log().records)
    assert isinstance(chain.take(takeover(2, b"J"), 4), Accepted)
    assert chain.take(takeover(2, b"K"), 5) is Skip.TAKEOVER
    assert chain.state is not None
    assert (chain.state.epoch, chain.state.instance) == (2, b"J" * 16)


def test_chain_when_it_goes_on_after_any_outcome_then_the_state_is_the_same() -> None:
    log = Written()
    for instance in (b"I", b"J", b"K"):
        log.take_over(instance)
        log.decide(2)
    whole = Chain()
    for offset, record in enumerate(log.records):
        before = whole.position
        whole.take(record, offset)
        if before is not None:
            again = Chain.after(before)
            for number in range(before.results_offset + 1, offset + 1):
                again.take(log.records[number], number)
            assert again.state is not None
            assert again.state.replace(instance=None) == whole.state.replace(instance=None)  # type: ignore[union-attr]
            assert again.position == whole.position


def test_chain_when_one_byte_is_changed_then_the_next_record_does_not_fit() -> None:
    log = a_log()
    chain = read([*log.records[:2], outcome(1, hash_after_takeover(hash_record(GENESIS), log.records[1]), detail="so")])
    with pytest.raises(LogIntegrityError, match="another outcome 1"):
        chain.take(log.records[3], 3)


def test_chain_when_it_does_not_start_with_the_genesis_then_stops_unless_it_is_not_ours() -> None:
    for record in (takeover(1), outcome(1, b"?" * 32)):
        with pytest.raises(LogIntegrityError, match="another record than its genesis"):
            Chain().take(record, 0)
    chain = Chain()
    assert chain.take(b"junk", 0) is Skip.FOREIGN
    assert isinstance(chain.take(GENESIS, 1), Accepted)
    with pytest.raises(RulesVersionError):
        Chain().take(encode_genesis(m.Genesis(LOG_ID, rules_version=m.RULES_VERSION + 1)), 0)
