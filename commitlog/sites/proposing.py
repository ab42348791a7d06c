"""How snapshots are proposed to another site: many ahead of the answers, and one that was refused alone, once more.

What of them names the one before in its digest is refused without it; so what a site has taken over has no gaps.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import TypeVar

from commitlog.client import CommitLog
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.domain import model as m
from commitlog.errors import CommitLogError
from commitlog.sites.displaced import displaced_rows

IN_FLIGHT_MAX = 500
"""Snapshots that are proposed ahead of the answer that came last."""

_Each = TypeVar("_Each")
_NAMED_BYTES = 6
_VERSION, _VERSION_AT = 0x80, 6
_VARIANT, _VARIANT_AT = 0x80, 8


def id_for(made: bytes) -> bytes:
    """The id of a proposal that brings another one, which its first bytes name: a UUID version 8. Each attempt has its own."""
    new_id = bytearray(_name_of(made) + os.urandom(16 - _NAMED_BYTES))
    new_id[_VERSION_AT] = _VERSION | new_id[_VERSION_AT] & 0x0F
    new_id[_VARIANT_AT] = _VARIANT | new_id[_VARIANT_AT] & 0x3F
    return bytes(new_id)


def may_bring(proposal_id: bytes, made: bytes) -> bool:
    """Whether a proposal of that id may have brought the other one; those of other versions do not tell."""
    return not _tells(proposal_id) or _name_of(proposal_id) == _name_of(made)


def _name_of(made: bytes) -> bytes:
    """What was brought is named as what it was made of, by whichever sites it comes."""
    return made[:_NAMED_BYTES] if _tells(made) else sha256(made).digest()[:_NAMED_BYTES]


def _tells(proposal_id: bytes) -> bool:
    return proposal_id[_VERSION_AT] & 0xF0 == _VERSION


def in_runs(news: Iterable[_Each], follows: Callable[[_Each, _Each], bool]) -> Iterator[list[_Each]]:
    """What may be on its way at once: each of a run follows the one before, as it and that one are asked."""
    run: list[_Each] = []
    for each in news:
        if run and not follows(each, run[-1]):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def propose_ahead(
    target: CommitLog,
    run: Sequence[_Each],
    proposal: Callable[[_Each], m.Proposal],
    taken: Callable[[_Each, SubmittedOutcome], None],
) -> list[_Each]:
    """Send them without waiting for each one's answer, until one is refused; what was not taken.

    Raises:
        CommitLogError: one was not decided.
    """
    refused: list[_Each] = []
    sent = (proposal(each) for each in takewhile(lambda _: not refused, run))
    answered = 0
    for each, answer in zip(run, target.publish_many(sent, in_flight_max=IN_FLIGHT_MAX), strict=False):
        answered += 1
        if isinstance(answer, CommitLogError):
            raise answer
        if answer.committed:
            taken(each, answer)
        else:
            refused.append(each)
    return [*refused, *run[answered:]]


def propose_alone(
    target: CommitLog, proposal: Callable[[int, tuple[m.DisplacedRow, ...]], m.Proposal], base: int
) -> SubmittedOutcome:
    """Send one from a base, and again where that can help: the last answer.

    Only what the target changed since the base can have been in the way, as it may each time, or what it remembers no longer:
    ``proposal`` is given what readers see of that, all of it as of the base.
    """
    displaced: tuple[m.DisplacedRow, ...] = ()
    met: list[m.Conflict] = []
    answer, is_first = target.submit(proposal(base, displaced)), True
    while not answer.committed:
        head = target.wait_for_snapshot()
        met += answer.conflicts
        seen = tuple(displaced_rows(target, met, head))
        is_late = is_first or any(each.committed_snapshot_id > base for each in answer.conflicts)
        if seen == displaced and not (is_late and head > base):
            break
        base, is_first, displaced = head, False, seen
        answer = target.submit(proposal(base, displaced))
    return answer
