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
    0: "success; for a check, nothing is wrong",
    1: "failure, or a check found a problem; the message says what",
    2: "the command line or a setting is wrong",
    3: "a proposal was refused",
    4: "the outcome is unknown: no answer in time, not decided yet, or never seen",
    5: "Kafka, PostgreSQL or the schema registry does not answer, or refused the request",
    70: "an outcome cannot be written into the catalog: a defect",
    71: "a link stopped: the target log refused a change, or a log is older than it was",
    75: "another sequencer, link or relay has taken over",
    130: "interrupted",
}


class _Place(NamedTuple):
    module: str
    help: str


_COMMANDS = {
    "up": _Place("runtime", "Run Kafka, PostgreSQL and the service here."),
    "down": _Place("runtime", "Stop what runs here."),
    "status": _Place("runtime", "Show what runs here, and whether the log is healthy."),
    "init": _Place("service", "Create the log's topics and catalog."),
    "serve": _Place("service", "Run the service's processes, restarting any that ends."),
    "sequencer": _Place("service", "Run the sequencer alone."),
    "projector": _Place("service", "Run the projector alone."),
    "checkpointer": _Place("service", "Run the checkpointer alone."),
    "carrier": _Place("service", "Run a carrier: local programs propose together."),
    "gateway": _Place("gateway", "Let stock DuckDB clients write."),
    "ui": _Place("ui", "Print the web page's address, or run the page."),
    "load": _Place("load", "Append CSV, Parquet or JSON files to a table."),
    "submit": _Place("proposals", "Send proposals from a file and print their outcomes."),
    "outcome": _Place("proposals", "Show what became of a proposal."),
    "explain": _Place("proposals", "Explain a proposal: what it conflicted with, and what would help."),
    "log": _Place("history", "Show the history: who committed what, and when."),
    "tables": _Place("tables", "List the tables, with their columns and files."),
    "show": _Place("diff", "Show one snapshot: who made it, and what it changed."),
    "diff": _Place("diff", "Show what changed between two snapshots."),
    "sql": _Place("sql", "Query the lake with SQL."),
    "duckdb": _Place("sql", "Print the SQL that attaches the lake in any DuckDB client."),
    "tail": _Place("history", "Follow outcomes as they are decided."),
    "archive": _Place("retention", "Archive old outcomes as Parquet files, and trim them from Kafka."),
    "backup": _Place("retention", "Back up the whole log as it is now."),
    "restore": _Place("retention", "Restore a log from a backup."),
    "verify": _Place("verify", "Decide the whole log again, and compare the result with the log and the catalog."),
    "replay": _Place("replay", "Decide proposals from a file, without Kafka."),
    "simulate": _Place("simulate", "Run a whole log in memory, under simulated faults."),
    "catalog": _Place("catalog", "Rebuild the catalog, migrate it, or export it."),
    "acl": _Place("acl", "Print or apply access rights: Kafka ACLs and PostgreSQL grants."),
    "config": _Place("config", "Show the settings, and where each value comes from."),
    "node": _Place("sites", "Make this log a node among several sites, or show its node."),
    "replicate": _Place("sites", "Replicate one log's commits to another."),
    "relay": _Place("relay", "Serve programs that use a schema registry."),
    "digest": _Place("digest", "Compare two sites' versions of a row."),
    "manual": _Place("manual", "Print a reference page: conflicts, INVALID codes, errors, records, ..."),
    "doctor": _Place("doctor", "Check the catalog against the log and the data files."),
    "clean": _Place("doctor", "Remove data files that are no longer needed."),
    "bench": _Place("bench", "Run benchmarks on this machine."),
    "demo": _Place("demo", "Run a demo: concurrent writers, refusals, several engines on the same rows."),
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
