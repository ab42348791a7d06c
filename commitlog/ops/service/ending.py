"""What runs in a home ends with the process that began it: who is killed, or whose terminal is closed, ends nothing himself."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# By none of the settings of the folder or the environment: they may be other ones than --config gave, or wrong.
_DOWN = """\
import os, sys
from pathlib import Path
from commitlog.config import Settings
from commitlog.ops.service.runtime import down
down(Settings.load(environment={}, config_file=Path(os.devnull), home=sys.argv[1]))
"""


@contextmanager
def ended_with_us(home: Path, *, is_removed: bool = False) -> Iterator[None]:
    """What runs in a home is stopped also where this process is killed.

    Args:
        home: of servers, and of the services that are told of it.
        is_removed: the home is removed then.
    """
    commands: list[tuple[str, ...]] = [(sys.executable, "-c", _DOWN, str(home))]
    if is_removed:
        commands.append(("rm", "-rf", str(home)))
    # Nobody writes into its standard input: what it reads is the end of this process.
    with subprocess.Popen(
        ["sh", "-c", "; ".join(["read _", *map(shlex.join, commands)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as waiting:
        try:
            yield
        finally:
            waiting.kill()
