"""Logs of the service's processes: JSON, one object a line, to standard error."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What each record has; all else are fields that were logged with it."""

_logger = logging.getLogger("commitlog")


class JsonFormatter(logging.Formatter):
    """A record as one JSON object. ``process`` names the command that wrote it."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        plain = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="microseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            plain["exception"] = self.formatException(record.exc_info)
        return json.dumps(plain, default=str)


def log_as_json(process: str) -> None:
    """Send what this process logs to standard error as JSON; warnings and what ends a thread, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("commitlog").setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = lambda kind, error, trace: _logger.critical("it has ended", exc_info=(kind, error, trace))
    threading.excepthook = _log_thread
    # What librdkafka retries by itself is no news.
    logging.getLogger("commitlog.kafka").setLevel(logging.ERROR)


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None:
        name = "a thread" if ended.thread is None else ended.thread.name
        _logger.critical("%s has ended", name, exc_info=ended.exc_value)
