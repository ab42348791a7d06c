"""Spans from a transaction until readers see it. Nothing of OpenTelemetry is imported here: who does not trace pays nothing.

A program traces when it has imported OpenTelemetry's API, as what traces it does; a service when it is told where spans go. The
writer's span travels as a header of the proposal's record, the sequencer's as one of the outcome's, and the projector's ends
the way. Headers are no part of a record's value: neither hashes nor limits know of them.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any


def spans() -> ModuleType | None:
    """`commitlog.observing.spans`, in a process that has OpenTelemetry at work; else a look-up is all that this costs."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from commitlog.observing import spans

    return spans


def entered(name: str, **attributes: Any) -> AbstractContextManager[object] | None:
    """A span that is the current one from now on, until it is left; None where nobody traces."""
    made = spans()
    if made is None:
        return None
    span: AbstractContextManager[object] = made.current(name, **attributes)
    span.__enter__()
    return span
