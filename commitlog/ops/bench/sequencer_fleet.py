"""Sequencers as processes that can be killed, frozen and watched: for measuring takeovers, and for testing them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.local.home import mark_of
from commitlog.log.sequencer import EXIT_FENCED, Phase
from commitlog.ops.service.supervisor import SEQUENCER, STANDBY

POLL_S = 0.005
_MOVE = re.compile(r"(\w+) -> (\w+)$")


class Member:
    """One sequencer process, whose command logs to standard error. Its phase is what it has logged last."""

    def __init__(self, settings: Settings, log_file: Path, command: Sequence[str]) -> None:
        self.log_file = log_file
        self.phases: list[Phase] = [Phase.STARTING]
        self._seen_bytes = log_file.stat().st_size if log_file.exists() else 0
        self._is_frozen = False
        with log_file.open("ab") as output:
            environment = {**settings.environment(), **mark_of(settings.home)}
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    @property
    def phase(self) -> Phase:
        """Where it is now, as far as it has said; STOPPED once it has ended."""
        self._look()
        return Phase.STOPPED if self._process.poll() is not None else self.phases[-1]

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def is_frozen(self) -> bool:
        """Whether it was frozen and not thawed."""
        return self._is_frozen

    def kill(self) -> None:
        """End it at once, frozen or not."""
        self._process.kill()
        self._process.wait()
        self._is_frozen = False

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does."""
        self._signal(signal.SIGSTOP)
        self._is_frozen = True

    def thaw(self) -> None:
        """Let it go on as if nothing had been."""
        self._signal(signal.SIGCONT)
        self._is_frozen = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _look(self) -> None:
        with self.log_file.open("rb") as file:
            file.seek(self._seen_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._seen_bytes += len(line)
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            move = _MOVE.search(json.loads(line)["message"])
        except (ValueError, KeyError, TypeError):
            return
        if move is not None and move[2] in Phase.__members__:
            self.phases.append(Phase(move[2]))


class Fleet:
    """Sequencers of one log. Those that end are started again by `tend`: one that was fenced as a standby."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.home / "fleet"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._started = 0
        self.members: list[Member] = []
        self.exit_codes: list[int] = []

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    def start(self, *, standby: bool) -> Member:
        """One more."""
        return self.add((STANDBY if standby else SEQUENCER).command())

    def add(self, command: Sequence[str]) -> Member:
        """One more, by a command of the caller's."""
        self._started += 1
        member = Member(self._settings, self._folder / f"sequencer-{self._started}.log", command)
        self.members.append(member)
        return member

    def tend(self) -> None:
        """Start again what has ended."""
        for member in list(self.members):
            code = member.exit_code
            if code is not None:
                self.members.remove(member)
                self.exit_codes.append(code)
                self.start(standby=code == EXIT_FENCED)

    def in_phase(self, phase: Phase) -> list[Member]:
        """Those that are there and not frozen."""
        return [member for member in self.members if member.phase is phase and not member.is_frozen]

    def wait_for(self, what: str, condition: Callable[[], bool], *, timeout_s: float, tends: bool = False) -> None:
        """Wait until a condition holds.

        Raises:
            LogUnavailableError: it did not in time.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if tends:
                self.tend()
            if time.monotonic() > deadline:
                phases = ", ".join(f"{member.phase} (exit code {member.exit_code})" for member in self.members)
                detail = f"{what} did not come in {timeout_s:.0f} s; sequencers: {phases or 'none'}"
                raise LogUnavailableError(self._settings.bootstrap_servers, detail=detail)
            time.sleep(POLL_S)
