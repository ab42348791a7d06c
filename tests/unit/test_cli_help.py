"""The help of every command: examples that are right, exit codes, completion, and --json wherever there is an answer."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from page_blocks import blocks_of
from rich.console import Console

from commitlog.ops.cli import EXIT_CODES, EXIT_MEANINGS, cli
from commitlog.ops.cli.examples import EXAMPLES
from commitlog.ops.cli.options import shown_steps

NO_ANSWER = {
    "commitlog serve", "commitlog sequencer", "commitlog projector", "commitlog checkpointer", "commitlog ui",
    "commitlog carrier", "commitlog gateway", "commitlog relay",  # they log JSON
    "commitlog manual", "commitlog config reference", "commitlog demo",  # they print pages for people
}  # fmt: skip


ROOT = Path(__file__).resolve().parents[2]
IN_TEXT = re.compile(r"`commitlog ([^`]+)`|^ {4,}commitlog (.+)$", re.MULTILINE)
IN_BLOCK = re.compile(r"^ *(?:[ab]\$ )?commitlog ([a-z].*)$", re.MULTILINE)
SPANS = {"transaction", "decide", "visible"}
"""Spans of a trace, which have names like those of commands."""


def contexts() -> Iterator[click.Context]:
    """A context for each command, those of groups too."""
    top = click.Context(cli, info_name="commitlog", **cli.context_settings)
    for name in cli.list_commands(top):
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, top, info_name=name)
        yield context
        if isinstance(command, click.Group):
            for below, each in command.commands.items():
                yield click.Context(each, context, info_name=below)


COMMANDS = {context.command_path: context for context in contexts()}


def test_examples_when_listed_then_of_every_command_and_no_other() -> None:
    assert {f"commitlog {words}" for words in EXAMPLES} == COMMANDS.keys()


@pytest.mark.parametrize("path", COMMANDS)
def test_help_when_shown_then_ends_with_examples_as_they_were_written(path: str) -> None:
    context = COMMANDS[path]
    lines = [line.strip() for line in context.command.get_help(context).splitlines()]
    examples = EXAMPLES[path.removeprefix("commitlog ")]
    assert lines[-len(examples) - 1 :] == ["Examples:", *examples]


@pytest.mark.parametrize(
    "path", [path for path, context in COMMANDS.items() if isinstance(context.command, click.Group)]
)
def test_help_of_a_group_when_it_lists_commands_then_ends_no_line_in_the_middle(path: str) -> None:
    context = click.Context(COMMANDS[path].command, info_name=path, terminal_width=80)
    listed = context.command.get_help(context).partition("Commands:")[2].partition("Examples:")[0]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_example_when_taken_apart_then_the_command_takes_its_options(example: str) -> None:
    # What another program is given, in $(...), is a command too.
    words = shlex.split(example.replace('"$(', "").replace(')"', ""))
    words = words[words.index("commitlog") + 1 :]
    end = next((number for number, word in enumerate(words) if word in ("|", ">")), len(words))
    context = click.Context(cli, info_name="commitlog", **cli.context_settings)
    command: click.Command = cli
    given = words[:end]
    assert len(example) <= 76
    while isinstance(command, click.Group) and given:
        found = command.get_command(context, given[0])
        if found is None:
            break
        command, given = found, given[1:]
        context = click.Context(command, context, info_name=found.name)
    _, left, _ = command.make_parser(context).parse_args(list(given))
    assert left == [], example


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda page: page.name)
def test_page_when_it_names_a_command_then_it_is_there_and_takes_these_options(page: Path) -> None:
    """Also in what is not run: in the text, and in blocks for a machine that is not here."""
    named = ["".join(found) for found in IN_TEXT.findall(page.read_text(encoding="utf-8"))]
    for block in blocks_of(str(page)):
        named += IN_BLOCK.findall(block.code)
    for words in (re.split(r"[#|>]", each)[0].split() for each in named):
        context = click.Context(cli, info_name="commitlog", **cli.context_settings)
        command: click.Command = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words[0])
            assert found is not None or words[0] in SPANS or words[0].isupper(), f"commitlog {' '.join(words)}"
            if found is None:
                break
            command, words = found, words[1:]
            context = click.Context(command, context, info_name=found.name)
        options = {option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts)}
        asked = {each.partition("=")[0].rstrip(".,;)") for each in words if re.match(r"--?[a-z]", each)}
        assert asked <= options | {"--help"}, f"{context.command_path} {' '.join(words)}"


def test_commands_when_they_answer_then_have_json() -> None:
    without = {
        path
        for path, context in COMMANDS.items()
        if not isinstance(context.command, click.Group)
        and not any("--json" in parameter.opts for parameter in context.command.params)
    }
    assert without == NO_ANSWER


def test_exit_codes_when_an_error_has_one_then_it_is_in_the_help() -> None:
    assert set(EXIT_CODES.values()) < EXIT_MEANINGS.keys()
    shown = cli.get_help(click.Context(cli, info_name="commitlog", **cli.context_settings))
    for code, meaning in EXIT_MEANINGS.items():
        assert f"{code}  {meaning}" in shown


def test_completion_when_a_shell_asks_then_names_commands(tmp_path: Path) -> None:
    asked = {"_COMMITLOG_COMPLETE": "bash_complete", "COMP_WORDS": "commitlog di", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from commitlog.ops.cli import main; main()"],
        env={**asked, "PATH": "/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["plain,diff", "plain,digest"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_steps_of_a_bench_when_somebody_looks_then_each_is_shown_and_else_none(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Console, "is_terminal", is_terminal)
    with shown_steps() as say:
        for number in (1, 2):
            say(f"repetition {number} of 2 [bold]")
    shown = capsys.readouterr()
    lines = [line.rpartition(" s  ")[2].rstrip() for line in shown.err.splitlines() if " s  " in line]
    assert lines == (["repetition 1 of 2 [bold]", "repetition 2 of 2 [bold]"] if is_terminal else [])
    assert (shown.out, bool(shown.err)) == ("", is_terminal)
