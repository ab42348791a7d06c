"""Examples of every command, which its ``--help`` ends with. A test takes each apart as the command line would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "up": [
        "commitlog up",
        "commitlog up --detach",
        "commitlog up --home /srv/lake --log orders",
        "commitlog up --servers-only --detach",
    ],
    "down": ["commitlog down", "commitlog down --home /srv/lake"],
    "status": ["commitlog status", "commitlog status --json"],
    "gateway": ["commitlog gateway", "commitlog gateway --host 0.0.0.0 --port 5442"],
    "ui": ["commitlog ui", "commitlog ui --host 0.0.0.0 --port 8642"],
    "init": ["commitlog init", "commitlog init --adopt postgresql://me@db/lake --dry-run"],
    "serve": ["commitlog serve", "commitlog serve --config /etc/commitlog.toml"],
    "sequencer": ["commitlog sequencer", "commitlog sequencer --standby"],
    "projector": ["commitlog projector"],
    "carrier": ["commitlog carrier"],
    "checkpointer": ["commitlog checkpointer", "commitlog checkpointer --once"],
    "load": [
        "commitlog load main.flights flights.csv --create --partition-by 'month(day)'",
        "commitlog load main.flights 2026-03-02.parquet --key nightly:2026-03-02",
        "zcat flights.jsonl.gz | commitlog load main.flights - --format jsonl",
    ],
    "submit": [
        "commitlog submit --example CREATE_TABLE > proposals.jsonl",
        "commitlog submit proposals.jsonl",
        "commitlog submit --example CREATE_SCHEMA | commitlog submit - --json",
    ],
    "outcome": ["commitlog outcome 01934f3e-7c00-7000-8000-000000000001"],
    "explain": ["commitlog explain 01934f3e-7c00-7000-8000-000000000001"],
    "log": [
        "commitlog log --limit 50",
        "commitlog log --graph",
        "commitlog log --table main.flights --since 7d",
        "commitlog log --verdict REJECTED --writer etl-7 --json",
        "commitlog log --head-hash",
    ],
    "tables": ["commitlog tables", "commitlog tables --at yesterday --json"],
    "show": ["commitlog show 42"],
    "diff": ["commitlog diff 40", "commitlog diff 40 42 --rows", "commitlog diff 7d"],
    "sql": [
        "commitlog sql 'SELECT count(*) FROM flights'",
        "commitlog sql 'FROM flights LIMIT 5' --at 42 --csv",
    ],
    "duckdb": ['duckdb -cmd "$(commitlog duckdb)"', 'duckdb -cmd "$(commitlog duckdb --read-only)"'],
    "tail": [
        "commitlog tail",
        "commitlog tail --after 100 --no-follow --json",
        "commitlog tail --since 1h --table main.flights",
    ],
    "archive": [
        "commitlog archive --to s3://bucket/archive",
        "commitlog archive --to s3://bucket/archive --trim --keep 30d",
    ],
    "backup": ["commitlog backup --to s3://bucket/archive"],
    "restore": ["commitlog restore --from s3://bucket/archive"],
    "verify": [
        "commitlog verify",
        "commitlog verify --archive s3://bucket/archive --no-catalog",
        "commitlog verify --chain",
    ],
    "replay": ["commitlog replay proposals.jsonl", "commitlog replay --from-log main --granularity ROW"],
    "simulate": ["commitlog simulate --seed 7 --story", "commitlog simulate --seeds 100 --steps 300"],
    "catalog": ["commitlog catalog rebuild", "commitlog catalog export --to frozen"],
    "catalog rebuild": ["commitlog catalog rebuild", "commitlog catalog rebuild --restart"],
    "catalog migrate": ["commitlog catalog migrate --pre", "commitlog catalog migrate"],
    "catalog export": [
        "commitlog catalog export --to frozen",
        "commitlog catalog export --to frozen --snapshot 42 --copy-files",
    ],
    "acl": ["commitlog acl print --writer etl --reader dashboards"],
    "acl print": ["commitlog acl print --service commitlog --writer etl --writer spark"],
    "acl apply": ["commitlog acl apply --writer etl --catalog-reader analysts"],
    "config": ["commitlog config show", "commitlog config reference"],
    "config show": ["commitlog config show", "commitlog config show --log orders --json"],
    "config reference": ["commitlog config reference > settings.md"],
    "node": ["commitlog node paris --priority 1", "commitlog node --json"],
    "replicate": ["commitlog replicate --from paris --to tokyo", "commitlog replicate --from tokyo --to paris --once"],
    "replicate divergent": ["commitlog replicate divergent", "commitlog replicate divergent --json"],
    "replicate settle": [
        """commitlog replicate settle main.users '{"id": 3}' take-local""",
        """commitlog replicate settle main.t '{"id": 3}' write '{"id": 3, "v": "b"}'""",
    ],
    "relay": ["commitlog relay --registry http://localhost:8081"],
    "digest": ["""commitlog digest compare '{"node": "N1", ...}' '{"node": "N2", ...}'"""],
    "digest compare": [
        """commitlog digest compare '{"node": "N1", ...}' '{"node": "N2", ...}'""",
    ],
    "manual": ["commitlog manual", "commitlog manual invalid", "commitlog manual commands"],
    "doctor": ["commitlog doctor", "commitlog doctor --no-storage --json"],
    "clean": ["commitlog clean --dry-run", "commitlog clean --older-than 2w --yes"],
    "bench": ["commitlog bench", "commitlog bench --proposals 20000 --repetitions 3 --json"],
    "bench catalog": ["commitlog bench catalog"],
    "bench decide": ["commitlog bench decide"],
    "bench loop": ["commitlog bench loop"],
    "bench memory": ["commitlog bench memory"],
    "bench peers": ["commitlog bench peers"],
    "bench restart": ["commitlog bench restart"],
    "bench spark": ["commitlog bench spark"],
    "bench torture": (
        "commitlog bench torture --faults 50 --seed 7",
        "commitlog bench torture -n 1000 --for 3600 --json",
        "commitlog bench torture --mostly 'restart the broker'",
    ),
    "bench takeover": ["commitlog bench takeover"],
    "bench replicate": ["commitlog bench replicate", "commitlog bench replicate --rows 1 --row-changes 20000"],
    "demo": ["commitlog demo", "commitlog demo --sites"],
}
"""By the command's words after ``commitlog``."""


def epilog_of(command: str) -> str:
    """What the help of a command ends with; ``\\b`` keeps click from filling the lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
