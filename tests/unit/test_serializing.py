"""The judge of the simulation's histories: which of them no order of one after another explains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deciding import DecidedLog, delete_row, insert, keyed_table, update

from commitlog.domain.model import Isolation, Outcome, Verdict
from commitlog.simulation.serializing import cycle_in


def reads(*keys: int) -> list[dict[str, Any]]:
    return [{"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": key} for key in keys]}]


def committed(log: DecidedLog) -> Iterator[Outcome]:
    return (outcome for outcome in log.outcomes if outcome.verdict is Verdict.COMMITTED)


def rows_of(log: DecidedLog, *ids: int) -> int:
    log.commit(keyed_table())
    return log.commit(*[insert(id=id_, v="a") for id_ in ids])


def test_history_when_a_delete_was_skipped_then_it_wrote_nothing() -> None:
    log = DecidedLog()
    base = rows_of(log, 0, 1, 3)
    deleted = log.commit(delete_row(3), base=base)
    log.commit(delete_row(3), delete_row(1), base=base)
    log.commit(insert(id=1, v="b"))
    log.commit(update(1, v="c"), isolation="SERIALIZABLE", reads=reads(0, 1))
    log.commit(update(0, v="c"), base=deleted, isolation="SERIALIZABLE", reads=reads(3, 0))
    assert cycle_in(committed(log)) == []


def test_history_when_each_of_two_has_read_what_the_other_wrote_then_no_order_explains_it() -> None:
    log = DecidedLog()
    base = rows_of(log, 0, 1)
    log.commit(update(0, v="b"), base=base, reads=reads(1))
    log.commit(update(1, v="b"), base=base, reads=reads(0))
    assert cycle_in(committed(log)) == []
    claimed = [
        outcome.replace(proposal=outcome.proposal.replace(isolation=Isolation.SERIALIZABLE))
        for outcome in committed(log)
        if outcome.proposal is not None
    ]
    assert set(cycle_in(claimed)) == {"3 -rw ('k', '1')-> 4", "4 -rw ('k', '0')-> 3"}
