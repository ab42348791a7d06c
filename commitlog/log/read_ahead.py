"""The results read in a thread of its own, beside whoever has something else to wait for."""

from __future__ import annotations

from collections import deque

from commitlog.log.results import POLL_TIMEOUT_S, ResultRecord, ResultsReader
from commitlog.machine import THIS_MACHINE, Machine, Thread

PIECE_RECORDS = 500
"""So many are decoded at a time: until they are, the interpreter's lock is kept from whoever takes them."""


class ReadAhead:
    """Reads in a thread of its own, so that records are fetched and decoded while their reader waits for something else.

    Args:
        reader: nobody else may read from it until this is closed.
        records_max: most records that one call gives.
        bytes_max: most bytes of records that wait; one fetch more may come on top.
        machine: whose thread it is.
    """

    def __init__(
        self, reader: ResultsReader, *, records_max: int, bytes_max: int, machine: Machine = THIS_MACHINE
    ) -> None:
        self._reader = reader
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._waiting: deque[ResultRecord] = deque()
        self._bytes = 0
        self._has_more = False
        self._read_offset = self._next_offset = reader.next_offset
        self._failure: BaseException | None = None
        self._closed = False
        self._machine = machine
        self._changed = self._machine.condition()
        self._thread: Thread | None = None

    def __enter__(self) -> ReadAhead:
        self._thread = self._machine.thread(self._read, "read-ahead")
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        assert self._thread is not None
        self._thread.join()

    @property
    def next_offset(self) -> int:
        """As `ResultsReader.next_offset`, of what has been taken."""
        return self._next_offset

    def take(self, *, timeout_s: float = POLL_TIMEOUT_S) -> list[ResultRecord]:
        """The next records, as many as are there, and those that Kafka has given out but are not decoded yet; none when none
        come within the timeout, or only such as nobody is given (then `next_offset` has moved). What was read before the end
        of the block can be taken after it.

        Raises:
            CommitLogError: what ended the reading, after the records before it have been given out.
        """
        with self._changed:
            self._changed.wait_for(self._has_enough, timeout_s)
            if not self._waiting and self._failure is not None:
                raise self._failure
            taken = [self._waiting.popleft() for _ in range(min(self._records_max, len(self._waiting)))]
            self._bytes -= sum(len(record.raw) for record in taken)
            self._next_offset = taken[-1].offset + 1 if self._waiting else self._read_offset
            self._changed.notify_all()
        return taken

    def _has_enough(self) -> bool:
        if self._failure is not None or len(self._waiting) >= self._records_max or self._bytes >= self._bytes_max:
            return True
        return not self._has_more and self._next_offset < self._read_offset

    def _read(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._bytes < self._bytes_max)
                    if self._closed:
                        return
                wanted = min(self._records_max, PIECE_RECORDS)
                records = self._reader.read(records_max=wanted, timeout_s=0 if self._has_more else POLL_TIMEOUT_S)
                with self._changed:
                    self._has_more = len(records) == wanted
                    self._waiting.extend(records)
                    self._bytes += sum(len(record.raw) for record in records)
                    self._read_offset = self._reader.next_offset
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
