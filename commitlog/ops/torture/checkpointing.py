"""A checkpointer that saves every few seconds, so that faults meet it while it writes and trims."""

from __future__ import annotations

from commitlog.config import Settings
from commitlog.log.checkpoint import Checkpointer
from commitlog.ops.service.json_logs import log_as_json
from commitlog.ops.service.keep_trying import Kept, stopped_by_signal

EVERY_S = 3.0


def main() -> None:
    """As `commitlog checkpointer`, but more often."""
    settings = Settings.load()
    log_as_json("checkpointer")
    with stopped_by_signal() as stop, Kept("checkpointer", settings, stop) as kept:
        kept.run(lambda: Checkpointer(settings, every_s=EVERY_S).run(stop))


if __name__ == "__main__":
    main()
