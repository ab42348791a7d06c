"""The row handlers that are installed here: entry points of the group ``commitlog.row_handlers``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from commitlog.domain.deciding.rules import RowHandler

ROW_HANDLERS_GROUP = "commitlog.row_handlers"


def load_row_handlers() -> dict[str, RowHandler]:
    """The row handlers that are installed, by name."""
    # Late, because it takes as long to import as all else that `commitlog replay` needs.
    from importlib.metadata import entry_points

    return {entry.name: entry.load() for entry in entry_points(group=ROW_HANDLERS_GROUP)}


class InstalledHandlers(Mapping[str, RowHandler]):
    """The installed row handlers by name, looked for only when a table asks for one."""

    def __init__(self) -> None:
        self._loaded: dict[str, RowHandler] | None = None

    def _handlers(self) -> dict[str, RowHandler]:
        if self._loaded is None:
            self._loaded = load_row_handlers()
        return self._loaded

    def __getitem__(self, name: str) -> RowHandler:
        return self._handlers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers())

    def __len__(self) -> int:
        return len(self._handlers())
