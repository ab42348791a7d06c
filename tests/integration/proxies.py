"""A TCP proxy before a broker, that makes the weather: it passes, is late, is silent, or is not there."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType

from commitlog.local.processes import HOST


class KafkaProxy:
    """Stands before a broker; clients that only know its address never talk to the broker itself.

    The broker tells clients its own address, which is replaced in what it answers.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._target = int(bootstrap_servers.rpartition(":")[2])
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._passes = threading.Event()
        self._passes.set()
        self._in_time = threading.Event()
        self._in_time.set()
        self._late_s = 0.0
        self._refuses = False
        self._closed = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    def be_late(self, seconds: float) -> None:
        """Every answer comes so much later: a broker that is far away, or busy."""
        self._late_s = seconds
        self._in_time.clear()

    def be_silent(self) -> None:
        """Connections stay, new ones are taken, and nothing comes through: a broker that is frozen."""
        self._passes.clear()

    def refuse(self) -> None:
        """Connections break, and new ones are closed at once: a broker that has ended."""
        self._refuses = True
        self._cut()

    def heal(self) -> None:
        """All is as it was."""
        self._refuses = False
        self._passes.set()
        self._in_time.set()

    def __enter__(self) -> KafkaProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        self._passes.set()
        self._in_time.set()
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            cut, self._sockets = self._sockets, []
        for each in cut:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            try:
                broker = socket.create_connection((HOST, self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, broker]
            threading.Thread(target=self._relay, args=(client, broker, False), daemon=True).start()
            threading.Thread(target=self._relay, args=(broker, client, True), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        theirs, ours = (f"{HOST}".encode() + struct.pack(">i", port) for port in (self._target, self.port))
        try:
            while frame := _frame(source):
                self._passes.wait()
                if is_answer:
                    self._in_time.wait(self._late_s)
                sink.sendall(frame.replace(theirs, ours))
        except OSError:
            pass
        finally:
            source.close()
            sink.close()


def _frame(source: socket.socket) -> bytes:
    """One request or answer with its length; nothing at the end."""
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">i", head)[0]) if head else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = source.recv(min(size, 1 << 16))
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
