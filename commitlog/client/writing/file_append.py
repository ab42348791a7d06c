"""Files put into one transaction after another until one is committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from commitlog.client.tables.names import TableName
from commitlog.domain.model import DataFile


class FileTransaction(Protocol):
    """What it asks of a transaction."""

    def append(self, table: str, *, files: Iterable[str | Path | DataFile]) -> None: ...


@dataclass(frozen=True, slots=True)
class FileAppend:
    """The files of one append; they can be checked against a table as often as it is altered."""

    name: TableName
    files: tuple[str | Path | DataFile, ...]

    @property
    def is_written(self) -> bool:
        """Whether what is appended was made for the table as it was."""
        return False

    def put(self, transaction: FileTransaction) -> None:
        """Append to the table as the transaction sees it."""
        transaction.append(str(self.name), files=self.files)
