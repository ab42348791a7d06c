"""Mistakes in how a sequencer serves, planted by what looks for them in the fencing alone and in a whole simulated log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from commitlog.errors import FencedError
from commitlog.log.reports import Report
from commitlog.log.serving import SentBatch, Serving, TakeoverAttempt

Patch = pytest.MonkeyPatch


def proved_by(patch: Patch, is_proved: Callable[[Serving, list[Report]], bool]) -> None:
    """Another rule for what the reports of a batch prove."""
    real = Serving._is_at_the_end

    def is_at_the_end(self: Serving, batch: SentBatch) -> bool:
        reports = [batch.reports[index] for index in range(len(batch.outcomes))]
        return is_proved(self, reports) or real(self, batch)

    patch.setattr(Serving, "_is_at_the_end", is_at_the_end)


def an_error_is_no_doubt(patch: Patch) -> None:
    proved_by(patch, lambda serving, reports: any(each.error is not None for each in reports))


def a_success_without_an_offset_is_proof(patch: Patch) -> None:
    proved_by(patch, lambda serving, reports: all(each.error is None and each.offset is None for each in reports))


def a_fenced_one_goes_on(patch: Patch) -> None:
    real = Serving.read

    def read(self: Serving, records: Iterable[tuple[int, bytes | None]]) -> list[SentBatch]:
        try:
            return real(self, records)
        except FencedError:
            assert self.unread is not None
            self.next_offset, self.unread = self.unread[1], None
            return [self._sent.popleft()] if self._sent else []

    patch.setattr(Serving, "read", read)


def the_takeover_is_not_read_back(patch: Patch) -> None:
    patch.setattr(TakeoverAttempt, "has_won", lambda self, state: True)


def told_before_the_acknowledgement(patch: Patch) -> None:
    def judge(self: Serving) -> list[SentBatch]:
        accepted = list(self._sent)
        for batch in accepted:
            self._accept(batch, self.next_offset + len(batch.outcomes))
        self._sent.clear()
        return accepted

    patch.setattr(Serving, "judge", judge)
