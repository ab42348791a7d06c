"""A signal at any moment: a call is ended at each place where Python looks for signals, one after another."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from types import CodeType, FrameType
from typing import Any

LOOKED_AFTER = {
    dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME") if name in dis.opmap
}
TRACED = ("/commitlog/", threading.__file__, "/concurrent/futures/")


class Signal(BaseException):
    """What a program's own handler raises."""


def each_interrupted(act: Callable[[], object]) -> Iterator[str]:
    """Each place at which the call was ended, right after that; until it comes to its end."""
    for number in count(1):
        # From 3.12 on, Python shows the steps of what it traces only from the second time on that this begins.
        _traced(act, _Ending(0))
        ending = _Ending(number)
        _traced(act, ending)
        if not ending.place:
            return
        yield ending.place


def _traced(act: Callable[[], object], ending: _Ending) -> None:
    before = sys.gettrace()
    sys.settrace(ending.traced)
    try:
        act()
    except Signal:
        pass
    finally:
        sys.settrace(before)


class _Ending:
    """Traces a call, and ends it at the place of a number; 0 is no place."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._at: dict[FrameType, int] = {}
        self.place = ""

    def traced(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Of the frames that are begun, ours, and those of the locks that they wait at."""
        if not any(part in frame.f_code.co_filename for part in TRACED):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "return":
            self._at.pop(frame, None)
        elif event == "opcode":
            before, self._at[frame] = self._at.get(frame), frame.f_lasti
            if before is not None and _code(frame.f_code)[before] in LOOKED_AFTER:
                self._left -= 1
                if self._left == 0:
                    self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    self._at.clear()
                    raise Signal
        return self._step


_codes: dict[CodeType, bytes] = {}


def _code(code: CodeType) -> bytes:
    # Made anew each time that it is asked for.
    return _codes.setdefault(code, code.co_code)
