"""The results read on while their reader waits for something else, by the reader's own thread.

A thread of its own would take the interpreter from whoever projects at each moment that one looks at the database, and keep
it for as long as it decodes; the database waits meanwhile.
"""

from __future__ import annotations

from commitlog.log.results import POLL_TIMEOUT_S, ResultRecord, ResultsReader

PIECE_RECORDS = 500
"""So many are read before it is looked how much they weigh."""
PASSING_RECORDS = 32
"""So many are read in passing: a third of a millisecond."""


class ReadAhead:
    """Gives out records, and reads some of the next ones whenever there is time. For one thread.

    Args:
        reader: nobody else may read from it until everything was taken.
        records_max: most records that one call gives, and that wait.
        bytes_max: most bytes of records that wait; one piece more may come on top.
    """

    def __init__(self, reader: ResultsReader, *, records_max: int, bytes_max: int) -> None:
        self._reader = reader
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._waiting: list[ResultRecord] = []
        self._bytes = 0
        self._next_offset = reader.next_offset
        self._failure: Exception | None = None

    @property
    def next_offset(self) -> int:
        """As `ResultsReader.next_offset`, of what has been taken."""
        return self._next_offset

    def take(self, *, timeout_s: float = POLL_TIMEOUT_S) -> list[ResultRecord]:
        """The next records, as many as are there; none when none come within the timeout, or only such as nobody is given
        (then `next_offset` has moved).

        Raises:
            CommitLogError: what ended the reading, after the records before it have been given out.
        """
        while self._read(PIECE_RECORDS, 0 if self._waiting else timeout_s) == PIECE_RECORDS:
            pass
        if not self._waiting and self._failure is not None:
            raise self._failure
        return self.rest()

    def rest(self) -> list[ResultRecord]:
        """What was read and is not taken."""
        taken, self._waiting, self._bytes = self._waiting, [], 0
        self._next_offset = self._reader.next_offset
        return taken

    def read_on(self) -> bool:
        """Reads a few of the records that are there; False: there are none, or enough of them wait."""
        return self._read(PASSING_RECORDS, 0) > 0

    def _read(self, records_max: int, timeout_s: float) -> int:
        wanted = min(records_max, self._records_max - len(self._waiting))
        if wanted == 0 or self._bytes >= self._bytes_max or self._failure is not None:
            return 0
        try:
            records = self._reader.read(records_max=wanted, timeout_s=timeout_s)
        except Exception as error:
            self._failure = error
            return 0
        self._waiting += records
        self._bytes += sum([len(record.raw) for record in records])
        return len(records)
