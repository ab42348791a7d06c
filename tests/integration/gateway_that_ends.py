"""A gateway that is killed at one step of a commit, whose message names the step; run by a test as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from commitlog.config import Settings
from commitlog.gateway import committing, server
from commitlog.gateway.committing import Answer, Commits
from commitlog.gateway.session import Session
from commitlog.ops.service.gateway import run_gateway

STEPS = ("read", "translated", "sent", "decided", "shown", "told", "at COMMIT", "ended")
MESSAGE = "killed when {}"

_chosen = ""


def end_at(step: str) -> None:
    """Be killed, if the client has asked for it."""
    if step == _chosen:
        os.kill(os.getpid(), signal.SIGKILL)


def ending(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and the end after it."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        end_at(step)
        return found

    @wraps(function)
    async def awaited(*arguments: Any) -> Any:
        found = await function(*arguments)
        end_at(step)
        return found

    return awaited if asyncio.iscoroutinefunction(function) else called


class EndingSession(Session):
    """A session that reads in a commit's text where the process is to end."""

    async def _commit(self, text: str) -> None:
        global _chosen
        _chosen = next((step for step in STEPS if f"'{MESSAGE.format(step)}'" in text), "")
        end_at("read")
        await super()._commit(text)
        end_at("told")

    def _ended(self, text: str, answer: Answer) -> bytes:
        end_at("at COMMIT")
        return super()._ended(text, answer)

    def _take(self, message: bytes) -> None:
        was_decided = self._answer is not None
        super()._take(message)
        if was_decided:
            end_at("ended")


def main() -> None:
    """Run until a client has it killed; the address is printed once it listens."""
    committing.translate = ending("translated", committing.translate)
    for name, step in (("_send", "sent"), ("_decided", "decided"), ("_shown", "shown")):
        setattr(Commits, name, ending(step, getattr(Commits, name)))
    server.Session = EndingSession  # type: ignore[misc]
    run_gateway(Settings.load(), stop=threading.Event(), on_address=lambda address: print(address, flush=True))


if __name__ == "__main__":
    main()
