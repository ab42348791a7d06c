"""The manual's page of commands, printed from their own help."""

from __future__ import annotations

from collections.abc import Iterator

import click

from commitlog.ops.cli import EXIT_MEANINGS, cli

WIDTH = 100

_HEAD = """\
# Commands

`commitlog COMMAND --help` says the same of each command; `python -m commitlog` is the same as `commitlog`. This page is printed
by `commitlog manual commands`.

**For programs.** `--json` prints one JSON object a line. A moment is ISO 8601 in UTC with microseconds
(`2026-03-02T04:05:06.789000Z`) in a field that ends in `_at`; a duration ends in `_s` or `_ms`; `seq`, `snapshot_id`,
`proposal_id` and `writer_id` are called so everywhere. What a record of the log holds besides has the names of its schema.
What is not an answer (progress, notes, errors) goes to standard error. The service's processes log JSON there.

**Completion** in a shell knows the commands and their options:

```sh
eval "$(_COMMITLOG_COMPLETE=bash_source commitlog)"    # in ~/.bashrc
eval "$(_COMMITLOG_COMPLETE=zsh_source commitlog)"     # in ~/.zshrc
_COMMITLOG_COMPLETE=fish_source commitlog | source     # in ~/.config/fish/completions/commitlog.fish
```

**Exit codes**

| code | when |
|---|---|
"""


def commands_page() -> str:
    """The page "Commands", in Markdown."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_MEANINGS.items())
    return _HEAD + codes + "".join(f"\n## {words}\n\n```text\n{told}\n```\n" for words, told in _helps())


def _helps() -> Iterator[tuple[str, str]]:
    above = click.Context(cli, info_name="commitlog", **cli.context_settings)
    for name in cli.list_commands(above):
        command = cli.get_command(above, name)
        assert command is not None
        yield from _help_of(command, above, name)


def _help_of(command: click.Command, above: click.Context, name: str) -> Iterator[tuple[str, str]]:
    context = click.Context(command, above, info_name=name, terminal_width=WIDTH)
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _help_of(command.commands[below], context, below)
