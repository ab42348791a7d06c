"""TCP proxies before a broker or a PostgreSQL, that make the weather: they pass, are late, are silent, or are not there."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

from commitlog.local.processes import HOST


class Proxy:
    """Stands before a server of this machine; clients that only know its address never talk to the server itself.

    Args:
        target: the server's port.
    """

    def __init__(self, target: int) -> None:
        self.target = target
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
    def address(self) -> str:
        """Where clients reach the server."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._passes.set()
        self._in_time.set()
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            cut, self._sockets = self._sockets, []
        for each in cut:
            _end(each)

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
                server = socket.create_connection((HOST, self.target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets = [each for each in self._sockets if each.fileno() >= 0] + [client, server]
            threading.Thread(target=self._relay, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, True), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := self._taken(source):
                self._passes.wait()
                if is_answer:
                    self._in_time.wait(self._late_s)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            # Whoever reads from the other one is woken, and closes it.
            _end(source)
            _end(sink)
            source.close()

    def _taken(self, source: socket.socket) -> bytes:
        """What is passed on together; nothing at the end."""
        return source.recv(1 << 16)


class KafkaProxy(Proxy):
    """Before a broker, which tells clients its own address: that is replaced in what it answers.

    Args:
        bootstrap_servers: the broker's address.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(int(bootstrap_servers.rpartition(":")[2]))

    def _taken(self, source: socket.socket) -> bytes:
        theirs, ours = (HOST.encode() + struct.pack(">i", port) for port in (self.target, self.port))
        return _frame(source).replace(theirs, ours)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


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
