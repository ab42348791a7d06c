"""COPY beside whoever collects more rows: one table after another, by the collector's own thread and connection.

Another thread that sends waits for the interpreter's lock at each step, while PostgreSQL waits for it. So nobody waits here
before the end: in passing it is looked whether the server has taken or answered something, and what can be done then is done.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

_NONE: Final = 0
_ASKED: Final = 1
_COPIED: Final = 2
_ENDED: Final = 3


def nothing() -> bool:
    """There is nothing else to do."""
    return False


class CopyQueue:
    """What COPY is to take, in the caller's SQL transaction. For one thread.

    Args:
        connection: of psycopg; nothing else may be done by it unless `is_done`.
        meanwhile: done again and again while PostgreSQL is waited for, until it returns False; it must not take long.

    Attributes:
        size_bytes: of what PostgreSQL has not taken yet.
    """

    def __init__(self, connection: Any, meanwhile: Callable[[], bool] = nothing) -> None:
        self._meanwhile = meanwhile
        self._connection = connection.pgconn
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._data = b""
        self._step = _NONE
        self._is_flushed = True
        self._failed: Any = None
        self.size_bytes = 0

    @property
    def is_done(self) -> bool:
        """Whether everything is in its table."""
        return self._step == _NONE and not self._waiting

    def put(self, statement: bytes, data: bytes) -> None:
        """Have a COPY FROM STDIN take some bytes, after all that was put before."""
        self._waiting.append((statement, data))
        self.size_bytes += len(data)

    def go_on(self) -> None:
        """Do what can be done without waiting.

        Raises:
            psycopg.Error: PostgreSQL has refused something, or is gone; what was to come after it is dropped.
        """
        try:
            while self._goes_on():
                pass
        except BaseException:
            self._step, self._failed, self.size_bytes = _NONE, None, 0
            self._waiting.clear()
            raise

    def finish(self) -> None:
        """Wait until everything is in its table.

        Raises:
            psycopg.Error: as `go_on`.
        """
        self.go_on()
        if self.is_done:
            return
        while not self.is_done and self._meanwhile():
            self.go_on()
        server = select.poll()
        while not self.is_done:
            server.register(self._connection.socket, select.POLLIN | (0 if self._is_flushed else select.POLLOUT))
            server.poll()
            self.go_on()

    def _goes_on(self) -> bool:
        """One step; False when the next one has to wait, or there is none."""
        connection = self._connection
        if self._step == _NONE:
            if not self._waiting:
                return False
            statement, self._data = self._waiting.popleft()
            connection.send_query(statement)
            self._step = _ASKED
        elif self._step == _COPIED and not self._has_given():
            self._is_flushed = False
            return False
        self._is_flushed = connection.flush() == 0
        connection.consume_input()
        return not connection.is_busy() and self._heeds(connection.get_result())

    def _has_given(self) -> bool:
        """Whether libpq has taken the data and the end of the copy; False while it has no room for them."""
        connection = self._connection
        if self._data and connection.put_copy_data(self._data) == 0:
            return False
        self.size_bytes -= len(self._data)
        self._data = b""
        if connection.put_copy_end() == 0:
            return False
        self._step = _ENDED
        return True

    def _heeds(self, result: Any) -> bool:
        if result is None:
            self._step, failed = _NONE, self._failed
            if failed is not None:
                raise error_from_result(failed)
        elif result.status == ExecStatus.COPY_IN:
            self._step = _COPIED
        elif result.status != ExecStatus.COMMAND_OK:
            self._failed = self._failed or result
        return True
