"""commitlog simulate: run a whole log in memory, and have everything happen to it that can."""

from __future__ import annotations

import json

import click

from commitlog.errors import ConfigurationError


@click.command("simulate")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many seeds to run, one after another.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="Steps with faults, before everything is left to recover.",
)
@click.option("--story", is_flag=True, help="Print what happens, one event per line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate_command(seed: int, seeds: int, steps: int, *, story: bool, as_json: bool) -> None:
    """Run the real sequencers, writers, checkpointer and readers of a log in memory.

    Nothing is started and nothing is read: Kafka, the catalog, the machines and their clocks are simulated, with
    crashes, pauses, outages, and lost, late and repeated messages chosen by the seed. The same seed gives the same
    run. When a promise is broken, prints a shortened run that breaks it and exits with 1.
    """
    try:
        from commitlog.simulation import running
    except ModuleNotFoundError as missing:
        raise ConfigurationError(f"{missing.name} is not installed: pip install 'commitlog[simulation]'") from None
    lines: list[str] | None = [] if story else None
    for each in range(seed, seed + seeds):
        broken = running.run(each, steps, lines)
        if broken is not None:
            short = running.shortened(broken, steps)
            told = {"seed": each, "steps": steps, "broken": str(short.error), "story": list(short.trace)}
            click.echo(json.dumps(told) if as_json else str(short))
            raise SystemExit(1)
    if lines and not as_json:
        click.echo("\n".join(lines))
    held = {"seed": seed, "seeds": seeds, "steps": steps, "broken": None, "story": lines or []}
    click.echo(
        json.dumps(held) if as_json else f"{seeds:,} seeds from {seed} of {steps:,} steps: every promise was kept"
    )
