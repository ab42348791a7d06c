"""The options of `format("commitlog")`, read once: Spark gives them in lower case, and passes on what nobody knows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from commitlog.config import Settings
from commitlog.errors import ConfigurationError

_OWN = (
    "table", "topic", "snapshot", "timestamp", "key", "changes", "createTable",
    "startingSnapshot", "snapshotsPerTrigger", "startingOffset", "recordsPerTrigger", "pushFilters",
)  # fmt: skip
_SPARKS = frozenset({"path", "checkpointlocation", "queryname"})
_KNOWN = {name.lower(): name for name in (*_OWN, *Settings.__slots__)}


class SourceOptions:
    """The options of one read or write.

    Raises:
        ConfigurationError: one is not known; the message names the nearest that is.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        for name in given:
            if name.lower() not in _KNOWN and name.lower() not in _SPARKS:
                near = get_close_matches(name.lower(), _KNOWN, n=1)
                hint = f"did you mean {_KNOWN[near[0]]}?" if near else "there are " + ", ".join(_OWN)
                raise ConfigurationError(f"format('commitlog') has no option {name}: {hint}")

    def text(self, name: str) -> str | None:
        """An option's text; None when it is not given."""
        return self._given.get(name.lower())

    def required(self, name: str, example: str) -> str:
        """An option that must be given."""
        value = self.text(name)
        if not value:
            raise ConfigurationError(f"format('commitlog') needs the option {name}, such as {example}")
        return value

    def number(self, name: str) -> int | None:
        """An option that is a number; None when it is not given."""
        value = self.text(name)
        if value is not None and not value.isdigit():
            raise ConfigurationError(f"the option {name} is a number, not {value!r}")
        return None if value is None else int(value)

    def flag(self, name: str) -> bool:
        """An option that is true or false; false when it is not given."""
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise ConfigurationError(f"the option {name} is true or false, not {value!r}")
        return value == "true"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of commitlog among them."""
        return {name: value for name, value in self._given.items() if name in Settings.__slots__}
