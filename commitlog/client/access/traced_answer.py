"""An answer that ends the span which its proposal was sent in."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from commitlog.client.access.log_access import PendingAnswer
from commitlog.domain.model import Receipt


class TracedAnswer:
    """A proposal on its way, as `PendingAnswer`.

    Args:
        pending: the answer itself.
        spans: what makes spans.
        span: ends with the first word about the answer.
    """

    def __init__(self, pending: PendingAnswer, spans: ModuleType, span: Any) -> None:
        self._pending = pending
        self._spans = spans
        self._span = span

    def wait(self, timeout_s: float | None = None) -> Receipt:
        try:
            receipt = self._pending.wait(timeout_s)
        except Exception as error:
            self._spans.failed(self._span, str(error))
            raise
        else:
            reason = None if receipt.reason is None else receipt.reason.value
            snapshot_id = receipt.snapshot_id
            self._spans.answered(
                self._span, verdict=receipt.verdict.value, seq=receipt.seq, snapshot_id=snapshot_id, reason=reason
            )
            return receipt
        finally:
            self._span.end()

    def on_answer(self, tell: Callable[[Any], None], timeout_s: float | None = None) -> None:
        self._pending.on_answer(lambda _: tell(self), timeout_s)

    def forget(self) -> None:
        self._pending.forget()
