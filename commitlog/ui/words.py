"""Numbers, times and names as a page shows them, and the templates' environment that knows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from commitlog.client.outcomes.describing import describe_asked, one_line
from commitlog.client.tables.names import TableName
from commitlog.domain.model.definitions import noun, quoted, visible

TEXT_MAX = 1_000
NOT_KNOWN = "\N{EN DASH}"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_AGES = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (float("inf"), "d", 86_400))


def make_environment(**known: Any) -> Environment:
    """The environment of all templates: everything is escaped, and a name that is not there is an error.

    known: what every page is given.
    """
    environment = Environment(
        loader=PackageLoader("commitlog.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {
            "number": number,
            "size": size,
            "moment": moment,
            "age": age,
            "asked": describe_asked,
            "noun": noun,
            "printable": printable,
            "quoted": quoted,
            "capitalize_first": lambda text: text[:1].upper() + text[1:],
            "shorten": shorten,
        }
    )
    environment.globals.update(known, link=link, table_link=table_link)
    return environment


def number(value: float | None) -> str:
    """A count with its thousands apart; a dash where it is not known."""
    return NOT_KNOWN if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def size(value: int | None) -> str:
    """Bytes in the unit that leaves one to four digits."""
    if value is None:
        return NOT_KNOWN
    scaled, unit = float(value), 0
    while scaled >= 1024 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{value:,} bytes" if unit == 0 else f"{scaled:,.1f} {_UNITS[unit]}"


def moment(value: datetime | None) -> str:
    """A moment to the second, in UTC."""
    return NOT_KNOWN if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def age(value: datetime | None, now: datetime | None = None) -> str:
    """How long ago a moment was, in one unit."""
    if value is None:
        return NOT_KNOWN
    seconds = max(0.0, ((now or datetime.now(UTC)) - value).total_seconds())
    unit, divisor = next((unit, divisor) for below, unit, divisor in _AGES if seconds < below)
    return f"{int(seconds / divisor)} {unit} ago"


def kinds(names: tuple[str, ...]) -> str:
    """Kinds of changes or conflicts in words."""
    return ", ".join(name.replace("_", " ").lower() for name in names)


def printable(text: str) -> str:
    """A text whose control characters can be seen, cut where nobody reads on."""
    whole = visible(text)
    return whole if len(whole) <= TEXT_MAX else f"{whole[:TEXT_MAX]}…"


def shorten(text: str | None, length: int = 60) -> str:
    """A text on one line, cut where it is too long."""
    whole = one_line(text or "")
    return whole if len(whole) <= length else whole[: length - 1].rstrip() + "…"


def link(path: str, **query: object) -> str:
    """An address of ours with what is asked; what is None or empty is left out."""
    asked = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return f"{quote(path)}?{asked}" if asked else quote(path)


def table_link(schema: str, table: str, **query: object) -> str:
    """The address of a table's page; its name is asked for, for it may hold whatever a path may not."""
    return link("/table", name=str(TableName(schema, table)), **query)
