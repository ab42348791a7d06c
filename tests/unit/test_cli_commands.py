"""The command line itself: every command is there, and what goes wrong is one clear line and an exit code."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import click
import pytest
from click.testing import CliRunner

from commitlog import errors
from commitlog.catalog.checks import Finding
from commitlog.local.processes import free_port
from commitlog.ops.cli import cli, exit_code, main
from commitlog.ops.maintenance.clean import Removable
from commitlog.ops.maintenance.doctor import CheckResult
from commitlog.ops.service.json_logs import JsonFormatter
from commitlog.ops.service.supervisor import SEQUENCER, SERVICES

MAIN = "from commitlog.ops.cli import main; main()"


def run(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"COMMITLOG_HOME": str(home), "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        env=given,
        cwd=home.parent,
    )


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_command_when_asked_for_help_then_there(name: str) -> None:
    context = click.Context(cli, **cli.context_settings)
    command = cli.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert command.get_help(click.Context(command, context, info_name=name))


def test_help_when_shown_then_names_every_command(tmp_path: Path) -> None:
    shown = run("--help", home=tmp_path / "home").stdout
    assert all(f"  {name} " in shown for name in cli.list_commands(click.Context(cli)))


def test_command_when_debugging_then_with_a_traceback(tmp_path: Path) -> None:
    done = run("log", "--debug", home=tmp_path / "home", COMMITLOG_DATABASE_URL="mysql://x")
    assert "Traceback" in done.stderr


def test_command_when_a_setting_is_wrong_then_names_it_and_its_source(tmp_path: Path) -> None:
    done = run("log", home=tmp_path / "home", COMMITLOG_DATABASE_URL="mysql://x")
    assert done.returncode == 2
    assert "COMMITLOG_DATABASE_URL" in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("error", [errors.CommitLogError, OSError])
def test_command_when_an_error_tells_what_others_have_written_then_no_terminal_obeys_it(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error("no \x1b[2J\u202e\nin \N{BLACK SQUARE}")

    monkeypatch.setattr("sys.argv", ["commitlog", "log"])
    monkeypatch.setattr(cli, "main", fails)
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == "error: no \\x1b[2J\\u202e\nin \N{BLACK SQUARE}\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_clean_when_it_is_interrupted_then_tells_what_is_gone_by_then(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [Removable(f"/lake/{number}.parquet", 10, "in no snapshot") for number in range(3)]

    class Interrupted:
        root = "/lake/"

        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...
        def removable(self) -> list[Removable]:
            return files

        def kept(self) -> dict[str, int]:
            return {}

        def remove(self, chosen: list[Removable]) -> Iterator[Removable]:
            yield from chosen[:2]
            raise KeyboardInterrupt

    monkeypatch.setattr("commitlog.ops.maintenance.clean.Cleaning", Interrupted)
    done = CliRunner().invoke(cli, ["clean", "--yes", *options])
    assert done.exit_code == 1
    told = done.stdout.splitlines()
    if options:
        assert [json.loads(line)["path"] for line in told] == ["/lake/0.parquet", "/lake/1.parquet"]
    else:
        assert told[-1] == "2 removed"


def test_doctor_when_a_file_has_a_name_that_would_steer_a_terminal_then_it_is_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steering = "/lake/main/t/\x1b[2J\u202e.parquet"
    result = CheckResult("files", (Finding(f"1 live files are missing: {steering}", "look"),))
    monkeypatch.setattr("commitlog.ops.maintenance.doctor.examine", lambda *_, **__: iter([result]))
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert "\nfiles: 1 live files are missing: /lake/main/t/\\x1b[2J\\u202e.parquet\n" in done.stdout
    [as_json] = CliRunner().invoke(cli, ["doctor", "--json"]).stdout.splitlines()
    assert json.loads(as_json)["findings"][0]["what"].endswith(steering)


def test_log_when_postgres_is_away_then_names_its_address(tmp_path: Path) -> None:
    url = f"postgresql://somebody:secret@127.0.0.1:{free_port()}/lake"
    done = run("log", home=tmp_path / "home", COMMITLOG_DATABASE_URL=url)
    assert done.returncode == 5
    assert "PostgreSQL at " in done.stderr
    assert "secret" not in done.stderr


def test_outcome_when_the_id_is_none_then_says_what_it_must_be(tmp_path: Path) -> None:
    done = run("outcome", "42", home=tmp_path / "home")
    assert done.returncode == 2
    assert "must be a UUID" in done.stderr


def test_status_when_nothing_runs_then_not_well(tmp_path: Path) -> None:
    done = run("status", "--json", home=tmp_path / "home")
    assert done.returncode == 1
    assert json.loads(done.stdout)["health"]["problems"] == ["not running; start it with `commitlog up`"]


def test_down_when_nothing_runs_then_says_so(tmp_path: Path) -> None:
    done = run("down", "--json", home=tmp_path / "home")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"stopped": False})


@pytest.mark.parametrize(
    ("arguments", "closed"),
    [("down --json", ">&-"), ("config show", ">&-"), ("replay -", "<&-"), ("config show", "<&- >&- 2>&-")],
)
def test_command_when_a_stream_is_closed_then_does_its_work(tmp_path: Path, arguments: str, closed: str) -> None:
    given = {**os.environ, "COMMITLOG_HOME": str(tmp_path / "home")}
    line = f'"{sys.executable}" -c "{MAIN}" {arguments} {closed}'
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=given, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("said", [KeyboardInterrupt(), RuntimeError("Query interrupted")])
def test_command_when_interrupted_then_its_exit_code_says_so(
    said: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise said

    monkeypatch.setattr(cli, "main", interrupted)
    monkeypatch.setattr(sys, "argv", ["commitlog", "sql", "SELECT 1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_command_when_the_terminal_lacks_a_letter_then_its_number_is_shown(tmp_path: Path, encoding: str) -> None:
    done = run("down", home=tmp_path / "\u00fc\u96ea\udce9", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("\u96ea" if encoding == "utf-8" else "\\u96ea") in done.stdout
    assert "\\udce9" in done.stdout


@pytest.mark.parametrize(("asked", "has_colour"), [("1", False), ("", True)])
def test_main_when_no_colour_is_asked_for_then_writes_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: str, has_colour: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", asked)
    monkeypatch.setattr(sys, "argv", ["commitlog", "tables"])
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda stream, color: color is False)

    @click.command()
    def tables() -> None:
        click.secho("green", fg="green")

    monkeypatch.setattr(type(cli), "get_command", lambda group, context, name: tables)
    with pytest.raises(SystemExit):
        main()
    assert ("\x1b" in capsys.readouterr().out) is has_colour


@pytest.mark.parametrize(
    "arguments",
    [
        ("archive", "--to", ""),
        ("backup", "--to", " "),
        ("restore", "--from", ""),
        ("catalog", "export", "--to", ""),
        ("replicate", "--from", ""),
        ("replicate", "--from", "west", "--to", ""),
        ("verify", "--archive", ""),
        ("acl", "print", "--reader", "etl", "--reader", ""),
        ("acl", "print", "--catalog-reader", ""),
    ],
    ids=" ".join,
)
def test_command_when_a_variable_of_the_shell_is_not_set_then_nothing_is_done(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert f"Invalid value for '{arguments[-2]}': the value is empty" in done.stderr
    assert done.stdout == ""


def test_acl_print_when_several_logins_are_named_then_each_grant_is_a_statement_of_its_own() -> None:
    done = CliRunner().invoke(cli, ["acl", "print", "--catalog-reader", "bi", "--catalog-projector", 'the "service"'])
    assert done.output.splitlines() == [
        'GRANT "commitlog_reader" TO "bi";',
        'GRANT "commitlog_projector" TO "the ""service""";',
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), 2),
        (errors.LogUnavailableError("x"), 5),
        (errors.CatalogUnavailableError("x"), 5),
        (errors.FencedError("x"), 75),
        (errors.LogLossError("x"), 1),
    ],
)
def test_exit_code_when_an_error_leaves_then_tells_its_kind(error: errors.CommitLogError, code: int) -> None:
    assert exit_code(error) == code


def test_services_when_run_by_up_then_those_of_serve() -> None:
    assert [each.name for each in SERVICES] == ["sequencer", "projector", "checkpointer"]
    assert SEQUENCER.command(SEQUENCER.arguments_after[75])[-2:] == ("sequencer", "--standby")


def test_json_formatter_when_there_is_an_exception_then_it_is_one_line() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        record = logging.LogRecord("commitlog.x", logging.ERROR, "", 0, "it %s", ("broke",), sys.exc_info())
    line = JsonFormatter("projector").format(record)
    assert "\n" not in line
    plain = json.loads(line)
    assert (plain["process"], plain["level"], plain["message"]) == ("projector", "error", "it broke")
    assert "second" in plain["exception"]


def test_json_formatter_when_fields_were_logged_then_has_them() -> None:
    record = logging.makeLogRecord({"msg": "it %s", "args": ("beats",), "seq": 7, "where": Path("x")})
    plain = json.loads(JsonFormatter("sequencer").format(record))
    assert (plain["message"], plain["seq"], plain["where"]) == ("it beats", 7, "x")
    assert not {"msg", "args", "levelno"} & plain.keys()


@pytest.mark.parametrize("where", ["", "t = threading.Thread(target=boom, name='worker'); t.start(); t.join(); "])
def test_log_as_json_when_something_breaks_then_its_traceback_is_in_a_line(where: str) -> None:
    code = (
        "import threading, warnings; from commitlog.ops.service.json_logs import log_as_json\n"
        "def boom(): raise ValueError('first\\nsecond')\n"
        f"log_as_json('projector'); warnings.warn('old'); {where}boom()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert "old" in lines[0]["message"]
    assert [line["level"] for line in lines[1:]] == ["critical"] * (2 if where else 1)
    assert all("in boom" in line["exception"] for line in lines[1:])
