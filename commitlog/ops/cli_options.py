"""What the commands have in common: the options that say which log, and how things are shown."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from commitlog.config import Settings

F = TypeVar("F", bound=Callable[..., Any])
_SETTINGS = {
    "log": "Name of the log.",
    "bootstrap_servers": "Kafka's addresses, host:port, comma separated.",
    "database_url": "The catalog: postgresql://user:password@host:port/database.",
    "data_path": "Where the lake's data files are.",
    "home": "Directory of the embedded runtime and of this machine's state.",
}


def settings_options(command: F) -> F:
    """Give a command the options that choose a log, and hand it ``settings``."""

    @wraps(command)
    def with_settings(*arguments: Any, config_file: Path | None, **options: Any) -> Any:
        # Without a handler Python would print what libraries only want to have noted.
        logging.getLogger("commitlog").addHandler(logging.NullHandler())
        given = {name: options.pop(f"setting_{name}") for name in _SETTINGS}
        return command(*arguments, settings=Settings.load(config_file=config_file, **given), **options)

    made: Any = with_settings
    for name, text in reversed(_SETTINGS.items()):
        made = click.option(f"--{name.replace('_', '-')}", f"setting_{name}", metavar="TEXT", help=text)(made)
    path = click.Path(path_type=Path)
    return click.option("--config", "config_file", type=path, help="Instead of commitlog.toml.")(made)  # type: ignore[no-any-return]


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def print_json(value: Any) -> None:
    """One JSON object on one line, at once."""
    click.echo(json.dumps(value, default=str))
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table for people; without a terminal its lines are as long as they need to be."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell), style=_style(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 1_000
    Console(width=width, highlight=False).print(table)


def _style(cell: object) -> str:
    return {"COMMITTED": "green", "REJECTED": "red", "DUPLICATE": "yellow"}.get(str(cell), "")
