"""Row handlers by name, with a note of those that were asked for and are not here.

An answer that a missing handler would have given is not known; whoever decides only to tell people has to say so.
"""

from __future__ import annotations

from collections.abc import Mapping

from commitlog.domain.deciding.rules import RowHandler


class NotingHandlers:
    """The handlers that are given, and in ``missing`` the names of those that were asked for in vain.

    Args:
        installed: handlers by name; none are asked at all when it is empty.
    """

    def __init__(self, installed: Mapping[str, RowHandler] | None = None) -> None:
        self._installed = {} if installed is None else installed
        self._missing: set[str] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """The names asked for in vain, sorted."""
        return tuple(sorted(self._missing))

    def may_be_named(self, name: str) -> bool:
        """Every handler: whether a table may ask for it is known only where the log is decided."""
        return True

    def handler(self, name: str, change: int) -> RowHandler | None:
        """The one of that name, whatever the change."""
        found = self._installed.get(name)
        if found is None:
            self._missing.add(name)
        return found
