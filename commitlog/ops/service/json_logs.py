"""Logs of the service's processes: JSON, one object a line, to standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """A record as one JSON object. ``process`` names the command that wrote it."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        plain = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            plain["exception"] = self.formatException(record.exc_info)
        return json.dumps(plain)


def log_as_json(process: str, *, level: int = logging.INFO) -> None:
    """Send what this process logs to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("commitlog").setLevel(level)
    # What librdkafka retries by itself is no news.
    logging.getLogger("commitlog.kafka").setLevel(logging.ERROR)
