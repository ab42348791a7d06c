"""`commitlog log` and `commitlog tail`: what they show of a log, and of which outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import click
import pytest
from cli_logs import CliLog

from commitlog.client import CommitLog
from commitlog.client.outcomes.graph import LANES_MAX, GraphRow, graph_rows
from commitlog.errors import ProposalRejectedError
from commitlog.ops.cli.history import entry_lines
from commitlog.testing import InMemoryCommitLog

START_MS = 4_000_000_000_678
START = "2096-10-02T07:06:40.678000Z"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CliLog:
    """A log whose outcomes are an hour apart: a table, two writers that overtake a third, who is refused."""
    clock = iter(range(START_MS - 3_600_000, START_MS + 10**9, 3_600_000))
    log = InMemoryCommitLog(clock_ms=lambda: next(clock))
    with log.transaction(writer_id="ddl") as tx:
        tx.create_table("t", {"id": "int64"})
    slow = log.transaction(writer_id="slow", base_snapshot_id=1)
    slow.alter("t").add_column("v", "int64")
    with log.transaction(writer_id="quick", message="x", author="ann") as tx:
        tx.rename_table("t", "u")
    with pytest.raises(ProposalRejectedError):
        slow.commit()
    return CliLog(log, monkeypatch)


def seqs(entries: list[dict[str, int]]) -> list[int]:
    return [each["seq"] for each in entries]


def test_log_when_shown_then_what_was_changed_stands_beside_a_short_message(cli: CliLog) -> None:
    head, refused, renamed, created = cli.lines("log")
    assert head == "   seq  snapshot   time (UTC)           writer  what"
    assert created == "     1  1          2096-10-02 07:06:40  ddl     create table: main.t"
    assert renamed == "     2  2          2096-10-02 08:06:40  quick   x (rename table: main.t, main.u)"
    assert refused.startswith(
        "     3  REJECTED   2096-10-02 09:06:40  slow    CONFLICT: alter table main.t - but snapshot 2"
    )


def test_log_when_the_terminal_is_narrow_then_no_line_is_wider(cli: CliLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("commitlog.ops.cli.history.shown_width", lambda: 80)
    for arguments in (["log"], ["log", "--graph"], ["tail", "--after", "0", "--no-follow"]):
        lines = cli.lines(*arguments)
        assert max(map(len, lines)) <= 80, arguments
        assert "by writer quick" in " ".join(" ".join(lines).split())


def test_log_when_a_text_would_steer_the_terminal_then_it_is_written_out(cli: CliLog) -> None:
    tx = cli.log.transaction(writer_id="w\x1b[2J")
    tx.drop_table("u")
    with pytest.raises(ProposalRejectedError):
        tx.commit()
    with cli.log.transaction(message="a\n\tb\u202e") as tx:
        tx.drop_table("u")
    shown = cli.run("log").stdout
    assert "  w\\x1b[2J  INVALID: " in shown
    assert "a b\\u202e (drop table: main.u)" in shown


def test_log_when_a_message_is_very_long_then_its_beginning_is_shown(cli: CliLog) -> None:
    with cli.log.transaction(message="m" * 3_000_000) as tx:
        tx.drop_table("u")
    for arguments in (["log"], ["tail", "--after", "0", "--no-follow"]):
        shown = "".join(cli.run(*arguments).stdout.split())
        assert f"{'m' * 1_000}...(droptable" in shown
        assert shown.count("m" * 500) == 2


def test_log_when_filtered_then_only_those(cli: CliLog) -> None:
    assert seqs(cli.json("log", "--table", "u")) == [3, 2]
    assert seqs(cli.json("log", "--table", "main.t")) == [2, 1]
    assert seqs(cli.json("log", "--writer", "slow")) == [3]
    assert seqs(cli.json("log", "--verdict", "committed", "-n", "1")) == [2]
    assert seqs(cli.json("log", "--since", "2096-10-02T08:06:40")) == [3, 2]
    assert seqs(cli.json("log", "--since", "1h", "--limit", "2")) == [3, 2]
    assert seqs(cli.json("log", "--before", "3")) == [2, 1]
    assert cli.lines("log", "--writer", "nobody") == ["no outcome matches"]
    assert cli.lines("log", "--before", "1") == ["no outcome matches"]


def test_tail_when_filtered_then_only_those(cli: CliLog) -> None:
    assert seqs(cli.json("tail", "--after", "0", "--no-follow", "--table", "u")) == [2, 3]
    assert seqs(cli.json("tail", "--after", "1", "--no-follow", "--verdict", "COMMITTED")) == [2]
    assert seqs(cli.json("tail", "--no-follow", "--since", "2096-10-02T08:06:40")) == [2, 3]
    assert seqs(cli.json("tail", "--no-follow", "--since", "2020-01-01", "--writer", "ddl")) == [1]
    assert seqs(cli.json("tail", "--no-follow", "--since", "1h")) == [1, 2, 3]
    assert seqs(cli.json("tail", "--no-follow", "--since", "2097-01-01")) == []
    assert "give only one of them" in cli.run("tail", "--after", "1", "--since", "1h", code=2).stderr


def test_tail_when_no_table_has_ever_had_the_name_then_says_so_and_goes_on(cli: CliLog) -> None:
    with cli.log.transaction() as tx:
        tx.create_table("trips", {"id": "int64"})
    done = cli.run("tail", "--no-follow", "--table", "trip")
    assert (done.stdout, done.stderr) == ("", "there is no table main.trip yet - did you mean main.trips?\n")
    for known in ("trips", "t"):
        assert cli.run("tail", "--no-follow", "--table", known).stderr == ""


@pytest.mark.parametrize("command", ["log", "tail"])
def test_since_when_it_is_no_moment_then_a_wrong_command_line(cli: CliLog, command: str) -> None:
    assert "'nope' is not a time: give one such as" in cli.run(command, "--since", "nope", code=2).stderr


def test_tail_when_followed_then_each_change_is_told(cli: CliLog) -> None:
    with cli.log.transaction(message="x", writer_id="w") as tx:
        tx.create_table("v", {"id": "int64"})
        tx.drop_table("u")
    created, renamed, refused, both = cli.lines("tail", "--after", "0", "--no-follow")
    assert created.endswith("  ddl  create table main.t (1 column)")
    assert renamed.endswith("  quick  x (rename table main.t to u)")
    assert "  slow  CONFLICT: alter table main." in refused
    assert both.endswith("  w  x (create table main.v (1 column), drop table main.u)")


def test_json_when_it_tells_a_time_then_in_one_form_everywhere(cli: CliLog) -> None:
    (_, _, created), (followed, *_) = cli.json("log"), cli.json("tail", "--after", "0", "--no-follow")
    assert created["decided_at"] == followed["decided_at"] == START
    assert created["tables"] == ["main.t"]
    shared = created.keys() & followed.keys()
    assert {"seq", "verdict", "snapshot_id", "writer_id", "proposal_id", "head_snapshot_id", "reason"} <= shared
    assert {name: created[name] for name in shared} == {name: followed[name] for name in shared}


def test_seq_before_when_asked_for_any_moment_then_the_last_one_decided_before_it(cli: CliLog) -> None:
    moments = ["2096-10-02T07:06:40.678", "2096-10-02T07:06:40.679", "2096-10-02T09:06:40.678", "2097-01-01"]
    assert [cli.log.seq_before(each) for each in moments] == [0, 1, 2, 3]
    assert InMemoryCommitLog().seq_before("2027-01-01") == 0


# --- the graph --------------------------------------------------------------------------------------------------------


def commit(log: CommitLog, base: int) -> None:
    with log.transaction(base_snapshot_id=base) as tx:
        tx.create_table(f"t{log.last_seq()}", {"id": "int64"})


def drawn(log: CommitLog) -> Iterator[str]:
    return (row.drawn for row in graph_rows(log.history()))


def test_graph_when_proposals_overtake_each_other_then_lanes_from_their_bases() -> None:
    log = InMemoryCommitLog()
    for base in (0, 1, 1, 1, 4, 3):
        commit(log, base)
    # Snapshots 6 to 1, each with its base: 3, 4, 1, 1, 1, 0.
    assert list(drawn(log)) == ["*─╮", "* │", "*─┼─╮", "*─┴─┼─╮", "*   │ │", "*───┴─╯"]


def test_graph_when_one_was_refused_then_its_lane_ends_in_an_x(cli: CliLog) -> None:
    _, refused, renamed, created = cli.lines("log", "--graph")
    assert [line[:3] for line in (refused, renamed, created)] == ["│ x", "* │", "*─╯"]


def test_graph_when_more_overtake_than_there_are_lanes_then_the_line_goes_on() -> None:
    log = InMemoryCommitLog()
    for base in [0, *[1] * 20]:
        commit(log, base)
    rows = list(drawn(log))
    assert max(map(len, rows)) == 1 + 2 * LANES_MAX
    assert rows[-1] == "*" + "─┴" * (LANES_MAX - 1) + "─╯"


def test_graph_when_only_ascii_can_be_shown_then_drawn_with_it() -> None:
    drawn, below = GraphRow("*─┼─╮ │ ╯ ┴ ┬", "│ │").in_ascii()
    assert (drawn.isascii(), below) == (True, "| |")


def test_graph_when_an_entry_takes_several_lines_then_the_lanes_go_through_all(
    cli: CliLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.ops.cli.history.shown_width", lambda: 80)
    _, refused, *others = cli.lines("log", "--graph")
    more = list(takewhile(lambda line: not line.startswith("*"), others))
    assert refused.startswith("│ x ")
    assert more
    assert all(line.startswith("│ │ ") for line in more)


def test_log_when_on_a_terminal_then_the_verdict_alone_is_coloured(cli: CliLog) -> None:
    created = entry_lines(cli.log.history()[-1], "created")
    assert created.startswith(f"     1  {click.style('1', fg='green')}          2096")


def test_graph_when_outcomes_would_be_left_out_then_refused(cli: CliLog) -> None:
    assert "draws all outcomes" in cli.run("log", "--graph", "--table", "t", code=2).stderr
    assert "is about the whole log" in cli.run("log", "--head-hash", "--table", "t", code=2).stderr
