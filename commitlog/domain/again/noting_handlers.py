"""Row handlers by name, with a note of those that were asked for and are not here.

An answer that a missing handler would have given is not known; whoever decides only to tell people has to say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from commitlog.domain.deciding.row_conflicts import RowHandler


class NotingHandlers(Mapping[str, RowHandler]):
    """The handlers that are given, and in ``missing`` the names of those that were asked for in vain.

    Every name is ``in`` it: whether a table may ask for a handler is known only where the log is decided.

    Args:
        installed: handlers by name; none are asked at all when it is empty.
    """

    def __init__(self, installed: Mapping[str, RowHandler] | None = None) -> None:
        self._installed = installed or {}
        self._missing: set[str] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """The names asked for in vain, sorted."""
        return tuple(sorted(self._missing))

    def __getitem__(self, name: str) -> RowHandler:
        if name not in self._installed:
            self._missing.add(name)
        return self._installed[name]

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._installed)

    def __len__(self) -> int:
        return len(self._installed)
