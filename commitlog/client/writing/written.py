"""Files that were written for one commit, until it is known whether it names them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType

from commitlog.client.files.removing import remove_files, unlisted
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.names import TableName
from commitlog.domain.model import Proposal
from commitlog.errors import CommitLogError, KeyReusedError, OutcomeUnknownError


class WrittenFiles:
    """Knows the files, and removes them once it is sure that no snapshot will name them."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._paths: list[str] = []
        self._folders: dict[str, str] = {}
        self._sources: list[str] = []

    def add(self, table: TableName, folder: str, paths: Iterable[str], *, moved: Iterable[str] = ()) -> None:
        """Take charge of files below a table's folder; those that they were ``moved`` from go once they are committed."""
        self._folders[str(table)] = folder
        self._paths += paths
        self._sources += moved

    def remove(self) -> None:
        """Remove them all: nothing that names them was committed. Those of a parent that was forked stay: it may commit."""
        if self._process == os.getpid():
            remove_files(self._paths)
        self._paths, self._sources = [], []

    def __enter__(self) -> None:
        """New proposals alone name the files within; after a refusal, or when nothing was sent, they are gone."""

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, KeyReusedError):
            self.keep_listed(error.first)
        elif isinstance(error, CommitLogError) and not isinstance(error, OutcomeUnknownError):
            self.remove()

    def answered(self, outcome: SubmittedOutcome) -> SubmittedOutcome:
        """Let go of the files that the commit names; a repeat's other ones are removed."""
        sources = self._sources
        if outcome.is_repeat:
            self.keep_listed(outcome.first)
        self._paths, self._sources = [], []
        remove_files(sources)
        return outcome

    def keep_listed(self, first: Proposal | None) -> None:
        """Let go of the files that the first proposal of a key names, and remove the others."""
        remove_files(unlisted(self._folders, self._paths, first))
        self._paths, self._sources = [], []
