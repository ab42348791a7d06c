"""What `deploy/` and docker-compose.yml say of the program is so: settings, commands, ports and paths of probes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from kubernetes_validate import validate
from prometheus_client.metrics_core import Metric

from commitlog.catalog.guard import ROLES
from commitlog.config import Settings
from commitlog.observing.lag import Lag
from commitlog.ops.cli import cli
from commitlog.ops.service.endpoint import PORTS, endpoint
from commitlog.ops.service.measures import Measures

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kubernetes/commitlog.yaml").read_text(encoding="utf-8")))
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
UNIT = (DEPLOY / "systemd/commitlog.service").read_text(encoding="utf-8")
DEPLOYING = (ROOT / "docs/deploying.md").read_text(encoding="utf-8")
KUBERNETES = "1.33"
VARIABLE = re.compile(r"\bCOMMITLOG_[A-Z_]+\b")


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["kind"] == kind]


def container() -> dict[str, Any]:
    [stateful] = of_kind("StatefulSet")
    [only] = stateful["spec"]["template"]["spec"]["containers"]
    return only  # type: ignore[no-any-return]


def first_ports() -> dict[str, int]:
    """Where each service listens unless it is told otherwise."""
    settings = Settings.load(environment={})
    return {name: settings.metrics_port + number for number, name in enumerate(PORTS)}


@pytest.mark.parametrize("resource", OBJECTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_kubernetes_object_then_is_one_that_kubernetes_takes(resource: dict[str, Any]) -> None:
    validate(resource, KUBERNETES, strict=True)


def test_kubernetes_selectors_then_find_the_pods() -> None:
    [stateful] = of_kind("StatefulSet")
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert stateful["spec"]["selector"]["matchLabels"] == labels
    for each in of_kind("Service"):
        assert each["spec"]["selector"] == labels
    [budget] = of_kind("PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert stateful["spec"]["serviceName"] in {each["metadata"]["name"] for each in of_kind("Service")}
    assert [image["name"] for image in KUSTOMIZATION["images"]] == [container()["image"]]
    assert {each.get("configMapRef", each.get("secretRef"))["name"] for each in container()["envFrom"]} == {"commitlog"}
    for name in KUSTOMIZATION["resources"]:
        assert (DEPLOY / "kubernetes" / name).exists()


def test_kubernetes_pods_then_none_waits_for_another_that_cannot_start() -> None:
    [stateful] = of_kind("StatefulSet")
    assert stateful["spec"]["replicas"] == 2
    assert stateful["spec"]["podManagementPolicy"] == "Parallel"
    assert "updateStrategy" not in stateful["spec"], "one after the other"


def test_kubernetes_ports_then_are_those_where_services_listen() -> None:
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    page = ports.pop("page")
    assert page == Settings.load(environment={}).ui_port
    assert ports.pop("duckdb") == Settings.load(environment={}).gateway_port
    told = {name.removesuffix("-measures"): port for name, port in ports.items()}
    # There are no programs for a carrier.
    assert {"name": "COMMITLOG_CARRIER_SOCKET", "value": "off"} in container()["env"]
    assert told == {name: port for name, port in first_ports().items() if name != "carrier"}
    for service in of_kind("Service"):
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= {*ports, "page", "duckdb"}


class WatchedNothing:
    service = "serve"
    lags: tuple[Lag, ...] = ()

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return iter(())

    def problem(self) -> str | None:
        return None


def test_probes_then_ask_what_is_answered(tmp_path: Path) -> None:
    probes = [container()[kind]["httpGet"] for kind in ("readinessProbe", "livenessProbe")]
    with endpoint(Settings.load(environment={}, home=tmp_path, metrics_port=0), WatchedNothing()) as address:
        for probe in probes:
            assert probe["port"] == "serve"
            with urllib.request.urlopen(address.rstrip("/") + probe["path"], timeout=60) as answer:
                assert answer.status == 200


@pytest.mark.parametrize(
    "path",
    ["docker-compose.yml", *(str(path.relative_to(ROOT)) for path in sorted(DEPLOY.rglob("*")) if path.is_file())],
)
def test_variables_then_are_settings(path: str) -> None:
    known = set(Settings.load(environment={}).environment()) | {"COMMITLOG_UI_TOKEN"}
    known |= set(VARIABLE.findall((ROOT / "docs/settings.md").read_text(encoding="utf-8")))
    found = set(VARIABLE.findall((ROOT / path).read_text(encoding="utf-8")))
    # Those of Kafka are options of its client, which looks at their names itself.
    assert {name for name in found if not name.startswith("COMMITLOG_KAFKA_")} <= known


def commands() -> list[list[str]]:
    [started] = re.findall(r"^ExecStart=(.+)$", UNIT, re.MULTILINE)
    program, *arguments = shlex.split(started)
    assert program.endswith("/commitlog")
    return [arguments, container()["args"]]


@pytest.mark.parametrize("arguments", commands(), ids=["systemd", "kubernetes"])
def test_command_then_is_one_with_these_options(arguments: list[str]) -> None:
    name, *options = arguments
    context = click.Context(cli, **cli.context_settings)
    command = cli.get_command(context, name)
    assert command is not None
    command.make_parser(click.Context(command, context)).parse_args(list(options))


def test_unit_then_its_home_is_one_that_it_may_look_into_and_that_of_commands_run_as_it_is() -> None:
    lines = UNIT.splitlines()
    assert "ProtectHome=yes" in lines
    [state] = [line.partition("=")[2] for line in lines if line.startswith("StateDirectory=")]
    told = (DEPLOY / "systemd/commitlog.env").read_text(encoding="utf-8").splitlines()
    assert {f"HOME=/var/lib/{state}", f"COMMITLOG_HOME=/var/lib/{state}"} <= {*told}
    [run] = re.findall(r"^systemd-run (.+?[^\\])$", DEPLOYING, re.MULTILINE | re.DOTALL)
    options = [option.removeprefix("--property=") for option in shlex.split(run)]
    [user] = [line.partition("=")[2] for line in lines if line.startswith("User=")]
    as_unit = {"EnvironmentFile", "WorkingDirectory"}
    settings = {line for line in lines if line.partition("=")[0] in as_unit}
    assert {*options} >= {f"--uid={user}", *settings}


def test_image_then_is_sent_what_it_copies_and_nothing_else_of_a_checkout() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert let_through == {name for each in copies for name in each.split()}
    assert "*" in ignored


def test_compose_then_asks_for_health_where_serve_tells_it() -> None:
    service = COMPOSE["services"]["commitlog"]
    assert f"http://127.0.0.1:{first_ports()['serve']}/readyz" in " ".join(service["healthcheck"]["test"])
    assert set(service["depends_on"]) < set(COMPOSE["services"])
    assert service["environment"]["COMMITLOG_CARRIER_SOCKET"] == "off"
    assert f"127.0.0.1:{first_ports()['sequencer']}-{first_ports()['relay']}:" in " ".join(service["ports"])


def test_prometheus_then_asks_every_service() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    [targets] = [each["targets"] for job in scraped for each in job["static_configs"]]
    # Links have the ports after those of the services.
    first_link = max(first_ports().values()) + 1
    assert targets == [f"127.0.0.1:{port}" for port in (*first_ports().values(), first_link)]


def test_compose_when_a_profile_is_started_then_it_is_whole_and_nobody_serves_as_a_superuser() -> None:
    services = COMPOSE["services"]
    started = {
        profile: {name for name, each in services.items() if profile in each.get("profiles", [profile])}
        for profile in ("dev", "single", "three")
    }
    assert started["dev"] == {"postgres", "kafka"}
    assert started["single"] == {*started["dev"], "commitlog"}
    assert started["three"] == {"postgres", "kafka-1", "kafka-2", "kafka-3", "owner", "commitlog-1", "commitlog-2"}
    for profile, names in started.items():
        assert {other for name in names for other in services[name].get("depends_on", ())} <= names, profile
    for name in ("commitlog", "commitlog-1", "commitlog-2"):
        told = services[name]["environment"]
        assert told["COMMITLOG_DATABASE_URL"].startswith("postgresql://commitlog:")
        assert told.get("COMMITLOG_KAFKA_SASL_USERNAME", "commitlog") == "commitlog"
    supers = services["kafka-1"]["environment"]["KAFKA_SUPER_USERS"].split(";")
    assert "User:commitlog" not in supers
    roles = (DEPLOY / "compose/database.sh").read_text(encoding="utf-8")
    assert re.search(r"^CREATE ROLE commitlog LOGIN PASSWORD :'service';$", roles, re.MULTILINE), "and no rights beside"
    # Which is why those that a catalog opens itself to are made for it.
    assert set(re.findall(r"^CREATE ROLE (\w+) NOLOGIN;$", roles, re.MULTILINE)) == set(ROLES)


def test_compose_when_the_lake_is_in_a_store_then_its_services_are_given_what_reaches_it() -> None:
    for name in ("commitlog", "owner", "commitlog-1", "commitlog-2"):
        told = COMPOSE["services"][name]["environment"]
        # A name alone is given on as it is, or not at all: an empty one would be taken for a key.
        passed_on = {variable for variable, value in told.items() if value is None}
        assert passed_on >= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"}, name


def test_compose_variables_then_are_those_that_the_script_makes_or_have_a_value() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    made = re.findall(r"^(\w+)=\$\(", (DEPLOY / "compose/secrets.sh").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"\$\{(\w+)(?!\w|:-)", text)) == set(made)


def test_secrets_when_openssl_is_missing_at_first_then_the_next_run_makes_them_all(tmp_path: Path) -> None:
    script, programs = tmp_path / "deploy/compose/secrets.sh", tmp_path / "programs"
    for folder in (script.parent, programs):
        folder.mkdir(parents=True)
    shutil.copy(DEPLOY / "compose/secrets.sh", script)
    for name in ("dirname", "cat", "tr", "mkdir", "rm", "mv", "chmod"):
        (programs / name).symlink_to(str(shutil.which(name)))
    lacking = subprocess.run(["/bin/sh", script], env={"PATH": str(programs)}, capture_output=True, text=True)
    assert lacking.returncode != 0
    assert "openssl" in lacking.stderr
    subprocess.run(["/bin/sh", script], check=True)
    made = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text(encoding="utf-8").splitlines())
    assert len(made) == 8
    assert all(made.values()), made
    for broker in ("kafka-1", "kafka-2", "kafka-3"):
        ssl.create_default_context().load_cert_chain(script.parent / f"secrets/{broker}.pem")


def test_secrets_when_certificates_end_soon_then_these_are_made_anew_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "deploy/compose/secrets.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(DEPLOY / "compose/secrets.sh", script)

    def made(days: int) -> dict[str, str]:
        subprocess.run(["/bin/sh", script], check=True, env={**os.environ, "DAYS": str(days)})
        folder = script.parent / "secrets"
        trusting = ssl.create_default_context(cafile=str(folder / "authority.pem"))
        assert len(trusting.get_ca_certs()) == 1
        for broker in ("kafka-1", "kafka-2", "kafka-3"):
            place = str(folder / f"{broker}.pem")
            subprocess.run(["openssl", "verify", "-CAfile", folder / "authority.pem", place], check=True)
        return {each.name: each.read_text(encoding="utf-8") for each in (tmp_path / ".env", *folder.glob("*.pem"))}

    ending, renewed = made(20), made(100)
    assert {name for name in ending if ending[name] != renewed[name]} == {*ending} - {".env"}
    (script.parent / "secrets/kafka-2.pem").unlink()
    again = made(100)
    assert {name for name in renewed if renewed[name] != again[name]} == {"kafka-2.pem"}
    assert made(100) == again


def test_writer_of_the_host_then_is_told_of_brokers_and_catalog_where_compose_has_them() -> None:
    [block] = re.findall(r"```text\n((?:export .*\n)+)```", DEPLOYING)
    told = dict(re.findall(r"(COMMITLOG_\w+)=(\S+)", block))
    brokers = [COMPOSE["services"][f"kafka-{number}"]["ports"] for number in (1, 2, 3)]
    assert told["COMMITLOG_BOOTSTRAP_SERVERS"].split(",") == [port.rpartition(":")[0] for [port] in brokers]
    [port] = COMPOSE["services"]["postgres"]["ports"]
    assert told["COMMITLOG_DATABASE_URL"] == f"postgresql://reader:...@{port.rpartition(':')[0]}/commitlog"
