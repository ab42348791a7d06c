"""Receipts that a sequencer brings to a carrier of its machine by a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest

from commitlog.log.replies import HEADER, Replier, ReplySocket, reply_to_in


@pytest.fixture(params=["short", "long" * 40])
def carrier_socket(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder: Path = tmp_path / request.param
    folder.mkdir()
    return folder / "carrier.sock"


@pytest.fixture
def replies(carrier_socket: Path) -> Iterator[ReplySocket]:
    replies = ReplySocket(carrier_socket)
    yield replies
    replies.close()


@pytest.fixture
def replier(carrier_socket: Path) -> Iterator[Replier]:
    replier = Replier(carrier_socket)
    yield replier
    replier.close()


def beside(carrier_socket: Path) -> list[Path]:
    return sorted(carrier_socket.parent.iterdir())


def test_reply_when_the_carrier_is_here_then_it_gets_each_whole_and_in_order(
    replies: ReplySocket, replier: Replier
) -> None:
    assert list(replies.received()) == []
    for reply in (b"first", bytes(100_000)):
        assert replier.reply(replies.name, reply)
    assert list(replies.received()) == [b"first", bytes(100_000)]


def test_reply_when_a_carrier_is_followed_by_another_then_that_one_gets_what_names_it(
    carrier_socket: Path, replies: ReplySocket, replier: Replier
) -> None:
    assert replier.reply(replies.name, b"1")
    # As one that was killed: its name stays, and nobody listens.
    replies._socket.close()
    assert not replier.reply(replies.name, b"2")
    second = ReplySocket(carrier_socket)
    for reply in (b"3", b"4"):
        assert replier.reply(second.name, reply)
        assert not replier.reply(replies.name, reply)
    assert list(second.received()) == [b"3", b"4"]
    second.close()


def test_reply_when_two_carriers_are_here_then_each_gets_its_own(carrier_socket: Path, replier: Replier) -> None:
    first = ReplySocket(carrier_socket)
    second = ReplySocket(carrier_socket.with_name("other"))
    assert first.name != second.name
    assert replier.reply(first.name, b"x")
    assert not replier.reply(second.name, b"y")
    assert replier.reply(first.name, b"z")
    assert (list(first.received()), list(second.received())) == ([b"x", b"z"], [])
    first.close()
    second.close()


def test_reply_when_nobody_is_there_then_it_did_not_go(
    carrier_socket: Path, replies: ReplySocket, replier: Replier
) -> None:
    assert not replier.reply("0" * 16, b"x")
    replies.close()
    assert not replier.reply(replies.name, b"x")
    assert beside(carrier_socket) == []
    without = Replier(None)
    assert not without.reply(replies.name, b"x")
    without.close()


def test_reply_when_there_is_no_room_for_it_then_it_did_not_go(replies: ReplySocket, replier: Replier) -> None:
    assert not replier.reply(replies.name, bytes(10_000_000))
    went = 0
    while replier.reply(replies.name, b"%d" % went):
        went += 1
    assert [int(each) for each in replies.received()] == [*range(went)]
    assert replier.reply(replies.name, b"again")


@pytest.mark.parametrize(
    "name", ["", "../carrier.sock", "A" * 16, "0" * 15, "0" * 17, "0" * 16 + "\n", "0" * 15 + "\0"]
)
def test_reply_when_a_proposal_names_what_is_no_carriers_then_nothing_is_sent(
    carrier_socket: Path, replier: Replier, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.log.replies.address_of", None)
    assert not replier.reply(name, b"x")


def test_socket_when_a_killed_carrier_left_its_own_then_that_is_removed_and_nothing_else(carrier_socket: Path) -> None:
    others = [carrier_socket, carrier_socket.with_name("carrier.sock.12"), carrier_socket.with_name("else." + "0" * 16)]
    left = carrier_socket.with_name("carrier.sock." + "0" * 16)
    for each in (*others, left):
        each.touch()
    replies = ReplySocket(carrier_socket)
    own = carrier_socket.with_name(f"carrier.sock.{replies.name}")
    assert beside(carrier_socket) == sorted((*others, own))
    assert S_IMODE(own.stat().st_mode) == 0o600
    replies.close()
    assert beside(carrier_socket) == sorted(others)


def test_header_when_a_proposal_has_one_then_says_who_is_replied_to() -> None:
    assert reply_to_in(None) is None
    assert reply_to_in([]) is None
    assert reply_to_in([("traceparent", b"00"), (HEADER, None)]) is None
    assert reply_to_in([("traceparent", b"00"), (HEADER, b"ab")]) == "ab"
    assert reply_to_in({HEADER: b"\xff"}) == "\ufffd"
