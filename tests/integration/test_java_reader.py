"""The reader in Java that docs/java.md shows: it accepts what the rule says, reads a real log, and is answered by it.

Its jars are those of the embedded broker and of pyspark: nothing more is installed for it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

from commitlog import CommitLog
from commitlog.config import Settings
from commitlog.local.jars import ensure_jars
from commitlog.local.java import find_java

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "docs/java/LogReader.java"
SCHEMAS = ROOT / "schemas"
FIXTURE = json.loads((ROOT / "docs/results-fixture.json").read_text(encoding="utf-8"))["logs"]
FROM_SPARK = ("avro-1.*", "jackson-*", "lz4-java-*")
TIMEOUT_S = 240


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How the program is run: compiled once for all tests here."""
    program, compiled = find_java(), tmp_path_factory.mktemp("java")
    brokers = ensure_jars(Path.home() / ".cache/commitlog", program)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    sparks = [jar for name in FROM_SPARK for jar in (Path(spec.origin).parent / "jars").glob(f"{name}.jar")]
    jars = [jar for jar in brokers if jar.name.startswith(("kafka-clients", "slf4j", "snappy", "zstd"))] + sparks
    path = os.pathsep.join(map(str, jars))
    compiler = [program, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    ended = subprocess.run(
        [*compiler, "-cp", path, "-d", compiled, PROGRAM],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, f"a JDK of version 17 or later is needed (default-jdk-headless):\n{ended.stderr}"
    return [str(program), "-Xshare:auto", "-cp", f"{compiled}{os.pathsep}{path}", "LogReader"]


def run(java: list[str], *arguments: object, given: str = "") -> list[str]:
    command = [*java, *map(str, arguments)]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_rule_in_java_when_given_the_fixture_then_accepts_and_stops_as_it_says(java: list[str]) -> None:
    given, expected = [], []
    for name, log in FIXTURE.items():
        given += [f"log {name}", *(f"{each['offset']} {each['value'] or '-'}" for each in log["records"])]
        accepted = [(each["offset"], each["epoch"], each["seq"], each["hash"]) for each in log["accepted"]]
        stops = [] if log["stops_at"] is None else [f"stops {log['stops_at']}"]
        expected += [f"log {name}", *(" ".join(map(str, each)) for each in accepted), *stops]
    assert run(java, "check", SCHEMAS, given="\n".join(given)) == expected


@pytest.mark.usefixtures("deciding")
def test_log_when_java_proposes_and_reads_then_answered_and_told_every_verdict(
    java: list[str], settings: Settings, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(f"bootstrap.servers={settings.bootstrap_servers}\n", encoding="utf-8")
    with CommitLog.connect(settings=settings) as log:
        with log.transaction() as tx:
            tx.create_table("main.flights", {"id": "int64"})
        proposed = run(java, "propose", SCHEMAS, settings.log, properties, "from-java", "made_in_java")
        again = run(java, "propose", SCHEMAS, settings.log, properties, "from-java", "made_in_java")
        assert proposed == ["COMMITTED 2 null null"]
        assert again[0].startswith("REJECTED null INVALID ")
        told = [f"{each.seq} {each.verdict} {each.snapshot_id or 'null'}" for each in log.subscribe(follow=False)]
        refused, made = log.history(2)
        assert (made.writer_id, made.message, made.snapshot_id) == ("from-java", "from Java", 2)
        assert refused.verdict == "REJECTED"
    assert run(java, "read", SCHEMAS, settings.log, properties) == told
