"""What every page is made of: the log, the templates, what is measured, and how the log is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jinja2 import Environment
from starlette.responses import HTMLResponse

from commitlog.client import CommitLog
from commitlog.client.access.contents import Contents
from commitlog.client.outcomes.explaining import Explanation
from commitlog.ui.pulse import Pulse

EXPLAINED_MAX = 200


class Health(Protocol):
    """How a log is, as ``commitlog status`` tells it."""

    @property
    def sequencer_alive(self) -> bool | None: ...

    @property
    def stands_still(self) -> bool: ...

    @property
    def projector_alive(self) -> bool | None: ...

    @property
    def standbys(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...

    @property
    def decided_seq(self) -> int | None: ...

    @property
    def head_snapshot_id(self) -> int | None: ...

    @property
    def applied_seq(self) -> int | None: ...

    @property
    def lag(self) -> int | None: ...

    @property
    def lag_s(self) -> float | None: ...

    @property
    def is_current(self) -> bool: ...

    @property
    def links(self) -> Sequence[object]: ...

    @property
    def relay(self) -> object | None: ...

    @property
    def problems(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Site:
    """One log's pages.

    Attributes:
        log: is only read.
        templates: from ``words.make_environment``.
        pulse: what happens now.
        health: looks at the services, which takes seconds; None where there are none, as for a log in memory.
    """

    log: CommitLog
    templates: Environment
    pulse: Pulse
    health: Callable[[], Health] | None = None
    _explained: dict[bytes, Explanation] = field(default_factory=dict)
    _explaining: threading.Lock = field(default_factory=threading.Lock)

    def contents(self) -> Contents:
        """What readers see by now: a page never waits for the projector."""
        return self.log.contents()

    def head(self) -> int:
        """The newest snapshot that readers see."""
        return self.contents().snapshots(limit=1)[0].snapshot_id

    def explanation(self, proposal_id: bytes) -> Explanation:
        """What would have become of a refused proposal; the log is replayed for it once, for it never changes."""
        # It holds a whole state of the log meanwhile, and whoever waits for long asks again: one at a time.
        with self._explaining:
            found = self._explained.get(proposal_id)
            if found is None:
                if len(self._explained) >= EXPLAINED_MAX:
                    self._explained.clear()
                found = self._explained[proposal_id] = self.log.explanation(proposal_id)
            return found

    def page(self, template: str, *, status: int = 200, **shown: Any) -> HTMLResponse:
        """A page made of a template."""
        return HTMLResponse(self.templates.get_template(template).render(shown), status_code=status)
