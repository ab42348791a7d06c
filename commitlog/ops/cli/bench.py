"""`commitlog bench`: what this machine reaches."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.ops.cli.bench_tables import print_goals, print_peers, print_rates, told_of
from commitlog.ops.cli.options import json_option, print_json, print_table, settings_options, shown_steps
from commitlog.ops.cli.torture import torture_command

SPARK_PARTS = ("append", "read", "many-files", "delete", "python", "merge", "streams", "writers")
"""Of `commitlog.ops.bench.spark`, which is not imported where there is no Spark."""


@contextmanager
def _on_servers() -> Iterator[Callable[[str], None]]:
    """Shows each step. The servers are stopped on the way out, which the default of SIGTERM would not take."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with shown_steps() as say:
        yield say


repetitions_option = click.option(
    "--repetitions",
    "-r",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Times to repeat everything; figures are medians.",
)


@click.group("bench", invoke_without_command=True)
@click.option(
    "--proposals", "-n", type=click.IntRange(1_000), default=100_000, show_default=True, help="Size of the backlog."
)
@repetitions_option
@json_option
@settings_options
@click.pass_context
def bench_command(context: click.Context, settings: Settings, proposals: int, repetitions: int, as_json: bool) -> None:
    """Measure decisions and visible commits per second, and their latency, on servers of its own."""
    if context.invoked_subcommand is not None:
        return
    from commitlog.ops.bench.throughput import run_bench

    with _on_servers() as say:
        result = run_bench(settings, proposals=proposals, repetitions=repetitions, say=say)
    if as_json:
        print_json(result.as_dict())
        return
    print_table(
        [
            "proposals of one file",
            "bytes",
            "decided/s",
            "copied/s",
            "projected/s",
            "visible/s",
            "DuckLake/s",
            "CPU us each",
        ],
        [
            (
                each.kind,
                each.proposal_bytes,
                *(f"{rate:,.0f}" for rate in (each.decided_alone, each.copied, each.visible_alone, each.visible)),
                f"{each.inserted:,.0f}",
                f"{each.sequencer_cpu_us:.0f} / {each.copy_cpu_us:.0f} / {each.projector_cpu_us:.0f}",
            )
            for each in result.rates
        ],
        title=f"{proposals:,} proposals each, {told_of(repetitions)}; broker, sequencer, projector and PostgreSQL on "
        f"{result.cpus} CPUs, whose load was {result.load_before} before; the core {result.core}. Decided, copied and "
        "projected: each alone. CPU: of the sequencer, of the loop that copies, of the projector",
    )
    print_table(
        ["proposals", "receipt p50 / p99 ms", "visible p50 / p99 ms"],
        [
            (
                f"{each.per_second:,} a second" if each.per_second else "one at a time",
                f"{each.receipt_p50_ms:.2f} / {each.receipt_p99_ms:.2f}",
                f"{each.visible_p50_ms:.2f} / {each.visible_p99_ms:.2f}",
            )
            for each in result.latencies
        ],
        title="latency from publishing",
    )
    many = result.published_many
    click.echo(
        f"One process, one call of publish_many: {many.per_second:,.0f} answers/s, {many.client_cpu_us:.0f} us of its CPU "
        "each (no projector running)\n"
    )
    print_goals(result.goals())


@bench_command.command("decide", short_help="Measure one decision, without Kafka.")
@click.option(
    "--history",
    "histories",
    type=click.IntRange(2_000),
    multiple=True,
    default=(10_000, 100_000, 1_000_000),
    show_default=True,
    metavar="N",
)
@click.option(
    "--age",
    "ages",
    type=click.IntRange(0),
    multiple=True,
    default=(10, 1_000, 100_000),
    show_default=True,
    metavar="N",
    help="Age of the base; must be less than a history by more than 1,000.",
)
@click.option(
    "--appends",
    type=click.IntRange(1, 100_000),
    default=100_000,
    show_default=True,
    metavar="N",
    help="Appends since the base of a proposal with a filtered read.",
)
@json_option
def decide_command(histories: tuple[int, ...], ages: tuple[int, ...], appends: int, as_json: bool) -> None:
    """Measure one decision, without Kafka, by the history's length and the age of the base, both in snapshots."""
    from commitlog.ops.bench.decide import has_age, run_decide_bench

    if not any(has_age(history, age) for history in histories for age in ages):
        raise click.UsageError("no --history is longer than an --age by more than 1,000 snapshots")
    with shown_steps() as say:
        result = run_decide_bench(histories, ages, appends, say=say)
    if as_json:
        print_json(
            {
                "core": result.core,
                "proposal": {**dataclasses.asdict(result.proposal), "total_us": result.proposal.total_us},
                "costs": [{"history": c.history, "age": c.age, "decide_us": c.decide_us} for c in result.costs],
                "flatness": result.flatness,
                "search": dataclasses.asdict(result.search),
                "commit_us": result.commit_us,
                "memory_bytes": result.memory_bytes,
                "files": result.files,
                "goals": [goal.as_dict() for goal in result.goals()],
            }
        )
        return
    steps = dataclasses.asdict(result.proposal) | {"total_us": result.proposal.total_us}
    print_table(
        [name.removesuffix("_us") + " us" for name in steps],
        [tuple(f"{cost:.1f}" for cost in steps.values())],
        title=f"a proposal of one file, the core {result.core}",
    )
    rows = [(f"{each.history:,}", f"{each.age:,}", f"{each.decide_us:.1f}") for each in result.costs]
    print_table(["history", "base behind the head", "decide us"], rows)
    click.echo(
        f"largest over smallest: {result.flatness:.2f}; decide and replay of one append: {result.commit_us:.1f} us"
    )
    click.echo(f"memory: {result.memory_bytes / 2**20:,.0f} MiB at {result.files:,} live files")
    click.echo(f"the first search by a filter, which sums up what later ones know: {result.search.first_ms:,.0f} ms")
    print_goals(result.goals())


@bench_command.command("loop", short_help="Measure writers that wait for each answer.")
@click.option(
    "--writers", "-w", type=click.IntRange(1), multiple=True, default=(1, 4, 8), show_default=True, metavar="N"
)
@click.option(
    "--seconds", "-s", type=click.FloatRange(1), default=5.0, show_default=True, help="Length of each measurement."
)
@click.option(
    "--tables",
    type=click.Choice(("own", "one", "both")),
    default="both",
    show_default=True,
    help="Whether each writer has its own table, or all share one.",
)
@click.option(
    "--kind",
    type=click.Choice(("append", "transaction", "both", "gateway")),
    default="both",
    show_default=True,
    help="Commit by a call, by a transaction, or by DuckDB's client through the gateway.",
)
@click.option(
    "--threads", is_flag=True, help="Also measure 64 and 256 writers as threads of 4 processes, and 32 processes."
)
@click.option("--stock/--no-stock", default=True, show_default=True, help="Also measure DuckLake's own client.")
@repetitions_option
@json_option
@settings_options
def loop_command(
    settings: Settings,
    writers: tuple[int, ...],
    seconds: float,
    tables: str,
    kind: str,
    threads: bool,
    stock: bool,
    repetitions: int,
    as_json: bool,
) -> None:
    """Measure writers that wait for each answer, one small file per commit, on servers of its own."""
    from commitlog.ops.bench.loop import KINDS, TABLES, run_loop_bench
    from commitlog.ops.bench.turns import ROWS

    with _on_servers() as say:
        result = run_loop_bench(
            settings,
            writers=writers,
            seconds=seconds,
            tables=TABLES if tables == "both" else (tables,),
            kinds=KINDS if kind == "both" else (kind,),
            threads=threads,
            stock=stock,
            repetitions=repetitions,
            say=say,
        )
    if as_json:
        print_json(result.as_dict())
        return
    print_rates(
        result.rates,
        title=f"one file of {ROWS} rows a commit, {seconds:.0f} s each, {told_of(repetitions)}; all on {result.cpus} CPUs, "
        f"whose load was {result.load_before} before; the core {result.core}",
    )
    idle = ", ".join(f"{name} {percent} %" for name, percent in result.idle_percent.items())
    click.echo(f"idle, of one core: {idle}")
    print_goals(result.goals())


@bench_command.command("peers", short_help="Measure the same loop with DuckLake, Delta and Iceberg.")
@click.option("--writers", "-w", type=click.IntRange(1), multiple=True, default=(1, 2, 4, 8, 16, 32), metavar="N")
@click.option(
    "--seconds", "-s", type=click.FloatRange(1), default=5.0, show_default=True, help="Length of each measurement."
)
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE", help="Also draw the result, as SVG.")
@repetitions_option
@json_option
@settings_options
def peers_command(
    settings: Settings,
    writers: tuple[int, ...],
    seconds: float,
    picture: Path | None,
    repetitions: int,
    as_json: bool,
) -> None:
    """Measure the same closed loop with commitlog and with DuckLake's, Delta's and Iceberg's Python clients."""
    try:
        from commitlog.ops.bench.peers import run_peers_bench
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed: pip install 'commitlog[peers,duckdb,local]'"
        ) from error
    from commitlog.ops.bench.peers_picture import draw
    from commitlog.ops.bench.turns import ROWS

    with _on_servers() as say:
        result = run_peers_bench(settings, writers=writers, seconds=seconds, repetitions=repetitions, say=say)
    told = f"one file of {ROWS} rows a commit, {result.cpus} CPUs for clients and servers, {told_of(repetitions)}"
    if picture is not None:
        picture.write_text(draw(result.curves(), told), encoding="utf-8")
    if as_json:
        print_json(result.as_dict())
        return
    print_peers(result.rates, title=f"{told}; load before {result.load_before}; the core {result.core}")


@bench_command.command("takeover", short_help="Measure how long a writer waits for a takeover.")
@click.option("--times", "-n", type=click.IntRange(1), default=50, show_default=True)
@click.option("--way", type=click.Choice(("kill", "terminate", "freeze")), default="kill", show_default=True)
@json_option
@settings_options
def takeover_command(settings: Settings, times: int, way: str, as_json: bool) -> None:
    """Measure how long a writer waits when the active sequencer ends and a standby is ready, on servers of its own."""
    from commitlog.ops.bench.takeover import run_takeover_bench

    with _on_servers() as say:
        result = run_takeover_bench(settings, times=times, way=way, say=say)
    if as_json:
        print_json(result.as_dict())
        return
    print_table(
        ["the active one ends by", "takeovers", "p50 ms", "p99 ms", "longest ms", "errors of the writer"],
        [(way, times, result.p50_ms, result.p99_ms, round(max(result.waits_ms), 1), len(result.errors))],
        title=f"from its end to the next answer, {result.answers:,} answers; on {result.cpus} CPUs, whose load was "
        f"{result.load_before} before; the core {result.core}",
    )


@bench_command.command("replicate", short_help="Measure a link between two sites.")
@click.option(
    "--row-changes", "-n", type=click.IntRange(1_000), default=50_000, show_default=True, help="Size of the backlog."
)
@click.option("--rows", type=click.IntRange(1, 1_000), default=10, show_default=True, help="Row changes per snapshot.")
@click.option(
    "--seconds", "-s", type=click.FloatRange(1), default=10.0, show_default=True, help="Seconds before each kill."
)
@click.option("--kills", type=click.IntRange(1), default=2, show_default=True, help="Times to kill the link.")
@json_option
@settings_options
def replicate_command(
    settings: Settings, row_changes: int, rows: int, seconds: float, kills: int, as_json: bool
) -> None:
    """Measure a link between two sites: what it brings per second, how late, and after a kill, on servers of its own."""
    from commitlog.ops.bench.replicate import STEADY_PER_SECOND, run_replicate_bench

    with _on_servers() as say:
        result = run_replicate_bench(
            settings, row_changes=row_changes, rows=rows, seconds=seconds, kills=kills, say=say
        )
    if as_json:
        print_json(result.as_dict())
        return
    print_table(
        ["rows a snapshot", "brought/s", "visible/s", "lag p50 / p99 ms", "resume s"],
        [
            (
                rows,
                f"{result.per_second:,.0f}",
                f"{result.visible_per_second:,.0f}",
                f"{result.lag_p50_ms:.0f} / {result.lag_p99_ms:.0f}",
                ", ".join(f"{each:.2f}" for each in result.resume_s),
            )
        ],
        title=f"{row_changes:,} row changes, then {STEADY_PER_SECOND:,} a second; both sites on {result.cpus} CPUs, whose load "
        f"was {result.load_before} before; the core {result.core}",
    )
    print_table(
        ["part", "CPU us a row change of the backlog"], [(name, f"{us:.0f}") for name, us in result.cpu_us.items()]
    )
    print_goals(result.goals())


@bench_command.command("restart", short_help="Measure how long a sequencer takes to start.")
@click.option(
    "--outcomes", "-n", type=click.IntRange(100_000), default=10_000_000, show_default=True, help="Outcomes in the log."
)
@repetitions_option
@json_option
@settings_options
def restart_command(settings: Settings, outcomes: int, repetitions: int, as_json: bool) -> None:
    """Measure how long a sequencer needs from its start until it serves, with a checkpoint, on servers of its own."""
    from commitlog.ops.bench.restart import run_restart_bench

    with _on_servers() as say:
        result = run_restart_bench(settings, outcomes=outcomes, repetitions=repetitions, say=say)
    if as_json:
        print_json(result.as_dict())
        return
    click.echo(
        f"{result.replayed:,} outcomes after a checkpoint of {result.checkpoint_bytes / 2**20:,.0f} MiB, written in "
        f"{result.write_s:.1f} s; {result.cpus} CPUs, whose load was {result.load_before} before; the core {result.core}"
    )
    print_goals(result.goals())


@bench_command.command("memory")
@click.option("--files", "-n", type=click.IntRange(10_000), default=10_000_000, show_default=True, help="Live files.")
@click.option(
    "--rate",
    "rates",
    type=click.IntRange(1_000),
    multiple=True,
    default=(10_000, 40_000),
    show_default=True,
    metavar="N",
    help="Proposals per second, each of which is remembered for a minute.",
)
@json_option
def memory_command(files: int, rates: tuple[int, ...], as_json: bool) -> None:
    """Measure the memory that a sequencer's state takes, without Kafka."""
    from commitlog.ops.bench.memory import run_memory_bench

    with shown_steps() as say:
        weights = run_memory_bench(files, rates, say=say)
    if as_json:
        print_json([each.as_dict() for each in weights])
        return
    rows = [(f"{each.per_second:,}", f"{each.files:,}", f"{each.memory_mib:,.0f}") for each in weights]
    print_table(["proposals/s", "files", "MiB"], rows, title=f"the core {weights[0].core}")
    print_goals([goal for each in weights for goal in each.goals()])


@bench_command.command("catalog", short_help="Measure how long it takes to list a table's files.")
@click.option("--files", type=click.IntRange(10_000), default=1_000_000, show_default=True, metavar="N")
@json_option
def catalog_command(files: int, as_json: bool) -> None:
    """Measure how long it takes to list a table's files at a snapshot, in a catalog of so many snapshots and files."""
    from commitlog.ops.bench.catalog import run_catalog_bench

    with _on_servers() as say:
        costs = run_catalog_bench(files=files, say=say)
    if as_json:
        print_json([dataclasses.asdict(each) for each in costs])
        return
    rows = [(each.history, f"{each.snapshot_id:,}", f"{each.live:,}", f"{each.list_ms:.1f}") for each in costs]
    print_table(["history", "at snapshot", "files listed", "ms"], rows)


@bench_command.command("spark", short_help="Compare Spark on tables with Spark on plain Parquet.")
@click.option("--rows", "-n", type=click.IntRange(1_000), default=5_000_000, show_default=True)
@click.option("--repetitions", "-r", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--part", "-p", "parts", multiple=True, type=click.Choice(SPARK_PARTS), help="Run only this part; can be repeated."
)
@json_option
@settings_options
def spark_command(settings: Settings, rows: int, repetitions: int, parts: Sequence[str], as_json: bool) -> None:
    """Measure Spark on tables against Spark on plain Parquet folders, by turns, on servers of its own."""
    try:
        from commitlog.ops.bench.spark import run_spark_bench
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed: pip install 'commitlog[spark,local]'") from error

    with _on_servers() as say:
        result = run_spark_bench(settings, rows=rows, repetitions=repetitions, parts=parts, say=say)
    if as_json:
        print_json(result.as_dict())
        return
    print_table(
        ["", "plain s", "commitlog s", "ratio", "may be", ""],
        [
            (
                each.name,
                f"{each.plain_s:.3f}",
                f"{each.commitlog_s:.3f}",
                f"{each.ratio:.2f}",
                f"{each.ratio_max:.2f}",
                "reached" if each.is_reached else "missed",
            )
            for each in result.comparisons
        ],
        title=f"{rows:,} rows of 5 columns, {told_of(repetitions)}, on {result.cpus} CPUs, whose load was "
        f"{result.load_before} before; the core {result.core}",
    )
    click.echo(f"refused appends: {result.refused}")


bench_command.add_command(torture_command)
