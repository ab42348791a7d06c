"""What goes over a line between a program and its machine's carrier."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from commitlog.log.carrier_line import (
    PING,
    PROPOSAL,
    RECEIPT,
    Letter,
    Messages,
    UnknownMessageError,
    address_of,
    message,
    new_socket,
)

ID = bytes(range(16))


@pytest.mark.parametrize(
    "letter",
    [
        Letter(ID, "w", b""),
        Letter(ID, "w" * 70_000, b"x"),
        Letter(ID, "w", b"x", is_awaited=False),
        Letter(ID, "wächter", b"x" * 100_000, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ],
)
def test_letter_when_it_goes_over_the_link_then_arrives_as_it_was(letter: Letter) -> None:
    [(kind, body)] = Messages().cut(letter.as_message())
    assert kind == PROPOSAL
    assert Letter.of(body) == letter


def test_letter_when_it_is_none_then_said() -> None:
    with pytest.raises(UnknownMessageError, match="a proposal of 19 bytes"):
        Letter.of(bytes(19))


@pytest.mark.parametrize("seed", range(20))
def test_messages_when_they_come_in_pieces_then_each_is_given_once_it_is_whole(seed: int) -> None:
    chance = random.Random(seed)
    sent = [(chance.choice((PING, RECEIPT)), chance.randbytes(chance.choice((0, 1, 5, 300)))) for _ in range(50)]
    data = b"".join(message(kind, body) for kind, body in sent)
    messages, came = Messages(), []
    while data:
        size = chance.choice((1, 2, 7, 400))
        came += list(messages.cut(data[:size]))
        data = data[size:]
    assert came == sent


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n", b"\0\0\0\0\0", b"\0\0\0\0\x63", b"\xff\xff\xff\xff\x01"])
def test_messages_when_they_are_none_then_said(garbage: bytes) -> None:
    with pytest.raises(UnknownMessageError, match="a message of kind"):
        list(Messages().cut(garbage))


@pytest.mark.parametrize("folder", ["f", "long" * 50])
def test_address_when_the_path_is_long_then_the_socket_is_there_all_the_same(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "c.sock"
    path.parent.mkdir()
    with new_socket() as listener, new_socket() as program:
        with address_of(path) as address:
            listener.bind(address)
        listener.listen()
        assert path.is_socket()
        with address_of(path) as address:
            program.connect(address)
        program.sendall(b"hello")
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(5) == b"hello"
