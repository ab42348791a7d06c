"""What the commands have in common: the options that say which log, and how things are shown."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from commitlog.config import Settings
from commitlog.domain.model.typed_values import blob_text

if TYPE_CHECKING:
    from commitlog.catalog.queries import Catalog
    from commitlog.client import CommitLog

REDRAW_S = 0.2
PADDED_MAX = 1_000
COLOURS = {"COMMITTED": "green", "REJECTED": "red", "DUPLICATE": "yellow"}
"""By verdict."""

F = TypeVar("F", bound=Callable[..., Any])
_SETTINGS = {
    "log": "Name of the log.",
    "bootstrap_servers": "Kafka's addresses: host:port, separated by commas.",
    "database_url": "URL of the catalog: postgresql://user:password@host:port/database.",
    "data_path": "Where the lake's data files are.",
    "home": "Directory for the embedded servers and this machine's state.",
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
    named = click.option("--config", "config_file", type=path, help="Read settings from this file, not commitlog.toml.")
    return named(made)  # type: ignore[no-any-return]


def with_arguments(settings: Settings, **given: str | int | None) -> Settings:
    """The settings, with the arguments of the command before them."""
    said = {name: value for name, value in given.items() if value is not None}
    sources = {**settings.sources, **dict.fromkeys(said, "argument of the command")}
    return replace(settings, **said, sources=sources)  # type: ignore[arg-type]


@contextmanager
def current_catalog(settings: Settings) -> Iterator[Catalog]:
    """The catalog, once it holds all that was acknowledged before.

    Raises:
        CatalogBehindError: it does not in time; the message says who is behind.
        CatalogUnavailableError, LogUnavailableError: a server does not answer.
    """
    from commitlog.catalog.connecting import catalog_url
    from commitlog.catalog.queries import Catalog
    from commitlog.client import CommitLog

    with closing(Catalog(catalog_url(settings))) as catalog:
        # PostgreSQL says at once that it is not there; Kafka is asked for seconds.
        catalog.exists()
        with CommitLog.connect(settings=settings) as log:
            log.wait_for_snapshot()
        yield catalog


def not_empty(_: click.Context, __: click.Parameter, given: Any) -> Any:
    """The callback of an option whose text, or each of whose texts, says something: an unset variable of a shell says nothing.

    Raises:
        click.BadParameter: it is empty.
    """
    if any(not each.strip() for each in ([given] if isinstance(given, str) else given or ())):
        raise click.BadParameter("the value is empty; is a shell variable unset?")
    return given


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


@contextmanager
def reading_log(settings: Settings) -> Iterator[CommitLog]:
    """A connection to the log for whoever asks what its catalog holds.

    Raises:
        CatalogUnavailableError, LogUnavailableError: a server does not answer.
    """
    from commitlog.catalog.connecting import catalog_url
    from commitlog.catalog.reader import CatalogReader
    from commitlog.client import CommitLog

    # PostgreSQL says at once that it is not there; Kafka is asked for seconds.
    with closing(CatalogReader(catalog_url(settings))) as catalog, catalog.connected():
        pass
    with CommitLog.connect(settings=settings) as log:
        yield log


def print_json(value: Any) -> None:
    """One JSON object on one line, at once; see ``json_text``."""
    click.echo(json_text(value))
    sys.stdout.flush()


def json_text(value: Any) -> str:
    """A value as JSON: moments as ``json_time`` writes them, blobs as DuckDB does, and what is no finite number as a text,
    nan, inf or -inf, as rows in the log have it."""
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str | int) else str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return blob_text(value)
    return json_time(value) if isinstance(value, datetime) else str(value)


def cell_text(value: object) -> str:
    """A value in a table or in CSV: blobs as DuckDB writes them, lists and structs as JSON."""
    if isinstance(value, bytes):
        return blob_text(value)
    return json_text(value) if isinstance(value, list | tuple | dict) else str(value)


def json_time(moment: datetime) -> str:
    """A moment in the one form that all ``--json`` has: ISO 8601, in UTC, such as 2026-03-02T04:05:06.789000Z."""
    if moment.tzinfo is None:
        return moment.isoformat()
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def shown_width() -> int:
    """How wide lines may be: as the terminal; without one as long as they need to be."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table for people; without a terminal its lines are as long as they need to be."""
    cells = [[("" if cell is None else obeyed_by_none(cell_text(cell)), _style(cell)) for cell in row] for row in rows]
    names = [obeyed_by_none(column) for column in columns]
    width = shown_width()
    if width == sys.maxsize:
        _print_lines(title, [names, *([text for text, _ in row] for row in cells)])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in names:
        # A narrow terminal has longer columns, and nothing that is left out.
        table.add_column(Text(name), overflow="fold")
    for row in cells:
        table.add_row(*(Text(text, style=style) for text, style in row))
    Console(width=width, highlight=False).print(table)


def _print_lines(title: str | None, rows: Sequence[Sequence[str]]) -> None:
    """A row to a line, that programs can read; a text with lines of its own keeps them."""
    from rich.cells import cell_len

    if title is not None:
        click.echo(title)
    split = [[text.expandtabs().split("\n") for text in row] for row in rows]
    # One text that is very long makes no other row as long.
    longest = [max(cell_len(line) for lines in column for line in lines) for column in zip(*split, strict=True)]
    widths = [min(width, PADDED_MAX) for width in longest]
    for row in split:
        for texts in zip_longest(*row, fillvalue=""):
            padded = [text + " " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True)]
            click.echo("  ".join(padded).rstrip())


def obeyed_by_none(text: str) -> str:
    """A text without what a terminal would obey; its lines stay."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def _style(cell: object) -> str:
    return COLOURS.get(str(cell), "")


@contextmanager
def shown_progress(label: str, *, hidden: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error, where somebody looks: call it with what is done, how much of it, and how much there is."""
    with click.progressbar(
        length=1, label=label, show_pos=True, file=sys.stderr, hidden=hidden or not sys.stderr.isatty()
    ) as bar:
        drawn_at = 0.0

        def show(doing: str, done: int, total: int) -> None:
            nonlocal drawn_at
            now = time.monotonic()
            if done < total and now - drawn_at < REDRAW_S:
                return
            drawn_at = now
            bar.label, bar.length = doing, max(1, total)
            bar.update(done - bar.pos)
            # Without a step it is not drawn, though what is being done may be another thing.
            bar.render_progress()

        yield show


@contextmanager
def shown_steps() -> Iterator[Callable[[str], None]]:
    """What is being done and for how long, on standard error, where somebody looks: call it as each step begins."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: None
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as steps:

        def begin(step: str) -> None:
            end()
            steps.add_task(step, total=None)

        def end() -> None:
            # What is done stands above, so that the step that runs is always in sight.
            for task in steps.tasks:
                steps.print(f"{task.elapsed or 0:6.1f} s  {task.description}", markup=False, highlight=False)
                steps.remove_task(task.id)

        yield begin
        end()
