"""The command line: which commands there are, and what a person sees when one fails.

A command's module is imported when the command is called, so that `commitlog replay` starts without Kafka, SQL and
Arrow, and a missing extra stops only the commands that need it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from io import TextIOWrapper
from typing import NamedTuple

import click

from commitlog import compiled
from commitlog.config import wants_no_colour
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    ConfigurationError,
    FencedError,
    LinkStoppedError,
    LogRefusedError,
    LogUnavailableError,
    OutcomeUnknownError,
    ProjectionError,
    ProposalRejectedError,
    RegistryUnavailableError,
    SiteAwayTooLongError,
    SiteWentBackError,
    TableNotBroughtError,
)
from commitlog.ops.cli.examples import epilog_of

EXIT_CODES: dict[type[CommitLogError], int] = {
    ConfigurationError: 2,
    ProposalRejectedError: 3,
    OutcomeUnknownError: 4,
    LogUnavailableError: 5,
    LogRefusedError: 5,
    CatalogUnavailableError: 5,
    RegistryUnavailableError: 5,
    ProjectionError: 70,
    LinkStoppedError: 71,
    SiteWentBackError: 71,
    SiteAwayTooLongError: 71,
    TableNotBroughtError: 71,
    FencedError: 75,
}
"""Exit codes by error; other errors of ours are 1. 2 is also click's for a wrong command line."""

EXIT_MEANINGS: dict[int, str] = {
    0: "done; of a check, all is well",
    1: "it failed, or a check has found something; the message says what",
    2: "the command line or a setting is wrong",
    3: "a proposal was refused",
    4: "the outcome is not known: no answer in time, not decided yet, or never seen",
    5: "Kafka, PostgreSQL or the schema registry does not answer, or refuses",
    70: "an outcome cannot be projected: a defect",
    71: "a log refuses what a link brings, or one is older than it was",
    75: "another sequencer, link or relay has taken over",
    130: "interrupted",
}


class _Place(NamedTuple):
    module: str
    help: str


_COMMANDS = {
    "up": _Place("runtime", "Run Kafka, PostgreSQL and the service here."),
    "down": _Place("runtime", "Stop what runs here."),
    "status": _Place("runtime", "What runs here, how far it is, and how far behind."),
    "init": _Place("service", "Create the log's topics and catalog."),
    "serve": _Place("service", "Run the service's processes and restart what ends."),
    "sequencer": _Place("service", "Run the sequencer alone."),
    "projector": _Place("service", "Run the projector alone."),
    "checkpointer": _Place("service", "Run the checkpointer alone."),
    "gateway": _Place("gateway", "Let stock DuckDB clients write."),
    "ui": _Place("ui", "The web page: print its address, or run it."),
    "load": _Place("load", "Append CSV, Parquet or JSON files to a table."),
    "submit": _Place("proposals", "Send proposals from a file and print their outcomes."),
    "outcome": _Place("proposals", "What became of a proposal."),
    "explain": _Place("proposals", "The story of a proposal in plain words."),
    "log": _Place("history", "The history: who committed what, when."),
    "tables": _Place("tables", "The tables: their columns and files."),
    "show": _Place("diff", "One snapshot: who made it, and what it changed."),
    "diff": _Place("diff", "What lies between two snapshots."),
    "sql": _Place("sql", "Ask the lake a question in SQL."),
    "duckdb": _Place("sql", "The line by which any DuckDB client attaches the lake, to read or to write."),
    "tail": _Place("history", "Follow the outcomes as they are decided."),
    "archive": _Place("retention", "Write the log's closed ranges as Parquet files, and trim them from Kafka."),
    "backup": _Place("retention", "Write all that the log holds up to now."),
    "restore": _Place("retention", "Make a log again from a backup."),
    "verify": _Place("verify", "Decide the whole log again, and compare it with itself and the catalog."),
    "replay": _Place("replay", "Decide proposals from a file, without Kafka."),
    "simulate": _Place("simulate", "Run a whole log in memory, and have everything happen to it."),
    "catalog": _Place("catalog", "Rebuild the catalog, migrate it, or export it."),
    "acl": _Place("acl", "Who may do what: Kafka's rules and PostgreSQL's grants."),
    "config": _Place("config", "Show the settings, and where each value comes from."),
    "node": _Place("sites", "What this log is among several sites."),
    "replicate": _Place("sites", "Bring what one log commits to another."),
    "relay": _Place("relay", "Programs that use a schema registry: their proposals in, outcomes out."),
    "digest": _Place("digest", "Compare two sites' versions of a row."),
    "manual": _Place("manual", "Print what conflicts with what, or what is INVALID."),
    "doctor": _Place("doctor", "Compare the catalog with the log and the files."),
    "clean": _Place("doctor", "Remove files that nobody needs."),
    "bench": _Place("bench", "Measure this machine."),
    "demo": _Place("demo", "Concurrent writers, three refusals, and engines that read the same rows."),
}


class _LazyGroup(click.Group):
    """Imports a command's module when the command is called, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        command = getattr(import_module(f"commitlog.ops.cli.{place.module}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        _end_help(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in _COMMANDS.items()])


def _end_help(command: click.Command, words: str) -> None:
    """Let the help of a command, and of those below it, end with examples."""
    if "Examples:" not in (command.epilog or ""):
        command.epilog = "\n\n".join(filter(None, [command.epilog, epilog_of(words)]))
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            _end_help(below, f"{words} {name}")


_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"{code:>5}  {meaning}" for code, meaning in EXIT_MEANINGS.items())


@click.group(
    cls=_LazyGroup,
    epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(package_name="commitlog", message=f"%(prog)s %(version)s, {compiled.described()}")
def cli() -> None:
    """A commit log service on Kafka for lakehouse tables."""


def main() -> None:
    """The entry point: one clear line and an exit code for what goes wrong, a traceback only with --debug."""
    _open_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        # As standard error does: what the terminal has no letter for is shown by its number.
        sys.stdout.reconfigure(errors="backslashreplace")
    debug, arguments = _without_debug(sys.argv[1:])
    color = False if wants_no_colour() else None
    try:
        code = cli.main(arguments, prog_name="commitlog", standalone_mode=False, color=color)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except RuntimeError as error:
        # So DuckDB says that Ctrl-C has ended what it did.
        if debug or str(error) != "Query interrupted":
            raise
        sys.exit(130)
    except CommitLogError as error:
        if debug:
            raise
        _say(str(error))
        sys.exit(exit_code(error))
    except (OSError, ImportError) as error:
        if debug:
            raise
        _say(_plain(error))
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _say(error: str) -> None:
    """An error may tell what others have written: names, paths, an answer of DuckDB's."""
    from commitlog.ops.cli.options import obeyed_by_none

    click.echo(f"error: {obeyed_by_none(error)}", err=True)


def _open_closed_streams() -> None:
    """What the caller has closed (``>&-``), and Python has as None, takes everything and gives nothing."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def exit_code(error: CommitLogError) -> int:
    """The exit code that tells a script what kind of failure it was."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def _without_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    """`--debug` is taken anywhere on the line, before a `--`."""
    kept = list(_before_dashes(arguments))
    rest = arguments[len(kept) :]
    return "--debug" in kept, [word for word in kept if word != "--debug"] + rest


def _before_dashes(arguments: list[str]) -> Iterator[str]:
    for word in arguments:
        if word == "--":
            return
        yield word


def _plain(error: OSError | ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return (
            f"{package} is not installed; `pip install 'commitlog[duckdb,local,metrics,registry,spark,tracing,ui]'` "
            "brings all that commitlog can use"
        )
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
