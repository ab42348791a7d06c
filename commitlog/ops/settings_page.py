"""The manual's page of settings, printed from what the settings say of themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from inspect import getdoc

from commitlog.config import Settings, default_values, variable_of
from commitlog.domain.model import LogSettings
from commitlog.domain.model.json_values import to_json
from commitlog.log.codec.framing import schemas_dir

_HEAD = """\
# Settings

A setting is taken from the first of these that has it: an argument or an option of the command line; the environment; the
file `commitlog.toml` in the working directory, or the one that `COMMITLOG_CONFIG` or `--config` names; what runs in the home
(`commitlog up`); the default. `commitlog config show` says which value each setting has here, and from where.

If you have several logs, give each a profile in the file: `[profile.prod]` and its settings (librdkafka's below
`[profile.prod.kafka]`). With `CommitLog.connect(profile="prod")`, or Spark's option `profile`, the profile's settings come
before everything except other arguments; with `COMMITLOG_PROFILE=prod`, they come before the rest of the file. A setting that
the profile lacks is taken as if there were no profile.

A key in the file that is not a setting is refused, and so is an environment variable whose name is almost a setting's: it is
probably misspelt.

This page is printed by `commitlog config reference`.

## Of a process
"""
_KAFKA = """
Options of librdkafka (TLS, SASL, ...) are passed through: `COMMITLOG_KAFKA_SASL_MECHANISM` is `sasl.mechanism`; in
`commitlog.toml` they stand below `[kafka]`. `COMMITLOG_CORE` is `compiled` or `interpreted`: which form of the core must run.
"""
_LOG = """
## Of a log

These settings are in the log, because they can change a verdict. `[genesis]` in `commitlog.toml`, or `COMMITLOG_GENESIS` as
a JSON object, gives the first values to a log that is created; a CONFIGURE change (`tx.configure(...)`, or `commitlog submit
--example CONFIGURE`) changes them later.
"""


def settings_page() -> str:
    """The page "Settings", in Markdown."""
    defaults = default_values()
    lines = [_HEAD, "| setting | variable | default | meaning |", "|---|---|---|---|"]
    for name, meaning in meanings_for_processes().items():
        if name in defaults:
            lines.append(f"| `{name}` | `{variable_of(name)}` | {_shown(defaults[name])} | {meaning} |")
    lines += [_KAFKA + _LOG, "| setting | default | meaning |", "|---|---|---|"]
    first = LogSettings()
    for name, meaning in meanings_for_logs().items():
        lines.append(f"| `{name}` | {_shown(to_json(getattr(first, name)))} | {meaning} |")
    return "\n".join(lines) + "\n"


def meanings_for_processes() -> Mapping[str, str]:
    """What `Settings` says of its attributes: ``name: meaning``, one a line; what goes on on the next is indented."""
    found: dict[str, str] = {}
    last, indent = "", 0
    for line in (getdoc(Settings) or "").splitlines():
        entry = re.fullmatch(r"( *)(\w+): (.+)", line)
        if entry is not None and (not found or len(entry[1]) == indent):
            indent, last = len(entry[1]), entry[2]
            found[last] = entry[3]
        elif last and line.strip():
            found[last] += f" {line.strip()}"
    return found


def meanings_for_logs() -> Mapping[str, str]:
    """What the schema says of the fields of `LogSettings`: the class has no text of its own where it is compiled."""
    genesis = json.loads((schemas_dir() / "genesis.avsc").read_text(encoding="utf-8"))
    [settings] = [field["type"] for field in genesis["fields"] if field["name"] == "settings"]
    return {field["name"]: field["doc"] for field in settings["fields"]}


def _shown(value: object) -> str:
    return "" if value is None else f"`{value}`"
